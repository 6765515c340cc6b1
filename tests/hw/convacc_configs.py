"""Legal CONVACC configurations of every mode, with feature words and kernel bytes that suit them."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from atonc.machine.hw.stream import Stream
from atonc.machine.hw.units.convacc import ConvaccConfig
from tests.hw import scalar_models as scalar
from tests.hw.unit_data import as_words, data_kinds, flag, numbers, packed


@st.composite
def output_stage(draw) -> dict[str, int]:
    return {
        "out_shift": draw(st.one_of(st.integers(0, 12), st.integers(0, 31))),
        "out_bytes": draw(st.integers(1, 3)),
        "rounded": draw(st.sampled_from([1, 1, 1, 0])),
        "saturated": 1,
        "round_mode": 1,
    }


@st.composite
def geometry(draw, kernel: tuple[int, int], batch: int, largest: int = 6) -> dict[str, int]:
    """Frame, crop, constant frame and strides that leave at least one output pixel."""
    kernel_width, kernel_height = kernel
    height, width = draw(st.integers(1, largest)), draw(st.integers(1, largest))
    top, left = draw(st.integers(0, height - 1)), draw(st.integers(0, width - 1))
    bottom, right = draw(st.integers(top, height - 1)), draw(st.integers(left, width - 1))
    crop = draw(st.booleans())
    rows, columns = (bottom - top + 1, right - left + 1) if crop else (height, width)
    frame_left, frame_top = draw(st.integers(0, 3)), draw(st.integers(0, 3))
    frame_right = draw(st.integers(max(0, kernel_width - columns - frame_left), kernel_width + 2))
    frame_bottom = draw(st.integers(max(0, kernel_height - rows - frame_top), kernel_height + 2))
    config = {
        "kernel_width": kernel_width,
        "kernel_height": kernel_height,
        "batch": batch,
        "height": height,
        "line_elements": width * batch,
        "frame_left": frame_left * batch,
        "frame_right": frame_right * batch,
        "frame_top": frame_top,
        "frame_bottom": frame_bottom,
        "frame_value": draw(st.sampled_from([0, 0, 0, -128, 100, -32768])),
        "stride_x": draw(st.integers(1, 2)),
        "stride_y": draw(st.integers(1, 2)),
    }
    if crop:
        config |= {"crop_left": left * batch, "crop_right": right * batch + batch - 1}
        config |= {"crop_top": top, "crop_bottom": bottom}
    return config


@st.composite
def kernel_filter(draw, kernels: int) -> dict[str, int]:
    """The stream may carry kernels of several units, of which this one keeps NR."""
    rounds = draw(st.integers(1, 3))
    if rounds == 1:
        return {}
    mine = draw(st.integers(0, rounds - 1))
    first = mine * kernels
    return {"kernels_per_round": rounds * kernels, "kernel_first": first, "kernel_last": first + kernels - 1}


@st.composite
def stationary(draw) -> dict[str, int]:
    sets = draw(st.integers(0, 3))
    return {"feature_stationary": 1, "stationary_sets": sets} if sets else {}


@st.composite
def _finished(draw, config: dict[str, Any], kernels: int) -> ConvaccConfig:
    extra = {**draw(output_stage()), **draw(stationary()), **draw(kernel_filter(kernels))}
    return ConvaccConfig(**config, **extra, kernels=kernels, no_sum=1, no_first_sum=1)


@st.composite
def ordinary(draw) -> ConvaccConfig:
    """SIMD 1 (8x8) and SIMD 2 (16x8) with every kernel size, SIMD 0 (16x16) with one channel and one kernel."""
    simd = draw(st.sampled_from([1, 1, 2, 2, 0]))
    batch, kernels = (1, 1) if simd == 0 else (draw(st.integers(1, 4)), draw(st.integers(1, 4)))
    kernel = (draw(st.integers(1, 4)), draw(st.integers(1, 3)))
    config = draw(geometry(kernel, batch))
    config |= {name: draw(st.integers(0, 2)) for name in ("pad_left", "pad_right", "pad_top", "pad_bottom")}
    config |= {"simd": simd, "feature_bytes": 1 if simd == 1 else 2}
    config["features_unsigned"] = draw(flag)
    config["kernels_unsigned"] = draw(flag) if config["features_unsigned"] else 0
    config["feature_offset"] = draw(st.sampled_from([0, 0, -128, 127, -1, 5, -(1 << 23), (1 << 23) - 1]))
    return draw(_finished(config, kernels))


@st.composite
def deep(draw) -> ConvaccConfig:
    batch, kernels = draw(st.integers(1, 10)), draw(st.one_of(st.integers(1, 4), st.integers(7, 18)))
    config = draw(geometry((1, 1), batch, largest=4))
    config |= {"simd": 1, "deep": 1, "kernel_set_enable": 3, "feature_bytes": draw(st.sampled_from([1, 3]))}
    config["features_unsigned"] = draw(flag)
    return draw(_finished(config, kernels))


@st.composite
def dss2(draw) -> ConvaccConfig:
    batch = draw(st.integers(1, 5))
    config = draw(geometry((3, 3), batch)) | {"stride_x": 2, "stride_y": 2}
    config |= {"simd": 1, "dss2": 1, "feature_bytes": draw(st.integers(1, 2)), "features_unsigned": draw(flag)}
    return draw(_finished(config, draw(st.integers(1, 4))))


configs = st.one_of(ordinary(), ordinary(), deep(), dss2())


@st.composite
def inputs(draw, config: ConvaccConfig) -> tuple[Stream, list[int], Stream, bytes]:
    """Features and kernels as streams and as what they mean: words and bytes."""
    loads = draw(st.integers(1, 3))
    features, words = draw(feature_streams(config, loads))
    sets = config.frames_out(loads) + draw(st.integers(-1, 1))
    count = max(1, sets) * scalar.conv_set_bytes(config)
    raw = numbers(draw(data_kinds), count, "uint8")
    kernels = Stream(raw.reshape(1, -1), None, 3 if config.deep else 0)
    if config.simd == 0:
        kernels = Stream(raw.view("<i2").reshape(1, -1))
    return features, words, kernels, raw.tobytes()


@st.composite
def feature_streams(draw, config: ConvaccConfig, loads: int) -> tuple[Stream, list[int]]:
    """Frames one by one, repeated frames by index, or one long frame: what a unit re-chunks anyway."""
    words_per_frame = scalar.conv_frame_words(config)
    lanes = 3 if config.deep else 2 if config.dss2 else 1
    kind, layout = draw(data_kinds), draw(st.sampled_from(["frames", "repeated", "one"]))
    if lanes == 1:
        dtypes = ["int8", "uint8"] if config.feature_bytes == 1 else ["int16", "int8", "uint8", "uint16"]
        data = numbers(kind, loads * words_per_frame, draw(st.sampled_from(dtypes))).reshape(loads, -1)
        return _arranged(draw, data, layout, 0, as_words)
    data = numbers(kind, loads * words_per_frame * lanes, "uint8").reshape(loads, -1)
    if lanes == 2 and layout != "one":  # 16-bit memory reads arrive as numbers
        return _arranged(draw, data.view("<u2"), layout, 0, as_words)
    return _arranged(draw, data, layout, lanes, lambda rows: packed(rows, lanes))


def _arranged(draw, data: np.ndarray, layout: str, word_bytes: int, meaning) -> tuple[Stream, list[int]]:
    if layout == "one":
        return Stream(data.reshape(1, -1), None, word_bytes), meaning(data)
    if layout == "frames":
        return Stream(data, None, word_bytes), meaning(data)
    index = np.array(draw(st.lists(st.integers(0, len(data) - 1), min_size=1, max_size=4)), np.int64)
    return Stream(data, index, word_bytes), meaning(data[index])
