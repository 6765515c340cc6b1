"""Questions about the chip's DMA: how fast it brings constants from flash into RAM while the NPU has little to do,
works in RAM, or reads flash itself. Applications that move weights or frames by it share the flash with the network."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from atonc.compiler.plan.types import Buffer, BufferKind
from atonc.delivery.probes.bench import OUTPUT, Probe, ProbeBuilder, ProbeEpochs, Transfer
from atonc.delivery.probes.build import FLASH
from atonc.delivery.probes.kernels import streamed
from atonc.machine.hw.machine import stm32n6

_LITTLE, _BUSY = 1, 48  # sets of kernels: the NPU is done at once, or works for longer than the longest transfer
_SHORT, _LONG = 1024, 4096  # bytes; a block of a channel has at most 65,535


def _moved(size: int, sets: int, memory: str = "") -> ProbeEpochs:
    """A convolution with so many sets of kernels from RAM or from this memory, and a transfer beside it."""
    made, data = streamed(sets, memory), ProbeBuilder(size, 0).stimulus.tobytes()
    moved = Buffer("moved", size, BufferKind.CONSTANT, data=data)
    results = next(buffer.size_bytes for buffer in made.buffers if buffer.name == OUTPUT)
    buffers = (replace(one, size_bytes=results + size) if one.name == OUTPUT else one for one in made.buffers)
    homes = {**made.homes, moved.name: FLASH}
    transfer = Transfer(moved.name, OUTPUT, results, size)
    return replace(made, buffers=(*buffers, moved), homes=homes, transfer=transfer)


_FLASH_BYTE = 1 / stm32n6().flash_byte_cycles
_CASES = (
    # what the NPU does meanwhile, sets of kernels, their memory, bytes a cycle if the flash is what is waited for
    ("alone", "while the NPU has little to do", _LITTLE, "", _FLASH_BYTE),
    ("beside-ram", "while the NPU works in its RAM", _BUSY, "", _FLASH_BYTE),
    ("beside-flash", "while the NPU reads flash too: half of it, if they take turns", _BUSY, FLASH, _FLASH_BYTE / 2),
)
_KNOWN = "no program or figure of the chip's DMA beside the NPU is published"


def _probes() -> Iterator[Probe]:
    for name, words, sets, memory, expects in _CASES:
        title = f"dma-flash-{name}"
        control = "control-deep-1x1-flash" if name == "alone" else "dma-flash-alone"
        short, long = (partial(_moved, size, sets, memory) for size in (_SHORT, _LONG))
        few, many = (f"{size:,} bytes from flash into the NPU's RAM by HPDMA1, {words}" for size in (_SHORT, _LONG))
        yield Probe(f"{title}-short", few, _KNOWN, short, control, of_configuration=False)
        found = Probe(title, many, _KNOWN, long, control, of_configuration=False)
        yield replace(found, units=_LONG - _SHORT, baseline=f"{title}-short", rate="bytes", expects=expects)


DMA = tuple(_probes())
