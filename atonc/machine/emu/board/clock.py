"""Time on the board: one counter in CPU cycles, and what happens later."""

from __future__ import annotations

import heapq
from collections.abc import Callable

Action = Callable[[], None]


class Clock:
    """One instruction is one cycle; waiting for the NPU lets the counter jump to the moment when something happens.
    Nothing else moves it: not how many instructions are executed at a time, and not the host's own clock."""

    def __init__(self) -> None:
        self.begun: Callable[[], int] = lambda: 0  # instructions of the slice that runs
        self.waited = 0  # cycles in which the CPU slept or polled
        self._passed = 0  # cycles, without those of the slice that runs
        self._order = 0
        self._queue: list[tuple[int, int, Action]] = []

    @property
    def now(self) -> int:
        return self._passed + self.begun()

    def executed(self, instructions: int) -> None:
        """Counts the instructions of a slice that is over."""
        self._passed += instructions

    def schedule(self, delay: int, action: Action) -> None:
        self._order += 1
        heapq.heappush(self._queue, (self.now + max(0, delay), self._order, action))

    @property
    def next_event(self) -> int | None:
        return self._queue[0][0] if self._queue else None

    def run_due(self) -> None:
        while self._queue and self._queue[0][0] <= self.now:
            heapq.heappop(self._queue)[2]()

    def advance(self, until: int) -> None:
        """The CPU waits until then; what is due by then happens."""
        ahead = max(0, until - self.now)
        self._passed += ahead
        self.waited += ahead
        self.run_due()

    def jump(self) -> bool:
        """Jumps to the next event; False when nothing is planned."""
        if not self._queue:
            return False
        self.advance(self._queue[0][0])
        return True
