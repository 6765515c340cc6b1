"""Which layers compute their rows in turn (`lower.stripes`): those with tensors between them that have no room on the
chip, where the finished program is faster for it; with `--prefer memory` those that make up the peak, where it falls.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise

from atonc.ir import Graph, Op
from atonc.lower.map_ops import Mapped
from atonc.lower.stripes import Stripe
from atonc.ops.windows import pair
from atonc.place import Board, Layout
from atonc.select.policy import FEWEST_ROWS, Room

PASS = "stripe"  # its name for --schedule-without


def wanted(graph: Graph, mapped: Mapped, layout: Layout, memory: Board, without: Collection[str]) -> list[Stripe]:
    """Stripes that would keep on the chip what the layout has outside, without some of the operators."""
    pools = {pool.name for pool in memory.external_ram}
    outside = {name for name, home in layout.placed.items() if home.pool in pools}
    room = mapped.context.room
    return [
        Stripe(tuple(op.name for op in run), _bands(run, graph, room.band_bytes))
        for run in runs(graph, set(mapped.forms) - set(without), room)
        if not outside.isdisjoint(op.outputs[0] for op in run[:-1])
    ]


def runs(graph: Graph, usable: Collection[str], room: Room) -> Iterator[Sequence[Op]]:
    """Convolutions one behind the other, at least two of them, cut where little lies between them."""
    chain: list[Op] = []
    for op in graph.ops:
        if chain and not (_is_usable(op, graph, usable) and _follows(op, chain[-1], graph)):
            yield from _cut(chain, graph, room)
            chain = []
        if _is_usable(op, graph, usable):
            chain.append(op)
    yield from _cut(chain, graph, room)


def _is_usable(op: Op, graph: Graph, usable: Collection[str]) -> bool:
    shapes = [graph.tensors[name].shape for name in (op.inputs[0], op.outputs[0])] if op.kind == "conv" else []
    pictures = all(len(shape) == 4 and shape[0] == 1 and shape[1] >= 2 * FEWEST_ROWS for shape in shapes)
    return bool(shapes) and pictures and op.name in usable


def _follows(op: Op, before: Op, graph: Graph) -> bool:
    """Whether it is the only reader of what the other one writes."""
    between = before.outputs[0]
    readers = graph.consumers.get(between, [])
    return op.inputs[0] == between and readers == [op] and between not in graph.outputs


def _cut(chain: Sequence[Op], graph: Graph, room: Room) -> Iterator[Sequence[Op]]:
    """Where a tensor is smaller than both of its neighbours and may stay on the chip: its rows need no second turn."""
    sizes = [graph.tensors[name].elements for name in (*(op.inputs[0] for op in chain[:1]), *_results(chain))]
    small = [k for k in range(1, len(chain)) if sizes[k - 1] > sizes[k] <= min(sizes[k + 1], room.step_bytes)]
    for first, end in pairwise([0, *small, len(chain)]):
        if end - first > 1:
            yield chain[first:end]


def _results(chain: Sequence[Op]) -> list[str]:
    return [op.outputs[0] for op in chain]


def _bands(run: Sequence[Op], graph: Graph, budget: int) -> int:
    """The fewest whose rows between two layers fit so many bytes."""
    height = graph.tensors[run[-1].outputs[0]].shape[1]
    rows = height
    while rows > FEWEST_ROWS and _bytes_between(run, graph, rows) > budget:
        rows -= 1
    return -(-height // rows)


def _bytes_between(run: Sequence[Op], graph: Graph, rows: int) -> int:
    """The most that a layer reads and writes of a band with so many rows of the last result, edges of the run apart."""
    sizes = [0]
    for op in reversed(run[1:]):
        _, height, width, channels = graph.tensors[op.inputs[0]].shape
        window = (graph.tensors[op.inputs[1]].shape[1] - 1) * pair(op.attrs.get("dilation", (1, 1)))[0] + 1
        rows = min(height, (rows - 1) * pair(op.attrs.get("stride", (1, 1)))[0] + window)
        sizes.append(rows * width * channels)
    return max(one + other for one, other in pairwise([*sizes, 0]))
