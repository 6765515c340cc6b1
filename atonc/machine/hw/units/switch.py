"""STRSWITCH: which source feeds which input port, and which frames pass.

A link has two contexts that take turns: `frames0` frames in context 0, then `frames1` frames in context 1. Frames that
fall into a disabled context are discarded for that destination. Both counts zero: context 0 for ever.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from atonc.machine.base.frozen import dataclass
from atonc.machine.hw import fields, regs
from atonc.machine.hw.stream import Stream


@dataclass(frozen=True)
class Link:
    source: str
    destination: str
    port: int
    enabled0: bool = True
    frames0: int = 0
    enabled1: bool = False
    frames1: int = 0
    other_source: int = 0  # LINK1, as programmed
    tick_type: int = 0

    @property
    def permanent(self) -> bool:
        return self.frames0 == 0 and self.frames1 == 0

    @property
    def gate(self) -> str:
        """How frames are gated, in words."""
        if self.permanent:
            return ""
        if self.enabled1 and not self.enabled0:
            return f"drop {self.frames0} keep {self.frames1}"
        if self.enabled0 and not self.enabled1:
            return f"keep {self.frames0} drop {self.frames1}"
        return f"alternate {self.frames0}/{self.frames1}"

    def __str__(self) -> str:
        gate = f" ({self.gate})" if self.gate else ""
        return f"{self.source} -> {self.destination}:{self.port}{gate}"


_PORT_OF_REGISTER = {index: place for place, index in regs.SWITCH_PORTS.items()}


@lru_cache(maxsize=1 << 12)
def decode_link(register: int, word: int) -> Link | None:
    """The link that a switch register selects; None when the port is off or the register is no port."""
    place = _PORT_OF_REGISTER.get(register)
    if place is None or not (word & 1 or word >> 16 & 1):
        return None
    enabled0, enabled1 = bool(word & 1), bool(word >> 16 & 1)
    link0, link1 = word >> 1 & 31, word >> 17 & 31
    number = link0 if enabled0 else link1
    source = regs.SOURCE_NAMES.get(number)
    if source is None:
        raise fields.not_modelled(f"{place[0]}:{place[1]}", "stream switch source", number)
    return Link(
        source=source.replace("RECBUF0", "RECBUF0:") if source.startswith("RECBUF") else source,
        destination=place[0],
        port=place[1],
        enabled0=enabled0,
        frames0=word >> 8 & 0xFF,
        enabled1=enabled1,
        frames1=word >> 24 & 0xFF,
        other_source=link1 if enabled0 else link0,
        tick_type=word >> 23 & 1,
    )


def encode_link(link: Link) -> tuple[int, int]:
    """Register index and word."""
    source = regs.SOURCES[link.source]
    link0, link1 = (source, link.other_source) if link.enabled0 else (link.other_source, source)
    word = int(link.enabled0) | link0 << 1 | link.frames0 << 8
    word |= int(link.enabled1) << 16 | link1 << 17 | link.tick_type << 23 | link.frames1 << 24
    return regs.SWITCH_PORTS[link.destination, link.port], word


def kept_frames(link: Link, frames: int) -> np.ndarray | None:
    """Numbers of the frames that pass; None when all do."""
    both = link.enabled0 and link.enabled1 and not link.permanent
    if link.tick_type or both or (link.permanent and not link.enabled0):
        raise fields.not_modelled(f"{link.destination}:{link.port}", "stream switch link", encode_link(link)[1])
    if link.permanent:
        return None
    number = np.arange(frames)
    first = number % (link.frames0 + link.frames1) < link.frames0
    return np.flatnonzero(first if link.enabled0 else ~first)


def route(link: Link, stream: Stream) -> Stream:
    kept = kept_frames(link, stream.frames)
    return stream if kept is None else stream.keep(kept)
