"""Questions about kernels on their way to a CONVACC: written by an engine in an earlier epoch, and how fast they come
from each memory, in bytes and packed to 4 bits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from atonc.compiler.lower.conv.chains import unit_config
from atonc.compiler.lower.conv.engines import feature_engine, kernel_engine
from atonc.compiler.lower.conv.kernel_parts import Part
from atonc.compiler.plan.streams import Area, Frames, contiguous
from atonc.delivery.probes.bench import INPUT, OUTPUT, Answer, Probe, ProbeBuilder, ProbeEpochs, same_codes, to_codes
from atonc.delivery.probes.build import CPU_RAM, FLASH, HYPERRAM, emulated
from atonc.delivery.probes.convolutions import (
    CUT,
    LOW_FIRST,
    NO_PADS,
    ONE,
    PACKED,
    PLAIN,
    SHIFT,
    Conv,
    narrow,
    read_by,
    unpacked,
    with_kernels,
)
from atonc.machine.hw.fields import changed
from atonc.machine.hw.machine import stm32n6

# ---------------------------------------------------------------------------- kernels that an engine wrote before

_QUARTER = 2  # bits off what becomes kernels, so that their sums fit
_POINTS, _WINDOWS = Conv(6, 6, 96, 8, 1, NO_PADS, PACKED), Conv(12, 12, 4, 4, 3, ONE, PLAIN)


def _written_kernels(conv: Conv, memory: str) -> ProbeEpochs:
    """A convolution whose kernels an engine wrote into a memory in the epoch before, as a product of two activations
    has them. Features and kernels both come from the input."""
    window = conv.window * conv.window
    features, size = conv.feature_bytes, conv.channels * conv.kernels * window
    bench = ProbeBuilder(features + size, conv.results)
    kept = bench.scratch(size, memory)
    reader, writer = contiguous(size, offset=features), contiguous(size, write=True)
    bench.chain("kernels", reader, writer, same_codes(_QUARTER), target=kept)
    b = bench.epoch("convolution")
    kernels = b.read(kept, kernel_engine(size, conv.mode))
    sums = b.unit(conv.unit, b.read(INPUT, feature_engine(conv.area(), Frames(), conv.mode)), kernels)
    b.write(b.unit(to_codes(SHIFT, conv.results), sums), OUTPUT, contiguous(conv.results, write=True))
    return bench.add(b).done()


_WRITTEN = (
    ("deep-1x1", "a deep 1x1 convolution", _POINTS, "", "the NPU's RAM"),
    ("deep-1x1", "a deep 1x1 convolution", _POINTS, CPU_RAM, "the CPU's RAM"),
    ("deep-1x1", "a deep 1x1 convolution", _POINTS, HYPERRAM, "hyperRAM"),
    ("conv-3x3", "a 3x3 convolution", _WINDOWS, "", "the NPU's RAM"),
)
_NAMES = {"": "", CPU_RAM: "-cpu-ram", HYPERRAM: "-hyperram"}

WRITTEN_KERNELS = tuple(
    Probe(
        f"{form}-written-kernels{_NAMES[memory]}",
        f"{words} with kernels that an engine wrote into {place} in the epoch before (--schedule-with engine-kernels)",
        "no program is published whose kernels an engine wrote; 15 of one owner read them from the NPU's RAM",
        partial(_written_kernels, conv, memory),
        f"{form}-kernels{_NAMES[memory]}" if memory else f"control-{form}",
        of_configuration=False,
    )
    for form, words, conv, memory, place in _WRITTEN
)

# ---------------------------------------------------------------------------- kernels that the CPU wrote just before


def _given_kernels(conv: Conv, memory: str) -> ProbeEpochs:
    """A convolution whose kernels lie in the input behind the features: the CPU has just written both."""
    features, size = conv.feature_bytes, conv.channels * conv.kernels
    bench = ProbeBuilder(features + size, conv.results)
    bench.stimulus[features:] >>= _QUARTER
    bench.homes |= {INPUT: memory} if memory else {}
    b = bench.epoch("convolution")
    kernels = b.read(INPUT, changed(kernel_engine(size, conv.mode), address=features))
    sums = b.unit(conv.unit, b.read(INPUT, feature_engine(conv.area(), Frames(), conv.mode)), kernels)
    b.write(b.unit(to_codes(SHIFT, conv.results), sums), OUTPUT, contiguous(conv.results, write=True))
    return bench.add(b).done()


GIVEN_KERNELS = tuple(
    Probe(
        f"deep-1x1-given-kernels{_NAMES[memory]}",
        f"a deep 1x1 convolution with kernels that the CPU has just written into {place}",
        "published kernels in RAM are constants, which the application copies there before it starts the network",
        partial(_given_kernels, _POINTS, memory),
        "control-deep-1x1",
        argument="S11",
    )
    for memory, place in (("", "the NPU's RAM"), (CPU_RAM, "the CPU's RAM"))
)

# --------------------------------------------------------------------------------- how fast kernels come from a memory

# Few features and many sets of kernels, so that the kernels are what everything waits for: the features are read again
# for each set, as ST programs do for groups of output channels.

_SIDE, _CHANNELS, _SET = 2, 96, 8
_FEW, _MANY = 4, 20  # sets of kernels
_SET_BYTES = _CHANNELS * _SET


def streamed(sets: int, memory: str, four_bits: bool = False) -> ProbeEpochs:
    """So many sets of deep kernels over one small frame."""
    part = Part(Area.whole(_SIDE, _SIDE, _CHANNELS), np.zeros((_SET, 1, 1, _CHANNELS), np.int16), NO_PADS, 1)
    unit = replace(unit_config(part, PACKED, _CHANNELS, _SET), out_shift=CUT)
    results, size = unit.out_elements * sets, _SET_BYTES * sets
    bench = ProbeBuilder(_SIDE * _SIDE * _CHANNELS, results)
    whole = kernel_engine(size, PACKED)
    reader = narrow(whole) if four_bits else whole
    b = bench.epoch("sets of kernels")
    kernels = b.read(bench.constant((bench.codes(size) >> 1).tobytes(), memory), reader)
    sums = b.unit(unit, b.read(INPUT, feature_engine(part.area, Frames(sets, 0), PACKED)), kernels)
    b.write(b.unit(to_codes(SHIFT, results), sums), OUTPUT, contiguous(results, write=True))
    made = bench.add(b).done()
    if not four_bits:
        return made
    data = bench.constants[0].data[: -(-size // 2)]
    eight = replace(made, plans=tuple(read_by(plan, reader, whole) for plan in made.plans), homes={})
    possible = {name: found for name, found in unpacked(data, size).items() if name in LOW_FIRST}
    answers = [Answer(name, emulated(with_kernels(eight, found))) for name, found in possible.items()]
    return replace(with_kernels(made, data), answers=tuple(answers))


_RAM_WORD = 3.0  # bytes of deep kernels that an engine sends a cycle
_ONE = 1  # value of 4 bits a cycle, which measured pairs of networks say (benchmarks/results/w4_explained.md)
_UNPACKED = 2 / stm32n6().flash_byte_cycles  # values of 4 bits, where packed bytes travel and the engine unpacks them
_KNOWN = "no measured program has kernels in RAM"
_MEMORIES = (
    # and the constant that the cycles give, where they wait for the memory
    ("flash", FLASH, "flash", "control-deep-1x1-flash", "flash_mb_per_s"),
    ("npu-ram", "", "the NPU's RAM", "deep-1x1-kernels-npu-ram", ""),
    ("cpu-ram", CPU_RAM, "the CPU's RAM", "deep-1x1-kernels-cpu-ram", ""),
    ("hyperram", HYPERRAM, "hyperRAM", "deep-1x1-kernels-hyperram", "hyperram_mb_per_s"),
)


def _rated(name: str, what: str, memory: str, control: str, four_bits: bool) -> tuple[Probe, Probe]:
    """With few and with many sets of kernels."""
    known = "no program that reads values of 4 bits is published" if four_bits else _KNOWN
    short, long = (partial(streamed, sets, memory, four_bits) for sets in (_FEW, _MANY))
    few, many = (f"{sets} sets of deep kernels {what} over one frame of 2x2" for sets in (_FEW, _MANY))
    more = _SET_BYTES * (_MANY - _FEW)
    return (
        Probe(f"{name}-short", few, known, short, control),
        Probe(name, many, known, long, control, units=more, baseline=f"{name}-short"),
    )


def _of_bytes() -> Iterator[Probe]:
    for name, memory, place, control, constant in _MEMORIES:
        short, long = _rated(f"kernels-{name}-rate", f"from {place}", memory, control, four_bits=False)
        yield short
        rate = {"measures": constant} if constant else {"rate": "bytes of kernels", "expects": _RAM_WORD}
        yield replace(long, **rate)


def _of_four_bits() -> Iterator[Probe]:
    for name, memory, place, expects in (("flash", FLASH, "flash", _UNPACKED), ("npu-ram", "", "RAM", _ONE)):
        what = f"of 4 bits from {place}"
        short, long = _rated(f"narrow-kernels-{name}-rate", what, memory, "narrow-deep-1x1", four_bits=True)
        yield short
        yield replace(long, rate="values of 4 bits", expects=expects)


KERNEL_RATES, NARROW_RATES = tuple(_of_bytes()), tuple(_of_four_bits())
