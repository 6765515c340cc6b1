"""What a firmware prints on its UARTs, as text."""

from __future__ import annotations

from collections.abc import Callable

MAX_TEXT = 4 << 20  # a firmware that prints for ever must not fill the host's memory


class Terminal:
    """`listen` gets every whole line as it arrives."""

    def __init__(self) -> None:
        self._text: list[str] = []
        self._line: list[str] = []
        self.listen: Callable[[str], None] | None = None

    @property
    def text(self) -> str:
        return "".join(self._text)

    @property
    def lines(self) -> list[str]:
        return self.text.splitlines()

    def put(self, byte: int) -> None:
        if len(self._text) >= MAX_TEXT:
            return
        character = chr(byte)
        self._text.append(character)
        if character == "\n":
            line, self._line = "".join(self._line).rstrip("\r"), []
            if self.listen is not None:
                self.listen(line)
        else:
            self._line.append(character)
