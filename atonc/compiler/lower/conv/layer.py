"""A convolution or dense layer in numbers."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property, partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from atonc.compiler.ir import Op, Tensor
from atonc.compiler.lower.context import Context
from atonc.compiler.lower.conv.chains import FeatureMode, modes
from atonc.compiler.lower.conv.kernel_parts import (
    Phase,
    Ring,
    Sides,
    Sliding,
    Taps,
    has_wide,
    phases,
    stepped,
    transposed_phases,
)
from atonc.compiler.lower.conv.passes_2x import PassShape, channels_a_pass
from atonc.compiler.lower.conv.requantise import (
    SHIFT_CODES,
    Accumulated,
    Coefficients,
    Requantisation,
    TwoSteps,
    ariths_behind,
    best_rules,
    bias_of,
    coefficients,
    cut_costs,
    matters,
    narrowed,
    require_usable,
    tame,
    two_steps,
)
from atonc.compiler.lower.conv.weight_sums import (
    Codes,
    Weights,
    ends,
    expected,
    magnitudes,
    possible,
    reached_sums,
    summed,
    weight_sums,
)
from atonc.compiler.lower.conv.wide_results import line_rules, wide_end, wide_rules
from atonc.compiler.lower.registry import Refusal
from atonc.compiler.lower.sizes import item_bytes
from atonc.compiler.ops.rounding import lift, rounding_of
from atonc.compiler.plan.coarse import CoarseCodes
from atonc.compiler.plan.policy import MOST_PARTS, SAFE_ERROR, USUAL_PART, USUAL_PLACE, NpuRamBudget
from atonc.compiler.plan.streams import Area
from atonc.compiler.select.rules import CONV_PHASES, CONV_SHAPE, CONV_WEIGHTS, INT8_CODES
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.cycles.hardware import CONTROLLER
from atonc.machine.hw.four_bits import LEAST, MOST
from atonc.machine.hw.limits import ALIGNED, SUM_LIMIT, WIDE_ALIGNMENT
from atonc.machine.hw.machine import Machine
from atonc.machine.hw.safety.evidence import Trust
from atonc.machine.hw.target import Target
from atonc.machine.hw.units.arith import ArithConfig

Real = NDArray[np.float64]
T = TypeVar("T")

CUT = "cut"  # of what a layer has worked out before


@dataclass(frozen=True, eq=False)
class ConvLayer:
    """codes = scale[c] * sum((x - zero) * w) + offset[c], then clipped."""

    op: Op
    source: str  # buffers
    target: str
    area: Area
    out: Area
    weights: Weights  # [out, rows, columns, in]
    zero: int
    scale: Real
    offset: Real
    stride: tuple[int, int]
    dilation: tuple[int, int]
    padding: Sides
    clip: tuple[int, int] | None
    out_scale: float
    out_zero: int
    numerics: str
    typical: Callable[[], tuple[Codes, ...]]  # codes of the features for typical inputs, as pictures
    features_shifted: bool  # stored as code + 128, so that zero is 0
    codes_shifted: bool
    room: NpuRamBudget
    made_for: Target
    stored: Callable[[NDArray[np.int64]], NDArray[np.int64]] = lambda codes: codes  # what `source` holds of the input
    usual: float = 0.0  # a typical code of the results of all channels
    cut: int = 0  # columns of a window, where large kernels are cut and rounded as ST's releases 2.x do
    native: bool = True  # stride 2 in the units, else views of every second pixel
    by_taps: bool = False  # every tap of the kernel by itself
    border: Sides = (0, 0, 0, 0)  # what of the area is padding in memory
    anywhere: bool = False  # engines start between aligned addresses, unless it is huge
    sliced: bool = False  # as many chains as it takes for units that take bytes as they are
    all_inputs: bool = False  # sums get room for every input, whatever that costs
    whole_bytes: int = 0  # of the larger tensor, where this is a band of rows
    whole_results: int = 0  # of all rows, where this is a band of them that rounds as all do
    rounds_as: Mapping[int, frozenset[Hashable]] | None = None  # these bands: what all rows do, by output channel
    skipped_bytes: int = 0  # of the result: what comes before the rows that `target` holds
    ring: Ring | None = None  # `out` is what its windows give
    belongs: Area | None = None  # where results lie in the tensor, if `target` is a copy with some channels
    out_bytes: int = 1  # of a result
    coarse: CoarseCodes | None = None  # how features of two bytes are stored; None: they are bytes
    never_negative: bool = False  # no feature of two bytes is below its zero
    coarse_out: CoarseCodes | None = None  # how results of two bytes are stored; None: as codes
    known: dict[tuple[str, Any], Any] = field(default_factory=dict, init=False)  # what was computed before

    @property
    def machine(self) -> Machine:
        return self.made_for.machine

    @property
    def trust(self) -> Trust:
        return self.made_for.trust

    @property
    def origin(self) -> tuple[str, ...]:
        return self.op.origin or (self.op.name,)

    @property
    def outputs(self) -> int:
        return self.weights.shape[0]

    @property
    def large(self) -> bool:
        """May have to lie outside the NPU's own RAM, where engines start at aligned addresses only."""
        return self.largest_bytes > (self.room.huge_bytes if self.anywhere else self.room.large_bytes)

    @property
    def huge(self) -> bool:
        """Does not fit the NPU's own RAM beside what else lives: engines start aligned, whatever that costs."""
        return self.largest_bytes > self.room.huge_bytes

    @property
    def largest_bytes(self) -> int:
        return max(self.area.height * self.area.line, self.out.height * self.out.line, self.whole_bytes)

    @property
    def results(self) -> int:
        return max(self.out.height * self.out.width * self.outputs, self.whole_results)

    @property
    def bands(self) -> float:
        """How many row tiles of this size the whole layer has."""
        return self.results / (self.out.height * self.out.width * self.outputs)

    def shifted(self) -> ConvLayer:
        """The same layer on features stored as code + 128."""
        pictures = self.typical

        def typical() -> tuple[Codes, ...]:
            return tuple(codes + 128 for codes in pictures())

        return replace(self, zero=self.zero + 128, features_shifted=True, typical=typical)

    @property
    def alignment(self) -> int:
        """Parts of the output begin at channels that are multiples of this."""
        return ALIGNED if self.large else 1 if self.out_bytes == 1 else WIDE_ALIGNMENT

    @property
    def reads(self) -> int:
        """Parts of the input begin at channels that are multiples of this."""
        return WIDE_ALIGNMENT if self.coarse is not None else ALIGNED // 2 if self.huge else 1

    @property
    def row_reads(self) -> int:
        """Rows that chains of their own read begin at multiples of so many bytes."""
        return ALIGNED if self.coarse is not None else ALIGNED // 2 if self.huge else 1

    @property
    def magnitudes(self) -> NDArray[np.int64]:
        return np.asarray(np.max([magnitudes(kernel) for kernel in summed(self)], axis=0))

    def runs(self, most: int, step: int = 0) -> list[tuple[int, int]]:
        """Stretches of at most so many output channels: apart from each other those with a weight beyond 8 bits, which
        costs a second unit, and those without. They begin at multiples of `step`."""
        step = step or self.alignment
        wide = has_wide(self.weights)
        if self.outputs <= most and wide.all() == wide.any():
            return [(0, self.outputs)]
        if not most % step and wide.all() == wide.any():
            return [(first, min(most, self.outputs - first)) for first in range(0, self.outputs, most)]
        found: list[tuple[int, int]] = []
        flag, firsts = None, range(0, self.outputs, step)
        for first, own in zip(firsts, np.logical_or.reduceat(wide, firsts).tolist(), strict=True):
            count = min(step, self.outputs - first)
            if found and own == flag and found[-1][1] + count <= most:
                found[-1] = (found[-1][0], found[-1][1] + count)
            else:
                found.append((first, count))
            flag = own
        return found

    def requantisation(self, subtracted: int, roundings: int) -> Requantisation | TwoSteps:
        """For sums in which `subtracted` instead of the zero point was taken from the features, rounded that often."""
        return self.requantisation_of(subtracted, roundings, 0, self.outputs)

    def requantisation_of(self, subtracted: int, roundings: int, first: int, count: int) -> Requantisation | TwoSteps:
        """The same for some output channels; the others do not matter.

        Sums that are rounded on the way may not saturate. What can happen at worst is far from what does happen, so
        where typical inputs are known, a multiple of their sums is provided for.
        """
        key = ("rule", (subtracted, roundings, first, count))
        if key not in self.known:
            self.known[key] = self._rule(subtracted, roundings, first, count)
        found: Requantisation | TwoSteps = self.known[key]
        return found

    def _rule(self, subtracted: int, roundings: int, first: int, count: int) -> Requantisation | TwoSteps:
        if self.numerics == "2.x" and subtracted == self.zero:
            sums = weight_sums(self.weights)
            whole = two_steps(self.scale, self.offset, self.out_scale, self.out_zero, sums, self.clip)
            return whole.channels(first, count)  # one shift for all channels, whatever a unit takes of them
        if 1 < count < self.outputs and self._is_uniform(subtracted, roundings):
            return self.requantisation(subtracted, roundings).channels(first, count)
        return self._rules(subtracted, roundings, first, [count])[0]

    def _is_uniform(self, subtracted: int, roundings: int) -> bool:
        """Whether all channels are alike, as those with assumed weights are."""
        key = ("uniform", (subtracted, roundings > 1))
        if key not in self.known:
            safe = (self.possible(subtracted),) if roundings > 1 else ()
            numbers = (*self._problem(subtracted, roundings, 0, self.outputs), self._usual_codes(), *safe)
            self.known[key] = all((one == one[0]).all() for one in numbers)
        found: bool = self.known[key]
        return found

    def _rules(self, subtracted: int, roundings: int, first: int, counts: list[int]) -> list[Requantisation]:
        """Finds the rules of consecutive runs of output channels. Sums that are rounded on the way get room for every
        input where that costs next to nothing."""
        some = slice(first, first + sum(counts))
        usual = self._usual_codes()[some]
        scale, offset, needed = self._problem(subtracted, roundings, first, sum(counts))
        within = coefficients(self.made_for.trust)
        acc = Accumulated(scale, offset, needed, usual, roundings, self.codes)
        rules = self._best_rules(acc, counts, within)
        if roundings == 1:
            return list(rules)
        worst = replace(acc, needed=self.possible(subtracted)[some])
        safe = self._best_rules(worst, counts, within)
        if self.all_inputs:
            return list(safe)
        return [b if b.mean_error <= max(a.mean_error, SAFE_ERROR) else a for a, b in zip(rules, safe, strict=True)]

    def _best_rules(self, acc: Accumulated, counts: list[int], within: Coefficients) -> Sequence[Requantisation]:
        if self.out_bytes == 1:
            return best_rules(acc, self.clip, counts, within)
        end = wide_end(self.clip, self.coarse_out)
        if self.coarse is None:
            return wide_rules(acc, end, counts, within)
        lines, exact = line_rules(acc, end, counts), wide_rules(acc, end, counts, within)
        return [line or other for line, other in zip(lines, exact, strict=True)]

    @property
    def codes(self) -> int:
        """How many codes a result has."""
        return 1 << 8 * self.out_bytes

    def _usual_codes(self) -> Real:
        """A typical code of the results of each channel: near its bias, and rather on the side of small values."""
        key = ("usual", 0)
        if key not in self.known:
            spread = USUAL_PART * 255.0 * self.scale * self.magnitudes
            self.known[key] = np.clip(self.usual, self.offset - spread, self.offset + spread)
        found: Real = self.known[key]
        return found

    def _problem(self, subtracted: int, roundings: int, first: int, count: int) -> tuple[Real, Real, Real]:
        """Scale and offset of some output channels, and up to where their accumulators may not saturate."""
        key = ("sums that may not saturate" if roundings > 1 else "sums", subtracted)
        if key not in self.known:
            self.known[key] = self._whole_problem(subtracted, roundings)
        scale, offset, needed = self.known[key]
        some = slice(first, first + count)
        return scale[some], offset[some], needed[some]

    def _whole_problem(self, subtracted: int, roundings: int) -> tuple[Real, Real, Real]:
        offset = self.offset + self.scale * weight_sums(self.weights) * (subtracted - self.zero)
        shown = matters(self.scale, offset, self.codes)
        if roundings == 1:
            low, high = ends(self)
            largest = self.magnitudes.astype(np.float64) * max(high - subtracted, subtracted - low)
            return self.scale, offset, np.minimum(largest, shown)
        needed = self.possible(subtracted) if self.numerics == "2.x" else expected(self, subtracted, shown)
        return self.scale, offset, needed

    def possible(self, subtracted: int) -> Real:
        """Per output channel: no input takes any partial sum further."""
        key = ("possible", subtracted)
        if key not in self.known:
            self.known[key] = possible(self, subtracted)
        found: Real = self.known[key]
        return found

    def holds(self, subtracted: int, first: int, count: int) -> bool:
        """Whether no input takes sums of some output channels beyond what units hand on to each other: what the chip
        does then is not known."""
        some = slice(first, first + count)
        return self.numerics == "2.x" or bool(self.possible(subtracted)[some].max(initial=0.0) <= SUM_LIMIT)

    @cached_property
    def pictures(self) -> tuple[Codes, ...]:
        return self.typical()

    def best_cut(self, subtracted: int, roundings: int, first: int, count: int, step: int) -> tuple[float, int]:
        """Where to cut a row of output channels so that both sides get better shifts (a multiple of `step`, 0 for
        nowhere), and in how many channels' worth of values that mends a code."""
        key = (CUT, (subtracted, roundings, first, count, step))
        if key not in self.known:
            self.known[key] = self._best_cut(subtracted, roundings, first, count, step)
        found: tuple[float, int] = self.known[key]
        return found

    @property
    def is_whole(self) -> bool:
        """Nobody found a place to cut its output channels so far."""
        return not any(found[1] for (kind, _), found in self.known.items() if kind == CUT)

    def _best_cut(self, subtracted: int, roundings: int, first: int, count: int, step: int) -> tuple[float, int]:
        if count < 2 * step or (self.numerics != "2.x" and self._is_uniform(subtracted, roundings)):
            return 0.0, 0
        rule = self.requantisation_of(subtracted, roundings, first, count)
        if isinstance(rule, TwoSteps):
            return 0.0, 0
        scale, offset, needed = self._problem(subtracted, roundings, first, count)
        usual = self._usual_codes()[first : first + count]
        if all((one == one[0]).all() for one in (scale, offset, needed, usual)):
            return 0.0, 0  # all channels are alike
        cut = step * (1 + int(np.argmin(cut_costs(scale, needed)[step - 1 :: step])))
        if cut >= count:
            return 0.0, 0
        halves = ((first, cut), (first + cut, count - cut))
        keys = [("rule", (subtracted, roundings, *half)) for half in halves]
        if not any(key in self.known for key in keys):  # both at once take hardly longer than one
            self.known.update(zip(keys, self._rules(subtracted, roundings, first, [cut, count - cut]), strict=True))
        after = 0.0
        for start, some in halves:
            half = self.requantisation_of(subtracted, roundings, start, some)
            after += half.mean_error * some if isinstance(half, Requantisation) else 0.0
        return rule.mean_error * count - after, cut

    def code_units(self, units: list[ArithConfig]) -> list[ArithConfig]:
        """The ARITHs that make codes, and the one that shifts them where they are stored so."""
        return [*units, SHIFT_CODES] if self.codes_shifted else units

    def code_units_behind(self, subtracted: int, roundings: int, channels: int) -> int:
        """ARITHs behind the sums of so many channels."""
        count = min(channels, 2, self.outputs)
        require_usable(*self._problem(subtracted, roundings, 0, count)[:2])
        if self.out_bytes == 2:
            return self.requantisation_of(subtracted, roundings, 0, self.outputs).ariths(count)
        in_two = self.numerics == "2.x" and subtracted == self.zero
        clip = narrowed(self.clip)
        saturating = not coefficients(self.made_for.trust).clips(clip)
        return ariths_behind(clip, count, in_two, saturating) + self.codes_shifted

    def modes(self) -> list[FeatureMode]:
        """How units may read the features."""
        return list(self._modes)

    @cached_property
    def _modes(self) -> list[FeatureMode]:
        """Padding needs the zero point, and so do numbers as in ST's releases 2.x.

        (Parts may have padding of their own where zeros widen their windows; it meets no weight.) Of high bytes, each
        is 256 codes: one too many, and the bias that makes up for it leaves 16 bits.
        """
        if self.coarse is not None:
            return [FeatureMode(2, offset=self.coarse.zero or 1)]
        padded = any(self.padding) or any(self.border) or (self.out_bytes == 2 and self.zero == 0)
        exactly = padded or self.op.kind == "transpose_conv" or bool(self.cut)
        trust = self.made_for.trust
        found, narrow = modes(self.zero, self.features_shifted, exactly, trust), trust.four_bits
        if narrow is None or self.weights.min() < LEAST or self.weights.max() > MOST:
            return found
        deep = narrow.deep and self.made_for.programmed_by == CONTROLLER  # drivers have no words for it
        return [mode._replace(four_bits=narrow) if deep or not mode.deep else mode for mode in found]

    def subtracted(self) -> tuple[int, ...]:
        """What units can take from the features, the zero point first."""
        return tuple(dict.fromkeys(mode.offset for mode in self.modes()))

    def share(self) -> int:
        """Channels that ST's releases 2.x sum before they round."""
        return channels_a_pass(self.form_2x)

    @property
    def form_2x(self) -> PassShape:
        outputs, *window, channels = self.weights.shape
        out = self.ring.out if self.ring else self.out
        pixels, wide = out.height * out.width, self.op_zero not in (0, -128)
        return PassShape(channels, outputs, pixels, int(np.prod(window)), wide)

    @property
    def op_zero(self) -> int:
        """The zero point of the codes, however they are stored."""
        return self.zero - 128 if self.features_shifted else self.zero

    def phases(self, size: tuple[int, int]) -> list[Phase]:
        """Always the same ones: what follows from their parts is remembered."""
        key = ("phases", size)
        if key not in self.known:
            self.known[key] = _few_enough(self._phases(size))
        found: list[Phase] = self.known[key]
        return found

    def _phases(self, size: tuple[int, int]) -> list[Phase]:
        if self.ring is not None:
            return [Phase(0, 0, 1, 1, *size, self.ring.parts)]
        if self.by_taps:
            return self._taps(size).phases(self.weights)
        if self.op.kind == "transpose_conv":
            return transposed_phases(self.area, self.weights, self.stride, self.padding[:2], size)
        return phases(self.area, self.weights, self._sliding(size), self.cut, self.native)

    def _sliding(self, size: tuple[int, int]) -> Sliding:
        return Sliding(self.stride, self.dilation, self.padding, size, self.border)

    def _taps(self, size: tuple[int, int]) -> Taps:
        if self.op.kind == "transpose_conv":
            return Taps.transposed(self.area, self.weights, self.stride, self.padding[:2], size)
        return Taps.of(self.area, self.weights, self._sliding(size))

    def most_taps(self) -> int:
        """The taps of the output that has most, if each goes by itself."""
        if self.ring is not None:
            return len(self.ring.parts)
        counts = self._taps((self.out.height, self.out.width)).counts
        return max(_few_enough(counts))

    def outputs_of(self, phase: Phase) -> Area:
        """Where the outputs of a phase lie."""
        return stepped(self.out, phase.row, phase.row_step, phase.height, phase.column, phase.column_step, phase.width)


def _few_enough(phases: list[T]) -> list[T]:
    if len(phases) > MOST_PARTS:
        raise Refusal(CONV_PHASES, f"{len(phases):,} parts", f"at most {MOST_PARTS}", "a smaller stride")
    return phases


@dataclass(frozen=True)
class With:
    """The same layer with another value of one of its fields."""

    field: str
    value: Any

    def prepare(self, layer: ConvLayer, draft: Context) -> ConvLayer:
        return replace(layer, **{self.field: self.value})


def layer_of(op: Op, context: Context, wide: Tensor | None = None) -> ConvLayer:
    """`wide`: what features of two bytes are multiplied by."""
    x, y = context.tensor(op.inputs[0]), context.tensor(op.outputs[0])
    weights = wide or context.tensor(op.inputs[1])
    if not (weights.is_constant and weights.dtype in ("int8", "uint8", "int4") and weights.quant is not None):
        seen = f"weights of type {weights.dtype}{'' if weights.is_constant else ', not constant'}"
        raise Refusal(CONV_WEIGHTS, seen, "constant 8-bit weights", "quantise the weights")
    if wide is None and x.dtype not in ("int8", "uint8"):
        raise Refusal(INT8_CODES, f"{x.name} of type {x.dtype}", "features of one byte", "lower its bytes one by one")
    data = np.asarray(weights.data).astype(np.int16)
    data = data.reshape(data.shape[0], 1, 1, -1) if data.ndim == 2 else data
    data = data - weights.quant.zero_points.astype(np.int16).reshape(-1, 1, 1, 1)
    scale = x.scale * np.broadcast_to(weights.quant.scales, (data.shape[0],)) / y.scale
    attrs = op.attrs
    offset = bias_of(op, context, scale * y.scale, data.shape[0]) / y.scale + y.zero_point
    if context.numerics != "2.x" and y.dtype == "int8":
        offset = offset + lift(rounding_of(op, [x, weights], y), y, attrs.get("clip"))
        scale, offset = tame(scale, offset, *reached_sums(data, -128 - x.zero_point, 127 - x.zero_point))
    source, target = context.buffer(x.name), context.buffer(y.name)
    shape, out_shape = _shapes(op, x, y, weights)
    features_shifted = context.buffers[source].offset == 128
    return ConvLayer(
        op=op,
        source=source,
        target=target,
        area=Area.whole(*shape, item_bytes(x)),
        out=Area.whole(*out_shape, item_bytes(y)),
        weights=data,
        zero=x.zero_point + 128 * features_shifted,
        scale=scale,
        offset=offset,
        stride=tuple(attrs.get("stride", (1, 1))),
        dilation=tuple(attrs.get("dilation", (1, 1))),
        padding=tuple(attrs.get("padding", (0, 0, 0, 0))),
        clip=attrs.get("clip"),
        out_scale=y.scale,
        out_zero=y.zero_point,
        numerics=context.numerics,
        typical=partial(_typical, x, context, shape, features_shifted),
        features_shifted=features_shifted,
        codes_shifted=context.buffers[target].offset == 128,
        stored=(lambda codes: codes + 128) if features_shifted else (lambda codes: codes),
        usual=USUAL_PLACE * y.zero_point,
        room=context.room,
        made_for=context.facts.target,
        out_bytes=item_bytes(y),
        coarse=CoarseCodes(0, 0) if wide else None,
        coarse_out=context.buffers[target].coarse,
    )


def _typical(x: Tensor, context: Context, shape: tuple[int, int, int], shifted: bool) -> tuple[Codes, ...]:
    """Asked for only where several passes are needed: the runs cost more than everything else here."""
    room: type[np.signedinteger[Any]] = np.int32 if x.dtype == "int16" else np.int16  # for what is subtracted
    pictures = [codes.astype(room).reshape(shape) for codes in context.facts.typical_codes(x.name)]
    return tuple(codes + 128 for codes in pictures) if shifted else tuple(pictures)


def _shapes(op: Op, x: Tensor, y: Tensor, weights: Tensor) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    """Height, width, channels of features and results. A dense layer is a 1x1 convolution over as many pixels as there
    are rows."""
    if op.kind != "dense":
        return _picture(x), _picture(y)
    outputs, inputs = weights.shape[0], int(np.prod(weights.shape[1:]))
    rows = x.elements // inputs
    return (1, rows, inputs), (1, rows, outputs)


def _picture(tensor: Tensor) -> tuple[int, int, int]:
    if len(tensor.shape) != 4 or tensor.shape[0] != 1:
        raise Refusal(CONV_SHAPE, f"shape {tensor.shape}", "1 x height x width x channels", "use batch 1")
    _, height, width, channels = tensor.shape
    return height, width, channels
