"""Operators of random networks beyond the usual ones: states, attention, norms, quotients, computed shapes.

Some decide everything by a single code (a state that goes round many times, whole numbers). In plain networks, whose
outputs have to stay within two codes, these read inputs of the network: there the program and the source have the same
codes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from atonc.compiler.ir import Op, Quantisation, Tensor
from tests.compiler.random_graphs import MOST_ELEMENTS, Net
from tests.compiler.random_weights import plain_weights

SMALL = 3000  # elements of what is multiplied with each other


def _exact(net: Net, names: list[str]) -> list[str]:
    """Where a single code decides."""
    return [n for n in names if n in net.inputs] if net.plain else names


def lstm(net: Net) -> None:
    """A whole sequence on the CPU."""
    short = [n for n in _exact(net, net.pictures()) if np.prod(net.shape(n)[2:]) <= 96]
    if not short:
        return
    x, cells = net.pick(short), net.number(1, 12)
    _, steps, width, channels = net.shape(x)
    inputs = width * channels
    x = net.op("reshape", [x], (1, steps, inputs), same_format=True)[0]
    shapes = {"w": (4, cells, inputs), "r": (4, cells, cells)}
    weights = [net.constant(net.rng.integers(-127, 128, shape).astype(np.int8), None, name)
               for name, shape in shapes.items()]  # fmt: skip
    biases = net.constant(net.rng.integers(-9000, 9000, (8, cells)).astype(np.int32), None, "b")
    exponents = [net.number(-6, 1) for _ in range(8)]
    multipliers = tuple((net.number(1 << 30, (1 << 31) - 1), exponent) for exponent in (*exponents, -21))
    quant = Quantisation.per_tensor(1 / 128, net.number(-20, 20))
    attrs = {"multipliers": multipliers, "cell_bits": net.number(0, 6), "cell_clip": 0}
    net.op("lstm", [x, *weights, biases], (1, steps, cells), quant=quant, **attrs)


def silent_conv(net: Net) -> None:
    """A layer that never answered while it was calibrated: every sum but one saturates. Often only some channels.

    It reads inputs in both classes: behind other layers one rounding moves a value from one end to the other, and no
    number of trials says how often that may happen."""
    names = [n for n in net.pictures() if n in net.inputs]
    if not names:
        return
    x = net.pick(names)
    _, height, width, channels = net.shape(x)
    outputs = net.number(1, 24)
    if channels > 48 or height * width * outputs > MOST_ELEMENTS:
        return
    scales = 10.0 ** net.rng.uniform(-4, 0, outputs)
    step = 8e-9
    if net.chance(0.5):  # ordinary channels beside them
        step = 0.05
        ordinary = net.rng.random(outputs) < 0.6
        scales = np.where(ordinary, net.rng.uniform(0.001, 0.01, outputs), scales * 1e7)
    weights = net.rng.integers(-127, 128, (outputs, 1, 1, channels)).astype(np.int8)
    axis = 0 if outputs > 1 else None
    w = net.constant(weights, Quantisation(scales, np.zeros(outputs, np.int64), axis), "w")
    b = net.constant(net.rng.integers(-300, 300, outputs).astype(np.int32), None, "b")
    attrs = {"stride": (1, 1), "dilation": (1, 1), "padding": (0, 0, 0, 0), "groups": 1, "layout": "NHWC"}
    quant = Quantisation.per_tensor(step, net.zero_point())
    net.op("conv", [x, w, b], (1, height, width, outputs), quant=quant, activation="relu6", **attrs)


def attention(net: Net) -> None:
    """Products of two activations, as transformers have them, with a softmax in between or without."""
    small = [n for n in net.pictures() if net.tensors[n].elements <= SMALL and net.shape(n)[2] <= 24]
    if not small:
        return
    x = net.pick(small)
    _, rows, columns, channels = net.shape(x)
    alike = [n for n in small if net.shape(n)[:2] == (1, rows) and net.shape(n)[3] == channels]
    y = net.choice(alike)
    others = net.shape(y)[2]
    scores = net.op("matmul", [x, y], (1, rows, columns, others), transpose_b=True)
    if not scores or net.chance(0.4):
        return
    if net.chance(0.6):
        scores = net.op("softmax", scores, (1, rows, columns, others), axis=3, beta=1.0)
    if scores:
        net.op("matmul", [scores[0], y], (1, rows, columns, channels))


def norm(net: Net) -> None:
    """Mean, squared difference, reciprocal root: a layer norm as exporters write it, or the beginning of one."""
    small = [n for n in net.pictures() if net.tensors[n].elements <= SMALL and net.shape(n)[3] > 2]
    if not small:
        return
    x = net.pick(small)
    shape = net.shape(x)
    flat = (*shape[:3], 1)
    means = net.op("mean", [x], flat, axes=(3,), keepdims=True)
    squares = net.op("squared_difference", [x, means[0]], shape, activation="none") if means else []
    variance = net.op("mean", squares, flat, axes=(3,), keepdims=True) if squares else []
    if not variance or net.chance(0.3):
        return
    raised = _raised(net, variance[0])
    root = net.op("rsqrt", [raised], flat) if raised else []
    if root:
        net.op("mul", [x, root[0]], shape, activation="none")


def quotient(net: Net) -> None:
    """Something by something that keeps away from zero."""
    x = net.pick(net.live)
    alike = [n for n in net.live if net.shape(n) == net.shape(x)]
    positive = net.op(net.choice(("logistic", "relu", "abs", "square")), [net.choice(alike)], net.shape(x))
    raised = _raised(net, positive[0]) if positive else ""
    if raised:
        net.op("div", [x, raised], net.shape(x))


def _raised(net: Net, name: str) -> str:
    """A sum with a positive constant of a tenth of the range or more."""
    tensor = net.tensors[name]
    step = tensor.scale * float(net.rng.uniform(0.3, 1.5))
    constant = net.constant(np.array([net.number(60, 120)], np.int8), Quantisation.per_tensor(step, 0))
    shape = (1,) * len(tensor.shape)
    net.tensors[constant] = replace(net.tensors[constant], shape=shape, data=net.values[constant].reshape(shape))
    net.values[constant] = net.values[constant].reshape(shape)
    found = net.op("add", [name, constant], tensor.shape, activation="none")
    return found[0] if found else ""


def difference(net: Net) -> None:
    x = net.pick(net.live)
    y = net.choice([n for n in net.live if net.shape(n) == net.shape(x)])
    net.op("squared_difference", [x, y], net.shape(x), activation="none")


def whole(net: Net) -> None:
    """Roundings to whole numbers: of values that are far apart, so that a code more or less seldom counts."""
    names = _exact(net, net.live)
    if names:
        x = net.pick(names)
        net.op(str(net.choice(("round", "floor", "ceil"))), [x], net.shape(x))


def gather_nd(net: Net) -> None:
    x = net.pick(net.pictures())
    shape = net.shape(x)
    depth, count = net.number(2, 3), net.number(1, 24)
    places = [net.rng.integers(0, size, count) for size in shape[:depth]]
    indices = net.constant(np.stack(places, axis=-1).astype(np.int32), None, "i")
    net.op("gather_nd", [x, indices], (count, *shape[depth:]), same_format=True)
    rows = net.live[-1]
    net.op("reshape", [rows], (1, int(np.prod(net.shape(rows)))), same_format=True)


def computed_shape(net: Net) -> None:
    """A reshape to a shape that the graph works out from that of a tensor."""
    x = net.pick(net.pictures())
    _, height, width, channels = net.shape(x)
    dims = _whole_numbers(net, "shape", [x], np.array(net.shape(x)))
    first = _whole_numbers(net, "slice", [dims], np.array([1]), starts=(0,), stops=(1,), steps=(1,))
    rest = net.constant(np.array([height * width, channels], np.int32), None, "i")
    wanted = _whole_numbers(net, "concat", [first, rest], np.array([1, height * width, channels]), axis=0)
    found = net.op("reshape", [x, wanted], (1, height * width, channels), same_format=True)
    net.op("reshape", found, (1, width, height, channels), same_format=True)


def _whole_numbers(net: Net, kind: str, inputs: list[str], value: Any, **attrs: Any) -> str:
    """An operator on sizes: no activation, and no code."""
    name = net.name(kind)
    net.tensors[name] = Tensor(name, value.shape, "int32")
    net.values[name] = value.astype(np.int32)
    net.ops.append(Op(kind, f"{kind}_{len(net.ops)}", tuple(inputs), (name,), attrs, (f"{kind}_{len(net.ops)}",)))
    return name


def resize_any(net: Net) -> None:
    """To any size: weights that differ from pixel to pixel."""
    x = net.pick(net.pictures())
    _, height, width, channels = net.shape(x)
    out = (1, net.number(1, 3 * height + 1), net.number(1, 3 * width + 1), channels)
    if int(np.prod(out)) > MOST_ELEMENTS:
        return
    coordinates = net.choice(("half_pixel", "align_corners", "asymmetric"))
    net.op("resize_linear", [x], out, same_format=net.chance(0.6), coordinates=coordinates)


def gated(net: Net) -> None:
    """One or two steps of a recurrent layer as an importer unrolls them: h + z * (n - h)."""
    small = [n for n in net.live if net.tensors[n].elements <= 512]
    if not small:
        return
    x, cells = net.pick(small), net.number(2, 24)
    elements = net.tensors[x].elements
    if net.shape(x) != (1, elements):
        x = net.op("reshape", [x], (1, elements), same_format=True)[0]
    state = _dense(net, x, cells)
    for _ in range(net.number(1, 2)):
        if not state:
            return
        gate, new = _dense(net, state, cells), _dense(net, x, cells)
        opened = net.op("logistic", [gate], (1, cells)) if gate else []
        shown = net.op("tanh", [new], (1, cells)) if new else []
        change = net.op("sub", [shown[0], state], (1, cells), activation="none") if shown else []
        moved = net.op("mul", [opened[0], change[0]], (1, cells), activation="none") if opened and change else []
        found = net.op("add", [state, moved[0]], (1, cells), activation="none") if moved else []
        state = found[0] if found else ""


def _dense(net: Net, x: str, outputs: int) -> str:
    weights, bias = plain_weights(net, x, (outputs, net.shape(x)[1]))
    found = net.op("dense", [x, weights, bias], (1, outputs), activation="none")
    return found[0] if found else ""
