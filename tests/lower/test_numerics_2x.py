"""`--numerics 2.x` against a plain function that says what networks of ST's releases 2.x compute.

Forms have the evidence that users' compilations ask for: with `allow_unproven` a form may be right that nobody gets.
"""

from __future__ import annotations

from dataclasses import replace
from math import ceil, floor, log2
from typing import Any

import numpy as np
import pytest

from atonc.compiler.compile.pipeline import compile_canonical, memories
from atonc.compiler.ir import Graph, Op
from atonc.compiler.lower.conv.passes_2x import PassShape, channels_a_pass
from atonc.compiler.lower.conv.requantise import two_steps
from atonc.compiler.request.options import Options
from tests.lower.harness import activation, graph_of, run
from tests.lower.test_conv import conv_graph


def run_2x(graph: Graph, codes: Any) -> Any:
    return run(graph, {"x": codes}, numerics="2.x", allow_unproven=False)["y"]


def half_away(value: Any) -> Any:
    return np.sign(value) * np.floor(np.abs(value) + 0.5)


def shifted(value: Any, bits: int, limit: int) -> Any:
    """Half away from zero, then saturated."""
    return np.clip(half_away(value / 2.0**bits), -limit - 1, limit)


def sums(x: Any, weights: Any, graph: Graph, rows: slice, columns: slice) -> Any:
    """Sums of products of some rows and columns of the kernel, on features without their zero point."""
    attrs = graph.ops[0].attrs
    (top, left, bottom, right), (down, across) = attrs["padding"], attrs["stride"]
    _, height, width, outputs = graph.tensors["y"].shape
    padded = np.pad(x[0].astype(float), ((top, bottom), (left, right), (0, 0)))
    total = np.zeros((height, width, outputs))
    for i in range(*rows.indices(weights.shape[1])):
        for j in range(*columns.indices(weights.shape[2])):
            seen = padded[i:][: (height - 1) * down + 1 : down, j:][:, : (width - 1) * across + 1 : across]
            if attrs["groups"] > 1:
                repeated = np.repeat(seen, outputs // seen.shape[2], axis=2)
                total += repeated * weights[:, i, j, 0]
            else:
                total += seen @ weights[:, i, j].T
    return total


def as_releases_2(graph: Graph, codes: Any, pieces: list[tuple[slice, slice]], share: int = 0) -> Any:
    """Each piece of the kernel is rounded to 16 bits, after every `share` channels, then scale, bias and zero point."""
    x, w, b, y = (graph.tensors[name] for name in ("x", "w", "b", "y"))
    weights = w.data.astype(float)
    per_kernel = np.abs(weights.sum(axis=(1, 2, 3))).max()
    out_shift = max(0, int(per_kernel).bit_length() - 7)
    accumulated = 0.0
    features = codes.astype(float) - x.zero_point
    for rows, columns in pieces:
        part = 0.0
        for first in range(0, features.shape[3], share or features.shape[3]):
            some = features.copy()
            if share:
                some[..., :first], some[..., first + share :] = 0, 0
            part = shifted(part * 2**out_shift + sums(some, weights, graph, rows, columns), out_shift, 32767)
        accumulated = np.clip(accumulated + part, -32768, 32767)
    scales = np.float32(x.scale * w.quant.scales).astype(float)
    bias = np.float32(b.data * scales).astype(float)
    middle, bias_shift = ceil(log2(y.scale) - 6), 20
    while np.abs(bias).max() / 2.0**middle > 32767:
        middle, bias_shift = middle + 1, bias_shift - 1
    real = scales * 2.0 ** (out_shift - middle)
    shift = 14 - floor(log2(real.max()))
    scaled = shifted(half_away(real * 2.0**shift) * accumulated, shift, 32767)
    factor = half_away(2.0 ** (middle + bias_shift) / y.scale)
    addend = (bias / y.scale + y.zero_point) * 2.0**bias_shift
    spare = 2.0 ** (31 - ceil(log2(np.abs(addend).max())))
    addend = np.floor(np.rint(addend * spare) / spare)
    if bias.size > 512:
        addend = factor * half_away(bias / 2.0**middle) + y.zero_point * 2.0**bias_shift
    return shifted(factor * scaled + addend, bias_shift, 127)


def check(graph: Graph, pieces: list[tuple[slice, slice]], share: int = 0) -> None:
    codes = np.random.default_rng(4).integers(-128, 128, graph.tensors["x"].shape).astype(np.int8)
    got = run_2x(graph, codes)
    assert np.abs(got[0].astype(int) - as_releases_2(graph, codes, pieces, share)).max() == 0


WHOLE = [(slice(None), slice(None))]


@pytest.mark.parametrize("zero", [-128, -5, 0])
@pytest.mark.parametrize(("stride", "padding"), [((1, 1), (1, 1, 1, 1)), ((2, 2), (0, 0, 1, 1))])
def test_depthwise_channels_share_one_shift(stride: Any, padding: Any, zero: int) -> None:
    """Also where some blocks of channels would need a smaller one."""
    graph = conv_graph(10, 12, 24, 24, groups=24, stride=stride, padding=padding, zero=zero)
    graph.tensors["w"].data[8:] //= 8
    check(graph, WHOLE)


@pytest.mark.parametrize("bias", [1 << 15, 1 << 18, 1 << 20])
def test_large_biases_make_the_steps_before_them_coarser(bias: int) -> None:
    graph = conv_graph(6, 6, 8, 8)
    graph.tensors["b"].data[:] += bias
    check(graph, WHOLE)


CUTS = {  # as seen in public networks: channels, outputs, pixels, weights of a channel, zero point -> channels a pass
    (32, 16, 81, 9, -128): 16,
    (32, 15, 64, 9, 0): 8,
    (64, 64, 64, 9, 5): 8,
    (64, 64, 256, 9, 5): 32,
    (128, 256, 64, 9, 5): 8,
    (51, 51, 256, 9, 5): 3,
    (128, 128, 9, 1, 5): 16,
    (128, 128, 36, 1, 5): 64,
    (72, 80, 256, 1, 5): 72,
    (320, 24, 16, 1, 5): 20,
    (192, 128, 256, 1, 5): 96,
    (512, 128, 1, 1, 5): 16,
    (128, 128, 225, 1, -128): 128,
    (128, 64, 900, 1, -128): 128,
    (128, 32, 3600, 1, -128): 64,
    (256, 256, 16, 1, -128): 128,
    (256, 128, 225, 1, -128): 256,
    (576, 160, 16, 1, -128): 96,
    (576, 160, 36, 1, -128): 192,
    (576, 96, 64, 1, -128): 288,
    (960, 160, 36, 1, -128): 240,
    (1152, 192, 49, 1, -128): 384,
    (1280, 128, 36, 1, -128): 320,
    (1024, 10, 1, 1, -128): 128,
    (56, 336, 36, 1, 0): 56,
}


@pytest.mark.parametrize("seen", CUTS, ids=str)
def test_channels_are_cut_as_public_networks_show(seen: tuple[int, int, int, int, int]) -> None:
    channels, outputs, pixels, window, zero = seen
    assert channels_a_pass(PassShape(channels, outputs, pixels, window, zero not in (0, -128))) == CUTS[seen]


@pytest.mark.parametrize(
    ("zero", "channels", "share"), [(5, 128, 64), (5, 320, 40), (0, 128, 128), (-128, 128, 128), (-128, 576, 192)]
)
def test_sums_are_rounded_after_every_pass(zero: int, channels: int, share: int) -> None:
    graph = conv_graph(6, 6, channels, 160, kernel=(1, 1), padding=(0, 0, 0, 0), zero=zero)
    check(graph, WHOLE, share)


@pytest.mark.parametrize(("zero", "size", "share"), [(5, 8, 8), (5, 16, 32), (0, 8, 8), (-128, 9, 16)])
def test_windows_are_rounded_after_every_pass(zero: int, size: int, share: int) -> None:
    check(conv_graph(size, size, 32 if zero in (0, -128) else 64, 16, zero=zero), WHOLE, share)


@pytest.mark.parametrize(("zero", "share"), [(5, 16), (-128, 128)])
def test_one_pixel_is_rounded_after_every_group(zero: int, share: int) -> None:
    check(conv_graph(1, 1, 256, 10, kernel=(1, 1), padding=(0, 0, 0, 0), zero=zero), WHOLE, share)


SAME, VALID, ODD = (3, 3, 3, 3), (0, 0, 0, 0), (2, 3, 3, 2)


@pytest.mark.parametrize(
    ("zero", "padding"), [(0, SAME), (-128, SAME), (-128, VALID), (-128, ODD), (5, SAME), (5, VALID), (5, ODD)]
)
@pytest.mark.parametrize("channels", [1, 3])
def test_seven_by_seven_is_rounded_in_six_pieces(zero: int, padding: Any, channels: int) -> None:
    """Three rows at most, six columns and the seventh."""
    pieces = [(slice(k, k + 3), columns) for k in (0, 3, 6) for columns in (slice(0, 6), slice(6, 7))]
    check(conv_graph(13, 12, channels, 16, kernel=(7, 7), padding=padding, zero=zero), pieces)


@pytest.mark.parametrize("zero", [-128, 0, 5])
@pytest.mark.parametrize(("stride", "padding"), [((1, 1), (2, 2, 2, 2)), ((2, 2), (1, 1, 2, 2))])
@pytest.mark.parametrize("groups", [1, 3])
def test_five_by_five_is_rounded_in_two_pieces(zero: int, stride: Any, padding: Any, groups: int) -> None:
    graph = conv_graph(12, 12, 3, 12, kernel=(5, 5), padding=padding, stride=stride, zero=zero, groups=groups)
    check(graph, [(slice(0, 3), slice(None)), (slice(3, 5), slice(None))])


@pytest.mark.parametrize("zero", [-128, 0, 5])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize(("channels", "groups"), [(3, 1), (8, 1), (8, 8)])
def test_windows_without_padding(zero: int, stride: int, channels: int, groups: int) -> None:
    """One unit for codes without zero point and stride 1 would need zeros on one side, which nobody has shown: windows
    with a ring around what counts do it."""
    graph = conv_graph(11, 13, channels, 8, stride=(stride, stride), padding=VALID, zero=zero, groups=groups)
    check(graph, WHOLE)


def test_biases_of_many_channels_have_16_bits() -> None:
    check(conv_graph(5, 5, 8, 600, kernel=(1, 1), padding=VALID), WHOLE)


@pytest.mark.parametrize(("stride", "share"), [(3, 24), (2, 8)])
def test_one_window_has_no_stride(stride: int, share: int) -> None:
    """With strides that units do not have, all values of the picture are channels of one pixel."""
    graph = conv_graph(3, 3, 32, 36, stride=(stride, stride), padding=VALID, zero=-99)
    codes = np.random.default_rng(4).integers(-128, 128, (1, 3, 3, 32)).astype(np.int8)
    got = run_2x(graph, codes)
    if stride > 2:
        weights = graph.tensors["w"]
        flat = replace(weights, shape=(36, 1, 1, 288), data=weights.data.reshape(36, 1, 1, 288))
        graph, codes = replace(graph, tensors={**graph.tensors, "w": flat}), codes.reshape(1, 1, 1, 288)
    assert np.array_equal(got[0], as_releases_2(graph, codes, WHOLE, share))


@pytest.mark.parametrize("ratio", [0.96157377, 0.14985382, 1.0, 3.7, 0.01])
@pytest.mark.parametrize(("zero", "out_zero"), [(-128, -128), (-128, 5), (7, -3)])
def test_changes_of_format_have_gains_of_15_bits(ratio: float, zero: int, out_zero: int) -> None:
    codes = np.arange(-128, 128).astype(np.int8).reshape(1, 16, 16, 1)
    x, y = (activation("x", codes.shape, 0.06 * ratio, zero), activation("y", codes.shape, 0.06, out_zero))
    gain = x.scale / y.scale
    shift = 14 - floor(log2(gain))
    offset = (out_zero - zero * gain) * 2.0**shift
    spare = 2.0 ** (31 - ceil(log2(max(abs(offset), 1))))
    expected = shifted(half_away(gain * 2.0**shift) * codes + np.floor(np.rint(offset * spare) / spare), shift, 127)
    got = run_2x(graph_of(Op("requantize", "r", ("x",), ("y",), {}), x, y), codes)
    assert np.array_equal(got, expected)


def test_gains_that_round_up_to_a_power_of_two_keep_their_sign() -> None:
    """A factor of 16 bits ends at 32767: 0.9999999 is 16384 / 2^14, not 32768 / 2^15, which would be -1."""
    codes = np.arange(-128, 128).astype(np.int8).reshape(1, 16, 16, 1)
    x, y = activation("x", codes.shape, 0.06 * 0.9999999, 4), activation("y", codes.shape, 0.06, 4)
    got = run_2x(graph_of(Op("requantize", "r", ("x",), ("y",), {}), x, y), codes)
    assert np.array_equal(got, codes)


def test_factors_of_channels_that_round_up_to_a_power_of_two() -> None:
    largest = (2.0**15 - 0.3) / 2.0**22
    rule = two_steps(np.array([largest, largest / 3]) / 0.02, np.array([1.0, 2.0]), 0.02, 0, np.array([100, 50]))
    assert rule.factors.tolist() == [16384, 5461]


@pytest.mark.parametrize("gain", [2.0**-10, 2.0**-12, 2.0**-14])
def test_factors_whose_shift_no_table_has_are_refused(gain: float) -> None:
    """Such a layer is another form or runs on the CPU; no finished program breaks a rule (V09)."""
    graph = conv_graph(6, 6, 8, 8)
    graph = replace(graph, tensors={**graph.tensors, "y": activation("y", (1, 6, 6, 8), 0.4 / gain, 3)})
    options = Options(numerics="2.x")
    compiled = compile_canonical(graph, graph, options, memories(options))  # raises where a rule is broken
    assert compiled.report is not None and compiled.report.worst_layer <= 1
