"""Which of several quantised models is taken: by what they lose and how long they take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from atonc.insight.quantizing.price import QuantizationPrice
from atonc.insight.quantizing.signal import Signal
from atonc.insight.quantizing.types import QuantizedCandidate, QuantizeOptions


def candidate_of(name: str, signal: Signal, cost: QuantizationPrice) -> QuantizedCandidate:
    return QuantizedCandidate(name, signal.db, cost.milliseconds, cost.cycles, cost.refusal, span_ms=cost.span_ms)


def slowed(old: QuantizedCandidate, new: QuantizedCandidate) -> float:
    """How many times as long the new one takes."""
    if old.milliseconds is None or new.milliseconds is None:
        return 1.0 if old.milliseconds is None else np.inf
    return new.milliseconds / old.milliseconds


def faster(one: QuantizedCandidate, other: QuantizedCandidate) -> bool:
    if one.milliseconds is None or other.milliseconds is None:
        return other.milliseconds is None and one.milliseconds is not None
    return one.milliseconds < other.milliseconds


def choose(candidates: Sequence[QuantizedCandidate], settings: QuantizeOptions) -> list[QuantizedCandidate]:
    """Marks one: the best signal, or the fastest of those that lose little enough against it."""
    found = allowed(candidates, settings)
    key = min(found, key=lambda c: (c.milliseconds is None, c.milliseconds or 0.0, -c.snr_db))
    return [replace(candidate, chosen=candidate is key) for candidate in candidates]


def allowed(candidates: Sequence[QuantizedCandidate], settings: QuantizeOptions) -> list[QuantizedCandidate]:
    """Those that lose little enough; all of them where speed alone counts."""
    if settings.objective == "speed":
        return list(candidates)
    sound = [candidate for candidate in candidates if candidate.sound]
    least = max(candidate.snr_db for candidate in sound)
    least -= settings.max_loss_db if settings.objective == "balanced" else 0.0
    return [candidate for candidate in sound if candidate.snr_db >= least]
