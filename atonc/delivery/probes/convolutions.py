"""Questions about CONVACC: forms of a convolution, every padding, several side by side, kernels from each memory and
of four bits, and how many products a cycle it has."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import product

import numpy as np

from atonc.compiler.ir import Array
from atonc.compiler.lower.conv.chains import ChainLink, FeatureMode, unit_config
from atonc.compiler.lower.conv.engines import feature_engine, kernel_engine
from atonc.compiler.lower.conv.kernel_parts import Part
from atonc.compiler.plan.build import TaskBuilder
from atonc.compiler.plan.streams import Area, Frames, contiguous
from atonc.compiler.plan.types import Buffer, EpochPlan
from atonc.delivery.probes.bench import INPUT, OUTPUT, Answer, Probe, ProbeBuilder, ProbeEpochs, to_codes
from atonc.delivery.probes.build import CPU_RAM, FLASH, HYPERRAM, emulated
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.fields import changed
from atonc.machine.hw.limits import PRODUCTS
from atonc.machine.hw.machine import stm32n6
from atonc.machine.hw.units.convacc import ConvaccConfig
from atonc.machine.hw.units.stream_engine import StrengConfig

PLAIN = FeatureMode(simd=2, offset=5)  # 16-bit features with a zero point, as most published 3x3 convolutions have them
WHOLE = FeatureMode(simd=2, offset=1)  # features of 16 bits in memory
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
    return bench.add(b).done()


def _chained(conv: Conv) -> ProbeEpochs:
    """Two units, each with half of the channels; the second one adds to the sums of the first."""
    half = conv.channels // 2
    bench = ProbeBuilder(conv.feature_bytes, conv.results)
    weights = conv.weights(bench)
    stream = b"".join(weights[..., first : first + half].tobytes() for first in (0, half))
    b = bench.epoch("chain")
    kernels = b.read(bench.constant(stream), kernel_engine(len(stream), conv.mode))
    sums: str | None = None
    for unit in (0, 1):
        part = Part(conv.area().channels_from(unit * half, half), weights[..., :half], conv.pads, conv.stride)
        config = unit_config(part, conv.mode, half, conv.kernels, ChainLink(unit, 2))
        config = changed(config, out_shift=WHOLE_CUT) if unit else config
        features = b.read(INPUT, feature_engine(part.area, Frames(), conv.mode))
        sums = b.unit(config, features, kernels, sums)
    assert sums is not None
    codes = b.unit(to_codes(WHOLE_SHIFT, conv.results), sums)
    b.write(codes, OUTPUT, contiguous(conv.results, write=True))
    return bench.add(b).done()


_KNOWN_WHOLE = (
    "published units of this mode get bytes that their reader extends; readers of 16-bit numbers stand in front of "
    "16-bit kernels"
)

CONVOLUTIONS = (
    Probe(
        "control-conv-3x3",
        "a 3x3 convolution with a pad of 1, kernels read from the NPU's RAM",
        "the convolution is in hundreds of ST programs; kernels come from flash in nearly all of them, from the "
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
        "published with up to 224 pixels in this configuration, with up to 640 pixels and 1,024 values in others",
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
        _KNOWN_WHOLE,
        partial(convolutions, Conv(12, 12, 4, 4, 3, ONE, WHOLE, whole=True)),
        "control-conv-3x3",
        argument="S9",
    ),
    Probe(
        "conv-1x1-whole-features",
        "a 1x1 convolution of 16-bit numbers in memory with 8-bit kernels",
        _KNOWN_WHOLE,
        partial(convolutions, Conv(12, 12, 8, 8, 1, NO_PADS, WHOLE, whole=True)),
        "control-conv-3x3",
        argument="S9",
    ),
    Probe(
        "conv-3x3-stride-2-whole-features",
        "a 3x3 convolution of stride 2 of 16-bit numbers in memory with 8-bit kernels",
        _KNOWN_WHOLE,
        partial(convolutions, Conv(12, 12, 4, 4, 3, (0, 0, 1, 1), WHOLE, stride=2, whole=True)),
        "control-conv-3x3",
        argument="S9",
    ),
    Probe(
        "conv-3x3-chain-whole-features",
        "the same of stride 1 by two units in a chain, each with half of the channels",
        _KNOWN_WHOLE,
        partial(_chained, Conv(12, 12, 16, 4, 3, ONE, WHOLE, whole=True)),
        "conv-3x3-whole-features",
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

# ----------------------------------------------------------------------------------------- every padding of 3x3 windows

Sides = tuple[int, int, int, int]  # left, right, top, bottom
_FRAME = 9
_NO_PAD = "0000"  # no padding at all is another mode of the unit
_SEEN_PADS = ("0101", "1010", "0111", "1111")  # with stride 2; S2 has the others, and none with stride 1
_EVERY_FRAME = "1111"  # with stride 1 it is the control
_KNOWN_PADS = {
    1: "a published unit of stride 1 pads every side or none; no argument stands for the others",
    2: "published with 0101, 1010, 0111, 1111, 0000",
}


def _padded(sides: Sides, stride: int) -> ProbeEpochs:
    """A frame on which windows end exactly at its border."""
    left, right, top, bottom = sides
    height, width = (_FRAME - (a + b) % 2 for a, b in ((top, bottom), (left, right)))
    return convolutions(Conv(height, width, 4, 4, 3, (top, left, bottom, right), PLAIN, stride=stride))


def _digits(sides: Sides) -> str:
    return "".join(map(str, sides))


def _padding_probe(sides: Sides, stride: int) -> Probe:
    digits = _digits(sides)
    return Probe(
        f"conv-3x3-stride-{stride}-pads-{digits}",
        f"a 3x3 convolution of stride {stride} that pads {digits} (left, right, top, bottom)",
        _KNOWN_PADS[stride],
        partial(_padded, sides, stride),
        "control-conv-3x3",
        argument="" if stride == 1 or digits in (_NO_PAD, *_SEEN_PADS) else "S2",
    )


_EVERY: list[Sides] = [(left, right, top, bottom) for left, right, top, bottom in product((0, 1), repeat=4)]
PADDING = (
    *(_padding_probe(sides, 1) for sides in _EVERY if _digits(sides) != _EVERY_FRAME),
    *(_padding_probe(sides, 2) for sides in _EVERY),
)

# -------------------------------------------------------------------------------------------- side by side in one epoch

_LARGE_WINDOWS = Conv(28, 28, 4, 4, 3, ONE, PLAIN)
_LARGE_POINTS = Conv(14, 14, 96, 8, 1, NO_PADS, PACKED)
_LANES = {1: "one", 2: "two", 3: "three"}
_KINDS = (("conv-3x3", "3x3 convolution", _LARGE_WINDOWS), ("deep-1x1", "deep 1x1 convolution", _LARGE_POINTS))
_KNOWN_LANES = {
    1: "published",
    2: "published as part of larger sets of chains; alike ones beside each other are composed (S1)",
    3: "18 published sets have three chains of convolutions, others than these",
}


def _lanes_probe(kind: str, words: str, conv: Conv, lanes: int) -> Probe:
    alone = f"{kind}-alone-28" if conv is _LARGE_WINDOWS else f"{kind}-alone-14"
    plural = "" if lanes == 1 else "s"
    return Probe(
        alone if lanes == 1 else f"{kind}-{_LANES[lanes]}-side-by-side",
        f"{_LANES[lanes]} {words}{plural} of {conv.height}x{conv.width}x{conv.channels} in one epoch",
        _KNOWN_LANES[lanes],
        partial(convolutions, conv, lanes),
        "" if lanes == 1 else alone,
        argument="" if lanes == 1 else "S1",
    )


SIDE_BY_SIDE = tuple(_lanes_probe(kind, words, conv, lanes) for kind, words, conv in _KINDS for lanes in _LANES)

# --------------------------------------------------------------------- kernels from each memory, and copies beside them

_WINDOWS = Conv(12, 12, 4, 4, 3, ONE, PLAIN)
_POINTS = Conv(6, 6, 96, 8, 1, NO_PADS, PACKED)
_COPY = 3 * 4096


def _beside(source: str, kernels: str) -> ProbeEpochs:
    """A convolution, and a copy of constants into the NPU's RAM: what prefetching weights looks like."""
    bench = ProbeBuilder(_WINDOWS.feature_bytes, _WINDOWS.results + _COPY)
    b = bench.epoch("convolution and copy")
    add_convolution(bench, b, _WINDOWS, memory=kernels)
    copied = bench.constant(bench.codes(_COPY).tobytes(), source)
    b.write(b.read(copied, _words(0)), OUTPUT, _words(_WINDOWS.results, write=True))
    return bench.add(b).done()


def _words(offset: int, write: bool = False) -> StrengConfig:
    return contiguous(_COPY, write=write, word_bytes=3, offset=offset)


_MEMORIES = (
    ("flash", FLASH, "flash"),
    ("npu-ram", "", "the NPU's RAM"),  # as the control without flash has them: if that fails, this tells why
    ("cpu-ram", CPU_RAM, "the CPU's RAM"),
    ("hyperram", HYPERRAM, "hyperRAM"),
)
_FORMS = (("conv-3x3", "a 3x3 convolution", _WINDOWS), ("deep-1x1", "a deep 1x1 convolution", _POINTS))
_KNOWN_KERNELS = {
    "flash": "as nearly all ST programs have it",
    "npu-ram": "15 units of as many programs of one owner",
    "cpu-ram": "6 units of two programs of one owner",
    "hyperram": "never published",
}


KERNELS = (
    *(
        Probe(
            f"control-{form}-flash" if memory == "flash" else f"{form}-kernels-{memory}",
            f"{words} with kernels from {place}",
            _KNOWN_KERNELS[memory],
            partial(convolutions, conv, 1, pool),
            # usually that with kernels in RAM, so that a board without anything in its flash can answer
            {"flash": "", "npu-ram": f"control-{form}-flash"}.get(memory, f"control-{form}"),
        )
        for form, words, conv in _FORMS
        for memory, pool, place in _MEMORIES
    ),
    Probe(
        "copy-flash-beside-conv-ram",
        "a copy from flash to RAM beside a 3x3 convolution with kernels from the NPU's RAM",
        "no published copy beside a convolution reads flash; 17 alone in their epoch do",
        partial(_beside, FLASH, ""),
        "control-conv-3x3",
    ),
    Probe(
        "copy-flash-beside-conv-flash",
        "a copy from flash to RAM beside a 3x3 convolution with kernels from flash",
        "no published copy beside a convolution reads flash; 17 alone in their epoch do",
        partial(_beside, FLASH, FLASH),
        "control-conv-3x3-flash",
    ),
    Probe(
        "copy-hyperram-beside-conv-flash",
        "a copy from hyperRAM to RAM beside a 3x3 convolution with kernels from flash",
        "published once",
        partial(_beside, HYPERRAM, FLASH),
        "control-conv-3x3-flash",
    ),
)

# ----------------------------------------------------------------------------------------------------- products a cycle

_TALL = Conv(64, 32, 3, 4, 5, (2, 2, 0, 2), PLAIN, 3)  # more kernels than channels: results take longer than features
_FLAT = replace(_TALL, height=16)
_NAME = "conv-5x3-products"
_KNOWN_PRODUCTS = f"{PRODUCTS[PLAIN.simd]} products a cycle, inferred from published epochs that were measured"


def _form(conv: Conv) -> str:
    return f"a convolution with windows of 5x3, {conv.channels} channels, {conv.kernels} kernels, {conv.height} lines"


def _products(conv: Conv) -> int:
    return conv.results * conv.unit.taps


PRODUCTS_A_CYCLE = (
    Probe(
        f"{_NAME}-short",
        _form(_FLAT),
        _KNOWN_PRODUCTS,
        partial(convolutions, _FLAT),
        "conv-5x3-three-channels",
        argument="S8",
    ),
    Probe(
        _NAME,
        _form(_TALL),
        _KNOWN_PRODUCTS,
        partial(convolutions, _TALL),
        "conv-5x3-three-channels",
        argument="S8",
        units=_products(_TALL) - _products(_FLAT),
        baseline=f"{_NAME}-short",
        rate="products",
        expects=PRODUCTS[PLAIN.simd],
    ),
)

# ------------------------------------------------------------------------------------------------------------ four bits

# Values of four bits, as releases from 3.0 on store some weights: how a stream engine reads them is in no published
# program, so each probe has several possible answers, and says which one came or else what was there. What each
# hypothesis expects: SIZE0 = 4 with the low or the high half first, sign extended (the forms that the compiler has);
# the same left aligned, so that values are 16 times as large; zero extended; one value of each byte; or SIZE0 without
# effect, whole bytes. An answer that is none of them is shown in bytes.

BITS = 4
_COUNT = 32  # values of the copy that shows how they are read
_SHORT, _LONG = 4096, 16384  # values of the copies that show how fast
KERNELS_READ = ("narrow-conv-1x1", "narrow-conv-1x1-flash")  # both must agree before the compiler makes such programs
KERNELS_DEEP = "narrow-deep-1x1"
# answers that the compiler has a form for, by whether the low half comes first
LOW_FIRST = {"low_first_sign_extended": True, "high_first_sign_extended": False}


Step = Callable[[Array], Array]
_ORDERS: dict[str, Step] = {  # of the halves of bytes
    "low_first": lambda data: np.stack([data & 15, data >> BITS], axis=-1).reshape(-1),
    "high_first": lambda data: np.stack([data >> BITS, data & 15], axis=-1).reshape(-1),
    "low_of_each_byte": lambda data: data & 15,
    "high_of_each_byte": lambda data: data >> BITS,
}
_VALUES: dict[str, Step] = {
    "sign_extended": lambda nibbles: ((nibbles ^ 8) - np.uint8(8)).astype(np.uint8),
    "left_aligned": lambda nibbles: (nibbles << BITS).astype(np.uint8),
    "zero_extended": lambda nibbles: nibbles,
}


def unpacked(data: bytes, count: int) -> dict[str, bytes]:
    """By the name of the answer, what an engine may make of packed values; bytes as they are is one of them."""
    packed = np.frombuffer(data, np.uint8)
    found = {
        f"{order}_{value}": extend(take(packed))[:count].tobytes()
        for order, take in _ORDERS.items()
        for value, extend in _VALUES.items()
    }
    return found | {"whole_bytes": packed[:count].tobytes()}


def _narrow_copy(config: StrengConfig, elements: int, signed: int) -> StrengConfig:
    """The engine with values of four bits instead of eight; a frame counts elements."""
    return changed(
        config, size0=BITS, align_right=signed, sign_extend=signed, fsize_low=elements & 0xFFFF,
        fsize_high=elements >> 16,
    )  # fmt: skip


def _copy(count: int, signed: int, memory: str = "") -> ProbeEpochs:
    """Packed values to bytes. Behind them lie as many bytes again, in case that one is taken of each."""
    bench = ProbeBuilder(count, count)
    data = bench.stimulus.tobytes()
    source = bench.constant(data, memory) if memory else INPUT
    bench.chain(
        "packed values", _narrow_copy(contiguous(count), count, signed), contiguous(count, write=True), source=source
    )
    possible = unpacked(data, count).items()
    bench.answers = [Answer(name, found) for name, found in possible if count <= _SHORT or name in LOW_FIRST]
    return bench.done()


def _whole(count: int) -> ProbeEpochs:
    """Reads as many values of eight bits from flash."""
    bench = ProbeBuilder(count, count)
    source = bench.constant(bench.stimulus.tobytes(), FLASH)
    return bench.chain("bytes", contiguous(count), contiguous(count, write=True), source=source).done()


_FEW_POINTS = Conv(4, 4, 8, 8, 1, NO_PADS, FeatureMode(simd=1))
_DEEP_POINTS = Conv(6, 6, 96, 8, 1, NO_PADS, PACKED)


def narrow(whole: StrengConfig) -> StrengConfig:
    """An engine for kernels with values of four bits: as many elements, three to a word in deep mode."""
    sizes = {f"size{lane}": BITS for lane in range(3) if getattr(whole, f"size{lane}")}
    packed = changed(whole, **sizes)
    return packed if whole.size1 else changed(packed, align_right=1, sign_extend=1)


def _narrow_convolution(conv: Conv, memory: str) -> ProbeEpochs:
    """Kernels of four bits; each answer is the same convolution on kernels of eight bits that hold what was read."""
    bench = ProbeBuilder(conv.feature_bytes, conv.results)
    size = conv.kernels * conv.channels
    stream = bench.codes(size).tobytes()  # twice what is needed, in case that one value is taken of each byte
    whole = kernel_engine(size, conv.mode)
    packed = narrow(whole)
    b = bench.epoch("convolution")
    add_convolution(bench, b, conv, memory=memory, kernels=packed)
    made = with_kernels(bench.add(b).done(), stream)
    eight = replace(made, plans=tuple(read_by(plan, packed, whole) for plan in made.plans), homes={})
    answers = [Answer(n, emulated(with_kernels(eight, data))) for n, data in unpacked(stream, size).items()]
    return replace(made, answers=tuple(answers))


def with_kernels(made: ProbeEpochs, data: bytes) -> ProbeEpochs:
    def changed_buffer(buffer: Buffer) -> Buffer:
        return replace(buffer, data=data, size_bytes=len(data)) if buffer.data else buffer

    return replace(made, buffers=tuple(map(changed_buffer, made.buffers)))


def read_by(plan: EpochPlan, packed: StrengConfig, whole: StrengConfig) -> EpochPlan:
    engines = {n: replace(use, config=whole) if use.config == packed else use for n, use in plan.engines.items()}
    return replace(plan, engines=engines)


_PACKED_IN_FILES = (
    "4-bit weights are stored packed (30 pairs of models of ST's zoo); no program that reads them is published"
)

FOUR_BITS = (
    Probe(
        "narrow-copy-signed",
        "a copy of 32 values of 4 bits, aligned right and sign extended",
        _PACKED_IN_FILES,
        partial(_copy, _COUNT, 1),
        "control-raster",
    ),
    Probe(
        "narrow-copy-left",
        "a copy of 32 values of 4 bits, aligned left",
        _PACKED_IN_FILES,
        partial(_copy, _COUNT, 0),
        "control-raster",
    ),
    Probe(
        "narrow-conv-1x1",
        "a 1x1 convolution with kernels of 4 bits from the NPU's RAM",
        _PACKED_IN_FILES,
        partial(_narrow_convolution, _FEW_POINTS, ""),
        "narrow-copy-signed",
    ),
    Probe(
        "narrow-conv-1x1-flash",
        "a 1x1 convolution with kernels of 4 bits from flash",
        _PACKED_IN_FILES,
        partial(_narrow_convolution, _FEW_POINTS, FLASH),
        "narrow-conv-1x1",
    ),
    Probe(
        "flash-4096-values-of-8-bits",
        "4,096 values of 8 bits from flash",
        "published for kernels",
        partial(_whole, _SHORT),
        "control-raster",
    ),
    Probe(
        "flash-4096-values-of-4-bits",
        "4,096 values of 4 bits from flash: fewer cycles than those of 8 bits say that the bus carries packed bytes",
        _PACKED_IN_FILES,
        partial(_copy, _SHORT, 1, FLASH),
        "narrow-copy-signed",
    ),
    Probe(
        "flash-16384-values-of-4-bits",
        "16,384 values of 4 bits from flash: two values in the time of a byte where packed bytes travel, else one",
        _PACKED_IN_FILES,
        partial(_copy, _LONG, 1, FLASH),
        "flash-4096-values-of-4-bits",
        units=_LONG - _SHORT,
        baseline="flash-4096-values-of-4-bits",
        rate="values of 4 bits",
        expects=2 / stm32n6().flash_byte_cycles,
    ),
    Probe(
        "narrow-deep-1x1",
        "a deep 1x1 convolution with three kernels of 4 bits in a word (SIZE 4, 4, 4)",
        _PACKED_IN_FILES,
        partial(_narrow_convolution, _DEEP_POINTS, ""),
        "narrow-copy-signed",
    ),
)
