"""JSON as people write it by hand: with comments and trailing commas. ST's pool and machine files need both."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from atonc.machine.base.disk import read_text
from atonc.machine.base.errors import InputError, plain

MAX_BYTES = 1 << 22

_STRING = r'"(?:\\.|[^"\\\n])*+"'
_COMMENT = re.compile(rf"({_STRING})|//[^\n]*+|/\*.*?(?:\*/|\Z)", re.DOTALL)
_TRAILING_COMMA = re.compile(rf"({_STRING})|,(?=\s*+[}}\]])")


def read_json(path: Path) -> Mapping[str, Any]:
    """The object that the file holds."""
    return parse_json(read_text(path, MAX_BYTES), str(path))


def parse_json(text: str, where: str = "") -> Mapping[str, Any]:
    text = _COMMENT.sub(lambda match: match[1] or " ", text)
    text = _TRAILING_COMMA.sub(lambda match: match[1] or "", text)
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        raise InputError(f"not JSON: {error.msg} in line {error.lineno}, column {error.colno}", where=where) from None
    except (RecursionError, ValueError):
        raise InputError("not JSON: nested too deeply or a number out of range", where=where) from None
    if not isinstance(data, dict):
        raise InputError("does not hold an object", where=where)
    return data


class JsonNode:
    """One object of such a file, with typed access and errors that name the place."""

    def __init__(self, data: Any, where: str) -> None:
        if not isinstance(data, Mapping):
            raise InputError("should be an object", where=where)
        self.data, self.where = data, where

    def text(self, *keys: str, default: str = "") -> str:
        value = self._first(keys, default)
        return plain(value if isinstance(value, str) else str(value))

    def string(self, key: str) -> str:
        """A text and nothing else; empty where there is none."""
        value = self.data.get(key, "")
        if not isinstance(value, str):
            raise InputError(f"{key} is {str(value)[:40]!r}, not a text", where=self.where)
        return plain(value)

    def number(self, *keys: str, default: float = 0.0) -> float:
        value = self._first(keys, default)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) < 2.0**64:
            raise InputError(f"{keys[0]} is {str(value)[:40]!r}, not a number", where=self.where)
        return float(value)

    def flag(self, *keys: str) -> bool:
        """Booleans are written as such or as the word "true"."""
        value = self._first(keys, False)
        return value is True or (isinstance(value, str) and value.lower() == "true")

    def child(self, key: str) -> JsonNode:
        return JsonNode(self.data.get(key, {}), f"{self.where}, {key}")

    def children(self, key: str, most: int) -> list[JsonNode]:
        items = self.data.get(key, [])
        if not isinstance(items, list) or len(items) > most:
            raise InputError(f"{key} should be a list of at most {most} objects", where=self.where)
        return [JsonNode(item, f"{self.where}, {key} {index}") for index, item in enumerate(items)]

    def _first(self, keys: tuple[str, ...], default: Any) -> Any:
        return next((self.data[key] for key in keys if key in self.data), default)
