"""CONVACC: four convolution accumulators.

A unit takes one feature frame [H, W, B] and one set of NR kernels [KH, KW, B] per output frame and gives
[OH, OW, NR]: acc = sum((f - FSUB) * k) [+ accumulator << INSHIFT], then shift, round, saturate to OBYTES. All sums are
exact: they run through BLAS in float32 or float64, whichever holds them exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from atonc.machine.base.errors import InputError
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw import fields
from atonc.machine.hw.stream import (
    Array,
    Ints,
    Stream,
    clipped,
    ends_of,
    largest_of,
    limits,
    limits_of,
    low_bytes,
    shift_right,
)

bits = fields.declare("CONVACC")

NO_CROP = 0xFFFF
_EXACT = 1 << 24  # float32 holds every whole number up to here
FRAME_ZERO = 3  # AFILTMODE: accumulator frames outside FIRST..LAST count as zeros


@dataclass(frozen=True)
class ConvaccConfig(fields.UnitConfig):
    KIND = "CONVACC"

    no_sum: int = bits("CTRL.NOSUM")
    no_first_sum: int = bits("CTRL.NO1SUM")
    generate_first_sum: int = bits("CTRL.GEN1SUM")
    simd: int = bits("CTRL.SIMD")
    accumulator_filter: int = bits("CTRL.AFILTMODE")
    features_unsigned: int = bits("CTRL.FUNSIGNED")
    kernels_unsigned: int = bits("CTRL.KUNSIGNED")
    kernel_set_enable: int = bits("CTRL.KSETEN")
    feature_stationary: int = bits("CTRL.FSTAT")
    deep: int = bits("CTRL.DEEPMODE")
    dss2: int = bits("CTRL.DSS2MODE")
    kernel_width: int = bits("KFORMAT.WIDTH")
    kernel_height: int = bits("KFORMAT.HEIGHT")
    batch: int = bits("KFORMAT.BTCDEPTH")
    kernels: int = bits("KFORMAT.NR")
    pad_left: int = bits("SAMPLE.LPAD")
    pad_right: int = bits("SAMPLE.RPAD")
    pad_top: int = bits("SAMPLE.TPAD")
    pad_bottom: int = bits("SAMPLE.BPAD")
    stride_x: int = bits("SAMPLE.HSTRD")
    stride_y: int = bits("SAMPLE.VSTRD")
    stationary_sets: int = bits("SAMPLE.FSTATCNT")
    in_shift: int = bits("DFORMAT.INSHIFT")
    out_shift: int = bits("DFORMAT.OUTSHIFT")
    round_mode: int = bits("DFORMAT.ORNDMODE")
    rounded: int = bits("DFORMAT.ROUND")
    saturated: int = bits("DFORMAT.SAT")
    raw_out: int = bits("DFORMAT.RAW")
    out_bytes: int = bits("DFORMAT.OBYTES")
    feature_bytes: int = bits("DFORMAT.FBYTES")
    feature_shift: int = bits("DFORMAT.FSHIFT")
    feature_round: int = bits("DFORMAT.FROUND")
    feature_saturate: int = bits("DFORMAT.FSAT")
    feature_round_mode: int = bits("DFORMAT.FRNDMODE")
    line_elements: int = bits("FFORMAT.WIDTH")
    height: int = bits("FFORMAT.HEIGHT")
    crop_left: int = bits("FHCROP.LEFT")
    crop_right: int = bits("FHCROP.RIGHT")
    crop_top: int = bits("FVCROP.TOP")
    crop_bottom: int = bits("FVCROP.BOTTOM")
    kernels_per_round: int = bits("KFILT.TOT")
    kernel_first: int = bits("KFILT.FIRST")
    kernel_last: int = bits("KFILT.LAST")
    frames_per_sum: int = bits("AFILT.TOT")
    sum_first: int = bits("AFILT.FIRST")
    sum_last: int = bits("AFILT.LAST")
    frame_left: int = bits("ZFRAME.LEFT")
    frame_right: int = bits("ZFRAME.RIGHT")
    frame_top: int = bits("ZFRAME.TOP")
    frame_bottom: int = bits("ZFRAME.BOTTOM")
    feature_offset: int = bits("FSUB.FSUB", signed=True)
    frame_value: int = bits("ZFBIAS.ZFBIAS", signed=True)

    @fields.derived
    def width(self) -> int:
        return self.line_elements // max(1, self.batch)

    @property
    def crop_rows(self) -> tuple[int, int]:
        """First and one-past-last line that is used."""
        return self.crop_top, min(self.height, self.crop_bottom + 1)

    @fields.derived
    def crop_columns(self) -> tuple[int, int]:
        batch = max(1, self.batch)
        return self.crop_left // batch, min(self.width, (self.crop_right + 1) // batch)

    @fields.derived
    def padding(self) -> tuple[int, int, int, int]:
        """Top, bottom, left, right in pixels, window and frame padding together."""
        batch = max(1, self.batch)
        return (
            self.pad_top + self.frame_top,
            self.pad_bottom + self.frame_bottom,
            self.pad_left + self.frame_left // batch,
            self.pad_right + self.frame_right // batch,
        )

    @fields.derived
    def out_size(self) -> tuple[int, int]:
        """Height and width of an output frame."""
        top, bottom, left, right = self.padding
        rows = self.crop_rows[1] - self.crop_rows[0] + top + bottom
        columns = self.crop_columns[1] - self.crop_columns[0] + left + right
        height = (rows - self.kernel_height) // max(1, self.stride_y) + 1
        width = (columns - self.kernel_width) // max(1, self.stride_x) + 1
        return height, width

    @fields.derived
    def out_elements(self) -> int:
        height, width = self.out_size
        return height * width * self.kernels

    @fields.derived
    def taps(self) -> int:
        """Products of one result."""
        return self.kernel_height * self.kernel_width * self.batch

    @property
    def packing(self) -> int:
        """Feature bytes per stream word: 3 in deep, 2 in DSS2 mode, else one element a word."""
        return 3 if self.deep else 2 if self.dss2 else 1

    @property
    def packed_per_pixel(self) -> bool:
        return self.packing > 1 and self.feature_bytes == 1

    @fields.derived
    def feature_words(self) -> int:
        """Stream words of one feature frame."""
        pixels = self.height * self.width
        if self.packed_per_pixel:
            return pixels * -(-self.batch // self.packing)
        return -(-pixels * self.batch // self.packing)

    @property
    def set_kernels(self) -> int:
        """Kernels that the stream carries for each output frame."""
        return max(self.kernels_per_round, self.kernels)

    @property
    def kernel_bytes(self) -> int:
        return 2 if self.simd == 0 else 1

    @fields.derived
    def set_bytes(self) -> int:
        """Bytes of kernels that the stream carries for each output frame."""
        size = self.kernels * self.taps * self.kernel_bytes
        rounds = self.set_kernels // max(1, self.kernels)
        return (-(-size // 3) * 3 if self.deep else size) * rounds

    def frames_out(self, feature_frames: int) -> int:
        return feature_frames * (self.stationary_sets if self.feature_stationary else 1)


def crop_end(count: int, batch: int = 1) -> int:
    """The crop of a frame that is used to its end. Drivers leave it open when there is only one line or pixel."""
    return count * batch - 1 if count > 1 else NO_CROP


def decode(words: Mapping[int, int]) -> ConvaccConfig:
    return fields.decode(ConvaccConfig, words)


def encode(config: ConvaccConfig) -> dict[int, int]:
    return fields.encode(config)


def partial_sums(config: ConvaccConfig, features: Stream, kernels: Stream, unit: str = "CONVACC") -> Ints:
    """Exact sums [frames, pixels, kernels] before accumulation and output stage."""
    check(config, unit)
    sets = kernel_sets(config, kernels, unit)
    maps, index = feature_maps(config, features)
    frames = min(index.size, sets.shape[0])
    return _convolve(config, maps, index[:frames], sets[:frames])


def finish(config: ConvaccConfig, sums: Ints) -> Ints:
    """The output stage."""
    shifted = shift_right(sums, config.out_shift, bool(config.rounded))
    unsigned = bool(config.features_unsigned and config.kernels_unsigned)
    low, high = limits(config.out_bytes, unsigned)
    if not config.saturated:
        raise fields.not_modelled("CONVACC", "DFORMAT.SAT", 0)
    return clipped(shifted, low, high, out=shifted if shifted is not sums else None)


def check(config: ConvaccConfig, unit: str) -> None:
    config.require_modelled(unit)
    if config.feature_shift != 16:
        raise fields.not_modelled(unit, "DFORMAT.FSHIFT", config.feature_shift)
    if config.accumulator_filter not in (0, FRAME_ZERO):
        raise fields.not_modelled(unit, "CTRL.AFILTMODE", config.accumulator_filter)
    if config.kernel_set_enable != (3 if config.deep else 0):
        raise fields.not_modelled(unit, "CTRL.KSETEN", config.kernel_set_enable)
    if config.round_mode > 1 or (config.rounded and config.round_mode == 0 and config.out_shift):
        raise fields.not_modelled(unit, "DFORMAT.ORNDMODE", config.round_mode)
    if config.out_bytes == 0:
        raise fields.not_modelled(unit, "DFORMAT.OBYTES", 0)
    _check_mode(config, unit)
    _check_geometry(config, unit)


def _check_mode(config: ConvaccConfig, unit: str) -> None:
    """Only the combinations of element size and packing that networks use."""
    shape = (config.kernel_width, config.kernel_height)
    if config.simd == 3:
        raise fields.not_modelled(unit, "CTRL.SIMD", 3)
    if config.deep and (shape != (1, 1) or config.dss2):
        raise fields.not_modelled(unit, "KFORMAT in deep mode", shape[0] | shape[1] << 8)
    if config.dss2 and (shape != (3, 3) or (config.stride_x, config.stride_y) != (2, 2)):
        raise fields.not_modelled(unit, "KFORMAT in depthwise stride 2 mode", shape[0] | shape[1] << 8)
    bytes_allowed = {3: (1, 3), 2: (1, 2)}.get(config.packing, {0: (2,), 1: (1,), 2: (2,)}.get(config.simd, ()))
    if config.feature_bytes not in bytes_allowed:
        raise fields.not_modelled(unit, f"DFORMAT.FBYTES with CTRL.SIMD {config.simd}", config.feature_bytes)


def _check_geometry(config: ConvaccConfig, unit: str) -> None:
    sizes = (config.batch, config.kernels, config.kernel_width, config.kernel_height, config.stride_x, config.stride_y)
    if min(*sizes, *config.out_size) < 1 or config.crop_columns[0] >= config.crop_columns[1]:
        raise InputError("the frame, kernel or stride has size zero", where=unit, rule="every dimension is at least 1")
    if config.line_elements % config.batch or config.crop_rows[0] >= config.crop_rows[1]:
        raise InputError(
            f"lines of {config.line_elements} elements are no whole pixels of {config.batch} channels",
            where=unit,
            rule="FFORMAT.WIDTH is a multiple of the batch",
        )
    if config.set_kernels > config.kernels:
        first, last, total = config.kernel_first, config.kernel_last, config.kernels_per_round
        if first >= total or last >= total:
            raise InputError(f"kernels {first}..{last} of {total} do not exist", where=unit, rule="KFILT inside TOT")
        if total % config.kernels or first % config.kernels or last - first + 1 != config.kernels:
            raise fields.not_modelled(unit, "KFILT", total | first << 8 | last << 16)


def kernel_sets(config: ConvaccConfig, kernels: Stream, unit: str) -> Array:
    """Kernels as [sets, NR, KH, KW, B] integers, one set per output frame."""
    raw = kernels.bytes()
    count = raw.size // config.set_bytes
    if count == 0:
        raise InputError(
            f"the kernel stream carries {raw.size} bytes, one set needs {config.set_bytes}",
            where=unit,
            rule="one kernel set per output frame",
        )
    rounds = config.set_kernels // config.kernels
    blocks = raw[: count * config.set_bytes].reshape(count, rounds, -1)
    blocks = blocks[:, config.kernel_first // config.kernels] if rounds > 1 else blocks[:, 0]
    shape = (count, config.kernels, config.kernel_height, config.kernel_width, config.batch)
    if config.deep:
        return _deep_order(config, blocks).reshape(shape)
    if config.kernel_bytes == 2:
        return np.ascontiguousarray(blocks).view("<u2" if config.kernels_unsigned else "<i2").reshape(shape)
    return np.ascontiguousarray(blocks).view(np.uint8 if config.kernels_unsigned else np.int8).reshape(shape)


def _deep_order(config: ConvaccConfig, blocks: Array) -> Array:
    """Deep kernels are stored in chunks of eight: for each input channel the eight kernels' weights."""
    values = blocks.view(np.uint8 if config.kernels_unsigned else np.int8)
    out = np.empty((blocks.shape[0], config.kernels, config.batch), values.dtype)
    for first in range(0, config.kernels, 8):
        width = min(8, config.kernels - first)
        chunk = values[:, first * config.batch : (first + width) * config.batch]
        out[:, first : first + width] = chunk.reshape(-1, config.batch, width).swapaxes(1, 2)
    return out


def feature_maps(config: ConvaccConfig, features: Stream) -> tuple[Array, Array]:
    """Distinct feature frames [n, H, W, B] and, per output frame, which of them it uses."""
    if config.packing > 1:
        data, index = _unpack(config, features)
    else:
        frames = features.elements // config.feature_words
        chunked = features.rechunk(config.feature_words, frames)
        data = chunked.data
        index = np.arange(chunked.frames) if chunked.index is None else chunked.index
        data = low_bytes(data, config.feature_bytes, bool(config.features_unsigned))
    maps = data.reshape(-1, config.height, config.width, config.batch)
    if config.feature_stationary:
        if config.stationary_sets == 0:
            raise fields.not_modelled("CONVACC", "SAMPLE.FSTATCNT", 0)
        index = np.repeat(index, config.stationary_sets)
    return maps, index


def _unpack(config: ConvaccConfig, features: Stream) -> tuple[Array, Array]:
    """Deep and DSS2 modes: several feature bytes in each stream word."""
    words, pixels = config.feature_words, config.height * config.width
    frames = features.elements // words
    same = features.frame_elements == words and (features.word_bytes or features.data.dtype.itemsize) == config.packing
    if same:
        data = features.data.view(np.uint8).reshape(features.data.shape[0], -1)
        index = np.arange(features.frames) if features.index is None else features.index
    else:
        data = _word_bytes(features, config.packing)[: frames * words * config.packing].reshape(frames, -1)
        index = np.arange(frames)
    if config.packed_per_pixel:
        data = data.reshape(data.shape[0], pixels, -1)[:, :, : config.batch]
    else:
        data = data[:, : pixels * config.batch]
    data = np.ascontiguousarray(data)
    return data.view(np.uint8 if config.features_unsigned else np.int8), index


def _word_bytes(features: Stream, packing: int) -> Array:
    """The low `packing` bytes of every word, whatever the words came from."""
    width = features.word_bytes or features.data.dtype.itemsize
    if width == packing:
        return features.bytes()
    words = features.flat().astype("<i4").view(np.uint8).reshape(-1, 4)
    return np.ascontiguousarray(words[:, :packing]).reshape(-1)


def _convolve(config: ConvaccConfig, maps: Array, index: Array, sets: Array) -> Ints:
    height, width = config.out_size
    exact = _exact_type(config, maps, sets)
    padded = _pad(config, maps, exact)
    depth = config.taps
    out = np.empty((index.size, height * width, config.kernels), exact)
    columns = _columns(config, padded)
    weights = sets.reshape(index.size, config.kernels, depth).astype(exact)
    if maps.shape[0] == index.size and bool((index == np.arange(index.size)).all()):
        np.matmul(columns, weights.swapaxes(1, 2), out=out)
    else:
        for frame in sorted(set(index.tolist())):  # all kernel sets that meet the same features in one product
            users = np.flatnonzero(index == frame)
            product = columns[frame] @ weights[users].reshape(-1, depth).T
            out[users] = product.reshape(height * width, users.size, config.kernels).swapaxes(0, 1)
    return out.astype(np.int32 if exact is np.float32 else np.int64)


def _exact_type(config: ConvaccConfig, maps: Array, sets: Array) -> type[np.float32] | type[np.float64]:
    """float32 where no sum can leave its 24 exact bits, judged by types and, where that is too much, by values."""
    if maps.size == 0 or sets.size == 0:
        return np.float32
    most = largest_of(sets, limits_of) * config.taps
    if any(_farthest(config, maps, ends) * most < _EXACT for ends in (limits_of, ends_of)):
        return np.float32
    weight = int(np.abs(sets.astype(np.int32)).sum(axis=(2, 3, 4)).max())
    return np.float32 if _farthest(config, maps, ends_of) * weight < _EXACT else np.float64


def _farthest(config: ConvaccConfig, maps: Array, ends: Callable[[Array], tuple[int, int]]) -> int:
    """From zero, of features and frame."""
    low, high = ends(maps)
    return max(abs(low - config.feature_offset), abs(high - config.feature_offset), abs(config.frame_value))


def _pad(config: ConvaccConfig, maps: Array, exact: type) -> Array:
    """Crops, removes the zero point, adds the constant frame and the window padding (zero after FSUB)."""
    rows, columns = config.crop_rows, config.crop_columns
    body: Array = maps[:, rows[0] : rows[1], columns[0] : columns[1]].astype(exact)
    if config.feature_offset:
        body -= config.feature_offset
    top, bottom, left, right = config.padding
    if not (top or bottom or left or right):
        return body
    count, height, width, batch = body.shape
    out = np.zeros((count, height + top + bottom, width + left + right, batch), exact)
    if config.frame_value:
        inner_rows = slice(config.pad_top, out.shape[1] - config.pad_bottom)
        inner_columns = slice(config.pad_left, out.shape[2] - config.pad_right)
        out[:, inner_rows, inner_columns] = config.frame_value
    out[:, top : top + height, left : left + width] = body
    return out


def _columns(config: ConvaccConfig, padded: Array) -> Array:
    """[frames, output pixels, KH*KW*B] windows."""
    count, _, _, batch = padded.shape
    height, width = config.out_size
    depth = config.kernel_height * config.kernel_width * batch
    if depth == batch and config.stride_x == config.stride_y == 1:
        return padded.reshape(count, height * width, batch)
    frame, row, pixel, element = padded.strides
    windows = np.lib.stride_tricks.as_strided(
        padded,
        (count, height, width, config.kernel_height, config.kernel_width * batch),
        (frame, row * config.stride_y, pixel * config.stride_x, row, element),
        writeable=False,
    )
    return windows.reshape(count, height * width, depth)
