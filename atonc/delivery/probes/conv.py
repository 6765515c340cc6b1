"""Questions about CONVACC."""

from __future__ import annotations

from functools import partial

import numpy as np

from atonc.compiler.lower.conv.chains import FeatureMode, unit_config
from atonc.compiler.lower.conv.engines import feature_engine, kernel_engine
from atonc.compiler.lower.conv.kernel_parts import Part
from atonc.compiler.plan.streams import Area, Frames, contiguous
from atonc.delivery.probes.bench import ProbeBuilder, quarter_codes, to_codes
from atonc.delivery.probes.convolution import CUT, DEEP, NO_PADS, ONE, PACKED, PLAIN, SHIFT, Conv, convolutions
from atonc.delivery.probes.types import INPUT, OUTPUT, Probe, ProbeEpochs
from atonc.machine.hw.fields import changed


def _written_kernels(channels: int, kernels: int) -> ProbeEpochs:
    """A deep 1x1 convolution whose kernels an engine wrote into RAM in the epoch before, as a product of two
    activations has them. Both come from the input, the kernels a quarter as large so that the sums fit."""
    height, width = 6, 6
    features, size = height * width * channels, channels * kernels
    bench = ProbeBuilder(features + size, height * width * kernels)
    packed = bench.scratch(size)
    b = bench.epoch("kernels")
    small = b.unit(quarter_codes(), b.read(INPUT, contiguous(size, offset=features)))
    b.write(small, packed, contiguous(size, write=True))
    bench.add(b)
    part = Part(Area.whole(height, width, channels), np.zeros((kernels, 1, 1, channels), np.int16), NO_PADS, 1)
    config = changed(unit_config(part, PACKED, channels, kernels), out_shift=CUT)
    b = bench.epoch("convolution")
    kernel_reader = b.read(packed, kernel_engine(size, PACKED))
    sums = b.unit(config, b.read(INPUT, feature_engine(part.area, Frames(), PACKED)), kernel_reader)
    b.write(b.unit(to_codes(SHIFT, config.out_elements), sums), OUTPUT, contiguous(config.out_elements, write=True))
    bench.add(b)
    return bench.done()


PROBES = (
    Probe(
        "control-conv-3x3",
        "a 3x3 convolution with a pad of 1, kernels read from the NPU's RAM",
        "the convolution is in hundreds of published programs; kernels come from flash in nearly all of them, from the "
        "NPU's RAM in 15 of one owner (control-conv-3x3-flash asks the usual way)",
        partial(convolutions, Conv(12, 12, 4, 4, 3, ONE, PLAIN)),
    ),
    Probe(
        "conv-3x3-pad-2",
        "a 3x3 convolution with a pad of 2 on every side",
        "published 3x3 convolutions have pads of 0 and 1",
        partial(convolutions, Conv(12, 12, 4, 4, 3, (2, 2, 2, 2), PLAIN)),
        "control-conv-3x3",
    ),
    Probe(
        "conv-3x3-width-1",
        "a 3x3 convolution over frames of width 1",
        "published frames are at least 2 wide",
        partial(convolutions, Conv(24, 1, 4, 4, 3, ONE, PLAIN)),
        "control-conv-3x3",
    ),
    Probe(
        "conv-3x3-height-1",
        "a 3x3 convolution over frames of height 1",
        "published frames are at least 2 high; a kernel of 3x1 on one line is published",
        partial(convolutions, Conv(1, 24, 4, 4, 3, ONE, PLAIN)),
        "control-conv-3x3",
    ),
    Probe(
        "conv-3x3-width-300",
        "a 3x3 convolution over lines of 300 pixels and 900 values",
        "published with up to 224 pixels in this form, with up to 640 pixels and 1,024 values in others",
        partial(convolutions, Conv(4, 300, 3, 4, 3, ONE, PLAIN)),
        "control-conv-3x3",
        argument="S3",
    ),
    Probe(
        "conv-zero-point-128",
        "a 3x3 convolution that subtracts a zero point of -128",
        "published zero points are -127 to 127",
        partial(convolutions, Conv(12, 12, 4, 4, 3, ONE, FeatureMode(simd=2, offset=-128))),
        "control-conv-3x3",
        argument="S5",
    ),
    Probe(
        "conv-3x3-whole-features",
        "a 3x3 convolution of 16-bit numbers in memory with 8-bit kernels",
        "published units of this mode get bytes that their reader extends; readers of 16-bit numbers stand in front of "
        "16-bit kernels",
        partial(convolutions, Conv(12, 12, 4, 4, 3, ONE, FeatureMode(simd=2, offset=1), whole=True)),
        "control-conv-3x3",
        argument="S9",
    ),
    Probe(
        "control-conv-5x3",
        "a convolution with windows of 5x3 over one channel",
        "151 published units",
        partial(convolutions, Conv(12, 12, 1, 1, 5, (2, 2, 0, 2), PLAIN, 3)),
    ),
    Probe(
        "conv-5x3-three-channels",
        "a convolution with windows of 5x3 over three channels, stride 1",
        "published with stride 2; with stride 1 over one channel",
        partial(convolutions, Conv(12, 12, 3, 1, 5, (2, 2, 0, 2), PLAIN, 3)),
        "control-conv-5x3",
        argument="S8",
    ),
    Probe(
        "control-deep-1x1",
        "a deep 1x1 convolution of 96 channels, the frame in a row (FBYTES = 3)",
        "published with 32 to 128 channels",
        partial(convolutions, Conv(6, 6, 96, 8, 1, NO_PADS, PACKED)),
    ),
    Probe(
        "deep-1x1-written-kernels",
        "the same with kernels that an engine wrote into RAM in the epoch before (--schedule-with attention)",
        "published kernels are constants; 3 units of one program read them from RAM",
        partial(_written_kernels, 96, 8),
        "control-deep-1x1",
    ),
    Probe(
        "deep-1x1-alone",
        "a deep 1x1 convolution of 96 channels, pixel by pixel (FBYTES = 1)",
        "published with 68 to 128 channels, in units whose sums are continued",
        partial(convolutions, Conv(6, 6, 96, 8, 1, NO_PADS, DEEP)),
        "control-deep-1x1",
    ),
    Probe(
        "deep-1x1-shallow",
        "a deep 1x1 convolution of 16 channels, pixel by pixel (FBYTES = 1)",
        "published with 68 to 128 channels",
        partial(convolutions, Conv(6, 6, 16, 8, 1, NO_PADS, DEEP)),
        "deep-1x1-alone",
    ),
    Probe(
        "deep-1x1-packed-shallow",
        "a deep 1x1 convolution of 16 channels, the frame in a row (FBYTES = 3)",
        "published from 32 channels on",
        partial(convolutions, Conv(6, 6, 16, 8, 1, NO_PADS, PACKED)),
        "control-deep-1x1",
    ),
)
