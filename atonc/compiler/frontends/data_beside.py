"""ONNX models whose constants lie in files beside them, as PyTorch's exporter writes them by default.

Such a file is read only if the model names it relative to its own folder and it lies there; symbolic links do not lead
out of it. The model then goes on as if all had been one file.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

from atonc.compiler.frontends import limits
from atonc.machine.base.disk import read_file
from atonc.machine.base.errors import InputError, ModelError

MOST_NAME = 1024  # characters
EXTERNAL = 1  # TensorProto.data_location
_KEY = b"location"  # every constant that lies elsewhere has it


def model_bytes(path: Path) -> bytes:
    """The model as one file, with the constants that lie beside it."""
    data = limits.read_bytes(path)
    model = _parsed(data) if _KEY in data else None
    if model is None or not any(stored_beside(model)):
        return data
    files: dict[str, bytes] = {}
    for constant in stored_beside(model):
        said = {entry.key: entry.value for entry in constant.external_data}
        place = said.get("location", "")
        if place not in files:
            left = limits.MAX_FILE_BYTES - len(data) - sum(map(len, files.values()))
            files[place] = read_file(_inside(path, place), max(left, 0))
        content = _part(files[place], said, constant.name)
        constant.ClearField("external_data")
        constant.ClearField("data_location")
        constant.raw_data = content
    return bytes(model.SerializeToString(deterministic=True))


def data_files(path: Path) -> tuple[Path, ...]:
    """Files beside a model that hold its constants, in the order of their names."""
    data = limits.read_bytes(path) if path.suffix.lower() == ".onnx" else b""
    model = _parsed(data) if _KEY in data else None
    if model is None:
        return ()
    places = {e.value for constant in stored_beside(model) for e in constant.external_data if e.key == "location"}
    return tuple(_inside(path, place) for place in sorted(places))


def _parsed(data: bytes) -> Any:
    """None where it is no ONNX file, or the package is not there: the front end says so."""
    try:
        import onnx
        from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
    except ImportError:
        return None
    try:
        return onnx.ModelProto.FromString(data)
    except (DecodeError, ValueError, RuntimeError):
        return None


def stored_beside(model: Any) -> Iterator[Any]:
    for constant in model.graph.initializer:
        if constant.data_location == EXTERNAL or constant.external_data:
            yield constant
    for node in model.graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t") and attribute.t.data_location == EXTERNAL:
                yield attribute.t


def _inside(model: Path, place: str) -> Path:
    """The file that a model names, if it lies in the model's own folder or below."""
    absolute = PurePosixPath(place).is_absolute() or PureWindowsPath(place).drive or PureWindowsPath(place).root
    folder = model.resolve().parent
    usable = 0 < len(place) <= MOST_NAME and "\0" not in place and not absolute
    if not usable or not (file := (folder / place).resolve()).is_relative_to(folder):
        raise ModelError(
            f"its constants lie in {place[:200]!r}, which is not in its folder",
            where=str(model),
            rule="files beside a model are read by a relative name, from its own folder only",
            remedy="put the file beside the model, or save both as one: onnx.save(onnx.load(path), new_path)",
        )
    if not os.path.isfile(file):  # also where a part of the name is longer than the file system takes
        raise InputError(
            f"its constants lie in {place[:200]!r}, which is not there",
            where=str(model),
            remedy="copy both files to the same folder (torch.onnx.export writes model.onnx and model.onnx.data)",
        )
    return file


def _part(content: bytes, said: dict[str, str], name: str) -> bytes:
    offset, length = _number(said, "offset", 0, name), _number(said, "length", -1, name)
    end = len(content) if length < 0 else offset + length
    if not 0 <= offset <= end <= len(content):
        raise ModelError(
            f"its values are bytes {offset:,} to {end:,} of a file of {len(content):,}", where=name[:200],
            remedy="the file beside the model is cut off or of another model: export both again",
        )  # fmt: skip
    return content[offset:end]


def _number(said: dict[str, str], key: str, missing: int, name: str) -> int:
    text = said.get(key, "")
    if not text:
        return missing
    if not text.isascii() or not text.isdigit() or len(text) > 15:
        raise ModelError(f"{key} {text[:40]!r} of its values is no number of bytes", where=name[:200])
    return int(text)
