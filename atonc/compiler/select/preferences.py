"""Where an order of preference stands above cycles: which forms, and why the first that is possible is taken.

`choose` compares forms of one rank by `policy.objective`; forms of a later rank are not even drafted once there is one.
Each preference here may leave a faster form untried, so ask of each, now and then, whether it still holds.
"""

from __future__ import annotations

from atonc.machine.base.frozen import dataclass


@dataclass(frozen=True)
class Preference:
    id: str
    because: str


AS_STORED = Preference(
    "as stored before a signed copy",
    "a copy takes an epoch and memory, and is needed only where no form takes the features as stored",
)
SHIFTED_COPY = Preference(
    "the shifted copy before features as stored",
    "whether the copy pays was decided earlier, from tilings and their errors (`dense.lower`)",
)
TYPICAL_ROOM = Preference(
    "room for the sums of typical inputs before room for all",
    "the larger shift rounds more, and is needed only where every other form leaves typical sums too little",
)
FEWEST_STRIPS = Preference("as few strips as possible", "every strip reads the columns at its edges once more")
WIDE_WINDOWS = Preference(
    "units side by side before chains of windows", "a wide kernel then goes through the picture once instead of twice"
)
WITHOUT_COPY = Preference(
    "padding by the unit, then tap by tap, then a padded copy", "in the order of how much more each writes to memory"
)
FEWEST_UNITS = Preference(
    "a gain with its sign before signs first", "both give the same numbers, and signs take a unit of their own"
)
IN_THE_UNIT = Preference(
    "constants of channels in the unit before a stream of them", "the stream has to be read for every pixel"
)
LIKE_2X = Preference(
    "forms of --numerics 2.x in the order of their roundings", "the numbers must be those of ST's releases"
)
SHORTER_STREAMS = Preference(
    "the shorter streams, of slices of channels and bands of rows",
    "a bound without banks ranks them; the calibrated model would choose otherwise in 10 of 84 depthwise layers of "
    "small networks",
)

ALL = (
    AS_STORED, SHIFTED_COPY, TYPICAL_ROOM, FEWEST_STRIPS, WIDE_WINDOWS, WITHOUT_COPY, FEWEST_UNITS, IN_THE_UNIT,
    LIKE_2X, SHORTER_STREAMS,
)  # fmt: skip
