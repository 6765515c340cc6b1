"""Movement operators on the emulator against the reference kernels, bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atonc.compiler.compile.pipeline import compile_graph
from atonc.compiler.ir import Op, Tensor
from atonc.compiler.lower.move.copies import MOST_MOVES
from atonc.compiler.lower.registry import Refusal
from atonc.compiler.ops import run_graph
from atonc.compiler.request.options import Options
from tests.lower.harness import activation, constant, graph_of, lower, run

SHAPES = st.tuples(st.just(1), st.integers(1, 9), st.integers(1, 9), st.integers(1, 20))
Shape = tuple[int, ...]


def check(kind: str, attrs: dict[str, Any], sources: list[Tensor], targets: list[Tensor], within: int = 0) -> None:
    """Runs one operator both ways on random codes."""
    op = Op(kind, "op", tuple(t.name for t in sources), tuple(t.name for t in targets), attrs, ("op",))
    graph = graph_of(op, *sources, *targets)
    rng = np.random.default_rng(1)
    inputs = {name: rng.integers(-128, 128, graph.tensors[name].shape).astype(np.int8) for name in graph.inputs}
    expected = run_graph(graph, inputs)
    found = run(graph, inputs)
    for name in graph.outputs:
        distance = np.abs(found[name].astype(int) - np.asarray(expected[name]).astype(int))
        assert distance.max() <= within, f"{kind} {attrs}: {(distance > within).sum()} of {distance.size} codes differ"


def one(kind: str, attrs: dict[str, Any], shape: Shape, out: Shape) -> None:
    check(kind, attrs, [activation("x", shape)], [activation("y", out)])


@settings(max_examples=20, deadline=None)
@given(SHAPES, st.integers(1, 3), st.lists(st.integers(1, 12), min_size=2, max_size=5))
def test_concat_and_split(shape: Shape, axis: int, sizes: list[int]) -> None:
    shapes = [(*shape[:axis], n, *shape[axis + 1 :]) for n in sizes]
    whole = activation("whole", (*shape[:axis], sum(sizes), *shape[axis + 1 :]))
    parts = [activation(f"part{i}", s) for i, s in enumerate(shapes)]
    check("concat", {"axis": axis}, parts, [whole])
    check("split", {"axis": axis}, [whole], parts)


@settings(max_examples=15, deadline=None)
@given(SHAPES, st.floats(0.3, 3.0), st.integers(-60, 60))
def test_concat_requantises(shape: Shape, ratio: float, zero: int) -> None:
    a, b = activation("a", shape, 0.05 * ratio, zero), activation("b", shape)
    check("concat", {"axis": 3}, [a, b], [activation("y", (*shape[:3], 2 * shape[3]), 0.05, 3)], within=1)


def test_concat_with_constant() -> None:
    codes = np.arange(60, dtype=np.int8).reshape(1, 3, 4, 5)
    parts = [activation("x", (1, 3, 4, 7)), constant("k", codes, 0.05)]
    check("concat", {"axis": 3}, parts, [activation("y", (1, 3, 4, 12))])


@settings(max_examples=25, deadline=None)
@given(SHAPES, st.integers(0, 3), st.integers(1, 4))
def test_pack_and_unpack(shape: Shape, axis: int, count: int) -> None:
    inner = shape[1:]
    parts = [activation(f"part{i}", inner) for i in range(count)]
    whole = activation("whole", (*inner[:axis], count, *inner[axis:]))
    check("pack", {"axis": axis}, parts, [whole])
    check("unpack", {"axis": axis}, [whole], parts)


@settings(max_examples=30, deadline=None)
@given(SHAPES, st.data())
def test_slice(shape: Shape, data: st.DataObject) -> None:
    starts, stops, steps, out = [], [], [], []
    for size in shape:
        step = data.draw(st.sampled_from([1, 1, 2, 3, -1, -2]))
        start = data.draw(st.integers(0, size - 1))
        stop = data.draw(st.integers(start + 1, size)) if step > 0 else None
        starts, stops, steps = [*starts, start], [*stops, stop], [*steps, step]
        out.append(len(range(*slice(start, stop, step).indices(size))))
    try:
        one("slice", {"starts": starts, "stops": stops, "steps": steps}, shape, tuple(out))
    except Refusal as refusal:  # backwards in every direction: each byte is a piece of its own
        assert refusal.rule == "scattered copy" and max(steps[1:]) < 0 and np.prod(out) > MOST_MOVES


@settings(max_examples=30, deadline=None)
@given(st.tuples(*[st.integers(1, 7)] * 4), st.permutations(range(4)))
def test_transpose(shape: Shape, perm: list[int]) -> None:
    one("transpose", {"perm": tuple(perm)}, shape, tuple(shape[p] for p in perm))


def test_pictures_larger_than_any_raster_seen_take_another_epoch() -> None:
    """416 x 416 channels first: four engines would have 43,264 frames each."""
    shape, out = (1, 8, 416, 416), (1, 416, 416, 8)
    op = Op("transpose", "t", ("x",), ("y",), {"perm": (0, 2, 3, 1)})
    graph = graph_of(op, activation("x", shape), activation("y", out))
    plans, _ = lower(graph)
    assert len(plans) > 1
    assert max(use.config.frames for plan in plans for use in plan.engines.values()) <= 41_472
    values = np.random.default_rng(3).integers(-128, 128, shape).astype(np.int8)
    assert np.array_equal(run(graph, {"x": values})["y"], values.transpose(0, 2, 3, 1))


def test_planes_become_pixels_in_the_order_of_the_planes() -> None:
    """Three bytes from three places for every pixel take a turn each; a plane in a row takes as long as it is."""
    x, y = activation("x", (1, 3, 64, 64)), activation("y", (1, 64, 64, 3))
    graph = graph_of(Op("transpose", "op", ("x",), ("y",), {"perm": (0, 2, 3, 1)}, ("op",)), x, y)
    plans, _ = lower(graph)
    readers = [use.config for plan in plans for use in plan.engines.values() if not use.config.to_memory]
    assert readers and all(reader.frame_elements > 1000 for reader in readers)
    one("transpose", {"perm": (0, 2, 3, 1)}, (1, 3, 64, 64), (1, 64, 64, 3))


@pytest.mark.parametrize("shape", [(1, 60, 80, 24), (1, 19, 23, 257), (1, 300, 300, 3)])
@pytest.mark.parametrize("perm", [(0, 3, 1, 2), (0, 2, 3, 1), (0, 2, 1, 3)])
def test_large_transpose(shape: Shape, perm: Shape) -> None:
    one("transpose", {"perm": perm}, shape, tuple(shape[p] for p in perm))


@settings(max_examples=20, deadline=None)
@given(SHAPES, st.tuples(*[st.tuples(st.integers(0, 3), st.integers(0, 3))] * 3), st.sampled_from([-3.0, 0.0, 1.0]))
def test_constant_pad(shape: Shape, pads: tuple[tuple[int, int], ...], value: float) -> None:
    every = ((0, 0), *pads)
    out = tuple(n + a + b for n, (a, b) in zip(shape, every, strict=True))
    x, y = activation("x", shape, 0.05, -7), activation("y", out, 0.05, -7)
    check("pad", {"pads": every, "mode": "constant", "value": value}, [x], [y])


@settings(max_examples=20, deadline=None)
@given(SHAPES, st.sampled_from(["reflect", "symmetric", "edge"]), st.data())
def test_mirrored_pad(shape: Shape, mode: str, data: st.DataObject) -> None:
    most = [n - 1 if mode == "reflect" else n for n in shape[1:]]
    pads = tuple((data.draw(st.integers(0, min(3, m))), data.draw(st.integers(0, min(3, m)))) for m in most)
    every = ((0, 0), *pads)
    out = tuple(n + a + b for n, (a, b) in zip(shape, every, strict=True))
    one("pad", {"pads": every, "mode": mode}, shape, out)


@settings(max_examples=25, deadline=None)
@given(SHAPES, st.tuples(st.just(1), *[st.integers(1, 3)] * 3))
def test_tile(shape: Shape, times: Shape) -> None:
    one("tile", {}, shape, tuple(n * t for n, t in zip(shape, times, strict=True)))


@settings(max_examples=25, deadline=None)
@given(SHAPES, st.integers(2, 4), st.sampled_from(["DCR", "CRD"]))
def test_space_and_depth(shape: Shape, block: int, order: str) -> None:
    _, h, w, c = shape
    wide, deep = (1, h * block, w * block, c), (1, h, w, c * block * block)
    one("space_to_depth", {"block": block, "layout": "NHWC"}, wide, deep)
    if order == "DCR":  # the reference kernel has channel-last pictures in this order only
        one("depth_to_space", {"block": block, "layout": "NHWC", "order": order}, deep, wide)


@settings(max_examples=25, deadline=None)
@given(SHAPES, st.integers(1, 3), st.integers(1, 3), st.data())
def test_space_and_batch(shape: Shape, bh: int, bw: int, data: st.DataObject) -> None:
    _, h, w, c = shape
    before = [data.draw(st.integers(0, 3)) for _ in range(2)]
    after = [-(size + b) % block for size, b, block in zip((h, w), before, (bh, bw), strict=True)]
    pads = tuple(zip(before, after, strict=True))
    wide = (h + before[0] + after[0], w + before[1] + after[1])
    many = (bh * bw, wide[0] // bh, wide[1] // bw, c)
    one("space_to_batch", {"blocks": (bh, bw), "pads": pads}, shape, many)
    one("batch_to_space", {"blocks": (bh, bw), "crops": pads}, many, shape)


@settings(max_examples=15, deadline=None)
@given(SHAPES, st.sets(st.integers(1, 3), min_size=1, max_size=2))
def test_reverse(shape: Shape, axes: set[int]) -> None:
    one("reverse", {"axes": tuple(axes)}, shape, shape)


@settings(max_examples=25, deadline=None)
@given(SHAPES, st.integers(1, 3), st.data())
def test_gather(shape: Shape, axis: int, data: st.DataObject) -> None:
    wanted = data.draw(st.lists(st.integers(0, shape[axis] - 1), min_size=1, max_size=8))
    indices = Tensor("i", (len(wanted),), "int32", None, np.array(wanted, np.int32))
    out = (*shape[:axis], len(wanted), *shape[axis + 1 :])
    check("gather", {"axis": axis}, [activation("x", shape), indices], [activation("y", out)])


def test_heads_of_a_cache_move_in_words_side_by_side() -> None:
    """One pair of engines for all heads would take a byte or two at a time."""
    op = Op("concat", "join", ("before", "token"), ("cache",), {"axis": 2})
    before, token = activation("before", (1, 4, 255, 32)), activation("token", (1, 4, 1, 32))
    graph = graph_of(op, before, token, activation("cache", (1, 4, 256, 32)))
    rng = np.random.default_rng(0)
    values = {name: rng.integers(-128, 128, graph.tensors[name].shape).astype(np.int8) for name in graph.inputs}
    got = run(graph, values, allow_unproven=False)["cache"]
    assert np.array_equal(got, np.concatenate([values["before"], values["token"]], axis=2))
    engines = [use.config for plan in lower(graph)[0] for use in plan.engines.values()]
    assert max(one.elements for one in engines) == 8160 // 3  # words of three bytes


def test_wide_elements_stay_on_the_cpu() -> None:
    x, y = Tensor("x", (2, 3, 5), "int32"), Tensor("y", (5, 2, 3), "int32")
    graph = graph_of(Op("transpose", "op", ("x",), ("y",), {"perm": (2, 0, 1)}, ("op",)), x, y)
    with pytest.raises(Refusal, match="int32 values"):
        lower(graph)


def test_thousands_of_pieces_stay_on_the_cpu() -> None:
    with pytest.raises(Refusal, match="MOVE-SCATTERED"):
        one("reverse", {"axes": (3,)}, (1, 2, 2, 5000), (1, 2, 2, 5000))


def test_computed_indices_stay_on_the_cpu() -> None:
    tensors = [activation("x", (1, 5)), activation("i", (2,)), activation("y", (1, 2))]
    graph = graph_of(Op("gather", "op", ("x", "i"), ("y",), {"axis": 1}, ("op",)), *tensors)
    with pytest.raises(Refusal, match="gather"):
        lower(graph)


def test_independent_moves_share_an_epoch() -> None:
    parts = [activation(f"x{i}", (1, 10, 20, 48)) for i in range(5)]
    whole = activation("y", (1, 10, 20, 240))
    graph = graph_of(Op("concat", "op", tuple(p.name for p in parts), ("y",), {"axis": 3}, ("op",)), *parts, whole)
    epochs, _ = lower(graph)
    assert [len(epoch.engines) for epoch in epochs] == [4, 4, 2], "two writers of one buffer, as published"
    assert {use.config.element_bytes for epoch in epochs for use in epoch.engines.values()} == {3}
    asked = compile_graph(graph, Options(verify=False, schedule_with=("many-writers",)))
    assert [len(step.plan.engines) for step in asked.program.steps] == [10]


@pytest.mark.parametrize("channels, word", [(16, 2), (48, 3), (24, 1), (8, 1), (3, 1)])
def test_several_bytes_at_a_time_begin_at_aligned_addresses(channels: int, word: int) -> None:
    parts = [activation(f"x{i}", (1, 4, 5, channels)) for i in range(2)]
    whole = activation("y", (1, 4, 5, 2 * channels))
    graph = graph_of(Op("concat", "op", ("x0", "x1"), ("y",), {"axis": 3}, ("op",)), *parts, whole)
    plans, _ = lower(graph)
    writers = [use.config for plan in plans for use in plan.engines.values() if use.config.to_memory]
    assert [c.element_bytes for c in writers if c.address] == [word]
    assert all(c.element_bytes == 1 or c.address % 16 == 0 for c in writers)
    rng = np.random.default_rng(channels)
    values = {p.name: rng.integers(-128, 128, p.shape).astype(np.int8) for p in parts}
    assert np.array_equal(run(graph, values)["y"], np.concatenate([values["x0"], values["x1"]], axis=3))
