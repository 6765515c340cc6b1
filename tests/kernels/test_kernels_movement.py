"""Moves, gathers, pairs, reductions: C, emulator and exact arithmetic byte for byte."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atonc.compiler.emit.c.cpu.elementwise import BINARY, REDUCTIONS
from atonc.compiler.emit.c.cpu_calls import cpu_calls
from atonc.compiler.ops.shapes import broadcast, infer_shape
from atonc.machine.base.errors import UnsupportedError
from tests.kernels.three_ways import one_op, random_values, same_three_ways, tensor

quick = settings(max_examples=60, deadline=None)
TYPES = st.sampled_from(["int8", "uint8", "int16", "int32", "float32", "int64", "bool"])
SHAPES = st.lists(st.integers(1, 5), min_size=1, max_size=5).map(tuple)


def values_of(graph: Any, seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {name: random_values(rng, graph.tensors[name]) for name in graph.inputs}


@quick
@given(TYPES, SHAPES, st.integers(0, 99), st.booleans())
def test_reshape_and_transpose(dtype: str, shape: tuple[int, ...], seed: int, other: bool) -> None:
    x = tensor("x", shape, dtype)
    perm = tuple(np.random.default_rng(seed).permutation(len(shape)).tolist())
    out = (int(np.prod(shape)),) if other else tuple(shape[k] for k in perm)
    graph, op = one_op("reshape" if other else "transpose", [x], [tensor("y", out, dtype)], perm=perm)
    same_three_ways(graph, op, values_of(graph, seed))


@quick
@given(st.integers(0, 99), st.booleans(), st.sampled_from([None, (-50, 40)]))
def test_bytes_change_their_format_on_the_way(seed: int, same: bool, clip: Any) -> None:
    x = tensor("x", (3, 4, 5), "int8", 0.1, 3)
    y = tensor("y", (5, 3, 4), "int8", 0.1 if same else 0.23, 3 if same else -9)
    graph, op = one_op("transpose", [x], [y], perm=(2, 0, 1), **({"clip": clip} if clip else {}))
    same_three_ways(graph, op, values_of(graph, seed))


@quick
@given(TYPES, st.integers(0, 2), st.lists(st.integers(1, 4), min_size=1, max_size=4), st.integers(0, 99), st.booleans())
def test_concat_and_split(dtype: str, axis: int, sizes: list[int], seed: int, join: bool) -> None:
    def shape(size: int) -> tuple[int, ...]:
        return tuple(size if k == axis else 3 for k in range(3))

    parts = [tensor(f"p{k}", shape(size), dtype) for k, size in enumerate(sizes)]
    whole = tensor("whole", shape(sum(sizes)), dtype)
    graph, op = one_op("concat", parts, [whole], axis=axis) if join else one_op("split", [whole], parts, axis=axis)
    same_three_ways(graph, op, values_of(graph, seed))


def test_parts_of_a_constant_are_refused() -> None:
    """A table has no address to count from: the first part is its own, others would be the first part too."""
    whole = tensor("whole", (4, 3), "int16", data=np.arange(12).reshape(4, 3).astype(np.int16))
    graph, op = one_op("split", [whole], [tensor(f"p{k}", (2, 3), "int16") for k in range(2)], axis=0)
    with pytest.raises(UnsupportedError, match="split: part of a constant"):
        cpu_calls(op, graph)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_pack_and_unpack(axis: int) -> None:
    parts = [tensor(f"p{k}", (2, 3), "int16") for k in range(4)]
    shape = [2, 3]
    shape.insert(axis, 4)
    whole = tensor("whole", shape, "int16")
    for graph, op in (one_op("pack", parts, [whole], axis=axis), one_op("unpack", [whole], parts, axis=axis)):
        same_three_ways(graph, op, values_of(graph, 1))


def test_concat_with_a_constant_and_other_scales() -> None:
    fixed = tensor("c", (2, 2), "int8", 0.5, 1, data=np.array([[1, 2], [3, 4]], np.int8))
    parts = [fixed, tensor("a", (2, 3), "int8", 0.1, 3), tensor("b", (2, 1), "int8", 0.2, 0)]
    graph, op = one_op("concat", parts, [tensor("y", (2, 6), "int8", 0.2, 0)], axis=1)
    same_three_ways(graph, op, values_of(graph, 1))


@quick
@given(
    TYPES, st.tuples(*[st.integers(-3, 6)] * 3), st.tuples(*[st.sampled_from([1, 2, 3, -1, -2])] * 3), st.integers(0, 9)
)
def test_slice(dtype: str, starts: Any, steps: Any, seed: int) -> None:
    shape = (4, 5, 6)
    stops = tuple(None if step < 0 else n for n, step in zip(shape, steps, strict=True))
    window = tuple(slice(*part) for part in zip(starts, stops, steps, strict=True))
    out = np.zeros(shape)[window].shape
    graph, op = one_op(
        "slice", [tensor("x", shape, dtype)], [tensor("y", out, dtype)], starts=starts, stops=stops, steps=steps
    )
    same_three_ways(graph, op, values_of(graph, seed))


@quick
@given(TYPES, st.sampled_from([(0,), (1, 2), (0, 2), (-1,)]), st.integers(0, 9))
def test_reverse(dtype: str, axes: tuple[int, ...], seed: int) -> None:
    graph, op = one_op("reverse", [tensor("x", (3, 4, 2), dtype)], [tensor("y", (3, 4, 2), dtype)], axes=axes)
    same_three_ways(graph, op, values_of(graph, seed))


@quick
@given(
    st.sampled_from(["int8", "int16", "float32", "uint8"]),
    st.lists(st.tuples(st.integers(-1, 3), st.integers(-1, 3)), min_size=3, max_size=3),
    st.sampled_from(["constant", "constant", "reflect", "symmetric", "edge"]),
    st.integers(0, 9),
)
def test_pad(dtype: str, pads: list[tuple[int, int]], mode: str, seed: int) -> None:
    shape = (4, 5, 6)
    if mode != "constant":
        pads = [(0, 0), *((max(0, a), max(0, b)) for a, b in pads[1:])]
    out = tuple(n + a + b for n, (a, b) in zip(shape, pads, strict=True))
    quant = () if dtype == "float32" else (0.5, 7)
    attrs: dict[str, Any] = {"pads": tuple(pads), "mode": mode} | ({"value": -1.5} if seed % 2 else {})
    graph, op = one_op("pad", [tensor("x", shape, dtype, *quant)], [tensor("y", out, dtype, *quant)], **attrs)
    same_three_ways(graph, op, values_of(graph, seed))


@quick
@given(TYPES, st.tuples(*[st.integers(1, 3)] * 3), st.integers(0, 9))
def test_tile_and_expand(dtype: str, times: tuple[int, ...], seed: int) -> None:
    shape = (2, 1, 3)
    graph, op = one_op("tile", [tensor("x", shape, dtype)], [tensor("y", np.multiply(shape, times).tolist(), dtype)])
    same_three_ways(graph, op, values_of(graph, seed))
    graph, op = one_op("expand", [tensor("x", (2, 1, 3), dtype)], [tensor("y", (4, 2, times[0], 3), dtype)])
    same_three_ways(graph, op, values_of(graph, seed))


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
@pytest.mark.parametrize("order", ["DCR", "CRD"])
@pytest.mark.parametrize("dtype", ["int8", "float32"])
def test_blocks(layout: str, order: str, dtype: str) -> None:
    attrs = {"layout": layout, "block": 2, "order": order}
    for kind in ("space_to_depth", "depth_to_space"):
        x = tensor("x", (2, 4, 6, 8) if layout == "NHWC" else (2, 8, 4, 6), dtype)
        shape = infer_shape(kind, attrs, [x.shape])
        assert shape is not None
        graph, op = one_op(kind, [x], [tensor("y", shape, dtype)], **attrs)
        same_three_ways(graph, op, values_of(graph, 1))


@quick
@given(
    TYPES,
    st.sampled_from([(8, 6), (3, 9), (4, 3), (2, 2)]),
    st.sampled_from(["asymmetric", "half_pixel", "align_corners"]),
    st.sampled_from(["floor", "ceil", "round_prefer_floor", "round_prefer_ceil"]),
    st.integers(0, 9),
)
def test_resize_nearest(dtype: str, size: tuple[int, int], coordinates: str, rounding: str, seed: int) -> None:
    x, y = tensor("x", (1, 4, 3, 5), dtype), tensor("y", (1, *size, 5), dtype)
    graph, op = one_op("resize_nearest", [x], [y], coordinates=coordinates, rounding=rounding)
    same_three_ways(graph, op, values_of(graph, seed))


@quick
@given(TYPES, st.sampled_from(["int32", "int64", "uint8"]), st.integers(0, 2), st.integers(0, 99))
def test_gather(dtype: str, index_type: str, axis: int, seed: int) -> None:
    x, rng = tensor("x", (3, 4, 5), dtype), np.random.default_rng(seed)
    low = 0 if index_type == "uint8" else -x.shape[axis] - 2  # what lies outside is kept inside
    indices = rng.integers(low, x.shape[axis] + 2, (2, 3)).astype(index_type)
    out = infer_shape("gather", {"axis": axis}, [x.shape, (2, 3)])
    assert out is not None
    graph, op = one_op("gather", [x, tensor("i", (2, 3), index_type)], [tensor("y", out, dtype)], axis=axis)
    same_three_ways(graph, op, {"x": random_values(rng, x), "i": indices})


@quick
@given(TYPES, st.tuples(st.integers(1, 3), st.integers(1, 3)), st.tuples(*[st.integers(0, 2)] * 4), st.integers(0, 9))
def test_blocks_to_batches_and_back(dtype: str, blocks: tuple[int, int], edges: Any, seed: int) -> None:
    a, b, c, d = edges
    shape = (2, 3 * blocks[0] - min(a + b, 2), 3 * blocks[1] - min(c + d, 2), 2)
    if min(shape) < 1:
        return
    pads = ((min(a, 2), min(a + b, 2) - min(a, 2)), (min(c, 2), min(c + d, 2) - min(c, 2)))
    attrs: dict[str, Any] = {"blocks": blocks, "pads": pads, "crops": pads}
    wide = (2 * blocks[0] * blocks[1], 3, 3, 2)
    quant = (0.5, 3) if dtype in ("int8", "uint8") else ()
    x, y = tensor("x", shape, dtype, *quant), tensor("y", wide, dtype, *quant)
    graph, op = one_op("space_to_batch", [x], [y], **attrs)
    same_three_ways(graph, op, values_of(graph, seed))
    graph, op = one_op("batch_to_space", [y], [x], **attrs)
    same_three_ways(graph, op, values_of(graph, seed))


@quick
@given(TYPES, st.integers(1, 3), st.booleans(), st.integers(0, 99))
def test_gather_nd(dtype: str, depth: int, constant: bool, seed: int) -> None:
    x, rng = tensor("x", (3, 4, 5), dtype), np.random.default_rng(seed)
    indices = np.stack([rng.integers(-n - 1, n + 2, 7) for n in x.shape[:depth]], axis=1).astype(np.int32)
    index = tensor("i", (7, depth), "int32", data=indices if constant else None)
    graph, op = one_op("gather_nd", [x, index], [tensor("y", (7, *x.shape[depth:]), dtype)])
    same_three_ways(graph, op, {"x": random_values(rng, x)} | ({} if constant else {"i": indices}))


NUMBERS = st.sampled_from(["int8", "uint8", "int16", "int32", "float32", "float64"])
PAIRS = st.sampled_from(
    [
        ((3, 4), (3, 4)),
        ((2, 3, 4), (4,)),
        ((2, 1, 4), (3, 1)),
        ((5,), (1,)),
        ((1, 1), (1, 1)),
        ((2, 3, 1, 4), (2, 1, 5, 1)),
    ]
)


@quick
@given(
    st.sampled_from(sorted(set(BINARY) - {"div_trunc", "prelu_twice"})),
    NUMBERS,
    NUMBERS,
    NUMBERS,
    PAIRS,
    st.booleans(),
    st.integers(0, 999),
)
def test_pairs(kind: str, a: str, b: str, c: str, shapes: Any, quantised: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    out = broadcast(shapes) if kind != "prelu" else shapes[0]
    if kind == "prelu" and broadcast(shapes) != shapes[0]:
        return

    def made(name: str, shape: Any, dtype: str, scale: float, zero: int) -> Any:
        return tensor(name, shape, dtype, *((scale, zero) if quantised and not dtype.startswith("float") else ()))

    x, y = made("x", shapes[0], a, 0.031, 5), made("y", shapes[1], b, 0.7, 0)
    activation = "relu" if seed % 3 == 0 and kind not in ("prelu",) else "none"
    graph, op = one_op(kind, [x, y], [made("z", out, c, 0.11, 3)], activation=activation)
    same_three_ways(graph, op, {"x": random_values(rng, x, True), "y": random_values(rng, y, True)})


@pytest.mark.parametrize("kind", sorted(set(BINARY) - {"div_trunc", "prelu", "prelu_twice"}))
def test_pairs_of_awkward_numbers(kind: str) -> None:
    """In double precision every rounding and every sign of zero shows."""
    numbers = np.array([0.0, -0.0, 1.0, -1.0, 3.0, -3.0, 0.1, 1e300, 5e-324, np.inf, -np.inf, np.nan, 7.0, 2.0, -0.7])
    n = numbers.size
    x, y, z = tensor("x", (n, 1), "float64"), tensor("y", (n,), "float64"), tensor("z", (n, n), "float64")
    same_three_ways(*one_op(kind, [x, y], [z]), {"x": numbers[:, None], "y": numbers})


@quick
@given(st.sampled_from(["less", "equal", "logical_and"]), NUMBERS, st.integers(0, 99))
def test_comparisons_to_bool(kind: str, dtype: str, seed: int) -> None:
    x, y = tensor("x", (3, 4), dtype), tensor("y", (3, 4), dtype)
    graph, op = one_op(kind, [x, y], [tensor("z", (3, 4), "bool")])
    same_three_ways(
        graph, op, {n: v % 3 if not dtype.startswith("float") else v for n, v in values_of(graph, seed).items()}
    )


@quick
@given(NUMBERS, NUMBERS, st.integers(0, 99))
def test_select(a: str, b: str, seed: int) -> None:
    inputs = [tensor("c", (2, 1, 4), "bool"), tensor("x", (3, 4), a), tensor("y", (1,), a)]
    graph, op = one_op("select", inputs, [tensor("z", (2, 3, 4), b)])
    same_three_ways(graph, op, values_of(graph, seed))


@quick
@given(NUMBERS, NUMBERS, st.booleans(), st.integers(0, 99))
def test_affine(a: str, b: str, each: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    gain, offset = (
        tensor(n, (5,) if each else (1,), "float64", data=rng.normal(size=5 if each else 1)) for n in ("gain", "offset")
    )
    x = tensor("x", (3, 5), a, *(() if a.startswith("float") else (0.1, 2)))
    graph, op = one_op(
        "affine", [x, gain, offset], [tensor("y", (3, 5), b, *(() if b.startswith("float") else (0.2, 1)))]
    )
    same_three_ways(graph, op, values_of(graph, seed))


@quick
@given(
    st.sampled_from(sorted(REDUCTIONS)),
    NUMBERS,
    NUMBERS,
    st.sampled_from([(0,), (1, 2), (3,), (0, 2), (0, 1, 2, 3)]),
    st.booleans(),
    st.integers(0, 99),
)
def test_reductions(kind: str, a: str, b: str, axes: Any, keep: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = tensor("x", (2, 3, 4, 5), a, *(() if a in ("float32", "float64", "int32") else (0.1, 2)))
    out = infer_shape(kind, {"axes": axes, "keepdims": keep}, [x.shape])
    assert out is not None
    y = tensor("y", out, b, *(() if b.startswith("float") else (0.2, 1)))
    graph, op = one_op(kind, [x], [y], axes=axes, keepdims=keep)
    same_three_ways(graph, op, {"x": random_values(rng, x, hostile=seed % 2 == 0)})


@quick
@given(NUMBERS, NUMBERS, st.integers(0, 99))
def test_l2_norm(a: str, b: str, seed: int) -> None:
    x = tensor("x", (3, 9), a, *(() if a.startswith("float") else (0.1, 2)))
    graph, op = one_op("l2_norm", [x], [tensor("y", (3, 9), b, *(() if b.startswith("float") else (1 / 128, 0)))])
    same_three_ways(graph, op, values_of(graph, seed))


@quick
@given(NUMBERS, NUMBERS, st.sampled_from(["layer_norm", "rms_norm"]), st.integers(0, 3), st.integers(0, 99))
def test_norms(a: str, b: str, kind: str, given_factors: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = tensor("x", (3, 9), a, *(() if a.startswith("float") else (0.1, 2)))
    gain = tensor("g", (9,), "int8", 0.02, 3, data=rng.integers(-128, 128, 9).astype(np.int8))
    offset = tensor("o", (9,), "float32")
    factors = [[], [gain], [gain, offset], [gain, gain]][given_factors]
    y = tensor("y", (3, 9), b, *(() if b.startswith("float") else (1 / 32, 0)))
    graph, op = one_op(kind, [x, *factors], [y], axis=1, epsilon=1e-5)
    same_three_ways(graph, op, values_of(graph, seed))


@pytest.mark.parametrize("kind", ["layer_norm", "rms_norm"])
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_norms_of_many_bytes(kind: str, dtype: str) -> None:
    """More rows and columns than are worked on together."""
    rng = np.random.default_rng(3)
    gain = tensor("g", (70,), "int8", 0.02, 3, data=rng.integers(-128, 128, 70).astype(np.int8))
    offset = tensor("o", (70,), "float32", data=rng.normal(0, 0.5, 70).astype(np.float32))
    x, y = tensor("x", (37, 70), dtype, 0.1, 2), tensor("y", (37, 70), dtype, 1 / 40, 5)
    graph, op = one_op(kind, [x, gain, offset], [y], axis=1, epsilon=1e-5)
    same_three_ways(graph, op, values_of(graph, 1))


def test_constants_that_passes_left_in_double_precision() -> None:
    exact = tensor("c", (2, 2), "float32", data=np.array([[0.1, 0.2], [0.3, 0.4]]))
    x = tensor("x", (2, 2), "float32")
    graph, op = one_op("concat", [exact, x], [tensor("y", (2, 4), "float32")], axis=1)
    same_three_ways(graph, op, values_of(graph, 1))
    graph, op = one_op("mul", [x, exact], [tensor("y", (2, 2), "float64")])
    same_three_ways(graph, op, values_of(graph, 1))


def test_constants() -> None:
    x = tensor("x", (3, 4, 5), "int8", 0.5, 1)
    same_three_ways(*one_op("shape", [x], [tensor("y", (3,), "int32")]), {"x": np.zeros((3, 4, 5), np.int8)})
    value = tensor("v", (), "float32", data=np.float32(1.5))
    same_three_ways(*one_op("fill", [value], [tensor("y", (2, 3), "int8", 0.5, 1)]), {})


@quick
@given(st.integers(1, 3), st.integers(1, 20), st.integers(1, 12), st.integers(1, 17), st.booleans(), st.integers(0, 99))
def test_pack_kernels(count: int, columns: int, depth: int, kernels: int, turned: bool, seed: int) -> None:
    x = tensor("x", (count, columns, depth) if turned else (count, depth, columns), "int8", 0.5, 3)
    units = ((0, depth), (depth // 2, depth - depth // 2, -1, -1), (0, depth, 0, -64), (0, 0))
    attrs = {"kernels": kernels, "channels": depth + 2, "units": units, "turned": turned}
    shape = infer_shape("pack_kernels", attrs, [x.shape])
    assert shape is not None
    graph, op = one_op("pack_kernels", [x], [tensor("y", shape, "int8", 0.5, 3)], **attrs)
    same_three_ways(graph, op, values_of(graph, seed))
