"""A float TFLite model as an ONNX model: pictures with channels first inside, inputs and outputs as TFLite has them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from atonc.compiler.frontends.tails import tell_tail
from atonc.compiler.frontends.tflite import read_tflite
from atonc.compiler.ir import Array, Graph, Op, Tensor
from atonc.compiler.ops.functions import FUNCTIONS, RANGES
from atonc.insight.quantizing.types import RANGES_KEY
from atonc.machine.base.errors import UnsupportedError

OPSET = 17
_FAR = 1 << 31  # beyond the end of every axis
FIRST = ":first"  # ends the names of tensors whose channels are first: the others are as TFLite has them
LAST_TO_FIRST, FIRST_TO_LAST = (0, 3, 1, 2), (0, 2, 3, 1)
ONE_VALUE = {row.kind: row for row in FUNCTIONS.values() if row.onnx}
BOUNDS = {kind: limits for kind, limits in RANGES.items() if kind not in ONE_VALUE}
TWO_VALUES = {"add": "Add", "sub": "Sub", "mul": "Mul", "div": "Div", "maximum": "Max", "minimum": "Min"}
FAMILIES = {  # kinds that share a method
    **dict.fromkeys((*ONE_VALUE, *BOUNDS), "function"), **dict.fromkeys(TWO_VALUES, "two"),
    **dict.fromkeys(("max_pool", "average_pool"), "pool"), **dict.fromkeys(("conv", "transpose_conv"), "layer"),
    **dict.fromkeys(("resize_nearest", "resize_linear"), "resize"),
}  # fmt: skip


def read_float(data: bytes, name: str, cut_outputs: Sequence[str] = ()) -> Any:
    graph = read_tflite(data, name, cut_outputs)
    coded = [tensor for tensor in graph.tensors.values() if tensor.quant is not None and tensor.data is None]
    faked = [op for op in graph.ops if op.kind == "quantize" and op.name.startswith("FAKE_QUANT")]
    if coded and not faked:
        raise UnsupportedError(
            f"the model is already quantised: {len(coded)} activations have scales",
            where=name,
            rule="quantize takes the float model",
            remedy="compile it as it is (atonc generate), or convert the trained model without optimisations",
        )
    converter = _Converter(graph)
    model = converter.model()
    if converter.ranges:
        model.metadata_props.add(key=RANGES_KEY, value=json.dumps(converter.ranges))
    if graph.tail is not None:
        tell_tail(model, graph.tail)
    return model


def _values(tensor: Tensor) -> Array:
    """Real numbers; weights alone may be stored as codes."""
    assert tensor.data is not None
    if tensor.quant is None:
        return tensor.data.astype(np.float32) if tensor.is_float else tensor.data
    rank = tensor.data.ndim
    codes = tensor.data.astype(np.float64) - tensor.quant.along(tensor.quant.zero_points, rank)
    return (codes * tensor.quant.along(tensor.quant.scales, rank)).astype(np.float32)


class _Converter:
    """A tensor may exist in both orders; whoever needs the other one makes it."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.nodes: list[Any] = []
        self.constants: dict[str, Array] = {}
        self.ranges: list[tuple[Any, ...]] = []  # of fake quantisation: names before and behind it, scale, zero point
        self.first: dict[str, str] = {}  # tensor -> its name with channels first
        self.last = {name: name for name in graph.inputs}
        for tensor in graph.tensors.values():
            if tensor.data is not None:
                self.constants[tensor.name] = _values(tensor)
                self.last[tensor.name] = tensor.name

    def model(self) -> Any:
        from onnx import TensorProto, helper, numpy_helper

        for op in self.graph.ops:
            self._convert(op)
        for name in self.graph.outputs:
            self._in_last(name)
        inputs, outputs = (
            [helper.make_tensor_value_info(n, TensorProto.FLOAT, self.graph.tensors[n].shape) for n in names]
            for names in (self.graph.inputs, self.graph.outputs)
        )
        used = {name for node in self.nodes for name in node.input}
        stored = [numpy_helper.from_array(value, name) for name, value in self.constants.items() if name in used]
        made = helper.make_graph(self.nodes, self.graph.name or "model", inputs, outputs, stored)
        return helper.make_model(made, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10)

    # ------------------------------------------------------------------------------------------------------ both orders

    def _in_first(self, name: str) -> str:
        if name not in self.first:
            if name in self.constants:
                self.first[name] = self._constant(f"{name}{FIRST}", self.constants[name].transpose(LAST_TO_FIRST))
            else:
                self.first[name] = self._add("Transpose", [self.last[name]], f"{name}{FIRST}", perm=LAST_TO_FIRST)
        return self.first[name]

    def _in_last(self, name: str) -> str:
        if name not in self.last:
            self.last[name] = self._add("Transpose", [self.first[name]], name, perm=FIRST_TO_LAST)
        return self.last[name]

    def _add(self, kind: str, inputs: list[str], output: str, **attributes: Any) -> str:
        from onnx import helper

        self.nodes.append(helper.make_node(kind, inputs, [output], f"{kind} {output}", **attributes))
        return output

    def _constant(self, name: str, value: Array) -> str:
        self.constants[name] = np.ascontiguousarray(value)
        return name

    # -------------------------------------------------------------------------------------------------------- operators

    def _convert(self, op: Op) -> None:
        methods = (getattr(self, f"_from_{name}", None) for name in (op.kind, FAMILIES.get(op.kind, "")))
        method = next(filter(None, methods), None)
        if method is None:
            raise UnsupportedError(
                f"float {op.kind} of TFLite is not converted",
                where=op.name,
                remedy="export the model as ONNX and quantise that, or cut the network before it",
            )
        method(op)

    def _finish(self, op: Op, kind: str, inputs: list[str], is_first: bool, **attributes: Any) -> None:
        """The operator and its fused activation."""
        name, fused = op.outputs[0], op.attrs.get("activation", "none")
        target = f"{name}{FIRST}" if is_first else name
        if fused == "none":
            made = self._add(kind, inputs, target, **attributes)
        else:
            made = self._function(fused, self._add(kind, inputs, f"{target}:sum", **attributes), target, op)
        (self.first if is_first else self.last)[name] = made

    def _function(self, kind: str, source: str, target: str, op: Op) -> str:
        if limits := BOUNDS.get(kind) or (kind == "clip" and (op.attrs["low"], op.attrs["high"])):
            bounds = [self._constant(f"{target}:{k}", np.array(v, np.float32)) for k, v in enumerate(limits)]
            return self._add("Clip", [source, *bounds], target)
        if kind not in ONE_VALUE:
            raise UnsupportedError(f"the fused activation {kind} is not converted", where=op.name)
        row = ONE_VALUE[kind]
        more = {name: float(op.attrs.get(name, usual)) for name, usual in row.attrs.items()}
        return self._add(row.onnx, [source], target, **more)

    def _from_function(self, op: Op) -> None:
        name, y = op.inputs[0], op.outputs[0]
        if name in self.first:
            self.first[y] = self._function(op.kind, self.first[name], f"{y}{FIRST}", op)
        else:
            self.last[y] = self._function(op.kind, self.last[name], y, op)

    def _from_two(self, op: Op) -> None:
        shapes = [self.graph.tensors[name].shape for name in op.inputs]
        full = len(self.graph.tensors[op.outputs[0]].shape) == 4
        is_first = full and any(name in self.first for name in op.inputs)
        if not is_first:
            self._finish(op, TWO_VALUES[op.kind], [self._in_last(name) for name in op.inputs], False)
            return
        inputs = []
        for name, shape in zip(op.inputs, shapes, strict=True):
            if name in self.constants:
                wide = self.constants[name].reshape((1,) * (4 - len(shape)) + shape).transpose(LAST_TO_FIRST)
                wide = wide if wide.size > 1 else wide.reshape(())
                inputs.append(self._constant(f"{name}{FIRST} of {op.name}", wide))
            elif len(shape) != 4:
                raise UnsupportedError(f"{op.kind} of {len(shape)} with 4 dimensions", where=op.name)
            else:
                inputs.append(self._in_first(name))
        self._finish(op, TWO_VALUES[op.kind], inputs, True)

    def _from_layer(self, op: Op) -> None:
        plain = op.kind == "conv"
        kind, order = ("Conv", (0, 3, 1, 2)) if plain else ("ConvTranspose", (3, 0, 1, 2))
        more = {"group": op.attrs["groups"], "dilations": op.attrs["dilation"]} if plain else {}
        weights = self._constant(f"{op.inputs[1]}:{op.name}", self._value(op, 1).transpose(order))
        inputs = [self._in_first(op.inputs[0]), weights, *filter(None, op.inputs[2:3])]
        self._finish(op, kind, inputs, True, strides=op.attrs["stride"], pads=op.attrs["padding"],
                     kernel_shape=self._value(op, 1).shape[1:3], **more)  # fmt: skip

    def _value(self, op: Op, index: int) -> Array:
        found = self.constants.get(op.inputs[index])
        if found is None:
            raise UnsupportedError("weights that are computed at run time", where=op.name)
        return found

    def _from_dense(self, op: Op) -> None:
        x, y = (self.graph.tensors[name] for name in (op.inputs[0], op.outputs[0]))
        weights = self._value(op, 1)
        source, target = self._in_last(op.inputs[0]), op.outputs[0]
        if len(x.shape) != 2:
            source = self._reshaped(source, f"{target}:rows", (-1, weights.shape[1]))
        bias = filter(None, op.inputs[2:3])
        if len(y.shape) == 2:
            self._finish(op, "Gemm", [source, op.inputs[1], *bias], False, transB=1)
            return
        made = self._add("Gemm", [source, op.inputs[1], *bias], f"{target}:gemm", transB=1)
        fused = op.attrs.get("activation", "none")
        made = made if fused == "none" else self._function(fused, made, f"{target}:function", op)
        self.last[target] = self._reshaped(made, target, y.shape)

    def _from_matmul(self, op: Op) -> None:
        y = op.outputs[0]
        self.last[y] = self._add("MatMul", [self._in_last(name) for name in op.inputs], y)

    def _from_recurrent(self, op: Op) -> None:
        """An LSTM whose inputs are the gates: what reads its result takes the first of its states, which ONNX gives."""
        given, y = op.inputs[0], op.outputs[0]
        gates, cells = self._value(op, 1).shape
        held = {"picks": np.eye(gates, dtype=np.float32), "recurrent": self._value(op, 1),
                "biases": np.concatenate([np.zeros(gates, np.float32), self._value(op, 2)])}  # fmt: skip
        names = [self._constant(f"{y}:{key}", value[None]) for key, value in held.items()]
        self.last[y] = self._add("LSTM", [self._in_last(given), *names], y, hidden_size=cells)

    def _reshaped(self, source: str, target: str, shape: tuple[int, ...]) -> str:
        return self._add("Reshape", [source, self._constant(f"{target}:shape", np.array(shape, np.int64))], target)

    def _from_pool(self, op: Op) -> None:
        kind, more = ("MaxPool", {}) if op.kind == "max_pool" else ("AveragePool", {"count_include_pad": 0})
        self._finish(op, kind, [self._in_first(op.inputs[0])], True, kernel_shape=op.attrs["window"],
                     strides=op.attrs["stride"], pads=op.attrs["padding"], **more)  # fmt: skip

    def _from_prelu(self, op: Op) -> None:
        slope = self._value(op, 1)
        wide = slope.reshape((1,) * (4 - slope.ndim) + slope.shape).transpose(LAST_TO_FIRST)[0]
        name = self._constant(f"{op.inputs[1]}:{op.name}", wide)
        self._finish(op, "PRelu", [self._in_first(op.inputs[0]), name], True)

    def _from_softmax(self, op: Op) -> None:
        source, target = self._in_last(op.inputs[0]), op.outputs[0]
        if op.attrs.get("beta", 1.0) != 1.0:
            factor = self._constant(f"{target}:beta", np.array(op.attrs["beta"], np.float32))
            source = self._add("Mul", [source, factor], f"{target}:scaled")
        self.last[target] = self._add("Softmax", [source], target, axis=-1)

    def _from_reshape(self, op: Op) -> None:
        shape = self.graph.tensors[op.outputs[0]].shape
        self.last[op.outputs[0]] = self._reshaped(self._in_last(op.inputs[0]), op.outputs[0], shape)

    def _from_transpose(self, op: Op) -> None:
        y = op.outputs[0]
        self.last[y] = self._add("Transpose", [self._in_last(op.inputs[0])], y, perm=op.attrs["perm"])

    def _from_concat(self, op: Op) -> None:
        y, axis = op.outputs[0], op.attrs["axis"]
        if len(self.graph.tensors[y].shape) == 4 and any(name in self.first for name in op.inputs):
            inputs = [self._in_first(name) for name in op.inputs]
            self.first[y] = self._add("Concat", inputs, f"{y}{FIRST}", axis=LAST_TO_FIRST.index(axis))
            return
        self.last[y] = self._add("Concat", [self._in_last(name) for name in op.inputs], y, axis=axis)

    def _from_pad(self, op: Op) -> None:
        pads, y = op.attrs["pads"], op.outputs[0]
        mode = op.attrs["mode"]
        if mode not in ("constant", "reflect"):
            raise UnsupportedError(f"padding of kind {mode}", where=op.name)
        forms, end, source = self._moved_in(op)
        order = LAST_TO_FIRST if end else tuple(range(len(pads)))
        sizes = [pads[k][0] for k in order] + [pads[k][1] for k in order]
        inputs = [source, self._constant(f"{y}:pads", np.array(sizes, np.int64)),
                  self._constant(f"{y}:value", np.array(op.attrs.get("value", 0.0), np.float32))]  # fmt: skip
        forms[y] = self._add("Pad", inputs, f"{y}{end}", mode=mode)

    def _from_slice(self, op: Op) -> None:
        y, steps = op.outputs[0], op.attrs["steps"]
        forms, end, source = self._moved_in(op)
        order = LAST_TO_FIRST if end else tuple(range(len(steps)))
        bounds = [(begin if begin is not None else 0 if step > 0 else _FAR,
                   last if last is not None else _FAR if step > 0 else -_FAR, step)
                  for begin, last, step in zip(op.attrs["starts"], op.attrs["stops"], steps, strict=True)]  # fmt: skip
        starts, stops, strides = zip(*(bounds[k] for k in order), strict=True)
        values = {"starts": starts, "stops": stops, "axes": range(len(order)), "steps": strides}
        inputs = [self._constant(f"{y}:{key}", np.array(value, np.int64)) for key, value in values.items()]
        forms[y] = self._add("Slice", [source, *inputs], f"{y}{end}")

    def _from_split(self, op: Op) -> None:
        from onnx import helper

        forms, end, source = self._moved_in(op)
        axis = LAST_TO_FIRST.index(op.attrs["axis"]) if end else op.attrs["axis"]
        shapes = [self.graph.tensors[y].shape for y in op.outputs]
        sizes = np.array([shape[op.attrs["axis"]] for shape in shapes], np.int64)
        made = [f"{y}{end}" for y in op.outputs]
        inputs = [source, self._constant(f"{made[0]}:sizes", sizes)]
        self.nodes.append(helper.make_node("Split", inputs, made, f"Split {made[0]}", axis=axis))
        forms |= dict(zip(op.outputs, made, strict=True))

    def _moved_in(self, op: Op) -> tuple[dict[str, str], str, str]:
        """In which order an operator that only moves values works: where its results are noted, how their names end,
        and what it reads."""
        name = op.inputs[0]
        if len(self.graph.tensors[name].shape) == 4 and name in self.first:
            return self.first, FIRST, self.first[name]
        return self.last, "", self._in_last(name)

    def _from_mean(self, op: Op) -> None:
        y, axes = op.outputs[0], op.attrs["axes"]
        if tuple(axes) == (1, 2) and len(self.graph.tensors[op.inputs[0]].shape) == 4:
            made = self._add("GlobalAveragePool", [self._in_first(op.inputs[0])], f"{y}{FIRST}")
            if op.attrs["keepdims"]:
                self.first[y] = made
            else:
                self.last[y] = self._reshaped(made, y, self.graph.tensors[y].shape)
            return
        keep = int(op.attrs["keepdims"])
        self.last[y] = self._add("ReduceMean", [self._in_last(op.inputs[0])], y, axes=axes, keepdims=keep)

    def _from_resize(self, op: Op) -> None:
        y, mode = op.outputs[0], op.kind.removeprefix("resize_")
        shape = self.graph.tensors[y].shape
        sizes = self._constant(f"{y}:sizes", np.array([shape[k] for k in LAST_TO_FIRST], np.int64))
        inputs = [self._in_first(op.inputs[0]), "", "", sizes]
        more = {"nearest_mode": op.attrs.get("rounding", "floor")} if mode == "nearest" else {}
        self.first[y] = self._add("Resize", inputs, f"{y}{FIRST}", mode=mode,
                                  coordinate_transformation_mode=op.attrs["coordinates"], **more)  # fmt: skip

    def _from_identity(self, op: Op) -> None:
        for forms in (self.first, self.last):
            if op.inputs[0] in forms:
                forms[op.outputs[0]] = forms[op.inputs[0]]

    def _from_quantize(self, op: Op) -> None:
        """Fake quantisation: the value itself, whose range is told."""
        self._from_identity(op)
        y = self.graph.tensors[op.outputs[0]]
        name = (self.first if y.name in self.first else self.last)[y.name]
        self.ranges.append((name, name, y.scale, y.zero_point))

    def _from_clip(self, op: Op) -> None:
        """The ends of fake quantisation with fewer codes than int8 has: the tensor with its range is behind them."""
        self._from_function(op)
        (name, _, *form), y = self.ranges.pop(), op.outputs[0]
        self.ranges.append((name, (self.first if y in self.first else self.last)[y], *form))

    def _from_dequantize(self, op: Op) -> None:
        """Weights that were stored as half floats; or the value behind fake quantisation."""
        if self.ranges and self.graph.tensors[op.inputs[0]].data is None:
            self._from_identity(op)
            if (y := op.outputs[0]) in self.graph.outputs:
                x, self.last[y] = self._in_last(y), y
                self._add("Identity", [x], y)
                self.ranges = [(one, y if other == x else other, *form) for one, other, *form in self.ranges]
            return
        value = self.constants.get(op.inputs[0])
        if value is None:
            raise UnsupportedError("half floats that are computed at run time", where=op.name)
        self.last[op.outputs[0]] = self._constant(op.outputs[0], value.astype(np.float32))
