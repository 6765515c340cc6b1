"""Weights of 4 bits on top of a finished int8 model: how they are rounded, in which layers they pay, and what each
choice loses. Every point is a whole walk through the network, judged on samples that taught nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from atonc.compiler.ir import Array
from atonc.insight.quantizing.graph import FloatGraph, LinearLayer
from atonc.insight.quantizing.judge import Signal, decibels
from atonc.insight.quantizing.mend import Mended, MendOptions
from atonc.insight.quantizing.scales import Tuning
from atonc.insight.quantizing.types import ANY_LOSS, PrecisionPoint, TensorPrecision
from atonc.insight.quantizing.weights import by_channel
from atonc.insight.quantizing.workbench import NOTHING, TriedModel, Workbench
from atonc.machine.base import progress
from atonc.machine.base.errors import CapacityError, InputError, UnsupportedError
from atonc.machine.base.frozen import dataclass
from atonc.machine.base.words import count

LEAST_WEIGHTS = 512  # fewer would save less than the table of a layer's scales takes
BIAS_BYTES = 4
MOST_CHOICES = 30  # that are looked at in search of layers that may have 4 bits together
HOPELESS_DB = 1.5  # beyond the loss that is allowed: what one half of the samples says so clearly needs no other
EIGHT_ONLY = frozenset[str]()  # no layer has 4 bits


@dataclass(frozen=True, eq=False)
class NarrowLayer:
    """What a layer's weights of 4 bits save and cost."""

    name: str
    worth: float  # flash and time that are saved, as shares of the whole network
    noise: Array  # that it adds to each output that is judged, alone


def why_eight(graph: FloatGraph, layer: LinearLayer) -> str:
    """Why the weights keep 8 bits; empty where they may have 4."""
    stored = graph.constants[layer.weights]
    if layer.groups > 1:
        return "depthwise or in groups: no ST program has 4 bits there"
    if layer.kind not in ("Conv", "Gemm") or (layer.kind == "Conv" and stored.ndim != 4):
        return f"{layer.kind}: no published file has 4 bits there"
    if stored.size < LEAST_WEIGHTS:
        return f"fewer than {LEAST_WEIGHTS} weights"
    return ""


def cheapest_first(layers: Sequence[NarrowLayer], signal: Array, noise: Array) -> tuple[str, ...]:
    """One layer after the other: the one whose noise, added to what there is, costs the fewest dB for its worth."""
    left, found = list(layers), []
    while left:
        now = decibels(signal, noise)
        costs = [float(now - decibels(signal, noise + layer.noise)) / layer.worth for layer in left]
        taken = left.pop(int(np.argmin(costs)))
        noise = noise + taken.noise
        found.append(taken.name)
    return tuple(found)


def as_many_as_fit(order: Sequence[str], fits: Callable[[frozenset[str]], bool]) -> frozenset[str]:
    """Layers in their order, as many at once as fit beside those that were taken before.

    One that does not fit in that company is left out, and those behind it in the order still have their turn.
    """
    taken, batches = frozenset[str](), [tuple(order)]
    while batches:
        batch = batches.pop()
        if fits(taken.union(batch)):
            taken = taken.union(batch)
        elif len(batch) > 1:
            half = len(batch) // 2
            batches += [batch[half:], batch[:half]]
    return taken


@dataclass(frozen=True, eq=False)
class MeasuredChoice:
    """A choice of layers with what it gave."""

    point: PrecisionPoint
    tuning: Tuning
    layers: tuple[Mended, ...]  # that either half of the samples taught
    both: Signal  # either half judges what the other taught


@dataclass(frozen=True, eq=False)
class Narrowed:
    chosen: MeasuredChoice
    wishes: MendOptions  # how its weights were made
    points: tuple[PrecisionPoint, ...]
    alone_db: Mapping[str, float]
    max_flash: int = 0  # that was to be met

    @property
    def notes(self) -> tuple[str, ...]:
        """What somebody who asked for 4 bits should know of a model that has none."""
        if self.chosen.tuning.four:
            return ()
        all_four, eight = self.points[-1], self.points[0]
        if self.max_flash:
            return (f"no weights need 4 bits: with 8 the constants take {eight.flash_bytes:,} of the "
                    f"{self.max_flash:,} bytes that are allowed",)  # fmt: skip
        return (f"no weights have 4 bits: none keep within the loss (--max-loss none: {100 * all_four.share:.0f} % of "
                f"the weights, {eight.snr_db - all_four.snr_db:.1f} dB lost)",)  # fmt: skip


class PrecisionSearch:
    """`eight`: the model to start from, which the workbench holds."""

    def __init__(self, bench: Workbench, eight: TriedModel) -> None:
        self.bench, self.eight = bench, eight
        layers = [layer for layer, _ in eight.layers.values() if not why_eight(bench.graph, layer)]
        self.saved = {layer.name: int(bench.graph.constants[layer.weights].size // 2) for layer in layers}  # bytes
        held = (weights.codes.size + BIAS_BYTES * len(weights.bias) for _, weights in eight.layers.values())
        in_flash = bench.priced(eight.model, "all").flash_bytes  # 4 bits are unpacked into RAM
        self.whole_bytes = sum(held) if in_flash is None else in_flash
        self.walked = eight.state.walked
        self.eight_alone = bench.judge.signal(eight.model)  # by the half that judges first
        self.wishes = MendOptions(self.walked.rounding, self.walked.biases)
        self.order: tuple[str, ...] = tuple(self.saved)
        self.alone_db: dict[str, float] = {}
        self.made: dict[frozenset[str], MeasuredChoice] = {}  # by the layers with 4 bits
        self.hopeless = set[frozenset[str]]()  # which lose far too much

    def run(self) -> Narrowed:
        settings = self.bench.settings
        self._require_possible()
        eight = self.eight
        self.made[EIGHT_ONLY] = self._judged(eight.tuning, [half.layers for half in self.bench.halves])
        if not self.saved:
            return self._narrowed(self.made[EIGHT_ONLY])
        self.made[frozenset(self.order)] = self._ways()
        if settings.four_bits_loss_db == ANY_LOSS and not settings.max_flash:
            return self._narrowed(self.made[frozenset(self.order)])
        self.order = self._ordered()
        return self._narrowed(self._smallest_flash() if settings.max_flash else self._largest_share())

    def _require_possible(self) -> None:
        settings, least = self.bench.settings, self.flash(tuple(self.saved))
        if not self.saved and not settings.max_flash:
            raise UnsupportedError(
                "no layer may have weights of 4 bits",
                where=f"--bits {settings.precision}",
                rule=f"convolutions without groups and dense layers with {LEAST_WEIGHTS} weights or more may; of "
                "others nothing is known",
                remedy="leave --bits out",
            )
        if settings.max_flash and least > settings.max_flash:
            raise CapacityError(
                f"the constants take {least:,} bytes even with 4 bits wherever that is known to run",
                where=f"--max-flash {settings.max_flash}",
                rule=f"with 8 bits they take {self.whole_bytes:,}",
                remedy="allow that much, or take a smaller network",
            )
        if settings.max_changed is not None and not self.bench.judge.class_outputs:
            raise InputError(
                "no output is a row of classes",
                where=f"--max-loss {settings.max_loss}",
                rule="percent counts samples whose first class changes",
                remedy="give the loss in dB, for example --max-loss 1.5",
            )

    # ---------------------------------------------------------------------------------------------------- measuring

    def flash(self, names: Iterable[str]) -> int:
        """Bytes of constants, with weights of 4 bits in these layers."""
        return self.whole_bytes - sum(self.saved[name] for name in names)

    def _tuning(self, names: Iterable[str]) -> Tuning:
        return replace(self.eight.tuning, four=frozenset(names))

    def measure(self, names: Iterable[str], most_lost: float = ANY_LOSS) -> MeasuredChoice | None:
        """Nothing for a choice that loses more on the samples that judge; the other half is not asked then."""
        tuning = self._tuning(names)
        if tuning.four not in self.made:
            with progress.part(f"4 bits in {count(len(tuning.four), 'layer')}"):
                found = self.bench.mended(tuning, self.wishes)
                one = self.bench.judge.signal(self.bench.model(tuning, found))
                if self.bench.settings.max_changed is None and one.db < self.eight_alone.db - most_lost:
                    self.hopeless.add(tuning.four)
                    return None
                more = [half.mended(tuning, self.wishes) for half in self.bench.halves[1:]]
                self.made[tuning.four] = self._judged(tuning, [found, *more])
        return self.made[tuning.four]

    def _judged(self, tuning: Tuning, layers: Sequence[Mended]) -> MeasuredChoice:
        """One walk is luck by half a decibel or more: so either half of the samples teaches one.

        What is written in the end is learnt from all samples, so what the choice costs counts, not what one walk does.
        """
        both, changed = self.bench.verdict(self.bench.models(tuning, layers))
        before = self.made[EIGHT_ONLY].both if self.made else both
        gain, hidden = both.gain_over(before), both.unclipped.gain_over(before.unclipped)
        values = {name: weights.codes.size for name, (_, weights) in self.eight.layers.items()}
        share = sum(values[name] for name in tuning.four) / max(sum(values.values()), 1)
        asked = None if self.bench.settings.max_changed is None else changed
        flash, loss = self.flash(tuning.four), both.unclipped.db - before.unclipped.db
        point = PrecisionPoint(
            len(tuning.four), share, flash, both.db, both.interval(), gain, (loss, hidden[0], hidden[1]), asked
        )
        return MeasuredChoice(point, tuning, tuple(layers), both)

    # ------------------------------------------------------------------------------------------------------ rounding

    def _ways(self) -> MeasuredChoice:
        """All layers that may have 4 bits, rounded to the nearest, then by what each way gains surely."""
        settings, tuning, walked = self.bench.settings, self._tuning(self.order), self.walked
        named = {f"weights of 4 bits in {len(self.order)} layers, nearest rounding": NOTHING}
        if settings.correct_bias:
            named["4 bits: biases corrected"] = MendOptions(walked.rounding, True)
        if settings.correct_rounding:
            by_output = MendOptions(walked.rounding, settings.correct_bias, four_bits=True)
            named["4 bits: weights rounded by the layer's output"] = by_output
            named["4 bits: layers compensate errors of earlier layers"] = replace(by_output, ahead=True)
        best: MeasuredChoice | None = None
        for name, wishes in named.items():
            with progress.part(name):
                found = self._judged(tuning, self.bench.walk(tuning, wishes))
            if self.bench.better(name, found.both, None if best is None else best.both):
                best, self.wishes = found, wishes
        assert best is not None
        return best

    # ------------------------------------------------------------------------------------------------------ choosing

    def _ordered(self) -> tuple[str, ...]:
        """By what each layer costs alone, behind layers of 8 bits, on samples to learn from."""
        judge, layers = self.bench.few_learners(), self.eight.layers
        alone = self.bench.mended(self._tuning(self.order), self.wishes, layers)
        base = judge.signal(self.bench.model(self.eight.tuning, layers))
        found, cost = [], self.eight.cost
        for index, name in enumerate(self.order):
            progress.stage("what each layer costs with 4 bits", index, len(self.order))
            seen = judge.signal(self.bench.model(self.eight.tuning, {**layers, name: alone[name]}))
            self.alone_db[name] = base.db - seen.db
            extra = np.maximum(seen.noise.sum(0) - base.noise.sum(0), 0.0)
            # flash that bounds a layer takes half as long where engines read 4 bits
            time = cost.flash_bound.get(name, 0) / 2 / cost.cycles if cost.cycles else 0.0
            found.append(NarrowLayer(name, self.saved[name] / max(self.whole_bytes, 1) + time, extra))
        return cheapest_first(found, base.signal.sum(0), base.noise.sum(0))

    def _allowed(self, point: PrecisionPoint) -> bool:
        """By one standard error, half of its interval: of many choices the largest that seems to fit was lucky. With
        clipped values and without: much noise of those hides what 4 bits add."""
        settings = self.bench.settings
        if settings.max_changed is not None:
            return point.changed is not None and point.changed <= settings.max_changed + 1e-9
        mean, least = point.snr_db - self.made[EIGHT_ONLY].point.snr_db, point.gain_db[0]
        return min(mean + least, sum(point.unclipped_db[:2])) / 2 >= -settings.four_bits_loss_db

    def _fits(self, names: frozenset[str]) -> bool:
        if names in self.hopeless or (names not in self.made and len(self.made) + len(self.hopeless) >= MOST_CHOICES):
            return False
        found = self.measure(names, self.bench.settings.four_bits_loss_db + HOPELESS_DB)
        return found is not None and self._allowed(found.point)

    def _smallest_flash(self) -> MeasuredChoice:
        """The best that fits; with a loss of the user's own, one that keeps to it."""
        settings = self.bench.settings
        fits = next(n for n in range(len(self.order) + 1) if self.flash(self.order[:n]) <= settings.max_flash)
        self.measure(self.order[:fits])
        room = [one for one in self.made.values() if one.point.flash_bytes <= settings.max_flash]
        best = max(room, key=lambda one: (one.point.snr_db, -one.point.flash_bytes))
        allowed = [one for one in room if self._allowed(one.point)] if settings.max_loss else [best]
        if not allowed:
            raise CapacityError(
                f"within {settings.max_flash:,} bytes the least loss is up to {-best.point.gain_db[0]:.2f} dB "
                "against 8 bits",
                where=f"--max-loss {settings.max_loss}",
                remedy="allow more loss or more flash, or give one of the two alone",
            )
        return max(allowed, key=lambda one: (one.point.snr_db, -one.point.flash_bytes))

    def _largest_share(self) -> MeasuredChoice:
        """The least flash of all that was measured and loses no more than is allowed."""
        as_many_as_fit(self.order, self._fits)
        allowed = [one for names, one in self.made.items() if self._allowed(one.point) or not names]
        return min(allowed, key=lambda one: (one.point.flash_bytes, -one.point.snr_db))

    def _narrowed(self, chosen: MeasuredChoice) -> Narrowed:
        points = sorted(self.made.values(), key=lambda one: (-one.point.flash_bytes, -one.point.snr_db))
        marked = tuple(replace(one.point, chosen=one is chosen) for one in points)
        return Narrowed(chosen, self.wishes, marked, self.alone_db, self.bench.settings.max_flash)


def tensors_of(graph: FloatGraph, layers: Mended, alone_db: Mapping[str, float]) -> tuple[TensorPrecision, ...]:
    found = []
    for name, (layer, weights) in layers.items():
        real = by_channel(layer, graph.constants[layer.weights].astype(np.float64))
        lost = real - by_channel(layer, weights.codes.astype(np.float64)) * weights.scales[:, None]
        row = TensorPrecision(
            layer=name,
            tensor=layer.weights,
            bits=weights.bits,
            values=int(weights.codes.size),
            size_bytes=-(-weights.codes.size * weights.bits // 8),
            snr_db=float(decibels(*(np.array([np.square(values).sum()]) for values in (real, lost)))),
            alone_db=alone_db.get(name),
            reason=why_eight(graph, layer),
        )
        found.append(row)
    return tuple(found)
