"""Models and samples that visitors send: counted while they come in, kept under names of ours. Models that
come with atonc are for visitors who have none at hand."""

from __future__ import annotations

import asyncio
import functools
import hashlib
import json
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from starlette.datastructures import FormData, UploadFile
from starlette.requests import Request
from starlette.types import Message, Receive

from atonc.compiler.frontends.read import FOREIGN, TFLITE_MARK
from atonc.doors.serve import form
from atonc.doors.serve.guard import NoRoom, TooLarge
from atonc.doors.serve.limits import KEPT_FREE_BYTES, JobLimits
from atonc.machine.base.about import package_folder
from atonc.machine.base.errors import InputError, plain
from atonc.machine.base.frozen import dataclass
from atonc.machine.base.words import listed

FIELD_BYTES = 1 << 16  # of the options
LONG_TITLE = 120
_KINDS = {".npz": ".npz", ".npy": ".npy", ".csv": ".csv"}
_BLOCK = 1 << 20


@dataclass(frozen=True)
class Upload:
    """Where the files are now, and what was said with them."""

    title: str
    model: str
    sha256: str
    size_bytes: int
    samples: tuple[str, ...]
    options: dict[str, Any]
    verb: str = form.GENERATE


async def receive_upload(request: Request, folder: Path, limits: JobLimits) -> Upload:
    """The form's `model`, `samples` and `options`, into `folder`."""
    _check_length(request, limits.upload_bytes)
    counted = Request(request.scope, bounded(request.receive, limits))
    async with (
        asyncio.timeout(limits.upload_seconds),
        counted.form(max_files=limits.samples + 1, max_fields=4, max_part_size=FIELD_BYTES) as sent,
    ):
        return await asyncio.to_thread(_keep, sent, folder)


async def sent_options(request: Request) -> dict[str, Any]:
    """The body of a request without files: `{"options": {...}}`, or nothing."""
    return (await sent_wishes(request))[1]


async def sent_wishes(request: Request) -> tuple[str, dict[str, Any]]:
    """The same with `"verb": "..."`, which is generate where it is left out."""
    sent = parse_options((await _small_body(request)).decode("utf-8", "replace"))
    options = sent.get("options", {})
    if not isinstance(options, dict):
        raise InputError("not a JSON object", where="options")
    return known_verb(sent.get("verb")), options


def known_verb(given: object) -> str:
    verb = given or form.GENERATE
    if not isinstance(verb, str) or verb not in form.VERBS:
        raise InputError("there is no such verb", where="verb", rule=f"one of {', '.join(form.VERBS)}")
    return verb


async def _small_body(request: Request) -> bytes:
    found = b""
    async for block in request.stream():
        found += block
        if len(found) > FIELD_BYTES:
            raise TooLarge(f"more than {FIELD_BYTES:,} bytes")
    return found


def require_room(folder: Path, wanted: int) -> None:
    if shutil.disk_usage(folder).free < wanted + KEPT_FREE_BYTES:
        raise NoRoom("the disk is nearly full", remedy="delete builds, or start the server with another --folder")


def _check_length(request: Request, most: int) -> None:
    length = request.headers.get("content-length", "0")
    if length.isdecimal() and int(length) > most:
        raise _too_large(most)


def bounded(receive: Receive, limits: JobLimits) -> Receive:
    """Counts: what says how long it is may lie, or say nothing. Who sends next to nothing loses his place."""
    clock = asyncio.get_running_loop().time
    taken, counted, until = 0, 0, clock() + limits.upload_idle_seconds

    async def receiving() -> Message:
        nonlocal taken, counted, until
        async with asyncio.timeout_at(until):
            message = await receive()
        taken += len(message.get("body", b""))
        if taken > limits.upload_bytes:
            raise _too_large(limits.upload_bytes)
        if taken - counted >= limits.upload_idle_bytes:
            counted, until = taken, clock() + limits.upload_idle_seconds
        return message

    return receiving


def _too_large(most: int) -> TooLarge:
    remedy = "give a smaller model or fewer samples, or start the server with a higher --max-upload"
    return TooLarge(f"more than {most:,} bytes", rule="uploads are bounded", remedy=remedy)


def _keep(sent: FormData, folder: Path) -> Upload:
    model, verb = sent.get("model"), known_verb(sent.get("verb"))
    if not isinstance(model, UploadFile):
        raise InputError("no model given", remedy="send a .tflite or .onnx file as the field model")
    title = shown_name(model.filename)
    name = model_name(title, model.file)
    digest, size = _copy(model.file, folder / name)
    samples = tuple(_keep_samples(sent.getlist("samples"), folder))
    require_samples(verb, samples)
    return Upload(title, name, digest, size, samples, parse_options(sent.get("options")), verb)


def require_samples(verb: str, samples: Sequence[str]) -> None:
    needs = form.VERBS[verb].needs
    if needs and (len(samples) != 1 or Path(samples[0]).suffix not in needs):
        what = f"{verb} needs one file of samples: {listed(list(needs), 'or')}"
        raise InputError(what, where="samples", rule=form.VERBS[verb].samples)


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


@dataclass(frozen=True)
class Example:
    """Files of one folder; `about` is what the visitor reads of it."""

    model: str
    samples: tuple[str, ...]
    about: str


_DIGITS = "handwritten digits, 8x8 pixels, with 100 labelled samples"
EXAMPLES = (Example("digits.tflite", ("test.npz",), _DIGITS), Example("digits.onnx", ("test.npz",), _DIGITS))


def offered() -> dict[str, Example]:
    """What of it is there, by name: a package without its examples offers none."""
    return {one.model: one for one in EXAMPLES if (_folder() / one.model).is_file()}


def example_files(found: Example) -> list[Path]:
    return [_folder() / name for name in (found.model, *found.samples)]


def copied(title: str, files: Sequence[Path], folder: Path, options: dict[str, Any], verb: str) -> Upload:
    """Copies a model and its samples into the folder of a job, as if they had been sent."""
    model, *samples = (
        f"model{file.suffix}" if not index else f"samples_{index - 1}{file.suffix}" for index, file in enumerate(files)
    )
    for source, target in zip(files, (model, *samples), strict=True):
        shutil.copyfile(source, folder / target)
    content = (folder / model).read_bytes()
    return Upload(title, model, hashlib.sha256(content).hexdigest(), len(content), tuple(samples), options, verb)


@functools.cache
def _folder() -> Path:
    """In a package they lie inside of it, in a clone beside it."""
    inside = package_folder() / "examples" / "digits"
    return inside if inside.is_dir() else package_folder().parent / "examples" / "digits"
