"""C text as a parser accepts it: literals and operators on Python numbers, the preprocessor, and syntax trees with
errors that name file and line."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import field
from functools import lru_cache, wraps
from pathlib import Path
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from atonc.machine.base.disk import read_file
from atonc.machine.base.errors import InputError, not_loaded
from atonc.machine.base.frozen import dataclass
from atonc.machine.emu.files.types import CValue

if TYPE_CHECKING:
    from tree_sitter import Node, Parser


@lru_cache(maxsize=65536)
def number(text: str) -> int | float | None:
    """A C number literal, a sign in front allowed; None if it is not one."""
    if text[:1] in ("-", "+"):
        value = _unsigned(text[1:].strip())
        return -value if value is not None and text[0] == "-" else value
    return _unsigned(text)


def _unsigned(text: str) -> int | float | None:
    match = _LITERAL.fullmatch(text)
    if match is None:
        return None
    if match["hex"]:
        return int(match["hex"], 16)
    if match["binary"]:
        return int(match["binary"], 2)
    if match["octal"]:
        return int(match["octal"], 8)
    if match["decimal"]:
        return int(match["decimal"])
    try:
        return float.fromhex(match["hexfloat"]) if match["hexfloat"] else float(match["float"])
    except (ValueError, OverflowError):  # no digits, or beyond what a double holds
        return None


_LITERAL = re.compile(
    r"(?:0[xX](?P<hex>[0-9a-fA-F]{1,16})|0[bB](?P<binary>[01]{1,64})|(?P<octal>0[0-7]{0,22})|(?P<decimal>[1-9]\d{0,19}))"
    r"[uUlL]{0,3}"
    r"|(?P<hexfloat>0[xX][0-9a-fA-F]*\.?[0-9a-fA-F]*[pP][-+]?\d{1,4})[fFlL]?"
    r"|(?P<float>(?:\d+\.\d*|\.\d+|\d+(?=[eE]))(?:[eE][-+]?\d{1,4})?)[fFlL]?"
)
_FLAT = re.compile(r"\{[-+0-9.,eEf\s]*\}")
_SINGLE = re.compile(r"(?<=\d)f\b")
ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", '"': '"', "\\": "\\", "'": "'"}
NARROW = {
    "short": (16, True), "int16_t": (16, True), "uint16_t": (16, False), "unsigned short": (16, False),
    "int8_t": (8, True), "uint8_t": (8, False), "char": (8, True), "unsigned char": (8, False),
    "int32_t": (32, True), "uint32_t": (32, False), "int": (32, True), "unsigned int": (32, False),
    "unsigned": (32, False),
}  # fmt: skip
SIZES = {"float": 4, "double": 8, "long": 4, "uint64_t": 8, "int64_t": 8} | {k: b // 8 for k, (b, _) in NARROW.items()}


def _divide(a: int, b: int) -> int:
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


BINARY: dict[str, Callable[[int, int], int]] = {
    "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b,
    "/": _divide, "%": lambda a, b: a - b * _divide(a, b),
    "|": lambda a, b: a | b, "&": lambda a, b: a & b, "^": lambda a, b: a ^ b,
    "<<": lambda a, b: a << b, ">>": lambda a, b: a >> b,
    "==": lambda a, b: int(a == b), "!=": lambda a, b: int(a != b), "<": lambda a, b: int(a < b),
    ">": lambda a, b: int(a > b), "<=": lambda a, b: int(a <= b), ">=": lambda a, b: int(a >= b),
    "&&": lambda a, b: int(bool(a) and bool(b)), "||": lambda a, b: int(bool(a) or bool(b)),
}  # fmt: skip


def flat_list(text: str) -> list[CValue] | None:
    """A brace list of plain numbers, quickly; None if it is anything else."""
    if len(text) >= 16 and not _FLAT.fullmatch(text):
        return None
    inner = text.strip()[1:-1].rstrip().removesuffix(",")
    plain = _SINGLE.sub("", inner)
    try:
        values = json.loads(f"[{plain}]")
    except (ValueError, RecursionError):
        return None
    kinds = set(map(type, values))
    if not kinds <= {float} and not (kinds <= {float, int} and len(plain) == len(inner)):
        return None  # something that is no number, or an integer with the suffix of a float
    return None if int in kinds and max(map(abs, values)) >= 1 << 64 else values


def unescape(text: str) -> str:
    return re.sub(r"\\(.)", lambda m: ESCAPES.get(m[1], m[1]), text)


# ----------------------------------------------------------------------------------------------------------------------
# From C text to C text that a parser accepts: comments and directives blanked, every line where it was.

_TOKEN = re.compile(
    rb'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|//(?:\\\r?\n|[^\n])*|/\*(?:.*?\*/|.*)',
    re.DOTALL,
)
_DIRECTIVE = re.compile(rb"^[ \t]*#(?:\\\r?\n|[^\n])*", re.MULTILINE)
_DIRECTIVE_PARTS = re.compile(rb"\s*#\s*(\w*)\s*(.*)", re.DOTALL)
_DEFINE = re.compile(r"(\w+)(\([^)]*\))?\s*(.*)", re.DOTALL)
_BLANKS = bytes(ord("\n") if byte == ord("\n") else ord(" ") for byte in range(256))
MAX_NESTING = 64

# Debug fields that the generated file guards: we want them.
ALWAYS_DEFINED = frozenset({"LL_ATON_EB_DBG_INFO"})

Condition = Callable[[str, "Preprocessed"], bool]


@dataclass
class Preprocessed:
    """Text of equal length and line structure, and what was taken out of it."""

    text: bytes = b""
    comments: list[str] = field(default_factory=list)
    includes: list[str] = field(default_factory=list)
    defines: dict[str, str] = field(default_factory=dict)  # object-like macros

    def is_defined(self, name: str) -> bool:
        return name in ALWAYS_DEFINED or name in self.defines


def preprocess(source: bytes, path: str, condition: Condition) -> Preprocessed:
    """`condition` decides about the expression of an `#if`."""
    result = Preprocessed()
    uncommented = _without_comments(source, path, result)
    result.text = _without_directives(uncommented, path, condition, result)
    return result


def blank(text: bytes) -> bytes:
    return text.translate(_BLANKS)


def _without_comments(source: bytes, path: str, result: Preprocessed) -> bytes:
    def replace(match: re.Match[bytes]) -> bytes:
        token = match[0]
        if token[:1] != b"/":
            return token
        if token[:2] == b"/*" and (len(token) < 4 or not token.endswith(b"*/")):
            raise InputError("a comment is never closed", where=f"{path}:{line_of(source, match.start())}")
        result.comments.append(token.decode("utf-8", "replace"))
        return blank(token)

    return _TOKEN.sub(replace, source)


def line_of(source: bytes, offset: int) -> int:
    return source.count(b"\n", 0, offset) + 1


@dataclass
class _Branch:
    taken: bool  # this text is kept
    done: bool  # some branch of this group was taken
    outer: bool  # the text around the group is kept
    start: int  # offset of the directive, for messages


def _without_directives(text: bytes, path: str, condition: Condition, result: Preprocessed) -> bytes:
    pieces: list[bytes] = []
    stack: list[_Branch] = []
    position = 0
    for match in _DIRECTIVE.finditer(text):
        keep = not stack or stack[-1].taken
        between = text[position : match.start()]
        pieces.append(between if keep else blank(between))
        pieces.append(blank(match[0]))
        position = match.end()
        parts = _DIRECTIVE_PARTS.match(match[0])
        keyword = parts[1].decode("ascii", "replace") if parts else ""
        rest = parts[2].replace(b"\\\n", b" ").decode("utf-8", "replace").strip() if parts else ""
        if keyword in ("if", "ifdef", "ifndef"):
            if len(stack) >= MAX_NESTING:
                raise InputError(f"more than {MAX_NESTING} nested #if", where=_where(path, text, match))
            truth = keep and _decide(keyword, rest, condition, result)
            stack.append(_Branch(truth, truth, keep, match.start()))
        elif keyword in ("elif", "else", "endif"):
            if not stack:
                raise InputError(f"#{keyword} without #if", where=_where(path, text, match))
            _leave_branch(keyword, rest, stack, condition, result)
        elif keep and keyword == "include":
            result.includes.append(rest.strip('"<> '))
        elif keep and keyword == "define":
            _define(rest, result)
    if stack:
        where = f"{path}:{line_of(text, stack[-1].start)}"
        raise InputError("#if without #endif", where=where, remedy="the file looks cut off; fetch it again")
    pieces.append(text[position:])
    return b"".join(pieces)


def _where(path: str, text: bytes, match: re.Match[bytes]) -> str:
    return f"{path}:{line_of(text, match.start())}"


def _decide(keyword: str, rest: str, condition: Condition, result: Preprocessed) -> bool:
    if keyword == "if":
        return condition(rest, result)
    name = rest.split()[0] if rest.split() else ""
    return result.is_defined(name) == (keyword == "ifdef")


def _leave_branch(keyword: str, rest: str, stack: list[_Branch], condition: Condition, result: Preprocessed) -> None:
    branch = stack[-1]
    if keyword == "endif":
        stack.pop()
        return
    open_ = branch.outer and not branch.done
    branch.taken = open_ and (keyword == "else" or condition(rest, result))
    branch.done = branch.done or branch.taken


def _define(rest: str, result: Preprocessed) -> None:
    match = _DEFINE.match(rest)
    if match and match[2] is None:
        result.defines[match[1]] = match[3].strip()


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
        raise not_loaded(error, "tree-sitter, which reads generated C,", "tree-sitter tree-sitter-c") from error
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
