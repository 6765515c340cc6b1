"""How far a prediction may be off, and because of what."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from atonc.hw.machine import HYPERRAM, kind_of_label
from atonc.insight.types import NPU, NetworkView

# relative errors on networks and kernels that no constant was fitted to; see docs/latency.md
NPU_ERROR, CPU_ERROR, GUESS_ERROR = 0.03, 0.15, 1.0
_SMALL = 0.005  # shares of the time that are not worth a word


@dataclass(frozen=True)
class Band:
    relative: float
    parts: tuple[tuple[str, float], ...]  # what is less certain than the NPU's epochs, and its share of the time

    def __str__(self) -> str:
        parts = ", ".join(f"{100 * share:.0f} % {what}" for what, share in self.parts)
        return f"about {100 * self.relative:.0f} %" + (f"; of the time {parts}" if parts else "")


def error_band(network: NetworkView) -> Band:
    return band_of((step.on == NPU, step.known, step.bound_by, step.milliseconds) for step in network.steps)


def band_of(steps: Iterable[tuple[bool, bool, str, float]]) -> Band:
    """Steps: on the NPU or not, whether its cost was measured, what bounds it, milliseconds."""
    rows = list(steps)
    total = sum(ms for *_, ms in rows) or 1.0
    guessed = sum(ms for _, known, _, ms in rows if not known)
    on_cpu = sum(ms for npu, known, _, ms in rows if known and not npu)
    outside = sum(ms for npu, _, bound_by, ms in rows if npu and kind_of_label(bound_by) == HYPERRAM)
    certain = total - guessed - on_cpu - outside
    relative = (NPU_ERROR * certain + CPU_ERROR * on_cpu + GUESS_ERROR * (guessed + outside)) / total
    parts = (
        ("in CPU kernels that were measured within 15 %", on_cpu / total),
        ("in CPU kernels that nobody measured", guessed / total),
        ("bound by external RAM, which nobody measured", outside / total),
    )
    return Band(relative, tuple((what, share) for what, share in parts if share > _SMALL))
