"""`--json`: every document begins alike, so that whoever reads it knows what it is and of which model.

Compatibility: as long as `FORMAT` is the same, keys keep their names, meanings and types; new ones may come. The
schemas in docs/reference/schemas say which keys are always there.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from atonc.machine.base.about import __version__

FORMAT = 1


def document(kind: str, data: Mapping[str, Any], model_sha256: str | None = None) -> dict[str, Any]:
    """`kind`: the verb that made it; `model_sha256`: None where it is of no model, or of one that nobody hashed."""
    head = {"format": FORMAT, "atonc": __version__, "document": kind, "model_sha256": model_sha256}
    return {**head, **data}


def print_document(kind: str, data: Mapping[str, Any], model_sha256: str | None = None) -> None:
    print(json.dumps(document(kind, data, model_sha256), indent=1))


def file_hash(model: Path) -> str | None:
    """The SHA-256 of a model; None for a folder."""
    import hashlib

    return hashlib.sha256(model.read_bytes()).hexdigest() if model.is_file() else None


def build_hash(folder: Path) -> str | None:
    """The SHA-256 of the model that a folder was built from, where it tells."""
    from atonc.compiler.compile.reproduce import MODEL_HASH
    from atonc.insight.explain.saved import read_asked
    from atonc.machine.emu.files.network_c import find_networks

    place = folder if folder.is_dir() else folder.parent
    told = [read_asked(place, c_file.stem) for c_file in find_networks(folder)]
    found = {asked.reproduce.get(MODEL_HASH) for asked in told if asked is not None}
    return found.pop() if len(found) == 1 else None
