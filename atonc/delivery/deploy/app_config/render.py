"""Headers as text, and what a header defines as data."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from atonc.delivery.deploy.app_config.types import Define, Header, HeaderComment, HeaderTable, Line
from atonc.machine.base.about import __version__

_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_DEFINE = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)(\([^)\s]*\))?(.*)$", re.MULTILINE)
_TABLE = re.compile(r"\b(\w+)\s*\[[^\]\n]*\]\s*=\s*\{([^{}]*)\}\s*;")
_WIDTH = 48


def text_of(header: Header) -> str:
    guard, lines = header.guard, list(_body(header))
    cpp = (["#ifdef __cplusplus", 'extern "C" {', "#endif", ""], ["#ifdef __cplusplus", "}", "#endif", ""])
    opened, closed = cpp if header.plain_c else ([], [])
    first = f"/* {header.file}: written by atonc {__version__} for the model that it names; changes will be lost. */"
    head, tail = (first, f"#ifndef {guard}", f"#define {guard}", ""), (f"#endif /* {guard} */", "")
    return "\n".join((*head, *opened, *lines, *closed, *tail))


def _body(header: Header) -> Iterator[str]:
    for include in header.includes:
        yield f'#include "{include}"'
    if header.includes:
        yield ""
    for line in header.lines:
        yield from _lines(line)
    yield ""


def _lines(line: Line) -> Iterator[str]:
    if isinstance(line, HeaderComment):
        yield ""
        yield f"/* {line.text} */"
    elif isinstance(line, HeaderTable):
        yield f"static const float32_t {line.name}[{line.length}] = {{{', '.join(f'{v:.6f}' for v in line.values)}}};"
    else:
        yield f"#define {line.name:<{_WIDTH}} {line.value}".rstrip()


def strings(names: tuple[str, ...]) -> str:
    """A braced list; a line for every five."""
    quoted = [c_string(name) for name in names]
    rows = [", ".join(quoted[at : at + 5]) for at in range(0, len(quoted), 5)]
    return "{ \\\n  " + ", \\\n  ".join(rows) + " }"


def c_string(text: str) -> str:
    """Bytes that C takes as they are stay; all others as octal, which ends after three digits."""
    escaped = "".join(chr(b) if 32 <= b < 127 and b not in b'"\\' else f"\\{b:03o}" for b in text.encode())
    return f'"{escaped}"'


def classes_table(names: tuple[str, ...]) -> Define:
    return Define("CLASSES_TABLE", f"const char* classes_table[NB_CLASSES] = {strings(names)}")


def meaning(text: str) -> Mapping[str, str]:
    """Name -> value of everything that a header defines, however it is laid out: to compare headers."""
    plain = _COMMENT.sub(" ", text).replace("\r\n", "\n")
    plain = re.sub(r"\\[ \t]*\n", " ", plain)
    found = {match[1]: _squeezed((match[2] or "") + match[3]) for match in _DEFINE.finditer(plain)}
    for match in _TABLE.finditer(_DEFINE.sub("", plain)):
        found[match[1]] = _squeezed(match[2])
    return found


def _squeezed(text: str) -> str:
    words = re.findall(r'"(?:\\.|[^"\\])*"|[\w.]+|[^\w\s]', text)
    return " ".join(words)
