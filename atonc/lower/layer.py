"""A convolution or dense layer in numbers, and the pieces that its epochs are built from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from atonc.hw.units.arith import ArithConfig
from atonc.hw.units.stream_engine import StrengConfig
from atonc.ir import Op, Tensor
from atonc.lower.context import Context
from atonc.lower.convolution import Phase, phases, stepped
from atonc.lower.registry import Refusal
from atonc.lower.requantise import Requantisation, TwoSteps, errors_alone, requantisation, two_steps
from atonc.lower.tiling import Mode
from atonc.lower.transposed import transposed_phases
from atonc.plan.build import EpochBuilder
from atonc.plan.streams import Area, Frames, contiguous, engine

Weights = NDArray[np.int16]  # codes without their zero point
Real = NDArray[np.float64]

LARGE_BYTES = 512 << 10
MAX_VECTOR = 512  # channels that one ARITH has coefficients for
EXPECTED_MARGIN = 4.0  # how far sums may go beyond those of typical inputs
UNSEEN_MARGIN = 1.5  # and beyond those of inputs that use all codes
SAMPLES = 96  # positions at which sums are looked at
TOO_COARSE = 1.0  # codes of error that are worth smaller groups of kernels
HELPS = 0.7  # an error this much smaller is worth more epochs
GOOD_ENOUGH = 0.45  # codes of error before the last rounding


@dataclass(frozen=True, eq=False)
class Layer:
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
    padding: tuple[int, int, int, int]
    clip: tuple[int, int] | None
    out_scale: float
    numerics: str
    typical: Callable[[], tuple[NDArray[np.int64], ...]]  # codes of the features for typical inputs, as pictures
    features_shifted: bool  # stored as code + 128, so that zero is 0
    codes_shifted: bool
    known: dict[tuple[int, int, int], Real] = field(default_factory=dict)  # sums of typical inputs
    stored: Callable[[NDArray[np.int64]], NDArray[np.int64]] = lambda codes: codes  # what `source` holds of the input

    @property
    def origin(self) -> tuple[str, ...]:
        return self.op.origin or (self.op.name,)

    @property
    def outputs(self) -> int:
        return self.weights.shape[0]

    @property
    def large(self) -> bool:
        """May have to lie outside the NPU's own RAM, where engines start at aligned addresses only."""
        return max(self.area.height * self.area.line, self.out.height * self.out.line) > LARGE_BYTES

    def requantisation(self, subtracted: int, roundings: int) -> Requantisation | TwoSteps:
        """For sums in which `subtracted` instead of the zero point was taken from the features, rounded so often."""
        return self.requantisation_of(subtracted, roundings, 0, self.outputs)

    def requantisation_of(
        self, subtracted: int, roundings: int, first: int, count: int
    ) -> Requantisation | TwoSteps:
        """The same for some output channels; the others do not matter.

        Sums that are rounded on the way may not saturate. What can happen at worst is far from what does happen, so
        where typical inputs are known, a multiple of their sums is provided for.
        """
        scale, offset, largest = self._problem(subtracted, roundings, first, count)
        if self.numerics == "2.x" and subtracted == self.zero:
            sums = self.weights[first : first + count].astype(np.int64).sum(axis=(1, 2, 3))
            return two_steps(scale, offset, self.out_scale, sums, self.clip)
        return requantisation(scale, offset, largest, roundings, self.clip)

    def _problem(self, subtracted: int, roundings: int, first: int, count: int) -> tuple[Real, Real, Real]:
        """Scale, offset and largest accumulator of some output channels."""
        some = slice(first, first + count)
        weights, scale = self.weights[some].astype(np.int64), self.scale[some]
        low, high = (0, 255) if self.features_shifted else (-128, 127)
        reach = max(high - subtracted, subtracted - low)
        largest = np.abs(weights).sum(axis=(1, 2, 3)).astype(np.float64) * reach
        if roundings > 1 and self.numerics != "2.x" and self.typical():
            largest = np.minimum(largest, self.margin * self._observed(subtracted)[some])
        return scale, self.offset[some] + scale * weights.sum(axis=(1, 2, 3)) * (subtracted - self.zero), largest

    @cached_property
    def margin(self) -> float:
        """More where typical inputs leave most of the format unused: other inputs will not."""
        low, high = (0, 255) if self.features_shifted else (-128, 127)
        reach = max(high - self.zero, self.zero - low)
        seen = max((int(np.abs(codes - self.zero).max(initial=1)) for codes in self.typical()), default=1)
        return max(EXPECTED_MARGIN, UNSEEN_MARGIN * reach / max(seen, 1))

    def _observed(self, subtracted: int) -> Real:
        """Per output channel the largest sum over any first part of the input channels, at sampled positions."""
        key = (subtracted, id(self.weights), id(self.typical))
        if key not in self.known:
            self.known[key] = self._observe(subtracted)
        return self.known[key]

    def _observe(self, subtracted: int) -> Real:
        weights = self.weights.astype(np.int64)
        largest = np.ones(weights.shape[0])
        for codes in self.typical():
            codes = np.pad(codes, (*self._borders(), (0, 0)), constant_values=self.zero)
            patches = sample_patches(codes - subtracted, weights.shape[1:3], self.stride, self.dilation)
            if weights.shape[3] < codes.shape[2]:  # depthwise: every output looks at one channel
                channels = np.arange(weights.shape[0]) // (self.outputs // codes.shape[2])
                sums = np.abs(patches[..., channels] * weights[..., 0].transpose(1, 2, 0)).sum(axis=(1, 2))
                largest = np.maximum(largest, sums.max(axis=0))
                continue
            for _ in range(2):  # sums may grow in either order of the channels
                by_channel = np.einsum("pyxc,oyxc->poc", patches, weights, optimize=True)
                largest = np.maximum(largest, np.abs(np.cumsum(by_channel, axis=2)).max(axis=(0, 2)))
                patches, weights = patches[..., ::-1], weights[..., ::-1]
        return largest

    def gains_from_cutting(self, subtracted: int, roundings: int, first: int, count: int, error: float) -> bool:
        """Whether channels by themselves are much better than together, so that their scales are what disturbs."""
        alone = errors_alone(*self._problem(subtracted, roundings, first, count), roundings)
        return bool(alone.max() < HELPS * error)

    def _borders(self) -> tuple[tuple[int, int], tuple[int, int]]:
        top, left, bottom, right = self.op.attrs.get("padding", (0, 0, 0, 0))
        return (top, bottom), (left, right)

    def code_units(self, units: list[ArithConfig]) -> list[ArithConfig]:
        """The ARITHs that make codes, and the one that shifts them where they are stored so."""
        return [*units, SHIFT_CODES] if self.codes_shifted else units

    def modes(self) -> list[Mode]:
        """Without padding the unit may subtract any number: the bias makes up for it.

        (Parts may have padding of their own where zeros widen their windows; it meets no weight.)
        """
        if self.features_shifted:
            deep = [Mode(1, unsigned=True, deep=True, packed_frame=p) for p in (True, False)]
            return [Mode(1, unsigned=True), *([] if any(self.padding) else deep)]
        padded = any(self.padding) or self.op.kind == "transpose_conv"
        modes = [Mode(1)] if self.zero == 0 else [Mode(2, offset=self.zero)]
        if padded or self.numerics == "2.x":
            return modes
        # features of one byte, all as they are: the bias makes up for the zero point
        plain = [Mode(1)] if self.zero else [Mode(2, offset=1)]
        return [*modes, *plain, Mode(1, deep=True, packed_frame=True), Mode(1, deep=True)]

    def phases(self, size: tuple[int, int]) -> list[Phase]:
        if self.op.kind == "transpose_conv":
            cut = (self.padding[0], self.padding[1])
            return transposed_phases(self.area, self.weights, self.stride, cut, size)
        geometry = (self.stride, self.dilation, self.padding, size)
        return phases(self.area, self.weights, *geometry, rounded_parts=self.numerics == "2.x")

    def outputs_of(self, phase: Phase) -> Area:
        """Where the outputs of a phase lie."""
        return stepped(
            self.out, phase.row, phase.row_step, phase.height, phase.column, phase.column_step, phase.width
        )


def layer_of(
    op: Op,
    context: Context,
    shape: tuple[int, int, int] | None = None,
    out_shape: tuple[int, int, int] | None = None,
) -> Layer:
    """`shape` and `out_shape`: height, width, channels, where the tensors are no pictures."""
    x, weights, y = context.tensor(op.inputs[0]), context.tensor(op.inputs[1]), context.tensor(op.outputs[0])
    if not (weights.is_constant and weights.dtype in ("int8", "uint8", "int4") and weights.quant is not None):
        seen = f"weights of type {weights.dtype}{'' if weights.is_constant else ', not constant'}"
        raise Refusal("CONV-WEIGHTS", seen, "constant 8-bit weights", "quantise the weights")
    data = np.asarray(weights.data).astype(np.int16)
    data = data.reshape(data.shape[0], 1, 1, -1) if data.ndim == 2 else data
    data = data - weights.quant.zero_points.astype(np.int16).reshape(-1, 1, 1, 1)
    scale = x.scale * np.broadcast_to(weights.quant.scales, (data.shape[0],)) / y.scale
    attrs = op.attrs
    source, target = context.buffer(x.name), context.buffer(y.name)
    features_shifted = context.buffers[source].offset == 128
    return Layer(
        op,
        source,
        target,
        Area.whole(*(shape or _picture(x))),
        Area.whole(*(out_shape or _picture(y))),
        data,
        0 if features_shifted else x.zero_point,
        scale,
        _bias(op, context, scale * y.scale, data.shape[0]) / y.scale + y.zero_point,
        tuple(attrs.get("stride", (1, 1))),
        tuple(attrs.get("dilation", (1, 1))),
        tuple(attrs.get("padding", (0, 0, 0, 0))),
        attrs.get("clip"),
        y.scale,
        context.numerics,
        partial(_typical, x, context, shape or _picture(x), features_shifted),
        features_shifted,
        context.buffers[target].offset == 128,
        stored=(lambda codes: codes + 128) if features_shifted else (lambda codes: codes),
    )


def _typical(
    x: Tensor, context: Context, shape: tuple[int, int, int], shifted: bool
) -> tuple[NDArray[np.int64], ...]:
    """Asked for only where several passes are needed: the runs cost more than everything else here."""
    return tuple(np.asarray(run[x.name], np.int64).reshape(shape) + 128 * shifted for run in context.typical)


def sample_patches(
    picture: NDArray[np.int64], window: tuple[int, int], stride: tuple[int, int], dilation: tuple[int, int]
) -> NDArray[np.float64]:
    """Windows [position, row, column, channel] spread over a picture (positions at the border are left out)."""
    reach = [(k - 1) * d + 1 for k, d in zip(window, dilation, strict=True)]
    rows = np.arange(0, max(1, picture.shape[0] - reach[0] + 1), stride[0])
    columns = np.arange(0, max(1, picture.shape[1] - reach[1] + 1), stride[1])
    where = np.linspace(0, rows.size * columns.size - 1, min(SAMPLES, rows.size * columns.size)).astype(int)
    ys, xs = rows[where // columns.size], columns[where % columns.size]
    dy, dx = (np.arange(k) * d for k, d in zip(window, dilation, strict=True))
    y = np.minimum(ys[:, None, None] + dy[None, :, None], picture.shape[0] - 1)
    x = np.minimum(xs[:, None, None] + dx[None, None, :], picture.shape[1] - 1)
    return picture[y, x].astype(np.float64)


def _picture(tensor: Tensor) -> tuple[int, int, int]:
    if len(tensor.shape) != 4 or tensor.shape[0] != 1:
        raise Refusal("CONV-SHAPE", f"shape {tensor.shape}", "1 x height x width x channels", "use batch 1")
    _, height, width, channels = tensor.shape
    return height, width, channels


def _bias(op: Op, context: Context, accumulator_scale: Real, outputs: int) -> Real:
    """In real units; without a scale of its own it counts in units of the accumulator."""
    if len(op.inputs) < 3 or not op.inputs[2]:
        return np.zeros(outputs)
    tensor = context.tensor(op.inputs[2])
    if tensor.data is None:
        raise Refusal("CONV-BIAS", "a bias that is not constant", "a constant", "add it as a separate layer")
    values = np.asarray(tensor.data, np.float64).reshape(-1)
    if tensor.quant is not None:
        return (values - tensor.quant.zero_points) * tensor.quant.scales
    return values if tensor.is_float else values * accumulator_scale


# ------------------------------------------------------------------------------------------------------------ engines


def ranges(
    layer: Layer, subtracted: int, roundings: int, first: int, count: int, step: int
) -> list[tuple[int, int]]:
    """Cuts output channels where one shift for all of them is too coarse for some: scales may differ a thousandfold."""
    rule = layer.requantisation_of(subtracted, roundings, first, count)
    if isinstance(rule, TwoSteps) or rule.error <= GOOD_ENOUGH or count < 2 * step:
        return [(first, count)]
    middle = count // step // 2 * step
    halves = ((first, middle), (first + middle, count - middle))
    if not layer.gains_from_cutting(subtracted, roundings, first, count, rule.error):
        return [(first, count)]
    return [found for half in halves for found in ranges(layer, subtracted, roundings, *half, step)]


def kernel_engine(size_bytes: int, mode: Mode) -> StrengConfig:
    return replace(contiguous(size_bytes, word_bytes=3 if mode.deep else 1), continuous=1)


def feature_engine(view: Area, frames: Frames, mode: Mode) -> StrengConfig:
    """Features are always read in a loop, even if it turns only once."""
    if not mode.deep:
        return engine(view, frames, signed=mode.simd == 2, looped=True)
    depth = 0 if mode.packed_frame else -(-view.channels // 3)
    return replace(engine(view, frames, word_bytes=3, depth=depth, looped=True), raw_out=1)


SHIFT_CODES = ArithConfig(  # (x + 128) mod 256, exactly as every public network writes it
    a=16384, b=32, combine_bc=1, shift_out=14, round_mode=1, out_bytes=1, bytes_x=1, out_bytes_x=1, bytes_y=1,
    out_bytes_y=1,
)  # fmt: skip


def requantise(b: EpochBuilder, units: list[ArithConfig], source: str, gate: dict[str, int]) -> str:
    """The ARITHs one behind the other; a gate in front of the first keeps only finished sums."""
    for unit in units:
        source = b.unit(unit, source, **gate)
        gate = {}
    return source


def output_engine(target: Area, kernels: int, first: int, groups: int) -> StrengConfig:
    """Groups of channels side by side in a channel-last picture."""
    view = target.channels_from(first, kernels)
    return engine(view, Frames(groups, kernels), write=True, looped=not view.contiguous)
