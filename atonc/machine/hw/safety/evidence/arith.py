"""Which features of an ARITH are compared with published programs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from operator import attrgetter

from atonc.machine.hw.memoise import memoise
from atonc.machine.hw.safety.evidence.grades import Named
from atonc.machine.hw.safety.evidence.modes import mode
from atonc.machine.hw.safety.mode_keys import broadcast
from atonc.machine.hw.units.arith import AFFINE, CLIP, MULTIPLY, ROWS, WINDOW_ROWS, ArithConfig

ANY_VALUE: dict[str, str] = {}
_NAMES = {AFFINE: "AFFINE", MULTIPLY: "MUL", CLIP: "CLIP"}


_SETTINGS = attrgetter(*(f.name for f in fields(ArithConfig) if f.name != "table"))


def likeness(c: ArithConfig) -> tuple[object, ...]:
    """What the features depend on: of a table only how far its numbers reach."""
    return (*_SETTINGS(c), _extremes(c) if c.is_vector else ())


def operation(c: ArithConfig) -> str:
    name = _NAMES.get(c.operation, str(c.operation))
    return f"{name}{' dual' if c.dual_input else ''}"


def features(c: ArithConfig) -> Iterator[Named]:
    yield mode(c)
    inputs = (c.shift_x, c.shift_y, c.round_y, c.saturate_y, c.round_mode_x, c.round_mode_y)
    yield "LOGICALOP, shifts and rounding of inputs", "", _words(c.logical, *inputs)
    yield from _coefficients(c)
    role = f"{operation(c)} X{c.bytes_x}{f' Y{c.bytes_y}' if c.dual_input else ''}"
    yield from (("SHIFT AX", role, c.shift_a), ("SHIFT BY", role, c.shift_b), ("SHIFT C", role, c.shift_c))
    yield "SHIFT RES", f"{role} O{c.out_bytes}", c.shift_out
    yield from _walk(c)
    if c.clip_out or c.operation == CLIP:
        role = f"{operation(c)}{' CLIPOUT' if c.clip_out else ''}"
        yield from (("CLIPMIN", role, c.clip_min), ("CLIPMAX", role, c.clip_max))
    else:
        yield "CLIPRANGE unused", "", _words(c.clip_min, c.clip_max)


def _coefficients(c: ArithConfig) -> Iterator[Named]:
    if c.operation == MULTIPLY:
        yield "A B C", operation(c), _words(c.a, c.b, c.c)
        return
    role = f"{operation(c)} X{c.bytes_x}"
    if not c.is_vector:
        yield from (("A", role, c.a), ("B", role, c.b), ("C", role, c.c))
        return
    for letter, least, most in zip("ABC", *_extremes(c), strict=True):
        yield f"{letter} of a table", role, least
        yield f"{letter} of a table", role, most


@memoise
def _extremes(c: ArithConfig) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The least and the greatest of each column of the table, as far as it is in use."""
    rows = c.rows()[: table_rows(c)]
    return (tuple(rows.min(axis=0).tolist()), tuple(rows.max(axis=0).tolist())) if len(rows) else ((0,) * 3,) * 2


def table_rows(c: ArithConfig) -> int:
    """Rows of coefficients in use."""
    if c.count3:
        return -c.offset3 % ROWS + 1
    return c.reset1_every + 1 if c.step else 1


def _walk(c: ArithConfig) -> Iterator[Named]:
    """How the coefficient row follows the elements."""
    role = broadcast(c)
    switches = (c.vector_a, c.vector_b, c.vector_c, c.count1, c.count2, c.count3)
    yield "COEFF and CNT switches", role, _words(*switches, c.step_every, c.step, c.start_row)
    if not c.is_vector:
        rest = (c.reset1_every, c.reset2_every, c.reset3_every, c.offset1, c.offset2, c.offset3)
        yield "counters unused", "", _words(*rest, c.translate)
        return
    batch = c.reset1_every + 1
    back = (c.offset1 + c.reset1_every) % ROWS
    yield "OFFSET1 + RSTCNT1, OFFSET2", role, _words(back, c.offset2)
    yield "coefficient rows", role, table_rows(c)
    size = "more than" if table_rows(c) > WINDOW_ROWS else "at most"
    yield "TRANSLATEADDR", f"{size} {WINDOW_ROWS} rows", str(c.translate)
    if not c.count3:
        yield "RSTCNT2, RSTCNT3, OFFSET3", role, _words(c.reset2_every, c.reset3_every, c.offset3)
        return
    yield from (("batch", role, batch), ("pixels", role, (c.reset2_every + 1) // batch))
    whole = ((c.reset2_every + 1) % batch, (c.reset3_every + 1) % (c.reset2_every + 1), table_rows(c) % batch)
    yield "whole batches, groups, rows", role, _words(*(int(bool(rest)) for rest in whole))
    groups = (c.reset3_every + 1) // (c.reset2_every + 1) == -(-table_rows(c) // batch)
    yield "as many groups as rows ask for", role, str(groups)


def _words(*values: int) -> str:
    return " ".join(map(str, values))
