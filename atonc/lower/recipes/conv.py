"""Convolutions and dense layers on CONVACC chains with one ARITH that requantises."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from atonc.hw.units.convacc import ConvaccConfig
from atonc.ir import Op, Tensor
from atonc.lower.context import Context
from atonc.lower.convolution import Part, phases, widen
from atonc.lower.registry import Refusal, recipe
from atonc.lower.requantise import Requantisation, channel_unit, requantisation
from atonc.lower.tiling import MAX_CHAIN, Mode, Tiling, choose
from atonc.plan.build import EpochBuilder
from atonc.plan.streams import Area, Frames, contiguous, engine
from atonc.plan.types import EpochPlan, StepPlan

MAX_VECTOR = 512  # channels that one ARITH has coefficients for
SYNC_BELOW = 1600  # accumulator frames up to that many elements are read back with synchronisation

Weights = NDArray[np.int8]
Real = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Layer:
    """A convolution in numbers: codes = scale[c] * sum((x - zero) * w) + offset[c]."""

    op: Op
    source: str  # buffers
    target: str
    area: Area
    out: Area
    weights: Weights  # [out, rows, columns, in]
    zero: int
    scale: Real
    offset: Real
    stride: tuple[int, int]
    dilation: tuple[int, int]
    padding: tuple[int, int, int, int]

    def requantisation(self, tiling: Tiling) -> Requantisation:
        """For sums in which `tiling.mode.offset` instead of the zero point was subtracted from the features."""
        subtracted = tiling.mode.offset
        weights = self.weights.astype(np.int64)
        sums = weights.sum(axis=(1, 2, 3))
        reach = max(127 - subtracted, subtracted + 128)
        largest = np.abs(weights).sum(axis=(1, 2, 3)).astype(np.float64) * reach
        offset = self.offset + self.scale * sums * (subtracted - self.zero)
        return requantisation(self.scale, offset, largest, tiling.passes)


@recipe("conv")
def lower_conv(op: Op, context: Context) -> list[StepPlan]:
    x, weights, y = context.tensor(op.inputs[0]), context.tensor(op.inputs[1]), context.tensor(op.outputs[0])
    groups = int(op.attrs.get("groups", 1))
    layer = _layer(op, context, x, weights, y)
    if groups == 1:
        return _dense_conv(layer, context)
    if weights.shape[3] == 1:
        return _depthwise(layer, context, groups)
    return _grouped(layer, context, groups)


@recipe("dense")
def lower_dense(op: Op, context: Context) -> list[StepPlan]:
    """A 1x1 convolution over as many pixels as there are rows."""
    x, weights, y = context.tensor(op.inputs[0]), context.tensor(op.inputs[1]), context.tensor(op.outputs[0])
    rows, inputs = x.elements // weights.shape[1], weights.shape[1]
    layer = _layer(op, context, x, weights, y, shape=(1, rows, inputs), out_shape=(1, rows, weights.shape[0]))
    return _dense_conv(layer, context)


def _layer(
    op: Op,
    context: Context,
    x: Tensor,
    weights: Tensor,
    y: Tensor,
    shape: tuple[int, int, int] | None = None,
    out_shape: tuple[int, int, int] | None = None,
) -> Layer:
    if not (weights.is_constant and weights.dtype == "int8" and weights.quant is not None and not weights.zero_point):
        raise Refusal("CONV-WEIGHTS", f"weights of type {weights.dtype}", "constant int8, zero point 0", "requantise")
    data = np.asarray(weights.data, np.int8)
    data = data.reshape(data.shape[0], 1, 1, -1) if data.ndim == 2 else data
    scale = x.scale * np.broadcast_to(weights.quant.scales, (data.shape[0],)) / y.scale
    bias = np.zeros(data.shape[0])
    if len(op.inputs) > 2 and op.inputs[2]:
        tensor = context.tensor(op.inputs[2])
        bias = np.asarray(tensor.data, np.float64).reshape(-1)
        if tensor.quant is not None:  # in its own scale, which need not be that of the accumulator
            bias = (bias - tensor.quant.zero_points) * tensor.quant.scales / (scale * y.scale)
        elif tensor.is_float:
            bias = bias / (scale * y.scale)
    height, width, channels = shape or x.shape[1:]
    attrs = op.attrs
    return Layer(
        op,
        context.buffer(x.name),
        context.buffer(y.name),
        Area.whole(height, width, channels),
        Area.whole(*(out_shape or y.shape[1:])),
        data,
        x.zero_point,
        scale,
        bias * scale + y.zero_point,
        tuple(attrs.get("stride", (1, 1))),
        tuple(attrs.get("dilation", (1, 1))),
        tuple(attrs.get("padding", (0, 0, 0, 0))),
    )


# ------------------------------------------------------------------------------------------------------------- dense


def _dense_conv(layer: Layer, context: Context) -> list[StepPlan]:
    plans: list[StepPlan] = []
    size = (layer.out.height, layer.out.width)
    for phase in phases(layer.area, layer.weights, layer.stride, layer.dilation, layer.padding, size):
        parts = tuple(widen(part) for part in phase.parts)
        target = replace(
            layer.out,
            height=phase.height,
            width=phase.width,
            line=layer.out.line * phase.row_step,
            pixel=layer.out.pixel * phase.column_step,
            offset=layer.out.offset + phase.row * layer.out.line + phase.column * layer.out.pixel,
        )
        if len(parts) > MAX_CHAIN:
            raise Refusal(
                "CONV-KERNEL", f"{len(parts)} parts of the kernel", f"{MAX_CHAIN} in one chain", "split the kernel"
            )
        for first in range(0, layer.weights.shape[0], MAX_VECTOR):
            count = min(MAX_VECTOR, layer.weights.shape[0] - first)
            plans += _output_range(layer, context, parts, target, first, count)
    return plans


def _output_range(
    layer: Layer, context: Context, parts: tuple[Part, ...], target: Area, first: int, count: int
) -> list[StepPlan]:
    """Output channels first..first+count: whole groups of kernels, then a smaller group for the rest."""
    channels = layer.area.channels
    tiling = choose(parts, channels, count, modes_for(layer, parts), layer.op.name)
    whole = count // tiling.kernels * tiling.kernels
    plans = [_epoch(layer, context, parts, target, tiling, first, whole)]
    if whole < count:
        rest = choose(parts, channels, count - whole, modes_for(layer, parts), layer.op.name)
        plans += _remainder(layer, context, parts, target, rest, first + whole, count - whole)
    return plans


def _remainder(
    layer: Layer, context: Context, parts: tuple[Part, ...], target: Area, tiling: Tiling, first: int, count: int
) -> list[StepPlan]:
    whole = count // tiling.kernels * tiling.kernels
    plans: list[StepPlan] = [_epoch(layer, context, parts, target, tiling, first, whole)]
    if whole < count:
        return plans + _output_range(layer, context, parts, target, first + whole, count - whole)
    return plans


def modes_for(layer: Layer, parts: tuple[Part, ...]) -> list[Mode]:
    """Without padding the unit may subtract any number: the bias makes up for it."""
    padded = any(any(part.padding) for part in parts)
    if layer.zero == 0:
        return [Mode(1)] if padded else [Mode(1), Mode(2, offset=1)]
    return [Mode(2, offset=layer.zero)]


def _epoch(
    layer: Layer, context: Context, parts: tuple[Part, ...], target: Area, tiling: Tiling, first: int, count: int
) -> EpochPlan:
    groups = count // tiling.kernels
    rule = layer.requantisation(tiling)
    configs = _with_shifts(tiling, rule)
    b = EpochBuilder(layer.op.origin or (layer.op.name,), f"conv {layer.op.name}")
    stream = kernel_bytes(parts, tiling, first, groups)
    kernels = b.read(context.constant(stream, "kernels"), _kernel_engine(len(stream)))
    pixels = target.height * target.width
    tail, head = "", ""
    for unit, config in enumerate(configs):
        part = parts[unit if len(parts) > 1 else 0]
        features = b.read(layer.source, feature_engine(part, tiling, unit, groups, len(parts)))
        tail = b.unit(config, features, kernels, tail or None)
        head = head or tail
    gate = {"drop": tiling.passes - 1, "keep": 1} if tiling.passes > 1 else {}
    if tiling.loop == "ring":
        b.link(tail, head, 2)
    elif tiling.loop == "memory":
        _loop_through_memory(b, context, tail, head, pixels * tiling.kernels, groups * tiling.passes)
    arith = b.unit(channel_unit(rule, first, count, tiling.kernels, pixels), tail, **gate)
    b.write(arith, layer.target, _output_engine(target, tiling.kernels, first, groups))
    return b.done()


def _with_shifts(tiling: Tiling, rule: Requantisation) -> list[ConvaccConfig]:
    configs = list(tiling.configs)
    configs[-1] = replace(configs[-1], out_shift=rule.out_shift)
    if tiling.passes > 1:
        configs[0] = replace(configs[0], in_shift=rule.out_shift)
    return configs


def _loop_through_memory(
    b: EpochBuilder, context: Context, tail: str, head: str, elements: int, frames: int
) -> None:
    scratch = context.scratch(2 * elements, "partial sums")
    area = Area(1, 1, elements, 2 * elements, 2 * elements, 0, 2)
    again = Frames(frames, 0)
    writer = b.write(tail, scratch, engine(area, again, write=True))
    config = engine(area, again, signed=True)
    if elements <= SYNC_BELOW:
        config = replace(config, sync=1, sync_source=int(writer.removeprefix("STRENG")))
    b.link(b.read(scratch, config), head, 2)


def _kernel_engine(size_bytes: int) -> object:
    return replace(contiguous(size_bytes), continuous=1)


def feature_engine(part: Part, tiling: Tiling, unit: int, groups: int, parts: int) -> object:
    """Frames: for every group of kernels all passes; unit k of a chain starts k batches further."""
    share = tiling.units if parts == 1 else 1
    first = unit * tiling.batch if parts == 1 else 0
    view = part.area.channels_from(first, tiling.batch)
    frames = Frames(tiling.passes, share * tiling.batch, groups, 0)
    return engine(view, frames, signed=tiling.mode.simd == 2, looped=True)


def _output_engine(target: Area, kernels: int, first: int, groups: int) -> object:
    view = target.channels_from(first, kernels)
    return engine(view, Frames(groups, kernels), write=True, looped=not view.contiguous)


def kernel_bytes(parts: tuple[Part, ...], tiling: Tiling, first: int, groups: int) -> bytes:
    """[group][pass][unit][kernel][row][column][channel]; channels beyond the last one weigh nothing."""
    count = groups * tiling.kernels
    share = tiling.units if len(parts) == 1 else 1
    padded = tiling.passes * share * tiling.batch
    blocks = []
    for part in parts:
        weights = part.weights[first : first + count]
        weights = np.pad(weights, ((0, 0), (0, 0), (0, 0), (0, padded - weights.shape[3])))
        # [group, kernel, row, column, pass, unit, channel] -> [group, pass, unit, kernel, row, column, channel]
        shaped = weights.reshape(
            groups, tiling.kernels, *part.window, tiling.passes, share, tiling.batch
        ).transpose(0, 4, 5, 1, 2, 3, 6)
        blocks.append(shaped)
    ordered = blocks[0] if len(parts) == 1 else np.concatenate(blocks, axis=2)
    return np.ascontiguousarray(ordered).tobytes()


# ---------------------------------------------------------------------------------------------------------- depthwise


def _depthwise(layer: Layer, context: Context, groups: int) -> list[StepPlan]:
    raise Refusal("DEPTHWISE", "depthwise convolution", "not lowered yet", "wait")


def _grouped(layer: Layer, context: Context, groups: int) -> list[StepPlan]:
    raise Refusal("GROUPED", "grouped convolution", "not lowered yet", "wait")
