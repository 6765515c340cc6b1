"""Buffers that lie in the memory of another one."""

from __future__ import annotations

from collections.abc import Mapping

from atonc.compiler.plan.types import Buffer
from atonc.machine.base.errors import ModelError


def root(name: str, aliases: Mapping[str, str]) -> str:
    """The buffer whose memory `name` shares."""
    for _ in range(len(aliases) + 1):
        if name not in aliases:
            return name
        name = aliases[name]
    raise ModelError("buffers share memory in a circle", where=name)


def begins(name: str, buffers: Mapping[str, Buffer], aliases: Mapping[str, str]) -> int:
    """At which byte of that memory."""
    found = 0
    while name in aliases:
        found += buffers[name].begins if name in buffers else 0
        name = aliases[name]
    return found
