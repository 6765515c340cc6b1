"""The NPU's interrupt controller: 32 sources, four lines to the CPU, each with an OR mask and an AND mask."""

from __future__ import annotations

from collections.abc import Callable

_ALL = 0xFFFF_FFFF
_CTRL, _VERSION, _STATUS, _SET, _CLEAR, _OR_MASKS, _AND_MASKS = 0, 1, 2, 3, 4, 5, 9
_VERSION_WORD = 69210398
_EN, _CLR, _CONFCLR = 1 << 0, 1 << 1, 1 << 30
LINES = 4


class InterruptController:
    """A source that a mask names is ignored by that line. A line is up when any source is left by its OR mask, or
    when all those left by its AND mask are up."""

    EPOCHCTRL, EPOCHCTRL_ERROR = 28, 30  # numbers of sources; 0 to 9 are the stream engines

    def __init__(self, set_line: Callable[[int, bool], None]) -> None:
        self._set_line = set_line
        self.reset()

    def reset(self) -> None:
        self.enabled, self.status = False, 0
        self.or_masks, self.and_masks = [_ALL] * LINES, [_ALL] * LINES

    def raise_source(self, number: int) -> None:
        self.status |= 1 << number
        self._update()

    def read(self, register: int) -> int:
        if register == _STATUS:
            return self.status
        if _OR_MASKS <= register < _OR_MASKS + LINES:
            return self.or_masks[register - _OR_MASKS]
        if _AND_MASKS <= register < _AND_MASKS + LINES:
            return self.and_masks[register - _AND_MASKS]
        return {_CTRL: int(self.enabled), _VERSION: _VERSION_WORD}.get(register, 0)

    def write(self, register: int, value: int) -> None:
        if register == _CTRL:
            if value & _CONFCLR:
                self.reset()
            elif value & _CLR:
                self.status = 0
            self.enabled = bool(value & _EN)
        elif register == _SET:
            self.status |= value
        elif register == _CLEAR:
            self.status &= ~value
        elif _OR_MASKS <= register < _OR_MASKS + LINES:
            self.or_masks[register - _OR_MASKS] = value
        elif _AND_MASKS <= register < _AND_MASKS + LINES:
            self.and_masks[register - _AND_MASKS] = value
        self._update()

    def _update(self) -> None:
        for line in range(LINES):
            wanted = ~self.and_masks[line] & _ALL
            any_up = self.status & ~self.or_masks[line] & _ALL
            all_up = wanted and self.status & wanted == wanted
            self._set_line(line, bool(self.enabled and (any_up or all_up)))
