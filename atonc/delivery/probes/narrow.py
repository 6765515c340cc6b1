"""Values of four bits, as releases from 3.0 on store some weights: how a stream engine reads them is in no published
program, so each probe has several possible answers, and says which one came or else what was there.

What each hypothesis expects: SIZE0 = 4 with the low or the high half first, sign extended (the forms that the compiler
has); the same left aligned, so that values are 16 times as large; zero extended; one value of each byte; or SIZE0
without effect, whole bytes. An answer that is none of them is shown in bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from atonc.compiler.ir import Array
from atonc.compiler.lower.conv.chains import FeatureMode
from atonc.compiler.lower.conv.engines import kernel_engine
from atonc.compiler.plan.streams import contiguous
from atonc.compiler.plan.types import Buffer, EpochPlan
from atonc.delivery.probes.bench import ProbeBuilder
from atonc.delivery.probes.build import emulated
from atonc.delivery.probes.convolution import NO_PADS, PACKED, Conv, add_convolution
from atonc.delivery.probes.places import FLASH
from atonc.delivery.probes.types import INPUT, OUTPUT, Answer, Probe, ProbeEpochs
from atonc.machine.hw.fields import changed
from atonc.machine.hw.machine import stm32n6
from atonc.machine.hw.units.stream_engine import StrengConfig

_BITS = 4
_COUNT = 32  # values of the copy that shows how they are read
_SHORT, _LONG = 4096, 16384  # values of the copies that show how fast
KERNELS_READ = ("narrow-conv-1x1", "narrow-conv-1x1-flash")  # both must agree before the compiler makes such programs
KERNELS_DEEP = "narrow-deep-1x1"
# answers that the compiler has a form for, by whether the low half comes first
LOW_FIRST = {"low_first_sign_extended": True, "high_first_sign_extended": False}


def _low_first(data: Array) -> Array:
    return np.stack([data & 15, data >> _BITS], axis=-1).reshape(-1)


def _high_first(data: Array) -> Array:
    return np.stack([data >> _BITS, data & 15], axis=-1).reshape(-1)


def _low_of_each(data: Array) -> Array:
    return data & 15


def _high_of_each(data: Array) -> Array:
    return data >> _BITS


def _sign_extended(nibbles: Array) -> Array:
    return ((nibbles ^ 8) - np.uint8(8)).astype(np.uint8)


def _left_aligned(nibbles: Array) -> Array:
    return (nibbles << _BITS).astype(np.uint8)


def _as_is(nibbles: Array) -> Array:
    return nibbles


Step = Callable[[Array], Array]
_ORDERS: dict[str, Step] = {
    "low_first": _low_first,
    "high_first": _high_first,
    "low_of_each_byte": _low_of_each,
    "high_of_each_byte": _high_of_each,
}
_VALUES: dict[str, Step] = {"sign_extended": _sign_extended, "left_aligned": _left_aligned, "zero_extended": _as_is}


def unpacked(data: bytes, count: int) -> dict[str, bytes]:
    """By the name of the answer, what an engine may make of packed values; bytes as they are is one of them."""
    packed = np.frombuffer(data, np.uint8)
    found = {
        f"{order}_{value}": extend(take(packed))[:count].tobytes()
        for order, take in _ORDERS.items()
        for value, extend in _VALUES.items()
    }
    return found | {"whole_bytes": packed[:count].tobytes()}


def _narrow(config: StrengConfig, elements: int, signed: int) -> StrengConfig:
    """The engine with values of four bits instead of eight; a frame counts elements."""
    return changed(
        config, size0=_BITS, align_right=signed, sign_extend=signed, fsize_low=elements & 0xFFFF,
        fsize_high=elements >> 16,
    )  # fmt: skip


def _copy(count: int, signed: int, memory: str = "") -> ProbeEpochs:
    """Packed values to bytes. Behind them lie as many bytes again, in case that one is taken of each."""
    bench = ProbeBuilder(count, count)
    data = bench.stimulus.tobytes()
    source = bench.constant(data, memory) if memory else INPUT
    b = bench.epoch("packed values")
    b.write(b.read(source, _narrow(contiguous(count), count, signed)), OUTPUT, contiguous(count, write=True))
    bench.add(b)
    possible = unpacked(data, count).items()
    bench.answers = [Answer(name, found) for name, found in possible if count <= _SHORT or name in LOW_FIRST]
    return bench.done()


def _whole(count: int) -> ProbeEpochs:
    """Reads as many values of eight bits from flash."""
    bench = ProbeBuilder(count, count)
    source = bench.constant(bench.stimulus.tobytes(), FLASH)
    b = bench.epoch("bytes")
    b.write(b.read(source, contiguous(count)), OUTPUT, contiguous(count, write=True))
    bench.add(b)
    return bench.done()


_POINTS = Conv(4, 4, 8, 8, 1, NO_PADS, FeatureMode(simd=1))
_DEEP_POINTS = Conv(6, 6, 96, 8, 1, NO_PADS, PACKED)


def _convolution(conv: Conv, memory: str) -> ProbeEpochs:
    """Kernels of four bits; each answer is the same convolution on kernels of eight bits that hold what was read."""
    bench = ProbeBuilder(conv.feature_bytes, conv.results)
    size = conv.kernels * conv.channels
    stream = bench.codes(size).tobytes()  # twice what is needed, in case that one value is taken of each byte
    whole = kernel_engine(size, conv.mode)
    packed = changed(whole, size0=_BITS, size1=_BITS if whole.size1 else 0, size2=_BITS if whole.size2 else 0)
    packed = packed if conv.mode.deep else changed(packed, align_right=1, sign_extend=1)
    b = bench.epoch("convolution")
    add_convolution(bench, b, conv, memory=memory, kernels=packed)
    bench.add(b)
    made = _with_kernels(bench.done(), stream)
    eight = replace(made, plans=tuple(_read_by(plan, packed, whole) for plan in made.plans), homes={})
    answers = [Answer(n, emulated(_with_kernels(eight, data))) for n, data in unpacked(stream, size).items()]
    return replace(made, answers=tuple(answers))


def _with_kernels(made: ProbeEpochs, data: bytes) -> ProbeEpochs:
    def changed_buffer(buffer: Buffer) -> Buffer:
        return replace(buffer, data=data, size_bytes=len(data)) if buffer.data else buffer

    return replace(made, buffers=tuple(map(changed_buffer, made.buffers)))


def _read_by(plan: EpochPlan, packed: StrengConfig, whole: StrengConfig) -> EpochPlan:
    engines = {n: replace(use, config=whole) if use.config == packed else use for n, use in plan.engines.items()}
    return replace(plan, engines=engines)


_KNOWN = "4-bit weights are stored packed (30 pairs of models of ST's zoo); no program that reads them is published"

PROBES = (
    Probe(
        "narrow-copy-signed",
        "a copy of 32 values of 4 bits, aligned right and sign extended",
        _KNOWN,
        partial(_copy, _COUNT, 1),
        "control-raster",
    ),
    Probe(
        "narrow-copy-left",
        "a copy of 32 values of 4 bits, aligned left",
        _KNOWN,
        partial(_copy, _COUNT, 0),
        "control-raster",
    ),
    Probe(
        "narrow-conv-1x1",
        "a 1x1 convolution with kernels of 4 bits from the NPU's RAM",
        _KNOWN,
        partial(_convolution, _POINTS, ""),
        "narrow-copy-signed",
    ),
    Probe(
        "narrow-conv-1x1-flash",
        "a 1x1 convolution with kernels of 4 bits from flash",
        _KNOWN,
        partial(_convolution, _POINTS, FLASH),
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
        _KNOWN,
        partial(_copy, _SHORT, 1, FLASH),
        "narrow-copy-signed",
    ),
    Probe(
        "flash-16384-values-of-4-bits",
        "16,384 values of 4 bits from flash: two values in the time of a byte where packed bytes travel, else one",
        _KNOWN,
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
        _KNOWN,
        partial(_convolution, _DEEP_POINTS, ""),
        "narrow-copy-signed",
    ),
)
