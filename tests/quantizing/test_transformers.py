"""Transformers: every spelling of a norm is one operator, masks stay within codes, nothing inside stays in float."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnxruntime")

import onnx
from onnx import TensorProto, helper, numpy_helper

from atonc.compiler.ir import Array
from atonc.insight.quantizing.calibrate import calibrate
from atonc.insight.quantizing.graph import WEIGHTED, FloatGraph, layers_of, make_plan, own_constants
from atonc.insight.quantizing.loading import tidy
from atonc.insight.quantizing.observe import outputs
from atonc.insight.quantizing.price import chip_outputs, compiled_model
from atonc.insight.quantizing.run import quantize
from atonc.insight.quantizing.scales import FADED, Tuning, assign
from atonc.insight.quantizing.transformers import LAYER, MASKED, RMS
from atonc.insight.quantizing.types import QuantizeOptions
from atonc.insight.quantizing.write import decoded
from atonc.machine.base.errors import InputError
from tests.quantizing.float_models import Build, save

TOKENS, WIDTH, HEADS = 12, 16, 2


class Block(Build):
    """Names of tensors count up; constants of whole numbers."""

    count = 0

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        self.count += 1
        return self.node(kind, list(inputs), f"t{self.count}", **attributes)

    def value(self, data: Any) -> str:
        self.count += 1
        return self.constant(f"k{self.count}", data)

    def sizes(self, *data: int) -> str:
        self.count += 1
        self.constants.append(numpy_helper.from_array(np.array(data, np.int64), f"k{self.count}"))
        return f"k{self.count}"

    def dense(self, x: str, inputs: int, results: int, bias: bool = True) -> str:
        y = self.op("MatMul", x, self.value(self.random.normal(0, 1.5 / np.sqrt(inputs), (inputs, results))))
        return self.op("Add", y, self.value(self.random.normal(0, 0.2, results))) if bias else y

    def norm(self, x: str, spelling: str) -> str:
        """A gain and an offset for each column, however it is written."""
        gain, offset = self.value(self.random.uniform(0.5, 1.5, WIDTH)), self.value(self.random.normal(0, 0.3, WIDTH))
        epsilon = self.value(1e-5)
        if spelling == LAYER:
            return self.op(LAYER, x, gain, offset, axis=-1, epsilon=1e-5)
        c = x if spelling.startswith("rms") else self.op("Sub", x, self.op("ReduceMean", x, axes=[-1]))
        squares = self.op("Pow", c, self.value(2.0)) if "pow" in spelling else self.op("Mul", c, c)
        root = self.op("Sqrt", self.op("Add", self.op("ReduceMean", squares, axes=[2]), epsilon))
        if "divided" in spelling:
            y = self.op("Mul", self.op("Div", c, root), gain)
        elif "gain first" in spelling:  # as batch norms are folded: x * (g / s) + (b - mean * (g / s))
            factor = self.op("Mul", self.op("Reciprocal", root), gain)
            mean = self.op("Sub", x, c)
            return self.op("Add", self.op("Mul", x, factor), self.op("Sub", offset, self.op("Mul", mean, factor)))
        else:
            y = self.op("Mul", self.op("Mul", c, self.op("Reciprocal", root)), gain)
        return y if spelling.startswith("rms") else self.op("Add", y, offset)

    def attention(self, x: str, mask: Array | None = None) -> str:
        part = WIDTH // HEADS
        q, k, v = (
            self.op("Transpose", self.op("Reshape", self.dense(x, WIDTH, WIDTH), self.sizes(1, TOKENS, HEADS, part)),
                    perm=perm) for perm in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3])
        )  # fmt: skip
        scores = self.op("Div", self.op("MatMul", q, k), self.value(np.sqrt(part)))
        if mask is not None:
            scores = self.op("Add", scores, self.value(mask))
        y = self.op("Transpose", self.op("MatMul", self.op("Softmax", scores, axis=-1), v), perm=[0, 2, 1, 3])
        return self.dense(self.op("Reshape", y, self.sizes(1, TOKENS, WIDTH)), WIDTH, WIDTH)

    def gelu(self, x: str) -> str:
        e = self.op("Erf", self.op("Div", x, self.value(np.sqrt(2))))
        return self.op("Mul", self.op("Mul", x, self.op("Add", e, self.value(1.0))), self.value(0.5))


def transformer(spelling: str, mask: Array | None = None) -> Any:
    b = Block(5)
    x = b.op("Add", "x", b.attention(b.norm("x", spelling), mask))
    y = b.dense(b.gelu(b.dense(b.norm(x, spelling), WIDTH, 2 * WIDTH)), 2 * WIDTH, WIDTH)
    return b.model({"x": (1, TOKENS, WIDTH)}, [b.norm(b.op("Add", x, y), spelling)], opset=17)


def kinds(model: Any) -> Counter[str]:
    return Counter(node.op_type for node in model.graph.node)


def feeds(count: int = 4) -> list[dict[str, Array]]:
    random = np.random.default_rng(1)
    return [{"x": random.normal(0, 1, (1, TOKENS, WIDTH)).astype(np.float32)} for _ in range(count)]


SPELLINGS = {"parts": LAYER, "pow divided": LAYER, "gain first": LAYER, LAYER: LAYER,
             "rms": RMS, "rms pow divided": RMS}  # fmt: skip


@pytest.mark.parametrize(("spelling", "kind"), SPELLINGS.items())
def test_norms_are_one_operator_however_they_are_spelled(spelling: str, kind: str) -> None:
    model = transformer(spelling)
    found = tidy(transformer(spelling), "m")
    assert kinds(found)[kind] == 3 and not {"ReduceMean", "Sqrt", "Reciprocal", "Pow"} & kinds(found).keys()
    for one, other in zip(outputs(model, feeds()), outputs(found, feeds()), strict=True):
        assert np.allclose(one[0], other[0], atol=2e-5)


@pytest.mark.parametrize("change", ["over tokens", "no root", "cubes"])
def test_what_is_no_norm_stays_as_it_is(change: str) -> None:
    b, axis = Block(1), 1 if change == "over tokens" else -1
    c = b.op("Sub", "x", b.op("ReduceMean", "x", axes=[axis]))
    squares = b.op("Mul", c, c) if change != "cubes" else b.op("Mul", c, b.op("Mul", c, c))
    mean = b.op("Add", b.op("ReduceMean", squares, axes=[axis]), b.value(1e-5 if change != "cubes" else 50.0))
    root = b.op("Sqrt", mean) if change != "no root" else mean
    model = b.model({"x": (1, TOKENS, WIDTH)}, [b.dense(b.op("Div", c, root), WIDTH, 4)])
    assert not {LAYER, RMS} & kinds(tidy(model, "m")).keys()


def test_nothing_stays_in_float_between_the_edges() -> None:
    graph = FloatGraph(own_constants(tidy(transformer("pow divided", mask=np.zeros((TOKENS, TOKENS))), "m"), WEIGHTED))
    plan = make_plan(graph)
    assert plan.float_nodes == ()
    inside = {graph.producer[name].op_type for name in plan.tensors if name in graph.producer}
    assert {LAYER, "Softmax", "MatMul", "Gemm", "Add"} <= inside and "Erf" not in inside
    dense = [layer for layer in layers_of(graph) if layer.bias]
    assert len(dense) == 6  # products with their sums


def test_a_softmax_behind_which_nothing_is_multiplied_is_a_tail() -> None:
    b = Block(2)
    model = b.model({"x": (1, TOKENS, WIDTH)}, [b.op("Softmax", b.dense(b.attention("x"), WIDTH, 4), axis=-1)])
    graph = FloatGraph(own_constants(tidy(model, "m"), WEIGHTED))
    assert [graph.producer[output].name for output in graph.outputs] == list(make_plan(graph).float_nodes)


@pytest.mark.parametrize("hidden", [-np.inf, -3e38, -1e4])
def test_masks_leave_the_codes_to_the_scores(hidden: float) -> None:
    mask = np.triu(np.full((TOKENS, TOKENS), hidden, np.float32), 1)
    graph = FloatGraph(own_constants(tidy(transformer("rms", mask), "m"), WEIGHTED))
    assert min(value.min() for value in graph.constants.values() if value.dtype == np.float32) == MASKED
    plan, layers = make_plan(graph), layers_of(graph)
    seen = calibrate(graph, plan.tensors, layers, feeds())
    (scores,) = [node.input[0] for node in graph.nodes if node.op_type == "Softmax"]
    before = seen[next(n for n in graph.producer[scores].input if n in seen)]
    scale = assign(graph, plan, seen, "minmax", Tuning())[scores]
    assert scale.scale * 255 == pytest.approx(max(before.high, 0) - (before.low - FADED), rel=0.05)


def test_a_choice_by_a_constant_is_a_mask() -> None:
    b = Block(3)
    seen = np.tril(np.ones((TOKENS, TOKENS), bool))
    b.constants.append(numpy_helper.from_array(seen, "seen"))
    scores = b.op("MatMul", b.dense("x", WIDTH, WIDTH), b.op("Transpose", b.dense("x", WIDTH, WIDTH), perm=[0, 2, 1]))
    chosen = b.op("Where", "seen", scores, b.value(-np.inf))
    y = b.dense(b.op("MatMul", b.op("Softmax", chosen, axis=-1), "x"), WIDTH, 4)
    model = b.model({"x": (1, TOKENS, WIDTH)}, [y])
    found = tidy(b.model({"x": (1, TOKENS, WIDTH)}, [y]), "m")
    assert "Where" not in kinds(found) and make_plan(FloatGraph(found)).float_nodes == ()
    for one, other in zip(outputs(model, feeds()), outputs(found, feeds()), strict=True):
        assert np.allclose(one[0], other[0], atol=1e-5)


@pytest.mark.parametrize("turned", [{}, {"rotary_embedding_dim": WIDTH // 4}, {"interleaved": 1}])
def test_attention_and_rotations_of_one_node_are_products(turned: dict[str, int]) -> None:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, TOKENS, WIDTH])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    w = [numpy_helper.from_array(np.random.default_rng(k).normal(0, 0.4, (WIDTH, WIDTH)).astype(np.float32), f"w{k}")
         for k in range(3)]  # fmt: skip
    angles = np.outer(np.arange(TOKENS), 0.5 ** np.arange(turned.get("rotary_embedding_dim", WIDTH // 2) // 2))
    given = {
        "cos": np.cos(angles)[None],
        "sin": np.sin(angles)[None],
        "mask": np.triu(np.full((TOKENS, TOKENS), -3), 1),
    }
    w += [numpy_helper.from_array(value.astype(np.float32), name) for name, value in given.items()]
    nodes = [helper.make_node("MatMul", ["x", f"w{k}"], [f"p{k}"]) for k in range(3)]
    nodes.append(helper.make_node("RotaryEmbedding", ["p0", "cos", "sin"], ["r"], num_heads=2, **turned))
    nodes.append(helper.make_node("Attention", ["r", "p1", "p2", "mask"], ["y"], q_num_heads=2, kv_num_heads=2))
    graph = helper.make_graph(nodes, "a", [x], [y], w)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10)
    found = tidy(model, "m")
    assert not {"Attention", "RotaryEmbedding", "Where", "Equal", "Cast"} & kinds(found).keys()
    assert make_plan(FloatGraph(found)).float_nodes == ()
    for one, other in zip(outputs(model, feeds()), outputs(found, feeds()), strict=True):
        assert np.allclose(one[0], other[0], atol=1e-5)


@pytest.mark.parametrize("equation", ["bihd,bjhd->bhij", "bhij, bjhd -> bihd", "bihd,de->ebhi", "bihd,bjhd->bijh"])
def test_an_einsum_is_a_product(equation: str) -> None:
    terms, y = equation.replace(" ", "").split("->")
    sizes = dict(b=1, i=3, j=5, h=2, d=4, e=6)
    given = {name: [sizes[one] for one in term] for name, term in zip("xz", terms.split(","), strict=True)}
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (*given.items(), ("y", None))]
    node = helper.make_node("Einsum", ["x", "z"], ["y"], equation=equation)
    model = helper.make_model(
        helper.make_graph([node], "e", ends[:2], ends[2:]), opset_imports=[helper.make_opsetid("", 17)], ir_version=10
    )
    feed = [{name: np.random.default_rng(0).normal(size=size).astype(np.float32) for name, size in given.items()}]
    expected = outputs(model, feed)[0][0]
    found = tidy(model, "m")
    assert ("MatMul" in kinds(found)) == ("Einsum" not in kinds(found))
    assert np.allclose(outputs(found, feed)[0][0], expected, atol=1e-5) and expected.shape == tuple(
        sizes[one] for one in y
    )


def test_a_quantised_transformer_is_compiled_without_float_operators(tmp_path: Path) -> None:
    mask = np.triu(np.full((TOKENS, TOKENS), -np.inf, np.float32), 1)
    data = tmp_path / "samples.npz"
    np.savez(data, x=np.stack([feed["x"] for feed in feeds(16)]))
    made = quantize(save(tmp_path, transformer("pow divided", mask)), data, QuantizeOptions(objective="accuracy"))
    assert made.chosen.snr_db > 25 and made.float_nodes == ()
    compiled = compiled_model(made.model, "stm32n6570-dk")
    assert not [reason.node for reason in compiled.choices.reasons if reason.rule.id == "CPU-FLOAT"]


def test_sixteen_bits_go_through_norms(tmp_path: Path) -> None:
    """What is added up over the layers keeps its 16 bits into a norm and out of it."""
    data = tmp_path / "samples.npz"
    np.savez(data, x=np.stack([feed["x"] for feed in feeds(16)]))
    model = save(tmp_path, transformer("rms"))
    plain = quantize(model, data, QuantizeOptions(objective="accuracy"))
    wide = quantize(model, data, QuantizeOptions(objective="accuracy", wide=f"{plain.chosen.snr_db + 2:.1f}"))
    (chosen,) = [point for point in wide.widths if point.chosen]
    assert chosen.worst_db >= plain.chosen.snr_db + 1.9  # wide ranges clip some of the eight samples that judge
    stored = FloatGraph(onnx.ModelProto.FromString(wide.model))
    fed = [stored.producer[node.input[0]] for node in stored.nodes if node.op_type == RMS]
    assert any(stored.constants[node.input[2]].dtype == np.int16 for node in fed)
    assert compiled_model(wide.model, "stm32n6570-dk").cost.latency_ms > 0


def test_tokens_pick_rows_of_codes(tmp_path: Path) -> None:
    """The table is int8, with room for rows that no sample picks; a node may be named as what it writes."""
    b = Build(5)
    table = b.random.normal(0, 0.5, (20, WIDTH)).astype(np.float32)
    table[19] *= 4
    b.nodes.append(helper.make_node("Gather", [b.constant("table", table), "token"], ["picked"], "picked"))
    weights, bias = b.constant("w", b.random.normal(0, 0.2, (WIDTH, 8))), b.constant("b", np.zeros(8))
    b.nodes.append(helper.make_node("Gemm", ["picked", weights, bias], ["y"], "y"))
    model = b.model({"token": (1,)}, ["y"], opset=17)
    model.graph.input[0].type.tensor_type.elem_type = TensorProto.INT64
    path, data = save(tmp_path, model), tmp_path / "samples.npz"
    np.savez(data, token=np.arange(19)[:, None] + 0.5)
    with pytest.raises(InputError, match="'token' are not all whole numbers"):
        quantize(path, data, QuantizeOptions(objective="accuracy"))
    np.savez(data, token=np.arange(19)[:, None])
    made = quantize(path, data, QuantizeOptions(objective="accuracy"))
    stored = FloatGraph(onnx.ModelProto.FromString(made.model)).constants
    assert not any("constant" in note for note in made.notes) and "table" not in stored
    assert max(value.size for value in stored.values() if value.dtype == np.float32) < table.shape[1]
    every = [{"token": np.array([k])} for k in range(20)]
    picked = np.array(outputs(onnx.ModelProto.FromString(made.model), every, names=[decoded("picked")]))
    assert np.abs(picked.reshape(table.shape) - table).max() < np.abs(table).max() / 100
    found = np.array(outputs(made.model, every))
    chip = np.array(chip_outputs(compiled_model(made.model, "stm32n6570-dk"), every))
    assert np.abs(chip.reshape(found.shape) - found).max() < 0.02 * np.abs(found).max()
