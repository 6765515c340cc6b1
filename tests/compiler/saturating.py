"""Networks built to saturate: sums of very many products, weights of one sign or of one sign for a while, features that
are all positive, zero points far out, channels whose scales differ a thousandfold, outputs with tiny scales."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from atonc.compiler.compare.inputs import make_extremes, make_inputs, make_noise
from atonc.compiler.compile.pipeline import Compiled, compile_graph
from atonc.compiler.ir import Array, Graph, Op, Tensor
from atonc.compiler.ops import run_graph
from atonc.compiler.request.options import Options
from atonc.compiler.verify.emulation import Emulation
from atonc.compiler.verify.verify import Layers
from atonc.machine.base.errors import VerificationError
from tests.lower.harness import activation, constant

Weights = NDArray[np.int8]
WITHIN = 2  # codes
FURTHER = 4  # seeds of further inputs of each kind

KINDS = ("dense", "dense", "pointwise", "window", "wide", "depthwise")
SIGNS = ("plus", "minus", "first plus, then minus", "taps against each other", "at random", "biased")
REACH = ("all that occurs", "a tenth", "a thousandth")  # of the sums, within the codes of the output


@dataclass(frozen=True)
class Shape:
    picture: tuple[int, int, int]
    weights: tuple[int, ...]
    groups: int = 1
    padding: tuple[int, int, int, int] = (0, 0, 0, 0)


def saturating_graph(seed: int) -> Graph:
    """One layer that may saturate, sometimes behind another one that makes its features positive."""
    rng = np.random.default_rng([seed, 24])
    shape = _shape(str(rng.choice(KINDS)), rng)
    x = activation("x", (1, *shape.picture), 0.02, int(rng.choice((-128, -128, 0, 127, 60))))
    ops, tensors, source = [], [x], x
    if rng.random() < 0.3 and shape.picture[2] > 1:
        source = activation("h", x.shape, 0.02 * float(rng.uniform(0.3, 1.5)), -128)
        ops.append(Op("abs", "positive", ("x",), ("h",), {}))
        tensors.append(source)
    weights = _weights(shape.weights, str(rng.choice(SIGNS)), rng)
    scales = 0.01 * 10.0 ** rng.uniform(-1.5, 1.5, shape.weights[0]) if rng.random() < 0.4 else np.array([0.01])
    tensors += [constant("w", weights, scales, axis=0 if scales.size > 1 else None)]
    tensors += [constant("b", rng.integers(-20000, 20000, shape.weights[0]).astype(np.int32))]
    y = _output(shape, rng)
    ops.append(_layer(shape, source.name))
    graph = Graph({t.name: t for t in (*tensors, y)}, tuple(ops), ("x",), ("y",))
    return _scaled(graph, y.zero_point, str(rng.choice(REACH, p=(0.6, 0.3, 0.1))))


def _shape(kind: str, rng: np.random.Generator) -> Shape:
    outputs = int(rng.choice((4, 8, 10, 16, 24)))
    if kind == "dense":
        inputs = int(rng.integers(2000, 12001))
        return Shape((1, 1, inputs), (outputs, inputs))
    if kind == "pointwise":
        channels = int(rng.integers(32, 257)) * 16
        return Shape((2, int(rng.integers(2, 4)), channels), (outputs, 1, 1, channels))
    if kind == "window":
        channels = int(rng.integers(4, 33)) * 16
        pad = (1, 1, 1, 1) if rng.random() < 0.7 else (0, 0, 0, 0)
        return Shape((5, 6, channels), (outputs, 3, 3, channels), padding=pad)
    size = int(rng.choice((5, 7)))
    if kind == "wide":
        channels = int(rng.choice((3, 8, 32)))
        return Shape((12, 12, channels), (outputs, size, size, channels), padding=(size // 2,) * 4)
    channels = int(rng.choice((8, 16, 24)))
    size = int(rng.choice((3, 5, 7)))
    return Shape((12, 12, channels), (channels, size, size, 1), channels, (size // 2,) * 4)


def _weights(shape: tuple[int, ...], signs: str, rng: np.random.Generator) -> Weights:
    low = int(rng.choice((1, 60, 120)))
    sizes = rng.integers(low, 128, shape)
    if signs == "plus":
        return sizes.astype(np.int8)
    if signs == "minus":
        return (-sizes).astype(np.int8)
    if signs == "first plus, then minus":
        last = np.arange(shape[-1]) * 2 >= shape[-1]
        return np.where(last, -sizes, sizes).astype(np.int8)
    if signs == "taps against each other" and len(shape) == 4:
        rows = (np.arange(shape[1]) % 2).reshape(1, -1, 1, 1)
        return np.where(rows, -sizes, sizes).astype(np.int8)
    return np.where(rng.random(shape) < (0.2 if signs == "biased" else 0.5), -sizes, sizes).astype(np.int8)


def _layer(shape: Shape, source: str) -> Op:
    names = (source, "w", "b")
    if len(shape.weights) == 2:
        return Op("dense", "layer", names, ("y",), {})
    attrs = {"stride": (1, 1), "dilation": (1, 1), "padding": shape.padding, "layout": "NHWC", "groups": shape.groups}
    return Op("conv", "layer", names, ("y",), attrs)


def _output(shape: Shape, rng: np.random.Generator) -> Tensor:
    zero = int(rng.choice((-128, 0, 127, -100)))
    if len(shape.weights) == 2:
        return activation("y", (1, shape.weights[0]), 1.0, zero)
    height, width, _ = shape.picture
    reach = [k - 1 - 2 * p for k, p in zip(shape.weights[1:3], shape.padding[:2], strict=True)]
    return activation("y", (1, height - reach[0], width - reach[1], shape.weights[0]), 1.0, zero)


def _scaled(graph: Graph, zero: int, reach: str) -> Graph:
    """The scale of the output, so that such a part of its values lies within the codes."""
    part = {"all that occurs": 1.0, "a tenth": 0.1, "a thousandth": 0.001}[reach]
    codes = 255.0 if abs(zero) > 64 else 127.0
    found, scale = graph, 1e6
    for _ in range(8):  # the largest value, in ever smaller steps
        found = _with_scale(graph, scale, 0)
        most = max(int(np.abs(run_graph(found, values)["y"].astype(int)).max()) for values in _some(graph))
        if most > 60:
            break
        scale *= max(most, 1) / 100
    return _with_scale(graph, max(part * scale * most / codes, 1e-9), zero)


def _some(graph: Graph) -> Iterator[dict[str, Array]]:
    natural = make_inputs(graph, 5)
    yield natural
    yield make_noise(natural, 5)


def _with_scale(graph: Graph, scale: float, zero: int) -> Graph:
    y = activation("y", graph.tensors["y"].shape, scale, zero)
    return Graph({**graph.tensors, "y": y}, graph.ops, graph.inputs, graph.outputs)


# ------------------------------------------------------------------------------------------------------------- verdicts


@dataclass(frozen=True)
class Verdict:
    """`off`: codes of the worst layer, over the inputs of the verification and further ones."""

    on_cpu: tuple[str, ...]  # rules that sent the layer there
    off: float
    room: float
    refused: str = ""  # by the verification: nothing would be written

    @property
    def wrong(self) -> bool:
        return self.off > WITHIN


def judge(graph: Graph) -> Verdict:
    try:
        compiled = compile_graph(graph, Options())
    except VerificationError as error:
        return Verdict((), 0.0, 0.0, str(error))
    assert compiled.report is not None
    layers = Layers.of(compiled)
    emulation = Emulation(compiled.program, compiled.graph)
    off, room = compiled.report.worst_layer, min((c.room for c in compiled.report.checks), default=np.inf)
    for inputs in further_inputs(compiled):
        checks = layers.check(inputs, emulation.run(inputs, observe=True))
        off = max(off, *(check.max_diff for check in checks))
        room = min(room, *(check.room for check in checks))
    return Verdict(tuple(r.rule.id for r in compiled.choices.reasons), off, room)


def further_inputs(compiled: Compiled) -> Iterator[dict[str, Array]]:
    """Others than those of verification and calibration: natural ones, noise, at the ends by other channels, flat."""
    graph = compiled.graph
    for seed in range(100, 100 + FURTHER):
        natural = make_inputs(graph, seed)
        yield natural
        yield make_noise(natural, seed)
        yield make_extremes(graph, seed)
    for end in (-128, 0, 127):
        yield {name: np.full(graph.tensors[name].shape, end, np.int8) for name in graph.inputs}
