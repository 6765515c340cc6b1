"""Questions about CONVACC."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from atonc.ir import Array
from atonc.lower.conv.chains import Mode, unit_config
from atonc.lower.conv.engines import feature_engine, kernel_engine
from atonc.lower.conv.kernel_parts import Part
from atonc.plan.streams import Area, Frames, contiguous
from atonc.probes.bench import Bench, quarter_codes, to_codes
from atonc.probes.types import INPUT, OUTPUT, Probe, ProbeEpochs

_PLAIN = Mode(simd=2, offset=5)  # 16-bit features with a zero point, as most published 3x3 convolutions have them
_DEEP = Mode(simd=1, deep=True)
_PACKED = Mode(simd=1, deep=True, packed_frame=True)
_CUT = 4  # bits off the sums, so that those of 96 channels fit 16 bits
_SHIFT = 5  # from there to codes


def _convolution(
    height: int,
    width: int,
    channels: int,
    kernels: int,
    window: int,
    pads: tuple[int, int, int, int],
    mode: Mode,
    rows: int = 0,
    stride: int = 1,
) -> ProbeEpochs:
    """One unit, one frame, all kernels, requantised by one ARITH. Windows are square unless `rows` says otherwise."""
    bench = Bench(height * width * channels, 0)
    weights = bench.weights(kernels, rows or window, window, channels)
    part = Part(Area.whole(height, width, channels), weights.astype(np.int16), pads, stride)
    config = replace(unit_config(part, mode, channels, kernels, 0, 1, 1, False), out_shift=_CUT)
    stream = _kernels(weights, mode)
    results = config.out_elements
    bench.output_bytes = results
    b = bench.epoch("convolution")
    kernel_reader = b.read(bench.constant(stream), kernel_engine(len(stream), mode))
    features = b.read(INPUT, feature_engine(part.area, Frames(), mode))
    sums = b.unit(config, features, kernel_reader)
    codes = b.unit(to_codes(_SHIFT, results), sums)
    b.write(codes, OUTPUT, contiguous(results, write=True))
    bench.add(b)
    return bench.done()


def _written_kernels(channels: int, kernels: int) -> ProbeEpochs:
    """A deep 1x1 convolution whose kernels an engine wrote into RAM in the epoch before, as a product of two
    activations has them. Both come from the input, the kernels a quarter as large so that the sums fit."""
    height, width = 6, 6
    features, size = height * width * channels, channels * kernels
    bench = Bench(features + size, height * width * kernels)
    packed = bench.scratch(size)
    b = bench.epoch("kernels")
    small = b.unit(quarter_codes(), b.read(INPUT, contiguous(size, offset=features)))
    b.write(small, packed, contiguous(size, write=True))
    bench.add(b)
    part = Part(Area.whole(height, width, channels), np.zeros((kernels, 1, 1, channels), np.int16), (0, 0, 0, 0), 1)
    config = replace(unit_config(part, _PACKED, channels, kernels, 0, 1, 1, False), out_shift=_CUT)
    b = bench.epoch("convolution")
    kernel_reader = b.read(packed, kernel_engine(size, _PACKED))
    sums = b.unit(config, b.read(INPUT, feature_engine(part.area, Frames(), _PACKED)), kernel_reader)
    b.write(b.unit(to_codes(_SHIFT, config.out_elements), sums), OUTPUT, contiguous(config.out_elements, write=True))
    bench.add(b)
    return bench.done()


def _kernels(weights: Array, mode: Mode) -> bytes:
    """One kernel behind the other; in deep mode the weights of eight kernels for every channel, in whole words."""
    if not mode.deep:
        return weights.tobytes()
    assert weights.shape[0] == 8
    stream = weights.reshape(8, -1).T.tobytes()
    return stream + bytes(-len(stream) % 3)


_ONE = (1, 1, 1, 1)
PROBES = (
    Probe(
        "control-conv-3x3",
        "a 3x3 convolution with a pad of 1, kernels read from the NPU's RAM",
        "the convolution is in hundreds of published programs; kernels come from flash there but for 3 units of one",
        partial(_convolution, 12, 12, 4, 4, 3, _ONE, _PLAIN),
    ),
    Probe(
        "conv-3x3-pad-2",
        "a 3x3 convolution with a pad of 2 on every side",
        "published 3x3 convolutions have pads of 0 and 1",
        partial(_convolution, 12, 12, 4, 4, 3, (2, 2, 2, 2), _PLAIN),
        "control-conv-3x3",
    ),
    Probe(
        "conv-3x3-width-1",
        "a 3x3 convolution over frames of width 1",
        "published frames are at least 2 wide",
        partial(_convolution, 24, 1, 4, 4, 3, _ONE, _PLAIN),
        "control-conv-3x3",
    ),
    Probe(
        "conv-3x3-height-1",
        "a 3x3 convolution over frames of height 1",
        "published frames are at least 2 high; a kernel of 3x1 on one line is published",
        partial(_convolution, 1, 24, 4, 4, 3, _ONE, _PLAIN),
        "control-conv-3x3",
    ),
    Probe(
        "conv-3x3-stride-2-pad-left",
        "a 3x3 convolution of stride 2 with a pad of 1 on the left only",
        "published with pads on the left and on top, and on the right and below",
        partial(_convolution, 13, 12, 4, 4, 3, (0, 1, 0, 0), _PLAIN, stride=2),
        "control-conv-3x3",
    ),
    Probe(
        "conv-3x3-pad-one-corner",
        "a 3x3 convolution with a pad of 1 on top and left only",
        "published 3x3 convolutions of stride 1 have the same pad on all sides; those of stride 2 have not",
        partial(_convolution, 12, 12, 4, 4, 3, (1, 1, 0, 0), _PLAIN),
        "control-conv-3x3",
    ),
    Probe(
        "conv-3x3-width-300",
        "a 3x3 convolution over lines of 300 pixels and 900 values",
        "published with up to 224 pixels in this form, with up to 640 pixels and 1,024 values in others",
        partial(_convolution, 4, 300, 3, 4, 3, _ONE, _PLAIN),
        "control-conv-3x3",
    ),
    Probe(
        "conv-zero-point-128",
        "a 3x3 convolution that subtracts a zero point of -128",
        "published zero points are -127 to 127",
        partial(_convolution, 12, 12, 4, 4, 3, _ONE, Mode(simd=2, offset=-128)),
        "control-conv-3x3",
    ),
    Probe(
        "control-conv-5x3",
        "a convolution with windows of 5x3 over one channel",
        "151 published units",
        partial(_convolution, 12, 12, 1, 1, 5, (2, 2, 0, 2), _PLAIN, 3),
    ),
    Probe(
        "conv-5x3-three-channels",
        "a convolution with windows of 5x3 over three channels, stride 1",
        "published with stride 2; with stride 1 over one channel",
        partial(_convolution, 12, 12, 3, 1, 5, (2, 2, 0, 2), _PLAIN, 3),
        "control-conv-5x3",
    ),
    Probe(
        "control-deep-1x1",
        "a deep 1x1 convolution of 96 channels, the frame in a row (FBYTES = 3)",
        "published with 32 to 128 channels",
        partial(_convolution, 6, 6, 96, 8, 1, (0, 0, 0, 0), _PACKED),
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
        partial(_convolution, 6, 6, 96, 8, 1, (0, 0, 0, 0), _DEEP),
        "control-deep-1x1",
    ),
    Probe(
        "deep-1x1-shallow",
        "a deep 1x1 convolution of 16 channels, pixel by pixel (FBYTES = 1)",
        "published with 68 to 128 channels",
        partial(_convolution, 6, 6, 16, 8, 1, (0, 0, 0, 0), _DEEP),
        "deep-1x1-alone",
    ),
    Probe(
        "deep-1x1-packed-shallow",
        "a deep 1x1 convolution of 16 channels, the frame in a row (FBYTES = 3)",
        "published from 32 channels on",
        partial(_convolution, 6, 6, 16, 8, 1, (0, 0, 0, 0), _PACKED),
        "control-deep-1x1",
    ),
)
