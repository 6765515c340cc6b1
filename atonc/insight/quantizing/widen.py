"""Activations of 16 bits where 8 lose most: group after group of tensors, until the outputs are near enough to float.

What a group loses is asked with all others wide: where two break a network, neither alone would mend it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from math import inf, prod
from typing import Any

import numpy as np

from atonc.compiler.plan.policy import LEAST_FUNCTION
from atonc.insight.quantizing.judge import Signal
from atonc.insight.quantizing.mend import Mended, MendOptions
from atonc.insight.quantizing.price import QuantizationPrice, chip_outputs, compiled_model, price_of
from atonc.insight.quantizing.scales import Tuning, WidthPlan
from atonc.insight.quantizing.types import OutputAccuracy, QuantizeOptions, WidePoint
from atonc.insight.quantizing.workbench import TriedModel, Workbench
from atonc.machine.base import progress
from atonc.machine.base.errors import UnsupportedError
from atonc.machine.base.frozen import dataclass

CHIP_SAMPLES = 24  # of those that judge, in the chip's arithmetic
CHIP_FRAMES = 50  # of a network with states
DEARER = 1.25  # times as long may a model take that gets 16 bits by itself; at 1.2 one of six lost 4 % of its boxes
BATCH = 4  # a step adds one group, or a quarter of those that are wide already: large networks end in some twenty steps

WAYS = ((True, True), (True, False), (False, True), (False, False))  # weights rounded by learning, biases mended

Group = tuple[str, ...]


class TargetMissed(UnsupportedError):
    """With 16 bits in all that may have them the outputs are further from float than was asked for."""


@dataclass(frozen=True, eq=False)
class MeasuredWidths:
    """A choice of tensors with what it gave and costs."""

    tuning: Tuning
    layers: Mended
    file: Signal  # of the nodes as they are written, all that is judged
    chip: Signal  # of the outputs in the chip's arithmetic
    cost: QuantizationPrice
    model: Any
    on_cpu: Mapping[str, str]  # layer -> the rule that sent it there

    @property
    def worst_db(self) -> float:
        """The worst output counts, by whichever of both is worse."""
        return min(worst_db(self.file), worst_db(self.chip))


@dataclass(frozen=True, eq=False)
class Widened:
    chosen: MeasuredWidths
    points: tuple[WidePoint, ...]
    wishes: MendOptions  # how its weights were made


class WidthSearch:
    def __init__(self, bench: Workbench, eight: TriedModel, widths: WidthPlan) -> None:
        require_groups(widths, bench.settings.wide)
        self.bench, self.eight, self.widths = bench, eight, widths
        self.target = bench.settings.wide_db
        self.walked = eight.state.walked  # how weights are made
        self.lost_db: Mapping[Group, float] = {}
        self.tried: list[tuple[WidePoint, MeasuredWidths]] = []
        self.kept: list[MeasuredWidths] = []  # one on top of the other

    def run(self) -> Widened:
        """Keeps what wins surely or is near enough; what does neither is tried again together with the next."""
        best = self._noted((), self._judged(self.eight.tuning, self.eight.layers))
        self.kept.append(best)
        if not self._met(best):
            every = self._every()
            self._require_possible(every)
            self._climb(every)
        points = tuple(
            replace(point, kept=any(one is kept for kept in self.kept), chosen=one is self.kept[-1])
            for point, one in self.tried
        )
        return Widened(self.kept[-1], points, self.walked)

    def _every(self) -> MeasuredWidths:
        """All that may be wide is. Weights are all that is left to lose then: how they are rounded is asked anew."""
        wide = frozenset(name for group in self.widths.groups for name in group)
        settings, found = self.bench.settings, self._measured(wide)
        for wishes in (MendOptions(*way) for way in WAYS):
            allowed = settings.correct_rounding >= wishes.rounding and settings.correct_bias >= wishes.biases
            if wishes == self.eight.state.walked or not allowed:
                continue
            before, self.walked = self.walked, wishes
            trial = self._measured(wide)
            if trial.worst_db > found.worst_db:
                found = trial
            else:
                self.walked = before
        return found

    def _climb(self, every: MeasuredWidths) -> None:
        waiting, size, failed = self._ordered(every), 1, 0
        while not self._met(self.kept[-1]):
            batch = waiting[:size]
            trial = self._noted(batch, every if len(batch) == len(waiting) else self._with(batch))
            if self._met(trial):
                self.kept.append(self._fewest(batch, trial, failed))
            elif self.tried[-1][0].gain_db[0] > 0:
                self.kept.append(trial)
                waiting = [group for group in waiting if not trial.tuning.wide.issuperset(group)]
                size, failed = max(1, sum(map(trial.tuning.wide.issuperset, self.widths.groups)) // BATCH), 0
            else:
                size, failed = min(2 * size, len(waiting)), len(batch)

    def _fewest(self, batch: Sequence[Group], found: MeasuredWidths, failed: int) -> MeasuredWidths:
        """The least of the batch that is near enough: large batches overshoot. As many as `failed` were not."""
        low, high = failed, len(batch)
        while high - low > 1:
            middle = (low + high) // 2
            trial = self._noted(batch[:middle], self._with(batch[:middle]))
            if self._met(trial):
                high, found = middle, trial
            else:
                low = middle
        return found

    def _require_possible(self, every: MeasuredWidths) -> None:
        if not self._met(every):
            reached = every.worst_db
            most = np.floor(reached * 10) / 10  # that may be asked for instead, if anything
            instead = f"ask for that much: --wide {most:g}, or " if most > 0 else "look at the samples (outliers?), or "
            raise TargetMissed(
                f"with 16 bits wherever they are known to run the worst output reaches {reached:.2f} dB "
                f"({share(reached):.3g} % of float), with 8 bits {self.tried[0][0].worst_db:.2f} dB",
                where=f"--wide {self.bench.settings.wide}",
                rule="weights keep 8 bits, and so do softmax, functions of less than "
                f"{LEAST_FUNCTION:,} values, which would run on the CPU, and what is next to them",
                remedy=f"{instead}train with quantisation",
            )

    # ---------------------------------------------------------------------------------------------------- measuring

    def _measured(self, wide: frozenset[str]) -> MeasuredWidths:
        tuning = replace(self.eight.tuning, wide=wide)
        with progress.part(f"16 bits in {len(wide)} tensors"):
            return self._judged(tuning, self.bench.mended(tuning, self.walked))

    def _with(self, batch: Sequence[Group]) -> MeasuredWidths:
        wide = self.widths.closed(self.kept[-1].tuning.wide.union(*batch))
        before = next((one for _, one in self.tried if one.tuning.wide == wide), None)
        return before or self._measured(wide)

    def _judged(self, tuning: Tuning, layers: Mended) -> MeasuredWidths:
        """What the compiler refuses cannot be judged: its error is the user's."""
        model, judge = self.bench.model(tuning, layers), self.bench.judge
        compiled = compiled_model(model, self.bench.settings.board)
        apart = 1 if judge.carried.states else -(-len(judge.feeds) // CHIP_SAMPLES)  # states go on from frame to frame
        places = range(0, len(judge.feeds), apart)[: CHIP_SAMPLES if apart > 1 else CHIP_FRAMES]
        found = chip_outputs(compiled, [judge.feeds[place] for place in places], judge.carried, judge.shown)
        chip = judge.signal_of_outputs(places, found)
        on_cpu = {reason.node: reason.rule.id for reason in compiled.choices.reasons}
        return MeasuredWidths(tuning, layers, judge.signal(model), chip, price_of(compiled), model, on_cpu)

    def _met(self, found: MeasuredWidths) -> bool:
        return found.worst_db >= self.target

    def _noted(self, batch: Sequence[Group], trial: MeasuredWidths) -> MeasuredWidths:
        """Its figures stand beside those of what was kept before it; once."""
        if any(one is trial for _, one in self.tried):
            return trial
        before = self.kept[-1] if self.kept else trial
        gain = trial.chip.gain_over(before.chip)
        times = trial.cost.milliseconds or 0.0, before.cost.milliseconds or 0.0
        slow = {name: rule for name, rule in trial.on_cpu.items() if name not in before.on_cpu}
        point = WidePoint(
            tensors=tuple(sorted(trial.tuning.wide - before.tuning.wide)),
            wide=len(trial.tuning.wide),
            snr_db=trial.chip.db,
            interval_db=trial.chip.interval(),
            worst_db=trial.worst_db,
            gain_db=gain,
            lost_db=max((self.lost_db[group] for group in batch), default=None),
            milliseconds=times[0],
            price_ms=round(times[0] - times[1], 4),
            edges_ms=trial.cost.edges_ms,
            edges_saved_by=trial.cost.edges_saved_by,
            on_cpu=tuple(f"{name} ({rule})" for name, rule in slow.items()),
        )
        self.tried.append((point, trial))
        return trial

    # ------------------------------------------------------------------------------------------------------ ordering

    def _ordered(self, every: MeasuredWidths) -> list[Group]:
        """By what each group loses with 8 bits among wide ones, on samples to learn from; the largest first."""
        judge = self.bench.few_learners()
        base, found = judge.signal(every.model).db, dict[Group, float]()
        for index, group in enumerate(self.widths.groups):
            progress.stage("what each tensor loses with 8 bits", index, len(self.widths.groups))
            tuning = replace(every.tuning, wide=every.tuning.wide - set(group))
            found[group] = base - judge.signal(self.bench.model(tuning, every.layers)).db
        self.lost_db = found
        return sorted(found, key=lambda group: -found[group])


def affordable(bench: Workbench, tried: TriedModel, widths: WidthPlan) -> frozenset[str]:
    """As many groups as cost little time, those first which save most for their size; perhaps none."""
    groups, shapes, judge = widths.groups, bench.graph.shapes, bench.few_learners()
    every = frozenset(name for group in groups for name in group)

    def model(wide: Collection[str]) -> Any:
        return bench.model(replace(tried.tuning, wide=frozenset(wide)), tried.layers)

    base, worth = judge.signal(model(every)).db, dict[Group, float]()
    for index, group in enumerate(groups):
        progress.stage("what each tensor loses with 8 bits", index, len(groups))
        worth[group] = (base - judge.signal(model(every - set(group))).db) / sum(prod(shapes[name]) for name in group)
    order = sorted(worth, key=lambda group: -worth[group])
    found, low, high = frozenset[str](), 0, len(order) + 1
    while high - low > 1:
        middle = (low + high) // 2
        wide = widths.closed({name for group in order[:middle] for name in group})
        if (bench.priced(model(wide)).milliseconds or inf) <= DEARER * (tried.candidate.milliseconds or 0.0):
            found, low = wide, middle
        else:
            high = middle
    return found


def worst_db(signal: Signal) -> float:
    """Signal to noise of the worst column: an output, a part of one, or what a saturating one is computed from."""
    return min(column.db for column in signal.by_column)


def missed(figures: Sequence[OutputAccuracy], settings: QuantizeOptions) -> list[str]:
    """A note where the written outputs miss what the steps reached."""
    worst = min(one.snr_db for one in figures)
    if worst >= settings.wide_db:
        return []
    return [f"over all samples the worst output has {worst:.1f} dB, less than the {settings.wide_db:.1f} dB that "
            "--wide asks for: its steps judge by a part of the samples; ask for more"]  # fmt: skip


def share(db: float) -> float:
    """The error's amplitude in percent of that of float."""
    return float(100 * 10 ** (-db / 20))


def require_groups(widths: WidthPlan, wide: str) -> None:
    if not widths.groups:
        raise UnsupportedError(
            "no activation may have 16 bits",
            where=f"--wide {wide}",
            rule="tensors that convolutions, dense layers, sums, products and means read or write may",
            remedy="leave --wide out",
        )
