"""Number formats: which operators compute on codes, which on real numbers, and where one becomes the other."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from atonc.compiler.ir import Graph, Op, Quantisation, Tensor, check
from atonc.compiler.ops import is_move
from atonc.compiler.ops.recurrent import READ_AGAIN
from atonc.compiler.ops.rounding import AS_CODES, AS_UINT8, ATTRIBUTE, SINGLE, TWICE
from atonc.compiler.passes.edit import Editor, real_data, renamed, rewrite, rewrites, same_format, with_attrs
from atonc.compiler.passes.layers import WEIGHTED, bias_values
from atonc.machine.base.declare import did_you_mean
from atonc.machine.base.errors import InputError
from atonc.machine.base.frozen import replace
from atonc.machine.base.words import count


def name_conversions(graph: Graph) -> Graph:
    """Changes of number format get the name that says what they do.

    quantize: real numbers to codes; dequantize: codes to real numbers; requantize: codes to codes. Plain bytes that are
    only cast to real numbers are codes of scale 1.
    """
    return rewrite(_give_scale_to_bytes(graph), _named_by_formats)


def _named_by_formats(op: Op, editor: Editor) -> list[Op] | None:
    if op.kind not in ("cast", "quantize", "dequantize", "requantize", "identity"):
        return None
    x, y = editor.tensor(op.inputs[0]), editor.tensor(op.outputs[0])
    if op.kind != "cast":
        return [replace(op, kind=conversion_kind(x, y))]
    unit = x.quant is not None and x.quant.is_per_tensor and x.scale == 1.0 and x.zero_point == 0
    return [replace(op, kind="dequantize")] if y.is_float and unit else None


def conversion_kind(x: Tensor, y: Tensor) -> str:
    if x.quant is not None:
        return "requantize" if y.quant is not None else "dequantize"
    return "quantize" if y.quant is not None else "identity"


def _give_scale_to_bytes(graph: Graph) -> Graph:
    tensors = dict(graph.tensors)
    for name in graph.inputs:
        tensor = tensors[name]
        readers = graph.consumers.get(name, [])
        casts = all(op.kind == "cast" and tensors[op.outputs[0]].is_float for op in readers)
        if tensor.quant is None and tensor.dtype in ("int8", "uint8") and readers and casts:
            tensors[name] = replace(tensor, quant=Quantisation.per_tensor(1.0, 0))
    return replace(graph, tensors=tensors)


CODE_READERS = ("cast", "custom")  # operators that look at the codes themselves


def shift_uint8(graph: Graph) -> Graph:
    """Old models count in uint8: every tensor is shifted to int8, the same real values. The edges keep their bytes."""
    if not any(_is_uint8(tensor) for tensor in graph.tensors.values()):
        return graph
    edges = {*graph.inputs, *graph.outputs}
    tensors = {
        name: shifted(tensor) if _is_uint8(tensor) and name not in edges else tensor
        for name, tensor in graph.tensors.items()
    }
    ops = tuple(  # what rounds codes goes on to round those of the model
        with_attrs(op, **{ATTRIBUTE: AS_UINT8})
        if op.attrs.get(ATTRIBUTE) == AS_CODES and _is_uint8(graph.tensors[op.outputs[0]])
        else op
        for op in graph.ops
    )
    moved = {name for name, tensor in tensors.items() if tensor is not graph.tensors[name]}
    return rewrite(replace(graph, tensors=tensors, ops=ops), lambda op, editor: _shift_edges(op, editor, moved))


def _is_uint8(tensor: Tensor) -> bool:
    return tensor.dtype == "uint8" and tensor.quant is not None


def shifted(tensor: Tensor) -> Tensor:
    if tensor.quant is None:
        return tensor
    moved = replace(tensor.quant, zero_points=tensor.quant.zero_points - 128)
    data = None if tensor.data is None else (tensor.data.astype(np.int16) - 128).astype(np.int8)
    return replace(tensor, dtype="int8", quant=moved, data=data)


def _as_uint8(tensor: Tensor, editor: Editor) -> str:
    """The codes as the model has them, under a name of their own."""
    quant = tensor.quant and replace(tensor.quant, zero_points=tensor.quant.zero_points + 128)
    data = None if tensor.data is None else (tensor.data.astype(np.int16) + 128).astype(np.uint8)
    return editor.add(replace(tensor, name=f"{tensor.name}:uint8", dtype="uint8", quant=quant, data=data))


def _shift_edges(op: Op, editor: Editor, moved: set[str]) -> list[Op]:
    inputs = tuple(_input(name, op, editor, moved) for name in op.inputs)
    outputs, after = [], []
    for name in op.outputs:
        tensor = editor.tensor(name) if name else None
        if op.kind == "custom" and tensor is not None and name in moved:
            outputs.append(_as_uint8(tensor, editor))
            after.append(Op("uint8_to_int8", f"{op.name}:int8", (outputs[-1],), (name,), {}, op.origin))
            continue
        if tensor is None or op.kind == "custom" or not _is_uint8(tensor):
            outputs.append(name)
            continue
        inner = editor.add(replace(shifted(tensor), name=f"{name}:int8"))
        editor.once(name, "int8", lambda inner=inner: inner)  # type: ignore[misc]
        outputs.append(inner)
        after.append(Op("int8_to_uint8", f"{op.name}:uint8", (inner,), (name,), {}, op.origin))
    return [replace(op, inputs=inputs, outputs=tuple(outputs)), *after]


def _input(name: str, op: Op, editor: Editor, moved: set[str]) -> str:
    if not name:
        return name
    tensor = editor.tensor(name)
    if op.kind in CODE_READERS and name in moved:
        made = _as_uint8(tensor, editor)
        if tensor.is_constant:
            return made
        editor.append(Op("int8_to_uint8", f"{op.name}:uint8", (name,), (made,), {}, op.origin))
        return made
    if op.kind in CODE_READERS or not _is_uint8(tensor):
        return name

    def make() -> str:
        inner = editor.add(replace(shifted(tensor), name=f"{name}:int8"))
        editor.append(Op("uint8_to_int8", f"{name}:int8", (name,), (inner,), {}, op.origin))
        return inner

    return editor.once(name, "int8", make)


OWN_FORMATS = (
    "quantize", "dequantize", "requantize", "identity", "cast", "custom", "arg_max", "arg_min", "shape", "fill",
    "range", "uint8_to_int8", "int8_to_uint8", "table", "less", "less_equal", "greater", "greater_equal", "equal",
    "not_equal", "logical_and", "logical_or", "logical_not",
)  # fmt: skip


def fuse_formats(graph: Graph) -> Graph:
    """Dequantize - operator - quantize becomes the operator on codes: kernels compute on real numbers anyway.

    Where the model computes in floats its result is rounded once. How TFLite's integer kernels of that kind would round
    is no concern of such an operator, also when it is on codes afterwards.
    """
    return rewrite(rewrite(graph, _read_codes), _write_codes)


def _computes(op: Op) -> bool:
    return op.kind not in OWN_FORMATS and not is_move(op.kind)


def _read_codes(op: Op, editor: Editor) -> list[Op] | None:
    """Operators read the codes behind a dequantised value."""
    if not _computes(op) and op.kind != "quantize":
        return None
    inputs = []
    for place, name in enumerate(op.inputs):
        source = editor.producer(name) if name and not (place and op.kind in READ_AGAIN) else None
        inputs.append(source.inputs[0] if source is not None and source.kind == "dequantize" else name)
    if op.kind == "quantize" and tuple(inputs) != op.inputs:
        single = {ATTRIBUTE: SINGLE} if op.attrs.get(ATTRIBUTE) == TWICE else {}
        return [with_attrs(replace(op, kind="requantize", inputs=tuple(inputs)), (ATTRIBUTE,), **single)]
    return [replace(op, inputs=tuple(inputs))]


def _write_codes(op: Op, editor: Editor) -> list[Op] | None:
    """The producer of a real value that is only quantised writes the codes itself."""
    if op.kind != "quantize":
        return None
    producer = editor.producer(op.inputs[0])
    alone = editor.read_once(op.inputs[0]) and len(producer.outputs if producer else ()) == 1
    if producer is None or not alone or not _computes(producer) or producer.kind in READ_AGAIN:
        return None
    joined = with_attrs(replace(producer, outputs=op.outputs, origin=(*producer.origin, *op.origin)), (ATTRIBUTE,))
    editor.replace_op(producer, joined)
    return []


Format = tuple[str, Quantisation]
ALL_INPUTS = ("concat", "pack")


def quantise_earlier(graph: Graph) -> Graph:
    """Values that are only moved before they are quantised are quantised first: rounding and moving commute.

    Some tools leave islands of real numbers that move and join values, for example the shuffles between two parts of a
    network: DequantizeLinear - Concat - Reshape - Transpose - QuantizeLinear. From the last operator to the first, so
    that whole chains change.
    """
    tensors, readers = dict(graph.tensors), graph.consumers

    def is_inner(name: str) -> bool:
        return tensors[name].is_float and not tensors[name].is_constant and name not in graph.outputs

    for op in reversed(graph.ops):
        if is_move(op.kind) and all(map(is_inner, op.outputs)):
            wanted = [_wanted(reader, name, tensors) for name in op.outputs for reader in readers.get(name, ())]
            found = _common(wanted)
            for name in op.outputs if found else ():
                tensors[name] = replace(tensors[name], dtype=found[0], quant=found[1])  # type: ignore[index]
    if all(tensors[name] is graph.tensors[name] for name in tensors):
        return graph
    ops = [
        replace(op, kind=conversion_kind(tensors[op.inputs[0]], tensors[op.outputs[0]]))
        if op.kind == "quantize"
        else op
        for op in graph.ops
    ]
    return replace(graph, tensors=tensors, ops=tuple(ops))


def _wanted(reader: Op, name: str, tensors: Mapping[str, Tensor]) -> Format | None:
    """The format that a reader turns the value into without computing on it."""
    data = reader.inputs if reader.kind in ALL_INPUTS else reader.inputs[:1]
    moves = is_move(reader.kind) and name in data and name not in reader.inputs[len(data) :]
    if not moves and reader.kind != "quantize":
        return None
    formats = [(tensors[output].dtype, tensors[output].quant) for output in reader.outputs]
    return _common([(dtype, quant) if quant is not None else None for dtype, quant in formats])


def _common(formats: list[Format | None]) -> Format | None:
    first = formats[0] if formats else None
    if first is None or not first[1].is_per_tensor:
        return None
    same = all(other is not None and other[0] == first[0] and first[1].same_as(other[1]) for other in formats)
    return first if same else None


@rewrites
def separate_formats(op: Op, editor: Editor) -> list[Op] | None:
    """Operators that move values change no number format: conversions become operators of their own, outside them.

    The front ends let a reshape or a maximum write another format than it reads. Rounding and moving commute, so
    nothing changes by separating them.
    """
    if not (is_move(op.kind) or op.kind == "max_pool"):
        return None
    count = len(op.inputs) if op.kind in ALL_INPUTS else 1
    data, outputs = [editor.tensor(name) for name in op.inputs[:count]], editor.tensors_of(op.outputs)
    y = outputs[0]
    if not all(same_format(other, y) for other in outputs):
        return _convert_each(op, data[0], outputs, editor)
    if all(same_format(x, y) for x in data):
        return None
    if count == 1 and len(op.outputs) == 1 and _should_move_first(op, data[0], y):
        return _convert_each(op, data[0], outputs, editor)
    inputs = []
    for x in data:
        made = Tensor(f"{x.name}:as {y.name}", x.shape, y.dtype, y.quant)
        convert = conversion_kind(x, y), f"{op.name}:format", op.origin
        inputs.append(x.name if same_format(x, y) else editor.derived(x.name, made, *convert))
    return [replace(op, inputs=(*inputs, *op.inputs[count:]))]


def _should_move_first(op: Op, x: Tensor, y: Tensor) -> bool:
    """Codes are smaller than floats; a maximum is taken in the format that it was given in."""
    if op.kind == "max_pool":
        return op.attrs.get("activation", "none") == "none"
    plain_pad = op.kind != "pad" or (op.attrs.get("value", 0.0) == 0.0 and x.quant is not None)
    return y.is_float and x.quant is not None and x.quant.is_per_tensor and plain_pad


def _convert_each(op: Op, x: Tensor, outputs: list[Tensor], editor: Editor) -> list[Op]:
    """Parts with formats of their own are cut off first: no part may go through the format of another."""
    names, after = [], []
    for y in outputs:
        if same_format(x, y):
            names.append(y.name)
            continue
        names.append(editor.add(Tensor(f"{y.name}:moved", y.shape, x.dtype, x.quant)))
        after.append(Op(conversion_kind(x, y), f"{op.name}:format", (names[-1],), (y.name,), {}, op.origin))
    return [replace(op, outputs=tuple(names)), *after]


MIXING = ("quantize", "dequantize", "affine", "table", "arg_max", "arg_min", "cast", "custom", "shape")


@rewrites
def split_formats(op: Op, editor: Editor) -> list[Op] | None:
    """What stays float is float on both sides: conversions stand as operators of their own at the borders.

    `affine` and `table` are exceptions: they may read codes and write real numbers.
    """
    tensors = [editor.tensor(name) for name in (*op.inputs, *op.outputs) if name]
    live = [tensor for tensor in tensors if not tensor.is_constant]
    mixed = any(t.is_float for t in live) and any(t.quant is not None for t in live)
    if op.kind in MIXING or not mixed:
        return None
    op = _with_real_bias(op, editor)
    inputs = tuple(_real_input(name, op, editor) if name else "" for name in op.inputs)
    outputs, after = [], []
    limits = {"clip": op.attrs["clip"]} if "clip" in op.attrs else {}  # in codes, so they stay with these
    for y in editor.tensors_of(op.outputs):
        outputs.append(y.name if y.quant is None else editor.add(Tensor(f"{y.name}:real", y.shape, "float32")))
        if y.quant is not None:
            after.append(Op("quantize", f"{op.name}:codes", (outputs[-1],), (y.name,), limits, op.origin))
    op = with_attrs(op, ("clip",)) if after else op
    return [replace(op, inputs=inputs, outputs=tuple(outputs)), *after]


def _with_real_bias(op: Op, editor: Editor) -> Op:
    """A bias that counts in units of the accumulator means nothing beside real numbers."""
    if op.kind not in WEIGHTED or len(op.inputs) < 3 or not op.inputs[2]:
        return op
    x, weights, bias = (editor.tensor(name) for name in op.inputs[:3])
    if x.quant is None or weights.quant is None or bias.data is None or bias.quant is not None or bias.is_float:
        return op
    values = bias_values(bias, x, weights).astype(np.float32)
    real = editor.constant(f"{bias.name}:real {op.outputs[0]}", values)
    return replace(op, inputs=(*op.inputs[:2], real, *op.inputs[3:]))


def _real_input(name: str, op: Op, editor: Editor) -> str:
    tensor = editor.tensor(name)
    if tensor.quant is None:
        return name
    if tensor.data is not None:
        return editor.once(name, "real", lambda: editor.constant(f"{name}:real", real_data(tensor).astype(np.float32)))
    real = Tensor(f"{name}:real", tensor.shape, "float32")
    return editor.derived(name, real, "dequantize", f"{op.name}:real", op.origin)


TYPES = ("float32", "int8", "uint8", "int16")
BITS = {"int8": 8, "uint8": 8, "int16": 16}  # of codes


def set_edge_types(graph: Graph, input_type: str, output_type: str) -> Graph:
    """Inputs and outputs in the number format that the user asked for.

    float32 puts a conversion inside the network; int8 and int16 take conversions off the edge. A model that has no
    conversion there gets one only if the real values stay the same, so codes keep their width. One type for all inputs
    or outputs, or one for each with commas between. Edges that cannot change get a note.
    """
    if not input_type and not output_type:
        return graph
    inputs = _each(graph.frame_inputs, input_type, "input")
    outputs = _each(graph.frame_outputs, output_type, "output")
    for name, wanted in inputs.items():
        graph = _set_input(graph, name, wanted)
    for name, wanted in outputs.items():
        graph = _set_output(graph, name, wanted)
    notes = [
        f"{name} stays {graph.tensors[name].dtype}: it holds no "
        f"{f'{BITS[wanted]}-bit codes' if wanted in BITS else 'codes'} that could be given as {wanted}"
        for name, wanted in (*inputs.items(), *outputs.items())
        if graph.tensors[name].dtype != wanted
    ]
    return check(replace(graph, notes=(*graph.notes, *notes)))


def _may_be(codes: Tensor, dtype: str) -> bool:
    """Real numbers and indices are no codes."""
    if codes.quant is None or codes.dtype not in BITS:
        return False
    return dtype not in BITS or BITS[dtype] == BITS[codes.dtype]


def _each(names: tuple[str, ...], wanted: str, side: str) -> dict[str, str]:
    types = wanted.split(",") if wanted else []
    for dtype in types:
        if dtype not in TYPES:
            rule = f"element types are {', '.join(TYPES)}"
            remedy = did_you_mean(dtype, TYPES, "leave it out: as in the model")
            raise InputError(f"element type {dtype[:40]!r}", where=f"--{side}-data-type", rule=rule, remedy=remedy)
    if len(types) > 1 and len(types) != len(names):
        raise InputError(
            f"{count(len(types), 'element type')} for {count(len(names), side)}",
            where=f"--{side}-data-type",
            remedy="give one for all, or one for each",
        )
    return dict(zip(names, types * len(names) if len(types) == 1 else types, strict=False))


def _other(tensor: Tensor, name: str, dtype: str) -> Tensor:
    """The same values as real numbers, or as codes shifted by 128."""
    if dtype == "float32":
        return Tensor(name, tensor.shape, "float32")
    shift = {("int8", "uint8"): 128, ("uint8", "int8"): -128}.get((tensor.dtype, dtype), 0)
    quant = None if tensor.quant is None else Quantisation.per_tensor(tensor.scale, tensor.zero_point + shift)
    return Tensor(name, tensor.shape, dtype, quant)


def _set_input(graph: Graph, name: str, dtype: str) -> Graph:
    """Peels the conversion off, then wraps the codes in the format that is wanted. The input keeps its name."""
    readers = graph.consumers.get(name, [])
    if graph.tensors[name].dtype == dtype or not readers:
        return graph
    peeled = [op for op in readers if op.kind in ("quantize", "uint8_to_int8")]
    alone = len(peeled) == len(readers) == 1 and name not in graph.outputs
    codes = graph.tensors[peeled[0].outputs[0] if alone else name]
    if not _may_be(codes, dtype):
        return graph
    if alone:
        graph = _without(graph, peeled[0], codes.name, name)
    codes = replace(codes, name=name)
    if codes.dtype == dtype:
        return replace(graph, tensors={**graph.tensors, name: codes})
    inner = f"{name}:codes"
    kind = "quantize" if dtype == "float32" else ("uint8_to_int8" if dtype == "uint8" else "int8_to_uint8")
    ops = renamed(graph.ops, {name: inner})
    tensors = {**graph.tensors, name: _other(codes, name, dtype), inner: replace(codes, name=inner)}
    return replace(graph, ops=(Op(kind, inner, (name,), (inner,)), *ops), tensors=tensors)


def _without(graph: Graph, op: Op, gone: str, kept: str) -> Graph:
    ops = renamed((other for other in graph.ops if other is not op), {gone: kept})
    tensors = {n: t for n, t in graph.tensors.items() if n != gone}
    tensors[kept] = replace(graph.tensors[gone], name=kept)
    if gone in graph.outputs:  # also a state may have this name: it stays, and gets the same codes
        ops, tensors[gone] = (*ops, Op("identity", gone, (kept,), (gone,), {}, op.origin)), graph.tensors[gone]
    return replace(graph, ops=ops, tensors=tensors)


def _set_output(graph: Graph, name: str, dtype: str) -> Graph:
    producer = graph.producers.get(name)
    if graph.tensors[name].dtype == dtype or producer is None:
        return graph
    converted = producer.kind in ("dequantize", "int8_to_uint8")
    if not _may_be(graph.tensors[producer.inputs[0] if converted else name], dtype):
        return graph
    if converted:
        graph = _peel_output(graph, producer, name)
    codes = graph.tensors[name]
    if not _may_be(codes, dtype) or codes.dtype == dtype:
        return graph
    inner = f"{name}:codes"
    kind = "dequantize" if dtype == "float32" else ("int8_to_uint8" if dtype == "uint8" else "uint8_to_int8")
    ops = renamed(graph.ops, {name: inner})
    tensors = {**graph.tensors, name: _other(codes, name, dtype), inner: replace(codes, name=inner)}
    return replace(graph, ops=(*ops, Op(kind, f"{name}:{dtype}", (inner,), (name,))), tensors=tensors)


def _peel_output(graph: Graph, producer: Op, name: str) -> Graph:
    """The codes behind the conversion become the output, if they are not one already."""
    codes = producer.inputs[0]
    if codes in graph.outputs or codes in graph.inputs or graph.consumers.get(name):
        return graph
    return _without(graph, producer, codes, name)


def round_once(graph: Graph) -> Graph:
    """ST's releases 2.x round every result once, whatever the kernels did that the model was made for."""
    ops = [with_attrs(op, (ATTRIBUTE,)) for op in graph.ops]
    return replace(graph, ops=tuple(ops))
