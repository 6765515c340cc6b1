"""Random int8 networks whose values spread over their codes: 3 to 25 operators, branches, any zero points.

Every graph follows from its seed. Formats come from what the operators compute for example inputs (random_formats.py).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atonc.compiler.ir import Graph, Op, Quantisation, Tensor, check
from atonc.compiler.ops import evaluate
from atonc.compiler.ops.rounding import attribute
from tests.compiler.random_formats import plain_format, steep_format

Array = NDArray[Any]
Shape = tuple[int, ...]

MOST_ELEMENTS = 12_000
EXAMPLES = 4  # that the formats of plain networks are calibrated on


@dataclass
class Net:
    """A graph under construction, with the value that every tensor has for the example inputs."""

    rng: np.random.Generator
    plain: bool = False
    rounded_as_tflite: bool = False  # twice, or halves away from code zero (atonc/compiler/ops/rounding.py)
    tensors: dict[str, Tensor] = field(default_factory=dict)
    ops: list[Op] = field(default_factory=list)
    values: dict[str, Array] = field(default_factory=dict)  # for the first example
    others: list[dict[str, Array]] = field(default_factory=list)  # and for the others, without constants
    inputs: list[str] = field(default_factory=list)
    live: list[str] = field(default_factory=list)  # activations in the order of their birth

    def __post_init__(self) -> None:
        self.others = [{} for _ in range(EXAMPLES - 1 if self.plain else 0)]

    # ---------------------------------------------------------------------------------------------------- chances

    def fraction(self) -> float:
        return float(self.rng.random())

    def chance(self, probability: float) -> bool:
        return self.fraction() < probability

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
        for k, values in enumerate(self.others):
            values[name] = example(self.rng, shape, smooth=k % 2 == 0)
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
        self,
        kind: str,
        inputs: list[str],
        shapes: list[Shape] | Shape,
        same_format: bool = False,
        quant: Quantisation | None = None,
        **attrs: Any,
    ) -> list[str]:
        """Appends an operator; its outputs get the format of its first input, the given one or one that fits the
        values.

        Nothing is appended, and no name returned, when no format does.
        """
        many = shapes if isinstance(shapes, list) else [shapes]
        names = []
        for shape in many:
            names.append(self.name(kind))
            self.tensors[names[-1]] = Tensor(names[-1], shape, "float32")
        attrs |= attribute(kind) if self.rounded_as_tflite else {}
        op = Op(kind, f"{kind}_{len(self.ops)}", tuple(inputs), tuple(names), attrs, (f"{kind}_{len(self.ops)}",))
        quant = self.tensors[inputs[0]].quant if same_format else quant or self._format(op)
        if quant is None:
            for name in names:
                del self.tensors[name]
            return []
        for name, shape in zip(names, many, strict=True):
            self._keep(Tensor(name, shape, "int8", quant))
        for values in (self.values, *self.others):
            for name, result in zip(names, self.evaluate(op, self.values | values), strict=True):
                values[name] = result.codes
        self.ops.append(op)
        return names

    def runs(self) -> list[dict[str, Array]]:
        """The values of all tensors for each example."""
        return [self.values, *(self.values | values for values in self.others)]

    def real(self, name: str) -> Array:
        """What a tensor stands for, in all examples."""
        tensor = self.tensors[name]
        return np.stack([(v[name].astype(np.float64) - tensor.zero_point) * tensor.scale for v in self.runs()])

    def evaluate(self, op: Op, values: dict[str, Array]) -> Any:
        graph = Graph(self.tensors, (op,), (), op.outputs)
        return evaluate(graph, op, [values[n] if n else None for n in op.inputs])

    def _format(self, op: Op) -> Quantisation | None:
        return plain_format(self, op) if self.plain else steep_format(self, op)

    def graph(self, name: str) -> Graph:
        read = {n for op in self.ops for n in op.inputs}
        outputs = tuple(n for n in self.live if n not in read and n not in self.inputs)
        used = tuple(n for n in self.inputs if n in read)
        return check(Graph(dict(self.tensors), tuple(self.ops), used, outputs, name, "tflite"))


def random_graph(seed: int, plain: bool = False) -> Graph:
    from tests.compiler.random_ops import STEPS

    net = Net(np.random.default_rng([seed, 20251 if plain else 20250]), plain=plain)
    net.rounded_as_tflite = seed % 2 == 1
    side = net.number(4, 20)
    net.add_input((1, side, net.choice((side, side, net.number(1, 20))), net.channels()))
    if net.chance(0.15):
        net.add_input(net.shape(net.inputs[0]))
    shares = np.array([share for share, _ in STEPS.values()], np.float64)
    steps, shares = [step for _, step in STEPS.values()], shares / shares.sum()
    wanted = net.number(3, 24 if net.plain else 25)  # one more where a dense layer needs a reshape
    for _ in range(4 * wanted):
        if len(net.ops) >= wanted:
            break
        steps[int(net.rng.choice(len(steps), p=shares))](net)
    return net.graph(f"{'plain' if net.plain else 'steep'} {seed}")


def random_inputs(graph: Graph, seed: int) -> dict[str, Array]:
    """Smooth on even seeds, noise on odd ones."""
    rng = np.random.default_rng([seed, 7])
    return {name: example(rng, graph.tensors[name].shape, seed % 2 == 0) for name in graph.inputs}


def example(rng: np.random.Generator, shape: Shape, smooth: bool) -> Array:
    noise = rng.integers(-128, 128, shape)
    if smooth and len(shape) == 4:
        ramp = np.add.outer(np.arange(shape[1]), np.arange(shape[2]))[None, :, :, None] * 9 - 100
        noise = np.clip(ramp + noise // 4, -128, 127)
    return noise.astype(np.int8)
