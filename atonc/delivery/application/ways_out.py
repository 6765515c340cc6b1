"""What to change about an application that does not fit: every way is tried, and told with what it costs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from atonc.delivery.application.figures import figures
from atonc.delivery.application.plan_types import AppSource
from atonc.delivery.application.planning import plan
from atonc.delivery.application.types import Application, AppNetwork
from atonc.machine.base.errors import AtoncError
from atonc.machine.base.words import size_text
from atonc.machine.hw.board import DEFAULT_SET, find_board, split_choice

_MOST = 12  # ways that are tried: each is a plan of its own
_LARGER_SET = "intram35mb"  # of the boards that ship: half a megabyte more on the chip


def ways_out(application: Application, sources: Sequence[AppSource]) -> Iterator[str]:
    """A line for every single change with which all networks fit; the fastest first."""
    found: list[tuple[float, str]] = []
    tried = 0
    for change, other in _changes(application):
        if tried == _MOST:
            break
        tried += 1
        try:
            told = figures(plan(other, [replace(one, network=other.network(one.name)) for one in sources]))
        except AtoncError:
            continue
        load = f"{100 * told.load:.1f} % of the time, RAM {size_text(told.ram_bytes)}"
        found.append((told.load, f"  fits: {change} ({load})"))
    yield f"{tried} single changes were tried:" if tried else "nothing to leave out was found"
    yield from (line for _, line in sorted(found))
    if tried and not found:
        yield "  none of them is enough: take fewer or smaller networks, or a board with more RAM"


def _changes(application: Application) -> Iterator[tuple[str, Application]]:
    for one in application.networks:
        if one.inputs_survive:
            yield f"inputs of {one.name} need not survive", _with(application, replace(one, inputs_survive=()))
        if one.outputs_survive:
            yield f"outputs of {one.name} need not survive", _with(application, replace(one, outputs_survive=()))
    for taken in application.reserved:
        if taken.image:
            continue
        left = tuple(one for one in application.reserved if one is not taken)
        yield f"{taken.name} elsewhere, not in these memories", replace(application, reserved=left)
    choice, board = split_choice(application.board)
    if choice == DEFAULT_SET and _LARGER_SET in find_board(application.board).set_names:
        yield f'board = "{_LARGER_SET}@{board}"', replace(application, board=f"{_LARGER_SET}@{board}")
    for one in application.networks:
        if one.options.prefer != "memory":
            thrifty = replace(one, options=replace(one.options, prefer="memory"))
            yield f'prefer = "memory" for {one.name}', _with(application, thrifty)
        if one.slot_bytes:
            yield f"no slot size for {one.name}", _with(application, replace(one, slot_bytes=0))


def _with(application: Application, network: AppNetwork) -> Application:
    return replace(
        application, networks=tuple(network if one.name == network.name else one for one in application.networks)
    )
