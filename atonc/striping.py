"""Which layers compute their rows in turn (`lower.stripes`): those with tensors between them that have no room on the
chip, where the finished program is faster for it; with `--prefer memory` those that make up the peak, where it falls.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import accumulate, pairwise, product
from typing import Any

from atonc.ir import Graph, Op
from atonc.lower.map_ops import Mapped
from atonc.lower.stripes import KINDS, Stripe
from atonc.ops.windows import pair
from atonc.place import Board, Layout
from atonc.plan.types import FILLED
from atonc.select.policy import FEWEST_ROWS, Room

Found = tuple[Mapped, Any, Layout]  # one way to compile it all
Striped = Callable[[Found, Sequence[Stripe]], Found | None]  # the same with more stripes; None where that is not so
Cycles = Callable[[Found], int]

PASS = "stripe"  # its name for --schedule-without
SLOWER = 1.12  # how many times as long a program may take that needs less memory; over many networks that is less
SHARES = (0.85, 1.0)  # of the peak: layers that make up such steps are striped together, the more the better
MOST_TURNS = 4  # stripes lower one peak, and another one shows
SPILL_PARTS = (2.0, 1.5, 1.0)  # of the usual size of a band: large bands are shorter programs, if the chip holds them
BAND_PARTS = (0.25, 0.5, 1.0, 2.0)  # of what stays whole around them: small bands need less memory, and take longer


def faster(
    plain: Found, striped: Striped, cycles: Cycles, graph: Graph, memory: Board, without: Collection[str]
) -> Found:
    """Without what lies outside the chip, if that saves time."""
    best = plain
    for part in SPILL_PARTS:
        stripes = against_spills(graph, plain[0], plain[2], memory, without, part)
        found = striped(plain, stripes) if stripes else None
        if found is None:
            continue
        best = min(best, found, key=cycles)
        if _outside(found[2], memory) <= _outside(plain[2], memory):
            break  # no band lies outside
    return best


def smaller(plain: Found, striped: Striped, cycles: Cycles, graph: Graph, without: Collection[str]) -> Found:
    """With lower peaks, as long as that costs little time."""
    best, most = plain, SLOWER * cycles(plain)
    tried: set[tuple[Stripe, ...]] = set()
    for share, part in product(SHARES, BAND_PARTS):
        for _ in range(MOST_TURNS):
            used = {name for stripe in best[0].stripes for name in stripe.ops}
            more = tuple(against_peaks(graph, best[0], best[2], share, part, {*without, *used}))
            found = striped(best, more) if more and more not in tried else None
            tried.add(more)
            if found is None or found[2].peak_bytes >= best[2].peak_bytes or cycles(found) > most:
                break
            best = found
    return best


def against_spills(
    graph: Graph, mapped: Mapped, layout: Layout, memory: Board, without: Collection[str], part: float
) -> list[Stripe]:
    """Stripes that would keep on the chip what the layout has outside, without some of the operators. `part`: of the
    usual size of a band."""
    room = mapped.context.room
    found = _around(_outside(layout, memory), graph, _usable(mapped, without), room)
    return [_stripe(run, graph, int(part * room.band_bytes)) for run in found]


def _outside(layout: Layout, memory: Board) -> set[str]:
    pools = {pool.name for pool in memory.external_ram}
    return {name for name, home in layout.placed.items() if home.pool in pools}


def against_peaks(
    graph: Graph, mapped: Mapped, layout: Layout, share: float, part: float, without: Collection[str]
) -> list[Stripe]:
    """Stripes that would lower what lives where it is at least such a share of the most, with bands of such a part of
    what stays whole; without some of the operators."""
    live = _live(layout)
    high = {step for step, size in enumerate(live) if size >= share * max(live)}
    names = {n for n, home in layout.placed.items() if not high.isdisjoint(range(home.first, home.last + 1))}
    found = _around(names, graph, _usable(mapped, without), mapped.context.room)
    return [_stripe(run, graph, int(part * _edge_bytes(run, graph))) for run in found]


def _usable(mapped: Mapped, without: Collection[str]) -> set[str]:
    """Operators that tasks of the NPU compute."""
    return {name for name, form in mapped.forms.items() if form.groups} - set(without)


def _live(layout: Layout) -> list[int]:
    """Bytes of activations at every step."""
    homes = {
        (home.address, home.first, home.last): home.buffer.size_bytes
        for home in layout.placed.values()
        if home.buffer.kind not in FILLED and not home.supplied
    }
    steps = 1 + max((last for _, _, last in homes), default=0)
    change = [0] * (steps + 1)
    for (_, first, last), size in homes.items():
        change[first] += size
        change[last + 1] -= size
    return list(accumulate(change))[:steps]


def _around(names: Collection[str], graph: Graph, usable: Collection[str], room: Room) -> list[Sequence[Op]]:
    """Runs with one of these tensors between two of their layers."""
    return [run for run in runs(graph, usable, room) if any(op.outputs[0] in names for op in run[:-1])]


def _stripe(run: Sequence[Op], graph: Graph, budget: int) -> Stripe:
    return Stripe(tuple(op.name for op in run), _bands(run, graph, budget))


def _edge_bytes(run: Sequence[Op], graph: Graph) -> int:
    """Of what stays whole before and behind it."""
    return graph.tensors[run[0].inputs[0]].elements + graph.tensors[run[-1].outputs[0]].elements


def runs(graph: Graph, usable: Collection[str], room: Room) -> Iterator[Sequence[Op]]:
    """Convolutions one behind the other, with functions between them, cut where little lies between them."""
    chain: list[Op] = []
    for op in graph.ops:
        if chain and not (_is_usable(op, graph, usable) and _follows(op, chain[-1], graph)):
            yield from _cut(chain, graph, room)
            chain = []
        if _is_usable(op, graph, usable):
            chain.append(op)
    yield from _cut(chain, graph, room)


def _is_usable(op: Op, graph: Graph, usable: Collection[str]) -> bool:
    shapes = [graph.tensors[name].shape for name in (op.inputs[0], op.outputs[0])] if op.kind in KINDS else []
    pictures = all(len(shape) == 4 and shape[0] == 1 and shape[1] >= 2 * FEWEST_ROWS for shape in shapes)
    return bool(shapes) and pictures and op.name in usable


def _follows(op: Op, before: Op, graph: Graph) -> bool:
    """Whether it is the only reader of what the other one writes."""
    between = before.outputs[0]
    readers = graph.consumers.get(between, [])
    return op.inputs[0] == between and readers == [op] and between not in graph.outputs


def _cut(chain: Sequence[Op], graph: Graph, room: Room) -> Iterator[Sequence[Op]]:
    """In front of convolutions whose input is smaller than those of both neighbours and may stay on the chip: its rows
    need no second turn."""
    starts = [0, *(k for k, op in enumerate(chain) if k and op.kind == "conv"), len(chain)]
    sizes = [graph.tensors[op.inputs[0]].elements for op in chain]
    sizes += [graph.tensors[op.outputs[0]].elements for op in chain[-1:]]
    around = zip(starts, starts[1:], starts[2:], strict=False)
    small = [k for a, k, b in around if sizes[a] > sizes[k] <= min(sizes[b], room.step_bytes)]
    for first, end in pairwise([0, *small, len(chain)]):
        if end - first > 1 and any(op.kind == "conv" for op in chain[first:end]):
            yield chain[first:end]


def _bands(run: Sequence[Op], graph: Graph, budget: int) -> int:
    """The fewest whose rows between two layers fit so many bytes."""
    height = graph.tensors[run[-1].outputs[0]].shape[1]
    rows = -(-height // 2)
    while rows > FEWEST_ROWS and _bytes_between(run, graph, rows) > budget:
        rows -= 1
    return -(-height // rows)


def _bytes_between(run: Sequence[Op], graph: Graph, rows: int) -> int:
    """The most that a layer reads and writes of a band with so many rows of the last result, edges of the run apart."""
    sizes = [0]
    for op in reversed(run[1:]):
        _, height, width, channels = graph.tensors[op.inputs[0]].shape
        window = graph.tensors[op.inputs[1]].shape[1] if op.kind == "conv" else 1
        reach = (window - 1) * pair(op.attrs.get("dilation", (1, 1)))[0] + 1
        rows = min(height, (rows - 1) * pair(op.attrs.get("stride", (1, 1)))[0] + reach)
        sizes.append(rows * width * channels)
    return max(one + other for one, other in pairwise([*sizes, 0]))
