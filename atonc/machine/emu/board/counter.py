"""How many instructions unicorn has executed, to the last one: time on the board is a function of nothing else.

unicorn counts, to know when a slice ends, but tells nobody. Its engine keeps two words beside each other, the number of
instructions that it has begun and the number that it was given: they are found by what they hold after slices of
different lengths.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from atonc.machine.base.errors import ToolError

_WORDS = 512  # of the engine, whose first half kilobyte of words all releases since 2.0 have
_TRIES = 37, 53, 71


class InstructionCounter:
    def __init__(self, uc: Any, run: Callable[[int], None]) -> None:
        """`run` executes so many instructions that do nothing."""
        words = (ctypes.c_size_t * _WORDS).from_address(uc._uch.value)
        places = set(range(_WORDS - 1))
        for count in _TRIES:
            run(count)
            # the instruction at which it stopped was begun and not executed
            places = {k for k in places if (words[k], words[k + 1]) == (count + 1, count)}
        if len(places) != 1:
            raise ToolError("this release of unicorn does not show how many instructions ran", remedy="use 2.1.4")
        self._words, self._place = words, places.pop()

    @property
    def begun(self) -> int:
        """In this slice, the one that is at a device included."""
        return self._words[self._place]

    @property
    def left(self) -> int:
        """Instructions of this slice that are left."""
        return self._words[self._place + 1] - self.begun

    def end_here(self) -> None:
        """The slice ends behind the instruction that is at a device. unicorn's own stop would end it before that one,
        which would then be executed twice."""
        self._words[self._place + 1] = self.begun

    def executed(self, trapped: bool) -> int:
        """Instructions of a slice that is over. More than were given where it could not end inside an IT block."""
        return self.begun if trapped or self.left >= 0 else self.begun - 1
