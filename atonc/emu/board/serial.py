"""One UART: what the firmware sends, as text."""

from __future__ import annotations

from collections.abc import Callable

_STATUS, _SEND = 0x1C, 0x28
_READY = 1 << 22 | 1 << 21 | 1 << 7 | 1 << 6  # receiver and transmitter acknowledge, send register empty, all sent
_SLOT = 0x400
MAX_TEXT = 4 << 20  # a firmware that prints for ever must not fill the host's memory


class Serial:
    """Any UART in this page; `listen` gets every whole line as it arrives."""

    def __init__(self) -> None:
        self._text: list[str] = []
        self._line: list[str] = []
        self._size = 0
        self.listen: Callable[[str], None] | None = None

    @property
    def text(self) -> str:
        return "".join(self._text)

    @property
    def lines(self) -> list[str]:
        return self.text.splitlines()

    def read(self, offset: int) -> int:
        return _READY if offset % _SLOT == _STATUS else 0

    def write(self, offset: int, value: int) -> None:
        if offset % _SLOT != _SEND or self._size >= MAX_TEXT:
            return
        self._size += 1
        character = chr(value & 0xFF)
        self._text.append(character)
        if character == "\n":
            line, self._line = "".join(self._line).rstrip("\r"), []
            if self.listen is not None:
                self.listen(line)
        else:
            self._line.append(character)
