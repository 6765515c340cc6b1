"""Places for the boxes of a graph, top to bottom, worked out once when the page is written.

Layers in ranks (Sugiyama): every box stands below those that feed it; edges over several ranks go through points that
are placed like boxes; order in a rank by the mean of the neighbours; then each rank is moved as near to its neighbours
as the widths allow (least squares under an order, solved exactly by pooling). Browsers need seconds for this with a
thousand boxes; here it takes a fraction of one, and the same graph always gives the same picture.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from atonc.machine.base.frozen import dataclass

GAP_X, GAP_Y, LINE = 26, 46, 10  # between boxes, between ranks, between an edge and its neighbours
_ORDER_SWEEPS, _PLACE_SWEEPS = 6, 12


@dataclass(frozen=True)
class GraphPicture:
    boxes: tuple[tuple[int, int], ...]  # left and top of each
    edges: tuple[tuple[int, ...], ...]  # x, y of each point from the upper box to the lower one
    width: int
    height: int


@dataclass
class _Ranks:
    """Boxes and the points of long edges; numbers from the count of boxes on are points."""

    rank: list[int]
    width: list[int]
    rows: list[list[int]]
    above: list[list[int]]
    below: list[list[int]]
    chains: list[list[int]]  # of each edge: upper box, points, lower box


def layered(widths: Sequence[int], height: int, edges: Sequence[tuple[int, int]]) -> GraphPicture:
    """Edges lead from earlier boxes to later ones."""
    if not widths:
        return GraphPicture((), (), 0, 0)
    if any(a >= b for a, b in edges):
        raise ValueError("edges lead from earlier boxes to later ones")
    ranks = _ranked(widths, edges)
    _order(ranks)
    x = _places(ranks)
    left = min(c - w / 2 for c, w in zip(x, ranks.width, strict=True)) - GAP_X
    x = [c - left for c in x]
    step = height + GAP_Y
    count = len(widths)
    boxes = tuple((round(x[i] - widths[i] / 2), GAP_Y // 2 + ranks.rank[i] * step) for i in range(count))
    lines = tuple(_line(chain, x, ranks.rank, height, step) for chain in ranks.chains)
    right = max(c + w / 2 for c, w in zip(x, ranks.width, strict=True)) + GAP_X
    return GraphPicture(boxes, lines, round(right), len(ranks.rows) * step)


def _line(chain: Sequence[int], x: Sequence[float], rank: Sequence[int], height: int, step: int) -> tuple[int, ...]:
    top = GAP_Y // 2
    points = [round(x[chain[0]]), top + rank[chain[0]] * step + height]
    for point in chain[1:-1]:
        start = top + rank[point] * step
        points += [round(x[point]), start, round(x[point]), start + height]
    return (*points, round(x[chain[-1]]), top + rank[chain[-1]] * step)


def _ranked(widths: Sequence[int], edges: Sequence[tuple[int, int]]) -> _Ranks:
    count = len(widths)
    before, after = [list[int]() for _ in range(count)], [list[int]() for _ in range(count)]
    for a, b in edges:
        before[b].append(a)
        after[a].append(b)
    rank = [0] * count
    for i in range(count):
        rank[i] = max((rank[p] + 1 for p in before[i]), default=0)
    for i in reversed(range(count)):  # what nothing feeds stands right above its reader
        if after[i] and not before[i]:
            rank[i] = min(rank[n] for n in after[i]) - 1
    width, chains = list(widths), list[list[int]]()
    for a, b in edges:
        points = []
        for level in range(rank[a] + 1, rank[b]):
            points.append(len(rank))
            rank.append(level)
            width.append(LINE)
        chains.append([a, *points, b])
    rows: list[list[int]] = [[] for _ in range(max(rank) + 1)]
    for i, level in enumerate(rank):
        rows[level].append(i)
    above, below = [list[int]() for _ in rank], [list[int]() for _ in rank]
    for chain in chains:
        for a, b in pairwise(chain):
            below[a].append(b)
            above[b].append(a)
    return _Ranks(rank, width, rows, above, below, chains)


def _order(ranks: _Ranks) -> None:
    """Fewest crossings seen in a few sweeps down and up."""
    position = [0] * len(ranks.rank)

    def number(row: Iterable[int]) -> None:
        for k, i in enumerate(row):
            position[i] = k

    for row in ranks.rows:
        number(row)
    best, kept = _crossings(ranks, position), [list(row) for row in ranks.rows]
    for sweep in range(_ORDER_SWEEPS):
        down = sweep % 2 == 0
        beside = ranks.above if down else ranks.below
        for row in ranks.rows if down else reversed(ranks.rows):
            mean = {i: sum(position[n] for n in beside[i]) / len(beside[i]) if beside[i] else position[i] for i in row}
            row.sort(key=lambda i: (mean[i], position[i]))
            number(row)
        found = _crossings(ranks, position)
        if found < best:
            best, kept = found, [list(row) for row in ranks.rows]
    ranks.rows[:] = kept


def _crossings(ranks: _Ranks, position: Sequence[int]) -> int:
    """Pairs of edges between two rows that cross, counted with a tree of partial sums."""
    total = 0
    for row in ranks.rows:
        ends = [p for i in sorted(row, key=position.__getitem__) for p in sorted(position[n] for n in ranks.below[i])]
        if len(ends) < 2:
            continue
        size = max(ends) + 1
        tree, seen = [0] * (size + 1), 0
        for end in ends:
            k, smaller = end + 1, 0
            while k:
                smaller += tree[k]
                k &= k - 1
            total += seen - smaller
            seen, k = seen + 1, end + 1
            while k <= size:
                tree[k] += 1
                k += k & -k
    return total


def _places(ranks: _Ranks) -> list[float]:
    """Middles of boxes and points."""
    count = len(ranks.rank)
    real = [ranks.width[i] != LINE for i in range(count)]
    x = [0.0] * count
    for row in ranks.rows:
        reach = 0.0
        for i in row:
            x[i] = reach + ranks.width[i] / 2
            reach += ranks.width[i] + GAP_X
    for sweep in range(_PLACE_SWEEPS):
        down = sweep % 2 == 0
        both = sweep >= _PLACE_SWEEPS - 2
        for row in ranks.rows if down else reversed(ranks.rows):
            wanted, weight = [], []
            for i in row:
                beside = (*ranks.above[i], *ranks.below[i]) if both else ranks.above[i] if down else ranks.below[i]
                shares = [(1 if real[i] else 3) * (1 if real[n] else 3) for n in beside]
                total = sum(shares)
                wanted.append(sum(s * x[n] for s, n in zip(shares, beside, strict=True)) / total if total else x[i])
                weight.append(total or 0.05)
            for i, place in zip(row, _apart([ranks.width[i] for i in row], wanted, weight), strict=True):
                x[i] = place
    return x


def _apart(widths: Sequence[int], wanted: Sequence[float], weight: Sequence[float]) -> list[float]:
    """Nearest to what is wanted with no two closer than their widths allow: pools of neighbours share their mean."""
    offsets = [0.0]
    for a, b in pairwise(widths):
        offsets.append(offsets[-1] + (a + b) / 2 + (GAP_X if a != LINE and b != LINE else LINE))
    pools: list[tuple[float, float, int]] = []  # mean, weight, members
    for place, share, offset in zip(wanted, weight, offsets, strict=True):
        mean, total, members = place - offset, share, 1
        while pools and pools[-1][0] > mean:
            other, heavy, more = pools.pop()
            mean = (mean * total + other * heavy) / (total + heavy)
            total, members = total + heavy, members + more
        pools.append((mean, total, members))
    means = [mean for mean, _, members in pools for _ in range(members)]
    return [mean + offset for mean, offset in zip(means, offsets, strict=True)]
