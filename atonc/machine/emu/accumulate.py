"""Chains of CONVACC units that sum over groups of input channels, with or without a loop back to the start."""

from __future__ import annotations

import numpy as np

from atonc.machine.base.errors import InputError, NotModelledError
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.epoch import Epoch
from atonc.machine.hw.fields import not_modelled
from atonc.machine.hw.fixed import Ints, limits
from atonc.machine.hw.limits import SUM_LIMIT
from atonc.machine.hw.memoise import memoise
from atonc.machine.hw.stream import Stream
from atonc.machine.hw.units import convacc
from atonc.machine.hw.units.convacc import ConvaccConfig
from atonc.machine.hw.units.switch import Link

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
            f"the accumulator ports of {', '.join(missing)} form a ring without a first unit",
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
