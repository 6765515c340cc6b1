"""What Python users hand over as a model or as data. Everything below reads files, so what is in memory becomes one in
a folder of its own, for as long as it is read."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from os import PathLike, sep
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, TypeAlias

from atonc.doors.python.compilation import Compilation
from atonc.machine.base.errors import AtoncError, InputError

if TYPE_CHECKING:
    from onnx import ModelProto

    from atonc.compiler.ir import Array
    from atonc.insight.quantizing.types import Quantised

    Model: TypeAlias = str | PathLike[str] | bytes | ModelProto | Quantised
    Data: TypeAlias = str | PathLike[str] | Mapping[str, Array]

_UNNAMED = "model"
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]+")  # a model's name is no path
_MOST_NAME = 48


@contextmanager
def model_file(model: Model) -> Iterator[Path]:
    if isinstance(model, str | PathLike):
        yield Path(model)
        return
    name, content = _content(model)
    with _kept(name, content) as file:
        yield file


@contextmanager
def build(side: Model | Compilation) -> Iterator[Path]:
    """A folder of a build, or a model; a compilation is written down first."""
    if not isinstance(side, Compilation):
        with model_file(side) as place:
            yield place
        return
    with TemporaryDirectory() as work:
        side.save(Path(work) / "build")
        yield Path(work) / "build"


@contextmanager
def data_file(data: Data) -> Iterator[Path]:
    """Samples: a file or folder, or arrays by name."""
    if isinstance(data, str | PathLike):
        yield Path(data)
        return
    if not isinstance(data, Mapping):
        raise InputError(
            f"data cannot be of type {type(data).__name__}",
            rule="data is the path of a file or folder, or a dictionary of arrays, samples first",
            remedy="give a dictionary with the names of the inputs",
        )
    from atonc.insight.runs.runs import npz

    with _kept("data.npz", npz(data)) as file:
        yield file


@contextmanager
def data_files(data: Data | None) -> Iterator[tuple[Path, ...]]:
    """The same where there may be none."""
    if data is None:
        yield ()
        return
    with data_file(data) as file:
        yield (file,)


@contextmanager
def _kept(name: str, content: bytes) -> Iterator[Path]:
    with TemporaryDirectory() as folder:
        file = Path(folder) / name
        file.write_bytes(content)
        try:
            yield file
        except AtoncError as error:
            error.where = error.where.replace(f"{folder}{sep}", "")  # users know nothing of this folder
            raise


def _content(model: Any) -> tuple[str, bytes]:
    """A name for the file, and what is in it."""
    from atonc.compiler.frontends.read import is_tflite
    from atonc.insight.quantizing.types import Quantised

    if isinstance(model, bytes):
        return f"{_UNNAMED}.{'tflite' if is_tflite(Path(_UNNAMED), model) else 'onnx'}", model
    if isinstance(model, Quantised):
        return f"{_plain(Path(model.source).stem)}_int8.onnx", model.model
    if "onnx" in sys.modules and isinstance(model, sys.modules["onnx"].ModelProto):
        return f"{_plain(model.graph.name)}.onnx", _serialised(model)
    raise InputError(
        f"a model cannot be of type {type(model).__name__}",
        rule="a model is the path of a .tflite or .onnx file, its bytes, an onnx.ModelProto, or what atonc.quantize "
        "gives",
        remedy="export it as TFLite or ONNX first",
    )


def _serialised(model: Any) -> bytes:
    from atonc.compiler.frontends.limits import MAX_FILE_BYTES, stored_beside

    if any(stored_beside(model)):
        raise InputError(
            "constants of the onnx.ModelProto lie in files beside the model",
            remedy="give the path of the model, or onnx.load it with load_external_data=True",
        )
    if model.ByteSize() > MAX_FILE_BYTES:  # protobuf itself fails at 2 GiB, with words of its own
        raise InputError(f"the model has {model.ByteSize():,} bytes", rule=f"at most {MAX_FILE_BYTES:,} are read")
    return bytes(model.SerializeToString(deterministic=True))


def _plain(name: str) -> str:
    return _NOT_IN_NAMES.sub("_", name).strip("_")[:_MOST_NAME] or _UNNAMED
