"""Variants of an operator, as values. Decisions store their text; users read their label."""

from __future__ import annotations

import re

from atonc.machine.base.declare import did_you_mean
from atonc.machine.base.frozen import dataclass

_TEXT = re.compile(r"([a-z ]+?)(?: ([1-9][0-9]{0,3}))?(?: within ([a-z ]+))?", re.ASCII)

LABELS = {
    # convolutions: chains of units
    "chains in turn": "one chain after the other",
    "chains beside": "chains side by side",
    "rows beside": "{} parallel chains by rows",
    "kernels beside": "{} parallel chains by kernels",
    "even beside": "{} parallel chains for jobs that end together",
    "rows in turn": "{} parallel chains by rows, one chain after the other",
    "kernels in turn": "2 parallel chains by kernels, as many at a time as writers of ST programs have",
    "pooled rows beside": "2 parallel chains by rows that are pooled together",
    "pooled kernels": "eight kernels a frame",
    "pooled kernels beside": "{} parallel chains of eight kernels a frame",
    # and of blocks of channels
    "slices": "slices of channels",
    "even slices": "{} slices of channels that end together",
    "pooled bands": "two row tiles that are pooled together",
    # groups of channels with a shift of their own
    "few shifts": "as few shifts as rounding allows",
    "many shifts": "a shift for every group of channels that it improves",
    "shifts of words": "as few shifts as rounding allows, for whole words of channels",
    "anywhere": "groups of channels that begin anywhere",
    # pictures and features
    "bands": "row tiles",
    "all rows": "all rows at once",
    "stored features": "features as stored",
    "copied rows": "on a copy of its rows",
    "stored": "on the features as stored",
    "copied without zero": "on a copy of the features without zero point",
    "zero by units": "the zero point subtracted by the units",
    "zero in memory": "explicit padding with the zero point in memory",
    "ring of codes": "windows with a ring on the values as stored",
    "ring of shifted codes": "windows with a ring on value + 128",
    "stride on codes": "windows with stride 2 on the values as stored",
    "stride on shifted codes": "windows with stride 2 on value + 128",
    "channel slices": "{} slices of channels",
    # 16 bits
    "one pass": "values of fewer bits in one pass",
    "finer": "in one pass, {} bits more, input channels in slices",
    "two passes": "high and low bytes",
    "unsigned passes": "high bytes without a sign, and low bytes",
    "one epoch": "both halves in one epoch",
    "two layers": "a layer for each half",
    # sums of two tensors
    "stored vector": "the vector as it is stored",
    "repeated vector": "the vector several times in a row",
    "spread vector": "each value for all channels, written by a convolution",
    # constants for every channel
    "coefficients": "constants as coefficients of the units",
    "stream of constants": "constants as a second stream",
    # means over channels
    "averaged": "averages by the pooling units",
    "summed": "sums by a convolution with equal weights",
}


@dataclass(frozen=True)
class Variant:
    """A row of a table of choices: its name, how many pieces it makes, and the variant that it is a part of."""

    name: str
    count: int = 0
    within: str = ""

    def __str__(self) -> str:
        return self.name + (f" {self.count}" if self.count else "") + (f" within {self.within}" if self.within else "")

    @classmethod
    def read(cls, text: str) -> Variant:
        """What `str` wrote; ValueError says what is wrong with any other text."""
        found = _TEXT.fullmatch(text)
        name, count, within = found.groups() if found else (text, None, None)
        for one in (name, *([within] if within else [])):
            if one not in LABELS:
                raise ValueError(did_you_mean(one, LABELS, f"no variant is called {one[:60]!r}"))
        if ("{}" in LABELS[name]) != bool(count):
            raise ValueError(f"{text[:60]!r} {'says' if count else 'does not say'} how many pieces")
        return cls(name, int(count or 0), within or "")

    @property
    def label(self) -> str:
        """For people."""
        label = LABELS[self.name].format(self.count)
        return f"{label}, {LABELS[self.within]}" if self.within else label
