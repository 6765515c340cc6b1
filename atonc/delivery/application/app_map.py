"""app.json, the map of a build: read strictly, for the next build, for updates and for comparisons."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from atonc.delivery.application.types import WholeFile
from atonc.machine.base.disk import read_text
from atonc.machine.base.errors import InputError

MAP = WholeFile.MAP.value
MAP_FORMAT = "atonc application 1"
_MOST_BYTES = 1 << 22
_T = TypeVar("_T")


def read_map(path: Path, parse: Callable[[Mapping[str, Any]], _T]) -> _T:
    """What `parse` makes of it; what it stumbles over is no map."""
    text = read_text(path, _MOST_BYTES)
    try:
        data = json.loads(text)
        if data["format"] != MAP_FORMAT:
            raise ValueError(data["format"])
        return parse(data)
    except (ValueError, RecursionError, LookupError, TypeError, AttributeError, OverflowError):
        raise InputError("is not the map of an application", where=str(path), rule=f"{MAP} of a build") from None
