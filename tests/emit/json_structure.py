"""What JSON documents of one kind have in common: paths, types, and which members are always there."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

_NESTED = re.compile(r"\.nodes\[\](\.subgraph_nodes\[\])+")  # blobs, epochs and units are nodes of one form


def type_name(value: Any) -> str:
    kinds = ((bool, "boolean"), (int, "integer"), (float, "number"), (str, "text"), (list, "list"), (dict, "object"))
    return next((name for kind, name in kinds if isinstance(value, kind)), "null")


def places(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every value with its path; items of a list share one."""
    yield _NESTED.sub(".nodes[]", path), value
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from places(inner, f"{path}.{key}")
    elif isinstance(value, list):
        for inner in value:
            yield from places(inner, f"{path}[]")


def structure(documents: Iterable[Any]) -> dict[str, dict[str, Any]]:
    """Path -> the types seen there, and whether every object around it has it."""
    seen: Counter[str] = Counter()
    types: dict[str, set[str]] = {}
    for document in documents:
        for path, value in places(document):
            seen[path] += 1
            types.setdefault(path, set()).add(type_name(value))
    return {path: {"always": seen[path] == seen[_parent(path)], "types": sorted(types[path])} for path in sorted(types)}


def _parent(path: str) -> str:
    return path.rpartition(".")[0] if not path.endswith("[]") else path


def differences(document: Any, model: dict[str, dict[str, Any]], known: set[str]) -> list[str]:
    """Members that every sample has and the document lacks, values of another type, members at the top that are not
    `known`."""
    mine, found = structure([document]), []
    for path, wanted in model.items():
        if path.endswith("[]") or not path:
            continue
        if wanted["always"] and _parent(path) in mine and not mine.get(path, {"always": False})["always"]:
            found.append(f"{path} is missing")
    for path, own in mine.items():
        if path.count(".") == 1 and not path.endswith("[]") and path not in known:
            found.append(f"{path} is unknown")
        if path in model and not set(own["types"]) <= _allowed(path, model):
            found.append(f"{path} is {own['types']}, elsewhere {model[path]['types']}")
    return found


def _allowed(path: str, model: dict[str, dict[str, Any]]) -> set[str]:
    """A number without fraction may be written as an integer; an object that is always empty stands for a list."""
    types = set(model[path]["types"])
    empty = types == {"object"} and not any(other.startswith(f"{path}.") for other in model)
    return types | ({"integer", "number"} if "number" in types else set()) | ({"list"} if empty else set())
