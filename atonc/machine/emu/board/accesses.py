"""Which device registers a firmware touches: the last ones, to show where it stands, and those that no model stands
behind, because what they would do is missing here."""

from __future__ import annotations

from collections import deque
from dataclasses import field

from atonc.machine.base.frozen import dataclass
from atonc.machine.emu.board import registers

_RECENT = 24


@dataclass
class AddressUse:
    reads: int = 0
    writes: int = 0
    last_read: int = 0
    last_written: int = 0


@dataclass
class Accesses:
    recent: deque[tuple[str, int, int]] = field(default_factory=lambda: deque(maxlen=_RECENT))  # kind, address, value
    unmodelled: dict[int, AddressUse] = field(default_factory=dict)

    def note(self, kind: str, address: int, value: int) -> None:
        self.recent.append((kind, address, value))

    def note_unmodelled(self, kind: str, address: int, value: int) -> None:
        use = self.unmodelled.setdefault(address, AddressUse())
        if kind == "read":
            use.reads, use.last_read = use.reads + 1, value
        else:
            use.writes, use.last_written = use.writes + 1, value

    def recent_lines(self) -> list[str]:
        """Oldest first; the same access again and again is one line."""
        lines: list[str] = []
        counts: list[int] = []
        for kind, address, value in self.recent:
            line = f"{kind:5} {registers.name_of(address)} {value:#010x}"
            if lines and lines[-1] == line:
                counts[-1] += 1
            else:
                lines.append(line)
                counts.append(1)
        return [line if count == 1 else f"{line} ({count} times)" for line, count in zip(lines, counts, strict=True)]

    def unmodelled_lines(self) -> list[str]:
        return [
            f"{registers.name_of(address)}: read {use.reads} times, written {use.writes} times, holds "
            f"{use.last_written if use.writes else use.last_read:#010x}"
            for address, use in sorted(self.unmodelled.items())
        ]
