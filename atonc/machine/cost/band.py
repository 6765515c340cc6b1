"""How far a prediction may be off, and because of what.

The band is a sum over the time of a network: what the measured programs are full of counts little, what they hardly
show counts much. Every entry of `limits` names its evidence; those of constants are the ranges of
`hw/stm32n6.toml`. `benchmarks/hw_cycles.py` counts how many measured times lie inside.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, NamedTuple, Protocol

from atonc.machine.base.frozen import dataclass
from atonc.machine.base.words import ms_digits
from atonc.machine.hw.cycles import doubts
from atonc.machine.hw.machine import MEASURED_WITHIN, stm32n6

NPU_TIME, KERNELS, GUESSES = "NPU epochs", "measured CPU kernels", "unmeasured CPU kernels"
BY_RELEASE = "softmax and resize of ST's library"
_SMALL = 0.005  # shares of the time that are not worth a word
_LEAST = -0.9  # no program takes less than a tenth of what was predicted


class Timed(Protocol):
    """A step of a program, of a cost or of a view."""

    @property
    def cycles(self) -> int: ...
    @property
    def milliseconds(self) -> float: ...
    @property
    def known(self) -> bool: ...
    @property
    def doubts(self) -> Mapping[str, float]: ...


class Limits(NamedTuple):
    """How much less and more of its time there may be than predicted, relative, and the evidence."""

    low: float
    high: float
    why: str


@cache
def limits() -> Mapping[str, Limits]:
    """Lists the limits by topic. Epochs may have several: what each adds counts."""
    constant = stm32n6().doubt
    turn = constant("frame_turn")
    return {
        NPU_TIME: Limits(-0.03, 0.03, "11 of 12 measured programs without CPU kernels are within 3.0 %"),
        KERNELS: Limits(-0.15, 0.15, "layer times of two networks on boards; resize and DMA: one measurement each"),
        GUESSES: Limits(-0.5, 2.0, "a transformer: 2.8 times the estimate; softmax: 22 estimated, 65 cycles measured"),
        BY_RELEASE: Limits(
            -0.21, 0.0, "measured with 2.x; programs of 4.0 are predicted at 0.61 of that; releases between: not "
            "measured",
        ),
        doubts.WORDS: Limits(*constant("controller_word"), "three networks, with and without epoch controller"),
        doubts.CPU_WORDS: Limits(*constant("cpu_before_word"), "`cpu_before_word`: 24 epochs held out, an older build"),
        doubts.SIDE_BY_SIDE: Limits(
            0.0, 0.25, "at most 20 % of the NPU time of any measured program. A keyword spotter with 7 % took 1.7 % "
            "longer than predicted; if these epochs were the only cause, they take 25 % longer",
        ),
        doubts.TURNS: Limits(*turn, "`frame_turn`: three programs of one network, frames of 1 and 4 elements"),
        doubts.LONG_TURNS: Limits(-1.0, turn[1], "at most 3 % of any measured program; the jump may cost nothing"),
        doubts.CACHED: Limits(-0.06, 0.13, "13 recorded epochs: measured / predicted 0.94 to 1.13"),
        doubts.OUTSIDE: Limits(-0.5, 2.0, "the bus allows 400 to 800 MB/s; 400 assumed, not measured"),
        doubts.COPIES: Limits(
            -0.1, 1.0, "not measured while the NPU runs; at half the assumed speed, a copy takes twice as long"
        ),
        doubts.MEASURED: Limits(-MEASURED_WITHIN, MEASURED_WITHIN, "`--evidence`: the lowest cycles of two probes"),
    }  # fmt: skip


@dataclass(frozen=True)
class PredictionBand:
    """Relative: `low` -0.04 and `high` 0.09 say that 96 to 109 % of the predicted time may pass."""

    low: float
    high: float
    parts: tuple[tuple[str, float], ...]  # what is less certain than the NPU's epochs, and its share of the time

    @property
    def relative(self) -> float:
        """The larger side."""
        return max(-self.low, self.high)

    def around(self, milliseconds: float) -> tuple[float, float]:
        return milliseconds * (1 + self.low), milliseconds * (1 + self.high)

    def holds(self, predicted: float, measured: float) -> bool:
        low, high = self.around(predicted)
        return low <= measured <= high

    def span(self, milliseconds: float, digits: int = 0) -> str:
        """`1.74 to 1.98 ms`; as many digits as the time beside it has (`ms_text`)."""
        low, high = self.around(milliseconds)
        digits = max(digits, ms_digits(milliseconds))
        return f"{low:,.{digits}f} to {high:,.{digits}f} ms"

    def as_data(self, milliseconds: float) -> dict[str, Any]:
        """Gives the band in milliseconds, for documents that say `latency_ms`."""
        low, high = self.around(milliseconds)
        return {"latency_low_ms": low, "latency_high_ms": high, "expected_error": round(self.relative, 4)}

    def __str__(self) -> str:
        parts = ", ".join(f"{100 * share:.0f} % in {what}" for what, share in self.parts)
        return f"{100 * self.low:.0f} to +{100 * self.high:.0f} %" + (f"; of the time {parts}" if parts else "")


def band_of(steps: Iterable[tuple[bool, Timed]]) -> PredictionBand:
    """Steps, and of each whether the CPU computes it."""
    spent: defaultdict[str, float] = defaultdict(float)  # milliseconds by topic; an epoch may have several
    total = 0.0
    for on_cpu, step in steps:
        total += step.milliseconds
        known = KERNELS if step.known else GUESSES
        spent[known if on_cpu else NPU_TIME] += step.milliseconds
        for topic, cycles in step.doubts.items():
            spent[topic] += step.milliseconds * cycles / max(1, step.cycles)
    shares = {topic: spent[topic] / (total or 1.0) for topic in limits()}
    low = sum(shares[topic] * limit.low for topic, limit in limits().items())
    high = sum(shares[topic] * limit.high for topic, limit in limits().items())
    named = ((topic, share) for topic, share in shares.items() if topic != NPU_TIME and share > _SMALL)
    return PredictionBand(max(_LEAST, low), high, tuple(named))
