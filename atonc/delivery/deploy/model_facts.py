"""What the application must know of a model: sizes, types and scales at its edges."""

from __future__ import annotations

from pathlib import Path

from atonc.compiler.frontends.read import read
from atonc.compiler.ir import Graph, Tensor
from atonc.machine.base.errors import UnsupportedError
from atonc.machine.base.frozen import dataclass


@dataclass(frozen=True)
class Edge:
    name: str
    shape: tuple[int, ...]
    dtype: str
    scale: float = 0.0  # 0.0 and 0: the values are plain numbers
    zero_point: int = 0


@dataclass(frozen=True)
class ModelFacts:
    name: str  # of the file
    inputs: tuple[Edge, ...]
    outputs: tuple[Edge, ...]
    channels_last: bool = True

    @property
    def image(self) -> tuple[int, int, int]:
        """Height, width and channels of the first input."""
        shape = self.inputs[0].shape
        if len(shape) != 4 or shape[0] != 1:
            rule = "an application with a camera hands the network one picture"
            raise UnsupportedError(f"the input of {self.name} is {_sizes(shape)}, no picture", rule=rule)
        return (shape[1], shape[2], shape[3]) if self.channels_last else (shape[2], shape[3], shape[1])

    def output(self, index: int = 0) -> Edge:
        return self.outputs[index]


def facts_of(graph: Graph, name: str) -> ModelFacts:
    inputs = tuple(_edge(graph.tensors[n]) for n in graph.inputs)
    return ModelFacts(name, inputs, tuple(_edge(graph.tensors[n]) for n in graph.outputs), _is_last(graph, inputs[0]))


def read_facts(path: Path) -> ModelFacts:
    return facts_of(read(path), path.name)


def _edge(tensor: Tensor) -> Edge:
    if tensor.quant is None or tensor.dtype.startswith("float"):
        return Edge(tensor.name, tensor.shape, tensor.dtype)
    return Edge(tensor.name, tensor.shape, tensor.dtype, tensor.scale, tensor.zero_point)


def _is_last(graph: Graph, first: Edge) -> bool:
    """Pictures have one or three channels; where both ends could be channels, the file's kind decides."""
    if len(first.shape) != 4:
        return True
    last, second = (first.shape[at] in (1, 3) for at in (3, 1))
    return last if last != second else graph.source == "tflite"


def _sizes(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape))
