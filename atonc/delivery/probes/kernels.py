"""Kernels from each memory, and copies beside a convolution that reads flash."""

from __future__ import annotations

from functools import partial

from atonc.compiler.plan.streams import contiguous
from atonc.delivery.probes.bench import ProbeBuilder
from atonc.delivery.probes.convolution import NO_PADS, ONE, PACKED, PLAIN, Conv, add_convolution, convolutions
from atonc.delivery.probes.places import CPU_RAM, FLASH, HYPERRAM
from atonc.delivery.probes.types import OUTPUT, Probe, ProbeEpochs
from atonc.machine.hw.units.stream_engine import StrengConfig

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
    bench.add(b)
    return bench.done()


def _words(offset: int, write: bool = False) -> StrengConfig:
    return contiguous(_COPY, write=write, word_bytes=3, offset=offset)


_MEMORIES = (
    ("flash", FLASH, "flash"),
    ("npu-ram", "", "the NPU's RAM"),  # as the control without flash has them: if that fails, this tells why
    ("cpu-ram", CPU_RAM, "the CPU's RAM"),
    ("hyperram", HYPERRAM, "hyperRAM"),
)
_FORMS = (("conv-3x3", "a 3x3 convolution", _WINDOWS), ("deep-1x1", "a deep 1x1 convolution", _POINTS))
_KNOWN = {
    "flash": "as nearly all published programs have it",
    "npu-ram": "15 units of as many programs of one owner",
    "cpu-ram": "6 units of two programs of one owner",
    "hyperram": "never published",
}


def _name(form: str, memory: str) -> str:
    return f"control-{form}-flash" if memory == "flash" else f"{form}-kernels-{memory}"


def _control(form: str, memory: str) -> str:
    """Kernels in RAM, so that a board without anything in its flash can answer."""
    return {"flash": "", "npu-ram": f"control-{form}-flash"}.get(memory, f"control-{form}")


PROBES = (
    *(
        Probe(
            _name(form, memory),
            f"{words} with kernels from {place}",
            _KNOWN[memory],
            partial(convolutions, conv, 1, pool),
            _control(form, memory),
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
