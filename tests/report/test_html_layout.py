"""Places of boxes: below those that feed them, never on each other, the same every time."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atonc.insight.report.html.layout import GAP_X, LINE, layered

HEIGHT = 50


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[int], list[tuple[int, int]]]:
    count = draw(st.integers(1, 14))
    widths = draw(st.lists(st.integers(60, 200), min_size=count, max_size=count))
    pairs = [(a, b) for a in range(count) for b in range(a + 1, count)]
    return widths, draw(st.lists(st.sampled_from(pairs), unique=True, max_size=20)) if pairs else []


@settings(max_examples=80, deadline=None)
@given(graphs())
def test_boxes_stand_apart_and_below_their_feeders(graph: tuple[list[int], list[tuple[int, int]]]) -> None:
    widths, edges = graph
    picture = layered(widths, HEIGHT, edges)
    assert picture == layered(widths, HEIGHT, edges)
    for (x, y), width in zip(picture.boxes, widths, strict=True):
        assert x >= 0 and x + width <= picture.width and y >= 0 and y + HEIGHT <= picture.height
    for (a, b), line in zip(edges, picture.edges, strict=True):
        assert picture.boxes[b][1] > picture.boxes[a][1]
        assert line[1] == picture.boxes[a][1] + HEIGHT and line[-1] == picture.boxes[b][1]
        assert abs(line[0] - (picture.boxes[a][0] + widths[a] / 2)) <= 1, "from the middle of the upper box"
        assert abs(line[-2] - (picture.boxes[b][0] + widths[b] / 2)) <= 1
    for i, k in combinations(range(len(widths)), 2):
        if picture.boxes[i][1] == picture.boxes[k][1]:
            left, right = sorted((i, k), key=lambda one: picture.boxes[one][0])
            assert picture.boxes[right][0] - picture.boxes[left][0] >= widths[left] + GAP_X - 2
    _pass_beside_boxes(picture.boxes, widths, picture.edges)


def _pass_beside_boxes(
    boxes: tuple[tuple[int, int], ...], widths: list[int], edges: tuple[tuple[int, ...], ...]
) -> None:
    """A long edge goes past the boxes of the ranks between."""
    for line in edges:
        points = list(zip(line[2:-2:2], line[3:-2:2], strict=True))
        for (x, y), width in zip(boxes, widths, strict=True):
            inside = [p for p in points if y <= p[1] <= y + HEIGHT]
            assert all(not x - LINE / 2 < p[0] < x + width + LINE / 2 for p in inside)


def test_a_chain_is_a_straight_line_and_a_branch_comes_back() -> None:
    chain = layered([100, 140, 80], HEIGHT, [(0, 1), (1, 2)])
    assert len({x + w / 2 for (x, _), w in zip(chain.boxes, (100, 140, 80), strict=True)}) == 1
    residual = layered([100] * 4, HEIGHT, [(0, 1), (1, 2), (2, 3), (0, 3)])
    middles = [x for x, _ in residual.boxes]
    assert middles[1] == middles[2], "the branch beside the shortcut stays straight"
    assert layered([], HEIGHT, []).boxes == ()


def test_edges_lead_onwards() -> None:
    with pytest.raises(ValueError, match="earlier boxes to later ones"):
        layered([100, 100], HEIGHT, [(1, 0)])
