"""Models and samples that visitors send: counted while they come in, kept under names of ours."""

from __future__ import annotations

import asyncio
import hashlib
import json
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any, BinaryIO

from starlette.datastructures import FormData, UploadFile
from starlette.requests import Request
from starlette.types import Message, Receive

from atonc.compiler.frontends.read import FOREIGN, TFLITE_MARK
from atonc.doors.serve.limits import KEPT_FREE_BYTES, JobLimits
from atonc.machine.base.errors import AtoncError, InputError, plain
from atonc.machine.base.frozen import dataclass

FIELD_BYTES = 1 << 16  # of the options
LONG_TITLE = 120
_KINDS = {".npz": ".npz", ".npy": ".npy", ".csv": ".csv"}
_BLOCK = 1 << 20


class TooLarge(InputError):
    """More than a visitor may send."""


class NoRoom(AtoncError):
    """The disk, or the queue, is full."""


@dataclass(frozen=True)
class Upload:
    """Where the files are now, and what was said with them."""

    title: str
    model: str
    sha256: str
    size_bytes: int
    samples: tuple[str, ...]
    options: dict[str, Any]


async def receive_upload(request: Request, folder: Path, limits: JobLimits) -> Upload:
    """The form's `model`, `samples` and `options`, into `folder`."""
    require_room(folder, limits.upload_bytes)
    _check_length(request, limits.upload_bytes)
    counted = Request(request.scope, _counted(request.receive, limits.upload_bytes))
    async with (
        asyncio.timeout(limits.upload_seconds),
        counted.form(max_files=limits.samples + 1, max_fields=4, max_part_size=FIELD_BYTES) as form,
    ):
        return await asyncio.to_thread(_keep, form, folder)


def require_room(folder: Path, wanted: int) -> None:
    if shutil.disk_usage(folder).free < wanted + KEPT_FREE_BYTES:
        raise NoRoom("the disk is nearly full", remedy="delete builds, or start the server with another --folder")


def _check_length(request: Request, most: int) -> None:
    length = request.headers.get("content-length", "0")
    if length.isdecimal() and int(length) > most:
        raise _too_large(most)


def _counted(receive: Receive, most: int) -> Receive:
    """What says how long it is may lie, or say nothing."""
    taken = 0

    async def counting() -> Message:
        nonlocal taken
        message = await receive()
        taken += len(message.get("body", b""))
        if taken > most:
            raise _too_large(most)
        return message

    return counting


def _too_large(most: int) -> TooLarge:
    remedy = "give a smaller model or fewer samples, or start the server with a higher --max-upload"
    return TooLarge(f"more than {most:,} bytes", rule="uploads are bounded", remedy=remedy)


def _keep(form: FormData, folder: Path) -> Upload:
    model = form.get("model")
    if not isinstance(model, UploadFile):
        raise InputError("no model given", remedy="send a .tflite or .onnx file as the field model")
    title = shown_name(model.filename)
    name = model_name(title, model.file)
    digest, size = _copy(model.file, folder / name)
    samples = tuple(_keep_samples(form.getlist("samples"), folder))
    return Upload(title, name, digest, size, samples, parse_options(form.get("options")))


def shown_name(name: str | None) -> str:
    """A name to show. It never becomes a path; what it would be in one is gone all the same."""
    last = (name or "").replace("\\", "/").rsplit("/", 1)[-1]
    return plain(last)[:LONG_TITLE].strip() or "model"


def model_name(title: str, file: BinaryIO) -> str:
    """What the reader goes by is the content; the suffix only where that says nothing."""
    start, suffix = file.read(8), Path(title).suffix.lower()
    file.seek(0)
    if start[4:8] == TFLITE_MARK:
        return "model.tflite"
    if suffix in FOREIGN:
        raise InputError(f"{FOREIGN[suffix]} models are not read", where=title, remedy="export it as TFLite or ONNX")
    if suffix not in (".tflite", ".onnx"):
        raise InputError("is no model", where=title, remedy="give a quantised .tflite or .onnx file")
    return f"model{suffix}"


def _keep_samples(files: Iterable[UploadFile | str], folder: Path) -> Iterable[str]:
    for index, file in enumerate(files):
        if not isinstance(file, UploadFile):
            raise InputError("samples must be files", remedy="send .npz or .npy files as the field samples")
        title = shown_name(file.filename)
        suffix = _KINDS.get(Path(title).suffix.lower())
        if suffix is None:
            raise InputError("is no file of samples", where=title, remedy="give .npz, .npy or .csv files")
        _copy(file.file, folder / f"samples_{index}{suffix}")
        yield f"samples_{index}{suffix}"


def parse_options(text: object) -> dict[str, Any]:
    if not text:
        return {}
    try:
        found = json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise InputError("not a JSON object", where="options", remedy='send for example {"prefer": "memory"}')
    return found


def _copy(source: BinaryIO, target: Path) -> tuple[str, int]:
    digest, size = hashlib.sha256(), 0
    with target.open("wb") as file:
        while block := source.read(_BLOCK):
            digest.update(block)
            size += len(block)
            file.write(block)
    return digest.hexdigest(), size
