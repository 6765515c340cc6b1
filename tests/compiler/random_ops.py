"""The operators that random networks are made of, each as one step that may or may not find a place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from atonc.compiler.ir import Quantisation
from tests.compiler import random_more_ops as more
from tests.compiler.random_graphs import MOST_ELEMENTS, Net
from tests.compiler.random_weights import plain_weights

Step = Callable[[Net], None]


def _weights(net: Net, x: str, shape: tuple[int, ...]) -> tuple[str, str]:
    """Weights and bias; per channel or per tensor."""
    outputs = shape[0]
    if net.plain:
        return plain_weights(net, x, shape)
    data = net.rng.integers(-127, 128, shape)
    if net.chance(0.3):  # bell-shaped, as trained weights are
        data = np.clip(np.rint(net.rng.normal(0, 30, shape)), -127, 127)
    per_channel = net.chance(0.7)
    scales = net.rng.uniform(0.001, 0.01, outputs if per_channel else 1)
    axis = 0 if scales.size > 1 else None
    weights = net.constant(data.astype(np.int8), Quantisation(scales, np.zeros(scales.size, np.int64), axis), "w")
    if net.chance(0.15):
        return weights, ""
    return weights, net.constant(net.rng.integers(-3000, 3000, outputs).astype(np.int32), None, "b")


def _activation(net: Net) -> str:
    return str(net.choice(("none", "none", "none", "relu", "relu6")))


def _sizes(size: tuple[int, int], kernel: Any, stride: Any, dilation: Any, padding: Any) -> tuple[int, int] | None:
    top, left, bottom, right = padding
    found = []
    for n, k, s, d, p in zip(size, kernel, stride, dilation, (top + bottom, left + right), strict=True):
        found.append((n + p - (k - 1) * d - 1) // s + 1)
    return (found[0], found[1]) if min(found) >= 1 else None


def _same(size: tuple[int, int], kernel: Any, stride: Any, dilation: Any) -> tuple[int, int, int, int]:
    """Padding as TFLite's SAME."""
    pads = []
    for n, k, s, d in zip(size, kernel, stride, dilation, strict=True):
        total = max(0, (-(-n // s) - 1) * s + (k - 1) * d + 1 - n)
        pads.append((total // 2, total - total // 2))
    return pads[0][0], pads[1][0], pads[0][1], pads[1][1]


def _window(net: Net, size: tuple[int, int], most: int, strides: Any, dilations: Any) -> dict[str, Any] | None:
    edge = net.number(1, most)
    kernel = (edge, edge) if net.chance(0.75) else (net.number(1, most), net.number(1, most))
    step = net.choice(strides)
    stride = (step, step) if net.chance(0.85) else (net.choice(strides), net.choice(strides))
    spread = net.choice(dilations) if stride == (1, 1) else 1
    dilation = (spread, spread)
    padding = (0, 0, 0, 0)
    if net.chance(0.65):
        padding = _same(size, kernel, stride, dilation)
    elif net.chance(0.3):
        limits = [(k - 1) * spread for k in (*kernel, *kernel)]
        padding = tuple(net.number(0, limit) for limit in limits)
    out = _sizes(size, kernel, stride, dilation, padding)
    if out is None:
        return None
    return {"kernel": kernel, "stride": stride, "dilation": dilation, "padding": padding, "out": out}


def conv(net: Net) -> None:
    x = net.pick(net.pictures())
    _, height, width, channels = net.shape(x)
    window = _window(net, (height, width), 5, (1, 1, 1, 2), (1, 1, 1, 1, 2, 3))
    if window is None:
        return
    kernel, out = window.pop("kernel"), window.pop("out")
    groups, outputs = 1, net.channels()
    style = net.fraction()
    if style < 0.35:  # depthwise
        groups, outputs = channels, channels * int(net.choice((1, 1, 1, 2, 3)))
    elif style < 0.45:
        divisors = [g for g in range(2, min(channels, 6) + 1) if channels % g == 0]
        groups = net.choice(divisors) if divisors else 1
        outputs = groups * net.number(1, 12)
    if out[0] * out[1] * outputs > MOST_ELEMENTS:
        return
    weights, bias = _weights(net, x, (outputs, *kernel, channels // groups))
    attrs = {**window, "groups": groups, "layout": "NHWC", "activation": _activation(net)}
    net.op("conv", [x, weights, bias], (1, *out, outputs), **attrs)


def transpose_conv(net: Net) -> None:
    x = net.pick(net.pictures())
    _, height, width, channels = net.shape(x)
    step, edge, outputs = net.choice((1, 2, 2, 3)), net.number(1, 4), net.choice((1, 3, 8, 13, 16))
    pads = tuple(net.number(0, (edge - 1) // 2) for _ in range(4))
    rows = (height - 1) * step + edge - pads[0] - pads[2]
    columns = (width - 1) * step + edge - pads[1] - pads[3]
    if min(rows, columns) < 1 or rows * columns * outputs > MOST_ELEMENTS:
        return
    weights, bias = _weights(net, x, (outputs, edge, edge, channels))
    attrs = {"stride": (step, step), "padding": pads, "layout": "NHWC", "activation": _activation(net)}
    net.op("transpose_conv", [x, weights, bias], (1, rows, columns, outputs), **attrs)


def dense(net: Net) -> None:
    x = net.pick(net.live)
    elements = net.tensors[x].elements
    if elements > 3000:
        return
    if len(net.shape(x)) != 2:
        x = net.op("reshape", [x], (1, elements), same_format=True)[0]
    outputs = net.channels()
    weights, bias = _weights(net, x, (outputs, elements))
    net.op("dense", [x, weights, bias], (1, outputs), activation=_activation(net))


def binary(net: Net) -> None:
    x = net.pick(net.live)
    shape = net.shape(x)
    kind = net.choice(("add", "add", "add", "sub", "mul", "mul", "minimum", "maximum"))
    others = [n for n in net.live if net.shape(n) == shape]
    rows = [n for n in net.live if len(net.shape(n)) == 4 == len(shape) and net.shape(n) == (1, 1, 1, shape[-1])]
    style = net.fraction()
    if style < 0.25:
        y = _constant_operand(net, shape)
    elif style < 0.45 and rows:
        y = net.choice(rows)
    else:
        y = net.choice(others)
    pair = [y, x] if net.chance(0.3) else [x, y]
    activation = {"activation": _activation(net)} if kind in ("add", "sub", "mul") else {}
    net.op(kind, pair, shape, **activation)


def _constant_operand(net: Net, shape: tuple[int, ...]) -> str:
    """One value, one per channel, or one per element."""
    sizes = net.choice(((1,) * len(shape), (shape[-1],), (1,) * (len(shape) - 1) + (shape[-1],), shape))
    quant = Quantisation.per_tensor(float(net.rng.uniform(0.005, 0.05)), net.number(-128, 127))
    return net.constant(net.rng.integers(-128, 128, sizes).astype(np.int8), quant)


FUNCTIONS = (
    "logistic", "tanh", "hard_swish", "silu", "relu", "relu6", "leaky_relu", "elu", "gelu", "abs", "neg", "square",
    "requantize", "requantize", "clip", "hard_sigmoid", "softplus", "mish",
)  # fmt: skip


def function(net: Net) -> None:
    x = net.pick(net.live)
    kind = str(net.choice(FUNCTIONS))
    attrs: dict[str, Any] = {
        "leaky_relu": {"alpha": float(net.rng.uniform(0.01, 0.5))},
        "elu": {"alpha": 1.0},
        "clip": {"low": -float(net.rng.uniform(0.1, 1)), "high": float(net.rng.uniform(0.1, 2))},
        "hard_sigmoid": {"alpha": 1 / 6, "beta": 0.5},
    }.get(kind, {})
    net.op(kind, [x], net.shape(x), **attrs)


def table(net: Net) -> None:
    """Any function of a code, smooth or not."""
    x = net.pick(net.live)
    entries = np.clip(np.cumsum(net.rng.normal(0, 6, 256)), -128, 127)
    if net.plain:  # waves that never rise by more than a code
        phases = np.cumsum(net.rng.uniform(0.0, 0.1, 256)) + net.rng.uniform(-3.1, 3.1)
        entries = np.clip(np.cumsum(np.sin(phases)) + net.number(-100, 100), -128, 127)
    elif net.chance(0.3):
        entries = net.rng.integers(-128, 128, 256)
    net.op("table", [x], net.shape(x), same_format=True, table=tuple(int(v) for v in np.rint(entries)))


def prelu(net: Net) -> None:
    x = net.pick(net.pictures())
    slopes = net.rng.integers(-128, 128, (1, 1, net.shape(x)[3])).astype(np.int8)
    slope = net.constant(slopes, Quantisation.per_tensor(float(net.rng.uniform(0.001, 0.01)), net.number(-20, 20)))
    net.op("prelu", [x, slope], net.shape(x))


def pool(net: Net) -> None:
    x = net.pick(net.pictures())
    _, height, width, channels = net.shape(x)
    window = _window(net, (height, width), 5, (1, 2, 2, 3), (1,))
    if window is None:
        return
    kernel, out = window.pop("kernel"), window.pop("out")
    window["padding"] = tuple(min(p, k - 1) for p, k in zip(window["padding"], (*kernel, *kernel), strict=True))
    kind = net.choice(("max_pool", "average_pool"))
    attrs = {**window, "window": kernel, "layout": "NHWC"}
    net.op(kind, [x], (1, *out, channels), same_format=net.chance(0.8), **attrs)


def mean(net: Net) -> None:
    x = net.pick(net.pictures())
    channels, keep = net.shape(x)[3], net.chance(0.6)
    net.op("mean", [x], (1, 1, 1, channels) if keep else (1, channels), axes=(1, 2), keepdims=keep)


def concat(net: Net) -> None:
    x = net.pick(net.live)
    shape = net.shape(x)
    axis = len(shape) - 1 if net.chance(0.7) else net.number(1, len(shape) - 1)
    fits = [n for n in net.live if _without(net.shape(n), axis) == _without(shape, axis)]
    parts = [x, *(net.choice(fits) for _ in range(net.number(1, 2)))]
    total = sum(net.shape(n)[axis] for n in parts)
    out = (*shape[:axis], total, *shape[axis + 1 :])
    if int(np.prod(out)) <= MOST_ELEMENTS:
        net.op("concat", parts, out, axis=axis)


def _without(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    return (len(shape), *shape[:axis], -1, *shape[axis + 1 :])


def split(net: Net) -> None:
    x = net.pick(net.live)
    shape = net.shape(x)
    axis = net.number(1, len(shape) - 1)
    if shape[axis] < 2:
        return
    first = net.number(1, shape[axis] - 1)
    cuts = [first, shape[axis] - first]
    net.op("split", [x], [(*shape[:axis], n, *shape[axis + 1 :]) for n in cuts], same_format=True, axis=axis)


def slice_(net: Net) -> None:
    x = net.pick(net.live)
    shape = net.shape(x)
    starts, stops, steps = [0] * len(shape), list(shape), [1] * len(shape)
    for axis in range(1, len(shape)):
        if shape[axis] > 1 and net.chance(0.5):
            starts[axis] = net.number(0, shape[axis] - 1)
            stops[axis] = net.number(starts[axis] + 1, shape[axis])
            steps[axis] = net.choice((1, 1, 2, 3))
    out = tuple(len(range(*part)) for part in zip(starts, stops, steps, strict=True))
    attrs = {"starts": tuple(starts), "stops": tuple(stops), "steps": tuple(steps)}
    net.op("slice", [x], out, same_format=True, **attrs)


def pad(net: Net) -> None:
    x = net.pick(net.pictures())
    shape = net.shape(x)
    mode = net.choice(("constant", "constant", "constant", "reflect", "symmetric"))
    most = [0, 4, 4, 4 if net.chance(0.2) else 0]
    if mode != "constant":
        most = [min(limit, size - 1) for limit, size in zip(most, shape, strict=True)]
    pads = tuple((net.number(0, limit), net.number(0, limit)) for limit in most)
    out = tuple(size + before + after for size, (before, after) in zip(shape, pads, strict=True))
    if int(np.prod(out)) <= MOST_ELEMENTS:
        net.op("pad", [x], out, same_format=True, pads=pads, mode=mode)


def reshape(net: Net) -> None:
    x = net.pick(net.live)
    elements = net.tensors[x].elements
    dims = [d for d in range(1, min(elements, 96) + 1) if elements % d == 0]
    channels = net.choice(dims)
    heights = [d for d in range(1, 33) if elements // channels % d == 0]
    height = net.choice(heights)
    width = elements // channels // height
    out = (1, height, width, channels) if net.chance(0.8) else (1, elements)
    net.op("reshape", [x], out, same_format=True)


def transpose(net: Net) -> None:
    x = net.pick(net.pictures())
    perm = (0, *(int(axis) for axis in net.rng.permutation((1, 2, 3))))
    net.op("transpose", [x], tuple(net.shape(x)[p] for p in perm), same_format=True, perm=perm)


def resize(net: Net) -> None:
    x = net.pick(net.pictures())
    _, height, width, channels = net.shape(x)
    scale = net.choice((2, 2, 3, 4))
    if height * width * channels * scale * scale > MOST_ELEMENTS:
        return
    coordinates, rounding = net.choice((("asymmetric", "floor"), ("tf_half_pixel_for_nn", "floor")))
    attrs = {"coordinates": coordinates, "rounding": rounding}
    out = (1, height * scale, width * scale, channels)
    net.op("resize_nearest", [x], out, same_format=True, **attrs)


def resize_linear(net: Net) -> None:
    x = net.pick(net.pictures())
    _, height, width, channels = net.shape(x)
    tall, wide = (net.choice((1, 2, 2, 4)) for _ in range(2))
    if height * width * channels * tall * wide > MOST_ELEMENTS:
        return
    coordinates = net.choice(("half_pixel", "half_pixel", "align_corners", "asymmetric"))
    out = (1, height * tall, width * wide, channels)
    net.op("resize_linear", [x], out, same_format=net.chance(0.6), coordinates=coordinates)


def blocks(net: Net) -> None:
    x = net.pick(net.pictures())
    _, height, width, channels = net.shape(x)
    if channels % 4 == 0 and net.chance(0.5):
        out = (1, height * 2, width * 2, channels // 4)
        net.op("depth_to_space", [x], out, same_format=True, block=2, layout="NHWC")
    elif height % 2 == 0 and width % 2 == 0:
        out = (1, height // 2, width // 2, channels * 4)
        net.op("space_to_depth", [x], out, same_format=True, block=2, layout="NHWC")


def softmax(net: Net) -> None:
    """On the CPU: NPU and CPU steps take turns."""
    x = net.pick(net.live)
    net.op("softmax", [x], net.shape(x), axis=len(net.shape(x)) - 1, beta=1.0)


STEPS: dict[str, tuple[float, Step]] = {
    "conv": (9.0, conv),
    "transpose_conv": (0.5, transpose_conv),
    "dense": (1.0, dense),
    "binary": (4.0, binary),
    "function": (3.0, function),
    "table": (0.5, table),
    "prelu": (0.7, prelu),
    "pool": (2.5, pool),
    "mean": (0.8, mean),
    "concat": (2.0, concat),
    "split": (1.0, split),
    "slice": (1.0, slice_),
    "pad": (1.0, pad),
    "reshape": (0.7, reshape),
    "transpose": (0.7, transpose),
    "resize": (1.0, resize),
    "resize_linear": (0.5, resize_linear),
    "blocks": (0.5, blocks),
    "softmax": (0.2, softmax),
    "lstm": (0.3, more.lstm),
    "silent_conv": (0.3, more.silent_conv),
    "attention": (0.3, more.attention),
    "norm": (0.3, more.norm),
    "quotient": (0.4, more.quotient),
    "difference": (0.4, more.difference),
    "whole": (0.3, more.whole),
    "gather_nd": (0.3, more.gather_nd),
    "computed_shape": (0.3, more.computed_shape),
    "resize_any": (0.3, more.resize_any),
    "gated": (0.3, more.gated),
}
