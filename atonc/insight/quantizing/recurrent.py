"""LSTM and GRU of a float ONNX graph written out, so that their products and tables become int8 as any layer's do.

The compiler's own reader says what a cell is: it reads the node alone, and its operators become ONNX nodes again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from atonc.compiler.frontends.onnx_qdq import read_onnx
from atonc.compiler.frontends.onnx_recurrent import UNROLLED_STEPS, picked
from atonc.compiler.ir import Array, Graph, Op
from atonc.insight.quantizing.graph import CELLS, copied
from atonc.machine.base.errors import ModelError

NAMES = {"matmul": "MatMul", "add": "Add", "sub": "Sub", "mul": "Mul", "logistic": "Sigmoid", "tanh": "Tanh",
         "concat": "Concat", "identity": "Identity", "reshape": "Reshape", "slice": "Slice"}  # fmt: skip


def write_out(model: Any) -> tuple[Any, list[str]]:
    """The model (tidy, with shapes) with its cells written out, and notes on those that stay."""
    graph, notes = model.graph, list[str]()
    known = {value.name: value for value in (*graph.input, *graph.value_info, *graph.output)}
    stored = {proto.name: proto for proto in graph.initializer}
    nodes, constants = list[Any](), dict[str, Array]()
    for node in graph.node:
        steps = _steps(node, known)
        if not steps:
            nodes.append(node)
        elif steps > UNROLLED_STEPS:
            nodes += _product_apart(node, known, stored, constants)
            notes.append(
                f"{node.op_type} {node.name} stays in float behind the product with its inputs: {steps} steps, at most "
                f"{UNROLLED_STEPS} are written out; export one step, with its states as inputs and outputs"
            )
        else:
            nodes += _written_out(model, node, known, stored, constants)
    if not constants:
        return model, notes
    return _with_nodes(model, nodes, constants), notes


def _steps(node: Any, known: Mapping[str, Any]) -> int:
    """Steps of a recurrent layer, 0 of any other."""
    if node.op_type not in CELLS or node.input[0] not in known:
        return 0
    dims = known[node.input[0]].type.tensor_type.shape.dim
    return int(dims[0].dim_value) if len(dims) == 3 else 0


def _product_apart(
    node: Any, known: Mapping[str, Any], stored: Mapping[str, Any], constants: dict[str, Array]
) -> list[Any]:
    """What inputs say of the gates of all steps as a layer of its own, which becomes int8; the cell reads it with
    weights that pick, as the compiler's reader knows."""
    from onnx import helper, numpy_helper

    if node.input[1] not in stored or (len(node.input) > 3 and node.input[3] and node.input[3] not in stored):
        return [node]
    weights = numpy_helper.to_array(stored[node.input[1]])  # [directions, gates, inputs]
    if weights.ndim != 3 or any(picked(one) is not None for one in weights):
        return [node]
    count, gates, inputs = weights.shape
    steps, batch = (dim.dim_value for dim in known[node.input[0]].type.tensor_type.shape.dim[:2])
    biased = len(node.input) > 3 and node.input[3]
    biases = numpy_helper.to_array(stored[node.input[3]]) if biased else np.zeros((count, 2 * gates), weights.dtype)
    kept = biases.copy()
    kept[:, :gates] = 0.0
    name, ends = node.name or node.output[0], {"rows": (steps * batch, inputs), "steps": (steps, batch, count * gates)}
    held = {
        "weights": np.ascontiguousarray(weights.reshape(-1, inputs).T),
        "biases": biases[:, :gates].reshape(-1),
        "picks": np.eye(count * gates, dtype=weights.dtype).reshape(count, gates, -1),
        "kept": kept,
        **{end: np.array(shape, np.int64) for end, shape in ends.items()},
    }
    constants.update({f"{name}/{key}": value for key, value in held.items()})
    nodes, last = list[Any](), node.input[0]
    for kind, constant in (("Reshape", "rows"), ("MatMul", "weights"), ("Add", "biases"), ("Reshape", "steps")):
        taken, last = [last, f"{name}/{constant}"], f"{name}/given/{len(nodes)}"
        nodes.append(helper.make_node(kind, taken, [last], last))
    cell = copied(node)
    cell.input[:] = [last, f"{name}/picks", node.input[2], f"{name}/kept", *node.input[4:]]
    return [*nodes, cell]


def _with_nodes(model: Any, nodes: list[Any], constants: Mapping[str, Array]) -> Any:
    from onnx import numpy_helper, shape_inference

    made = type(model)()
    made.CopyFrom(model)
    del made.graph.node[:], made.graph.value_info[:]
    made.graph.node.extend(nodes)
    made.graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in constants.items())
    used = {name for node in made.graph.node for name in node.input}
    kept = [proto for proto in made.graph.initializer if proto.name in used]
    del made.graph.initializer[:]
    made.graph.initializer.extend(kept)
    return shape_inference.infer_shapes(made)


def _written_out(
    model: Any, node: Any, known: Mapping[str, Any], stored: Mapping[str, Any], constants: dict[str, Array]
) -> list[Any]:
    """The nodes that do the same; what they multiply with joins `constants`."""
    from onnx import helper

    alone, needed = type(node)(), [name for name in dict.fromkeys(node.input) if name]
    alone.CopyFrom(node)
    alone.name = node.name or node.output[0]
    inputs = [known[name] for name in needed if name not in stored]
    outputs = [known.get(name) or helper.make_tensor_value_info(name, 1, None) for name in node.output if name]
    kept = [stored[name] for name in needed if name in stored]
    part = helper.make_graph([alone], "cell", inputs, outputs, kept)
    cell = helper.make_model(part, opset_imports=list(model.opset_import), ir_version=model.ir_version)
    graph = read_onnx(cell.SerializeToString(), alone.name)
    return _Nodes(graph, alone.name, constants).made(dict(zip((value.name for value in outputs), graph.outputs,
                                                              strict=True)))  # fmt: skip


def own_sums(model: Any) -> Any:
    """A sum that a Tanh reads beside others is computed twice: a cell grows without bound where its Tanh is long
    saturated, so that both readers want a scale of their own."""
    from onnx import shape_inference

    graph = model.graph
    outputs, nodes = {value.name for value in graph.output}, list(graph.node)
    readers = {name: [node for node in nodes if name in node.input] for node in nodes for name in node.output}
    for node in [node for node in nodes if node.op_type == "Add"]:
        (name,) = node.output
        gates = [reader for reader in readers[name] if reader.op_type == "Tanh"]
        if not gates or (len(gates) == len(readers[name]) and name not in outputs):
            continue
        again = type(node)()
        again.CopyFrom(node)
        again.name, again.output[0] = f"{node.name}/gate", f"{name}/gate"
        for gate in gates:
            gate.input[0] = again.output[0]
        graph.node.insert(list(graph.node).index(node), again)
    return shape_inference.infer_shapes(model)


class _Nodes:
    """Operators of the compiler as ONNX nodes; their tensors are named after the cell."""

    def __init__(self, graph: Graph, name: str, constants: dict[str, Array]) -> None:
        self.graph, self.name, self.constants = graph, name, constants

    def made(self, outputs: Mapping[str, str]) -> list[Any]:
        """`outputs`: name in the model -> tensor of the graph."""
        from onnx import helper

        own = {tensor: name for name, tensor in outputs.items()}
        found = []
        for index, op in enumerate(self.graph.ops):
            if op.kind not in NAMES:
                raise ModelError(f"{op.kind} of a recurrent layer has no ONNX node", where=self.name)
            inputs = [self._value(name) for name in op.inputs]
            inputs += [self._constant(f"{index}/{key}", value) for key, value in self._bounds(op).items()]
            attrs = {"axis": op.attrs["axis"]} if op.kind == "concat" else {}
            target = own.get(op.outputs[0]) or self._inside(op.outputs[0])
            found.append(helper.make_node(NAMES[op.kind], inputs, [target], f"{self.name}/{index}", **attrs))
        return found

    def _inside(self, name: str) -> str:
        return name if name in self.graph.inputs else f"{self.name}/{name}"

    def _value(self, name: str) -> str:
        data = self.graph.tensors[name].data
        return self._inside(name) if data is None else self._constant(name, data)

    def _constant(self, name: str, value: Array) -> str:
        self.constants[f"{self.name}/{name}"] = value
        return f"{self.name}/{name}"

    def _bounds(self, op: Op) -> dict[str, Array]:
        """What ONNX takes as integers behind the first operand."""
        if op.kind == "reshape":
            return {"shape": np.array(self.graph.tensors[op.outputs[0]].shape, np.int64)}
        if op.kind != "slice":
            return {}
        windows = list(zip(op.attrs["starts"], op.attrs["stops"], strict=True))
        axes = [axis for axis, (first, last) in enumerate(windows) if (first, last) != (None, None)]
        bounds = {name: [windows[axis][end] for axis in axes] for end, name in enumerate(("starts", "stops"))}
        return {name: np.array(values, np.int64) for name, values in {**bounds, "axes": axes}.items()}
