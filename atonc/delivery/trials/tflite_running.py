"""A file of `--layout tflite` on this machine: its custom operators on the virtual board, where our loader installs the
image that they hold; everything else with LiteRT, in a process of its own, since odd models make it abort."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np

from atonc.compiler.compare.reference import kernel_sets
from atonc.compiler.compare.reference_process import ReferenceProcess
from atonc.compiler.frontends import limits
from atonc.compiler.frontends.read import in_file
from atonc.compiler.frontends.tflite_file import (
    FlatTable,
    ModelField,
    OperatorField,
    QuantField,
    SubgraphField,
    TensorField,
    root,
)
from atonc.compiler.ir import Array
from atonc.delivery.layouts import tflite_model
from atonc.delivery.layouts.tflite_model import OperatorRow, TfliteModel, read_model, require_intact
from atonc.delivery.trials import loading
from atonc.delivery.trials.loading import LoaderRig, buffer_info
from atonc.delivery.trials.npu_operator import install
from atonc.insight.runs.runs import EdgeBuffers
from atonc.machine.base.errors import AtoncError, InputError, ModelError, ToolError
from atonc.machine.base.frozen import dataclass
from atonc.machine.base.progress import stage
from atonc.machine.emu import tensors
from atonc.machine.emu.bus import AddressSpace
from atonc.machine.emu.files.types import BufferInfo

Values = dict[int, Array]  # by tensor
_AGAIN = "generate the file again from the model that it was made from"
_KINDS = {"float32": "FLOAT", "float64": "DOUBLE"}


@dataclass(frozen=True)
class Piece:
    """Operators that run together: one of ours, or some that follow each other and are not."""

    operators: tuple[int, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    on_npu: bool


def pieces(model: TfliteModel) -> list[Piece]:
    """In the order of the file; what a piece gives is what later ones or the outputs of the model read."""
    groups: list[tuple[bool, list[int]]] = []
    for index, row in enumerate(model.operators):
        if row.on_npu or not groups or groups[-1][0]:
            groups.append((row.on_npu, []))
        groups[-1][1].append(index)
    made = {tensor for row in model.operators for tensor in row.outputs} | set(model.inputs)
    found = list[Piece]()
    for number, (on_npu, operators) in enumerate(groups):
        rows = [model.operators[k] for k in operators]
        own = dict.fromkeys(tensor for row in rows for tensor in row.outputs)
        read = dict.fromkeys(tensor for row in rows for tensor in row.inputs if tensor in made and tensor not in own)
        later = [model.operators[k] for _, others in groups[number + 1 :] for k in others]
        wanted = {tensor for row in later for tensor in row.inputs} | set(model.outputs)
        if on_npu:  # its operands are the network's, one for one
            found.append(Piece(tuple(operators), rows[0].inputs, rows[0].outputs, True))
        else:
            found.append(Piece(tuple(operators), tuple(read), tuple(k for k in own if k in wanted), False))
    return found


class TfliteRunner(AbstractContextManager["TfliteRunner"]):
    """A file that is ready to run again and again; use it with `with`."""

    def __init__(self, file: Path) -> None:
        try:
            data = limits.model_bytes(file)
            require_intact(data)
            self.model = read_model(data)
            self.pieces = pieces(self.model)
            self._require(file)
        except AtoncError as error:
            raise in_file(file, error) from error.__cause__
        self.file, self._folder = file, tempfile.TemporaryDirectory(prefix="atonc_")
        self._rigs = dict[int, LoaderRig]()
        self._litert: ReferenceProcess | None = None
        try:
            self._prepare()
        except AtoncError as error:
            self.close()
            raise in_file(file, error) from error.__cause__
        except BaseException:
            self.close()
            raise

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._litert is not None:
            self._litert.close()
        self._folder.cleanup()

    @property
    def edges(self) -> EdgeBuffers:
        """Its inputs, as data for them are made or read."""
        inner = [info for rig in self._rigs.values() for info in loading.told(rig.said).inputs.internals]
        return EdgeBuffers(tuple(self._infos), tuple(inner))

    def run(self, inputs: Mapping[str, Any]) -> dict[str, Array]:
        """Outputs by name; inputs by name, as codes or as real numbers."""
        strange = sorted(set(inputs) - {info.name for info in self._infos})
        missing = [info.name for info in self._infos if info.name not in inputs]
        if strange or missing:
            raise InputError(
                f"the model has no input {strange[0][:100]!r}" if strange else f"no values for {', '.join(missing)}",
                where=str(self.file),
                rule=f"its inputs: {', '.join(info.name for info in self._infos)}",
            )
        values = {
            tensor: self._stored(tensor, info, inputs[info.name])
            for tensor, info in zip(self.model.inputs, self._infos, strict=True)
        }
        for number, piece in enumerate(self.pieces):
            stage("running", number, len(self.pieces))
            given = [values[tensor] for tensor in piece.inputs]
            try:
                found = self._on_npu(number, piece, given) if piece.on_npu else self._beside(number, piece, given)
                values.update(zip(piece.outputs, found, strict=True))
            except AtoncError as error:
                raise self._of_piece(error, number) from error
        return {self.model.names[tensor]: values[tensor] for tensor in self.model.outputs}

    def _require(self, file: Path) -> None:
        """Every tensor is there when it is read; types are those that can be given."""
        model = self.model
        known = set(model.inputs)
        for piece in self.pieces:
            for tensor in piece.inputs:
                if tensor not in known:
                    raise ModelError("is read before anything makes it", where=_name(model, tensor))
            known |= set(piece.outputs)
        for tensor in (*model.inputs, *model.outputs):
            if tensor not in known or not model.types[tensor]:
                raise ModelError("an output without a producer, or of an unknown type", where=_name(model, tensor))
        for row in model.operators:
            for tensor in (*row.inputs, *row.outputs) if row.on_npu else ():
                if tensor < 0 or not model.types[tensor]:
                    raise ModelError("an operand of unknown type", where=_name(model, tensor))
        graph = root(model.data, b"TFL3").tables(ModelField.SUBGRAPHS)[0].tables(SubgraphField.TENSORS)
        self._infos = [_info(model, tensor, graph[tensor]) for tensor in model.inputs]

    def _prepare(self) -> None:
        for number, piece in enumerate(self.pieces):
            if piece.on_npu:
                self._install(number, self.model.operators[piece.operators[0]])
            elif piece.outputs:
                content = tflite_model.part(self.model, piece.operators, piece.inputs, piece.outputs)
                self._part(number).write_bytes(content)
        if any(not piece.on_npu for piece in self.pieces):
            self._litert = ReferenceProcess()

    def _of_piece(self, error: AtoncError, number: int) -> AtoncError:
        """The error, of the user's file: nobody else knows the pieces of it."""
        piece = self.pieces[number]
        kind = f"{tflite_model.CODE}, operator" if piece.on_npu else "operators from"
        what = error.what.replace(f"{self._folder.name}{os.sep}", "")
        if isinstance(error, ToolError):
            return ToolError(what, where=str(self.file), rule=error.rule, remedy=error.remedy)
        return ModelError(what, where=f"{self.file.name}, {kind} {piece.operators[0]}", rule=error.rule, remedy=_AGAIN)

    def _part(self, number: int) -> Path:
        return Path(self._folder.name, f"part_{number}.tflite")

    def _install(self, number: int, row: OperatorRow) -> None:
        where = f"{tflite_model.CODE}, operator {number}"
        data = row.table.array(OperatorField.CUSTOM_OPTIONS, "u1").tobytes()
        rig = install(data, where, _AGAIN)
        for tensors_, buffers in ((row.inputs, rig.inputs.get(0, [])), (row.outputs, rig.outputs.get(0, []))):
            sizes = [self._bytes(tensor) for tensor in tensors_]
            if sizes != [buffer.size_bytes for buffer in buffers]:
                raise ModelError("its operands have other sizes than its image's buffers", where=where)
        self._rigs[number] = rig

    def _bytes(self, tensor: int) -> int:
        return int(np.prod(self.model.shapes[tensor], dtype=np.int64)) * np.dtype(self.model.types[tensor]).itemsize

    def _stored(self, tensor: int, info: BufferInfo, value: Any) -> Array:
        memory = AddressSpace()
        memory.add(info.name, 0, max(1, info.size_bytes))
        tensors.write_input(info, np.asarray(value), memory)
        return self._shaped(tensor, memory.read(0, info.size_bytes))

    def _shaped(self, tensor: int, content: Any) -> Array:
        return np.frombuffer(content.tobytes(), self.model.types[tensor]).reshape(self.model.shapes[tensor])

    def _on_npu(self, number: int, piece: Piece, given: Sequence[Array]) -> Iterator[Array]:
        stored = [np.frombuffer(np.ascontiguousarray(value).tobytes(), np.uint8) for value in given]
        found = self._rigs[number].run(stored).outputs
        return (self._shaped(tensor, output) for tensor, output in zip(piece.outputs, found, strict=True))

    def _beside(self, number: int, piece: Piece, given: Sequence[Array]) -> Iterator[Array]:
        if not piece.outputs:
            return iter(())
        part = self._part(number)
        sets, wrong = kernel_sets(part)
        if not sets:
            raise ToolError(wrong, where=str(self.file))
        assert self._litert is not None
        found = self._litert.run(part, given, sets[0])
        if len(found) != len(piece.outputs):
            raise ModelError(f"LiteRT gives {len(found)} outputs of {len(piece.outputs)}", where=str(self.file))
        return iter(found.values())


def _name(model: TfliteModel, tensor: int) -> str:
    return model.names[tensor] if tensor >= 0 else "an operand that is left out"


def _info(model: TfliteModel, tensor: int, table: FlatTable) -> BufferInfo:
    kind = model.types[tensor]
    quant = table.table(TensorField.QUANTISATION)
    scales = quant.array(QuantField.SCALE, "<f4").tolist() if quant is not None else []
    zeros = quant.array(QuantField.ZERO_POINT, "<i8").tolist() if quant is not None else []
    known = (float(scales[0]),) if len(scales) == 1 else ()
    bits = 8 * np.dtype(kind).itemsize
    shape = model.shapes[tensor]
    limits.count(
        int(np.prod(shape, dtype=np.float64)) * bits // 8, limits.MAX_TOTAL_CONSTANT_BYTES, "bytes of an input"
    )
    return buffer_info(
        model.names[tensor],
        shape,
        "Last",
        _KINDS.get(kind, kind.upper()),
        bits,
        (known, int(zeros[0]) if zeros else 0, 0),
    )
