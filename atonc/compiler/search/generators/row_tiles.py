"""Which layers compute their rows in turn (`lower.stripes`): those with tensors between them that have no room on the
chip; with `--prefer memory`, or where weights want that room, those that make up the peak."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise, product

from atonc.compiler.ir import Graph, Op
from atonc.compiler.lower.stripes import KINDS
from atonc.compiler.ops.conv import pair
from atonc.compiler.place import Layout
from atonc.compiler.plan.lives import live_bytes
from atonc.compiler.plan.policy import BAND_PARTS, FEWEST_ROWS, PEAK_SHARES, SPILL_PARTS, NpuRamBudget
from atonc.compiler.plan.types import FILLED
from atonc.compiler.search.candidate import SPEED, Candidate
from atonc.compiler.search.generators.compact import short_of_room
from atonc.compiler.search.log import Proposal
from atonc.compiler.select.decisions import Stripe

PASS = "stripe"  # its name for --schedule-without


def propose(candidate: Candidate) -> Iterator[Proposal]:
    options = candidate.setting.options
    if PASS in candidate.setting.without or options.numerics == "2.x":
        return
    spilled = candidate.made.layout.spilled_bytes
    for part in SPILL_PARTS if spilled else ():
        why = f"{spilled:,} bytes lie outside the chip: patch-based, row tiles of {part:g} times the usual size"
        yield from _proposed(candidate, against_spills(candidate, part), why)
    lower = candidate.setting.prefer != SPEED or short_of_room(candidate)
    for share, part in product(PEAK_SHARES, BAND_PARTS) if lower else ():
        why = f"rows in turn where {share:.0%} of the peak is live, row tiles of {part:g} times what stays"
        more = against_peaks(candidate, share, part)
        yield from _proposed(candidate, more, why)
        if more and candidate.mapped.stripes:
            every = (*_cut_again(candidate, part), *more)
            yield Proposal(candidate.decisions.but(stripes=every), f"{why}, and so where they are already", candidate)


def _cut_again(candidate: Candidate, part: float) -> Iterator[Stripe]:
    """Those that there are, with bands of another size."""
    ops, graph = {op.name: op for op in candidate.setting.graph.ops}, candidate.setting.graph
    for stripe in candidate.mapped.stripes:
        run = [ops[name] for name in stripe.ops]
        yield _stripe(run, graph, int(part * _edge_bytes(run, graph)))


def finer(candidate: Candidate) -> Iterator[Proposal]:
    """Rows in turn already: in twice as many bands, all of them or those of one run."""
    stripes = candidate.mapped.stripes
    for chosen in dict.fromkeys((stripes, *((stripe,) for stripe in stripes))):
        bands = tuple(replace(one, bands=2 * one.bands) if one in chosen else one for one in stripes)
        if candidate.setting.prefer != SPEED and chosen:
            reason = f"rows of {', '.join(stripe.ops[0] for stripe in chosen)} in twice as many turns"
            yield Proposal(candidate.decisions.but(stripes=bands), reason, candidate)


def _proposed(candidate: Candidate, stripes: Sequence[Stripe], reason: str) -> Iterator[Proposal]:
    decisions = candidate.decisions
    if stripes:
        yield Proposal(decisions.but(stripes=(*candidate.mapped.stripes, *stripes)), reason, candidate)


def against_spills(candidate: Candidate, part: float) -> list[Stripe]:
    """Stripes that would keep on the chip what the layout has outside. `part`: of the usual size of a band."""
    room, graph = candidate.mapped.context.room, candidate.setting.graph
    pools = {pool.name for pool in candidate.setting.memory.external_ram}
    outside = {name for name, home in candidate.made.layout.placed.items() if home.pool in pools}
    found = _around(outside, graph, _usable(candidate), room)
    return [_stripe(run, graph, int(part * room.band_bytes)) for run in found]


def against_peaks(candidate: Candidate, share: float, part: float) -> list[Stripe]:
    """Stripes that would lower what lives where it is such a share of the most, with bands of such a part of what stays
    whole."""
    placed, graph = candidate.made.layout.placed, candidate.setting.graph
    live = _live(candidate.made.layout)
    high = {step for step, size in enumerate(live) if size >= share * max(live)}
    names = {n for n, home in placed.items() if not high.isdisjoint(range(home.first, home.last + 1))}
    found = _around(names, graph, _usable(candidate), candidate.mapped.context.room)
    return [_stripe(run, graph, int(part * _edge_bytes(run, graph))) for run in found]


def _usable(candidate: Candidate) -> set[str]:
    """Operators that tasks of the NPU compute, and whose rows may come in turn."""
    striped = {name for stripe in candidate.mapped.stripes for name in stripe.ops}
    on_npu = {name for name, form in candidate.mapped.forms.items() if form.groups}
    return on_npu - striped - candidate.decisions.unstriped


def _live(layout: Layout) -> list[int]:
    """Bytes of activations at every step; several names of one memory are one."""
    homes = {
        (home.address, home.first, home.last): home.buffer.size_bytes
        for home in layout.placed.values()
        if home.buffer.kind not in FILLED and not home.user_allocated
    }
    found: list[int] = live_bytes((size, first, last) for (_, first, last), size in homes.items()).tolist()
    return found


def _around(names: Collection[str], graph: Graph, usable: Collection[str], room: NpuRamBudget) -> list[Sequence[Op]]:
    """Runs with one of these tensors between two of their layers."""
    return [run for run in runs(graph, usable, room) if any(op.outputs[0] in names for op in run[:-1])]


def _stripe(run: Sequence[Op], graph: Graph, budget: int) -> Stripe:
    return Stripe(tuple(op.name for op in run), _bands(run, graph, budget))


def _edge_bytes(run: Sequence[Op], graph: Graph) -> int:
    """Counts the bytes of what stays whole before and behind it."""
    return graph.tensors[run[0].inputs[0]].elements + graph.tensors[run[-1].outputs[0]].elements


def runs(graph: Graph, usable: Collection[str], room: NpuRamBudget) -> Iterator[Sequence[Op]]:
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


def _cut(chain: Sequence[Op], graph: Graph, room: NpuRamBudget) -> Iterator[Sequence[Op]]:
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
