"""TFLite (int8, uint8, float islands) -> Graph. Old uint8 models keep their type; passes may shift them later.

Files whose batch is free store placeholders as shapes: what TFLite computes when it runs them is computed here, from
the shapes of the inputs on, and numbers that only depend on shapes become constants. A variable of the model is a pair:
what a run leaves for the next one becomes an output, what it finds there an input. A program of the NPU is a function
of its inputs, so the application (or whoever tests the program) copies the codes of that output to that input.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import cache
from math import prod
from pathlib import Path
from types import MappingProxyType

import numpy as np

from atonc.compiler.frontends import limits, tflite_ops
from atonc.compiler.frontends.custom_file import code_format, require_count, unlike, values_of
from atonc.compiler.frontends.limits import refuse
from atonc.compiler.frontends.operands import check_operands, check_work, require_operands
from atonc.compiler.frontends.tails import BY_VALUES, UNCUT, FlatNode, custom_numbers, find_tail, note_of
from atonc.compiler.frontends.tflite_file import (
    ELEMENT_TYPES,
    OPERATORS,
    OTHER_TYPES,
    BufferField,
    CodeField,
    FlatTable,
    ModelField,
    OperatorField,
    QuantField,
    SubgraphField,
    TensorField,
    dense,
    root,
)
from atonc.compiler.frontends.tflite_ops import Source, axis_of
from atonc.compiler.ir import Array, CarriedState, Graph, Op, Quantisation, Tensor, check
from atonc.compiler.ir.types import Tail, check_shape
from atonc.compiler.ops import rounding, run_op
from atonc.compiler.ops.custom import OPERATOR, VALUES
from atonc.compiler.ops.registry import filed, is_move
from atonc.compiler.ops.run import REPORT, RULE, said
from atonc.compiler.ops.shapes import infer_shape
from atonc.machine.base.errors import InputError, ModelError, UnsupportedError, plain
from atonc.machine.base.frozen import dataclass
from atonc.machine.base.user_c import CustomOperator
from atonc.machine.base.words import count, instead

TRANSLATORS = tflite_ops.TRANSLATORS


def read_tflite(
    data: bytes,
    name: str = "",
    cut_outputs: Sequence[str] = (),
    cut_inputs: Sequence[str] = (),
    custom: Mapping[str, CustomOperator] = MappingProxyType({}),
) -> Graph:
    """The first subgraph of the file; anything damaged is a ModelError. What is cut off is not translated."""
    model = root(data, b"TFL3")
    subgraphs = model.tables(ModelField.SUBGRAPHS)
    if not subgraphs:
        raise ModelError("the file has no subgraph", where=name)
    codes = [operator_name(table) for table in model.tables(ModelField.OPERATOR_CODES)]
    tables = subgraphs[0].tables(SubgraphField.OPERATORS)
    limits.count(len(tables), limits.MAX_OPS, "operators")
    tensors = _Tensors(data, model.tables(ModelField.BUFFERS), subgraphs[0])
    edges = [
        [int(i) for i in subgraphs[0].array(number, "<i4")] for number in (SubgraphField.INPUTS, SubgraphField.OUTPUTS)
    ]
    tensors.custom = {f"CUSTOM {name!r}": one for name, one in custom.items()}
    computed = not tensors.custom.keys().isdisjoint(BY_VALUES)  # by C of the user
    tail = None if cut_outputs or computed else _tail(tables, codes, tensors, edges)
    ends = () if tuple(cut_outputs) == UNCUT else tail.outputs if tail else cut_outputs
    if ends:
        edges[1] = _cuts(ends, tensors, _results(tables, codes))
    starts = [tensors.index[one] for one in cut_inputs if one in tensors.index]
    chosen, variables = choose_operators(tables, codes, edges[1], bool(ends), starts)
    edges[0] += starts
    first = _first_values(data, model, codes) if variables else {}
    shown = set(edges[1])
    _carry(variables, first, tensors, edges)
    ops = [op for index in chosen for op in _operator(index, tables[index], codes, tensors, edges[1])]
    states = tuple(
        replace(carried_state(v, tensors.at(v.read), tensors.at(v.assigned), first), shown=v.assigned in shown)
        for v in variables
        if v.assigned >= 0
    )
    inputs, outputs = ([tensors.at(i).name for i in indices] for indices in edges)
    used = {t for op in ops for t in (*op.inputs, *op.outputs)} | set(inputs) | set(outputs)
    kept = {tensor.name: tensor for tensor in tensors.all() if tensor.name in used}
    notes = [f"{op.origin[0]} {tflite_ops.STATE_NOTE}" for op in ops if op.kind in ("lstm", "recurrent")]
    notes += [f"{op.origin[0]} does not cut its cells at {op.attrs['uncut']:g} as TFLite does; it has more steps than "
              "that, so they may get there" for op in ops if "uncut" in op.attrs]  # fmt: skip
    notes += [note_of(tail)] if tail else []
    inputs, outputs = list(dict.fromkeys(inputs)), list(dict.fromkeys(outputs))
    graph = Graph(kept, tuple(ops), tuple(inputs), tuple(outputs), name, "tflite", notes=tuple(notes), states=states)
    batch = any(0 in tensors.free.get(index, ()) for index in edges[0])
    return check_work(check_operands(check(replace(graph, tail=tail, open_batch=batch))))


def _first_values(data: bytes, model: FlatTable, codes: list[str]) -> dict[str, Array]:
    """Reads the first values of variables, by name."""
    buffers, subgraphs = model.tables(ModelField.BUFFERS), model.tables(ModelField.SUBGRAPHS)
    read = cache(lambda number: _Tensors(data, buffers, subgraphs[number]))
    tables = subgraphs[0].tables(SubgraphField.OPERATORS)
    return first_values(tables, codes, subgraphs, lambda number, index: read(number).at(index))


def _carry(
    variables: Sequence[Variable], first: Mapping[str, Array], tensors: _Tensors, edges: list[list[int]]
) -> None:
    """Variables are inputs and outputs; constants where nobody assigns to them."""
    for variable in variables:
        if variable.assigned >= 0:
            edges[0].append(variable.read)
            edges[1].append(variable.assigned)
        else:
            read = tensors.at(variable.read)
            tensors.listed[variable.read] = replace(read, data=first_value(variable, read, first))


def read_file(path: Path) -> Graph:
    return read_tflite(limits.read_bytes(path), path.stem)


def operator_name(table: FlatTable) -> str:
    """Codes above 127 live in the newer field."""
    code = max(table.int8(CodeField.OLD_BUILTIN), table.int32(CodeField.BUILTIN))
    name = OPERATORS.get(code, f"operator number {code}")
    return f"CUSTOM {table.text(CodeField.CUSTOM)[:80]!r}" if name == "CUSTOM" else name


def unique_name(name: str, index: int, taken: set[str]) -> str:
    """Finds a free name for the tensor with this index; it is taken from now on."""
    name = plain(name[: limits.MAX_NAME]) or f"tensor_{index}"
    while name in taken:
        name = f"{name}#{index}"
    taken.add(name)
    return name


class _Tensors:
    """Tensors by index, with unique names, plus the constants made during translation."""

    def __init__(self, data: bytes, buffers: list[FlatTable], subgraph: FlatTable) -> None:
        self.data, self.buffers = data, buffers
        tables = subgraph.tables(SubgraphField.TENSORS)
        limits.count(len(tables), limits.MAX_TENSORS, "tensors")
        self.total_bytes = 0
        self.names: set[str] = set()
        self.unreadable: dict[int, str] = {}  # tensors of types that nobody may use -> type
        self.free: dict[int, frozenset[int]] = {}  # axes whose stored size is a placeholder
        self.listed = [self._read(index, table) for index, table in enumerate(tables)]
        self.index = {tensor.name: index for index, tensor in enumerate(self.listed)}
        self.made: dict[str, Tensor] = {}
        self.coded: dict[str, Tensor] = {}  # real value behind FAKE_QUANT -> its codes
        self.custom: Mapping[str, CustomOperator] = {}  # C operators of the user, by kind

    def at(self, index: int) -> Tensor:
        if not 0 <= index < len(self.listed):
            raise ModelError(f"tensor {index} does not exist, the file has {len(self.listed)}")
        if index in self.unreadable:
            raise UnsupportedError(f"{self.unreadable[index]} is not supported", where=self.listed[index].name)
        return self.listed[index]

    def mend(self, index: int, computed: Shape, where: str) -> None:
        """Gives a tensor the shape that its operator computes, where the file leaves it open. The batch may be wrong
        too: files whose batch was set to 1 by hand keep others inside."""
        declared, free = self.at(index).shape, self.free.get(index, frozenset())
        pairs = enumerate(zip(declared, computed, strict=False))
        same = all(k == 0 or k in free or a == b for k, (a, b) in pairs)
        if not (same if len(declared) == len(computed) else declared[1:] == computed[1:]):
            raise ModelError(f"result has shape {declared}, the operator computes {computed}", where=where)
        self.listed[index] = replace(self.at(index), shape=check_shape(computed, where))

    def add(self, tensor: Tensor) -> None:
        self.made[tensor.name] = tensor

    def named(self, name: str) -> Tensor:
        made = self.made.get(name)
        return made if made is not None else self.listed[self.index[name]]

    def all(self) -> Sequence[Tensor]:
        return [*self.listed, *self.made.values()]

    def _read(self, index: int, table: FlatTable) -> Tensor:
        name = unique_name(table.text(TensorField.NAME), index, self.names)
        code = table.int8(TensorField.TYPE)
        if code not in ELEMENT_TYPES:
            self.unreadable[index] = OTHER_TYPES.get(code, f"element type {code}")
            return Tensor(name, (), "int8")
        dtype = ELEMENT_TYPES[code]
        shape = check_shape(tuple(int(d) for d in table.array(TensorField.SHAPE, "<i4")), name)
        data = self._constant(table.uint32(TensorField.BUFFER), dtype, shape, name, table.table(TensorField.SPARSITY))
        if free := frozenset(np.flatnonzero(table.array(TensorField.SIGNATURE, "<i4") == FREE).tolist()):
            self.free[index] = free
        quant = _quantisation(table, dtype, shape)
        if data is not None and quant is not None and quant.axis is not None:
            data, quant = _with_positive_scales(data, quant)
        return Tensor(name, shape, dtype, quant, data)

    def _constant(
        self, buffer: int, dtype: str, shape: tuple[int, ...], name: str, sparsity: FlatTable | None
    ) -> Array | None:
        if buffer >= len(self.buffers):
            raise ModelError(f"buffer {buffer} does not exist", where=name)
        raw = self._bytes(self.buffers[buffer], name)
        if raw.size == 0:
            return None
        item = np.dtype("int8" if dtype == "int4" else dtype)
        whole_bytes = int(np.prod(shape, dtype=np.int64)) * item.itemsize
        self.total_bytes += raw.size if sparsity is None else whole_bytes
        limits.count(self.total_bytes, limits.MAX_TOTAL_CONSTANT_BYTES, "bytes of constants")
        if dtype == "int4":
            if sparsity is not None:
                raise UnsupportedError("sparse constants of 4 bits are not supported", where=name)
            return _unpack_int4(raw, shape, name)
        if sparsity is not None and raw.size % item.itemsize == 0:
            return dense(raw.view(item.newbyteorder("<")).astype(item), sparsity, shape, name)
        if raw.size != whole_bytes:
            raise ModelError(
                f"constant has {raw.size} bytes, shape {shape} of {dtype} needs another number", where=name
            )
        return raw.view(item.newbyteorder("<")).astype(item).reshape(shape)

    def _bytes(self, buffer: FlatTable, name: str) -> Array:
        """Large files keep their constants behind the tables, at an offset from the start."""
        offset, size = buffer.uint64(BufferField.OFFSET), buffer.uint64(BufferField.SIZE)
        if offset <= 1:
            return buffer.array(BufferField.DATA, "u1")
        if offset + size > len(self.data):
            raise ModelError("constant reaches beyond the end of the file", where=name)
        return np.frombuffer(self.data, np.uint8, size, offset)


def _unpack_int4(raw: Array, shape: tuple[int, ...], name: str) -> Array:
    """Two values per byte, the low half first."""
    count = int(np.prod(shape, dtype=np.int64))
    if raw.size != (count + 1) // 2:
        raise ModelError("packed 4-bit constant has the wrong size", where=name)
    halves = np.stack([raw & 15, raw >> 4], axis=-1).reshape(-1)[:count].astype(np.int8)
    return np.where(halves > 7, halves - 16, halves).astype(np.int8).reshape(shape)


def _quantisation(table: FlatTable, dtype: str, shape: tuple[int, ...]) -> Quantisation | None:
    quant = table.table(TensorField.QUANTISATION)
    if quant is None or dtype.startswith("float") or dtype == "bool":
        return None
    with np.errstate(invalid="ignore"):
        scales = quant.array(QuantField.SCALE, "<f4").astype(np.float64)
    if scales.size == 0:
        return None
    zeros = quant.array(QuantField.ZERO_POINT, "<i8").astype(np.int64)
    zeros = np.zeros(scales.size, np.int64) if zeros.size == 0 else zeros
    if zeros.size == 1 and scales.size > 1:
        zeros = np.repeat(zeros, scales.size)
    axis = quant.int32(QuantField.AXIS)
    if dtype == "int32" and len(shape) == 1:
        axis = 0  # some converters give biases the axis of their weights
    return Quantisation(scales, zeros, axis if scales.size > 1 else None)


def _with_positive_scales(data: Array, quant: Quantisation) -> tuple[Array, Quantisation]:
    """Some tools fold negative gains into the scales of channels: the codes get the sign. Zero counts nothing."""
    scales, axis = quant.scales, quant.axis or 0
    odd = ~(scales > 0)
    if quant.zero_points.size != scales.size or data.size == 0:
        return data, quant
    usable = np.isfinite(scales).all() and not np.any(quant.zero_points[odd]) and axis < data.ndim
    if not odd.any() or not usable or data.shape[axis] != scales.size:
        return data, quant
    turned = data * quant.along(np.sign(scales).astype(np.int64), data.ndim)
    if turned.min() < np.iinfo(data.dtype).min or turned.max() > np.iinfo(data.dtype).max:
        return data, quant
    magnitudes = np.where(scales == 0, 1.0, np.abs(scales))
    return turned.astype(data.dtype), replace(quant, scales=magnitudes)


def _cuts(names: Sequence[str], tensors: _Tensors, results: Mapping[str, list[int]]) -> list[int]:
    """Indices of the tensors that the user wants as outputs, by their names or those of operators."""
    found: list[int] = []
    live = [tensor.name for tensor in tensors.listed if not tensor.is_constant]
    for name in names:
        if name not in tensors.index and name not in results:
            what = f"the model has no tensor {name[:100]!r} to cut at"
            raise InputError(what, where="--cut-output-tensors", remedy=instead(name, [*live, *results]))
        found += [tensors.index[name]] if name in tensors.index else results[name]
    return list(dict.fromkeys(found))


def _tail(
    tables: Sequence[FlatTable], codes: list[str], tensors: _Tensors, edges: Sequence[Sequence[int]]
) -> Tail | None:
    """What is left to the application; operators have numbers for names."""
    kinds = [_code(table, codes) for table in tables]
    if not any(kind in BY_VALUES for kind in kinds):
        return None
    listed = tensors.listed

    def named(indices: Sequence[int]) -> tuple[str, ...]:
        return tuple(listed[i].name if 0 <= i < len(listed) else "" for i in indices)

    def said(node: FlatNode) -> dict[str, float]:
        if not node.op_type.startswith("NON_MAX"):
            return custom_numbers(node.table.array(OperatorField.CUSTOM_OPTIONS, "|u1").tobytes())
        held = [tensors.named(name).data if name else None for name in node.input[2:5]]
        titles = zip(("boxes", "IoU", "score"), held, strict=False)
        return {title: float(data.reshape(-1)[0]) for title, data in titles if data is not None and data.size}

    nodes = []
    for index, (kind, table) in enumerate(zip(kinds, tables, strict=True)):
        reads, made = (named(operand_indices(table, k, kind)) for k in (OperatorField.INPUTS, OperatorField.OUTPUTS))
        node = FlatNode(op_type=kind, name=f"{kind}_{index}", input=reads, output=made, attribute=(), table=table)
        nodes.append(node)
    values = {tensor.name for tensor in listed if tensor.is_float or tensor.quant is not None}
    return find_tail(nodes, (named(edges[0]), named(edges[1])), lambda: values, said)


def _results(tables: Sequence[FlatTable], codes: list[str]) -> dict[str, list[int]]:
    """Operator -> indices of the tensors that it gives; operators have no names in the file, so they get numbers."""
    numbers = [table.uint32(OperatorField.CODE) for table in tables]
    return {
        f"{codes[number]}_{index}": operand_indices(tables[index], OperatorField.OUTPUTS, str(index))
        for index, number in enumerate(numbers)
        if number < len(codes)
    }


def _operator(index: int, table: FlatTable, codes: list[str], tensors: _Tensors, kept: Collection[int]) -> list[Op]:
    """One operator of the file: ours, with what prepares its operands and gives its results their formats. None where
    its results follow from shapes, unless they are to be `kept` as outputs."""
    number = table.uint32(OperatorField.CODE)
    if number >= len(codes):
        raise ModelError(f"operator code {number} does not exist", where=f"operator {index}")
    name = f"{codes[number]}_{index}"
    if codes[number] == "DENSIFY":
        return _densified(table, name, tensors)
    if codes[number] == "FAKE_QUANT":
        return _faked(table, name, tensors)
    if codes[number] in tensors.custom:
        return [_custom(table, name, tensors, tensors.custom[codes[number]])]
    if codes[number] not in TRANSLATORS:
        computed = [tensors.listed[i].name for i in operand_indices(table, OperatorField.INPUTS, name)
                    if 0 <= i < len(tensors.listed) and not tensors.listed[i].is_constant]  # fmt: skip
        raise refuse(codes[number], name, computed)
    operands = [operand_indices(table, which, name) for which in (OperatorField.INPUTS, OperatorField.OUTPUTS)]
    source = tflite_ops.Source(
        codes[number],
        name,
        table.table(OperatorField.OPTIONS) or tflite_ops.EMPTY,
        [None if i < 0 else tensors.at(i) for i in operands[0]],
        [tensors.at(i) for i in operands[1]],
    )
    if any(output in tensors.free for output in operands[1]):
        source = _resolved(source, operands[1], tensors)
    done = TRANSLATORS[source.code](source)
    for tensor in source.made:
        if tensor.name in tensors.index:
            raise ModelError(f"the name {tensor.name!r} is taken", where=name)
        tensors.add(tensor)
    for output, shape in zip(operands[1], done.shapes, strict=False):
        tensors.listed[output] = replace(tensors.at(output), shape=check_shape(shape, name))
    outputs = tuple(tensor.name for tensor in source.outputs)
    attrs = {**done.attrs, **rounding.attribute(done.kind)}
    op = Op(done.kind, name, tuple(done.inputs), outputs, attrs, (name,))
    require_operands(op)
    _check_shape(op, operands[1][0], tensors)
    if op.inputs[0] in tensors.coded and len(outputs) == 1 and (is_move(op.kind) or op.kind == "max_pool"):
        return _moved_codes(op, tensors)
    if not set(operands[1]) & set(kept) and _folded(op, operands[1], tensors):
        return []
    return [*done.before, *tflite_ops.on_codes(source.code, op, tensors.named, tensors.add)]


def _custom(table: FlatTable, name: str, tensors: _Tensors, operator: CustomOperator) -> Op:
    """C of the user. The file says shapes and formats; what it says of the options goes to the function as bytes."""
    given, made = (operand_indices(table, k, name) for k in (OperatorField.INPUTS, OperatorField.OUTPUTS))
    require_count(name, operator, len(given), len(made))
    inputs, outputs = [tensors.at(i) for i in given], [tensors.at(i) for i in made]
    for number, (tensor, one) in enumerate(zip(outputs, operator.outputs, strict=True), 1):
        if one.shape not in (None, tensor.shape):
            raise unlike(name, f"output {number} has shape {tensor.shape}, its declaration {one.shape}")
        told = Quantisation.per_tensor(one.scale, one.zero_point)
        if one.scale and tensor.quant is not None and not told.same_as(tensor.quant):
            says = f"codes of {code_format(tensor.quant)}, its declaration of {code_format(told)}"
            raise unlike(name, f"output {number} has {says}")
    options = table.array(OperatorField.CUSTOM_OPTIONS, "u1").tobytes()
    values = values_of(name, operator, lambda one: options if one.type == "bytes" else None)
    attrs = {OPERATOR: operator, VALUES: values}
    return Op("custom", name, tuple(t.name for t in inputs), tuple(t.name for t in outputs), attrs, (name,))


def _densified(table: FlatTable, name: str, tensors: _Tensors) -> list[Op]:
    """Nothing: constants are whole already."""
    given, made = (operand_indices(table, k, name) for k in (OperatorField.INPUTS, OperatorField.OUTPUTS))
    if (len(given), len(made)) != (1, 1):
        raise ModelError("DENSIFY takes one tensor and gives one", where=name)
    source, result = tensors.at(given[0]), tensors.at(made[0])
    if source.data is None or (source.shape, source.dtype) != (result.shape, result.dtype):
        raise ModelError("DENSIFY of what is no constant, or of another shape", where=name)
    tensors.listed[made[0]] = replace(result, data=source.data)
    return []


def _faked(table: FlatTable, name: str, tensors: _Tensors) -> list[Op]:
    """FAKE_QUANT of training says where the trained network has codes, and which: a constant has them from here on, any
    other value goes through them. Its range is taken as it stands."""
    given, made = (operand_indices(table, k, name) for k in (OperatorField.INPUTS, OperatorField.OUTPUTS))
    if (len(given), len(made)) != (1, 1):
        raise ModelError("FAKE_QUANT takes one tensor and gives one", where=name)
    x, y = tensors.at(given[0]), tensors.at(made[0])
    quant, (low, high) = tflite_ops.fake_format(table.table(OperatorField.OPTIONS) or tflite_ops.EMPTY, name)
    if not (x.is_float and y.is_float) or (x.data is not None and not np.isfinite(x.data).all()):
        raise ModelError(f"FAKE_QUANT of {x.dtype} that are no real numbers", where=name)
    y = tensors.listed[made[0]] = replace(y, shape=x.shape)
    if x.data is not None:
        codes = np.clip(np.rint(x.data / np.float64(quant.scales[0])) + quant.zero_points[0], low, high)
        tensors.listed[made[0]] = replace(y, dtype="int8", quant=quant, data=codes.astype(np.int8))
        return []
    coded = replace(y, name=f"{y.name}:codes", dtype="int8", quant=quant)
    tensors.add(coded)
    ops, last = [Op("quantize", name, (x.name,), (coded.name,), rounding.attribute("quantize"), (name,))], coded.name
    if (low, high) != (-128, 127):  # int8 has more codes than the training: the ends are those of the range
        first, final = ((end - coded.zero_point) * coded.scale for end in (low, high))
        last = f"{y.name}:range"
        tensors.add(replace(coded, name=last))
        ops.append(Op("clip", f"{name}:range", (coded.name,), (last,), {"low": first, "high": final}, (name,)))
    tensors.coded[y.name] = tensors.made[last]
    return [*ops, Op("dequantize", f"{name}:real", (last,), (y.name,), {}, (name,))]


def _moved_codes(op: Op, tensors: _Tensors) -> list[Op]:
    """What only moves or compares values gives codes on to whoever computes."""
    codes, y = tensors.coded[op.inputs[0]], tensors.named(op.outputs[0])
    made = tensors.coded[y.name] = replace(codes, name=f"{y.name}:codes", shape=y.shape)
    tensors.add(made)
    moved = replace(op, inputs=(codes.name, *op.inputs[1:]), outputs=(made.name,))
    return [moved, Op("dequantize", f"{op.name}:real", (made.name,), (y.name,), {}, op.origin)]


def _resolved(source: tflite_ops.Source, outputs: list[int], tensors: _Tensors) -> tflite_ops.Source:
    """Its outputs with the shapes that they get when TFLite runs it, where operands other than shapes decide: the rules
    of operators work out the others."""
    shapes = _rules[source.code](source) if source.code in _rules else ()
    for output, shape in zip(outputs, shapes, strict=False):
        tensors.mend(output, shape, source.name)
    return replace(source, outputs=[tensors.at(output) for output in outputs])


def _folded(op: Op, outputs: list[int], tensors: _Tensors) -> bool:
    """Whether its results are known by now; then they are constants."""
    inputs = [tensors.named(name) if name else None for name in op.inputs]
    found = fold_numbers(op, inputs, [tensors.at(output) for output in outputs])
    for output, data in zip(outputs, found or (), strict=False):
        tensors.listed[output] = replace(tensors.at(output), data=data.reshape(tensors.at(output).shape))
    return found is not None


def _check_shape(op: Op, output: int, tensors: _Tensors) -> None:
    """Wrong batches and placeholders are mended, other errors are reported."""
    shapes = [tensors.named(name).shape for name in op.inputs if name]
    try:
        expected = infer_shape(op.kind, op.attrs, shapes)
    except ModelError as error:
        raise ModelError(f"impossible shapes: {error}", where=op.name, rule=RULE, remedy="export it again") from error
    except (IndexError, ValueError) as error:
        what = f"{op.kind} on impossible shapes: {', '.join(map(str, shapes))}{said(error)}"
        raise ModelError(what, where=op.name, rule=RULE, remedy=REPORT) from error
    if expected is not None and expected != tensors.at(output).shape:
        tensors.mend(output, expected, op.name)


INITIALISE, HANDLE, READ, ASSIGN = VARIABLE_CODES = ("CALL_ONCE", "VAR_HANDLE", "READ_VARIABLE", "ASSIGN_VARIABLE")


@dataclass
class Variable:
    """Numbers are indices of tensors of the subgraph."""

    name: str
    read: int = -1
    assigned: int = -1


def find_variables(tables: Sequence[FlatTable], codes: Sequence[str]) -> dict[str, Variable]:
    """All variables of a subgraph by name. Each is read once at most, and before it gets its next value."""
    found, handles = dict[str, Variable](), dict[int, str]()
    for index, table in enumerate(tables):
        code = _code(table, codes)
        if code not in VARIABLE_CODES[1:]:
            continue
        where = f"{code}_{index}"
        inputs, outputs = (
            operand_indices(table, field, where) for field in (OperatorField.INPUTS, OperatorField.OUTPUTS)
        )
        _require(
            len(outputs) == (code != ASSIGN) and len(inputs) == VARIABLE_CODES.index(code) - 1, "wrong operands", where
        )
        if code == HANDLE:
            handles[outputs[0]] = _name(table)
            continue
        _require(inputs[0] in handles, "its first operand is no variable", where)
        variable = found.setdefault(handles[inputs[0]], Variable(handles[inputs[0]]))
        if code == ASSIGN:
            variable.assigned = inputs[1]
            continue
        if variable.read >= 0 or variable.assigned >= 0:
            raise UnsupportedError(
                f"variable {variable.name!r} is read again, or after it was assigned",
                where=where,
                rule="a variable is read once in a run, before it gets its next value",
                remedy="use the tensor that was read or assigned, instead of the variable",
            )
        variable.read = outputs[0]
    return found


def needed_operators(
    tables: Sequence[FlatTable],
    outputs: Sequence[int],
    variables: Collection[Variable] = (),
    starts: Collection[int] = (),
) -> list[int]:
    """The operators that these tensors depend on, from the starts on, in later runs too."""
    producers = {i: k for k, table in enumerate(tables) for i in operand_indices(table, OperatorField.OUTPUTS, str(k))}
    next_value = {variable.read: variable.assigned for variable in variables}
    waiting, chosen = list(outputs), set[int]()
    while waiting:
        tensor = waiting.pop()
        index = producers.get(tensor) if tensor not in starts else None
        if index is not None and index not in chosen:
            chosen.add(index)
            waiting += operand_indices(tables[index], OperatorField.INPUTS, str(index))
            waiting += [next_value[tensor]] if next_value.get(tensor, -1) >= 0 else []
    return sorted(chosen)


def choose_operators(
    tables: Sequence[FlatTable], codes: Sequence[str], outputs: Sequence[int], cut: bool, starts: Collection[int] = ()
) -> tuple[list[int], list[Variable]]:
    """The operators to translate: all, or where edges were chosen (`cut`, `starts`) or variables kept those that they
    depend on; and the variables that matter to them."""
    variables = find_variables(tables, codes).values()
    if not cut and not variables and not starts:
        return list(range(len(tables))), []
    chosen = needed_operators(tables, outputs, variables, starts)
    seen = {i for k in chosen for i in operand_indices(tables[k], OperatorField.OUTPUTS, str(k))}
    plain_ones = [index for index in chosen if _code(tables[index], codes) not in VARIABLE_CODES]
    return plain_ones, [variable for variable in variables if variable.read in seen]


def first_values(
    tables: Sequence[FlatTable],
    codes: Sequence[str],
    subgraphs: Sequence[FlatTable],
    tensor: Callable[[int, int], Tensor],
) -> dict[str, Array]:
    """What the graphs behind CALL_ONCE assign, by name; `tensor` gives one by subgraph and index."""
    found = dict[str, Array]()
    for index, table in enumerate(tables):
        if _code(table, codes) != INITIALISE:
            continue
        options = table.table(OperatorField.OPTIONS)
        number = options.int32(0) if options is not None else 0
        _require(0 < number < len(subgraphs), f"subgraph {number} does not exist", f"{INITIALISE}_{index}")
        inner = subgraphs[number].tables(SubgraphField.OPERATORS)
        limits.count(len(inner), limits.MAX_OPS, "operators")
        for variable in find_variables(inner, codes).values():
            value = tensor(number, variable.assigned) if variable.assigned >= 0 else None
            if value is not None and value.data is not None:
                found[variable.name] = value.data
    return found


def carried_state(variable: Variable, read: Tensor, assigned: Tensor, first: Mapping[str, Array]) -> CarriedState:
    """What has to be carried on."""
    start = first_value(variable, read, first)
    if (assigned.shape, assigned.dtype) != (read.shape, read.dtype):
        raise ModelError(
            f"variable {variable.name!r} is read as {read.dtype} {read.shape} and becomes {assigned.dtype} "
            f"{assigned.shape}",
            where=read.name,
        )
    return CarriedState(read.name, assigned.name, start)


def first_value(variable: Variable, read: Tensor, first: Mapping[str, Array]) -> Array:
    value = first.get(variable.name)
    if value is not None and value.shape == read.shape and str(value.dtype) == read.dtype:
        return value
    raise UnsupportedError(
        f"variable {variable.name!r} has no constant first value of {read.dtype} {read.shape}",
        where=read.name,
        rule="CALL_ONCE assigns a constant to every variable",
        remedy="export the model with initialised variables",
    )


def operand_indices(table: FlatTable, number: int, where: str) -> list[int]:
    values = [int(v) for v in table.array(number, "<i4")]
    if len(values) > limits.MAX_OPERANDS:
        raise ModelError(f"{count(len(values), 'operand')}", where=where)
    return values


def _code(table: FlatTable, codes: Sequence[str]) -> str:
    number = table.uint32(OperatorField.CODE)
    return codes[number] if number < len(codes) else ""


def _name(handle: FlatTable) -> str:
    """Variables are told apart by container and name."""
    options = handle.table(OperatorField.OPTIONS)
    return "/".join(plain(options.text(k)[: limits.MAX_NAME]) for k in (0, 1)) if options is not None else ""


def _require(holds: bool, what: str, where: str) -> None:
    if not holds:
        raise ModelError(what, where=where)


Shape = tuple[int, ...]
Rule = Callable[[Source], Sequence[Shape]]

FREE = -1
WHOLE = ("int32", "int64", "bool")
MOST_NUMBERS = 1 << 12  # of a constant that follows from shapes


def fold_numbers(op: Op, inputs: Sequence[Tensor | None], outputs: Sequence[Tensor]) -> list[Array] | None:
    """The results of an operator on whole numbers that are known; None where something is not."""
    if any(t.dtype not in WHOLE or t.quant is not None or t.elements > MOST_NUMBERS for t in outputs):
        return None
    if op.kind == "shape" and inputs[0] is not None:
        return [np.array(inputs[0].shape, outputs[0].dtype)]
    known = [tensor for tensor in inputs if tensor is not None]
    if any(t.data is None or t.dtype not in WHOLE or t.quant is not None for t in known):
        return None
    graph = Graph({t.name: t for t in (*known, *outputs)}, (op,), (), tuple(t.name for t in outputs))
    results = run_op(graph, op, {t.name: t.data for t in known if t.data is not None})
    return [np.ascontiguousarray(r.codes.astype(t.dtype)) for r, t in zip(results, outputs, strict=True)]


# ---------------------------------------------------------------------------------------------------- by operator


def _without(shape: Shape, axis: int) -> Shape:
    return (*shape[:axis], *shape[axis + 1 :])


def _index_shape(source: Source) -> Sequence[Shape]:
    x = source.input(0)
    return [_without(x.shape, source.axis(source.integers(1, "an axis that is")[0], x))]


def _expand_dims(source: Source) -> Sequence[Shape]:
    shape = source.input(0).shape
    axis = axis_of(source.integers(1, "an axis that is")[0], len(shape) + 1, source.name)
    return [(*shape[:axis], 1, *shape[axis:])]


_rules: dict[str, Rule] = {
    "EXPAND_DIMS": _expand_dims,
    "BROADCAST_TO": lambda source: [tuple(source.integers(1, "a shape that is"))],
    "FILL": lambda source: [tuple(source.integers(0, "a shape that is"))],
    "TRANSPOSE_CONV": lambda source: [tuple(source.integers(0, "a shape that is"))],
    "ARG_MAX": _index_shape,
    "ARG_MIN": _index_shape,
    "UNPACK": lambda source: (
        [_without(source.input(0).shape, source.axis(source.options.int32(1), source.input(0)))] * len(source.outputs)
    ),
}


@filed(_rules, "RESHAPE")
def _reshape(source: Source) -> Sequence[Shape]:
    elements = source.input(0).elements
    if len(source.inputs) > 1 and source.inputs[1] is not None:
        wanted = source.integers(1, "a shape that is")
    else:
        wanted = [int(size) for size in source.options.array(0, "<i4")]
    rest = prod(size for size in wanted if size != FREE)
    if wanted.count(FREE) > 1 or min(wanted, default=0) < FREE or (FREE in wanted and (not rest or elements % rest)):
        raise ModelError(f"{source.input(0).shape} cannot become {tuple(wanted)}", where=source.name)
    return [tuple(elements // rest if size == FREE else size for size in wanted)]


@filed(_rules, "SQUEEZE")
def _squeeze(source: Source) -> Sequence[Shape]:
    shape = source.input(0).shape
    axes = [axis_of(int(a), len(shape), source.name) for a in source.options.array(0, "<i4")]
    gone = axes or [k for k, size in enumerate(shape) if size == 1]
    return [tuple(size for k, size in enumerate(shape) if k not in gone)]


@filed(_rules, "FULLY_CONNECTED")
def _dense(source: Source) -> Sequence[Shape]:
    x, weights = source.input(0), source.input(1)
    if len(weights.shape) != 2 or not weights.shape[1] or x.elements % weights.shape[1]:
        raise ModelError(f"{x.shape} does not fit weights {weights.shape}", where=source.name)
    if source.options.uint8(2):  # as many dimensions as the input has
        return [(*x.shape[:-1], weights.shape[0])]
    return [(x.elements // weights.shape[1], weights.shape[0])]


@filed(_rules, "CONV_2D", "DEPTHWISE_CONV_2D", "MAX_POOL_2D", "AVERAGE_POOL_2D")
def _windows(source: Source) -> Sequence[Shape]:
    """Batch, height and width; the channels are those of the weights, which are no placeholder."""
    x, y, options = source.input(0).shape, source.output().shape, source.options
    if len(x) != 4 or len(y) != 4:
        raise ModelError(f"{source.code} of shape {x}", where=source.name)
    if source.code.endswith("CONV_2D"):
        first = 4 if source.code == "CONV_2D" else 5
        spread = (options.int32(first + 1, 1), options.int32(first, 1))
        kernel = source.input(1).shape[1:3]
        channels = y[3]
    else:
        spread, kernel, channels = (1, 1), (options.int32(4), options.int32(3)), x[3]
    steps = (options.int32(2), options.int32(1))
    if min(*steps, *spread, *kernel) < 1:
        raise ModelError(f"{source.code} with stride {steps} and window {kernel}", where=source.name)
    reach = [0 if options.int8(0) == 0 else (k - 1) * d for k, d in zip(kernel, spread, strict=True)]
    sizes = [-(-(size - r) // step) for size, r, step in zip(x[1:3], reach, steps, strict=True)]
    return [(x[0], sizes[0], sizes[1], channels)]


@filed(_rules, "RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR")
def _resize(source: Source) -> Sequence[Shape]:
    x, size = source.input(0).shape, source.integers(1, "a size that is")
    if len(x) != 4 or len(size) != 2:
        raise ModelError(f"{source.code} of shape {x} to {size}", where=source.name)
    return [(x[0], *size, x[3])]


@filed(_rules, "TILE")
def _tile(source: Source) -> Sequence[Shape]:
    x, times = source.input(0).shape, source.integers(1, "multiples that are")
    if len(times) != len(x):
        raise ModelError(f"TILE of shape {x} by {times}", where=source.name)
    return [tuple(size * count for size, count in zip(x, times, strict=True))]


@filed(_rules, "SPLIT")
def _split(source: Source) -> Sequence[Shape]:
    x, parts = source.input(1).shape, len(source.outputs)
    axis = axis_of(source.integers(0, "an axis that is")[0], len(x), source.name)
    if not parts or x[axis] % parts:
        raise ModelError(f"{x} cannot be cut into {parts} along axis {axis}", where=source.name)
    return [(*x[:axis], x[axis] // parts, *x[axis + 1 :])] * parts


@filed(_rules, "RANGE")
def _range(source: Source) -> Sequence[Shape]:
    first, end, step = (source.constant(k, "bounds that are").reshape(-1)[0] for k in range(3))
    if not step:
        raise UnsupportedError("RANGE with step 0", where=source.name)
    return [(max(0, int(np.ceil((end - first) / step))),)]
