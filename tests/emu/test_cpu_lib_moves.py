"""Hybrid library calls that move data, element by element against the published loops."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atonc.machine.base.errors import InputError
from atonc.machine.emu.cpu import run_call
from tests.emu.cpu_calls import Array, Bench, Struct

RNG = np.random.default_rng(4)
TYPES = {8: np.uint8, 16: np.uint16, 32: np.uint32}


def numbered(shape: tuple[int, ...], nbits: int) -> Array:
    return RNG.integers(0, 1 << min(nbits, 31), shape).astype(TYPES[nbits])


def offsets(shape: tuple[int, ...], nbytes: int) -> list[Any]:
    return [int(np.prod(shape[k + 1 :], dtype=int)) * nbytes for k in range(len(shape))]


# -- Concat


@pytest.mark.parametrize("nbits", [8, 16, 32])
@pytest.mark.parametrize(("axis", "stored"), [(1, 3), (2, 1), (3, 2)])
def test_concat_along_each_axis(nbits: int, axis: int, stored: int) -> None:
    bench = Bench()
    parts = [numbered(tuple(k + 2 if p == stored else (1, 3, 4, 5)[p] for p in range(4)), nbits) for k in range(3)]
    wanted = np.concatenate(parts, stored)
    inputs = [bench.buffer(part, part.shape, nbits, part.shape[3]) for part in parts]
    out = bench.out_buffer(wanted.shape, nbits, wanted.shape[3])
    run_call("LL_ATON_LIB_Concat", [[*inputs, {"name": None}], 3, [out], axis, 4, 5], bench.memory)
    assert np.array_equal(bench.contents(out, TYPES[nbits]).reshape(wanted.shape), wanted)


@settings(max_examples=30)
@given(st.lists(st.tuples(st.integers(1, 3), st.integers(1, 4)), min_size=2, max_size=4), st.sampled_from([8, 16]))
def test_concat_of_channel_groups(groups: list[tuple[int, int]], nbits: int) -> None:
    """Inputs stored [C/b][H][W][b] become pixels of all channels."""
    bench, (h, w), batch = Bench(), (3, 2), groups[0][1]
    logical = [numbered((h, w, count * batch), nbits) for count, _ in groups]
    wanted = np.concatenate(logical, 2)
    if batch == wanted.shape[2]:
        return
    inputs = []
    for image in logical:
        count = image.shape[2] // batch
        stored = image.reshape(h, w, count, batch).transpose(2, 0, 1, 3)
        inputs.append(bench.buffer(np.ascontiguousarray(stored), (1, *image.shape), nbits, batch))
    out = bench.out_buffer((1, *wanted.shape), nbits, wanted.shape[2])
    run_call("LL_ATON_LIB_Concat", [inputs, len(inputs), [out], 1, 0, 1, "instance"], bench.memory)
    assert np.array_equal(bench.contents(out, TYPES[nbits]).reshape(wanted.shape), wanted)


def test_concat_of_equal_groups_is_a_flat_copy() -> None:
    bench, parts = Bench(), [numbered((1, 3, 4, 8), 8) for _ in range(3)]
    inputs = [bench.buffer(part, part.shape, 8, 8) for part in parts]
    out = bench.out_buffer((1, 3, 4, 24), 8, 8)
    run_call("LL_ATON_LIB_Concat", [inputs, 3, [out], 1, 0, 1], bench.memory)
    assert np.array_equal(bench.contents(out, np.uint8), np.concatenate(parts).reshape(-1))


def test_concat_refuses_what_the_library_refuses() -> None:
    bench, part = Bench(), numbered((1, 3, 4, 8), 8)
    good = bench.buffer(part, part.shape, 8, 8)
    out = bench.out_buffer((1, 3, 4, 16), 8, 16)
    cases: list[list[Any]] = [
        [[good, good], 3, [out], 1],
        [[good, good], 2, [out], 2],
        [[good, good], 2, [out], 9],
        [[good, good | {"nbits": 16}], 2, [out], 1],
        [[good, good | {"batch": 4}], 2, [out], 1],
        [[good, good], 0, [out], 1],
        [[good, good | {"shape": [1, 3, 4]}], 2, [out], 1],
        [[good, good | {"addr_base": 0x10}], 2, [out], 1],
        [[good, good | {"offset_end": 0}], 2, [out], 1],
        [[good, good], 2],
    ]
    for args in cases:
        with pytest.raises(InputError):
            run_call("LL_ATON_LIB_Concat", [*args, 0, 1], bench.memory)


# -- Transpose


@pytest.mark.parametrize("nbits", [8, 16, 32])
@pytest.mark.parametrize("perm", list(itertools.permutations(range(4)))[1::3])
@pytest.mark.parametrize("name", ["LL_ATON_LIB_DMA_Transpose", "LL_ATON_LIB_Transpose"])
@pytest.mark.parametrize("shape", [(2, 3, 4, 5), (1, 2, 3, 1)])  # the small one is done by the CPU
def test_transpose(nbits: int, perm: tuple[int, ...], name: str, shape: tuple[int, ...]) -> None:
    bench, image = Bench(), numbered(shape, nbits)
    wanted, nbytes = image.transpose(perm), nbits // 8
    source, out = bench.buffer(image, shape, nbits, 1), bench.out_buffer(wanted.shape, nbits, 1)
    positions: list[Any] = [perm.index(axis) for axis in range(4)]
    lists: list[Any] = [list(perm)] if name == "LL_ATON_LIB_Transpose" else [positions, list(perm), 0, 1]
    args = [[source], offsets(shape, nbytes), [out], offsets(wanted.shape, nbytes), *lists]
    run_call(name, args, bench.memory)
    assert np.array_equal(bench.contents(out, TYPES[nbits]).reshape(wanted.shape), wanted)


def test_transpose_of_three_dimensions() -> None:
    bench, image = Bench(), numbered((4, 6, 5), 8)
    wanted = image.transpose(2, 0, 1)
    source, out = bench.buffer(image, image.shape, 8, 1), bench.out_buffer(wanted.shape, 8, 1)
    args: list[Any] = [[source], offsets(image.shape, 1), [out], offsets(wanted.shape, 1), [1, 2, 0], [2, 0, 1], 3, 4]
    run_call("LL_ATON_LIB_DMA_Transpose", args, bench.memory)
    assert np.array_equal(bench.contents(out, np.uint8).reshape(wanted.shape), wanted)
    with pytest.raises(InputError, match="permutation"):
        run_call("LL_ATON_LIB_DMA_Transpose", [*args[:4], [0, 0, 1], *args[5:]], bench.memory)


# -- space and depth


@pytest.mark.parametrize("nbits", [8, 16, 32])
@pytest.mark.parametrize("block", [(2, 2), (3, 1), (1, 4)])
def test_space_to_depth_and_back(nbits: int, block: tuple[int, int]) -> None:
    bench, image = Bench(), numbered((2, 6, 8, 3), nbits)
    bh, bw = block
    deep = np.zeros((2, 6 // bh, 8 // bw, 3 * bh * bw), TYPES[nbits])
    for n, y, x, c in np.ndindex(image.shape):
        deep[n, y // bh, x // bw, (y % bh * bw + x % bw) * 3 + c] = image[n, y, x, c]
    source, out = bench.buffer(image, image.shape, nbits, 3), bench.out_buffer(deep.shape, nbits, deep.shape[3])
    run_call("LL_ATON_LIB_DMA_SpaceToDepth", [[source], 1, [out], bh, bw, 9, 0], bench.memory)
    assert np.array_equal(bench.contents(out, TYPES[nbits]).reshape(deep.shape), deep)
    back = bench.out_buffer(image.shape, nbits, 3)
    run_call("LL_ATON_LIB_DMA_DepthToSpace", [[out], 1, [back], bh, bw, 0, 1, "instance"], bench.memory)
    assert np.array_equal(bench.contents(back, TYPES[nbits]).reshape(image.shape), image)


def test_image_to_row_with_overlap() -> None:
    bench, image = Bench(), numbered((1, 5, 6, 2), 8)
    rows = np.stack([image[0, y : y + 3, x : x + 2].reshape(-1) for y in (0, 2) for x in range(5)]).reshape(1, 2, 5, 12)
    source, out = bench.buffer(image, image.shape, 8, 2), bench.out_buffer(rows.shape, 8, 12)
    run_call("LL_ATON_LIB_DMA_ImageToRow", [[source], 1, [out], 3, 2, 2, 1, 0, 1], bench.memory)
    assert np.array_equal(bench.contents(out, np.uint8).reshape(rows.shape), rows)
    back = bench.out_buffer(image.shape, 8, 2)
    run_call("LL_ATON_LIB_DMA_RowToImage", [[out], 1, [back], 3, 2, 2, 1, 0, 1], bench.memory)
    assert np.array_equal(bench.contents(back, np.uint8).reshape(image.shape), image)
    with pytest.raises(InputError):
        run_call("LL_ATON_LIB_DMA_ImageToRow", [[source], 1, [out], 3, 2, 2, 2, 0, 1], bench.memory)


@pytest.mark.parametrize("mode", [0, 1])
def test_software_depth_to_space(mode: int) -> None:
    """Shapes N, C, H, W with offsets of a channels-last memory."""
    bench, deep = Bench(), numbered((1, 12, 2, 3), 8)
    image = np.zeros((1, 2, 4, 9), np.uint8)
    for c, h, w in np.ndindex(12, 2, 3):
        if mode == 0:
            image[0, c % 2, h * 2 + c // 6, w * 3 + c // 2 % 3] = deep[0, c, h, w]
        else:
            image[0, c // 6, h * 2 + c % 6 // 3, w * 3 + c % 3] = deep[0, c, h, w]
    stored = np.ascontiguousarray(deep.transpose(0, 2, 3, 1))
    source, out = bench.buffer(stored, deep.shape, 8, 12), bench.out_buffer(image.shape, 8, 2)
    args: list[Any] = [[source], [72, 1, 36, 12], [out], [72, 1, 18, 2], 2, 3, mode]
    run_call("LL_ATON_LIB_SW_DepthToSpace", args, bench.memory)
    assert np.array_equal(bench.contents(out, np.uint8).reshape(1, 4, 9, 2), image.transpose(0, 2, 3, 1))
    if mode == 0:
        back = bench.out_buffer(deep.shape, 8, 12)
        run_call("LL_ATON_LIB_SW_SpaceToDepth", [[out], [72, 1, 18, 2], [back], [72, 1, 36, 12], 2, 3], bench.memory)
        assert np.array_equal(bench.contents(back, np.uint8), stored.reshape(-1))


# -- Slice and Split


@pytest.mark.parametrize("lines", [3, 40])
def test_slice_like_a_split(lines: int) -> None:
    bench, table = Bench(), numbered((1, lines, 5), 8)
    source = bench.buffer(table, table.shape, 8, 1)
    source["offset_start"] = int(source["offset_start"]) + 2
    out = bench.out_buffer((1, lines, 3), 8, 1)
    args = [[source], [out], lines * 3, 3, lines, 5, 8, 0, 1]
    run_call("LL_ATON_LIB_DMA_Outputs_Slice_SplitLike", args, bench.memory)
    assert np.array_equal(bench.contents(out, np.uint8).reshape(lines, 3), table[0, :, 2:])
    with pytest.raises(InputError):
        run_call("LL_ATON_LIB_DMA_Outputs_Slice_SplitLike", [[source], [out], 7, 3, lines, 5, 8, 0, 1], bench.memory)


def test_slice_by_axes() -> None:
    bench, image = Bench(), numbered((1, 4, 6, 5), 16)
    wanted = image[:, 3:0:-2, 1:6:2, ::1]
    source, out = bench.buffer(image, image.shape, 16, 1), bench.out_buffer(wanted.shape, 16, 1)
    bounds: list[Any] = [[0, 3, 1, 0], [1, 0, 6, 5], [1, -2, 2, 1]]
    args = [[source], offsets(image.shape, 2), [out], offsets(wanted.shape, 2), 4, *bounds]
    run_call("LL_ATON_LIB_Slice", args, bench.memory)
    assert np.array_equal(bench.contents(out, np.uint16).reshape(wanted.shape), wanted)
    for broken in ([[0, 3, 1, 0], [1, 0, 6, 1 << 22], [1, -2, 2, 1]], [[0, 3, 1, 0], [1, 0, 6, 5], [1, 0, 2, 1]]):
        with pytest.raises(InputError):
            run_call("LL_ATON_LIB_Slice", [*args[:5], *broken], Bench(1 << 10).memory)


@pytest.mark.parametrize("case", [0, 1, 2])
@pytest.mark.parametrize("axis", [1, 2, 3])
def test_split_of_channels_last(case: int, axis: int) -> None:
    bench, image = Bench(), numbered((1, 6, 4, 6), 8)  # N, C, H, W
    sizes = {1: (1, 2, 3), 2: (1, 3), 3: (2, 4)}[axis]
    cuts = np.split(image, np.cumsum(sizes)[:-1], axis)
    source = bench.buffer(np.ascontiguousarray(image.transpose(0, 2, 3, 1)), image.shape, 8, 6)
    outs = [bench.out_buffer(cut.shape, 8, cut.shape[1]) for cut in cuts]
    run_call("LL_ATON_LIB_Split", [[source], 1, outs, len(outs), 4, axis, 1, case, -1, -1], bench.memory)
    for cut, out in zip(cuts, outs, strict=True):
        assert np.array_equal(bench.contents(out, np.uint8), cut.transpose(0, 2, 3, 1).reshape(-1))


def test_split_of_channels_first_flat_and_grouped() -> None:
    bench, image = Bench(), numbered((1, 6, 3, 4), 8)
    cuts = np.split(image, [2], 1)
    outs = [bench.out_buffer(cut.shape, 8, 2) for cut in cuts]
    first = bench.buffer(image, image.shape, 8, 1)
    for case in (0, 7):  # channels first along the channel: by axis or flat is the same
        run_call("LL_ATON_LIB_Split", [[first], 0, outs, 2, 4, 1, 1, case, -1, -1], bench.memory)
        assert all(np.array_equal(bench.contents(o, np.uint8), c.reshape(-1)) for c, o in zip(cuts, outs, strict=True))
    last = bench.buffer(np.ascontiguousarray(image.transpose(0, 2, 3, 1)), image.shape, 8, 6)
    run_call("LL_ATON_LIB_Split", [[last], 1, outs, 2, 4, 1, 1, 3, 0, 1], bench.memory)
    for cut, out in zip(cuts, outs, strict=True):
        grouped = cut[0].reshape(-1, 2, 3, 4).transpose(0, 2, 3, 1)
        assert np.array_equal(bench.contents(out, np.uint8), grouped.reshape(-1))
    for broken in ((0, 9, 0), (0, 1, 3), (1, 1, 77)):
        with pytest.raises(InputError):
            run_call(
                "LL_ATON_LIB_Split", [[last], broken[0], outs, 2, 4, broken[1], 1, broken[2], -1, -1], bench.memory
            )


def test_nothing_else_is_touched() -> None:
    """The bytes around an output stay as they were."""
    bench, image = Bench(), numbered((1, 4, 5, 6), 8)
    source, out = bench.buffer(image, image.shape, 8, 1), bench.out_buffer((1, 6, 4, 5), 8, 1)
    before = bench.memory.regions[0].data.copy()
    args: list[Any] = [
        [source],
        offsets(image.shape, 1),
        [out],
        offsets((1, 6, 4, 5), 1),
        [0, 2, 3, 1],
        [0, 3, 1, 2],
        0,
        1,
    ]
    run_call("LL_ATON_LIB_DMA_Transpose", args, bench.memory)
    changed = np.flatnonzero(before != bench.memory.regions[0].data) + bench.memory.regions[0].base
    start = int(out["addr_base"]) + int(out["offset_start"])
    assert changed.size and changed.min() >= start and changed.max() < start + 120


def test_buffers_of_later_releases_may_keep_their_braces() -> None:
    bench, part = Bench(), numbered((1, 3, 4, 8), 8)
    good: Struct = bench.buffer(part, part.shape, 8, 8)
    out = bench.out_buffer((1, 3, 4, 8), 8, 8)
    braces = good | {"addr_base": [good["addr_base"]]}
    named = good | {"addr_base": {"i": good["addr_base"]}}
    for source in (good, braces, named):
        run_call("LL_ATON_LIB_Concat", [[source], 1, [out], 1, 0, 1], bench.memory)
        assert np.array_equal(bench.contents(out, np.uint8), part.reshape(-1))
