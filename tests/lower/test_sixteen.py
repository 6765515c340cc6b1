"""Operators on codes of 16 bits: on the emulator what they mean, bit for bit, and as near to exact arithmetic as they
declare."""

from __future__ import annotations

from dataclasses import replace
from math import ceil

import numpy as np
import pytest

from atonc.compiler.compile.pipeline import compile_graph
from atonc.compiler.ir import Graph, Op, Quantisation, Tensor
from atonc.compiler.lower import map_ops as mapping
from atonc.compiler.lower.context import Context
from atonc.compiler.lower.conv.kernel_parts import met_together
from atonc.compiler.lower.conv.requantise import WHOLE_FORMAT, Accumulated
from atonc.compiler.lower.conv.wide_results import AS_CODES, MOST_SHIFT, wide_rules
from atonc.compiler.lower.map_ops import Mapped, map_ops
from atonc.compiler.lower.registry import Refusal, recipe_for
from atonc.compiler.lower.semantics import run
from atonc.compiler.lower.semantics.arithmetic import limited, shifted
from atonc.compiler.lower.semantics.run import mapped_op
from atonc.compiler.lower.semantics.sums import requantised
from atonc.compiler.lower.sixteen.streams import HIGHEST, LOWEST, WideSum, never_negative
from atonc.compiler.lower.sixteen.sums import TWO_PASSES, UNSIGNED, PairOfHalves, TwoHalves
from atonc.compiler.ops import run_graph
from atonc.compiler.ops.curves import MOST_ERROR, curve_of, through
from atonc.compiler.passes.make_tables import make_tables
from atonc.compiler.plan.policy import MOST_CODES, WIDE_STEP
from atonc.compiler.request.options import Options
from atonc.compiler.schedule.passes import ONE_PASS
from atonc.compiler.select.form import RefusedForm
from atonc.compiler.select.rules import COARSE
from atonc.compiler.verify.emulation import Emulation
from atonc.insight.evaluating.engine import Engine, npu_kernel
from atonc.machine.hw.safety.evidence import PUBLISHED
from atonc.machine.hw.units import arith
from tests.compiler.wide_networks import random_network
from tests.lower.harness import compiled_on_npu, constant, facts, graph_of, run_compiled

SHAPE = (1, 6, 10, 16)
RELU = {"clip": (0, 32767)}
WINDOW = {"window": (2, 2), "stride": (2, 2), "padding": (0, 0, 0, 0), "layout": "NHWC"}


def wide(name: str, shape: tuple[int, ...] = SHAPE, scale: float = 1e-4, zero: int = 0) -> Tensor:
    return Tensor(name, shape, "int16", Quantisation.per_tensor(scale, zero))


def narrow(name: str, scale: float = 0.03, zero: int = -7) -> Tensor:
    return Tensor(name, SHAPE, "int8", Quantisation.per_tensor(scale, zero))


def conv_graph(
    height=10, width=12, channels=8, outputs=8, kernel=(3, 3), stride=(1, 1), padding=(1, 1, 1, 1), groups=1, clip=None,
    largest_bias=200_000, zero=0,
):  # fmt: skip
    rng = np.random.default_rng(0)
    weights = rng.integers(-127, 128, (outputs, *kernel, channels // groups)).astype(np.int8)
    scales = rng.uniform(0.002, 0.004, outputs)
    bias = rng.integers(-largest_bias, largest_bias, outputs).astype(np.int32)
    top, left, bottom, right = padding
    out = ((height + top + bottom - kernel[0]) // stride[0] + 1, (width + left + right - kernel[1]) // stride[1] + 1)
    scale = np.sqrt(kernel[0] * kernel[1] * channels / groups) * 60 * 18_000 * 0.003 * 0.0001 / 12_000
    attrs = {"stride": stride, "dilation": (1, 1), "padding": padding, "groups": groups, "layout": "NHWC"}
    return graph_of(
        Op("conv", "op", ("x", "w", "b"), ("y",), attrs | ({"clip": clip} if clip else {})),
        wide("x", (1, height, width, channels), zero=zero),
        constant("w", weights, scales, axis=0),
        constant("b", bias),
        wide("y", (1, *out, outputs), scale),
    )


def elementwise(kind: str, *tensors: Tensor, **attrs: object) -> Graph:
    *inputs, out = tensors
    return graph_of(Op(kind, "op", tuple(t.name for t in inputs), (out.name,), attrs), *tensors)


def random_codes(graph: Graph) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    found = {}
    for name in graph.inputs:
        tensor = graph.tensors[name]
        codes = rng.integers(*tensor.code_range, tensor.shape, endpoint=True)
        codes.reshape(-1)[:4] = [*tensor.code_range, 0, -1]
        found[name] = codes.astype(tensor.dtype)
    return found


def on_npu(graph: Graph) -> Mapped:
    mapped = map_ops(facts(graph))
    assert not mapped.reason_of, mapped.reason_of
    return mapped


def check(graph: Graph, exact: bool = False) -> None:
    """`run_compiled` compares the emulator with what the recipe says that it computes."""
    compiled, inputs = compiled_on_npu(graph), random_codes(graph)
    (name,) = graph.outputs
    found, exact_codes = run_compiled(compiled, inputs)[name], run_graph(graph, inputs)[name]
    difference = np.abs(found.astype(int) - exact_codes.astype(int))
    meaning = compiled.mapped.context.semantics.get("op")
    declared = meaning.error if meaning else 0.0
    assert difference.max() <= (0 if exact else max(1, ceil(declared))), (difference.max(), declared)
    assert declared <= MOST_CODES * WIDE_STEP


CONVOLUTIONS = {
    "3x3": {},
    "3x3 with ReLU": {"clip": (0, 32767)},
    "3x3 with a clip below the end": {"clip": (-1000, 30001)},
    "3x3 stride 2": {"height": 12, "channels": 16, "stride": (2, 2), "padding": (0, 0, 1, 1)},
    "3x3 valid, many taps": {"channels": 16, "padding": (0, 0, 0, 0)},
    "1x1": {"channels": 16, "outputs": 24, "kernel": (1, 1), "padding": (0, 0, 0, 0)},
    "1x1 with an upper limit": {"channels": 16, "kernel": (1, 1), "padding": (0, 0, 0, 0), "clip": (LOWEST, 9_001)},
    "1x1 with large biases": {"channels": 16, "kernel": (1, 1), "padding": (0, 0, 0, 0), "largest_bias": 8_000_000},
    "1x1 stride 3": {"channels": 32, "outputs": 4, "kernel": (1, 1), "padding": (0, 0, 0, 0), "stride": (3, 3)},
    "groups, no multiple of the channels": {"channels": 8, "outputs": 12, "groups": 4},
    "1x1 groups": {"channels": 48, "outputs": 16, "kernel": (1, 1), "padding": (0, 0, 0, 0), "groups": 4},
    "depthwise": {"channels": 24, "outputs": 24, "groups": 24},
    "depthwise stride 2": {"channels": 8, "groups": 8, "stride": (2, 2), "padding": (0, 0, 1, 1), "height": 12},
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions(name: str) -> None:
    check(conv_graph(**CONVOLUTIONS[name]))


def transposed_graph(height=1, width=5, channels=16, outputs=8, kernel=(3, 4), stride=(1, 2), dtype="int16"):
    rng = np.random.default_rng(2)
    weights = rng.integers(-127, 128, (outputs, *kernel, channels)).astype(np.int8)
    out = tuple((n - 1) * step + k for n, step, k in zip((height, width), stride, kernel, strict=True))
    attrs = {"stride": stride, "dilation": (1, 1), "padding": (0, 0, 0, 0), "layout": "NHWC"}
    largest = 1e-4 * 18_000 * 0.003 * 70 * np.sqrt(2 * channels) * 3
    x, y = wide("x", (1, height, width, channels)), wide("y", (1, *out, outputs), largest / HIGHEST)
    if dtype == "int8":
        x = Tensor("x", x.shape, "int8", Quantisation.per_tensor(0.02, -5))
        y = Tensor("y", y.shape, "int8", Quantisation.per_tensor(largest / 60, 3))
    bias = constant("b", rng.integers(-20_000, 20_000, outputs).astype(np.int32))
    scales = rng.uniform(0.002, 0.004, outputs)
    op = Op("transpose_conv", "op", ("x", "w", "b"), ("y",), attrs)
    return graph_of(op, x, constant("w", weights, scales, axis=0), bias, y)


TRANSPOSED = {
    "one row": {},
    "one row, every second one of the output": {"kernel": (4, 4), "stride": (2, 2), "width": 40},
    "two rows": {"height": 2, "width": 9},
    "one place": {"width": 1, "stride": (2, 3)},
    "more taps than a chain": {"height": 3, "width": 2, "kernel": (5, 5), "stride": (1, 1)},
    "bytes": {"dtype": "int8"},
}


@pytest.mark.parametrize("name", TRANSPOSED)
def test_transposed_convolutions_of_pictures_smaller_than_their_kernels(name: str) -> None:
    check(transposed_graph(**TRANSPOSED[name]))


def test_an_output_of_a_transposed_convolution_sums_few_taps() -> None:
    weights = np.arange(12, dtype=np.int16).reshape(1, 3, 4, 1)
    met = [sorted(kernel.ravel().tolist()) for kernel in met_together(weights, (1, 2), (1, 5))]
    assert met == [[8, 10], [9, 11], [4, 6], [5, 7], [0, 2], [1, 3]]
    (everything,) = met_together(weights, (1, 1), (9, 9))
    assert sorted(everything.ravel()) == list(range(12))


FORMS = {
    "1x1": PairOfHalves,
    "1x1 with an upper limit": PairOfHalves,
    "depthwise": PairOfHalves,
    "3x3 valid, many taps": TwoHalves,
}


@pytest.mark.parametrize("name", FORMS)
def test_one_epoch_for_both_halves_where_one_unit_holds_the_channels(name: str) -> None:
    mapped = map_ops(replace(facts(conv_graph(**CONVOLUTIONS[name])), without=frozenset({ONE_PASS})))
    meaning = mapped.context.semantics["op"]
    assert isinstance(meaning.codes, FORMS[name])
    assert mapped.forms["op"].error == meaning.error / WIDE_STEP, "forms are compared in codes of 8 bits"


def test_dense_layer() -> None:
    rng = np.random.default_rng(3)
    weights = rng.integers(-127, 128, (10, 64)).astype(np.int8)
    op = Op("dense", "op", ("x", "w"), ("y",))
    check(graph_of(op, wide("x", (1, 64)), constant("w", weights, 0.003), wide("y", (1, 10), 3e-4)))


def prelu(slopes: np.ndarray, scale: float = 1e-4) -> Graph:
    codes = constant("s", np.rint(slopes * 127).astype(np.int8), 1 / 127)
    return graph_of(Op("prelu", "op", ("x", "s"), ("z",)), wide("x"), codes, wide("z", scale=scale))


UNIT = 1 / 32768
CONSTANT = constant("c", np.random.default_rng(2).integers(-127, 128, (1, 1, 1, 16)).astype(np.int8), 0.02)
ELEMENTWISE = {
    "add": lambda: elementwise("add", wide("x"), wide("y", scale=3e-4), wide("z", scale=2.5e-4)),
    "add, ReLU": lambda: elementwise("add", wide("x"), wide("y", scale=3e-4), wide("z", scale=2.5e-4), **RELU),
    "add, channels": lambda: elementwise("add", wide("x"), wide("y", (1, 1, 1, 16), 3e-4), wide("z", scale=2.5e-4)),
    "add, a constant": lambda: elementwise("add", wide("x"), CONSTANT, wide("z", scale=2.5e-4), **RELU),
    "sub, a constant": lambda: elementwise("sub", wide("x"), CONSTANT, wide("z", scale=0.8e-4)),
    "sub, from a constant": lambda: elementwise("sub", CONSTANT, wide("x"), wide("z", scale=2.5e-4)),
    "sub": lambda: elementwise("sub", wide("x", scale=5e-4), wide("y", scale=3e-4), wide("z", scale=2.5e-4)),
    "mul": lambda: elementwise("mul", wide("x", scale=UNIT), wide("y", scale=UNIT), wide("z", scale=UNIT)),
    "mul, fine": lambda: elementwise("mul", wide("x", scale=UNIT), wide("y", scale=UNIT), wide("z", scale=UNIT / 12)),
    "mul, ReLU": lambda: elementwise("mul", wide("x"), wide("y", scale=UNIT), wide("z", scale=3e-4), **RELU),
    "requantize": lambda: elementwise("requantize", wide("x"), wide("z", scale=1.7e-4), **RELU),
    "to int8": lambda: elementwise("requantize", wide("x"), narrow("z")),
    "from int8": lambda: elementwise("requantize", narrow("x"), wide("z")),
    "mean": lambda: elementwise("mean", wide("x"), wide("z", (1, 16), 0.3e-4), axes=(1, 2)),
    "average": lambda: elementwise("average_pool", wide("x"), wide("z", (1, 3, 5, 16), 0.8e-4), **WINDOW),
    "hard-swish": lambda: elementwise("hard_swish", wide("x", scale=3e-4), wide("z", scale=2e-4)),
    "hard-swish, clipped": lambda: elementwise("hard_swish", wide("x", scale=6e-4), wide("z", scale=3e-4), **RELU),
    "leaky ReLU": lambda: elementwise("leaky_relu", wide("x"), wide("z"), alpha=0.3),
    "leaky ReLU, finer": lambda: elementwise("leaky_relu", wide("x"), wide("z", scale=0.3e-4), alpha=0.2),
    "PReLU": lambda: prelu(np.linspace(0, 1, 16)),
    "PReLU, finer": lambda: prelu(np.linspace(0.05, 0.3, 16), scale=0.3e-4),
    "PReLU, one slope": lambda: prelu(np.array([0.25])),
}  # fmt: skip
EXACT = {
    "add, one scale": lambda: elementwise("add", wide("x"), wide("y"), wide("z")),
    "sub, one scale": lambda: elementwise("sub", wide("x"), wide("y"), wide("z"), **RELU),
    "maximum": lambda: elementwise("maximum", wide("x"), wide("y"), wide("z")),
    "maximum, channels": lambda: elementwise("maximum", wide("x"), wide("y", (1, 1, 1, 16)), wide("z")),
    "minimum": lambda: elementwise("minimum", wide("x"), wide("y"), wide("z")),
    "ReLU": lambda: elementwise("requantize", wide("x"), wide("z"), **RELU),
    "max pool": lambda: elementwise("max_pool", wide("x"), wide("z", (1, 3, 5, 16)), **WINDOW),
    "max pool, padded": lambda: elementwise(
        "max_pool", wide("x"), wide("z"), window=(3, 3), stride=(1, 1), padding=(1, 1, 1, 1), layout="NHWC"
    ),
    "max pool, padded, stride 2": lambda: elementwise(
        "max_pool",
        wide("x"),
        wide("z", (1, 3, 5, 16)),
        window=(3, 3),
        stride=(2, 2),
        padding=(0, 1, 1, 0),
        layout="NHWC",
    ),
    "concat": lambda: elementwise("concat", wide("x"), wide("y"), wide("z", (1, 6, 10, 32)), axis=3),
    "pad": lambda: elementwise(
        "pad", wide("x"), wide("z", (1, 8, 12, 16)), pads=((0, 0), (1, 1), (1, 1), (0, 0)), mode="constant", value=0.0
    ),
    "transpose": lambda: elementwise("transpose", wide("x"), wide("z", (1, 16, 6, 10)), perm=(0, 3, 1, 2)),
}


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_operators_within_what_they_declare(name: str) -> None:
    check(ELEMENTWISE[name]())


@pytest.mark.parametrize("name", [*ELEMENTWISE, *EXACT])
def test_kernels_for_data_sets_give_the_same(name: str) -> None:
    graph = (ELEMENTWISE | EXACT)[name]()
    context, inputs, (op,) = on_npu(graph).context, random_codes(graph), graph.ops
    values = inputs | {name: tensor.data for name, tensor in graph.tensors.items() if tensor.data is not None}
    (found,) = npu_kernel(context, op)([values[n] if n not in inputs else values[n][None] for n in op.inputs])
    (meant,) = mapped_op(context, op, values)
    np.testing.assert_array_equal(found[0], meant)


@pytest.mark.parametrize("name", EXACT)
def test_operators_that_round_nothing(name: str) -> None:
    check(EXACT[name](), exact=True)


def test_a_mean_keeps_to_divisors_that_were_seen() -> None:
    """2^20 / 33 pixels is more than any published POOL multiplies by."""
    graph = elementwise("mean", wide("x", (1, 3, 11, 16)), wide("z", (1, 16), 0.3e-4), axes=(1, 2))
    compiled = compile_graph(graph, Options(silicon="seen"))
    assert not compiled.choices.reasons
    assert compiled.report is not None and all(one.max_diff <= one.limit for one in compiled.report.checks)


def test_halves_hold_every_code() -> None:
    """All 65,536 numbers through the two units that split them."""
    from atonc.compiler.lower.sixteen import streams

    codes = np.arange(LOWEST, HIGHEST + 1).astype(np.int16)
    high = arith.execute(streams._HIGH, codes, None)
    low = arith.execute(streams._LOW, codes, high)
    assert high.dtype == low.dtype == np.int8
    np.testing.assert_array_equal(256 * high.astype(int) + low + 128, codes)


@pytest.mark.parametrize("clip", [(LOWEST, HIGHEST), (0, HIGHEST), (LOWEST, 12_345), (-1000, 30_001), (16, 39)])
def test_saturation_clips_like_a_clip(clip: tuple[int, int]) -> None:
    total = WideSum(2, 1, *clip)
    x, y = (np.random.default_rng(k).integers(LOWEST, HIGHEST, 4000) for k in range(2))
    stream = arith.execute(total.units()[0], x.astype(np.int16), y.astype(np.int16))
    for unit in total.units()[1:]:
        stream = arith.execute(unit, stream, None)
    np.testing.assert_array_equal(stream, np.clip(2 * x + y, *clip))
    np.testing.assert_array_equal(total(x, y), stream)


def test_rules_of_wide_results_are_as_exact_as_they_say() -> None:
    rng = np.random.default_rng(5)
    scale, offset = rng.uniform(0.1, 0.4, 12), rng.uniform(-40_000, 40_000, 12)
    acc = Accumulated(scale, offset, np.full(12, 80_000.0), offset, 1, 65536.0)
    (rule,) = wide_rules(acc, AS_CODES, [12], WHOLE_FORMAT)
    sums = rng.integers(-60_000, 60_000, (500, 12))
    exact = np.clip(np.rint(sums * scale + offset), LOWEST, HIGHEST)
    inside = np.abs(sums * scale) < HIGHEST - 2  # before the bias
    found = requantised(rule, limited(shifted(sums, rule.out_shift), 16))
    assert np.abs(found - exact)[inside].max() <= rule.error * WIDE_STEP + 1
    assert rule.shift <= MOST_SHIFT and rule.ariths(12) == 2
    assert all(PUBLISHED.allows_all(PUBLISHED.grade_unit(unit)) for unit in rule.units(0, 12, 4, 100))


@pytest.mark.parametrize("name", ["add", "hard-swish", "leaky ReLU"])
def test_one_unit_scales_and_adds_where_that_may_be_relied_on(name: str) -> None:
    """Both ways are verified on the emulator."""
    graph = ELEMENTWISE[name]()
    one, scaled_first = (compile_graph(graph, Options(distrust=without)) for without in ((), ("S6",)))
    assert one.cost.latency_ms < scaled_first.cost.latency_ms
    errors = [compiled.mapped.context.semantics["op"].error for compiled in (one, scaled_first)]
    assert not one.choices.reasons and not scaled_first.choices.reasons and errors[0] < errors[1]


REFUSED = {
    "a slope beyond 1": (lambda: prelu(np.linspace(0.5, 2, 16)), "WIDE-LEAKY"),
    "a zero point": (lambda: conv_graph(zero=3), "WIDE-CODES"),
    "an odd clip inside": (lambda: conv_graph(clip=(0, 20_000)), "WIDE-CLIP"),
    "a dilated pool": (
        lambda: elementwise("max_pool", wide("x"), wide("z", (1, 2, 4, 16)), **WINDOW | {"dilation": (2, 2)}),
        "WIDE-POOLS",
    ),
    "a function": (lambda: elementwise("tanh", wide("x"), wide("z", scale=UNIT)), "WIDE-FEW"),
    "scales beyond use": (lambda: elementwise("requantize", wide("x", scale=10.0), wide("z", scale=1e-9)), "SCALES"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_form_says_why(name: str) -> None:
    make, rule = REFUSED[name]
    (reason,) = map_ops(facts(make())).reason_of.values()
    assert reason.rule.id == rule
    assert reason.seen and reason.limit and reason.remedy


def test_numbers_behind_a_relu_are_never_negative() -> None:
    graph = random_network(0).graph("int16")
    first = graph.ops[0]
    assert never_negative(first.outputs[0], graph) and not never_negative("x", graph)
    context = Context(facts(graph))
    for op in (first, next(op for op in graph.ops if op.inputs[0] == first.outputs[0])):  # and none is tried on them
        lowest = min(int(values[op.inputs[0]].min()) for values in run._looked_at(context, op))
        assert (lowest >= 0) == (op is not first)


@pytest.mark.parametrize(("size", "channels", "stride", "signed"), [(16, 32, 2, True), (24, 24, 1, False)])
def test_high_bytes_are_read_with_a_sign_where_that_costs_less(
    size: int, channels: int, stride: int, signed: bool
) -> None:
    """Without one, a window with stride 2 on deep features reads its weights four times."""
    graph = conv_graph(size, size, channels, 64, stride=(stride, stride))
    relu = Op("requantize", "relu", ("r",), ("x",), RELU, ("relu",))
    given = wide("r", graph.tensors["x"].shape)
    graph = replace(graph, tensors={"r": given, **graph.tensors}, ops=(relu, *graph.ops), inputs=("r",))
    form = on_npu(graph).forms["op"]
    chosen, other = (TWO_PASSES, UNSIGNED) if signed else (UNSIGNED, TWO_PASSES)
    (beaten,) = (one.form for one in form.alternatives if (one.chosen, one.variant) == (chosen, other))
    assert beaten is not None and form.cost < 0.9 * beaten.cost


def test_means_of_what_is_never_negative_may_be() -> None:
    """Their halves are rounded apart: read without a sign, a code of -1 would be one of 65,535."""
    op = Op("requantize", "relu", ("x",), ("y",), RELU)
    mean = Op("mean", "op", ("y",), ("z",), {"axes": (1, 2)})
    tensors = {t.name: t for t in (wide("x"), wide("y"), wide("z", (1, 16), 0.3e-4))}
    graph = Graph(tensors, (op, mean), ("x",), ("z",))
    assert never_negative("y", graph) and not never_negative("z", graph)


def test_what_is_too_coarse_counts_codes_of_16_bits_and_names_a_limit_that_does() -> None:
    graph = conv_graph(channels=16, padding=(0, 0, 0, 0))
    *_, out = graph.tensors.values()
    fine = Tensor(out.name, out.shape, "int16", Quantisation.per_tensor(out.scale / 12, 0))
    graph = Graph(graph.tensors | {out.name: fine}, graph.ops, graph.inputs, graph.outputs)
    (reason,) = map_ops(facts(graph)).reason_of.values()
    assert reason.rule.id == "COARSE" and reason.limit == f"{MOST_CODES * WIDE_STEP:g} LSB (int16)"
    allowed = float(reason.remedy.split()[-1])
    assert allowed > MOST_CODES
    assert not map_ops(replace(facts(graph), coarse=allowed)).reason_of


@pytest.fixture(scope="module")
def network():
    return compile_graph(random_network(3).graph("int16"), Options())


def test_a_network_runs_on_the_npu_alone(network) -> None:
    """Every layer verified on the emulator, with published forms only."""
    assert not network.choices.reasons
    assert not [one for one in network.findings if one.rule.id == "E01"]
    assert 0 < network.report.worst_layer <= MOST_CODES * WIDE_STEP


def test_engine_and_emulator_agree(network) -> None:
    graph = network.graph
    inputs = [np.random.default_rng(k).integers(-20_000, 20_000, graph.tensors["x"].shape) for k in range(2)]
    found = Engine(network).run({"x": np.stack(inputs).astype(np.int16)}, observe=True)
    emulation = Emulation(network.program, graph)
    for number, codes in enumerate(inputs):
        for name, value in emulation.run({"x": codes.astype(np.int16)}, observe=True).items():
            np.testing.assert_array_equal(found[name][number].reshape(value.shape), value, err_msg=name)


@pytest.mark.parametrize(("codes", "fine"), [(2.0, True), (64.0, True), (256.0, True), (257.0, False)])
def test_a_form_is_shown_to_be_fine_in_steps_of_its_format(
    codes: float, fine: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One code of 8 bits in many values; what it declares is not more than that."""
    graph = conv_graph()
    op, context = graph.ops[0], Context(facts(graph))
    context.buffer(op.inputs[0])
    monkeypatch.setattr(mapping, "farthest", lambda *_: codes)
    recipe, refused = recipe_for(op.kind, True), RefusedForm(COARSE, "", "", "")
    assert recipe is not None
    if fine:
        assert mapping._shown_fine(op, recipe, refused, context)
        assert context.semantics[op.name].error <= 256
    else:
        with pytest.raises(Refusal):
            mapping._shown_fine(op, recipe, refused, context)


def on_the_cpu(graph: Graph) -> dict[str, np.ndarray]:
    """Compiled and run; verification and the kernels for data sets have their say."""
    compiled, inputs = compile_graph(graph, Options()), random_codes(graph)
    found = Emulation(compiled.program, compiled.graph).run(inputs)
    by_engine = Engine(compiled).run({name: codes[None] for name, codes in inputs.items()})
    for name, codes in found.items():
        np.testing.assert_array_equal(by_engine[name][0].reshape(codes.shape), codes)
    return {**inputs, **found}


@pytest.mark.parametrize("kind", ["logistic", "tanh"])
def test_functions_of_the_cpu_are_lines_between_few_codes(kind: str) -> None:
    graph = elementwise(kind, wide("x", scale=8 / 32768), wide("y", scale=UNIT))
    found, curve = on_the_cpu(graph), curve_of(graph.ops[0], graph)
    assert curve is not None
    np.testing.assert_array_equal(found["y"], curve(found["x"]))
    exact = run_graph(graph, {"x": found["x"]})["y"]
    assert 0 < np.abs(found["y"].astype(int) - exact).max() <= curve.error <= MOST_ERROR


def test_lines_go_on_where_results_meet_an_end_of_the_format() -> None:
    """Half of SiLU's outputs lie beyond the format: a line for 128 codes holds both sides of the bend."""
    codes = np.arange(-(1 << 15), 1 << 15)
    silu = codes / (1 + np.exp(-codes * 8 / 32768)) * 2
    curve = through(np.clip(np.rint(silu), -(1 << 15), (1 << 15) - 1).astype(np.int64))
    assert curve is not None and curve.bits >= 7 and curve(codes)[-1] == (1 << 15) - 1


def test_a_function_in_parts_is_walked_once() -> None:
    """SiLU as exporters write it: exact arithmetic keeps the rounding in between."""
    sigmoid = Op("logistic", "s", ("x",), ("s",), {}, ("s",))
    graph = graph_of(
        sigmoid, wide("x", scale=8 / 32768), wide("s", scale=UNIT), wide("y", scale=8 / 32768),
    )  # fmt: skip
    product = Op("mul", "op", ("x", "s"), ("y",), {}, ("op",))
    graph = replace(graph, ops=(sigmoid, product), outputs=("y",))
    joined = make_tables(graph)
    assert [op.kind for op in joined.ops][-1] == "table"
    codes = {"x": np.arange(-(1 << 15), 1 << 15, 1 << 16 - 10)[: wide("x").elements].astype(np.int16)}
    codes["x"] = np.resize(codes["x"], SHAPE)
    np.testing.assert_array_equal(run_graph(joined, codes)["y"], run_graph(graph, codes)["y"])
    assert [op.kind for op in compile_graph(graph, Options()).graph.ops] == ["table"]


def test_products_of_one_tensor_stay_on_the_npu() -> None:
    on_npu(make_tables(elementwise("mul", wide("x"), wide("x"), wide("z", scale=4e-4))))


def test_what_bends_too_much_has_no_lines() -> None:
    steps = elementwise("exp", wide("x", scale=256 / 32768), wide("y", scale=1.0))
    assert curve_of(steps.ops[0], steps) is None
