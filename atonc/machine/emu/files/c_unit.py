"""A C file as a tree: macros and conditions first, then the functions and globals that it defines."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from atonc.machine.base.errors import InputError
from atonc.machine.emu.files.c_literals import flat_list
from atonc.machine.emu.files.c_preprocess import blank, preprocess
from atonc.machine.emu.files.c_syntax import MAX_SOURCE_BYTES, TranslationUnit, c_parser, declared_name
from atonc.machine.emu.files.c_values import evaluate_condition
from atonc.machine.emu.files.types import CValue

if TYPE_CHECKING:
    from tree_sitter import Node

_LONG_LIST = re.compile(rb"\{[-+0-9.,eEf\s]{1024,}\}")


def parse_unit(source: bytes, path: str) -> TranslationUnit:
    """Parses C text. Broken syntax is reported when a broken function is used, not before."""
    if len(source) > MAX_SOURCE_BYTES:
        raise InputError("too large for a generated C file", where=path)
    prepared = preprocess(source, path, evaluate_condition)
    lists: dict[int, list[CValue]] = {}
    root = c_parser().parse(_without_lists(prepared.text, lists)).root_node
    unit = TranslationUnit(path, prepared.text, root, prepared, lists)
    for node in unit.root.named_children:
        if node.type == "function_definition":
            name = declared_name(node, unit)
            if name:
                unit.functions[name] = node
        elif node.type == "declaration":
            _collect_globals(node, unit)
    return unit


def _without_lists(text: bytes, lists: dict[int, list[CValue]]) -> bytes:
    """The text with long brace lists of plain numbers blanked, each number read already: a tree of them would take a
    hundred times their room."""

    def blanked(match: re.Match[bytes]) -> bytes:
        numbers = flat_list(match[0].decode())
        if numbers is None:
            return match[0]
        lists[match.start()] = numbers
        return b"{0" + blank(match[0][2:-1]) + b"}"

    return _LONG_LIST.sub(blanked, text)


def _collect_globals(declaration: Node, unit: TranslationUnit) -> None:
    for declarator in declaration.children_by_field_name("declarator"):
        name = declared_name(declarator, unit)
        if name and declarator.type != "function_declarator":
            unit.globals[name] = declarator
