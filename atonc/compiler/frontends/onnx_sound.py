"""Operators of sound in front of an ONNX model's first quantisation (STFT, DFT, mel filters, a logarithm): none of them
becomes an operator of the network. A declared front end may stand for them; the network begins behind them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from atonc.compiler.frontends import limits
from atonc.compiler.frontends.onnx_elements import constant_data
from atonc.compiler.frontends.tails import in_order, reads_of
from atonc.compiler.ir import Array
from atonc.machine.base.errors import UnsupportedError
from atonc.machine.base.frozen import dataclass
from atonc.machine.base.words import count

TRANSFORMS = ("STFT", "DFT")
TABLES = ("HannWindow", "HammingWindow", "MelWeightMatrix")
KINDS = (
    *TRANSFORMS, *TABLES, "MatMul", "Constant", "Identity", "Cast", "Reshape", "Squeeze", "Unsqueeze", "Flatten",
    "Transpose", "Slice", "Gather", "Split", "Add", "Sub", "Mul", "Div", "Max", "Min", "Clip", "Log", "Sqrt", "Pow",
    "ReduceSum", "ReduceSumSquare", "ReduceL2",
)  # fmt: skip
BROADCAST = ("Add", "Sub", "Mul", "Div", "Max", "Min", "Pow")
MOST_SAMPLES, MOST_VALUES, MOST_TABLE = 1 << 20, 1 << 24, 8192
REMEDY = "leave it out of the export and declare what training does ([frame], [spectrum], [mel], [log])"


def refused(what: str, where: str, rule: str, remedy: str = REMEDY) -> UnsupportedError:
    return UnsupportedError(what, where=where, rule=rule, remedy=remedy)


@contextmanager
def computed(name: str) -> Iterator[None]:
    """Damaged heads have shapes that nobody thought of."""
    try:
        yield
    except (ValueError, IndexError, KeyError, TypeError, OverflowError, MemoryError, ZeroDivisionError) as error:
        raise refused(
            f"the sound operators cannot be computed: {type(error).__name__} {str(error)[:200]}", name,
            "samples of one sound, frames x bins behind the transform",
        ) from error  # fmt: skip


@dataclass(frozen=True, eq=False)
class SoundHead:
    """The nodes from samples to the first quantisation behind a transform, which itself is not one of them."""

    name: str
    nodes: tuple[Any, ...]
    opsets: tuple[Any, ...]
    constants: Mapping[str, Array]
    samples: Any  # ValueInfoProto
    transform: Any
    quantize: Any
    behind: tuple[Any, ...]

    @classmethod
    def of(cls, model: Any, name: str) -> SoundHead:
        """UnsupportedError where no quantisation, or more than that, hangs on the transform."""
        limits.count(len(model.graph.node), limits.MAX_OPS, "nodes")
        nodes = [model.graph.node[k] for k in in_order(model.graph.node)]
        transform = next(node for node in nodes if node.op_type in TRANSFORMS)
        sound, quantize = set(transform.output), None
        for node in nodes:
            if not sound.isdisjoint(reads_of(node)):
                if node.op_type == "QuantizeLinear":
                    quantize = node
                    break
                sound.update(node.output)
        if quantize is None:
            raise refused(
                "nothing is quantised behind the sound", name, "a front end ends at the first quantisation",
                "quantise the model behind its features: declare the front end, and atonc quantize what follows",
            )  # fmt: skip
        head = _before(nodes, quantize.input)
        inside = {id(node) for node in head}
        reads = {one for node in (*head, quantize) for one in node.input}
        kept = [one for one in model.graph.initializer if one.name in reads]
        constants = {one.name: constant_data(one) for one in kept}
        moving = [one for one in model.graph.input if one.name in reads and one.name not in constants]
        if len(moving) != 1:
            raise refused(
                f"the front end reads {count(len(moving), 'input')}", name, "a front end takes the samples of one sound"
            )
        rest = tuple(node for node in nodes if id(node) not in inside and node is not quantize)
        found = cls(
            name, tuple(head), tuple(model.opset_import), constants, moving[0], transform, quantize, rest
        )  # fmt: skip
        found._require(model)
        return found

    def _require(self, model: Any) -> None:
        for node in self.nodes:
            if node.op_type not in KINDS or node.domain not in ("", "ai.onnx"):
                raise self.no_part(node, "it has no such operator")
            if node.op_type in TRANSFORMS and node is not self.transform:
                raise self.no_part(node, "it is the second transform")
            if node.op_type in TABLES and not self._sized(node):
                raise self.no_part(node, f"tables have constant sizes of at most {MOST_TABLE:,}")
        sound = self.moving
        others = {one for node in self.behind for one in reads_of(node)} | {one.name for one in model.graph.output}
        if shared := sorted(sound & others):
            raise refused(
                f"{shared[0]!r} is also read by what does not go through {self.codes!r}", self.name,
                "a front end is all that reads the samples", "let one quantisation stand in front of the branches",
            )  # fmt: skip

    def no_part(self, node: Any, why: str) -> UnsupportedError:
        label = f"{node.op_type} {node.name or node.output[0]!r}"
        return refused(
            f"{label} is no part of a front end: {why}", self.name,
            "samples, windows, a transform, power or magnitude, mel filters, a logarithm, numbers for each feature",
        )  # fmt: skip

    def _sized(self, node: Any) -> bool:
        """Whether the sizes of a table stand in the file; they are the first two numbers."""
        given = [self._in_file.get(name) for name in node.input]
        return all(one is not None and one.size == 1 for one in given) and all(
            0 < float(one.reshape(-1)[0]) <= MOST_TABLE for one in given[:2] if one is not None
        )

    @cached_property
    def _in_file(self) -> dict[str, Array]:
        plain = [node for node in self.nodes if node.op_type == "Constant"]
        return self._through(plain, self.constants)

    @property
    def codes(self) -> str:
        return str(self.quantize.output[0])

    @property
    def output(self) -> Array:
        """The zero point, in the type of the codes."""
        return self._operand(2, np.zeros((), np.uint8))

    @property
    def scale(self) -> float:
        return float(self._operand(1, np.zeros(())))

    def _operand(self, index: int, otherwise: Array) -> Array:
        name = self.quantize.input[index] if len(self.quantize.input) > index else ""
        value = self.fixed.get(name) if name else otherwise
        if value is None or value.size != 1:
            raise self.no_part(self.quantize, "a front end makes codes of one scale, known when it is compiled")
        return value.reshape(())

    @property
    def moving(self) -> set[str]:
        """What depends on the samples."""
        found = {self.samples.name}
        for node in self.nodes:
            if not found.isdisjoint(node.input):
                found.update(node.output)
        return found

    @cached_property
    def fixed(self) -> dict[str, Array]:
        """What does not."""
        moving = self.moving
        return self._through([node for node in self.nodes if moving.isdisjoint(node.output)], self.constants)

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the samples, a batch of one where it is open."""
        dims = [int(dim.dim_value) for dim in self.samples.type.tensor_type.shape.dim]
        shape = tuple(max(size, 1) if not k and len(dims) > 1 else size for k, size in enumerate(dims))
        long = [size for size in shape if size != 1]
        if len(long) != 1 or not 1 < long[0] <= MOST_SAMPLES or self.type not in ("float32", "int16"):
            said = "x".join(map(str, shape)) or "no shape"
            raise refused(
                f"the input {self.samples.name!r} is {said} of {self.type}", self.name,
                f"samples are one channel of int16 or float32, at most {MOST_SAMPLES:,}",
                "export it for a fixed number of samples of one microphone",
            )  # fmt: skip
        return shape

    @property
    def type(self) -> str:
        return {1: "float32", 5: "int16"}.get(int(self.samples.type.tensor_type.elem_type), "another type")

    def run(self, given: Mapping[str, Array], ends: Sequence[str]) -> list[Array]:
        """The values `ends`, with others in the place of what computes them."""
        values = {**self.fixed, **given}
        values = self._through(_before(self.nodes, ends, values), values)
        return [values[name] for name in ends]

    def _through(self, nodes: Iterable[Any], values: Mapping[str, Array]) -> dict[str, Array]:
        found = dict(values)
        for node in nodes:
            try:
                found.update(zip(node.output, self._ran(node, found), strict=False))
            except UnsupportedError:
                raise
            except Exception as error:  # what the evaluator says of a damaged node has no type of its own
                raise self.no_part(node, f"it cannot be computed: {str(error)[:200]}") from error
        return found

    def _ran(self, node: Any, values: Mapping[str, Array]) -> list[Array]:
        from onnx import helper
        from onnx.reference import ReferenceEvaluator

        if node.op_type == "Constant" and node.attribute[0].name == "value":
            return [constant_data(node.attribute[0].t)]  # of this file only
        given = {name: values[name] for name in node.input if name}
        shapes = [value.shape for value in given.values()]
        size = prod(np.broadcast_shapes(*shapes)) if node.op_type in BROADCAST else sum(map(prod, shapes))
        if node.op_type in ("MatMul", "Gather") and len(shapes) == 2 and all(shapes):
            axis = -1 if node.op_type == "MatMul" else next((one.i for one in node.attribute if one.name == "axis"), 0)
            size = prod(shapes[0]) * prod(shapes[1]) // max(1, shapes[0][axis]) ** (2 if axis == -1 else 1)
        if size > MOST_VALUES:
            raise self.no_part(node, f"it has {size:,} values, {MOST_VALUES:,} are the most")
        inputs = [helper.make_tensor_value_info(name, 0, None) for name in given]
        outputs = [helper.make_tensor_value_info(name, 0, None) for name in node.output if name]
        graph = helper.make_graph([node], "node", inputs, outputs)
        model = helper.make_model(graph, opset_imports=self.opsets)
        found = ReferenceEvaluator(model).run(None, given)
        return [np.asarray(value) for value in found]  # type: ignore[union-attr]

    def framed(self, samples: Array) -> Array:
        """frames x samples of the transform, as they go into it."""
        [signal] = self.run({self.samples.name: samples.reshape(self.shape)}, self.transform.input[:1])
        if self.transform.op_type == "DFT":
            return signal.reshape(-1, signal.shape[-2] if signal.ndim > 1 else 1)
        window, step, signal = self._window, self._number(1), signal.reshape(-1)
        if not (step > 0 and window.shape == (self._number(3, window.size),) and 0 < window.size <= signal.size):
            raise self.no_part(self.transform, f"a window of {window.size} in {signal.size} samples, {step} further")
        if ((signal.size - window.size) // step + 1) * window.size > MOST_VALUES:
            raise self.no_part(self.transform, f"{MOST_VALUES:,} values are the most")
        return np.lib.stride_tricks.sliding_window_view(signal, window.size)[::step] * window

    @property
    def step(self) -> int:
        """Samples from frame to frame, where the transform says so."""
        return self._number(1) if self.transform.op_type == "STFT" else 0

    @property
    def _window(self) -> Array:
        """The window of an STFT."""
        name = self.transform.input[2] if len(self.transform.input) > 2 else ""
        if name and name not in self.fixed:
            raise self.no_part(self.transform, "its window is computed at run time")
        return self.fixed[name].reshape(-1) if name else np.ones(min(self._number(3), MOST_TABLE), np.float32)

    def _number(self, index: int, otherwise: int = 0) -> int:
        """A constant of an STFT."""
        name = self.transform.input[index] if len(self.transform.input) > index else ""
        if name and (name not in self.fixed or self.fixed[name].size != 1):
            raise self.no_part(self.transform, "its sizes are computed at run time")
        return int(self.fixed[name].reshape(-1)[0]) if name else otherwise

    def transformed(self, samples: Array) -> Array:
        """... x bins x 2."""
        if self.transform.op_type == "DFT":
            given = {self.samples.name: samples.reshape(self.shape)}
            return self.run(given, self.transform.output[:1])[0]
        if any(one.name == "onesided" and not one.i for one in self.transform.attribute):
            raise self.no_part(self.transform, "it gives both halves of the spectrum: onesided = 1")
        found = np.fft.rfft(self.framed(samples))
        return np.stack([found.real, found.imag], -1).astype(np.float32)[None]

    def reals(self, samples: Array) -> Array:
        """What is quantised."""
        return self.run({self.transform.output[0]: self.transformed(samples)}, self.quantize.input[:1])[0]


def behind(model: Any, starts: Sequence[str], name: str) -> Any:
    """The model that begins at the quantisation behind its sound operators, where that is one of `starts`."""
    if not starts or not is_sound(model):
        return model
    head = SoundHead.of(model, name)
    if head.codes not in starts:
        return model
    from onnx import ModelProto, helper

    with computed(name):
        kind, shape = head.output.dtype, head.reals(np.zeros(head.shape, head.type)).shape
    found = ModelProto()
    found.CopyFrom(model)
    graph, nodes = found.graph, _before(head.behind, [one.name for one in model.graph.output])
    reads = {one for node in nodes for one in reads_of(node)}
    kept = [one for one in model.graph.initializer if one.name in reads]
    others = [one for one in model.graph.input if one.name != head.samples.name and one.name not in head.constants]
    codes = helper.make_tensor_value_info(head.codes, helper.np_dtype_to_tensor_dtype(kind), shape)
    for field, values in (("node", nodes), ("initializer", kept), ("input", [*others, codes])):
        graph.ClearField(field)
        getattr(graph, field).extend(values)
    return found


def is_sound(model: Any) -> bool:
    return any(node.op_type in TRANSFORMS and node.domain in ("", "ai.onnx") for node in model.graph.node)


def _before(nodes: Sequence[Any], ends: Iterable[str], known: Iterable[str] = ()) -> list[Any]:
    """The nodes that compute `ends`, in their order."""
    needed, found, known = {*ends} - {*known}, list[Any](), {*known}
    for node in reversed(nodes):
        if not needed.isdisjoint(node.output):
            found.insert(0, node)
            needed.update(name for name in reads_of(node) if name not in known)
    return found
