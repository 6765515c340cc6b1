"""Passes about number formats: constants, uint8, conversions, clamps, biases, tables."""

from __future__ import annotations

import numpy as np
import pytest

from atonc.compiler.emit.c.cpu_calls import cpu_calls
from atonc.compiler.ops.functions import FUNCTIONS
from atonc.compiler.passes.formats import (
    fuse_formats,
    name_conversions,
    quantise_earlier,
    separate_formats,
    shift_uint8,
    split_formats,
)
from atonc.compiler.passes.layers import fuse_activations, fuse_affine, make_integer_biases, split_leaky
from atonc.compiler.passes.make_tables import make_tables
from atonc.compiler.passes.tidy import drop_identities, fold_constants, merge_constants
from tests.passes.small_graphs import PICTURE, Small, equal_after, kinds


def test_shape_arithmetic_and_constant_operators_are_folded() -> None:
    s = Small()
    x = s.input(PICTURE)
    s.op("shape", [x], s.value("dims", (4,), "int32", None))
    s.op("slice", ["dims"], s.value("first", (1,), "int32", None), starts=(0,), stops=(1,), steps=(1,))
    s.const("row", np.arange(4, dtype=np.int8), 0.05, -3)
    s.op("tile", ["row"], s.value("rows", (8,)))
    s.op("reshape", ["rows"], s.value("picture", (1, 1, 2, 4)))
    s.op("slice", [x], s.value("part", (1, 1, 2, 4)), starts=(0, 0, 0, 0), stops=(1, 1, 2, 4), steps=(1, 1, 1, 1))
    s.op("add", ["part", "picture"], s.value("y", (1, 1, 2, 4), scale=0.1), activation="none")
    graph = equal_after(s.graph("y"), fold_constants)
    assert kinds(graph) == ["slice", "add"]


def test_a_constant_output_stays_an_output() -> None:
    s = Small()
    x = s.input(PICTURE)
    s.const("anchors", np.arange(8, dtype=np.float32))
    s.op("reshape", ["anchors"], s.value("y", (2, 4), "float32"))
    s.op("requantize", [x], s.value("z", PICTURE, scale=0.1))
    graph = equal_after(s.graph("y", "z"), fold_constants)
    assert kinds(graph) == ["identity", "requantize"]


def test_a_constant_output_stays_codes_until_the_end() -> None:
    s = Small()
    s.input(PICTURE)
    s.const("codes", np.arange(8, dtype=np.int8), 0.1, 3)
    s.op("reshape", ["codes"], s.value("c", (2, 4), scale=0.1, zero=3))
    s.op("dequantize", ["c"], s.value("y", (2, 4), "float32"))
    graph = equal_after(s.graph("y"), fold_constants)
    assert kinds(graph) == ["dequantize"] and graph.tensors["c"].is_constant


def test_uint8_is_shifted_and_edges_keep_their_bytes() -> None:
    s = Small()
    x = s.input(PICTURE, dtype="uint8", zero=128)
    s.const("w", s.rng.integers(0, 256, (5, 3, 3, 4)).astype(np.uint8), 0.01, 121)
    window = {"stride": (1, 1), "dilation": (1, 1), "padding": (1, 1, 1, 1), "layout": "NHWC", "groups": 1}
    s.op("conv", [x, "w", s.bias("b", 5)], s.value("h", (1, 6, 6, 5), "uint8", 0.2, 90), activation="relu6", **window)
    s.op("max_pool", ["h"], s.value("y", (1, 3, 3, 5), "uint8", 0.2, 90), window=(2, 2), activation="none",
         **(window | {"stride": (2, 2), "padding": (0, 0, 0, 0)}))  # fmt: skip
    graph = equal_after(s.graph("y", "h"), shift_uint8)
    assert kinds(graph) == ["uint8_to_int8", "conv", "int8_to_uint8", "max_pool", "int8_to_uint8"]
    inner = [graph.tensors[op.outputs[0]] for op in graph.ops if op.kind in ("conv", "max_pool")]
    assert {t.dtype for t in inner} == {"int8"} and graph.tensors["y"].dtype == "uint8"
    assert graph.tensors["w"].dtype == "int8" and graph.tensors["w"].zero_point == -7


def test_a_uint8_input_that_is_only_requantised_by_128_loses_the_requantisation() -> None:
    s = Small()
    x = s.input(PICTURE, dtype="uint8", zero=125)
    s.op("quantize", [x], s.value("h", PICTURE, zero=-3))
    s.op("add", ["h", "h"], s.value("y", PICTURE, scale=0.1), activation="none")
    graph = equal_after(s.graph("y"), lambda g: drop_identities(shift_uint8(name_conversions(g))))
    assert kinds(graph) == ["uint8_to_int8", "add"]


def test_plain_bytes_that_are_cast_are_codes_of_scale_one() -> None:
    s = Small()
    x = s.input(PICTURE, dtype="uint8", scale=None)
    s.op("cast", [x], s.value("real", PICTURE, "float32"))
    s.op("quantize", ["real"], s.value("y", PICTURE, scale=1.0, zero=-128))
    graph = equal_after(s.graph("y"), lambda g: drop_identities(shift_uint8(fuse_formats(name_conversions(g)))))
    assert kinds(graph) == ["uint8_to_int8"]


@pytest.mark.parametrize(("activation", "dtype", "stays"), [
    ("relu", "int8", False), ("tanh", "int8", True), ("relu", "float32", True), ("tanh", "float32", True),
])  # fmt: skip
def test_only_bounds_of_codes_become_clips(activation: str, dtype: str, stays: bool) -> None:
    s = Small()
    x = s.input(PICTURE, dtype=dtype)
    s.op("add", [x, x], s.value("y", PICTURE, dtype), activation=activation)
    (op,) = fuse_activations(s.graph("y")).ops
    assert (op.attrs.get("activation") == activation, "clip" in op.attrs) == (stays, not stays)


@pytest.mark.parametrize("activation", ["relu", "relu6", "relu_n1_to_1", "none"])
def test_fused_activations_become_ranges_of_codes(activation: str) -> None:
    s = Small()
    x = s.input(PICTURE)
    s.value("y", (1, 6, 6, 8), scale=0.03, zero=-128 if activation == "relu6" else -40)
    s.conv(x, "y", 8, activation=activation)
    graph = equal_after(s.graph("y"), fuse_activations)
    assert "activation" not in graph.ops[0].attrs
    assert graph.ops[0].attrs.get("clip") == {"relu": (-40, 127), "relu_n1_to_1": (-73, -7), "relu6": (-128, 72)}.get(
        activation
    )


def test_the_full_range_is_no_clip() -> None:
    s = Small()
    s.conv(s.input(PICTURE), s.value("y", (1, 6, 6, 8), scale=6 / 255, zero=-128), 8, activation="relu6")
    assert "clip" not in equal_after(s.graph("y"), fuse_activations).ops[0].attrs


@pytest.mark.parametrize("middle", ["float32", "int8"])
def test_clamps_that_stand_alone_join_the_operator_before_them(middle: str) -> None:
    s = Small()
    x = s.input(PICTURE)
    s.conv(x, s.value("h", (1, 6, 6, 8), middle, 0.1, -20), 8)
    s.const("six", np.array(100, np.int8), 0.05)
    s.op("minimum", ["h", "six"], s.value("m", (1, 6, 6, 8), middle, 0.1, -20))
    s.op("relu", ["m"], s.value("y", (1, 6, 6, 8), scale=0.1, zero=-20))
    graph = equal_after(s.graph("y"), lambda g: fuse_activations(fuse_activations(g)))
    if middle == "int8":
        assert kinds(graph) == ["conv"] and graph.ops[0].attrs["clip"] == (-20, 30)


def test_a_clamp_to_another_format_is_a_requantisation() -> None:
    s = Small()
    x = s.input(PICTURE)
    s.op("clip", [x], s.value("y", PICTURE, scale=0.02, zero=5), low=-1.0, high=2.0)
    graph = equal_after(s.graph("y"), fuse_activations)
    assert kinds(graph) == ["requantize"] and graph.ops[0].attrs["clip"] == (-45, 105)


def test_a_clamp_with_other_readers_before_it_stays() -> None:
    s = Small()
    x = s.input(PICTURE)
    s.conv(x, s.value("h", (1, 6, 6, 8)), 8)
    s.op("relu", ["h"], s.value("y", (1, 6, 6, 8)))
    graph = equal_after(s.graph("y", "h"), fuse_activations)
    assert kinds(graph) == ["conv", "requantize"]


def test_moving_operators_change_no_format() -> None:
    s = Small()
    x = s.input(PICTURE)
    s.op("requantize", [x], s.value("a", PICTURE, scale=0.1))
    s.op("concat", [x, "a"], s.value("both", (1, 6, 6, 8), scale=0.07), axis=3)
    s.op("max_pool", ["both"], s.value("m", (1, 3, 3, 8), scale=0.09), window=(2, 2), stride=(2, 2),
         padding=(0, 0, 0, 0), layout="NHWC")  # fmt: skip
    s.op("reshape", ["m"], s.value("y", (1, 72), "float32"))
    graph = equal_after(s.graph("y"), separate_formats)
    assert kinds(graph) == ["requantize", "requantize", "requantize", "concat", "max_pool", "requantize", "reshape",
                            "dequantize"]  # fmt: skip


def test_conversions_around_an_operator_vanish() -> None:
    s = Small()
    x = s.input(PICTURE)
    s.op("dequantize", [x], s.value("r", PICTURE, "float32"))
    s.op("tanh", ["r"], s.value("t", PICTURE, "float32"))
    s.op("quantize", ["t"], s.value("y", PICTURE, scale=1 / 128, zero=0))
    assert kinds(equal_after(s.graph("y"), fuse_formats)) == ["tanh"]


def test_float_islands_stand_between_conversions() -> None:
    s = Small()
    x = s.input((1, 8))
    s.op("softmax", [x], s.value("p", (1, 8), "float32"), axis=1, beta=1.0)
    s.const("offset", np.arange(8, dtype=np.int8), 0.01)
    s.op("add", ["p", "offset"], s.value("y", (1, 8), scale=0.01), activation="none")
    graph = equal_after(s.graph("y"), split_formats, within=1)
    assert kinds(graph) == ["dequantize", "softmax", "add", "quantize"]


def test_biases_of_layers_that_write_real_numbers_are_real_too() -> None:
    """They counted in units of the accumulator."""
    s = Small()
    x = s.input(PICTURE)
    s.conv(x, s.value("y", (1, 6, 6, 8), "float32"), 8)
    graph = equal_after(s.graph("y"), split_formats)
    assert kinds(graph) == ["dequantize", "conv"]
    assert all(graph.tensors[name].is_float for name in graph.ops[1].inputs)


def test_islands_of_real_numbers_that_only_move_values_are_quantised_first() -> None:
    """Channels are shuffled: joined, seen as groups, exchanged, seen as channels again."""
    s = Small()
    x, other = s.input(PICTURE), s.input(PICTURE, scale=0.02, zero=9)
    s.op("concat", [x, other], s.value("joined", (1, 6, 6, 8), "float32"), axis=3)
    s.op("reshape", ["joined"], s.value("groups", (1, 6, 6, 2, 4), "float32"))
    s.op("transpose", ["groups"], s.value("turned", (1, 6, 6, 4, 2), "float32"), perm=(0, 1, 2, 4, 3))
    s.op("reshape", ["turned"], s.value("y", (1, 6, 6, 8), scale=0.06, zero=2))
    graph = equal_after(s.graph("y"), lambda g: drop_identities(separate_formats(quantise_earlier(g))))
    assert kinds(graph) == ["requantize", "requantize", "concat", "reshape", "transpose", "reshape"]


@pytest.mark.parametrize("other", ["read", "format", "output"])
def test_real_numbers_that_somebody_wants_stay_real(other: str) -> None:
    s = Small()
    x = s.input(PICTURE)
    s.op("transpose", [x], s.value("turned", (1, 6, 4, 6), "float32"), perm=(0, 1, 3, 2))
    s.op("reshape", ["turned"], s.value("y", (1, 6, 24), scale=0.06, zero=2))
    outputs = ["y"]
    if other == "read":
        s.op("softmax", ["turned"], s.value("p", (1, 6, 4, 6), "float32"), axis=3, beta=1.0)
        outputs.append("p")
    elif other == "format":
        s.op("quantize", ["turned"], s.value("z", (1, 6, 4, 6), scale=0.09, zero=2))
        outputs.append("z")
    else:
        outputs.append("turned")
    graph = equal_after(s.graph(*outputs), quantise_earlier)
    assert graph.tensors["turned"].is_float


def test_leaky_results_are_the_larger_of_two_layers() -> None:
    s = Small()
    x = s.input(PICTURE)
    s.conv(x, s.value("h", (1, 6, 6, 8), "float32"), 8)
    s.op("leaky_relu", ["h"], s.value("y", (1, 6, 6, 8), scale=0.06, zero=-90), alpha=0.1)
    graph = equal_after(s.graph("y"), split_leaky)
    assert kinds(graph) == ["conv", "conv", "maximum"] and not any(t.is_float for t in graph.tensors.values())


@pytest.mark.parametrize(("alpha", "both"), [(0.0, False), (1.5, False), (0.1, True)])
def test_leaky_results_that_stay(alpha: float, both: bool) -> None:
    s = Small()
    x = s.input(PICTURE)
    s.conv(x, s.value("h", (1, 6, 6, 8), "float32"), 8)
    s.op("leaky_relu", ["h"], s.value("y", (1, 6, 6, 8), scale=0.06, zero=-90), alpha=alpha)
    graph = equal_after(s.graph("y", "h") if both else s.graph("y"), split_leaky)
    assert kinds(graph) == ["conv", "leaky_relu"]


# --- gains, offsets, biases ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_batch_norm_goes_into_the_weights(sign: float) -> None:
    s = Small()
    x = s.input(PICTURE)
    s.conv(x, s.value("h", (1, 6, 6, 8), "float32"), 8)
    gain = sign * s.rng.uniform(0.5, 2, 8).astype(np.float32)
    for name, data in (("g", gain), ("o", s.rng.normal(size=8)), ("m", s.rng.normal(size=8)), ("v", np.full(8, 0.7))):
        s.const(name, data.astype(np.float32))
    s.op("batch_norm", ["h", "g", "o", "m", "v"], s.value("n", (1, 6, 6, 8), "float32"), axis=3, epsilon=1e-5)
    s.op("quantize", ["n"], s.value("y", (1, 6, 6, 8), scale=0.1))
    graph = equal_after(s.graph("y"), lambda g: make_integer_biases(fuse_affine(fuse_formats(g))), within=1)
    assert kinds(graph) == ["conv"] and graph.tensors[graph.ops[0].inputs[2]].dtype == "int32"


def test_batch_norm_of_codes_is_affine() -> None:
    s = Small()
    x = s.input((1, 8))
    for name in ("g", "o", "m", "v"):
        s.const(name, s.rng.uniform(0.5, 2, 8).astype(np.float32))
    s.op("batch_norm", [x, "g", "o", "m", "v"], s.value("y", (1, 8), "float32"), axis=1, epsilon=1e-3)
    graph = equal_after(s.graph("y"), lambda g: split_formats(fuse_affine(g)))
    assert kinds(graph) == ["affine"]


def test_products_and_sums_without_rounding_between_them_are_one_affine() -> None:
    s = Small()
    x = s.input(PICTURE)
    s.const("a", np.linspace(0.5, 2, 4, dtype=np.float32))
    s.const("b", np.array(0.25, np.float32))
    s.op("mul", [x, "a"], s.value("h", PICTURE, "float32"))
    s.op("sub", ["b", "h"], s.value("y", PICTURE, scale=0.04))
    assert kinds(equal_after(s.graph("y"), fuse_affine)) == ["affine"]


def test_a_bias_that_is_added_later_goes_into_the_layer() -> None:
    s = Small("onnx")
    x = s.input((1, 16))
    s.op("dense", [x, s.weights("w", 10, 16), ""], s.value("h", (1, 10), "float32"))
    s.const("b", s.rng.normal(size=10).astype(np.float32))
    s.op("add", ["h", "b"], s.value("y", (1, 10), scale=0.1))
    graph = equal_after(s.graph("y"), lambda g: make_integer_biases(fuse_affine(g)), within=1)
    assert kinds(graph) == ["dense"]


def test_quantised_biases_lose_their_scale() -> None:
    s = Small("onnx")
    x = s.input((1, 16), scale=0.05)
    s.const("w", s.rng.integers(-127, 128, (10, 16)).astype(np.int8), 0.01)
    s.const("b", s.rng.integers(-900, 900, 10).astype(np.int32), 0.05 * 0.01)
    s.op("dense", [x, "w", "b"], s.value("y", (1, 10), scale=0.1))
    graph = equal_after(s.graph("y"), make_integer_biases)
    bias = graph.tensors[graph.ops[0].inputs[2]]
    assert bias.quant is None and np.array_equal(bias.data, s.tensors["b"].data)  # type: ignore[arg-type]


# --- tables --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", sorted(set(FUNCTIONS) - {"clip"}))
def test_functions_of_one_value_are_tables(kind: str) -> None:
    s = Small()
    x = s.input(PICTURE)
    s.op(kind, [x], s.value("y", PICTURE, scale=0.03, zero=-20))
    assert kinds(equal_after(s.graph("y"), make_tables)) == ["table"]


@pytest.mark.parametrize("middle", ["int8", "float32"])
def test_silu_written_with_two_operators_is_one_table(middle: str) -> None:
    s = Small()
    x = s.input(PICTURE)
    s.op("logistic", [x], s.value("h", PICTURE, middle, 1 / 256, -128))
    s.op("mul", [x, "h"], s.value("y", PICTURE, scale=0.04), activation="none")
    graph = equal_after(s.graph("y"), make_tables)
    assert kinds(graph) == ["table"] and graph.ops[0].origin == ("logistic_0", "mul_1")


def test_hard_swish_written_with_four_operators_is_one_table() -> None:
    s = Small("onnx")
    x = s.input(PICTURE)
    s.const("three", np.array(3.0, np.float32))
    s.const("six", np.array(1 / 6, np.float32))
    s.op("add", [x, "three"], s.value("a", PICTURE, "float32"))
    s.op("relu6", ["a"], s.value("r", PICTURE, "float32"))
    s.op("mul", ["r", "six"], s.value("g", PICTURE, "float32"))
    s.op("mul", [x, "g"], s.value("y", PICTURE, scale=0.04))
    assert kinds(equal_after(s.graph("y"), make_tables)) == ["table"]


def test_tables_join_with_requantisations_and_other_tables() -> None:
    s = Small()
    x = s.input(PICTURE)
    s.op("requantize", [x], s.value("a", PICTURE, scale=0.1))
    s.op("tanh", ["a"], s.value("b", PICTURE, scale=1 / 128, zero=0))
    s.op("requantize", ["b"], s.value("c", PICTURE, scale=0.02, zero=9))
    s.op("exp", ["c"], s.value("y", PICTURE, scale=0.03, zero=-128))
    assert kinds(equal_after(s.graph("y"), make_tables)) == ["table"]


def test_sums_with_constants_stay_sums_and_vectors_stay_vectors() -> None:
    s = Small()
    x = s.input(PICTURE)
    s.const("c", np.array([[[[5]]]], np.int8), 0.1)
    s.const("v", np.arange(4, dtype=np.int8), 0.1)
    s.op("add", [x, "c"], s.value("a", PICTURE, scale=0.06), activation="none")
    s.op("prelu", ["a", "v"], s.value("y", PICTURE))
    assert kinds(equal_after(s.graph("y"), make_tables)) == ["add", "prelu"]


def test_a_value_that_others_read_is_not_lost_in_a_table() -> None:
    s = Small()
    x = s.input(PICTURE)
    s.op("logistic", [x], s.value("h", PICTURE, scale=1 / 256, zero=-128))
    s.op("mul", [x, "h"], s.value("y", PICTURE, scale=0.04), activation="none")
    graph = equal_after(s.graph("y", "h"), make_tables)
    assert kinds(graph) == ["table", "table"] and {op.inputs for op in graph.ops} == {(x,)}


def test_equal_constants_are_one() -> None:
    s = Small()
    x = s.input(PICTURE)
    for name in ("a", "b", "c"):
        s.const(name, np.arange(4, dtype=np.int8), 0.1 if name != "c" else 0.2)
    s.op("add", [x, "a"], s.value("h", PICTURE), activation="none")
    s.op("add", ["h", "b"], s.value("g", PICTURE), activation="none")
    s.op("add", ["g", "c"], s.value("y", PICTURE), activation="none")
    graph = equal_after(s.graph("y"), merge_constants)
    assert [op.inputs[1] for op in graph.ops] == ["a", "a", "c"] and "b" not in graph.tensors


def test_a_float_function_of_codes_is_looked_up() -> None:
    """Behind the model's own dequantisation: 256 floats instead of an exponential per value, bit for bit."""
    s = Small()
    x = s.input(PICTURE)
    s.op("dequantize", [x], s.value("r", PICTURE, "float32"))
    s.op("logistic", ["r"], s.value("p", PICTURE, "float32"))
    s.const("k", np.array([0.3], np.float32))
    s.op("mul", ["p", "k"], s.value("y", PICTURE, "float32"), activation="none")
    graph = equal_after(s.graph("y"), lambda g: split_formats(make_tables(g)))
    assert kinds(graph) == ["table"] and graph.ops[0].inputs == (x,)
    calls = cpu_calls(graph.ops[0], graph)
    assert [call.function for call in calls] == ["atonc_lookup"]


def test_a_float_function_that_overflows_stays_an_operator() -> None:
    s = Small()
    x = s.input(PICTURE, scale=100.0)
    s.op("dequantize", [x], s.value("r", PICTURE, "float32"))
    with np.errstate(over="ignore"):
        s.op("exp", ["r"], s.value("y", PICTURE, "float32"))
        graph = equal_after(s.graph("y"), make_tables)
    assert kinds(graph) == ["dequantize", "exp"]


@pytest.mark.parametrize("kind", ["mul", "add", "sub", "div"])
@pytest.mark.parametrize("axes", [(), (1,), (4,), (4, 1), (4, 4), (1, 4, 1), (4, 4, 4)])
def test_constants_meet_the_axes_that_they_have(kind: str, axes: tuple[int, ...]) -> None:
    """All axes are as long, so one value of each row would fit where one of each channel is meant."""
    net, shape = Small(), (1, 4, 4, 4)
    x = net.input(shape, dtype="float32")
    for number in (1, 2):
        net.value(f"y{number}", shape, "float32")
        constant = net.const(f"k{number}", net.rng.uniform(0.5, 2, axes).astype(np.float32))
        net.op(kind, [x, constant], f"y{number}")
        x = f"y{number}"
    found = equal_after(net.graph("y2"), fuse_affine)
    assert len(found.ops) == (1 if axes in ((), (1,), (4,)) else 2)
