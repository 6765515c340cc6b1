"""What the comments at the top of a generated C file tell: versions, options, memory pools."""

from __future__ import annotations

import re
from collections.abc import Iterable

from atonc.machine.base.errors import plain
from atonc.machine.emu.files.types import DeclaredPool

_GIT = re.compile(r'\bGIT_(BRANCH|DESCRIPTION)\s+"([^"\n]{0,200})"')
_OPTION = re.compile(r'^[ *]*--([\w-]+) = (?:"([^"\n]*)"|(\S+))\s*$', re.MULTILINE)
_USED = re.compile(r"/\* global pool (\d+) is (.*?) \*/")
_POOL = re.compile(
    r"index=(?P<index>\d+) file postfix=(?P<postfix>\S*) name=(?P<name>.*?) offset=(?P<offset>0x[0-9a-fA-F]+|\S+)\s+"
    r"(?P<mode>absolute|relative)_mode size=(?P<size>\d+)(?P<rest>[^\n]*)"
)
_ADDRESS = re.compile(r"0[xX][0-9a-fA-F]{1,16}|\d{1,20}")
MAX_POOLS = 256
_MAX_POOL_COMMENT = 4000


def versions(comments: Iterable[str]) -> tuple[str, str]:
    """(atonn description, tool branch); empty where the file does not say."""
    found: dict[str, str] = {}
    for comment in comments:
        for match in _GIT.finditer(comment):
            found.setdefault(match[1], plain(match[2]))
        if len(found) == 2:
            break
    return found.get("DESCRIPTION", ""), found.get("BRANCH", "")


def command_line(comments: Iterable[str]) -> dict[str, str]:
    """The compiler's options by name."""
    for comment in comments:
        if "Command Line options" in comment:
            return {m[1]: plain(m[2] if m[2] is not None else m[3]) for m in _OPTION.finditer(comment)}
    return {}


def pools(comments: Iterable[str]) -> tuple[DeclaredPool, ...]:
    """All memory pools, in file order."""
    result: list[DeclaredPool] = []
    used = "?"
    for comment in comments:
        if len(comment) > _MAX_POOL_COMMENT:
            continue
        match = _USED.match(comment)
        if match:
            used = match[2]
        match = _POOL.search(comment)
        if match and len(result) < MAX_POOLS:
            result.append(_pool(match, used))
            used = "?"
    return tuple(result)


def _pool(match: re.Match[str], used: str) -> DeclaredPool:
    rest = match["rest"]

    def value(key: str, default: str) -> str:
        found = re.search(rf"{key}=(\S+)", rest)
        return plain(found[1]) if found else default

    return DeclaredPool(
        index=int(match["index"]),
        postfix=plain(match["postfix"]),
        name=plain(match["name"]),
        base=int(match["offset"], 0) if _ADDRESS.fullmatch(match["offset"]) else 0,
        size_bytes=int(match["size"]),
        absolute=match["mode"] == "absolute",
        virtual=" vpool " in rest,
        writable="READ_WRITE" in rest,
        cacheable=value("cacheable", "OFF") == "ON",
        byte_width=max(1, int(_number(value("byte width", "1")))),
        freq_ratio=_number(value("freq ratio", "1")),
        throughput=value("THROUGHPUT", ""),
        latency=value("LATENCY", ""),
        holds_initialisers=value("use4initializers", "NO") == "YES",
        used=used,
    )


def _number(text: str) -> float:
    return float(text) if re.fullmatch(r"\d{1,12}(?:\.\d{1,12})?", text) else 0.0
