"""A float model as one tidy ONNX graph: shapes fixed, constants folded, BatchNorm folded into the convolutions."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from shlex import quote
from typing import Any

import numpy as np

from atonc.compiler.frontends import limits
from atonc.compiler.frontends.limits import model_bytes, require_names, size_given
from atonc.compiler.frontends.onnx_control import renamed_nodes
from atonc.compiler.frontends.onnx_elements import constant_data
from atonc.compiler.frontends.onnx_qdq import given_value, open_sizes
from atonc.compiler.frontends.read import is_tflite
from atonc.compiler.frontends.tails import BY_VALUES, ends_of, needed_nodes, onnx_tail, sort_nodes, tell_tail
from atonc.compiler.ir import Array
from atonc.insight.quantizing.from_torch import is_pt2
from atonc.insight.quantizing.graph import CELLS, WEIGHTED, FloatGraph, attribute
from atonc.insight.quantizing.observe import part_of, run, session
from atonc.insight.quantizing.ort_process import optimised
from atonc.insight.quantizing.transformers import (
    attention_as_products,
    dense_layers,
    drop_empty,
    finite_masks,
    settle_choices,
    spelled_norms,
    sums_as_products,
)
from atonc.insight.quantizing.types import RANGES_KEY, Scale
from atonc.machine.base import progress
from atonc.machine.base.errors import AtoncError, ModelError, UnsupportedError, not_loaded


def fold_norms(graph: Any) -> None:
    """BatchNorm that onnxruntime leaves alone: into a ConvTranspose or Gemm before it, as a depthwise 1x1 convolution,
    or as a product and a sum for rows of values, which no convolution takes. Changes the graph in place."""
    from onnx import helper, numpy_helper

    constants = {proto.name: numpy_helper.to_array(proto) for proto in graph.initializer}
    producers = {name: node for node in graph.node for name in node.output}
    readers = [name for node in graph.node for name in node.input]
    outputs = {value.name for value in graph.output}
    ranks = {v.name: len(v.type.tensor_type.shape.dim) for v in (*graph.input, *graph.value_info, *graph.output)}
    for node in [node for node in graph.node if node.op_type == "BatchNormalization"]:
        x, y, label = node.input[0], node.output[0], node.name or node.output[0]
        before, rank, place = producers.get(x), ranks.get(x, 0), list(graph.node).index(node)
        if any(name not in constants for name in node.input[1:5]):
            continue
        gamma, beta, mean, variance = (constants[name].astype(np.float64) for name in node.input[1:5])
        factor = gamma / np.sqrt(variance + attribute(node, "epsilon", 1e-5))
        offset = beta - mean * factor
        alone = readers.count(x) == 1 and x not in outputs
        merges = (
            before is not None and before.op_type in ("ConvTranspose", "Gemm") and attribute(before, "beta", 1.0) == 1
        )
        given = before.input if before is not None and alone and merges else []
        if before is not None and given and all(name in constants for name in given[1:] if name):
            weights, groups = constants[given[1]].astype(np.float64), attribute(before, "group", 1)
            if before.op_type == "Gemm":
                scaled = weights * (factor[:, None] if attribute(before, "transB", 0) else factor)
            else:
                split = weights.reshape(
                    groups, -1, *weights.shape[1:]
                )  # group, its input channels, its output channels
                scaled = split * factor.reshape(groups, 1, -1, *(1 for _ in weights.shape[2:]))
            bias = constants[given[2]] if len(given) > 2 and given[2] else 0.0
            names = _store(graph, label, weights=scaled.reshape(weights.shape), bias=bias * factor + offset)
            before.input[:], before.output[0] = [before.input[0], *names], y
            made = []
        elif rank == 4:
            names = _store(graph, label, weights=factor.reshape(-1, 1, 1, 1), bias=offset)
            made = [helper.make_node("Conv", [x, *names], [y], f"{label}:conv", group=len(factor))]
        elif rank > 1:
            shape = (-1, *(1 for _ in range(rank - 2)))
            names = _store(graph, label, factor=factor.reshape(shape), offset=offset.reshape(shape))
            made = [helper.make_node("Mul", [x, names[0]], [f"{y}:scaled"], f"{label}:mul"),
                    helper.make_node("Add", [f"{y}:scaled", names[1]], [y], f"{label}:add")]  # fmt: skip
        else:
            continue
        graph.node.remove(node)
        for number, one in enumerate(made):
            graph.node.insert(place + number, one)


def split_sums(graph: Any) -> None:
    """onnxruntime makes one Gemm of a product and a sum with something computed; a layer's bias is a constant."""
    from onnx import helper

    biases = {proto.name for proto in graph.initializer if all(dim == 1 for dim in proto.dims[:-1])}
    taken = {name for node in graph.node for name in node.output}
    for node in [node for node in graph.node if node.op_type == "Gemm" and len(node.input) == 3]:
        added, y = node.input[2], node.output[0]
        if not added or added in biases or attribute(node, "beta", 1.0) != 1.0:
            continue
        node.input[2:] = []
        node.output[0] = f"{node.name or y}:product"
        while node.output[0] in taken:  # a model that was tidied before has some
            node.output[0] += "'"
        total = helper.make_node("Add", [node.output[0], added], [y], f"{node.name or y}:sum")
        graph.node.insert(list(graph.node).index(node) + 1, total)


def drop_zeros(graph: Any) -> None:
    """Sums with nothing but zeros, such as exporters write to keep an input: they would hide a packed state."""
    from onnx import helper, numpy_helper

    sizes = {v.name: [d.dim_value for d in v.type.tensor_type.shape.dim] for v in (*graph.value_info, *graph.input)}
    zeros = {proto.name for proto in graph.initializer if not np.any(numpy_helper.to_array(proto))}
    stored = {proto.name: list(proto.dims) for proto in graph.initializer}
    for node in [node for node in graph.node if node.op_type == "Add" and zeros.intersection(node.input)]:
        place = next(k for k, name in enumerate(node.input) if name in zeros)
        kept, size = node.input[1 - place], stored[node.input[place]]
        if len(size) <= len(sizes.get(kept, ())) and all(dim == 1 for dim in size):
            node.CopyFrom(helper.make_node("Identity", [kept], list(node.output), node.name))


def fold_frames(graph: Any) -> None:
    """A convolution that cuts samples of sound into frames (an STFT as a layer) steps far: with as many channels as
    samples a step it is the same sums, with a kernel of a few places and steps of one."""
    from onnx import helper, numpy_helper

    sizes = {v.name: [d.dim_value for d in v.type.tensor_type.shape.dim] for v in (*graph.value_info, *graph.input)}
    constants = {proto.name: proto for proto in graph.initializer}
    for node in [node for node in graph.node if node.op_type == "Conv" and node.input[1] in constants]:
        weights, shape = numpy_helper.to_array(constants[node.input[1]]), sizes.get(node.input[0], [])
        step = (attribute(node, "strides", None) or [1])[0]
        plain = not any(attribute(node, "pads", None) or ()) and attribute(node, "dilations", None) in (None, [1])
        whole = plain and attribute(node, "auto_pad", b"NOTSET") in (b"NOTSET", b"VALID")
        if len(shape) != 3 or shape[:2] != [1, 1] or step < LEAST_FRAME or not whole:
            continue
        if shape[2] % step or weights.shape[2] % step:
            continue
        label, count = node.name or node.output[0], weights.shape[2] // step
        turned = weights.reshape(len(weights), count, step).transpose(0, 2, 1)
        graph.initializer.append(numpy_helper.from_array(np.array([1, -1, step], np.int64), f"{label}:frames"))
        moved = [helper.make_node("Reshape", [node.input[0], f"{label}:frames"], [f"{label}:rows"], f"{label}:reshape"),
                 helper.make_node("Transpose", [f"{label}:rows"], [f"{label}:turned"], f"{label}:transpose",
                                  perm=[0, 2, 1])]  # fmt: skip
        place = list(graph.node).index(node)
        inputs = [f"{label}:turned", *_store(graph, label, folded=turned), *node.input[2:]]
        node.CopyFrom(helper.make_node("Conv", inputs, list(node.output), node.name, kernel_shape=[count], strides=[1]))
        for number, one in enumerate(moved):
            graph.node.insert(place + number, one)


def _store(graph: Any, label: str, **values: Array) -> list[str]:
    """Constants of a node that is made; their names."""
    from onnx import numpy_helper

    for name, value in values.items():
        graph.initializer.append(numpy_helper.from_array(value.astype(np.float32), f"{label}:{name}"))
    return [f"{label}:{name}" for name in values]


LEAST_FRAME = 8  # samples a step, from which on a convolution cuts frames
WIDTHS_OPSET, WIDTHS_IR = 21, 10  # the first that have INT4 and INT16, and what published files with INT4 have
OPSET = 17  # per-channel DequantizeLinear came with 13; ORT's optimiser knows all of 17
QUANTISED = ("QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "QLinearConv", "QLinearMatMul",
             "ConvInteger", "MatMulInteger", "QGemm")  # fmt: skip


def load(path: Path, fixed_shapes: Mapping[str, Any] | None = None) -> Any:
    """The tidy float model of an .onnx, .tflite or .pt2 file."""
    return tidy(read(path, fixed_shapes), path.name)


def read(path: Path, fixed_shapes: Mapping[str, Any] | None = None, cut_outputs: Sequence[str] = ()) -> Any:
    """The model as it was exported, with its shapes; what cannot be quantised is refused here."""
    progress.stage("reading the model")
    model = _as_onnx(path, cut_outputs)
    require_float(model, path)
    return fixed(model, fixed_shapes or {}, path.name)


def _as_onnx(path: Path, cut_outputs: Sequence[str]) -> Any:
    if is_pt2(path):
        from atonc.insight.quantizing.from_torch import read_pt2

        model = read_pt2(path)
    elif is_tflite(path, (data := model_bytes(path))[:64]):
        from atonc.insight.quantizing.from_tflite import read_float

        return read_float(data, path.stem, cut_outputs)
    else:
        model = parse(data, path.name)
        take_ranges(model)
    cut(model, cut_outputs)
    return model


def take_ranges(model: Any) -> None:
    """What training with fake quantisation leaves, pairs of QuantizeLinear and DequantizeLinear around real values, is
    taken out: the model tells the ranges of activations, and weights become the numbers that their pairs give."""
    from onnx import helper, numpy_helper

    graph = model.graph
    constants = {proto.name: numpy_helper.to_array(proto) for proto in graph.initializer}
    coded: dict[str, Any] = {name: node for node in graph.node for name in node.output[:1]
                             if node.op_type == "QuantizeLinear"}  # fmt: skip
    back = [node for node in graph.node if node.op_type == "DequantizeLinear"]
    others = {name for node in graph.node if node.op_type != "DequantizeLinear" for name in node.input}
    for entry in [entry for entry in model.metadata_props if entry.key == RANGES_KEY]:
        model.metadata_props.remove(entry)  # only what is found here counts
    paired = all(len(n.output) == 1 and (*n.input, "")[0] in coded for n in back) and others.isdisjoint(coded)
    paired = paired and all(len(n.input) == 3 and constants.keys() >= {*n.input[1:]} for n in coded.values())
    if not paired or not coded.keys().isdisjoint(value.name for value in graph.output):
        return  # such a model is quantised already, and is refused as that
    formats = {name: [constants[one] for one in node.input[1:]] for name, node in coded.items()}
    live = [formats[name] for name, node in coded.items() if node.input[0] not in constants]
    if any((scale.size, zero.size) != (1, 1) or zero.dtype not in (np.int8, np.uint8) for scale, zero in live):
        return
    rows = []
    for node in back:
        before, target = coded[node.input[0]], node.output[0]
        source, (scale, zero) = before.input[0], formats[node.input[0]]
        if not (np.isfinite(scale) & (scale > 0)).all():
            raise ModelError("a scale that is no positive number", where=before.name or source)
        if source in constants:
            try:
                value = fake_quantised(constants[source], scale, zero, attribute(before, "axis", 1))
            except (ValueError, IndexError, ZeroDivisionError) as error:
                raise ModelError(f"scales that do not fit the weights: {error}", where=before.name or source) from None
            graph.initializer.append(numpy_helper.from_array(value, target))
            graph.node.remove(node)
            continue
        rows.append((source, target, scale.item(), zero.item() - 128 * (zero.dtype == np.uint8)))
        node.CopyFrom(helper.make_node("Identity", [source], [target], node.name))
    for node in coded.values():
        graph.node.remove(node)
    if rows:
        model.metadata_props.add(key=RANGES_KEY, value=json.dumps(rows))


def fake_quantised(values: Array, scale: Array, zero: Array, axis: int) -> Array:
    along = [-1 if k == axis % values.ndim else 1 for k in range(values.ndim)] if scale.size > 1 else ()
    size, middle, ends = scale.reshape(along), zero.astype(np.int64).reshape(along), np.iinfo(zero.dtype)
    found: Array = (np.clip(np.rint(values / size) + middle, ends.min, ends.max) - middle) * size
    return found.astype(np.float32)


def told_ranges(model: Any) -> list[tuple[str, str, Scale]]:
    """Names of a tensor before and behind its fake quantisation, and scale and zero point of that."""
    text = next((entry.value for entry in model.metadata_props if entry.key == RANGES_KEY), "[]")
    return [(before, behind, Scale(scale, zero)) for before, behind, scale, zero in json.loads(text)]


def parse(data: bytes, name: str) -> Any:
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
    from onnx import ModelProto

    try:
        model = ModelProto.FromString(data)
    except (DecodeError, ValueError, RuntimeError) as error:
        raise ModelError(f"not an ONNX file: {error}", where=name) from None
    if not model.graph.node:
        raise ModelError("not an ONNX file: it has no graph", where=name)
    limits.count(len(model.graph.node), limits.MAX_OPS, "nodes")
    for proto in model.graph.initializer:
        constant_data(proto)  # refuses what is stored elsewhere, and sizes that are no sizes
    sort_nodes(model.graph)
    return model


def cut(model: Any, names: Sequence[str]) -> None:
    """The model ends with these tensors, or by itself before sizes that depend on values; what only others need is left
    out, and the model tells it."""
    from onnx import TensorProto, helper

    graph = model.graph
    outputs, tail = ends_of(model, names)
    if not outputs:
        return
    if tail is not None:
        tell_tail(model, tail)
    needed = needed_nodes(graph, outputs)
    kept = [node for index, node in enumerate(graph.node) if index in needed]
    known = {value.name: value for value in (*graph.output, *graph.value_info)}
    made = [known.get(name) or helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
    read = {name for node in kept for name in node.input}
    constants = [proto for proto in graph.initializer if proto.name in read]
    for field, values in ((graph.node, kept), (graph.output, made), (graph.initializer, constants)):
        copies = [type(value).FromString(value.SerializeToString()) for value in values]
        del field[:]
        field.extend(copies)


def require_float(model: Any, path: Path) -> None:
    kinds = [node.op_type for node in _nodes_anywhere(model.graph)]
    before = "export it to ONNX (torch.onnx.export), then " if is_pt2(path) else ""
    generate = f"atonc generate {quote(str(path.with_suffix('.onnx') if is_pt2(path) else path))}"
    done = [kind for kind in kinds if kind in QUANTISED]
    if done:
        raise UnsupportedError(
            f"the model is already quantised: {len(done)} nodes like {done[0]}",
            where=path.name,
            rule="quantize takes the float model",
            remedy=f"compile it as it is ({generate}), or start from the float model it was made of",
        )
    if not any(kind in (*WEIGHTED, *CELLS) for kind in kinds):
        raise UnsupportedError(
            "nothing to quantise: no convolution and no matrix product",
            where=path.name,
            rule="int8 weights belong to Conv, ConvTranspose, Gemm or MatMul",
            remedy=f"{before}run it in float on the CPU: {generate} --allow-float",
        )


def fixed(model: Any, sizes: Mapping[str, Any], name: str) -> Any:
    """Open sizes by their names; a batch that is left open becomes 1."""
    from onnx import TensorProto

    _give_numbers(model.graph, sizes)
    constants, read = {proto.name for proto in model.graph.initializer}, set(_read_anywhere(model.graph))
    inputs = [value for value in model.graph.input if value.name not in constants and value.name in read]
    for value in inputs:
        kind = value.type.tensor_type.elem_type
        if kind not in (TensorProto.FLOAT, TensorProto.INT32, TensorProto.INT64):
            raise UnsupportedError(
                f"input {value.name[:80]!r} is of type {TensorProto.DataType.Name(kind).lower()}",
                where=name,
                rule="inputs of the float model are float32; tokens and positions are int32 or int64",
                remedy="export the model in float32",
            )
    require_names(sizes, open_sizes(inputs), constants)
    for value in inputs:
        for index, dim in enumerate(_dims(value)):
            number = f"{value.name}:{index}"
            size = max(int(dim.dim_value), 0) or size_given(sizes, dim.dim_param, number) or int(index == 0)
            if size <= 0:
                label = dim.dim_param or number
                raise ModelError(
                    f"dimension {index} of input {value.name!r} is not fixed",
                    where=name,
                    rule="all shapes are known when the model is quantised",
                    remedy=f"""give its size, for example --fix-parametric-shapes "{{'{label}': 224}}\"""",
                )
            dim.Clear()
            dim.dim_value = size
    kept = list(inputs)
    del model.graph.input[:]
    model.graph.input.extend(kept)  # constants listed there, as in old files, would not be folded
    for value in model.graph.output:
        value.type.tensor_type.ClearField("shape")  # inferred anew from the inputs
    del model.graph.value_info[:]
    return model


def _give_numbers(graph: Any, values: Mapping[str, Any]) -> None:
    """Inputs that the user has given a value become constants."""
    from onnx import numpy_helper

    for value in [value for value in graph.input if value.name in values]:
        graph.initializer.append(numpy_helper.from_array(given_value(value, values), value.name))
        graph.input.remove(value)


def _graphs(graph: Any) -> Iterator[Any]:
    """The graph, and those inside its nodes."""
    yield graph
    for held in (held for node in graph.node for held in node.attribute):
        for inner in (held.g, *held.graphs):
            yield from _graphs(inner)


def _nodes_anywhere(graph: Any) -> Iterator[Any]:
    return (node for one in _graphs(graph) for node in one.node)


def _read_anywhere(graph: Any) -> Iterator[str]:
    """Names that nodes read, and outputs: others need no value."""
    yield from (value.name for one in _graphs(graph) for value in one.output)
    yield from (name for node in _nodes_anywhere(graph) for name in node.input)


def _dims(value: Any) -> Any:
    return value.type.tensor_type.shape.dim


def tidy(model: Any, name: str) -> Any:
    """Constants folded and BatchNorm, scales and offsets merged into weights, by onnxruntime's basic optimiser."""
    progress.stage("folding constants and BatchNorm")
    try:
        import onnx
        import onnxruntime  # noqa: F401
        from onnx import shape_inference, version_converter
    except ImportError as error:
        raise not_loaded(error, error.name or "onnxruntime", "'atonc[quantize]'") from None
    try:
        sums_as_products(model.graph)
        model, expanded = attention_as_products(model)
        versions = {entry.domain: entry.version for entry in model.opset_import}
        if versions.get("", versions.get("ai.onnx", 1)) < OPSET:
            model = version_converter.convert_version(model, OPSET)
        model = inline_branches(model)
        found = optimised(model, name)
        found = optimised(found, name) if expanded else found  # in what was expanded one fold leads to another
        settle_choices(found.graph)
        drop_empty(found.graph)
        fold_norms(found.graph)
        split_sums(found.graph)
        drop_zeros(found.graph)
        fold_frames(found.graph)
        finite_masks(found.graph)
        found = shape_inference.infer_shapes(found)
    except AtoncError:
        raise
    except Exception as error:  # both packages raise whatever their C++ side says
        raise ModelError(
            f"onnx or onnxruntime cannot prepare it: {str(error)[:300]}",
            where=name,
            remedy="check the model with onnx.checker.check_model; if that finds nothing, report the model",
        ) from None
    foreign = sorted({node.domain for node in found.graph.node if node.domain not in ("", "ai.onnx")})
    if foreign:
        raise UnsupportedError(f"operators of the domain {foreign[0]}", where=name, rule="ONNX's own operators only")
    del found.opset_import[:]
    found.opset_import.append(onnx.helper.make_opsetid("", max(OPSET, versions.get("", OPSET))))
    found.ir_version = min(found.ir_version, 10)
    found = spelled_norms(found, lambda model, opset: raised(model, name, opset))
    dense_layers(found.graph)
    found = shape_inference.infer_shapes(found)
    _name_nodes(found.graph)
    return found


def inline_branches(model: Any) -> Any:
    """Every If whose condition follows from constants and shapes becomes the nodes of its branch. onnxruntime does that
    too, and crashes where one lies in a branch of another."""
    from onnx import helper, shape_inference

    while any(node.op_type == "If" for node in model.graph.node):
        model = shape_inference.infer_shapes(model)
        chosen = ((node, _known(model, node.input[0])) for node in model.graph.node if node.op_type == "If")
        node, value = next((pair for pair in chosen if pair[1] is not None), (None, None))
        if node is None or value is None:
            break
        body = attribute(node, "then_branch" if value.reshape(-1)[0] else "else_branch", None)
        nodes, constants, ends = renamed_nodes(body, node.name or node.output[0], {})
        nodes += [helper.make_node("Identity", [end], [name]) for end, name in zip(ends, node.output, strict=True)]
        place = list(model.graph.node).index(node)
        model.graph.node.remove(node)
        for number, one in enumerate(nodes):
            model.graph.node.insert(place + number, one)
        model.graph.initializer.extend(constants)
    return model


def _known(model: Any, wanted: str) -> Array | None:
    """The value of a tensor, if constants and fixed shapes say it."""
    from onnx import helper, numpy_helper

    values = (*model.graph.value_info, *model.graph.input)
    sizes = {value.name: [dim.dim_value for dim in _dims(value)] for value in values}
    stored = {proto.name: proto for proto in model.graph.initializer}
    producers = {name: node for node in model.graph.node for name in node.output}
    needed, waiting = set[str](), [wanted]
    while waiting:
        name = waiting.pop()
        if name in stored or name in needed:
            continue
        node = producers.get(name)
        if node is None or node.op_type in ("If", "Loop", "Scan"):
            return None
        size = sizes.get(node.input[0], []) if node.op_type in ("Shape", "Size") and not node.attribute else []
        if size and all(size):
            told = np.array(size if node.op_type == "Shape" else np.prod(size), np.int64)
            stored[name] = numpy_helper.from_array(told, name)
        else:
            needed.add(name)
            waiting += filter(None, node.input)
    ordered = [node for node in model.graph.node if not needed.isdisjoint(node.output)]
    ordered.append(helper.make_node("Identity", [wanted], ["known"]))
    held = [stored[name] for name in dict.fromkeys(n for node in ordered for n in node.input) if name in stored]
    return run(session(part_of(model, ordered, [], ["known"], held)), {})[0]


def raised(model: Any, name: str, opset: int = WIDTHS_OPSET) -> Any:
    """The same model by a later opset; that of `WIDTHS_OPSET` has codes of 4 and 16 bits."""
    from onnx import helper, numpy_helper, shape_inference, version_converter

    if model.opset_import[0].version < opset:
        try:
            model = shape_inference.infer_shapes(version_converter.convert_version(model, opset))
        except Exception as error:  # whatever its C++ side says
            raise UnsupportedError(
                f"onnx cannot convert the model to opset {opset}: {str(error)[:300]}",
                where=name,
                rule=f"codes of 4 and 16 bits came with opset {WIDTHS_OPSET}",
                remedy=f"export the model with opset {WIDTHS_OPSET}, or leave --bits and --wide out",
            ) from None
    for node in [node for node in model.graph.node if node.op_type == "Constant"]:  # attributes that became inputs
        value = helper.get_attribute_value(node.attribute[0])
        array = numpy_helper.to_array(value) if node.attribute[0].name == "value" else np.asarray(value)
        model.graph.initializer.append(numpy_helper.from_array(array, node.output[0]))
        model.graph.node.remove(node)
    version = max(opset, model.opset_import[0].version)
    del model.opset_import[:]
    model.opset_import.append(helper.make_opsetid("", version))
    model.ir_version = WIDTHS_IR
    _name_nodes(model.graph)
    return model


def _name_nodes(graph: Any) -> None:
    taken = set[str]()
    for index, node in enumerate(graph.node):
        if not node.name and "/" in node.output[0]:  # what onnxruntime wrote out of one node keeps that node's tensor
            node.name = node.output[0]
        if not node.name or node.name in taken:
            node.name = f"{node.op_type}_{index}"
        taken.add(node.name)


RULE = "every tensor has one size, known when the model is compiled"
LATER = "and leave the rest to the application"


def require_fixed_outputs(graph: FloatGraph, exported: Any, where: str) -> None:
    """Outputs whose size depends on values (boxes that a detector keeps, values that a mask picks) are refused before
    the work: samples cannot be compared value by value, and the chip has memory for one size.

    `graph`: tidy, with shapes; `exported`: the same model with the names that the user knows.
    """
    name = next((name for name in graph.outputs if not all(graph.shapes.get(name, ()))), "")
    tail = onnx_tail(exported, layers=True) if name else None
    if tail is not None:
        node = next(one for one in tail.operators if one.kind in BY_VALUES or one == tail.operators[-1])
        by_itself = "leave --cut-output-tensors out: the model is cut by itself"
        by_hand = f"end the model before it (--cut-output-tensors {','.join(tail.outputs)}) {LATER}"
        raise UnsupportedError(
            f"{node.kind} makes the size of output {name!r} depend on values",
            where=f"{where}, {node.name}",
            rule=RULE,
            remedy=by_hand if onnx_tail(exported) is None else by_itself,
        )


def require_equal_sizes(names: Sequence[str], samples: Sequence[Sequence[Array]]) -> None:
    """Whatever else may change a size, such as a loop, is seen when the samples have run, in float or in int8."""
    for name, values in zip(names, zip(*samples, strict=True), strict=True):
        shapes = list(dict.fromkeys("x".join(map(str, value.shape)) for value in values))
        if len(shapes) > 1:
            raise UnsupportedError(
                f"{shapes[0]} values in one run, {shapes[1]} in another",
                where=f"output {name}",
                rule=RULE,
                remedy=f"end the model where its tensors have one size (--cut-output-tensors) {LATER}",
            )
