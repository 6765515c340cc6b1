"""Layers along one axis on the CPU: reductions, arg-min and arg-max, normalisations.

Published: axis, neutral values (a maximum starts from 0, so it is never negative), epsilon, the whole batch
normalisation, and the sign macro (zero counts as negative). Inferred: the order of summation (float64 here) and ties
of arg-max.
"""

from __future__ import annotations

import numpy as np

from atonc.machine.emu.bus import AddressSpace
from atonc.machine.emu.cpu.registry import layer, not_modelled
from atonc.machine.emu.cpu.struct_view import StructView, fail
from atonc.machine.emu.cpu.tensors import F32, I8, I32, Array, onnx_axis, tensor

_EPSILON = np.float32(0.00001)


@layer("reduce")
def reduce(info: StructView, memory: AddressSpace) -> None:
    values = tensor(info, "general.input").read(memory, F32).astype(np.float64)
    output = tensor(info, "general.output")
    output.write(memory, _reduced(values, output.shape, info).astype(F32), F32)


def _reduced(values: Array, wanted: tuple[int, ...], info: StructView) -> Array:
    """Only the logarithm of a sum is told its axis; the others follow from the two shapes (published)."""
    kind = info.enum("general.type")
    axes = tuple(k for k, (size, left) in enumerate(zip(values.shape, wanted, strict=True)) if left == 1 != size)
    if kind == "LL_SW_REDUCESUM":
        return np.asarray(values.sum(axes, keepdims=True))
    if kind == "LL_SW_REDUCEMIN":
        return np.asarray(values.min(axes, keepdims=True))
    if kind == "LL_SW_REDUCEMAX":
        return np.asarray(np.maximum(values.max(axes, keepdims=True), 0))
    if kind == "LL_SW_REDUCELOGSUMEXP":
        axis = onnx_axis(info)
        top = values.max(axis, keepdims=True)
        return np.asarray(top + np.log(np.exp(values - top).sum(axis, keepdims=True)))
    raise not_modelled(f"reduction {kind or '(none)'}", info, "the published wrapper has no such operation")


def _arg(info: StructView, memory: AddressSpace, integer: bool, largest: bool) -> None:
    axis, source = onnx_axis(info), tensor(info, "general.input")
    values = source.read(memory, I8 if integer else F32)
    last = bool(info.integer("select_last_index"))
    ordered = np.flip(values, axis) if last else values
    found = np.expand_dims((np.argmax if largest else np.argmin)(ordered, axis=axis), axis)
    indices = values.shape[axis] - 1 - found if last else found
    tensor(info, "general.output").write(memory, indices.astype(I32), I32)


@layer("argmax")
def argmax(info: StructView, memory: AddressSpace) -> None:
    _arg(info, memory, integer=False, largest=True)


@layer("argmin")
def argmin(info: StructView, memory: AddressSpace) -> None:
    _arg(info, memory, integer=False, largest=False)


@layer("argmax_integer")
def argmax_integer(info: StructView, memory: AddressSpace) -> None:
    _arg(info, memory, integer=True, largest=True)


@layer("argmin_integer")
def argmin_integer(info: StructView, memory: AddressSpace) -> None:
    _arg(info, memory, integer=True, largest=False)


@layer("sign")
def sign(info: StructView, memory: AddressSpace) -> None:
    values = tensor(info, "general.input").read(memory, F32)
    tensor(info, "general.output").write(memory, np.where(values > 0, 1, -1).astype(F32), F32)


def _channel_values(info: StructView, name: str, channels: int, memory: AddressSpace) -> Array:
    values = tensor(info, name).read(memory, F32)
    if values.size != channels:
        raise fail(f"{values.size} values for {channels} channels", f"{info.where}.{name}")
    return values.reshape(channels)


@layer("bn")
def bn(info: StructView, memory: AddressSpace) -> None:
    values = tensor(info, "general.input").read(memory, F32)
    names = ("mean", "var", "scale", "bias")
    mean, var, scale, bias = (_channel_values(info, name, values.shape[3], memory) for name in names)
    result = (values - mean) / np.sqrt(var + _EPSILON) * scale + bias
    tensor(info, "general.output").write(memory, result, F32)


@layer("instance_normalization")
def instance_normalization(info: StructView, memory: AddressSpace) -> None:
    values = tensor(info, "general.input").read(memory, F32).astype(np.float64)
    scale, bias = (_channel_values(info, name, values.shape[3], memory) for name in ("scale", "bias"))
    mean, var = values.mean((1, 2), keepdims=True), values.var((1, 2), keepdims=True)
    result = (values - mean) / np.sqrt(var + float(_EPSILON)) * scale + bias
    tensor(info, "general.output").write(memory, result.astype(F32), F32)


@layer("lpnormalization")
def lpnormalization(info: StructView, memory: AddressSpace) -> None:
    order = info.integer("p")
    if order not in (1, 2):
        raise not_modelled(f"a norm of order {order}", info)
    values = tensor(info, "general.input").read(memory, F32).astype(np.float64)
    size = (np.abs(values) ** order).sum(onnx_axis(info), keepdims=True) ** (1 / order)
    tensor(info, "general.output").write(memory, (values / size).astype(F32), F32)
