"""How far a prediction may be off, and because of what."""

from __future__ import annotations

from dataclasses import dataclass

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
    total = network.latency_ms or 1.0
    guessed = sum(step.milliseconds for step in network.steps if not step.known)
    on_cpu = sum(step.milliseconds for step in network.steps if step.known and step.on != NPU)
    outside = sum(step.milliseconds for step in network.steps if "hyper" in step.bound_by.lower())
    npu = total - guessed - on_cpu - outside
    relative = (NPU_ERROR * npu + CPU_ERROR * on_cpu + GUESS_ERROR * (guessed + outside)) / total
    parts = (
        ("in CPU kernels that were measured within 15 %", on_cpu / total),
        ("in CPU kernels that nobody measured", guessed / total),
        ("bound by external RAM, which nobody measured", outside / total),
    )
    return Band(relative, tuple((what, share) for what, share in parts if share > _SMALL))
