"""What the self-test can find: the table of its header, which firmware, pages and commands share."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from atonc.delivery.firmware.building import runtime_folder
from atonc.machine.base.frozen import dataclass

_ROW = re.compile(r'X\((\d+), (\w+),((?:[\s\\,]*"[^"\n]*"){3})\)')
_TEXT = re.compile(r'"([^"\n]*)"')


@dataclass(frozen=True)
class SelftestCode:
    """A row of ATONC_SELFTEST_CODES."""

    number: int
    name: str
    register: str
    cause: str
    fix: str


@cache
def selftest_codes() -> dict[int, SelftestCode]:
    """By number."""
    header = (runtime_folder("selftest") / "atonc_selftest.h").read_text()
    rows = (SelftestCode(int(n), name, *_TEXT.findall(texts)) for n, name, texts in _ROW.findall(header))
    return {row.number: row for row in rows}


def page_table() -> Iterator[str]:
    """The table of `docs/selftest.md`."""
    yield "| finding | cause | register | fix |"
    yield "|---|---|---|---|"
    for row in selftest_codes().values():
        register = "-" if row.register == "none" else row.register
        yield f"| {row.number} `{row.name}` | {row.cause} | {register} | {row.fix} |"
