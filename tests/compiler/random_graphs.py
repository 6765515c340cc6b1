"""Random int8 networks whose values spread over their codes: 3 to 25 operators, branches, any zero points.

Every graph follows from its seed alone. Formats come from what the operators compute for one example input, as a
quantiser would choose them, with some that saturate and some that waste codes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atonc.ir import Graph, Op, Quantisation, Tensor, check
from atonc.ops import evaluate

Array = NDArray[Any]
Shape = tuple[int, ...]

MOST_ELEMENTS = 12_000


@dataclass
class Net:
    """A graph under construction, with the value that every tensor has for the example input."""

    rng: np.random.Generator
    tensors: dict[str, Tensor] = field(default_factory=dict)
    ops: list[Op] = field(default_factory=list)
    values: dict[str, Array] = field(default_factory=dict)
    inputs: list[str] = field(default_factory=list)
    live: list[str] = field(default_factory=list)  # activations in the order of their birth

    # ---------------------------------------------------------------------------------------------------- chances

    def chance(self, probability: float) -> bool:
        return bool(self.rng.random() < probability)

    def number(self, low: int, high: int) -> int:
        """From low to high, both included."""
        return int(self.rng.integers(low, high + 1))

    def choice(self, options: Any) -> Any:
        return options[self.number(0, len(options) - 1)]

    def channels(self) -> int:
        return int(self.choice((1, 2, 3, 4, 5, 7, 8, 11, 13, 16, 17, 19, 24, 32, 37, 48, 64, self.number(1, 96))))

    # ---------------------------------------------------------------------------------------------------- tensors

    def name(self, stem: str) -> str:
        return f"{stem}{len(self.tensors)}"

    def shape(self, name: str) -> Shape:
        return self.tensors[name].shape

    def pictures(self) -> list[str]:
        return [n for n in self.live if len(self.shape(n)) == 4]

    def pick(self, names: list[str]) -> str:
        """Mostly one of the youngest, so that networks become deep."""
        return names[-1] if self.chance(0.6) else str(self.choice(names))

    def add_input(self, shape: Shape) -> str:
        scale = float(self.rng.uniform(0.005, 0.1))
        name = self.name("input")
        self._keep(Tensor(name, shape, "int8", Quantisation.per_tensor(scale, self.zero_point())))
        self.values[name] = self.rng.integers(-128, 128, shape).astype(np.int8)
        self.inputs.append(name)
        return name

    def zero_point(self) -> int:
        return int(self.choice((-128, 127, 0, 0, self.number(-128, 127), self.number(-40, 40))))

    def constant(self, data: Array, quant: Quantisation | None = None, stem: str = "k") -> str:
        name = self.name(stem)
        self.tensors[name] = Tensor(name, data.shape, str(data.dtype), quant, data)
        self.values[name] = data
        return name

    def _keep(self, tensor: Tensor) -> None:
        self.tensors[tensor.name] = tensor
        self.live.append(tensor.name)

    # -------------------------------------------------------------------------------------------------- operators

    def op(
        self, kind: str, inputs: list[str], shapes: list[Shape] | Shape, same_format: bool = False, **attrs: Any
    ) -> list[str]:
        """Appends an operator; its outputs get the format of its first input or one that fits the values."""
        many = shapes if isinstance(shapes, list) else [shapes]
        names = []
        for shape in many:
            names.append(self.name(kind))
            self.tensors[names[-1]] = Tensor(names[-1], shape, "float32")
        op = Op(kind, f"{kind}_{len(self.ops)}", tuple(inputs), tuple(names), attrs, (f"{kind}_{len(self.ops)}",))
        quant = self.tensors[inputs[0]].quant if same_format else self._format(op)
        for name, shape in zip(names, many, strict=True):
            self._keep(Tensor(name, shape, "int8", quant))
        for name, result in zip(names, self._evaluate(op), strict=True):
            self.values[name] = result.codes
        self.ops.append(op)
        return names

    def _evaluate(self, op: Op) -> Any:
        graph = Graph(self.tensors, (op,), (), op.outputs)
        return evaluate(graph, op, [self.values[n] if n else None for n in op.inputs])

    def _format(self, op: Op) -> Quantisation:
        """A scale that spreads the values, sometimes too tight or too wide; any zero point that covers them."""
        real = self._evaluate(op)[0].exact
        low, high = min(0.0, float(real.min())), max(0.0, float(real.max()))
        if high - low < 1e-9:
            return Quantisation.per_tensor(self.tensors[op.inputs[0]].scale, self.zero_point())  # windows of padding
        scale = (high - low) / 255.0 * float(self.choice((1.0, 1.0, 1.0, self.rng.uniform(0.6, 1.8))))
        zero = int(np.clip(round(-128 - low / scale), -128, 127))
        if self.chance(0.15):  # symmetric, as many tools have it
            scale, zero = max(high, -low) / 127.0, 0
        return Quantisation.per_tensor(float(np.float32(scale)), zero)

    def graph(self, name: str) -> Graph:
        read = {n for op in self.ops for n in op.inputs}
        outputs = tuple(n for n in self.live if n not in read and n not in self.inputs)
        used = tuple(n for n in self.inputs if n in read)
        return check(Graph(dict(self.tensors), tuple(self.ops), used, outputs, name, "tflite"))


def random_graph(seed: int) -> Graph:
    from tests.compiler.random_ops import STEPS

    net = Net(np.random.default_rng([seed, 20250]))
    side = net.number(4, 20)
    net.add_input((1, side, net.choice((side, side, net.number(1, 20))), net.channels()))
    if net.chance(0.15):
        net.add_input(net.shape(net.inputs[0]))
    kinds, weights = list(STEPS), np.array([STEPS[k][0] for k in STEPS], np.float64)
    wanted = net.number(3, 25)
    for _ in range(4 * wanted):
        if len(net.ops) >= wanted:
            break
        kind = kinds[int(net.rng.choice(len(kinds), p=weights / weights.sum()))]
        STEPS[kind][1](net)
    return net.graph(f"random {seed}")


def random_inputs(graph: Graph, seed: int) -> dict[str, Array]:
    """Smooth on even seeds, noise on odd ones."""
    rng = np.random.default_rng([seed, 7])
    found = {}
    for name in graph.inputs:
        shape = graph.tensors[name].shape
        noise = rng.integers(-128, 128, shape)
        if seed % 2 == 0 and len(shape) == 4:
            ramp = np.add.outer(np.arange(shape[1]), np.arange(shape[2]))[None, :, :, None] * 9 - 100
            noise = np.clip(ramp + noise // 4, -128, 127)
        found[name] = noise.astype(np.int8)
    return found
