"""Buffers and pools of a network in a folder: how long each buffer lives is read off the programs."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence

from atonc.compiler.place.pools import outside_chip
from atonc.compiler.place.usage import CountedPool
from atonc.compiler.plan.types import FILLED
from atonc.insight.explain.types import BufferView
from atonc.machine.emu.files.c_info import CInfo
from atonc.machine.emu.files.types import BufferInfo, CompiledNetwork
from atonc.machine.emu.network import NetworkStep


def buffers(network: CompiledNetwork, steps: Sequence[NetworkStep]) -> tuple[BufferView, ...]:
    last_step = steps[-1].number if steps else 0
    first_step = steps[0].number if steps else 0
    kinds: dict[str, list[BufferInfo]] = {
        "input": list(network.inputs),
        "output": list(network.outputs),
        "activation": list(network.internals),
        "constant": list(network.params),
    }
    listed: dict[tuple[str, int], tuple[str, BufferInfo]] = {}
    for kind, infos in kinds.items():
        for info in infos:
            listed.setdefault((info.name, info.address), ("constant" if info.is_param else kind, info))
    real = [pool for pool in network.pools if not pool.virtual]
    starts = [(info.address, info.address + info.size_bytes, info.epoch) for _, info in listed.values()]
    found = []
    for kind, info in listed.values():
        if kind == "constant":
            first, last = first_step, last_step
        else:
            first = first_step if kind == "input" else info.epoch
            last = last_step if kind == "output" else _last_use(info, first, starts, steps)
        pool = next((p.name for p in real if p.base <= info.address < p.base + p.size_bytes), "")
        found.append(BufferView(info.name, pool, info.address, info.size_bytes, first, last, kind))
    return tuple(sorted(found, key=lambda b: (b.address, b.first, b.name)))


def listed_buffers(info: CInfo, network: CompiledNetwork, steps: Sequence[NetworkStep]) -> tuple[BufferView, ...]:
    """As c_info.json lists them: also where the C file names no internal buffers, and with lifetimes."""
    last_step = steps[-1].number if steps else 0
    inputs, outputs = ({b.name for b in edge} for edge in (network.inputs, network.outputs))
    bases = {pool.id: pool.address for pool in info.pools}
    real = [pool for pool in network.pools if not pool.virtual]
    found = []
    for buffer in info.buffers:
        base = bases.get(buffer.pool)
        if base is None or not buffer.size_bytes:
            continue
        address = base + buffer.offset
        named = "input" if buffer.name in inputs else "output" if buffer.name in outputs else "activation"
        first, last = (0, last_step) if buffer.is_param else (buffer.first_epoch, min(buffer.last_epoch, last_step))
        home = next((p.name for p in real if p.base <= address < p.base + p.size_bytes), "")
        kind = "constant" if buffer.is_param else named
        found.append(BufferView(buffer.name, home, address, buffer.size_bytes, first, last, kind))
    return tuple(sorted(found, key=lambda b: (b.address, b.first, b.name)))


def _last_use(
    info: BufferInfo, first: int, starts: Sequence[tuple[int, int, int]], steps: Sequence[NetworkStep]
) -> int:
    """The last epoch that reads the place before somebody else writes there."""
    end = info.address + info.size_bytes
    others = [epoch for a, b, epoch in starts if a < end and info.address < b and epoch > first]
    until = min(others, default=1 << 30)
    last = first
    for step in steps:
        if first < step.number <= until and _touches(step, info.address, end):
            last = step.number
    return last


def _touches(step: NetworkStep, start: int, end: int) -> bool:
    if step.calls:
        return any(_mentions(argument, start, end) for call in step.calls for argument in call.args)
    return step.epoch is not None and any(start <= e.address < end for e in step.epoch.readers().values())


def _mentions(value: object, start: int, end: int) -> bool:
    """Whether an address inside the range occurs in the arguments of a call."""
    if isinstance(value, int):
        return start <= value < end
    if isinstance(value, Mapping):
        base, offset = value.get("addr_base"), value.get("offset_start")
        if isinstance(base, Mapping):
            base = base.get("p", base.get("i"))
        if isinstance(base, int) and isinstance(offset, int):
            return start <= base + offset < end
        return any(_mentions(part, start, end) for part in value.values())
    return isinstance(value, list) and len(value) < 64 and any(_mentions(part, start, end) for part in value)


def banks(network: CompiledNetwork) -> list[CountedPool]:
    real = [pool for pool in network.pools if not pool.virtual and pool.size_bytes]
    return [CountedPool(p.name, p.base, p.size_bytes, p.writable, outside_chip(p.base)) for p in real]


def reads(step: NetworkStep, buffer: BufferView) -> bool:
    """Whether a step uses what an earlier one left in a buffer."""
    alive = buffer.first < step.number <= buffer.last or (buffer.kind == "input" and step.number <= buffer.last)
    return alive and _touches(step, buffer.address, buffer.address + buffer.size_bytes)


def readers(
    buffers: Sequence[BufferView], steps: Sequence[NetworkStep], layers: Mapping[int, str]
) -> dict[tuple[str, int], str]:
    """Constants and their copies, by name and address: the first layer whose engines read them."""
    listed = sorted((b for b in buffers if b.kind in FILLED), key=lambda b: b.address)
    starts, found = [b.address for b in listed], dict[tuple[str, int], str]()
    for step in steps:
        for engine in step.epoch.readers().values() if step.epoch is not None else ():
            place = bisect_right(starts, engine.address) - 1
            if place >= 0 and engine.address < starts[place] + listed[place].size_bytes:
                found.setdefault((listed[place].name, starts[place]), layers.get(step.number, ""))
    return found
