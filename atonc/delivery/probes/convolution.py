"""One convolution of a probe: a single CONVACC, its kernels, and the ARITH that makes codes of its sums."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from atonc.compiler.ir import Array
from atonc.compiler.lower.conv.chains import FeatureMode, unit_config
from atonc.compiler.lower.conv.engines import feature_engine, kernel_engine
from atonc.compiler.lower.conv.kernel_parts import Part
from atonc.compiler.plan.build import TaskBuilder
from atonc.compiler.plan.streams import Area, Frames, contiguous
from atonc.delivery.probes.bench import ProbeBuilder, to_codes
from atonc.delivery.probes.types import INPUT, OUTPUT, ProbeEpochs
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.fields import changed
from atonc.machine.hw.units.convacc import ConvaccConfig
from atonc.machine.hw.units.stream_engine import StrengConfig

PLAIN = FeatureMode(simd=2, offset=5)  # 16-bit features with a zero point, as most published 3x3 convolutions have them
DEEP = FeatureMode(simd=1, deep=True)
PACKED = FeatureMode(simd=1, deep=True, packed_frame=True)
CUT = 4  # bits off the sums, so that those of 96 channels fit 16 bits
SHIFT = 5  # from there to codes
WHOLE_CUT, WHOLE_SHIFT = 7, 7  # the same of features of 16 bits
SMALL = 3  # bits off the weights of those, so that 24 bits hold their sums
ONE = (1, 1, 1, 1)
NO_PADS = (0, 0, 0, 0)


@dataclass(frozen=True)
class Conv:
    """Windows are square unless `rows` says otherwise; pads are top, left, bottom, right."""

    height: int
    width: int
    channels: int
    kernels: int
    window: int
    pads: tuple[int, int, int, int]
    mode: FeatureMode
    rows: int = 0
    stride: int = 1
    whole: bool = False  # features are 16-bit numbers in memory, not bytes

    def weights(self, bench: ProbeBuilder) -> Array:
        weights = bench.weights(self.kernels, self.rows or self.window, self.window, self.channels)
        return weights >> SMALL if self.whole else weights

    def area(self, offset: int = 0) -> Area:
        return replace(Area.whole(self.height, self.width, self.channels, 1 + self.whole), offset=offset)

    @property
    def feature_bytes(self) -> int:
        return self.height * self.width * self.channels * (1 + self.whole)

    @property
    def unit(self) -> ConvaccConfig:
        shape = (self.kernels, self.rows or self.window, self.window, self.channels)
        part = Part(self.area(), np.zeros(shape, np.int16), self.pads, self.stride)
        cut = WHOLE_CUT if self.whole else CUT
        return changed(unit_config(part, self.mode, self.channels, self.kernels), out_shift=cut)

    @property
    def results(self) -> int:
        return self.unit.out_elements


def kernel_stream(weights: Array, mode: FeatureMode) -> bytes:
    """One kernel behind the other; in deep mode the weights of eight kernels for every channel, in whole words."""
    if not mode.deep:
        return weights.tobytes()
    assert weights.shape[0] == 8
    stream = weights.reshape(8, -1).T.tobytes()
    return stream + bytes(-len(stream) % 3)


def add_convolution(
    bench: ProbeBuilder,
    b: TaskBuilder,
    conv: Conv,
    lane: int = 0,
    memory: str = "",
    kernels: StrengConfig | None = None,
) -> None:
    """Lane after lane in the input and in the output. `kernels`: an engine that reads them otherwise than usual."""
    stream = kernel_stream(conv.weights(bench), conv.mode)
    reader = b.read(bench.constant(stream, memory), kernels or kernel_engine(len(stream), conv.mode))
    features = feature_engine(conv.area(lane * conv.feature_bytes), Frames(), conv.mode)
    sums = b.unit(conv.unit, b.read(INPUT, features), reader)
    codes = b.unit(to_codes(WHOLE_SHIFT if conv.whole else SHIFT, conv.results), sums)
    b.write(codes, OUTPUT, contiguous(conv.results, write=True, offset=lane * conv.results))


def convolutions(conv: Conv, lanes: int = 1, memory: str = "") -> ProbeEpochs:
    """One epoch with so many of them side by side, kernels in this memory."""
    bench = ProbeBuilder(lanes * conv.feature_bytes, lanes * conv.results)
    b = bench.epoch("convolution")
    for lane in range(lanes):
        add_convolution(bench, b, conv, lane, memory)
    bench.add(b)
    return bench.done()
