from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atonc.compiler.ir import Graph, Op, Quantisation, Tensor
from atonc.compiler.lower.context import Context
from atonc.compiler.lower.conv.ones import pictures
from atonc.compiler.lower.elementwise.binary import SquaredDifference, product_form, sum_form
from atonc.compiler.lower.elementwise.two_streams import Repeats, repeats
from atonc.compiler.lower.registry import Refusal
from atonc.compiler.lower.units.arith import fit_pair, pair_error
from atonc.compiler.ops.registry import evaluate
from atonc.compiler.select.rules import MUL_CONSTANT
from tests.lower.harness import activation, constant, facts, graph_of, lower, run

SCALES = st.floats(0.003, 0.3)
ZERO_POINTS = st.one_of(st.integers(-128, 127), st.sampled_from([0, -128]))
PAIRS = st.sampled_from(
    [
        ((1, 5, 6, 7), (1, 5, 6, 7), (1, 5, 6, 7)),
        ((1, 40, 40, 6), (1, 40, 40, 6), (1, 40, 40, 6)),
        ((1, 8, 9, 20), (1, 1, 1, 20), (1, 8, 9, 20)),
        ((1, 1, 1, 20), (1, 30, 30, 20), (1, 30, 30, 20)),
        ((1, 8, 9, 20), (1, 8, 9, 1), (1, 8, 9, 20)),
        ((1, 30, 40, 8), (1, 30, 1, 8), (1, 30, 40, 8)),
        ((1, 1, 7, 3), (1, 4, 7, 3), (1, 4, 7, 3)),
        ((1, 4, 7, 3), (1, 1, 1, 1), (1, 4, 7, 3)),
        ((1, 10), (1, 10), (1, 10)),
        ((17,), (1, 9, 17), (1, 9, 17)),
    ]
)


def _codes(shape, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).integers(-128, 128, shape).astype(np.int8)


def _binary(kind, shapes, quants, attrs=None):
    tensors = [
        activation(name, shape, *quant) for name, shape, quant in zip(("x", "y", "z"), shapes, quants, strict=True)
    ]
    op = Op(kind, kind, ("x", "y"), ("z",), attrs or {})
    return op, graph_of(op, *tensors)


def _compare(op, graph, values, numerics="best", limit=1) -> np.ndarray:
    got = run(graph, values, numerics)[op.outputs[0]]
    given_values = [graph.tensors[n].data if graph.tensors[n].is_constant else values[n] for n in op.inputs]
    exact = evaluate(graph, op, given_values)[0].codes
    assert np.abs(got.astype(int) - exact).max() <= limit
    return got


def _clip(ends) -> dict:
    return {"clip": (min(ends), max(ends))} if sum(ends) % 3 == 0 else {}


QUANT = st.tuples(SCALES, ZERO_POINTS)


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(["add", "sub"]), PAIRS, st.tuples(QUANT, QUANT, QUANT), st.tuples(ZERO_POINTS, ZERO_POINTS))
def test_sums(kind, shapes, quants, ends) -> None:
    op, graph = _binary(kind, shapes, quants, _clip(ends))
    values = {"x": _codes(shapes[0]), "y": _codes(shapes[1], 2)}
    got = _compare(op, graph, values)
    x, _, pair = sum_form(op, Context(facts(graph)))
    ordered = [values["x"], values["y"]] if x.buffer == "x" else [values["y"], values["x"]]
    mapped = np.broadcast_to(pair(*ordered), shapes[2])
    assert np.array_equal(got, np.clip(mapped, *op.attrs.get("clip", (-128, 127))))


@settings(max_examples=40, deadline=None)
@given(PAIRS, st.tuples(QUANT, QUANT, QUANT), st.tuples(ZERO_POINTS, ZERO_POINTS), st.sampled_from(["best", "2.x"]))
def test_products(shapes, quants, ends, numerics) -> None:
    quants = (*quants[:2], (quants[0][0] * quants[1][0] * 40 + quants[2][0] / 10, quants[2][1]))
    op, graph = _binary("mul", shapes, quants, _clip(ends))
    values = {"x": _codes(shapes[0]), "y": _codes(shapes[1], 2)}
    got = _compare(op, graph, values, numerics)
    x, _, form = product_form(op, Context(facts(graph, numerics)))
    ordered = [values["x"], values["y"]] if x.buffer == "x" else [values["y"], values["x"]]
    mapped = np.broadcast_to(form(*ordered), shapes[2])
    assert np.array_equal(got, np.clip(mapped, *op.attrs.get("clip", (-128, 127))))


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(["minimum", "maximum"]), PAIRS, st.tuples(QUANT, QUANT, QUANT), st.integers(0, 3))
def test_extremes_are_exact(kind, shapes, quants, same) -> None:
    if same:  # most models have one quantisation for all three
        quants = (quants[2],) * 3
    op, graph = _binary(kind, shapes, quants)
    _compare(op, graph, {"x": _codes(shapes[0]), "y": _codes(shapes[1], 2)}, limit=0)


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(["add", "sub", "mul", "div", "minimum", "maximum"]),
    st.booleans(),
    st.sampled_from([(1, 3, 4, 5), (1, 30, 30, 16), (1, 2, 3, 600), (1, 1, 1, 700), (1, 2, 1344), (1, 9)]),
    st.sampled_from(["int8", "float32"]),
    st.tuples(QUANT, QUANT, QUANT),
    st.tuples(ZERO_POINTS, ZERO_POINTS),
)
def test_constants_per_channel(kind, first, shape, dtype, quants, ends) -> None:
    first = first and kind != "div"
    channels = shape[-1]
    rng = np.random.default_rng(channels)
    if dtype == "int8":
        values = rng.integers(1, 128, channels).astype(np.int8)
        c = constant("c", values, quants[1][0], 0)
    else:
        c = constant("c", rng.uniform(0.1, 2, channels).astype(np.float32))
    out = (max(quants[2][0], quants[0][0] / 2), quants[2][1])
    op = Op(kind, kind, ("c", "x") if first else ("x", "c"), ("z",), _clip(ends))
    graph = graph_of(op, activation("x", shape, *quants[0]), c, activation("z", shape, *out))
    _compare(op, graph, {"x": _codes(shape)}, limit=1)


@settings(max_examples=30, deadline=None)
@given(
    st.sampled_from(["add", "sub", "mul", "minimum", "maximum"]),
    st.booleans(),
    st.sampled_from([(1, 1, 4, 5), (1, 3, 4, 1), (3, 4, 1), (1, 3, 4, 5), (1, 3, 1, 1)]),
    st.sampled_from(["int8", "float32"]),
    st.tuples(QUANT, QUANT, QUANT),
)
def test_other_constants(kind, first, shape, dtype, quants) -> None:
    rng = np.random.default_rng(len(shape))
    codes = rng.integers(-128, 128, shape).astype(np.int8)
    c = constant("c", codes, *quants[1]) if dtype == "int8" else constant("c", codes.astype(np.float32) / 50)
    span = float(np.abs(codes).max() * (quants[1][0] if dtype == "int8" else 1 / 50))
    scale = max(quants[2][0], quants[0][0] * (span if kind == "mul" else 1) * 1.1)
    op = Op(kind, kind, ("c", "x") if first else ("x", "c"), ("z",))
    graph = graph_of(
        op, activation("x", (1, 3, 4, 5), *quants[0]), c, activation("z", (1, 3, 4, 5), scale, quants[2][1])
    )
    try:
        _compare(op, graph, {"x": _codes((1, 3, 4, 5))})
    except Refusal as refusal:
        assert kind == "mul" and dtype == "float32" and refusal.rule == MUL_CONSTANT, refusal


@pytest.mark.parametrize("kind", ["add", "sub", "mul", "div", "minimum", "maximum", "squared_difference"])
@pytest.mark.parametrize("first", [False, True])
def test_single_constants_become_functions(kind: str, first: bool) -> None:
    c = constant("c", np.array([90], np.int8), 0.02, -3)
    op = Op(kind, kind, ("c", "x") if first else ("x", "c"), ("z",))
    graph = graph_of(op, activation("x", (1, 9, 9, 3), 0.05, 7), c, activation("z", (1, 9, 9, 3), 0.1, 0))
    _compare(op, graph, {"x": _codes((1, 9, 9, 3))}, limit=0 if kind != "div" or not first else 2)


@settings(max_examples=25, deadline=None)
@given(PAIRS, SCALES, SCALES, st.floats(0.05, 4), st.tuples(*[ZERO_POINTS] * 3), st.integers(0, 99))
def test_squared_differences(shapes, scale_x, scale_y, share, zeros, seed) -> None:
    """Any share of what the operands can be apart may be in the format; what is beyond it is its end."""
    zeros = (*zeros[:2], min(zeros[2], 100))
    ends = [scale_x * (a - zeros[0]) - scale_y * (b - zeros[1]) for a in (-128, 127) for b in (-128, 127)]
    scale = share * max(map(abs, ends)) ** 2 / (127 - zeros[2])
    op, graph = _binary("squared_difference", shapes, zip((scale_x, scale_y, scale), zeros, strict=True))
    try:
        _compare(op, graph, {"x": _codes(shapes[0], seed), "y": _codes(shapes[1], seed + 1)})
    except Refusal:
        assert max(scale_x, scale_y) > 40 * min(scale_x, scale_y) or share < 0.1
    form = SquaredDifference((scale_x, scale_y, scale), zeros)
    assert not form.times or form.error <= 0.5


def test_a_tensor_times_itself_is_a_function() -> None:
    op = Op("mul", "m", ("x", "x"), ("z",))
    graph = graph_of(op, activation("x", (1, 50, 50, 3), 0.05, 7), activation("z", (1, 50, 50, 3), 0.2, -100))
    _compare(op, graph, {"x": _codes((1, 50, 50, 3))}, limit=0)


def test_constants_that_repeat_as_a_block_need_no_stream() -> None:
    """As in pose decoders: (1, 17, 2, 1344) + (1, 1, 2, 1344)."""
    c = constant("c", _codes((1, 1, 2, 300)), 0.1, 3)
    op = Op("add", "a", ("x", "c"), ("z",))
    graph = graph_of(op, activation("x", (1, 17, 2, 300), 0.2, 4), c, activation("z", (1, 17, 2, 300), 0.3, 9))
    _compare(op, graph, {"x": _codes((1, 17, 2, 300))}, limit=0)
    plans, context = lower(graph)
    assert not any(buffer.data for buffer in context.buffers.values())
    assert len(plans) == 1


def test_both_inputs_repeat() -> None:
    """As in pose decoders: a grid of constants against a row of values."""
    op = Op("sub", "s", ("c", "x"), ("z",))
    c = constant("c", _codes((12, 12, 1)), 0.1, 3)
    graph = graph_of(op, c, activation("x", (1, 17), 0.2, -5), activation("z", (12, 12, 17), 0.3, 9))
    _compare(op, graph, {"x": _codes((1, 17))})
    two = Op("add", "a", ("x", "y"), ("z",))
    with pytest.raises(Refusal, match="both inputs"):
        lower(
            graph_of(two, activation("x", (1, 4, 1, 3)), activation("y", (1, 1, 5, 3)), activation("z", (1, 4, 5, 3)))
        )


def test_other_types_are_refused() -> None:
    op = Op("add", "a", ("x", "y"), ("z",))
    plain = [Tensor(name, (1, 4), "int32", Quantisation.per_tensor(1.0)) for name in "xyz"]
    with pytest.raises(Refusal, match="int8"):
        lower(graph_of(op, *plain))


def test_zero_rows_do_not_show_the_coefficients_of_the_epoch_before() -> None:
    shape = (1, 3, 4, 16)
    tensors = {name: activation(name, shape) for name in "xyz"}
    tensors["c"] = constant("c", np.linspace(1, 2, 16).astype(np.float32))
    tensors["d"] = constant("d", np.repeat([1.0, 0.0], 8).astype(np.float32))
    graph = Graph(tensors, (Op("mul", "m", ("x", "c"), ("y",)), Op("mul", "n", ("y", "d"), ("z",))), ("x",), ("z",))
    assert not run(graph, {"x": _codes(shape)})["z"][..., 8:].any()


def test_long_sums_run_in_three_chains() -> None:
    _, graph = _binary("add", ((1, 64, 64, 8),) * 3, ((0.1, 0),) * 3)
    (plan,), _ = lower(graph)
    assert sum(name.startswith("ARITH") for name in plan.units) == 3


@given(st.floats(1e-5, 50), st.floats(1e-5, 50), st.floats(-300, 300), st.booleans())
def test_coefficients_of_pairs_fit_and_are_close(gain_x, gain_y, offset, negative) -> None:
    gain_y = -gain_y if negative else gain_y
    pair = fit_pair(gain_x, gain_y, offset)
    assert max(abs(pair.a), abs(pair.b), abs(pair.c)) < 1 << 15
    assert max(pair.shift_a, pair.shift_b, pair.shift_c) < 32 and pair.shift_out <= 26
    assert pair_error(pair, gain_x, gain_y, offset) <= 0.02 + max(gain_x, abs(gain_y)) * 2**-6


def test_repeats() -> None:
    assert repeats((1, 4, 5, 6), (1, 4, 5, 6)) == Repeats(1, 1, 120)
    assert repeats((6,), (1, 4, 5, 6)) == Repeats(1, 20, 6)
    assert repeats((1, 4, 1, 6), (1, 4, 5, 6)) == Repeats(4, 5, 6)
    assert repeats((1, 4, 5, 1), (1, 4, 5, 6)) == Repeats(20, 6, 1)
    assert repeats((1, 1, 5, 1), (1, 4, 5, 6)) is None


def test_scales_beyond_use_are_refused() -> None:
    for scale in (1e30, float("inf"), float("nan")):
        _, graph = _binary("add", ((1, 4),) * 3, ((scale, 0), (0.1, 0), (0.1, 0)))
        with pytest.raises(Refusal, match="SCALES"):
            lower(graph)


@pytest.mark.parametrize("kind", ["add", "mul", "maximum"])
def test_a_constant_for_every_element_of_several_rows(kind: str) -> None:
    """Eight rows as GatherND gives them: the first dimension is not 1."""
    op = Op(kind, kind, ("x", "k"), ("z",), {})
    k = constant("k", _codes((8, 13), 5), 0.03, -7)
    graph = graph_of(op, activation("x", (8, 13), 0.05, 3), k, activation("z", (8, 13), 0.2, -10))
    _compare(op, graph, {"x": _codes((8, 13))})


@pytest.mark.parametrize("scales", [(1.0, 1.0, 1.0), (1.0, 0.5, 1 / 127)])
@pytest.mark.parametrize("zero", [-128, 0])
def test_products_with_a_scale_for_each_part_of_the_constant(scales: tuple[float, ...], zero: int) -> None:
    """Equal scales are one, and the codes are as exact as any. Others would be rounded to 8 bits once more: refused
    where that shows."""
    shape, step = (1, 3, 8, 32), 1 / 255
    weights = constant("w", np.array([1, 2, 127], np.int8).reshape(1, 3, 1, 1), scales, 0, axis=1)
    op = Op("mul", "mul", ("x", "w"), ("y",))
    graph = graph_of(op, activation("x", shape, step, zero), weights, activation("y", shape, step, zero))
    codes = np.tile(np.arange(-128, 128, dtype=np.int8).reshape(1, 1, 8, 32), (1, 3, 1, 1))
    if len(set(scales)) > 1:
        with pytest.raises(Refusal, match="8 bits"):
            run(graph, {"x": codes})
        return
    wanted = evaluate(graph, op, [codes, weights.data])[0].codes
    assert np.array_equal(run(graph, {"x": codes})["y"], wanted)


@pytest.mark.parametrize(("pixels", "channels", "epochs"), [(64, 16, 2), (4, 16, 1), (64, 48, 1)])
def test_a_short_vector_stands_in_a_row_first_where_that_pays(pixels, channels, epochs) -> None:
    """Frames of 16 bytes take 40 cycles each; few of them cost less than another epoch, and long ones nothing more."""
    shapes = ((1, pixels, pixels, channels), (1, 1, 1, channels), (1, pixels, pixels, channels))
    op, graph = _binary("mul", shapes, ((0.05, -3), (0.004, -128), (0.05, -3)))
    values = {"x": _codes(shapes[0]), "y": _codes(shapes[1], 2)}
    _compare(op, graph, values)
    plans, _ = lower(graph)
    assert len(plans) == epochs


@pytest.mark.parametrize("tokens", [64, 101, 197])  # one picture; two, since nothing divides them
@pytest.mark.parametrize(("kind", "zero"), [("sub", 9), ("mul", -128), ("maximum", -3)])
def test_one_value_for_all_channels_is_spread_by_a_convolution(tokens: int, kind: str, zero: int) -> None:
    """As LayerNormalization has them: frames of one element would take an engine a turn each."""
    shapes = ((1, tokens, 48), (1, tokens, 1), (1, tokens, 48))
    op, graph = _binary(kind, shapes, ((0.05, -3), (0.02, zero), (0.05, -3)))
    _compare(op, graph, {"x": _codes(shapes[0]), "y": _codes(shapes[1], 2)})
    plans, _ = lower(graph)
    assert any("CONVACC" in unit for plan in plans for unit in plan.units)


def test_few_values_are_read_as_they_are() -> None:
    _, graph = _binary("sub", ((1, 1, 48), (1, 1, 1), (1, 1, 48)), ((0.05, -3), (0.02, 4), (0.05, -3)))
    plans, _ = lower(graph)
    assert not any("CONVACC" in unit for plan in plans for unit in plan.units)


@pytest.mark.parametrize(("tokens", "tables"), [(1, 0), (64, 1)])
def test_constants_of_a_single_token_are_a_stream(tokens: int, tables: int) -> None:
    """Coefficients of 128 channels are loaded for one turn: that takes longer than to read the constants."""
    gains = constant("y", np.arange(-64, 64).astype(np.int8), 0.02, 3)
    x, z = activation("x", (1, tokens, 128), 0.05, -3), activation("z", (1, tokens, 128), 0.1, 4)
    op = Op("mul", "mul", ("x", "y"), ("z",), {})
    _compare(op, graph_of(op, x, gains, z), {"x": _codes(x.shape)})
    plans, _ = lower(graph_of(op, x, gains, z))
    assert sum(unit.vector_a for plan in plans for unit in plan.units.values() if unit.KIND == "ARITH") == tables


def test_spread_values_lie_in_pictures_that_windows_take() -> None:
    """No value twice, none left out, and no side too short for a window."""
    for values in range(12, 700):
        parts = list(pictures(values))
        assert all(min(height, width) >= 2 for _, height, width in parts)
        ends = [0, *(first + height * width for first, height, width in parts)]
        assert ends[:-1] == [first for first, _, _ in parts] and ends[-1] == values
