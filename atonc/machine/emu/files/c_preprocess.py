"""From C text to C text that a parser accepts: comments and directives blanked, every line where it was."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import field

from atonc.machine.base.errors import InputError
from atonc.machine.base.frozen import dataclass

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
