"""The memory pools of a compiled network as the loader of an image treats them.

| pool | with constants | working memory only |
|---|---|---|
| outside the chip, read only, relative | RELOC.PARAM.0: stays in the file | |
| outside the chip, writable, relative | RELOC.MIXED.1: copied to RAM that the application gives | RELOC.ACTIV.1 |
| inside the chip, absolute | COPY: copied to its address | RESET: may be cleared |
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from atonc.delivery.reloc.format import CACHED, READ, WRITE, PoolData, PoolEntry, PoolType, align, pool_flags
from atonc.machine.base.errors import InputError
from atonc.machine.base.frozen import dataclass
from atonc.machine.emu.files.c_info import find_c_info, read_c_info
from atonc.machine.emu.files.initialisers import InitialBytes, pool_at
from atonc.machine.emu.files.types import CompiledNetwork, DeclaredPool
from atonc.machine.hw.machine import insecure, secure

EXTERNAL_FROM = 0x6000_0000
_RULE = "an image finds memories outside the chip at run time, and those inside at fixed addresses"
_RELATIVE = '"mode": "USEMODE_RELATIVE"'


@dataclass(frozen=True)
class PoolMode:
    """Where a pool lies, as its file says."""

    name: str
    base: int
    absolute: bool

    @property
    def external(self) -> bool:
        return self.base >= EXTERNAL_FROM


@dataclass(frozen=True)
class PoolUse:
    """A pool that a network uses: how, how far, and what must be in it."""

    pool: DeclaredPool
    used_bytes: int
    data: bytes  # from the base of the pool; empty: working memory only
    has_activations: bool

    @property
    def mode(self) -> PoolMode:
        return PoolMode(self.pool.postfix, self.pool.base, self.pool.absolute)


@dataclass(frozen=True)
class PoolTable:
    entries: tuple[PoolEntry, ...]
    symbols: tuple[tuple[str, int], ...]  # postfix of a relative pool -> its number, 0 or 1
    params: bytes  # contents of all pools that have some, one behind the other
    activations_bytes: int
    params_bytes: int
    ext_ram_bytes: int


def pool_uses(network: CompiledNetwork, contents: Sequence[InitialBytes]) -> list[PoolUse]:
    """Every pool that holds something, in the order of the C file."""
    found = [_use(network, pool, contents) for pool in network.pools if not pool.virtual and pool.size_bytes]
    return [use for use in found if use.used_bytes]


def check_modes(pools: Iterable[PoolMode], where: str, no_secure: bool = False, written: bool = False) -> None:
    """What the pool file must say for a relocatable image; every pool in use that says otherwise is named. `written`:
    the network is there already, and may come from a board of ours."""
    wrong, fixes = [], []
    for pool in pools:
        if pool.external and pool.absolute:
            wrong.append(f"{pool.name} (outside the chip) is absolute")
            fixes.append(f"give {pool.name} {_RELATIVE}")
        elif not pool.external and not pool.absolute:
            wrong.append(f"{pool.name} (inside the chip) is relative")
            fixes.append(f"take {_RELATIVE} away from {pool.name}")
        elif no_secure and not pool.external and secure(pool.base) == pool.base:
            wrong.append(f"{pool.name} has the secure address {pool.base:#010x}")
            fixes.append(f'give {pool.name} "offset" {insecure(pool.base):#010x}')
    if wrong:
        remedy = f"in the .mpool file: {'; '.join(fixes)}; then generate the network again"
        if written:
            again = f"atonc generate MODEL -r{' no-secure' if no_secure else ''}"
            remedy = f"{again} writes a folder for images, with a board of ours; with a pool file of your own, {remedy}"
        rule = f"{_RULE}; an image for the non-secure state uses non-secure addresses" if no_secure else _RULE
        raise InputError("; ".join(wrong), where=where, rule=rule, remedy=remedy)


def pool_table(uses: Sequence[PoolUse], where: str) -> PoolTable:
    """The table of an image, and the parameters in the order of their offsets: those that stay in the file first."""
    ordered = sorted(uses, key=lambda use: _kind(use)[0] != PoolType.RELOC or use.pool.writable)
    entries, params, symbols = [], bytearray(), []
    taken: dict[int, str] = {}
    for use in ordered:
        kind, data, attributes = _kind(use)
        number = int(use.pool.writable) if kind == PoolType.RELOC else 0
        if kind == PoolType.RELOC:
            if number in taken:
                raise _two_pools(taken[number], use.pool.postfix, number, where)
            taken[number] = use.pool.postfix
            symbols.append((use.pool.postfix, number))
        place = len(params) if use.data else 0
        flags = pool_flags(kind, data, attributes, number)
        destination = 0 if kind == PoolType.RELOC else use.pool.base
        entries.append(PoolEntry(use.pool.postfix, flags, place, destination, use.used_bytes))
        if use.data:
            params += use.data.ljust(align(max(use.used_bytes, len(use.data))), b"\0")
    ext = sum(e.size_bytes for e in entries if e.type == PoolType.RELOC and e.id == 1)
    constants = sum(len(use.data) for use in uses)
    activations = sum(use.used_bytes for use in uses if use.has_activations)
    return PoolTable(tuple(entries), tuple(symbols), bytes(params), activations, constants, ext)


def _two_pools(first: str, second: str, number: int, where: str) -> InputError:
    kind = "writable" if number else "read-only"
    return InputError(
        f"{first} and {second} are both {kind} pools outside the chip",
        where=where,
        rule="an image has one of each kind: parameters in flash, and one external RAM",
        remedy=f"keep the network in one of them: give {second} the size 0 in the .mpool file",
    )


def _kind(use: PoolUse) -> tuple[PoolType, PoolData, int]:
    pool = use.pool
    attributes = (WRITE if pool.writable else READ) | (CACHED if pool.cacheable else 0)
    if use.mode.external:
        mixed = PoolData.MIXED if use.data else PoolData.ACTIV
        return PoolType.RELOC, mixed if pool.writable else PoolData.PARAM, attributes
    if use.data:
        return PoolType.COPY, PoolData.MIXED if use.has_activations else PoolData.PARAM, attributes
    return PoolType.RESET, PoolData.ACTIV, attributes


def _use(network: CompiledNetwork, pool: DeclaredPool, contents: Iterable[InitialBytes]) -> PoolUse:
    end = pool.base + pool.size_bytes
    inside = [segment for segment in contents if pool.base <= segment.address < end]
    data = bytearray(max((segment.end for segment in inside), default=pool.base) - pool.base)
    for segment in inside:
        data[segment.address - pool.base : segment.end - pool.base] = segment.data
    working = [(low, high) for low, high in _working(network) if low < end and high > pool.base]
    last = max((min(end, high) for _, high in working), default=pool.base)
    if not network.internals:
        last = max(last, pool.base + _said(network, pool))
    used = max(last - pool.base, len(data))
    return PoolUse(pool, used, bytes(data), last > pool.base and (bool(working) or not data))


def _working(network: CompiledNetwork) -> list[tuple[int, int]]:
    """Buffers, and copies of weights that stay in RAM."""
    buffers = (*network.inputs, *network.outputs, *network.internals)
    own = [b for b in buffers if not b.is_user_allocated and not b.is_param and pool_at(network, b.address)]
    spans = [(one.address, one.address + one.size_bytes) for one in own]
    return [*spans, *((copy.address, copy.address + copy.size_bytes) for copy in network.residents)]


def _said(network: CompiledNetwork, pool: DeclaredPool) -> int:
    """Where the C file does not list buffers between layers: what c_info.json says of the pool."""
    path = find_c_info(network)
    if path is None:
        raise InputError(
            "the C file does not list the buffers between layers, and there is no c_info.json",
            where=str(network.c_file),
            rule="an image says how much of each memory it uses",
            remedy="compile with --all-buffers-info, or put the c_info.json of the same compilation beside the C file",
        )
    same = [p for p in read_c_info(path).pools if p.postfix == pool.postfix]
    return min(same[0].used_bytes, pool.size_bytes) if same else 0
