"""Every buffer gets an address: constants in flash, the rest in the fastest memory that holds it all."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from atonc.compiler.place import explain
from atonc.compiler.place.constants import constant_room, place_constants
from atonc.compiler.place.cost import traffic_of
from atonc.compiler.place.greedy import PackItem, Problem
from atonc.compiler.place.lifetimes import Lifetime, lifetimes, with_scratch
from atonc.compiler.place.packing import PackingProblem, pack
from atonc.compiler.place.pools import BoardMemory, banks_of
from atonc.compiler.place.types import USER_BASE, USER_BYTES, USER_POOL, Layout, Placed
from atonc.compiler.place.usage import memory_use
from atonc.compiler.plan.aliases import begins, root
from atonc.compiler.plan.types import Buffer, BufferKind, Planned
from atonc.machine.base.errors import CapacityError
from atonc.machine.hw.limits import CPU_CACHE_LINE, PREFETCH_BYTES

_SMALL_BYTES = 1 << 16
_USER_GAP = 64  # between stand-ins, so that every address behind an end still tells whose it is


def place(
    planned: Planned,
    board: BoardMemory,
    prefer: str = "speed",
    user_allocated: Collection[str] = (),
    encrypted: bool = False,
) -> Layout:
    """`prefer`: "speed" spreads what one epoch uses over the banks, "memory" keeps to the smallest extent.

    Buffers in `user_allocated` take no memory here; they stand at addresses without memory (`Placed.user_allocated`).
    `encrypted`: constants that only engines read lie together (`emit.encryption`). Those that the board pins stand
    where it says.
    """
    plans, aliases = planned.plans, planned.aliases
    used = lifetimes(planned, exclude=user_allocated)
    constants = place_constants([life for life in used if life.buffer.kind == BufferKind.CONSTANT], board, encrypted)
    pins = _pins(used, board)
    ram = [life for life in used if life.buffer.kind != BufferKind.CONSTANT] + list(constants.left)
    problem = Problem(tuple(_items(ram, pins)))
    every = with_scratch(plans, planned.buffers)
    job = PackingProblem(
        problem, board, traffic_of(plans, every, aliases, ram, board), constants.ends, prefer == "speed"
    )
    packing = pack(job)
    if packing is None:
        raise explain.PlacementError(explain.shortage(ram, problem, plans, board))
    addresses = dict(constants.addresses)
    addresses |= {life.buffer.name: address for life, address in zip(ram, packing.addresses, strict=True)}
    reserved = {life.buffer.name: item.size for life, item in zip(ram, problem.items, strict=True)}
    starts = {name: begins(name, every, aliases) for name in aliases}
    placed = _placed(used, addresses, reserved, every, starts, board)
    placed |= _user_buffers(user_allocated, aliases, every, len(plans))
    memory = memory_use(placed.values(), banks_of(board.pools))
    least = problem.lower_bound - memory.states_bytes  # which live all the time
    return Layout(placed, least, memory, board.cached, packing.solver, packing.proven)


def _pins(used: Sequence[Lifetime], board: BoardMemory) -> dict[str, int]:
    """Root buffer -> where it is pinned."""
    found = {}
    for life in used:
        places = [board.pinned[name] for name in life.members if name in board.pinned]
        if not places:
            continue
        start, end = min(places)
        if life.padded_bytes > end - start:
            raise CapacityError(
                f"{life.padded_bytes:,} bytes, and the place that is kept for it has {end - start:,}",
                where=life.buffer.name,
                rule="what must survive the runs of other networks has a place of its own",
            )
        found[life.buffer.name] = start
    return found


def _items(ram: Sequence[Lifetime], pins: Mapping[str, int]) -> Iterator[PackItem]:
    """Among small buffers mixed alignments leave holes that matter: there one alignment serves all."""
    small = sum(life.buffer.size_bytes for life in ram) < _SMALL_BYTES
    for life in ram:
        alignment = CPU_CACHE_LINE if small else life.alignment
        size = -(-life.padded_bytes // alignment) * alignment
        fixed = pins.get(life.buffer.name, -1)
        yield PackItem(size, life.first, life.last, alignment, life.traffic_bytes, life.npu_ram_only, fixed)


def _placed(
    used: Sequence[Lifetime],
    addresses: Mapping[str, int],
    reserved: Mapping[str, int],
    buffers: Mapping[str, Buffer],
    starts: Mapping[str, int],
    board: BoardMemory,
) -> dict[str, Placed]:
    """`reserved`: what packing gave to buffers in RAM; constants elsewhere are padded as their layout does it.
    `starts`: where those that share memory begin in it."""
    placed = {}
    for life in used:
        address = addresses[life.buffer.name]
        pool = board.pool_name(address, address + max(1, life.buffer.size_bytes))
        room = reserved.get(life.buffer.name, constant_room(life.buffer))
        for name in life.members:
            buffer, start = buffers.get(name) or replace(life.buffer, name=name), starts.get(name, 0)
            placed[name] = Placed(buffer, address + start, pool, life.first, life.last, reserved_bytes=room - start)
    return placed


def _user_buffers(
    names: Collection[str], aliases: Mapping[str, str], buffers: Mapping[str, Buffer], steps: int
) -> dict[str, Placed]:
    placed, address = {}, USER_BASE
    for owner in dict.fromkeys(root(name, aliases) for name in names):
        sharing = [name for name in buffers if root(name, aliases) == owner]
        for name in sharing:
            placed[name] = Placed(buffers[name], address, USER_POOL, 0, max(0, steps - 1), user_allocated=True)
        size = max((buffers[name].size_bytes for name in sharing), default=0) + PREFETCH_BYTES
        address += -(-size // _USER_GAP) * _USER_GAP
    if address > USER_BASE + USER_BYTES:
        raise CapacityError(
            f"inputs and outputs of {address - USER_BASE:,} bytes",
            rule=f"buffers of the application have {USER_BYTES:,} bytes of addresses",
        )
    return placed
