"""An exported program of PyTorch (.pt2) as an archive from strangers: looked at before torch loads it.

`torch.export.load` runs what some members of such an archive say: pickled weights, constants and sample inputs,
compiled libraries, expressions of open sizes, guards, and operators that are named by any path below `torch`. A program
of fixed sizes made of PyTorch's own operators needs none of them. So an archive that has them is refused, and torch
gets a new one that holds nothing but what was looked at.
"""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from atonc.compiler.frontends import limits
from atonc.machine.base.errors import ModelError, UnsupportedError

MAX_MEMBERS = 20_000
MAX_PROGRAM_BYTES = 64 << 20  # of JSON
MAX_DEPTH = 64
# what torch.export.save writes for one program of fixed sizes, below the folder that all members share
KNOWN = re.compile(
    r"archive_format|archive_version|byteorder|\.data/version|\.data/serialization_id|models/model\.json"
    r"|data/weights/(model_weights_config\.json|weight_\d{1,6})"
    r"|data/constants/(model_constants_config\.json|tensor_\d{1,6})|data/sample_inputs/model\.pt"
)
PROGRAM, SAMPLE_INPUTS = "models/model.json", "data/sample_inputs/model.pt"
PAYLOADS = ("data/weights/model_weights_config.json", "data/constants/model_constants_config.json")
STORED = re.compile(r"(weight|tensor)_\d{1,6}")
OPERATOR = re.compile(r"torch\.ops\.(aten|prims)\.\w+\.\w+|_operator\.getitem")
OPEN_SIZES = ("as_expr", "expr_str")
AGAIN = "save it again with torch.export.save of a current PyTorch, or give the module itself to atonc.torch.quantize"


def is_pt2(path: Path) -> bool:
    return path.suffix.lower() == ".pt2"


def checked_archive(data: bytes, name: str) -> dict[str, bytes]:
    """The members of an archive by their names below its folder, all of kinds that run nothing when they are read."""
    members = _members(data, name)
    missing = [wanted for wanted in (PROGRAM, SAMPLE_INPUTS, *PAYLOADS) if wanted not in members]
    if missing:
        raise ModelError(f"not an exported program: it has no {missing[0]}", where=name, remedy=AGAIN)
    for payload in PAYLOADS:
        _require_plain(_json(members[payload], name), payload, name)
    program = _json(members[PROGRAM], name)
    _require_own_operators(program, name)
    if isinstance(program, dict):
        program["guards_code"] = []  # Python text; nothing is guarded where sizes are fixed
    return members | {PROGRAM: json.dumps(program).encode()}


def packed(members: dict[str, bytes]) -> bytes:
    """These members and no others, as torch reads them."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_STORED) as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(f"archive/{name}", (1980, 1, 1, 0, 0, 0)), content)
    return made.getvalue()


def _members(data: bytes, name: str) -> dict[str, bytes]:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = archive.infolist()
            limits.count(len(entries), MAX_MEMBERS, "members of the archive")
            if sum(entry.file_size for entry in entries) > limits.MAX_TOTAL_CONSTANT_BYTES:
                raise ModelError("unpacked it is larger than 1 GiB", where=name)
            folders = {entry.filename.partition("/")[0] for entry in entries}
            if len(folders) != 1 or len({entry.filename for entry in entries}) != len(entries):
                raise ModelError("not an exported program: its members lie in several folders or twice", where=name)
            return {inside: archive.read(entry) for entry, inside in _known(entries, name)}
    except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError, OSError, ValueError, KeyError) as error:
        raise ModelError(f"not a .pt2 archive: {str(error)[:200]}", where=name, remedy=AGAIN) from None


def _known(entries: list[zipfile.ZipInfo], name: str) -> Iterator[tuple[zipfile.ZipInfo, str]]:
    for entry in entries:
        inside = entry.filename.partition("/")[2]
        if not KNOWN.fullmatch(inside):
            raise UnsupportedError(
                f"it has a member {inside[:120]!r}",
                where=name,
                rule="only what torch.export.save writes of one program is read: its graph, tensors and sample inputs",
                remedy="leave compiled code, custom objects and further files out of it",
            )
        if entry.compress_type != zipfile.ZIP_STORED or entry.flag_bits & 1:
            raise ModelError(f"its member {inside} is compressed or encrypted", where=name, remedy=AGAIN)
        yield entry, inside


def _json(content: bytes, name: str) -> Any:
    if len(content) > MAX_PROGRAM_BYTES:
        raise ModelError(f"its program takes {len(content):,} bytes", where=name, rule=f"at most {MAX_PROGRAM_BYTES:,}")
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ModelError(f"not an exported program: {str(error)[:200]}", where=name, remedy=AGAIN) from None


def _require_plain(config: Any, member: str, name: str) -> None:
    """Tensors as bytes with shape and type; none that is an object of Python."""
    entries = config.get("config") if isinstance(config, dict) else None
    if not isinstance(entries, dict):
        raise ModelError(f"not an exported program: {member} has no list of tensors", where=name)
    for tensor, entry in entries.items():
        plain = isinstance(entry, dict) and entry.get("use_pickle") is False
        if not plain or not STORED.fullmatch(str(entry.get("path_name"))):
            raise UnsupportedError(
                f"{tensor[:120]!r} is a pickled object",
                where=name,
                rule="unpickling runs what the archive says, so tensors are read as plain bytes only",
                remedy="keep tensor subclasses and custom objects out of the module, and save it again",
            )


def _require_own_operators(program: Any, name: str) -> None:
    for key, value in _entries(program, name):
        if key == "target" and isinstance(value, str) and not OPERATOR.fullmatch(value):
            raise UnsupportedError(
                f"it calls {value[:120]!r}",
                where=name,
                rule="programs are made of PyTorch's own operators (aten)",
                remedy="write the custom operator with torch functions, or export without it",
            )
        if key in OPEN_SIZES or (key == "range_constraints" and value):
            raise UnsupportedError(
                "it has open sizes",
                where=name,
                rule="all shapes are known when a program is read",
                remedy="export without dynamic_shapes: torch.export.export(module, (example,))",
            )


def _entries(value: Any, name: str, depth: int = 0) -> Iterator[tuple[str, Any]]:
    """All keys with their values, however deep."""
    if depth > MAX_DEPTH:
        raise ModelError(f"its program is nested deeper than {MAX_DEPTH}", where=name)
    if isinstance(value, dict):
        yield from value.items()
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for one in inner:
        if isinstance(one, (dict, list)):
            yield from _entries(one, name, depth + 1)
