"""A model file of any kind that we know -> Graph."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from atonc.compiler.frontends.custom_file import read_custom
from atonc.compiler.frontends.limits import advise, model_bytes, require_names
from atonc.compiler.ir import Graph
from atonc.compiler.ops.custom import notes, require_declared
from atonc.compiler.ops.elementwise import divisor_notes
from atonc.machine.base.errors import AtoncError, InputError, UnsupportedError
from atonc.machine.base.user_c import CustomOperator

TFLITE_MARK = b"TFL3"
FOREIGN = {
    ".h5": "Keras", ".keras": "Keras", ".pb": "TensorFlow", ".pt": "PyTorch", ".pth": "PyTorch", ".pt2": "PyTorch",
    ".pte": "ExecuTorch", ".mlmodel": "Core ML", ".xml": "OpenVINO",
}  # fmt: skip
_FIXES = {
    ".pt2": "quantise it first: atonc quantize MODEL.pt2 --data SAMPLES",
    ".pte": "export the module it was made from as ONNX; atonc explain and atonc run take a .pte with our delegates",
}
ST_INTERMEDIATE = re.compile(r"_OE_\d+_\d+_\d+$")


def read(
    path: Path,
    cut_outputs: Sequence[str] = (),
    fixed_shapes: Mapping[str, Any] | None = None,
    cut_inputs: Sequence[str] = (),
    custom: str = "",
) -> Graph:
    """Reads TFLite and ONNX. `cut_outputs` names tensors to stop at: what comes after them need not be supported; nor,
    in TFLite and where ONNX transforms sound, what comes before `cut_inputs`. `custom`: the file that declares C
    operators of the user."""
    kind = path.suffix.lower()
    if kind in FOREIGN:
        remedy = _FIXES.get(kind, "export the quantised model as TFLite or ONNX")
        raise UnsupportedError(f"{FOREIGN[kind]} models are not read", where=str(path), remedy=remedy)
    declared = read_custom(custom)
    try:
        graph = _read(path, model_bytes(path), (cut_outputs, cut_inputs), fixed_shapes or {}, declared)
        if not graph.outputs:
            raise InputError("the model has no output", remedy="export it with the tensors that you need as outputs")
        return replace(require_declared(graph), notes=(*graph.notes, *divisor_notes(graph), *notes(graph, declared)))
    except AtoncError as error:
        if isinstance(error, UnsupportedError):
            advise(error)
        raise in_file(path, error) from error.__cause__


def in_file(path: Path, error: AtoncError) -> AtoncError:
    """The error, which says in which file it is, unless it is of another one."""
    other = Path(error.where.partition(", ")[0])
    if path.name not in error.where and not (error.where and other.suffix and os.path.lexists(other)):
        inside = "" if error.where == path.stem else error.where
        error.where = ", ".join(filter(None, (path.name, inside)))
    return error


def _read(
    path: Path,
    data: bytes,
    cuts: tuple[Sequence[str], Sequence[str]],
    fixed_shapes: Mapping[str, Any],
    custom: Mapping[str, CustomOperator],
) -> Graph:
    if is_tflite(path, data):
        from atonc.compiler.frontends.tflite import read_tflite

        graph = read_tflite(data, path.stem, *cuts, custom)
        return replace(graph, notes=(*graph.notes, *require_names(fixed_shapes, ())))
    from atonc.compiler.frontends.onnx_qdq import read_onnx

    graph = read_onnx(data, path.stem, cuts[0], fixed_shapes, custom, cuts[1])
    return replace(graph, notes=(*graph.notes, *_notes(path.stem)))


def is_tflite(path: Path, data: bytes) -> bool:
    """Whether a file is TFLite: by its content, damaged files by their name."""
    return data[4:8] == TFLITE_MARK or path.suffix.lower() == ".tflite"


def _notes(stem: str) -> list[str]:
    if not ST_INTERMEDIATE.search(stem):
        return []
    return [
        f"{stem}.onnx looks like an intermediate file of ST's tool (_OE_): its layers were rewritten already, "
        "the original model usually compiles to fewer epochs"
    ]
