"""Initialisers kept as C arrays."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from atonc.machine.base.errors import InputError
from atonc.machine.emu.files.c_syntax import TranslationUnit, bounded_depth, declared_name, read_source, require_sound
from atonc.machine.emu.files.c_unit import parse_unit
from atonc.machine.emu.files.c_values import Evaluator, Scope

_ELEMENT_BYTES = {
    "uint8_t": 1, "int8_t": 1, "char": 1, "unsigned char": 1, "signed char": 1, "uint16_t": 2, "int16_t": 2,
    "uint32_t": 4, "int32_t": 4, "uint64_t": 8, "int64_t": 8, "unsigned long long": 8,
}  # fmt: skip


@bounded_depth
def c_array_bytes(path: Path, name: str) -> bytes | None:
    """The bytes of a global array in a C file, little endian; None if the file does not define it."""
    source = read_source(path)
    if not re.search(rb"\b" + re.escape(name.encode()) + rb"\s*\[", source):
        return None
    return unit_array_bytes(parse_unit(source, str(path)), name)


def unit_array_bytes(unit: TranslationUnit, name: str) -> bytes | None:
    """The same for a parsed unit."""
    for node in unit.root.named_children:
        if node.type != "declaration":
            continue
        for declarator in node.children_by_field_name("declarator"):
            value = declarator.child_by_field_name("value")
            if value is not None and declared_name(declarator, unit) == name:
                require_sound(node, unit)
                type_node = node.child_by_field_name("type")
                kind = " ".join(unit.slice(type_node).split()) if type_node is not None else ""
                return _pack(Evaluator(unit).value(value, Scope(unit)), kind, unit.where(node))
    return None


def _pack(values: object, kind: str, where: str) -> bytes:
    width = _ELEMENT_BYTES.get(kind)
    if width is None:
        raise InputError(f"array elements of type {kind or '?'} are not understood", where=where)
    if not isinstance(values, list) or not all(isinstance(v, int) for v in values):
        raise InputError("the array holds something that is not an integer", where=where)
    limit = 1 << (8 * width)
    if any(not -limit // 2 <= v < limit for v in values):
        raise InputError(f"a value does not fit {kind}", where=where)
    wrapped = np.array([v % limit for v in values], dtype=np.uint64)
    return wrapped.astype(f"<u{width}").tobytes()
