"""Runs one epoch: streams flow from the reading engines through the units into memory.

Whole streams are arrays, so each unit computes all its frames at once. The one place where frames depend on earlier
frames is the accumulator loop of a CONVACC chain (`emu/accumulate.py`).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from atonc.machine.base.errors import InputError
from atonc.machine.emu.accumulate import AccumulationChain, find_chains, run_chain
from atonc.machine.emu.bus import AddressSpace, canonical
from atonc.machine.hw.epoch import Epoch
from atonc.machine.hw.fields import changed
from atonc.machine.hw.stream import Array, Stream
from atonc.machine.hw.units import activ, arith, convacc, decompress, pool, stream_engine
from atonc.machine.hw.units.switch import Link, route

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
        region = self.memory.region_at(config.address)
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
