"""A translation unit: its functions and globals as syntax trees, errors with file and line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from functools import lru_cache, wraps
from pathlib import Path
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from atonc.machine.base.disk import read_file
from atonc.machine.base.errors import InputError, ToolError
from atonc.machine.base.frozen import dataclass
from atonc.machine.emu.files.c_preprocess import Preprocessed
from atonc.machine.emu.files.types import CValue

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

MAX_SOURCE_BYTES = 64 << 20
_P = ParamSpec("_P")
_R = TypeVar("_R")


def bounded_depth(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Expressions nested too deeply for us are an error of the input, whatever they are nested in."""

    @wraps(function)
    def guarded(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        try:
            return function(*args, **kwargs)
        except RecursionError:
            raise InputError("nested too deeply", where=str(args[0])[:200] if args else "") from None

    return guarded


@lru_cache(maxsize=1)
def c_parser() -> Parser:
    try:
        import tree_sitter
        import tree_sitter_c
    except ImportError as error:
        remedy = "pip install tree-sitter tree-sitter-c"
        raise ToolError("reading generated C needs a C parser", remedy=remedy) from error
    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_c.language()))


@dataclass
class TranslationUnit:
    """One parsed C file. `text` is what the tree's offsets refer to."""

    path: str
    text: bytes
    root: Node
    source: Preprocessed
    lists: dict[int, list[CValue]] = field(default_factory=dict)  # long ones of numbers, by their first byte
    functions: dict[str, Node] = field(default_factory=dict)
    globals: dict[str, Node] = field(default_factory=dict)  # name -> init_declarator (or bare declarator)

    def slice(self, node: Node) -> str:
        return self.text[node.start_byte : node.end_byte].decode("utf-8", "replace")

    def where(self, node: Node) -> str:
        return f"{self.path}:{node.start_point[0] + 1}"

    def error(self, what: str, node: Node, remedy: str = "") -> InputError:
        return InputError(what, where=self.where(node), remedy=remedy)


def read_source(path: Path) -> bytes:
    """The bytes of a C file, or a clear error."""
    return read_file(path, MAX_SOURCE_BYTES)


def parse_expression(text: str) -> tuple[TranslationUnit, Node] | None:
    """A lone expression as a tree; None if it is not one."""
    wrapped = f"int x = ({text});".encode()
    unit = TranslationUnit("macro", wrapped, c_parser().parse(wrapped).root_node, Preprocessed(wrapped))
    if unit.root.has_error or unit.root.named_child_count != 1:
        return None
    declaration = unit.root.named_children[0]
    declarator = declaration.child_by_field_name("declarator")
    value = declarator.child_by_field_name("value") if declarator is not None else None
    return None if value is None else (unit, value)


def declared_name(node: Node, unit: TranslationUnit) -> str | None:
    """The identifier that a definition or declarator introduces."""
    for _ in range(32):
        if node.type == "identifier":
            return unit.slice(node)
        inner = node.child_by_field_name("declarator")
        if inner is None:
            inner = next((c for c in node.named_children if c.type.endswith(("declarator", "identifier"))), None)
        if inner is None:
            return None
        node = inner
    return None


def first_error(node: Node) -> Node | None:
    """The first place inside `node` that is not C."""
    if not node.has_error:
        return None
    stack = [node]
    while stack:
        current = stack.pop()
        if current.is_error or current.is_missing:
            return current
        stack.extend(child for child in reversed(current.children) if child.has_error or child.is_missing)
    return node


def require_sound(node: Node, unit: TranslationUnit) -> None:
    """Raises where `node` contains something that is not C."""
    bad = first_error(node)
    if bad is not None:
        excerpt = unit.slice(bad)[:60].strip().replace("\n", " ")
        what = f"missing {bad.type!r}" if bad.is_missing else f"this is not C: {excerpt!r}"
        raise unit.error(what, bad, remedy="the file is damaged or cut off; generate or fetch it again")
