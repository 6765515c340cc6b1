"""Reads what ST's tool chain leaves on disk."""

from __future__ import annotations

from atonc.emu.files.initialisers import Segment, load_initialisers
from atonc.emu.files.network_c import find_networks, read_network
from atonc.emu.files.types import (
    BufferInfo,
    Call,
    CompiledNetwork,
    CValue,
    EpochBlock,
    EpochFlags,
    Pool,
    Symbol,
    UserBuffer,
)

__all__ = [
    "BufferInfo",
    "CValue",
    "Call",
    "CompiledNetwork",
    "EpochBlock",
    "EpochFlags",
    "Pool",
    "Segment",
    "Symbol",
    "UserBuffer",
    "find_networks",
    "load_initialisers",
    "read_network",
]
