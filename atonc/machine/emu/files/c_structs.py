"""Designated initialisers: where a value goes in nested structs and arrays."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from atonc.machine.emu.files.c_syntax import TranslationUnit
from atonc.machine.emu.files.types import CValue

if TYPE_CHECKING:
    from tree_sitter import Node

_UNION_FIELD = re.compile(r"addr_base|\w+_vector")  # unions of pointer types: braces around one address


def store(result: dict[str, CValue], path: list[str | int], value: CValue, node: Node, unit: TranslationUnit) -> None:
    """`.a.b.c = v` into nested dicts."""
    for key in path[:-1]:
        inner = result.setdefault(str(key), {})
        if not isinstance(inner, dict):
            raise unit.error(f"field {key} is initialised twice in different ways", node)
        result = inner
    name = str(path[-1])
    if isinstance(value, list) and len(value) == 1 and _UNION_FIELD.fullmatch(name):
        value = value[0]
    result[name] = value


def store_indexed(
    array: list[CValue], path: list[str | int], value: CValue, node: Node, unit: TranslationUnit
) -> list[CValue]:
    index = path[0]
    if len(path) != 1 or not isinstance(index, int) or not 0 <= index < 1 << 20:
        raise unit.error("this array designator is not understood", node)
    array.extend([0] * (index + 1 - len(array)))
    array[index] = value
    return array
