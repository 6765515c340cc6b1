"""Runs one epoch: streams flow from the reading engines through the units into memory.

Whole streams are arrays, so each unit computes all its frames at once. The one place where frames depend on earlier
frames is the accumulator loop of a CONVACC chain (`run_chain`).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from atonc.machine.base.errors import InputError, NotModelledError
from atonc.machine.base.frozen import dataclass
from atonc.machine.emu.bus import AddressSpace, canonical
from atonc.machine.hw.epoch import Epoch
from atonc.machine.hw.fields import changed, not_modelled
from atonc.machine.hw.limits import SUM_LIMIT
from atonc.machine.hw.memoise import memoise
from atonc.machine.hw.stream import Array, Ints, Stream, limits
from atonc.machine.hw.units import activ, arith, convacc, decompress, pool, stream_engine
from atonc.machine.hw.units.convacc import ConvaccConfig
from atonc.machine.hw.units.switch import Link, route

# ----------------------------------------------------------------------------------------------------------------------
# Chains of CONVACC units that sum over groups of input channels, with or without a loop back to the start.

_PARTIAL = 1 << 15  # what returns to the first unit has 16 bits


@dataclass(frozen=True)
class AccumulationChain:
    """Units in the order in which the partial sum passes; `loop` says how it returns to the first one."""

    units: tuple[str, ...]
    loop: bool


@memoise
def find_chains(epoch: Epoch) -> dict[str, AccumulationChain]:
    """The chain of every CONVACC in the epoch."""
    configs = {name: c for name, c in epoch.units.items() if isinstance(c, ConvaccConfig)}
    for name, config in configs.items():
        _check_sum_port(epoch, name, config)
    chains: dict[str, AccumulationChain] = {}
    following = {link.source: link.destination for link in epoch.links if _passes_sum(link, configs)}
    for name, config in configs.items():
        source = epoch.sources(name).get(2)
        if source is not None and source.source in configs and not config.generate_first_sum:
            continue  # inside a chain, reached from its head
        units = _follow(name, following, configs)
        loop = source is not None
        if loop and source is not None and source.source not in configs:
            _check_memory_loop(epoch, source.source, units[-1])
        chain = AccumulationChain(units, loop)
        chains.update(dict.fromkeys(units, chain))
    missing = [name for name in configs if name not in chains]
    if missing:
        raise InputError(
            f"the accumulator ports of {', '.join(missing)} make a ring without a first unit",
            where=f"epoch {epoch.number}",
            rule="exactly one GEN1SUM unit per accumulator ring",
        )
    return chains


def _check_sum_port(epoch: Epoch, name: str, config: ConvaccConfig) -> None:
    source = epoch.sources(name).get(2)
    if (source is not None) == bool(config.no_sum):
        raise InputError(
            f"{name} {'does not add' if config.no_sum else 'waits for'} an accumulator input that is "
            f"{'linked' if source else 'not linked'}",
            where=f"epoch {epoch.number}",
            rule="CONVACC port 2 is linked exactly when the unit accumulates",
        )
    if source is not None and not source.permanent:
        raise not_modelled(f"{name}:2", "a gate in front of the accumulator port", source.frames0)
    inside = source is not None and source.source.startswith("CONVACC") and not config.generate_first_sum
    if inside and config.accumulator_filter:
        raise not_modelled(f"epoch {epoch.number} {name}", "CTRL.AFILTMODE inside a chain", config.accumulator_filter)


def _passes_sum(link: Link, configs: dict[str, ConvaccConfig]) -> bool:
    inside = link.source in configs and link.destination in configs and link.port == 2
    return inside and not configs[link.destination].generate_first_sum


def _follow(name: str, following: dict[str, str], configs: dict[str, ConvaccConfig]) -> tuple[str, ...]:
    units = [name]
    while (after := following.get(units[-1])) is not None and after not in units:
        units.append(after)
    return tuple(units)


def _check_memory_loop(epoch: Epoch, reader: str, tail: str) -> None:
    """A sum that returns through memory must come from a writer of the same frames, fed by the last unit."""
    engine = epoch.readers().get(reader)
    writers = [epoch.writers().get(link.destination) for link in epoch.destinations(tail)]
    if engine is not None and any(
        w is not None
        and (w.address, w.frame_elements, w.element_bytes) == (engine.address, engine.frame_elements, 2)
        and engine.element_bytes == 2
        and engine.sign_extend
        for w in writers
    ):
        return
    raise not_modelled(f"epoch {epoch.number} {reader}", "an accumulator input that no writer of the epoch feeds", 2)


def run_chain(epoch: Epoch, chain: AccumulationChain, inputs: dict[str, tuple[Stream, Stream]]) -> dict[str, Stream]:
    """Output streams of all units of the chain."""
    configs = [_config(epoch, name) for name in chain.units]
    sums = [convacc.partial_sums(c, *inputs[n], n) for n, c in zip(chain.units, configs, strict=True)]
    frames = min(s.shape[0] for s in sums)
    sums = [s[:frames] for s in sums]
    if any(s.shape[1:] != sums[0].shape[1:] for s in sums):
        raise InputError(
            f"the units {', '.join(chain.units)} do not produce frames of one size",
            where=f"epoch {epoch.number}",
            rule="accumulator chain: equal output size and kernels in all units",
        )
    if frames == 0 or sums[0].size == 0:
        raise InputError(
            f"{', '.join(chain.units)} get no whole frame",
            where=f"epoch {epoch.number}",
            rule="each writer takes exactly what its chain produces",
        )
    where = f"epoch {epoch.number} {', '.join(chain.units)}"
    outputs = _looped(where, configs, sums) if chain.loop else _straight(where, configs, sums, None)
    return {
        name: Stream(values.reshape(frames, -1).astype({1: np.int8, 2: np.int16}.get(config.out_bytes, np.int32)))
        for name, config, values in zip(chain.units, configs, outputs, strict=True)
    }


def _config(epoch: Epoch, name: str) -> ConvaccConfig:
    config = epoch.units[name]
    assert isinstance(config, ConvaccConfig)
    return config


def _straight(where: str, configs: list[ConvaccConfig], sums: list[Ints], carried: Ints | None) -> list[Ints]:
    """One pass through the chain; `carried` enters the first unit."""
    outputs: list[Ints] = []
    most = 0 if carried is None else _PARTIAL << configs[0].in_shift
    for config, own in zip(configs, sums, strict=True):
        total = own if carried is None else _add_shifted(own, carried, config.in_shift)
        most += _most(config)
        if most > SUM_LIMIT:
            _require_24_bits(where, total)
        carried = convacc.finish(config, total)
        outputs.append(carried)
    return outputs


def _most(config: ConvaccConfig) -> int:
    """What no input takes the sum of a unit beyond, whatever its kernels are: mostly that settles it."""
    low, high = limits(1 if config.deep else config.feature_bytes, bool(config.features_unsigned))
    feature = max(abs(low - config.feature_offset), abs(high - config.feature_offset), abs(config.frame_value))
    return feature * (255 if config.kernels_unsigned else 128) * config.taps


def _require_24_bits(where: str, total: Ints) -> None:
    """No published program shows what a unit does with a larger sum: keeps, saturates or wraps it."""
    farthest = max(int(total.max()), -int(total.min()) - 1)
    if farthest > SUM_LIMIT:
        raise NotModelledError(
            f"a sum of {farthest:,} in a CONVACC, beyond 24 bits: its effect on silicon was never observed",
            where=where,
            rule=f"sums inside and between units stay within {SUM_LIMIT:,}",
            remedy="compile with --numerics best, which proves the room of all sums; or fewer inputs a sum",
        )


def _add_shifted(own: Ints, carried: Ints, shift: int) -> Ints:
    """own + (carried << shift), in 64 bits where 32 might not hold it (sums that pass have up to 24 bits)."""
    wide = own.dtype if shift <= 6 else np.dtype(np.int64)
    total: Ints = own + (carried.astype(wide) << shift)
    return total


def _looped(where: str, configs: list[ConvaccConfig], sums: list[Ints]) -> list[Ints]:
    """Several passes: frame j of a group starts from the result of frame j - 1, or from zero outside FIRST..LAST."""
    head = configs[0]
    if head.accumulator_filter != convacc.FRAME_ZERO:
        raise not_modelled("CONVACC", "CTRL.AFILTMODE of an accumulator loop", head.accumulator_filter)
    period = max(1, head.frames_per_sum)
    if head.sum_first == 0:
        raise not_modelled("CONVACC", "AFILT.FIRST of an accumulator loop", 0)
    frames = sums[0].shape[0]
    outputs = [np.empty(s.shape, s.dtype) for s in sums]
    for step in range(period):
        now = slice(step, frames, period)
        before = slice(step - 1, frames, period)
        carried = None
        if step > 0 and head.sum_first <= step <= head.sum_last:
            carried = outputs[-1][before][: len(range(*now.indices(frames)))]
        for out, values in zip(outputs, _straight(where, configs, [s[now] for s in sums], carried), strict=True):
            out[now] = values
    return outputs


Watch = Callable[[str, Stream], None]


def run_epoch(epoch: Epoch, memory: AddressSpace, watch: Watch | None = None) -> None:
    """Executes the epoch on memory; raises when it would hang or uses something that is not modelled.

    `watch(unit, stream)` sees what each processing unit sends to the stream switch.
    """
    run = _EpochRun(epoch, memory)
    run.execute()
    if watch is not None:
        for name, stream in run.outputs.items():
            if not isinstance(epoch.units[name], stream_engine.StrengConfig):
                watch(name, stream)


class _EpochRun:
    def __init__(self, epoch: Epoch, memory: AddressSpace) -> None:
        self.epoch, self.memory = epoch, memory
        self.outputs: dict[str, Stream] = {}
        self.chains: dict[str, AccumulationChain] = find_chains(epoch)
        self.active: list[str] = []  # units whose output is being computed, to find rings that no rule allows

    def execute(self) -> None:
        writers = self.epoch.writers()
        self._check_waits()
        results = {name: self._input(name, 0) for name in writers}
        for name, config in writers.items():  # every stream is read before anything is written
            self._write(name, config, results[name])

    def _write(self, name: str, config: stream_engine.StrengConfig, stream: Stream) -> None:
        if stream.elements < config.elements:
            raise InputError(
                f"{name} waits for {config.elements} elements, its chain produces {stream.elements}: "
                "on the chip this epoch would never end",
                where=f"epoch {self.epoch.number}",
                rule="each writer takes exactly what its chain produces",
            )
        config, data, base = self._located(config, name)
        stream_engine.write(config, stream, data, base, name)

    def _located(
        self, config: stream_engine.StrengConfig, name: str
    ) -> tuple[stream_engine.StrengConfig, np.ndarray, int]:
        region = self.memory.region_for(name, config.address)
        if region is None:
            raise InputError(
                f"{name} starts at {config.address:#010x}, where this network has no memory",
                where=f"epoch {self.epoch.number}",
                rule="an access stays inside one memory pool",
                remedy="check that program, initialisers and pools belong to the same compilation",
            )
        address = canonical(config.address)
        same = address == config.address
        return config if same else changed(config, address=address), region.data, region.base

    def _input(self, unit: str, port: int) -> Stream:
        link = self.epoch.sources(unit).get(port)
        if link is None:
            raise InputError(
                f"{unit} has nothing linked to port {port}: on the chip this epoch would never end",
                where=f"epoch {self.epoch.number}",
                rule="every input port in use has a source",
            )
        return self._routed(link)

    def _routed(self, link: Link) -> Stream:
        stream = self._output(link.source)
        config = self.epoch.units.get(link.destination)
        if not link.permanent and isinstance(config, convacc.ConvaccConfig) and link.port == 0:
            # gates in front of CONVACC count its feature frames
            words = config.feature_words
            stream = stream.rechunk(words, stream.elements // words)
        routed = route(link, stream)
        if routed.elements == 0:
            raise InputError(
                f"{link.source} sends nothing to {link.destination}: on the chip this epoch would never end",
                where=f"epoch {self.epoch.number}",
                rule="each writer takes exactly what its chain produces",
            )
        return routed

    def _output(self, unit: str) -> Stream:
        if unit not in self.outputs:
            if unit in self.active:
                raise InputError(
                    f"{' -> '.join([*self.active, unit])} feed each other",
                    where=f"epoch {self.epoch.number}",
                    rule="only CONVACC may take its own result back, at the accumulator port",
                )
            self.active.append(unit)
            self._compute(unit)
            self.active.pop()
        return self.outputs[unit]

    def _compute(self, unit: str) -> None:
        config = self.epoch.units.get(unit)
        if config is None:
            raise InputError(
                f"a link starts at {unit}, which is not enabled: on the chip this epoch would never end",
                where=f"epoch {self.epoch.number}",
                rule="no link touches an unconfigured unit",
            )
        if isinstance(config, stream_engine.StrengConfig):
            located, data, base = self._located(config, unit)
            self.outputs[unit] = stream_engine.read(located, data, base, unit, self.memory.four_bits)
        elif isinstance(config, convacc.ConvaccConfig):
            chain = self.chains[unit]
            inputs = {name: (self._input(name, 0), self._input(name, 1)) for name in chain.units}
            self.outputs.update(run_chain(self.epoch, chain, inputs))
        elif isinstance(config, arith.ArithConfig):
            self.outputs[unit] = self._arith(unit, config)
        elif isinstance(config, activ.ActivConfig):
            x = self._input(unit, 0)
            self.outputs[unit] = _like(x, activ.execute(config, x.flat(), unit))
        elif isinstance(config, pool.PoolConfig):
            x = self._input(unit, 0)
            self.outputs[unit] = Stream(pool.execute(config, x.flat(), unit).reshape(-1, config.out_elements))
        else:
            decompress.check(config, unit)

    def _arith(self, unit: str, config: arith.ArithConfig) -> Stream:
        x = self._input(unit, 0)
        y = self._input(unit, 1).flat() if config.dual_input else None
        return _like(x, arith.execute(config, x.flat(), y, unit))

    def _check_waits(self) -> None:
        for name in self.epoch.waits:
            if name not in self.epoch.writers():
                raise InputError(
                    f"the program waits for {name}, which writes nothing in this epoch",
                    where=f"epoch {self.epoch.number}",
                    rule="wait mask = all writing engines, no others",
                )


def _like(source: Stream, values: Array) -> Stream:
    """Elementwise results keep the frames of their source."""
    size = source.frame_elements
    return Stream(values.reshape(-1, size) if size and values.size % size == 0 else values.reshape(1, -1))
