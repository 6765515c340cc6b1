"""Operators of ONNX as functions of PyTorch, for the graphs that `quantize` writes. One sample at a time: the network
makes batches of it (`torch.vmap`), so shapes are those of the file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from atonc.machine.base.errors import UnsupportedError

Value = Any  # a tensor; numpy integers where the file has them as constants; None where an input is left out
Attributes = Mapping[str, Any]
Operator = Callable[[Sequence[Value], Attributes], Any]


def refusal(node: Any, why: str) -> UnsupportedError:
    return UnsupportedError(
        why,
        where=node.name,
        rule="what is trained is computed by PyTorch as the file says",
        remedy="leave this module out of what is prepared, or train it in float and quantise afterwards",
    )


class UntrainableForm(Exception):
    """A form of an operator that has no function here."""


def _ints(value: Value) -> list[int]:
    return [int(number) for number in np.asarray(value).reshape(-1)]


# ---------------------------------------------------------------------------------------------------- sums of products


def _pads(attributes: Attributes, size: Sequence[int], kernel: Sequence[int], steps: Sequence[int],
          apart: Sequence[int]) -> tuple[list[int], list[int]]:  # fmt: skip
    """Padding before and behind each axis."""
    rank, mode = len(kernel), attributes.get("auto_pad", b"NOTSET")
    pads = list(attributes.get("pads", [0] * 2 * rank))
    if mode in (b"SAME_UPPER", b"SAME_LOWER"):
        for k in range(rank):
            extra = max(0, (-(-size[k] // steps[k]) - 1) * steps[k] + (kernel[k] - 1) * apart[k] + 1 - size[k])
            first = extra // 2 if mode == b"SAME_UPPER" else extra - extra // 2
            pads[k], pads[rank + k] = first, extra - first
    return pads[:rank], pads[rank:]


def _padded(x: Tensor, before: Sequence[int], behind: Sequence[int], value: float = 0.0) -> Tensor:
    flat = [number for pair in zip(reversed(before), reversed(behind), strict=True) for number in pair]
    return F.pad(x, flat, value=value) if any(flat) else x


def _window(
    x: Tensor, attributes: Attributes, kernel: Sequence[int]
) -> tuple[list[int], list[int], tuple[list[int], list[int]]]:
    """Steps, dilations and padding."""
    rank = len(kernel)
    steps, apart = list(attributes.get("strides", [1] * rank)), list(attributes.get("dilations", [1] * rank))
    return steps, apart, _pads(attributes, x.shape[2:], kernel, steps, apart)


def conv(args: Sequence[Value], attributes: Attributes) -> Tensor:
    x, weights, bias = (*args, None)[:3]
    steps, apart, pads = _window(x, attributes, weights.shape[2:])
    function = {3: F.conv1d, 4: F.conv2d, 5: F.conv3d}[x.ndim]
    groups = attributes.get("group", 1)
    return function(_padded(x, *pads), weights, bias, steps, 0, apart, groups)  # type: ignore[arg-type]


def conv_transpose(args: Sequence[Value], attributes: Attributes) -> Tensor:
    x, weights, bias = (*args, None)[:3]
    rank = x.ndim - 2
    if attributes.get("auto_pad", b"NOTSET") != b"NOTSET" or "output_shape" in attributes:
        raise UntrainableForm("padding by the shape of the result")
    steps, apart = list(attributes.get("strides", [1] * rank)), list(attributes.get("dilations", [1] * rank))
    pads, more = list(attributes.get("pads", [0] * 2 * rank)), list(attributes.get("output_padding", [0] * rank))
    function = {1: F.conv_transpose1d, 2: F.conv_transpose2d}[rank]
    y = function(x, weights, bias, steps, 0, more, attributes.get("group", 1), apart)  # type: ignore[arg-type]
    for k in range(rank):
        y = y.narrow(2 + k, pads[k], y.shape[2 + k] - pads[k] - pads[rank + k])
    return y


def gemm(args: Sequence[Value], attributes: Attributes) -> Tensor:
    a, b, c = (*args, None)[:3]
    a = a.transpose(0, 1) if attributes.get("transA", 0) else a
    b = b.transpose(0, 1) if attributes.get("transB", 0) else b
    product = attributes.get("alpha", 1.0) * (a @ b) if attributes.get("alpha", 1.0) != 1.0 else a @ b
    return product if c is None else product + attributes.get("beta", 1.0) * c


# ------------------------------------------------------------------------------------------------------------ windows


def max_pool(args: Sequence[Value], attributes: Attributes) -> Tensor:
    (x, *_), kernel = args, attributes["kernel_shape"]
    if attributes.get("ceil_mode", 0):
        raise UntrainableForm("rounding sizes up (ceil_mode)")
    steps, apart, (before, behind) = _window(x, attributes, kernel)
    function = {3: F.max_pool1d, 4: F.max_pool2d}[x.ndim]
    return function(_padded(x, before, behind, -torch.inf), list(kernel), steps, 0, apart)


def average_pool(args: Sequence[Value], attributes: Attributes) -> Tensor:
    (x, *_), kernel = args, attributes["kernel_shape"]
    steps, _, (before, behind) = _window(x, attributes, kernel)
    counted = bool(attributes.get("count_include_pad", 0))
    if attributes.get("ceil_mode", 0) or (before != behind and not counted):
        raise UntrainableForm("uneven padding, or rounding sizes up (ceil_mode)")
    function = {3: F.avg_pool1d, 4: F.avg_pool2d}[x.ndim]
    if counted:
        return function(_padded(x, before, behind), list(kernel), steps)
    return function(x, list(kernel), steps, before, count_include_pad=False)


def resize(args: Sequence[Value], attributes: Attributes) -> Tensor:
    x, _, scales, sizes = (*args, None, None, None)[:4]
    target = _ints(sizes) if sizes is not None and len(sizes) else [
        int(np.floor(size * scale)) for size, scale in zip(x.shape, _floats(scales), strict=True)]  # fmt: skip
    mode, where = attributes.get("mode", b"nearest"), attributes.get("coordinate_transformation_mode", b"half_pixel")
    factors = [after / before for after, before in zip(target[2:], x.shape[2:], strict=True)]
    if mode == b"nearest" and list(x.shape[:2]) == target[:2] and all(factor.is_integer() for factor in factors):
        for axis, factor in enumerate(factors):
            x = x.repeat_interleave(int(factor), 2 + axis)
        return x
    if mode == b"linear" and x.ndim == 4 and where in (b"half_pixel", b"pytorch_half_pixel", b"align_corners"):
        return F.interpolate(x, target[2:], mode="bilinear", align_corners=where == b"align_corners")
    raise UntrainableForm(f"{mode.decode()} resizing by {factors} with {where.decode()}")


def _floats(value: Value) -> list[float]:
    return [float(number) for number in (value.tolist() if isinstance(value, Tensor) else np.asarray(value))]


# -------------------------------------------------------------------------------------------------------------- moves


def reshape(args: Sequence[Value], attributes: Attributes) -> Tensor:
    x, sizes = args[0], _ints(args[1])
    return x.reshape([x.shape[k] if size == 0 else size for k, size in enumerate(sizes)])


def flatten(args: Sequence[Value], attributes: Attributes) -> Tensor:
    x, axis = args[0], attributes.get("axis", 1)
    return x.reshape(int(np.prod(x.shape[:axis], dtype=np.int64)), -1)


def _axes(args: Sequence[Value], attributes: Attributes, place: int = 1) -> list[int] | None:
    given = args[place] if len(args) > place else None
    if given is not None:
        return _ints(given)
    return list(attributes["axes"]) if "axes" in attributes else None


def squeeze(args: Sequence[Value], attributes: Attributes) -> Tensor:
    x, axes = args[0], _axes(args, attributes)
    gone = {k for k, size in enumerate(x.shape) if size == 1} if axes is None else {axis % x.ndim for axis in axes}
    return x.reshape([size for k, size in enumerate(x.shape) if k not in gone])


def unsqueeze(args: Sequence[Value], attributes: Attributes) -> Tensor:
    x, axes = args[0], _axes(args, attributes) or []
    for axis in sorted(axis % (x.ndim + len(axes)) for axis in axes):
        x = x.unsqueeze(axis)
    return x


def cut(args: Sequence[Value], attributes: Attributes) -> Tensor:
    """Slice."""
    x, starts, ends = args[0], _ints(args[1]), _ints(args[2])
    axes = _ints(args[3]) if len(args) > 3 and args[3] is not None else list(range(len(starts)))
    steps = _ints(args[4]) if len(args) > 4 and args[4] is not None else [1] * len(starts)
    index = [slice(None)] * x.ndim
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        if step < 1:
            raise UntrainableForm("slices that run backwards")
        index[axis % x.ndim] = slice(start, end, step)
    return x[tuple(index)]


def split(args: Sequence[Value], attributes: Attributes) -> tuple[Tensor, ...]:
    x, axis = args[0], attributes.get("axis", 0)
    sizes = _ints(args[1]) if len(args) > 1 and args[1] is not None else attributes.get("split")
    if sizes is None:
        sizes = -(-x.shape[axis] // attributes["outputs"])
    return tuple(torch.split(x, sizes if isinstance(sizes, int) else list(sizes), axis))


def gather(args: Sequence[Value], attributes: Attributes) -> Tensor:
    x, places, axis = args[0], np.asarray(args[1]), attributes.get("axis", 0) % args[0].ndim
    found = x.index_select(axis, torch.as_tensor(places.reshape(-1) % x.shape[axis]))
    return found.reshape([*x.shape[:axis], *places.shape, *x.shape[axis + 1 :]])


def pad(args: Sequence[Value], attributes: Attributes) -> Tensor:
    x, sizes, value = (*args, None)[:3]
    numbers, mode = _ints(sizes), attributes.get("mode", b"constant")
    if mode != b"constant" or min(numbers) < 0 or (len(args) > 3 and args[3] is not None):
        raise UntrainableForm("padding other than with a constant on all axes")
    return _padded(x, numbers[: x.ndim], numbers[x.ndim :], 0.0 if value is None else _floats(value.reshape(-1))[0])


def depth_to_space(args: Sequence[Value], attributes: Attributes) -> Tensor:
    x, block = args[0], attributes["blocksize"]
    n, c, h, w = x.shape
    if attributes.get("mode", b"DCR") == b"CRD":
        parts = x.reshape(n, c // block**2, block, block, h, w).permute(0, 1, 4, 2, 5, 3)
    else:
        parts = x.reshape(n, block, block, c // block**2, h, w).permute(0, 3, 4, 1, 5, 2)
    return parts.reshape(n, c // block**2, h * block, w * block)


def mean(args: Sequence[Value], attributes: Attributes) -> Tensor:
    x, axes = args[0], _axes(args, attributes)
    return x.mean(list(range(x.ndim)) if axes is None else axes, bool(attributes.get("keepdims", 1)))


def layer_norm(args: Sequence[Value], attributes: Attributes) -> Tensor:
    x, weights, bias = (*args, None)[:3]
    axis = attributes.get("axis", -1) % x.ndim
    return F.layer_norm(x, x.shape[axis:], weights, bias, attributes.get("epsilon", 1e-5))


def clip(args: Sequence[Value], attributes: Attributes) -> Tensor:
    x, low, high = (*args, None, None)[:3]
    return x if low is None and high is None else torch.clamp(x, low, high)


def hard_sigmoid(args: Sequence[Value], attributes: Attributes) -> Tensor:
    return (args[0] * attributes.get("alpha", 0.2) + attributes.get("beta", 0.5)).clamp(0.0, 1.0)


def gelu(args: Sequence[Value], attributes: Attributes) -> Tensor:
    return F.gelu(args[0], approximate=attributes.get("approximate", b"none").decode())


OPERATORS: dict[str, Operator] = {
    "Conv": conv,
    "ConvTranspose": conv_transpose,
    "Gemm": gemm,
    "MatMul": lambda args, _: args[0] @ args[1],
    "Add": lambda args, _: args[0] + args[1],
    "Sub": lambda args, _: args[0] - args[1],
    "Mul": lambda args, _: args[0] * args[1],
    "Div": lambda args, _: args[0] / args[1],
    "Max": lambda args, _: torch.maximum(args[0], args[1]),
    "Min": lambda args, _: torch.minimum(args[0], args[1]),
    "Pow": lambda args, _: args[0] ** args[1],
    "MaxPool": max_pool,
    "AveragePool": average_pool,
    "GlobalAveragePool": lambda args, _: args[0].mean(list(range(2, args[0].ndim)), True),
    "GlobalMaxPool": lambda args, _: args[0].amax(list(range(2, args[0].ndim)), True),
    "ReduceMean": mean,
    "Resize": resize,
    "Reshape": reshape,
    "Flatten": flatten,
    "Squeeze": squeeze,
    "Unsqueeze": unsqueeze,
    "Transpose": lambda args, a: args[0].permute(*a.get("perm", range(args[0].ndim)[::-1])),
    "Concat": lambda args, a: torch.cat(list(args), a["axis"]),
    "Slice": cut,
    "Split": split,
    "Gather": gather,
    "Pad": pad,
    "DepthToSpace": depth_to_space,
    "Expand": lambda args, _: args[0] * torch.ones(_ints(args[1])),
    "Identity": lambda args, _: args[0],
    "LayerNormalization": layer_norm,
    "Softmax": lambda args, a: args[0].softmax(a.get("axis", -1)),
    "Relu": lambda args, _: args[0].relu(),
    "Clip": clip,
    "LeakyRelu": lambda args, a: F.leaky_relu(args[0], a.get("alpha", 0.01)),
    "PRelu": lambda args, _: torch.where(args[0] < 0, args[0] * args[1], args[0]),
    "Elu": lambda args, a: F.elu(args[0], a.get("alpha", 1.0)),
    "Sigmoid": lambda args, _: args[0].sigmoid(),
    "HardSigmoid": hard_sigmoid,
    "HardSwish": lambda args, _: F.hardswish(args[0]),
    "Tanh": lambda args, _: args[0].tanh(),
    "Gelu": gelu,
    "Erf": lambda args, _: args[0].erf(),
    "Exp": lambda args, _: args[0].exp(),
    "Log": lambda args, _: args[0].log(),
    "Sqrt": lambda args, _: args[0].sqrt(),
    "Abs": lambda args, _: args[0].abs(),
    "Neg": lambda args, _: -args[0],
    "Reciprocal": lambda args, _: args[0].reciprocal(),
    "Softplus": lambda args, _: F.softplus(args[0]),
}
