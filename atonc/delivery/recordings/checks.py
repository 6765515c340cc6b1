"""Whether a recording can be what it says. Hashes and shapes were checked when it was read."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from atonc.delivery.recordings.recording import LICENCES, Recording
from atonc.delivery.wire.messages import STM32N6
from atonc.machine.base.frozen import dataclass

# layer by layer an inference takes a little longer than at once; a board that disagrees more measured something else
LEAST_SHARE, MOST_SHARE = 0.5, 2.0
MOST_MS = 600_000.0
CLOCKS_HZ = (4_000_000, 1_200_000_000)  # the slowest oscillator of the chip, and more than its fastest clock


@dataclass(frozen=True)
class Fault:
    rule: str
    seen: str
    remedy: str


def faults(recording: Recording) -> tuple[Fault, ...]:
    """What cannot be true."""
    return tuple(
        [*_times(recording), *_blocks(recording), *_device(recording), *_names(recording), *_edges(recording)]
    )


def gaps(recording: Recording) -> tuple[Fault, ...]:
    """What is missing before it can be given to others."""
    found = []
    stated = recording.stated
    if not stated.board:
        found.append(Fault("it says what it ran on", "no board", "record with --record-board NAME"))
    if stated.licence not in LICENCES:
        allowed = ", ".join(LICENCES)
        seen = f"licence {stated.licence!r}" if stated.licence else "no licence"
        found.append(Fault(f"everybody may use it: {allowed}", seen, "record with --record-licence CC0-1.0"))
    if not recording.model_sha256:
        found.append(Fault("the model is known by its hash", "no hash of the model", "record from the model's file"))
    return tuple(found)


def _times(recording: Recording) -> Iterator[Fault]:
    if not recording.milliseconds:
        yield Fault("there is at least one sample", "none", "record again")
    for k, value in enumerate(recording.milliseconds, 1):
        if not 0 < value <= MOST_MS:
            yield Fault(f"an inference takes up to {MOST_MS:,.0f} ms", f"sample {k}: {value:g} ms", "record again")
    if recording.blocks and recording.milliseconds and recording.milliseconds[0] > 0:
        share = recording.blocks_ms / recording.milliseconds[0]
        if not LEAST_SHARE <= share <= MOST_SHARE:
            seen = f"blocks {recording.blocks_ms:.3f} ms, inference {recording.milliseconds[0]:.3f} ms"
            yield Fault("epoch times add up to the inference", seen, "record again: one of the two is wrong")


def _blocks(recording: Recording) -> Iterator[Fault]:
    for block in recording.blocks:
        if block.first > block.last:
            seen = f"a block from epoch {block.first} to {block.last}"
            yield Fault("a block ends behind its start", seen, "record again")
    for before, block in pairwise(recording.blocks):
        if block.first <= before.last:
            seen = f"epoch {block.first} behind {before.last}"
            yield Fault("every epoch runs once, in order", seen, "record again")


def _device(recording: Recording) -> Iterator[Fault]:
    ran = recording.ran_with
    if ran.device != STM32N6:
        yield Fault(f"the chip is an STM32N6 ({STM32N6:#x})", f"device {ran.device:#x}", "record on this chip")
    for what, clock in (("CPU", ran.cpu_hz), *((("NPU", ran.npu_hz),) if ran.npu_hz else ())):
        if not CLOCKS_HZ[0] <= clock <= CLOCKS_HZ[1]:
            yield Fault("clocks are possible on this chip", f"{what} at {clock:,} Hz", "record again")


def _names(recording: Recording) -> Iterator[Fault]:
    ran, stated = recording.ran_with, recording.stated
    for text in (ran.firmware, ran.atonc, stated.board, stated.licence, *ran.options):
        if "/" in text or "\\" in text:
            yield Fault("it names no folders", f"{text[:60]!r}", "record again with files of the current folder")


def _edges(recording: Recording) -> Iterator[Fault]:
    for what, tensors in (("input", recording.inputs), ("output", recording.outputs)):
        if not tensors:
            yield Fault(f"a network has an {what}", "none", "record again")
