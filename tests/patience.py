"""Instead of the clock: operations that are counted, and limits so generous that only a hang reaches them.

Tests share their machine, so how long something took says little about it. Speed is measured in `benchmarks/`; what a
test can say is how much more there is to do for a larger input. This file alone reads a clock
(`tests/test_clocks.py`).
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, TypeVar

PATIENCE = 600.0  # seconds: whoever waits so long for something waits for a hang
HANG = 120.0  # seconds of the processor, for what takes a few at most

T = TypeVar("T")


class HangsError(BaseException):
    """Not an `Exception`: nobody shall take it for an answer of his own."""


@contextmanager
def no_hang(seconds: float = HANG) -> Iterator[None]:
    """Ends what never ends, by the time that the processor spends on it."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise HangsError(f"more than {seconds:g} s of the processor")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def until(test: Callable[[], T], pause: Callable[[], object] = lambda: time.sleep(0.02)) -> T:
    """What the test gives, as soon as that is something."""
    deadline = time.monotonic() + PATIENCE
    while not (found := test()):
        assert time.monotonic() < deadline, "waited in vain"
        pause()
    return found


def operations(work: Callable[[], object]) -> int:
    """Lines of Python that it takes; the same on every machine. What C code does inside a line does not count."""
    count = 0

    def line(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        count += event == "line"
        return line

    before = sys.gettrace()
    sys.settrace(line)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def growth(work: Callable[[int], Callable[[], object]], size: int) -> float:
    """How many times as much twice the size takes; `work` prepares what is counted then."""
    small, large = operations(work(size)), operations(work(2 * size))
    return large / small
