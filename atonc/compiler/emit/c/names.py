"""Names and literals in generated C. Nothing of the model reaches the compiler unchecked."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence

import numpy as np

MAX_NAME = 96
_UNSAFE = re.compile(r"[^A-Za-z0-9_.:-]")
_UNSAFE_COMMENT = re.compile(r"[^A-Za-z0-9_.:,;()\[\]<>=+|#'& -]")
_UNSAFE_WORD = re.compile(r"[^A-Za-z0-9_]")


def suffix(name: str) -> str:
    """What every symbol of the network ends with: a network without a name of its own is called Default."""
    return "Default" if name == "network" else name


def macro(name: str) -> str:
    """The suffix as part of a macro."""
    return suffix(name).upper()


def blob(name: str, first_step: int) -> str:
    return f"_ec_blob_{name}_{first_step}"


def plain(text: str) -> str:
    """A name that is safe in strings, comments and file names: no quote, no slash, no backslash, no trigraph."""
    return _UNSAFE.sub("_", text)[:MAX_NAME] or "_"


def comment(text: str) -> str:
    """Free text inside a comment: it can neither end the comment nor begin another one."""
    return _UNSAFE_COMMENT.sub("_", text)[: 2 * MAX_NAME]


def word(text: str) -> str:
    """Part of an identifier or file name."""
    return _UNSAFE_WORD.sub("_", text)[:MAX_NAME] or "_"


def unique(names: Iterable[str], shown: Callable[[str], str] = str) -> dict[str, str]:
    """A plain name for each, all different."""
    chosen: dict[str, str] = {}
    taken: set[str] = set()
    for name in names:
        if name in chosen:
            continue
        base, count = plain(shown(name)), 1
        candidate = base
        while candidate in taken:
            count += 1
            candidate = f"{base[: MAX_NAME - 8]}_{count}"
        taken.add(candidate)
        chosen[name] = candidate
    return chosen


def float_literal(value: float) -> str:
    """The nearest float, in digits that read back as exactly that float."""
    single = np.float32(value)
    if not np.isfinite(single):
        return _not_finite(float(single), "f")
    return f"{np.format_float_scientific(single, unique=True, trim='0', exp_digits=1)}f"


def float_literals(values: Sequence[float]) -> Iterable[str]:
    """The same for many, all at once."""
    with np.errstate(over="ignore"):
        singles = np.array(values, np.float32)
    if not np.isfinite(singles).all():
        return map(float_literal, values)
    return (f"{text}f" for text in singles.astype(np.str_).tolist())


def double_literal(value: float) -> str:
    return repr(value) if math.isfinite(value) else _not_finite(value, "")


def _not_finite(value: float, kind: str) -> str:
    if math.isnan(value):
        return f'__builtin_nan{kind}("")'
    return f"{'-' if value < 0 else ''}__builtin_inf{kind}()"


def int_literal(value: int) -> str:
    """A decimal that has its type without a warning; the smallest integers cannot be written as a negated literal."""
    if value < -0x7FFF_FFFF_FFFF_FFFF:
        return "(-0x7fffffffffffffffLL - 1)"
    if value == -0x8000_0000:
        return "(-0x7fffffff - 1)"
    if -0x8000_0000 < value < 0x8000_0000:
        return str(value)
    if 0 <= value < 1 << 32:
        return f"{value}U"
    return f"{value}LL" if value < 1 << 63 else f"{value}ULL"


def int_literals(values: Sequence[int]) -> Iterable[str]:
    """The same for many: most tables hold nothing but plain ones."""
    return map(str if min(values) > -0x8000_0000 and max(values) < 0x8000_0000 else int_literal, values)


def address(value: int) -> str:
    return f"0x{value:08x}UL"


def lines_of(values: Iterable[str], per_line: int, indent: str = "  ") -> str:
    """Comma-separated items, so many on a line."""
    items = list(values)
    rows = (items[k : k + per_line] for k in range(0, len(items), per_line))
    return "".join(f"{indent}{', '.join(row)},\n" for row in rows)
