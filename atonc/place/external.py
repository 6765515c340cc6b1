"""Which memories outside the chip a network may use."""

from __future__ import annotations

from dataclasses import replace

from atonc.errors import InputError
from atonc.place.pools import Board, is_external


def with_external(found: Board, which: str) -> Board:
    """`all`, `ram`, `flash`, `none` of the memories outside the chip beside those on it; `only`: without these."""
    if which == "all":
        return found
    outside = {pool.name for pool in found.pools if is_external(pool)}
    ram = {pool.name for pool in found.pools if pool.name in outside and pool.writable}
    on_chip = {pool.name for pool in found.pools} - outside
    kept = {"ram": on_chip | ram, "flash": on_chip | (outside - ram), "none": on_chip, "only": outside}[which]
    pools = tuple(pool for pool in found.pools if pool.name in kept)
    if not any(pool.writable for pool in pools):
        raise InputError(
            f"{found.name} has no memory left for activations",
            where=f"--external {which}",
            remedy="leave the option out, or choose a board with RAM outside the chip",
        )
    return replace(found, pools=pools)
