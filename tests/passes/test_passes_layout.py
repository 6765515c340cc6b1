"""Passes about shapes and orders: channels last, transposes, reshapes, pads, dilation, dense layers, edges."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atonc.compiler.ir import Graph
from atonc.compiler.ops import run_graph
from atonc.compiler.passes import PassOptions, run
from atonc.compiler.passes.cuts import cut_outputs
from atonc.compiler.passes.layout import (
    make_channel_last,
    move_transposes,
    permuted,
    reshape_order,
    set_channel_positions,
)
from atonc.compiler.passes.reshapes import lower_packs, move_reshapes, widen_operands
from atonc.compiler.passes.tidy import drop_identities, merge_repeats
from atonc.compiler.passes.windows import (
    fold_pads,
    lift_sequences,
    lower_dense,
    merge_dilation,
    merge_groups,
    name_reductions,
)
from atonc.machine.base.errors import InputError
from tests.passes.small_graphs import PICTURE, Small, equal_after, kinds, random_inputs

FIRST = (1, 4, 6, 5)  # batch, channels, height, width
WINDOW = {"stride": (1, 1), "dilation": (1, 1), "padding": (0, 0, 0, 0), "layout": "NHWC"}


def transposes(graph: Graph) -> int:
    return kinds(graph).count("transpose")


# --- orders --------------------------------------------------------------------------------------------------------

CROSSING = (2, 3, 4, 5)
SHAPES = (
    (1, 4, 6, 5),
    (1, 24, 5),
    (1, 4, 30),
    (1, 120),
    (4, 30),
    (1, 2, 2, 30),
    (1, 4, 1, 30),
    (120, 1, 1),
    (2, 3, 4, 5),
)


@pytest.mark.parametrize("target", SHAPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_reshape_order_says_where_the_bytes_are(shape: tuple[int, ...], target: tuple[int, ...]) -> None:
    values = np.arange(120).reshape(shape)
    for order in permutations(range(len(shape))):
        found = reshape_order(shape, order, target, tuple(range(len(target))))
        stored = values.transpose(order).reshape(-1)
        possible = any(
            np.array_equal(values.reshape(target).transpose(p).reshape(-1), stored)
            for p in permutations(range(len(target)))
        )
        crossing = CROSSING in (shape, target) and shape != target  # then only what is plain is found
        assert (found is not None) == possible or crossing
        if found is not None:
            assert np.array_equal(values.reshape(target).transpose(found).reshape(-1), stored)
            assert permuted(target, found) == values.reshape(target).transpose(found).shape


# --- channels last -------------------------------------------------------------------------------------------------


def test_a_channel_first_network_has_transposes_at_its_edges_only() -> None:
    s = Small("onnx")
    x = s.input(FIRST)
    s.conv(x, s.value("a", (1, 8, 6, 5)), 8, layout="NCHW")
    s.op("leaky_relu", ["a"], s.value("b", (1, 8, 6, 5)), alpha=0.1)
    s.const("slope", s.rng.uniform(0, 1, (8, 1, 1)).astype(np.float32))
    s.op("prelu", ["b", "slope"], s.value("c", (1, 8, 6, 5)))
    s.conv("c", s.value("d", (1, 8, 6, 5)), 8, layout="NCHW", groups=8)
    s.op("add", ["c", "d"], s.value("e", (1, 8, 6, 5), scale=0.1))
    s.op("concat", ["e", "e"], s.value("f", (1, 16, 6, 5), scale=0.1), axis=1)
    s.op("resize_nearest", ["f"], s.value("g", (1, 16, 12, 10), scale=0.1), coordinates="asymmetric", rounding="floor",
         scales=(1.0, 1.0, 2.0, 2.0))  # fmt: skip
    s.op("split", ["g"], [s.value("h", (1, 6, 12, 10), scale=0.1), s.value("i", (1, 10, 12, 10), scale=0.1)], axis=1)
    s.op("pad", ["i"], s.value("j", (1, 10, 13, 10), scale=0.1), pads=((0, 0), (0, 0), (1, 0), (0, 0)))
    s.op("mean", ["h"], s.value("k", (1, 6, 1, 1), scale=0.1), axes=(2, 3), keepdims=True)
    s.op("mean", ["h"], s.value("l", (1, 6), scale=0.1), axes=(2, 3), keepdims=False)
    s.op("softmax", ["j"], s.value("m", (1, 10, 13, 10), scale=1 / 256, zero=-128), axis=1, beta=1.0)
    s.op("arg_max", ["j"], s.value("n", (1, 13, 10), "int64", None), axis=1)
    s.op("slice", ["m"], s.value("o", (1, 10, 6, 10), scale=1 / 256, zero=-128), starts=(None, None, 1, None),
         stops=(None, None, None, None), steps=(1, 1, 2, 1))  # fmt: skip
    graph = equal_after(s.graph("o", "n", "k", "l"), make_channel_last)
    assert transposes(graph) == 2 and kinds(graph).count("reshape") == 1
    assert all(op.attrs.get("layout", "NHWC") == "NHWC" for op in graph.ops)
    assert graph.tensors["e"].shape == (1, 6, 5, 8)


def test_transposes_of_a_detector_head_vanish() -> None:
    s = Small("onnx")
    x = s.input(FIRST)
    s.conv(x, s.value("a", (1, 8, 6, 5)), 8, layout="NCHW")
    s.op("transpose", ["a"], s.value("b", (1, 6, 5, 8)), perm=(0, 2, 3, 1))
    s.op("reshape", ["b"], s.value("c", (1, 60, 4)))
    graph = equal_after(s.graph("c"), make_channel_last)
    assert kinds(graph) == ["transpose", "conv", "reshape"]


def test_anchors_that_are_joined_along_the_positions_need_no_transpose_inside() -> None:
    s = Small("onnx")
    x = s.input(FIRST)
    s.conv(x, s.value("a", (1, 8, 6, 5)), 8, layout="NCHW")
    s.op("reshape", ["a"], s.value("b", (1, 8, 30)))
    s.op("concat", ["b", "b"], s.value("c", (1, 8, 60)), axis=2)
    s.op("split", ["c"], [s.value("d", (1, 4, 60)), s.value("e", (1, 4, 60))], axis=1)
    s.op("reshape", ["d"], s.value("f", (1, 2, 2, 60)))
    s.op("softmax", ["f"], s.value("y", (1, 2, 2, 60), scale=1 / 256, zero=-128), axis=2, beta=1.0)
    graph = equal_after(s.graph("y"), make_channel_last)
    assert transposes(graph) == 2 and graph.tensors["c"].shape == (1, 60, 8)


def test_a_flattened_picture_before_a_dense_layer_moves_into_the_weights() -> None:
    s = Small("onnx")
    x = s.input(FIRST)
    s.conv(x, s.value("a", (1, 8, 6, 5)), 8, layout="NCHW")
    s.op("reshape", ["a"], s.value("b", (1, 240)))
    s.op("dense", ["b", s.weights("w", 10, 240), ""], s.value("y", (1, 10), scale=0.5))
    graph = equal_after(s.graph("y"), run)
    assert kinds(graph) == ["transpose", "conv", "reshape", "dense"]


def test_transposes_inside_a_channel_last_model_vanish() -> None:
    s = Small()
    x = s.input(PICTURE)
    s.conv(x, s.value("a", PICTURE), 4)
    s.op("transpose", ["a"], s.value("b", (1, 4, 6, 6)), perm=(0, 3, 1, 2))
    s.op("pad", ["b"], s.value("c", (1, 4, 8, 8)), pads=((0, 0), (0, 0), (1, 1), (1, 1)), mode="reflect")
    s.op("transpose", ["c"], s.value("d", (1, 8, 8, 4)), perm=(0, 2, 3, 1))
    s.conv("d", s.value("y", (1, 8, 8, 4)), 4)
    assert kinds(equal_after(s.graph("y"), make_channel_last)) == ["conv", "pad", "conv"]


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_random_graphs_of_moves_stay_equal(data: st.DataObject) -> None:
    s = Small("onnx")
    names = [s.input(data.draw(st.permutations((2, 3, 4, 5)).map(tuple)))]
    for step in range(data.draw(st.integers(1, 8))):
        x = data.draw(st.sampled_from(names))
        shape, y = s.tensors[x].shape, f"t{step}"
        rank = len(shape)
        kind = data.draw(st.sampled_from(("transpose", "reshape", "conv", "concat", "tanh", "add", "mean", "softmax")))
        if kind == "transpose":
            perm = tuple(data.draw(st.permutations(range(rank))))
            s.op("transpose", [x], s.value(y, permuted(shape, perm)), perm=perm)
        elif kind == "reshape":
            axis = data.draw(st.integers(0, rank - 1))
            merged = (*shape[:axis], int(np.prod(shape[axis : axis + 2])), *shape[axis + 2 :])
            split = (*shape[:axis], 1, *shape[axis:])
            s.op("reshape", [x], s.value(y, data.draw(st.sampled_from((merged, split))) if rank < 5 else merged))
        elif kind == "conv" and rank == 4:
            layout = data.draw(st.sampled_from(("NCHW", "NHWC")))
            made = (shape[0], 3, *shape[2:]) if layout == "NCHW" else (*shape[:3], 3)
            s.conv(x, s.value(y, made, scale=0.2), 3, 1, layout=layout)
        elif kind == "concat":
            axis = data.draw(st.integers(0, rank - 1))
            s.op("concat", [x, x], s.value(y, (*shape[:axis], 2 * shape[axis], *shape[axis + 1 :])), axis=axis)
        elif kind == "add":
            other = data.draw(st.sampled_from([n for n in names if s.tensors[n].shape == shape]))
            s.op("add", [x, other], s.value(y, shape, scale=0.1))
        elif kind == "mean":
            axis = data.draw(st.integers(0, rank - 1))
            s.op("mean", [x], s.value(y, (*shape[:axis], 1, *shape[axis + 1 :])), axes=(axis,), keepdims=True)
        elif kind == "softmax":
            s.op("softmax", [x], s.value(y, shape, scale=1 / 256, zero=-128), axis=data.draw(st.integers(0, rank - 1)))
        else:
            s.op("tanh", [x], s.value(y, shape, scale=1 / 128, zero=0))
        if s.tensors[y].elements > 4000:
            break
        names.append(y)
    outputs = names[-2:] if len(names) > 2 else names[-1:]
    graph = s.graph(*[name for name in outputs if name not in s.inputs] or [names[-1]])
    if graph.ops:
        equal_after(graph, make_channel_last)
        equal_after(graph, run)


# --- reshapes and pads ---------------------------------------------------------------------------------------------


def test_sequences_are_pictures_of_height_one() -> None:
    s = Small("onnx")
    x = s.input((1, 4, 12))
    window = {"stride": (1, 1), "dilation": (1, 2), "padding": (0, 2, 0, 2), "layout": "NCHW", "groups": 1}
    s.op("conv", [x, s.weights("w", 4, 1, 3, 4), ""], s.value("a", (1, 4, 12)), **window)
    s.op("add", ["a", x], s.value("b", (1, 4, 12), scale=0.1))
    s.op("conv", ["b", s.weights("v", 4, 1, 3, 4), ""], s.value("y", (1, 4, 12)), **window)
    graph = equal_after(s.graph("y"), lambda g: move_reshapes(lift_sequences(make_channel_last(g))))
    assert all(len(graph.tensors[op.inputs[0]].shape) == 4 for op in graph.ops if op.kind in ("conv", "add"))
    tidy = drop_identities(merge_repeats(graph))
    assert kinds(tidy) == ["transpose", "reshape", "conv", "add", "conv", "reshape", "transpose"]


def test_reshapes_cancel_around_elementwise_operators() -> None:
    s = Small()
    x = s.input(PICTURE)
    s.op("reshape", [x], s.value("a", (1, 36, 4)))
    s.const("v", np.arange(4, dtype=np.int8).reshape(1, 1, 4), 0.1)
    s.op("mul", ["a", "v"], s.value("b", (1, 36, 4), scale=0.1), activation="none")
    s.op("reshape", ["b"], s.value("c", PICTURE, scale=0.1))
    s.op("tanh", ["c"], s.value("y", PICTURE, scale=1 / 128, zero=0))
    assert kinds(equal_after(s.graph("y"), lambda g: drop_identities(move_reshapes(g)))) == ["mul", "tanh"]


@pytest.mark.parametrize(("kind", "zero", "folds"), [
    ("conv", -3, True), ("max_pool", -128, True), ("max_pool", -3, False), ("average_pool", -3, True),
])  # fmt: skip
def test_pads_of_zeros_go_into_the_window(kind: str, zero: int, folds: bool) -> None:
    s = Small()
    x = s.input(PICTURE, zero=zero)
    pads = ((0, 0), (1, 2), (0, 1), (0, 0))
    s.op("pad", [x], s.value("p", (1, 9, 7, 4), zero=zero), pads=pads, mode="constant")
    if kind == "conv":
        s.conv("p", s.value("y", (1, 7, 5, 8)), 8, padding=(0, 0, 0, 0))
    else:
        s.op(kind, ["p"], s.value("y", (1, 7, 5, 4), zero=zero), window=(3, 3), **WINDOW)
    graph = equal_after(s.graph("y"), fold_pads)
    assert kinds(graph) == ([kind] if folds else ["pad", kind])
    assert not folds or graph.ops[0].attrs["padding"] == (1, 0, 2, 1)


def test_pads_of_channels_and_of_other_values_stay() -> None:
    s = Small()
    x = s.input(PICTURE)
    s.op("pad", [x], s.value("p", (1, 7, 6, 4)), pads=((0, 0), (1, 0), (0, 0), (0, 0)), mode="constant", value=1.0)
    s.op("pad", ["p"], s.value("q", (1, 7, 6, 6)), pads=((0, 0), (0, 0), (0, 0), (0, 2)), mode="constant")
    s.conv("q", s.value("y", (1, 7, 6, 8)), 8)
    assert kinds(equal_after(s.graph("y"), fold_pads)) == ["pad", "pad", "conv"]


@pytest.mark.parametrize("crops", [((0, 1), (0, 0)), ((1, 0), (0, 1))])
def test_space_to_batch_around_a_convolution_is_dilation(crops: tuple[tuple[int, int], ...]) -> None:
    s = Small()
    x = s.input((1, 7, 8, 4))
    pads = ((2, 3), (2, 2))
    s.op("space_to_batch", [x], s.value("a", (4, 6, 6, 4)), blocks=(2, 2), pads=pads)
    s.conv("a", s.value("b", (4, 4, 4, 8)), 8, padding=(0, 0, 0, 0))
    made = (1, 8 - sum(crops[0]), 8 - sum(crops[1]), 8)
    s.op("batch_to_space", ["b"], s.value("y", made), blocks=(2, 2), crops=crops)
    graph = equal_after(s.graph("y"), merge_dilation)
    assert kinds(graph) == ["conv"] and graph.ops[0].attrs["dilation"] == (2, 2)


def split_convs(outputs: int = 2, **last: object) -> Graph:
    """Four parts of two channels, each with a convolution of its own; `last`: what differs in one of them."""
    s = Small()
    x = s.input((1, 6, 5, 8))
    parts = [s.value(f"p{k}", (1, 6, 5, 2)) for k in range(4)]
    s.op("split", [x], parts, axis=3)
    for k, part in enumerate(parts):
        kind = {"scale": 0.4, "zero": 9, **(last if k == 3 else {})}
        s.conv(part, s.value(f"c{k}", (1, 6, 5, outputs), **kind), outputs)  # type: ignore[arg-type]
    s.op("concat", [f"c{k}" for k in range(4)], s.value("y", (1, 6, 5, 4 * outputs), scale=0.4, zero=9), axis=3)
    return s.graph("y")


@pytest.mark.parametrize("outputs", [1, 2, 3])
def test_convolutions_of_the_parts_of_a_split_are_groups(outputs: int) -> None:
    graph = equal_after(split_convs(outputs), merge_groups)
    assert kinds(graph) == ["conv"] and graph.ops[0].attrs["groups"] == 4


def test_parts_in_another_format_or_order_stay_apart() -> None:
    assert "concat" in kinds(merge_groups(split_convs(scale=0.3)))
    graph = split_convs()
    turned = tuple(replace(op, inputs=op.inputs[::-1]) if op.kind == "concat" else op for op in graph.ops)
    assert "concat" in kinds(merge_groups(replace(graph, ops=turned)))
    read_twice = replace(graph, outputs=("y", "c1"))
    assert "concat" in kinds(merge_groups(read_twice))


def test_dense_layers_see_one_row() -> None:
    s = Small()
    x = s.input((1, 3, 2, 8))
    s.op("dense", [x, s.weights("w", 5, 8), s.bias("b", 5)], s.value("a", (1, 3, 2, 5)), activation="none")
    s.op("dense", ["a", s.weights("v", 7, 30), ""], s.value("y", (1, 7)), activation="none")
    graph = equal_after(s.graph("y"), lambda g: drop_identities(lower_dense(g)))
    assert [k for k in kinds(graph) if k != "reshape"] == ["conv", "dense"]
    assert all(graph.tensors[op.inputs[0]].shape[0] == 1 for op in graph.ops)


def test_a_product_with_a_constant_matrix_is_dense() -> None:
    s = Small()
    x = s.input((1, 8))
    s.const("m", s.rng.integers(-127, 128, (8, 6)).astype(np.int8), 0.01)
    s.op("matmul", [x, "m"], s.value("y", (1, 6)))
    assert kinds(equal_after(s.graph("y"), lower_dense)) == ["dense"]


def test_packs_gathers_and_slices_in_plain_terms() -> None:
    s = Small()
    x = s.input((4, 6))
    s.op("unpack", [x], [s.value(f"u{i}", (6,)) for i in range(4)], axis=0)
    s.op("pack", ["u3", "u0"], s.value("p", (6, 2)), axis=1)
    s.const("i", np.array([1, 3, 5]))
    s.op("gather", ["p", "i"], s.value("g", (3, 2)), axis=0)
    s.const("j", np.array(-1))
    s.op("gather", ["p", "j"], s.value("h", (2,)), axis=0)
    s.op("slice", [x], s.value("k", (4,)), starts=(None, -1), stops=(None, None), steps=(1, 1))
    graph = equal_after(s.graph("g", "h", "k"), lower_packs)
    assert set(kinds(graph)) == {"split", "reshape", "concat", "slice"}
    assert all(isinstance(v, int) for op in graph.ops if op.kind == "slice" for v in op.attrs["stops"])


def test_averages_and_maxima_over_the_picture() -> None:
    s = Small()
    x = s.input(PICTURE)
    s.op("average_pool", [x], s.value("a", (1, 1, 1, 4)), window=(6, 6), **WINDOW)
    s.op("reduce_max", [x], s.value("b", (1, 4)), axes=(1, 2), keepdims=False)
    graph = equal_after(s.graph("a", "b"), name_reductions)
    assert kinds(graph) == ["mean", "max_pool", "reshape"]


def test_transposes_at_the_outputs_move_codes() -> None:
    s = Small("onnx")
    x = s.input(FIRST)
    s.op("dequantize", [x], s.value("r", FIRST, "float32"))
    s.op("logistic", ["r"], s.value("s", FIRST, "float32"))
    s.op("transpose", ["s"], s.value("y", (1, 6, 5, 4), "float32"), perm=(0, 2, 3, 1))
    assert kinds(equal_after(s.graph("y"), move_transposes)) == ["transpose", "dequantize", "logistic"]


# --- edges ---------------------------------------------------------------------------------------------------------


def network() -> Graph:
    s = Small("onnx")
    x = s.input(FIRST, dtype="float32")
    s.op("quantize", [x], s.value("q", FIRST))
    s.conv("q", s.value("a", (1, 8, 6, 5)), 8, layout="NCHW")
    s.op("dequantize", ["a"], s.value("y", (1, 8, 6, 5), "float32"))
    return s.graph("y")


def test_channel_positions_at_the_edges() -> None:
    plain = run(network())
    turned = set_channel_positions(plain, "chlast", "chlast")
    assert transposes(plain) == 2 and transposes(turned) == 0
    assert not plain.turned and turned.turned == {"x0": (0, 2, 3, 1), "y": (0, 2, 3, 1)}
    assert set(set_channel_positions(plain, "chfirst", "chlast").turned) == {"y"}
    x = random_inputs(plain)["x0"]
    first, last = run_graph(plain, {"x0": x}), run_graph(turned, {"x0": x.transpose(0, 2, 3, 1)})
    np.testing.assert_array_equal(first["y"].transpose(0, 2, 3, 1), last["y"])
    back = set_channel_positions(turned, "chfirst", "chfirst")
    np.testing.assert_array_equal(run_graph(back, {"x0": x})["y"], first["y"])


@pytest.mark.parametrize("dtype", ["int8", "uint8", "float32"])
def test_types_at_the_edges(dtype: str) -> None:
    plain = run(network())
    graph = run(network(), PassOptions(input_type=dtype, output_type=dtype))
    assert graph.tensors["x0"].dtype == graph.tensors["y"].dtype == dtype
    assert (graph.inputs, graph.outputs) == (("x0",), ("y",))
    codes = np.random.default_rng(0).integers(-128, 128, FIRST)
    real = (codes + 3) * 0.05
    given_codes = {"int8": codes, "uint8": codes + 128, "float32": real}[dtype]
    expected, found = run_graph(plain, {"x0": real})["y"], run_graph(graph, {"x0": given_codes})["y"].astype(float)
    zero = {"int8": -3, "uint8": 125}.get(dtype)
    np.testing.assert_allclose(expected, found if zero is None else (found - zero) * 0.05, atol=1e-9)


def test_unknown_types_and_positions_are_refused() -> None:
    with pytest.raises(InputError, match="int4"):
        run(network(), PassOptions(input_type="int4"))
    with pytest.raises(InputError, match="left"):
        run(network(), PassOptions(inputs_channel_position="left"))


def test_cutting_at_a_tensor_or_an_operator() -> None:
    graph = network()
    for name in ("a", "conv_1"):
        cut = cut_outputs(graph, (name,))
        assert cut.outputs == ("a",) and kinds(cut) == ["quantize", "conv"]
    with pytest.raises(InputError, match="did you mean 'conv_1'"):
        cut_outputs(graph, ("conv_2",))


def test_identities_vanish_also_at_the_outputs() -> None:
    s = Small()
    x = s.input(PICTURE)
    s.op("reshape", [x], s.value("a", PICTURE))
    s.conv("a", s.value("b", PICTURE), 4)
    s.op("identity", ["b"], s.value("c", PICTURE))
    s.op("reshape", ["c"], s.value("y", (1, 144)))
    s.op("transpose", ["b"], s.value("z", PICTURE), perm=(0, 1, 2, 3))
    graph = equal_after(s.graph("y", "z"), drop_identities)
    assert kinds(graph) == ["conv", "reshape"]


def test_an_input_that_is_an_output_stays() -> None:
    s = Small()
    x = s.input(PICTURE)
    s.op("identity", [x], s.value("y", PICTURE))
    assert kinds(equal_after(s.graph("y"), run)) == ["requantize"]


@pytest.mark.parametrize(("shape", "wanted"), [
    ((1, 1, 5, 1), (1, 1, 5, 4)), ((5, 1), (1, 1, 5, 4)), ((1, 7, 1, 1), None), ((1, 1, 1, 4), None),
    ((1, 7, 1, 4), None), ((1, 1, 5, 4), None), ((1, 1, 1, 1), None), ((4,), None), ((1, 7, 5, 4), None),
])  # fmt: skip
def test_operands_repeat_along_one_group_of_dimensions(shape: tuple[int, ...], wanted: tuple[int, ...] | None) -> None:
    s = Small()
    x, other = s.input((1, 7, 5, 4)), s.input(shape, scale=0.02, zero=9)
    s.op("mul", [x, other], s.value("y", (1, 7, 5, 4), scale=0.03, zero=2))
    graph = equal_after(s.graph("y"), widen_operands)
    assert kinds(graph) == (["mul"] if wanted is None else ["expand", "mul"])
    assert wanted is None or graph.tensors[graph.ops[0].outputs[0]].shape == wanted


def test_slices_of_parts_and_of_slices_are_slices_of_the_whole() -> None:
    """As of a state that mixed kernels read: the last rows of some channels."""
    s = Small()
    x = s.input((1, 9, 1, 8))
    for name, channels in (("low", 3), ("high", 5)):
        s.value(name, (1, 9, 1, channels))
    s.op("split", [x], ["low", "high"], axis=-1)
    for y, source, shape, starts, stops, steps in (
        ("rows", "high", (1, 4, 1, 5), (0, 5, 0, 0), (1, 9, 1, 5), (1, 1, 1, 1)),
        ("odd", "rows", (1, 2, 1, 2), (0, 1, 0, 1), (1, 4, 1, 5), (1, 2, 1, 2)),
        ("last", "odd", (1, 1, 1, 2), (0, 1, 0, 0), (1, 2, 1, 2), (1, 1, 1, 1)),
        ("back", "low", (1, 9, 1, 3), (0, 8, 0, 0), (1, -10, 1, 3), (1, -1, 1, 1)),
    ):
        s.value(y, shape)
        s.op("slice", [source], y, starts=starts, stops=stops, steps=steps)
    graph = equal_after(s.graph("rows", "last", "back"), drop_identities)
    reads = {op.outputs[0]: op.inputs[0] for op in graph.ops if op.kind == "slice"}
    assert (reads["rows"], reads["last"], reads["back"]) == (x, x, "low")  # backwards: left alone


def test_parts_that_are_joined_again_are_the_whole() -> None:
    """As blocks of detectors do it; parts in another order, or not all of them, stay parts."""
    s = Small()
    x = s.input((1, 4, 4, 8))
    for name, channels in (("low", 3), ("high", 5)):
        s.value(name, (1, 4, 4, channels))
    s.op("split", [x], ["low", "high"], axis=-1)
    for y, parts, channels in (("block", ["low", "high", "high"], 13), ("turned", ["high", "low"], 8)):
        s.value(y, (1, 4, 4, channels))
        s.op("concat", parts, y, axis=-1)
    graph = equal_after(s.graph("block", "turned"), drop_identities)
    assert [op.inputs for op in graph.ops if op.kind == "concat"] == [(x, "high"), ("high", "low")]
