"""The engines of a convolution, and the ARITHs behind its sums."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from atonc.compiler.lower.context import constant_buffer
from atonc.compiler.lower.conv.chains import FeatureMode
from atonc.compiler.lower.units.wiring import require_seen
from atonc.compiler.plan.build import TaskBuilder
from atonc.compiler.plan.half_bytes import packed
from atonc.compiler.plan.streams import Area, Frames, contiguous, engine, in_frames
from atonc.compiler.plan.types import Buffer
from atonc.machine.hw.fields import changed
from atonc.machine.hw.four_bits import BITS
from atonc.machine.hw.units.arith import ArithConfig
from atonc.machine.hw.units.stream_engine import StrengConfig

KERNELS = "kernels"
PACKED = 4  # words of three bytes were read in steps of pixels and lines by so many


@lru_cache(maxsize=1 << 10)
def kernel_engine(size_bytes: int, mode: FeatureMode) -> StrengConfig:
    return changed(contiguous(size_bytes, word_bytes=3 if mode.deep else 1), continuous=1)


def kernel_buffer(data: bytes, mode: FeatureMode) -> Buffer:
    """Kernels as they lie in memory: two to a byte where engines may read them so and every one fits."""
    small = packed(data, mode.four_bits.low_first) if mode.four_bits else None
    if small is None:
        return constant_buffer(data, KERNELS)
    return replace(constant_buffer(small, f"{KERNELS} of {BITS} bits"), half_bytes=len(data))


def kernel_reader(kernels: Buffer, mode: FeatureMode) -> StrengConfig:
    if not kernels.half_bytes:
        return kernel_engine(kernels.size_bytes, mode)
    whole = kernel_engine(kernels.half_bytes, mode)
    if mode.deep:
        return changed(whole, size0=BITS, size1=BITS, size2=BITS)
    return changed(whole, size0=BITS, align_right=1, sign_extend=1)


@lru_cache(maxsize=1 << 12)
def feature_engine(view: Area, frames: Frames, mode: FeatureMode) -> StrengConfig:
    """Features are always read in a loop, even if it turns only once."""
    if not mode.deep:
        signed = mode.simd == 2 and view.element_bytes == 1
        return require_seen(engine(view, frames, signed=signed, looped=True))
    depth = 0 if mode.packed_frame else -(-view.channels // 3)
    if depth and view.height == view.width == 1:  # a step that is never taken, as long as those that were seen
        view = replace(view, pixel=-(-3 * depth // PACKED) * PACKED)
    return require_seen(changed(engine(view, frames, word_bytes=3, depth=depth, looped=True), raw_out=1))


def requantise(b: TaskBuilder, units: list[ArithConfig], source: str, gate: dict[str, int]) -> str:
    """The ARITHs one behind the other; a gate in front of the first keeps only finished sums."""
    for unit in units:
        source = b.unit(unit, source, **gate)
        gate = {}
    return source


@lru_cache(maxsize=1 << 12)
def output_engine(target: Area, kernels: int, first: int, groups: int) -> StrengConfig:
    """Groups of channels side by side in a channel-last picture. A single one of bytes is written without a loop."""
    view = target.channels_from(first, kernels)
    if target.height == target.width == 1:  # frames of a single pixel lie one behind the other
        view = replace(view, pixel=kernels * view.element_bytes, line=kernels * view.element_bytes)
    looped = groups > 1 and not view.contiguous
    found = engine(view, Frames(groups, kernels * view.element_bytes), write=True, looped=looped)
    return require_seen(found if view.element_bytes == 1 else in_frames(found))
