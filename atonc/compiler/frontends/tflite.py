"""TFLite (int8, uint8, float islands) -> Graph. Old uint8 models keep their type; passes may shift them later."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np

from atonc.compiler.frontends import (
    flatbuffer,
    limits,
    tflite_formats,
    tflite_moves,
    tflite_ops,
    tflite_recurrent,
    tflite_shapes,
    tflite_sparse,
    tflite_variables,
)
from atonc.compiler.frontends.flatbuffer import FlatTable
from atonc.compiler.frontends.operands import check_operands, check_work, require_operands
from atonc.compiler.frontends.refusals import refuse
from atonc.compiler.frontends.tflite_schema import (
    ELEMENT_TYPES,
    OPERATORS,
    OTHER_TYPES,
    BufferField,
    CodeField,
    ModelField,
    OperatorField,
    QuantField,
    SubgraphField,
    TensorField,
)
from atonc.compiler.ir import Array, Graph, Op, Quantisation, Tensor, check
from atonc.compiler.ops import rounding
from atonc.compiler.ops.agreement import REPORT, RULE, said
from atonc.compiler.ops.shapes import infer_shape
from atonc.machine.base.errors import InputError, ModelError, UnsupportedError, plain
from atonc.machine.base.words import instead

TRANSLATORS = tflite_ops.TRANSLATORS
_REGISTERED = (tflite_ops, tflite_moves, tflite_recurrent)


def read_tflite(data: bytes, name: str = "", cut_outputs: Sequence[str] = ()) -> Graph:
    """The first subgraph of the file; anything damaged is a ModelError."""
    model = flatbuffer.root(data, b"TFL3")
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
    if cut_outputs:
        edges[1] = _cuts(cut_outputs, tensors, _results(tables, codes))
    chosen, variables = tflite_variables.choose(tables, codes, edges[1], bool(cut_outputs))
    first = _first_values(data, model, codes) if variables else {}
    _carry(variables, first, tensors, edges)
    ops = [op for index in chosen for op in _operator(index, tables[index], codes, tensors, edges[1])]
    states = tuple(
        tflite_variables.state(v, tensors.at(v.read), tensors.at(v.assigned), first)
        for v in variables
        if v.assigned >= 0
    )
    inputs, outputs = ([tensors.at(i).name for i in indices] for indices in edges)
    used = {t for op in ops for t in (*op.inputs, *op.outputs)} | set(inputs) | set(outputs)
    kept = {tensor.name: tensor for tensor in tensors.all() if tensor.name in used}
    notes = [f"{op.name} {tflite_recurrent.STATE_NOTE}" for op in ops if op.kind == "lstm"]
    notes += [tflite_variables.note(state) for state in states]
    inputs, outputs = list(dict.fromkeys(inputs)), list(dict.fromkeys(outputs))
    graph = Graph(kept, tuple(ops), tuple(inputs), tuple(outputs), name, "tflite", notes=tuple(notes), states=states)
    return check_work(check_operands(check(graph)))


def _first_values(data: bytes, model: FlatTable, codes: list[str]) -> dict[str, Array]:
    """Reads the first values of variables, by name."""
    buffers, subgraphs = model.tables(ModelField.BUFFERS), model.tables(ModelField.SUBGRAPHS)
    read = cache(lambda number: _Tensors(data, buffers, subgraphs[number]))
    tables = subgraphs[0].tables(SubgraphField.OPERATORS)
    return tflite_variables.first_values(tables, codes, subgraphs, lambda number, index: read(number).at(index))


def _carry(
    variables: Sequence[tflite_variables.Variable],
    first: Mapping[str, Array],
    tensors: _Tensors,
    edges: list[list[int]],
) -> None:
    """Variables are inputs and outputs; constants where nobody assigns to them."""
    for variable in variables:
        if variable.assigned >= 0:
            edges[0].append(variable.read)
            edges[1].append(variable.assigned)
        else:
            read = tensors.at(variable.read)
            tensors.listed[variable.read] = replace(read, data=tflite_variables.first_value(variable, read, first))


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

    def at(self, index: int) -> Tensor:
        if not 0 <= index < len(self.listed):
            raise ModelError(f"tensor {index} does not exist, the file has {len(self.listed)}")
        if index in self.unreadable:
            raise UnsupportedError(f"{self.unreadable[index]} is not supported", where=self.listed[index].name)
        return self.listed[index]

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
        shape = limits.shape(tuple(int(d) for d in table.array(TensorField.SHAPE, "<i4")), name)
        data = self._constant(table.uint32(TensorField.BUFFER), dtype, shape, name, table.table(TensorField.SPARSITY))
        if free := tflite_shapes.free_axes(table):
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
            return tflite_sparse.dense(raw.view(item.newbyteorder("<")).astype(item), sparsity, shape, name)
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
    for name in names:
        if name not in tensors.index and name not in results:
            what = f"the model has no tensor {name[:100]!r} to cut at"
            raise InputError(what, where="--cut-output-tensors", remedy=instead(name, [*tensors.index, *results]))
        found += [tensors.index[name]] if name in tensors.index else results[name]
    return list(dict.fromkeys(found))


def _results(tables: Sequence[FlatTable], codes: list[str]) -> dict[str, list[int]]:
    """Operator -> indices of the tensors that it gives; operators have no names in the file, so they get numbers."""
    numbers = [table.uint32(OperatorField.CODE) for table in tables]
    return {
        f"{codes[number]}_{index}": tflite_variables.operands(tables[index], OperatorField.OUTPUTS, str(index))
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
    if codes[number] not in TRANSLATORS:
        computed = [tensors.listed[i].name for i in tflite_variables.operands(table, OperatorField.INPUTS, name)
                    if 0 <= i < len(tensors.listed) and not tensors.listed[i].is_constant]  # fmt: skip
        raise refuse(codes[number], name, computed)
    operands = [
        tflite_variables.operands(table, which, name) for which in (OperatorField.INPUTS, OperatorField.OUTPUTS)
    ]
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
        tensors.listed[output] = replace(tensors.at(output), shape=limits.shape(shape, name))
    outputs = tuple(tensor.name for tensor in source.outputs)
    attrs = {**done.attrs, **rounding.attribute(done.kind)}
    op = Op(done.kind, name, tuple(done.inputs), outputs, attrs, (name,))
    require_operands(op)
    _check_shape(op, operands[1][0], tensors)
    if not set(operands[1]) & set(kept) and _folded(op, operands[1], tensors):
        return []
    return [*done.before, *tflite_formats.on_codes(source.code, op, tensors.named, tensors.add)]


def _densified(table: FlatTable, name: str, tensors: _Tensors) -> list[Op]:
    """Nothing: constants are whole already."""
    given, made = (tflite_variables.operands(table, k, name) for k in (OperatorField.INPUTS, OperatorField.OUTPUTS))
    if (len(given), len(made)) != (1, 1):
        raise ModelError("DENSIFY takes one tensor and gives one", where=name)
    source, result = tensors.at(given[0]), tensors.at(made[0])
    if source.data is None or (source.shape, source.dtype) != (result.shape, result.dtype):
        raise ModelError("DENSIFY of what is no constant, or of another shape", where=name)
    tensors.listed[made[0]] = replace(result, data=source.data)
    return []


def _resolved(source: tflite_ops.Source, outputs: list[int], tensors: _Tensors) -> tflite_ops.Source:
    """Its outputs with the shapes that they get when TFLite runs it."""
    shapes = tflite_shapes.computed_shapes(source)
    for output, shape in zip(outputs, shapes, strict=False):
        if not tflite_shapes.same_but_free(tensors.at(output).shape, shape, tensors.free.get(output, frozenset())):
            declared = tensors.at(output).shape
            raise ModelError(f"result has shape {declared}, the operator computes {shape}", where=source.name)
        tensors.listed[output] = replace(tensors.at(output), shape=limits.shape(shape, source.name))
    return tflite_shapes.with_shapes(source, shapes)


def _folded(op: Op, outputs: list[int], tensors: _Tensors) -> bool:
    """Whether its results are known by now; then they are constants."""
    inputs = [tensors.named(name) if name else None for name in op.inputs]
    found = tflite_shapes.fold_numbers(op, inputs, [tensors.at(output) for output in outputs])
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
    declared = tensors.at(output).shape
    if expected is None or expected == declared:
        return
    if not tflite_shapes.same_but_free(declared, expected, tensors.free.get(output, frozenset())):
        raise ModelError(f"result has shape {declared}, the operator computes {expected}", where=op.name)
    tensors.listed[output] = replace(tensors.at(output), shape=limits.shape(expected, op.name))
