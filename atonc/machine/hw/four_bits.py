"""Kernels of 4 bits, read by a stream engine: all that is assumed of them, in one place.

Releases from 3.0 on store such weights in half a byte and read them while they stream (30 pairs of models of ST's zoo),
but no program that does so is published. The likeliest form is an engine with SIZE0 = 4, LSBMODE and SIGNEXT: drivers
take it, and half of all published kernel streams have these two flags. Two alternatives are left aligned values and a
codebook in the decompression unit. Six networks that a board ran with 8 and 4 bits at three clock pairs say that half
the bytes come from flash, that whoever reads them gives one value a cycle and that inputs stay three to a word (0.95
likely; benchmarks/results/w4_explained.md), but not which of the three forms it is. Nothing is emulated like this, and
nothing made of it, unless the user asks for it or a board has answered.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from atonc.machine.base.disk import read_file
from atonc.machine.base.errors import InputError
from atonc.machine.base.frozen import dataclass

BITS = 4
LEAST, MOST = -8, 7
PROBABILITY = 0.85  # that engines read kernels in this form, by the evidence above


@dataclass(frozen=True)
class FourBits:
    """How two elements lie in a byte. They follow each other without gaps, also from one set of kernels to the next;
    the last half of an odd count is zero and nobody reads it. A stream begins with a byte."""

    low_first: bool = True  # the first of the two is in the low bits
    deep: bool = False  # three to a word for DEEPMODE too
    confirmed: bool = False  # a board has answered

    @property
    def order(self) -> str:
        return LOW_FIRST if self.low_first else HIGH_FIRST


LOW_FIRST, HIGH_FIRST = "low bits first", "high bits first"
ASSUMED = FourBits()  # without a board: the order that ONNX and TFLite have in their files


_KEY = "four_bits"  # in the description of a build, and in the evidence of a board
_MOST_BYTES = 1 << 26


def saved_row(form: FourBits | None) -> dict[str, Any]:
    """What evidence files and NAME_program.json keep: nothing where no engine reads 4 bits."""
    return {} if form is None else {_KEY: [form.order, form.deep]}


def form_in(row: Mapping[str, Any], confirmed: bool = False) -> FourBits | None:
    """None where it does not say; ValueError where it is damaged."""
    entry = row.get(_KEY)
    if entry is None:
        return None
    known = isinstance(entry, list) and len(entry) == 2 and entry[0] in (LOW_FIRST, HIGH_FIRST)
    if not known or type(entry[1]) is not bool:
        raise ValueError(f"{_KEY} is a list of {LOW_FIRST!r} or {HIGH_FIRST!r}, and whether deep mode has it")
    return FourBits(entry[0] == LOW_FIRST, entry[1], confirmed)


def saved_form(path: Path) -> FourBits | None:
    """What a build was made with; None where it does not say, or is damaged."""
    try:
        root = json.loads(read_file(path, _MOST_BYTES))
        return form_in(root) if isinstance(root, dict) else None
    except (InputError, ValueError, RecursionError):
        return None
