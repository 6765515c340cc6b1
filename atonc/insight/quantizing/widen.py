"""Activations of 16 bits where 8 lose most: group after group of tensors, until the outputs are near enough to float.

What a group loses is asked with all others wide: where two break a network, neither alone would mend it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from atonc.insight.quantizing.assign import Tuning
from atonc.insight.quantizing.judge import QuantizationJudge
from atonc.insight.quantizing.mend import Mended
from atonc.insight.quantizing.narrow import ASKED_SAMPLES, EightBits, Workbench
from atonc.insight.quantizing.price import QuantizationPrice, price
from atonc.insight.quantizing.signal import Signal, decibels
from atonc.insight.quantizing.types import WidePoint
from atonc.insight.quantizing.wide_forms import WidthPlan
from atonc.machine.base import progress
from atonc.machine.base.errors import CapacityError, UnsupportedError
from atonc.machine.base.frozen import dataclass

BATCH = 4  # a step adds one group, or a quarter of those that are wide already: large networks end in some twenty steps

Group = tuple[str, ...]


@dataclass(frozen=True, eq=False)
class MeasuredWidths:
    """A choice of tensors with what it gave and costs."""

    tuning: Tuning
    layers: Mended
    signal: Signal
    cost: QuantizationPrice
    model: Any


@dataclass(frozen=True, eq=False)
class Widened:
    chosen: MeasuredWidths
    points: tuple[WidePoint, ...]


class WidthSearch:
    def __init__(self, bench: Workbench, eight: EightBits, widths: WidthPlan) -> None:
        self.bench, self.eight, self.widths = bench, eight, widths
        self.target = bench.settings.wide_db
        self.lost_db: Mapping[Group, float] = {}
        self.points: list[WidePoint] = []

    def run(self) -> Widened:
        """Keeps what wins surely; what does not is tried again together with the next."""
        best = self._start()
        self.points.append(self._point((), best, best))
        if self._met(best.signal):
            return self._widened(best)
        every = self._measured(frozenset(name for group in self.widths.groups for name in group))
        self._require_possible(every)
        waiting, size = self._ordered(every), 1
        while not self._met(best.signal):
            batch = waiting[:size]
            wanted = best.tuning.wide.union(*batch)
            trial = every if len(batch) == len(waiting) else self._measured(self.widths.closed(wanted))
            point = self._point(batch, trial, best)
            self.points.append(point)
            if point.kept or trial is every:
                best = trial
                waiting = [group for group in waiting if not best.tuning.wide.issuperset(group)]
                size = max(1, sum(map(best.tuning.wide.issuperset, self.widths.groups)) // BATCH)
            else:
                size = min(2 * size, len(waiting))
        return self._widened(best)

    def _require_possible(self, every: MeasuredWidths) -> None:
        if not self._met(every.signal):
            reached = worst_db(every.signal)
            raise CapacityError(
                f"with 16 bits wherever they are known to run the worst output reaches {reached:.2f} dB "
                f"({share(reached):.3g} % of float), with 8 bits {worst_db(self.eight.signal):.2f} dB",
                where=f"--wide {self.bench.settings.wide}",
                rule="inputs and outputs of the model, functions by table and weights keep 8 bits",
                remedy=f"ask for that much: --wide {np.floor(reached * 10) / 10:g}, or train with quantisation",
            )

    # ---------------------------------------------------------------------------------------------------- measuring

    def _start(self) -> MeasuredWidths:
        eight = self.eight
        model = self.bench.model(eight.tuning, eight.layers)
        return MeasuredWidths(eight.tuning, eight.layers, eight.signal, eight.cost, model)

    def _measured(self, wide: frozenset[str]) -> MeasuredWidths:
        tuning = replace(self.eight.tuning, wide=wide)
        with progress.part(f"16 bits in {len(wide)} tensors"):
            layers = self.bench.mended(tuning, self.eight.walked)
            model = self.bench.model(tuning, layers)
            cost = price(model, self.bench.settings.board)
            return MeasuredWidths(tuning, layers, self.bench.judge.signal(model), cost, model)

    def _met(self, signal: Signal) -> bool:
        return worst_db(signal) >= self.target

    def _point(self, batch: Sequence[Group], trial: MeasuredWidths, before: MeasuredWidths) -> WidePoint:
        """Measured against what was kept before it; a program that the compiler refuses is not kept."""
        gain = trial.signal.gain_over(before.signal)
        refused = bool(trial.cost.refusal) and not before.cost.refusal
        times = trial.cost.milliseconds, before.cost.milliseconds
        return WidePoint(
            tensors=tuple(sorted(trial.tuning.wide - before.tuning.wide)),
            wide=len(trial.tuning.wide),
            snr_db=trial.signal.db,
            worst_db=worst_db(trial.signal),
            gain_db=gain,
            lost_db=max((self.lost_db[group] for group in batch), default=None),
            milliseconds=times[0],
            price_ms=None if times[0] is None or times[1] is None else round(times[0] - times[1], 4),
            kept=not batch or (gain[0] > 0 and not refused),
        )

    # ------------------------------------------------------------------------------------------------------ ordering

    def _ordered(self, every: MeasuredWidths) -> list[Group]:
        """By what each group loses with 8 bits among wide ones, on samples to learn from; the largest first."""
        feeds = self.bench.learn[:: -(-len(self.bench.learn) // ASKED_SAMPLES)]
        judge = QuantizationJudge.of(self.bench.graph, feeds)
        base, found = judge.signal(every.model).db, dict[Group, float]()
        for index, group in enumerate(self.widths.groups):
            progress.stage("what each tensor loses with 8 bits", index, len(self.widths.groups))
            tuning = replace(every.tuning, wide=every.tuning.wide - set(group))
            found[group] = base - judge.signal(self.bench.model(tuning, every.layers)).db
        self.lost_db = found
        return sorted(found, key=lambda group: -found[group])

    def _widened(self, best: MeasuredWidths) -> Widened:
        """The last that was kept is the one."""
        last = max(index for index, point in enumerate(self.points) if point.wide == len(best.tuning.wide))
        self.points[last] = replace(self.points[last], kept=True, chosen=True)
        return Widened(best, tuple(self.points))


def worst_db(signal: Signal) -> float:
    """Signal to noise of the worst column: an output, a part of one, or what a saturating one is computed from."""
    return float(decibels(signal.signal.sum(0)[:, None], signal.noise.sum(0)[:, None]).min())


def share(db: float) -> float:
    """The error's amplitude in percent of that of float."""
    return float(100 * 10 ** (-db / 20))


def require_groups(widths: WidthPlan, wide: str) -> None:
    if not widths.groups:
        raise UnsupportedError(
            "no activation may have 16 bits",
            where=f"--wide {wide}",
            rule="tensors between convolutions, dense layers, sums, products and means may; inputs and outputs stay",
            remedy="leave --wide out",
        )
