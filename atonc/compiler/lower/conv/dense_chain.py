"""The units, engines and kernels of one chain of CONVACCs over the input channels."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from atonc.compiler.lower.context import Context
from atonc.compiler.lower.conv.engines import feature_engine, kernel_buffer, kernel_reader
from atonc.compiler.lower.conv.kernel_parts import Part
from atonc.compiler.lower.conv.layer import ConvLayer
from atonc.compiler.lower.conv.tiling import Tiling
from atonc.compiler.lower.semantics.sums import SumChain, SumTerm
from atonc.compiler.plan.build import TaskBuilder
from atonc.compiler.plan.streams import Area, Frames, engine
from atonc.compiler.plan.types import Buffer
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.fields import changed
from atonc.machine.hw.limits import SYNC_UP_TO
from atonc.machine.hw.units.convacc import ConvaccConfig
from atonc.machine.hw.units.stream_engine import StrengConfig

BETWEEN_PASSES = "partial sums"  # of a chain that runs several times


def meaning(parts: tuple[Part, ...], tiling: Tiling) -> SumChain:
    """Which channels every unit sums in every pass."""
    chains = []
    for number in range(tiling.passes):
        ranges = [tiling.slots.own(unit, number) for unit in _readers(parts, tiling)]
        units = zip(_each(parts, tiling), ranges, strict=True)
        chains.append(tuple(SumTerm(part, first, end - first) for part, (first, end) in units))
    return SumChain(tuple(chains), tiling.mode.offset)


def _each(parts: tuple[Part, ...], tiling: Tiling) -> tuple[Part, ...]:
    """The part of every unit: one for all of them, or one for each."""
    return parts * tiling.units if len(parts) == 1 else parts


def _readers(parts: tuple[Part, ...], tiling: Tiling) -> list[int]:
    """Says for every unit whose channels it reads: units with parts of their own all read the same."""
    return list(range(tiling.units)) if len(parts) == 1 else [0] * tiling.units


@dataclass(frozen=True)
class Sets:
    """Some of the kernels of a chain, from `first` on: as many sets as its units take one after the other."""

    parts: tuple[Part, ...]
    tiling: Tiling
    first: int
    count: int


def add_chain(
    b: TaskBuilder, layer: ConvLayer, context: Context, sets: Sets, out_shift: int, stream: Buffer | None = None
) -> str:
    """The units that sum all parts and channels; returns the last one. `stream`: their kernels, where known."""
    parts, tiling, groups = sets.parts, sets.tiling, sets.count
    stream = stream or kernel_stream(sets)
    kernels = b.read(context.keep(stream), kernel_reader(stream, tiling.mode))
    tail, head = "", ""
    for unit, config in enumerate(_with_shifts(tiling, out_shift)):
        features = b.read(layer.source, _features(parts, tiling, unit, groups))
        tail = b.unit(config, features, kernels, tail or None)
        head = head or tail
    if tiling.loop == "ring":
        b.link(tail, head, 2)
    elif tiling.loop == "memory":
        height, width = parts[0].out_size
        _loop_through_memory(b, context, tail, head, height * width * tiling.kernels, groups * tiling.passes)
    return tail


def _with_shifts(tiling: Tiling, out_shift: int) -> list[ConvaccConfig]:
    configs = list(tiling.configs)
    configs[-1] = changed(configs[-1], out_shift=out_shift)
    if tiling.passes > 1:
        configs[0] = changed(configs[0], in_shift=out_shift)
    return configs


def _loop_through_memory(b: TaskBuilder, context: Context, tail: str, head: str, elements: int, frames: int) -> None:
    scratch = context.scratch(2 * elements, BETWEEN_PASSES)
    area = Area(1, 1, elements, 2 * elements, 2 * elements, 0, 2)
    again = Frames(frames, 0)
    writer = b.write(tail, scratch, engine(area, again, write=True))
    follows = writer if elements <= SYNC_UP_TO else ""
    b.link(b.read(scratch, engine(area, again, signed=True), follows), head, 2)


def _features(parts: tuple[Part, ...], tiling: Tiling, unit: int, groups: int) -> StrengConfig:
    """Frames: for every group of kernels all passes."""
    start = tiling.slots.start(_readers(parts, tiling)[unit])
    view = _each(parts, tiling)[unit].area.channels_from(start, tiling.batch)
    step = tiling.slots.step * view.element_bytes
    return feature_engine(view, Frames(tiling.passes, step, groups, 0), tiling.mode)


def kernel_stream(sets: Sets) -> Buffer:
    return kernel_buffer(kernel_bytes(sets), sets.tiling.mode)


def kernel_bytes(sets: Sets) -> bytes:
    """[group][pass][unit][kernel][row][column][channel]; channels that were read before weigh nothing."""
    parts, tiling, first, groups = sets.parts, sets.tiling, sets.first, sets.count
    slots, window = tiling.slots, parts[0].window
    ordered = np.zeros((groups, tiling.passes, tiling.units, tiling.kernels, *window, tiling.batch), np.int8)
    for unit, (part, reader) in enumerate(zip(_each(parts, tiling), _readers(parts, tiling), strict=True)):
        weights = part.weights[first : first + groups * tiling.kernels]
        weights = weights.reshape(groups, tiling.kernels, *window, weights.shape[3])
        for number in range(tiling.passes):
            (start, end), at = slots.own(reader, number), slots.start(reader, number)
            ordered[:, number, unit, ..., start - at : end - at] = weights[..., start:end]
    if tiling.mode.deep:
        return _deep_order(ordered.reshape(-1, tiling.kernels, tiling.batch))
    return ordered.tobytes()


def _deep_order(sets: NDArray[np.signedinteger]) -> bytes:
    """[set][eight kernels][channel][kernel]; every set fills whole words of three bytes."""
    count, kernels, batch = sets.shape
    size = -(-kernels * batch // 3) * 3
    out = np.zeros((count, size), np.int8)
    for first in range(0, kernels, 8):
        eight = sets[:, first : first + 8].swapaxes(1, 2).reshape(count, -1)
        out[:, first * batch : first * batch + eight.shape[1]] = eight
    return out.tobytes()
