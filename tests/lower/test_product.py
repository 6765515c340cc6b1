"""Products of two activations on the NPU, with kernels that the CPU or engines (`--schedule-with engine-kernels`) pack:
bit for bit what the recipe says it means, and at most one code from exact arithmetic, for every pair of zero points."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from atonc.compiler.compile.pipeline import Compiled, compile_canonical, compile_graph, memories
from atonc.compiler.frontends.onnx_qdq import read_onnx
from atonc.compiler.frontends.tflite import read_tflite
from atonc.compiler.ir import Graph, Op
from atonc.compiler.lower.product.plan import known, product_of, terms_of
from atonc.compiler.lower.semantics.run import run_mapped
from atonc.compiler.plan.policy import LEAST_PRODUCT
from atonc.compiler.plan.task import Purpose, tasks_of
from atonc.compiler.request.options import Options
from atonc.compiler.verify.emulation import Emulation
from atonc.machine.hw.safety.evidence.epochs import BY_ENGINES as BY_THEM
from tests.compiler.layer_checks import soil
from tests.frontends.onnx_models import Net
from tests.frontends.tflite_models import O, T, build
from tests.lower.harness import activation, graph_of

BY_CPU = Options(verify=False)
BY_ENGINES = Options(verify=False, schedule_with=("engine-kernels",))
both = pytest.mark.parametrize("asked", [BY_CPU, BY_ENGINES], ids=["CPU", "engines"])
Shape = tuple[int, ...]


def product(a: Shape, b: Shape, turned: tuple[bool, bool], zeros: tuple[int, int, int], spread: float = 40.0) -> Graph:
    rows, depth = (a[-1], a[-2]) if turned[0] else (a[-2], a[-1])
    columns = b[-2] if turned[1] else b[-1]
    shape = (*np.broadcast_shapes(a[:-2], b[:-2]), rows, columns)
    op = Op("matmul", "product", ("a", "b"), ("y",), {"transpose_a": turned[0], "transpose_b": turned[1]})
    out = activation("y", shape, 0.02 * 0.03 * depth**0.5 * spread, zeros[2])
    return graph_of(op, activation("a", a, 0.02, zeros[0]), activation("b", b, 0.03, zeros[1]), out)


def exact(graph: Graph, values: dict[str, Any]) -> Any:
    attrs = graph.ops[0].attrs
    a, b = (values[n].astype(np.int64) - graph.tensors[n].zero_point for n in "ab")
    a = a.swapaxes(-1, -2) if attrs["transpose_a"] else a
    b = b.swapaxes(-1, -2) if attrs["transpose_b"] else b
    y = graph.tensors["y"]
    return np.clip(np.floor((a @ b) * (0.02 * 0.03 / y.scale) + y.zero_point + 0.5), -128, 127)


def random_codes(graph: Graph, seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {n: rng.integers(-128, 128, graph.tensors[n].shape).astype(np.int8) for n in graph.inputs}


def check(graph: Graph, values: dict[str, Any], asked: Options, evidence: bool = True) -> Compiled:
    """On the NPU, as meant, near exact arithmetic; with `evidence` in no form that nobody has seen."""
    options = replace(asked, allow_unproven=not evidence)
    compiled = compile_canonical(graph, graph, options, memories(options))
    packed = [] if asked.schedule_with else ["pack_kernels"]
    assert [reason.op for reason in compiled.choices.reasons] == packed
    unseen = {finding.seen for finding in compiled.findings if evidence or finding.rule.id != "E01"}
    assert unseen == ({str(BY_THEM)} if evidence and asked.schedule_with else set())
    emulation = Emulation(compiled.program, compiled.graph)
    soil(emulation)
    got = emulation.run(values)["y"]
    assert np.array_equal(got, run_mapped(compiled.graph, compiled.mapped, values)["y"])
    apart = np.abs(got - exact(graph, values))
    passes = any(
        len(product_of(op, compiled.graph).passes) > 1 for op in compiled.graph.ops if op.kind == "matmul"
    )  # sums of 16 bits return
    assert apart.max() <= 1 and (apart > 0).mean() < (0.15 if passes else 0.05)
    return compiled


CASES = [  # shapes, which are turned, zero points
    ((1, 2, 64, 32), (1, 2, 64, 32), (False, True), (-8, -8, -28)),  # scores of YOLO11n at 256
    ((1, 2, 49, 49), (1, 2, 49, 64), (False, False), (-128, 5, 11)),  # values, at 224
    ((1, 2, 64, 49), (1, 2, 49, 49), (False, True), (5, -128, 11)),  # as models write that
    ((2, 50, 33), (2, 33, 37), (False, False), (0, 0, 0)),
    ((1, 32, 64), (1, 32, 64), (True, False), (7, -128, -128)),
    ((1, 30, 40), (1, 45, 30), (True, True), (-127, 1, 3)),
    ((64, 20), (20, 70), (False, False), (127, 127, 0)),  # fewer channels than units take
    ((3, 40, 40), (40, 40), (False, True), (-128, -128, 5)),  # one factor for all batches
    ((1, 2, 64, 128), (1, 2, 64, 128), (False, True), (3, -3, 0)),  # as many channels as units take
    ((30, 200), (200, 20), (False, False), (-128, -5, 0)),  # two slices of two terms: a chain of four
    ((30, 129), (24, 129), (False, True), (-128, 0, 3)),  # two slices of one term
    ((30, 200), (200, 24), (False, False), (5, 7, 0)),  # two slices of three terms: passes, with frames of the zero
]


@both
@pytest.mark.parametrize(("a", "b", "turned", "zeros"), CASES, ids=range(len(CASES)))
def test_products(a: Shape, b: Shape, turned: tuple[bool, bool], zeros: tuple[int, int, int], asked: Options) -> None:
    graph = product(a, b, turned, zeros)
    check(graph, random_codes(graph), asked)


@pytest.mark.parametrize("zeros", [(-128, -128, 0), (127, 3, -5), (0, 0, 0), (5, -128, 7)])
@pytest.mark.parametrize(
    ("a", "b", "turned"), [((1, 2, 1, 32), (1, 2, 600, 32), (False, True)), ((70, 1), (500, 70), (True, True))]
)
def test_a_row_becomes_the_kernels(a: Shape, b: Shape, turned: tuple[bool, bool], zeros: tuple[int, int, int]) -> None:
    graph = product(a, b, turned, zeros)
    compiled = check(graph, random_codes(graph), BY_CPU)
    (packed,) = (op for op in compiled.graph.ops if op.kind == "pack_kernels")
    assert packed.inputs == ("a",)


def test_compiled_again_is_the_same() -> None:
    """Applications do so, with memories of their own; and kernels that are packed are not packed twice."""
    graph = product((2, 24, 32), (2, 32, 24), (False, False), (3, -5, 7))
    first = compile_canonical(graph, graph, BY_CPU, memories(BY_CPU))
    again = compile_canonical(graph, first.graph, BY_CPU, memories(BY_CPU))
    assert [op.kind for op in again.graph.ops] == ["pack_kernels", "matmul"]
    assert len(again.program.steps) == len(first.program.steps)


def test_a_row_of_deep_sums_stays_on_the_cpu_where_columns_lie_in_a_row() -> None:
    """There no unit sums so much at once and the CPU reads whole vectors; else packing beats gathering."""
    graph = product((1, 200), (300, 200), (False, True), (-128, 3, 0))
    compiled = compile_canonical(graph, graph, BY_CPU, memories(BY_CPU))
    assert [reason.rule.id for reason in compiled.choices.reasons] == ["PRODUCT-ROW"]
    across = product((1, 200), (200, 300), (False, False), (-128, 3, 0))
    check(across, random_codes(across), BY_CPU)


def random_product(seed: int) -> Graph:
    """Any shapes, orders, zero points and batches, large enough for the NPU."""
    rng = np.random.default_rng(seed)
    while True:
        rows, depth, columns = (int(rng.integers(2, high)) for high in (120, 129, 90))
        batch = tuple(int(n) for n in rng.integers(1, 4, rng.integers(0, 3)))
        turned = bool(rng.integers(2)), bool(rng.integers(2))
        if int(np.prod(batch)) * rows * depth * columns < LEAST_PRODUCT:
            continue
        a = (*batch, depth, rows) if turned[0] else (*batch, rows, depth)
        b = (columns, depth) if turned[1] else (depth, columns)
        b = (*batch, *b) if rng.integers(3) else b
        zero_points = [int(z) for z in rng.choice([-128, 0, 127, *rng.integers(-128, 128, 4)], 3)]
        return product(a, b, turned, (zero_points[0], zero_points[1], zero_points[2]))


@pytest.mark.parametrize("seed", range(10))
def test_random_products(seed: int) -> None:
    graph = random_product(seed)
    check(graph, random_codes(graph, seed), BY_ENGINES if seed % 2 else BY_CPU, evidence=False)


@pytest.mark.parametrize("zeros", [(-128, -128, 0), (127, 127, 0), (-128, 127, 0), (127, -128, 0)])
@pytest.mark.parametrize("codes", [(-128, -128), (127, 127), (127, -128)])
def test_largest_sums(zeros: tuple[int, int, int], codes: tuple[int, int]) -> None:
    """Nothing saturates between the units, whatever the zero points and the codes."""
    graph = product((32, 128), (128, 16), (False, False), zeros, spread=40 * 12.0)
    values = {n: np.full(graph.tensors[n].shape, code, np.int8) for n, code in zip("ab", codes, strict=True)}
    check(graph, values, BY_CPU)


def test_terms_are_the_product() -> None:
    rng = np.random.default_rng(1)
    for zero, kernel_zero in [(0, 0), (0, -128), (128, 0), (255, -128), (120, 127), (255, -1)]:
        f, b = rng.integers(0, 256, 50), rng.integers(-128, 128, 50)
        total = known(zero, kernel_zero, 50)
        for of_zero, mask, value in terms_of(zero, kernel_zero):
            total += int(((zero if of_zero else f) * ((b & mask) ^ value)).sum())
            assert abs(value) < 128
        assert total == int(((f - zero) * (b - kernel_zero)).sum())


@pytest.mark.parametrize(
    ("a", "b", "rule"),
    [
        ((4, 8), (8, 4), "PRODUCT-SMALL"),
        ((64, 513), (513, 64), "PRODUCT-DEPTH"),
        ((70, 8, 64), (70, 64, 8), "PRODUCT-SHAPE"),
    ],
)
def test_what_stays_on_the_cpu(a: Shape, b: Shape, rule: str) -> None:
    graph = product(a, b, (False, False), (0, 0, 0))
    compiled = compile_canonical(graph, graph, BY_CPU, memories(BY_CPU))
    assert [reason.rule.id for reason in compiled.choices.reasons] == [rule]


@pytest.mark.parametrize("less", [{"distrust": ("S11",)}, {"silicon": "seen"}, {"schedule_without": ("attention",)}])
def test_only_where_the_argument_is_believed(less: dict[str, Any]) -> None:
    graph = product((64, 64), (64, 64), (False, False), (0, 0, 0))
    plain = replace(BY_CPU, **less)
    compiled = compile_canonical(graph, graph, plain, memories(plain))
    assert [reason.rule.id for reason in compiled.choices.reasons] == ["PRODUCT-UNPROVEN"]


def attention_onnx() -> bytes:
    """Scores, softmax, values: two heads, from three inputs."""
    net = Net()
    q, k, v = (net.qdq(name, 0.05, zero) for name, zero in (("q", 5), ("k", 5), ("v", -7)))
    turned = net.node("Transpose", [k], perm=[0, 1, 3, 2])[0]
    scores = net.qdq(net.node("MatMul", [q, turned])[0], 0.4, -20)
    shares = net.qdq(net.node("Softmax", [scores], axis=-1)[0], 1 / 256, -128)
    y = net.qdq(net.node("MatMul", [shares, v])[0], 0.04, 3)
    return net.model({"q": (1, 2, 36, 32), "k": (1, 2, 36, 32), "v": (1, 2, 36, 48)}, [y])


def attention_tflite() -> bytes:
    """The same with BATCH_MATMUL, whose second factor is turned by an option."""
    q, k = (T(name, (1, 2, 36, 32), "int8", 0.05, 5) for name in "qk")
    v = T("v", (1, 2, 36, 48), "int8", 0.05, -7)
    scores = T("scores", (1, 2, 36, 36), "int8", 0.4, -20)
    shares = T("shares", (1, 2, 36, 36), "int8", 1 / 256, -128)
    y = T("y", (1, 2, 36, 48), "int8", 0.04, 3)
    ops = [
        O("BATCH_MATMUL", ["q", "k"], ["scores"], "BatchMatMulOptions", {1: ("b", 1)}),
        O("SOFTMAX", ["scores"], ["shares"], "SoftmaxOptions", {0: ("f", 1.0)}),
        O("BATCH_MATMUL", ["shares", "v"], ["y"], "BatchMatMulOptions", {}),
    ]
    return build([q, k, v, scores, shares, y], ops, ["q", "k", "v"], ["y"])


@pytest.mark.parametrize("source", [attention_onnx, attention_tflite])
def test_attention_of_model_files(source: Any) -> None:
    read = read_onnx if source is attention_onnx else read_tflite
    compiled = compile_graph(read(source()), Options(schedule_with=("engine-kernels",)))
    assert {reason.op for reason in compiled.choices.reasons} <= {"softmax", "quantize", "dequantize"}
    assert compiled.report is not None and {found.seen for found in compiled.findings} == {str(BY_THEM)}
    packing = [task for work in compiled.mapped.works for task in tasks_of(work.groups) if "kernels of" in task.title]
    assert packing and {task.purpose for task in packing} == {Purpose.KERNELS}
