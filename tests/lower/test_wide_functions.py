"""Functions of 16 bits as lines from tables of bytes: all codes on the emulator, and as near as they declare."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from atonc.compiler.compile.pipeline import compile_graph
from atonc.compiler.ir import Graph, Op, Quantisation, Tensor
from atonc.compiler.lower.map_ops import map_ops
from atonc.compiler.lower.sixteen import functions
from atonc.compiler.lower.sixteen.functions import MOST_ERROR, Halves, lines_of
from atonc.compiler.ops import run_graph
from atonc.compiler.ops.curves import CODES
from atonc.compiler.plan.policy import LEAST_FUNCTION
from atonc.compiler.price.cpu_steps import cpu_step_cost
from atonc.compiler.request.options import Options
from atonc.compiler.verify.emulation import Emulation
from atonc.machine.hw.safety.evidence import PUBLISHED
from tests.lower.harness import compiled_on_npu, facts, graph_of, run_compiled
from tests.lower.test_sixteen import conv_graph

ALL = (1, 64, 64, 16)


def function(kind: str, reach: float, largest: float, elements: tuple[int, ...] = ALL) -> Graph:
    x, y = (
        Tensor(name, elements, "int16", Quantisation.per_tensor(most / 32767, 0))
        for name, most in (("x", reach), ("y", largest))
    )
    return graph_of(Op(kind, "op", ("x",), ("y",), {}, ("op",)), x, y)


def every_code(shape: tuple[int, ...] = ALL) -> dict[str, np.ndarray]:
    return {"x": np.resize(np.random.default_rng(3).permutation(CODES), shape).astype(np.int16)}


@pytest.mark.parametrize(
    ("kind", "reach", "largest", "tables", "stretched"),
    [
        ("silu", 6.0, 6.0, 3, False),
        ("silu", 2.0, 1.8, 3, False),
        ("gelu", 12.0, 12.0, 3, False),
        ("logistic", 8.0, 1.0, 3, False),
        ("logistic", 64.0, 1.0, 3, True),
        ("tanh", 8.0, 1.0, 3, False),
        ("tanh", 6.0, 1.0, 4, False),
        ("tanh", 3.3, 1.0, 4, False),
        ("tanh", 64.0, 1.0, 4, True),
        ("exp", 2.0, 7.4, 3, False),
        ("hard_sigmoid", 5.0, 1.0, 3, False),
        ("silu", 32.0, 10.0, 3, False),
    ],
)
def test_every_code_is_what_it_declares(kind: str, reach: float, largest: float, tables: int, stretched: bool) -> None:
    graph, inputs = function(kind, reach, largest), every_code()
    compiled = compiled_on_npu(graph, allow_unproven=False)
    found = run_compiled(compiled, inputs)["y"].astype(int)  # compares the emulator with what the recipe means
    error = compiled.mapped.context.semantics["op"].error
    assert np.abs(found - run_graph(graph, inputs)["y"]).max() == error <= MOST_ERROR
    units = [unit for plan in compiled.program.steps for unit in plan.plan.units.values()]
    looked_up = {unit.rom1 for unit in units if unit.KIND == "ACTIV"}
    assert len(looked_up) <= tables == len(compiled.program.steps) - 1
    assert (64 not in {unit.a for unit in units if unit.KIND == "ARITH"}) == stretched


def test_published_forms_only() -> None:
    compiled = compile_graph(function("silu", 6.0, 6.0), Options())
    assert not compiled.choices.reasons and not [one for one in compiled.findings if one.rule.id == "E01"]
    assert 0 < compiled.report.worst_layer <= MOST_ERROR


def test_long_tensors_go_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(functions, "FUNCTION_PIECE", 24_000)
    shape = (1, 50, 70, 15)  # whose last piece is odd
    graph, inputs = function("silu", 7.0, 7.0, shape), every_code(shape)
    compiled = compiled_on_npu(graph, allow_unproven=False)
    whole = lines_of(run_graph(function("silu", 7.0, 7.0), {"x": CODES.reshape(ALL).astype(np.int16)})["y"].reshape(-1),
                     PUBLISHED)  # fmt: skip
    np.testing.assert_array_equal(run_compiled(compiled, inputs)["y"], whole.results[inputs["x"].astype(int) + 32768])
    assert len(compiled.program.steps) == 3 * 4


@pytest.mark.parametrize(("kind", "tables"), [("silu", 3), ("tanh", 4)])
def test_the_npu_is_never_the_slower_way(kind: str, tables: int) -> None:
    least = tables * LEAST_FUNCTION // 3
    reach, largest = 6.0, 1.0 if kind == "tanh" else 6.0
    for values in (least, least + 16, 3 * least):
        graph = function(kind, reach, largest, (1, 1, 1, values))
        compiled = compile_graph(graph, Options())
        assert not compiled.choices.reasons
        machine = compiled.target.machine
        by_cpu = cpu_step_cost(graph.ops[0], graph, machine).cpu_cycles
        assert compiled.cost.latency_ms < by_cpu / machine.clocks.cpu_mhz / 1e3
    (reason,) = map_ops(facts(function(kind, reach, largest, (1, 1, 1, least - 1)))).reason_of.values()
    assert reason.rule.id == "WIDE-FEW"


@pytest.mark.parametrize("saturates", [False, True])
def test_a_layer_in_one_pass_reads_what_the_function_stores_without_its_lowest_bits(saturates: bool) -> None:
    """Nothing saturates at the ends of a coarser scale: lines keep away from them."""
    layer = conv_graph(32, 32, 8, 8)
    x = layer.tensors["x"]
    given = Tensor("r", x.shape, "int16", Quantisation.per_tensor(x.scale * (1.4 if saturates else 1.0), 0))
    silu = Op("silu", "silu", ("r",), ("x",), {}, ("silu",))
    graph = replace(layer, tensors={"r": given, **layer.tensors}, ops=(silu, *layer.ops), inputs=("r",))
    compiled = compile_graph(graph, Options())
    assert not compiled.choices.reasons
    step = compiled.mapped.context.coarse["x"].step
    codes = {"r": np.resize(CODES, x.shape).astype(np.int16)}
    found = Emulation(compiled.program, graph).run(codes, observe=True)["x"].astype(int)
    exact = run_graph(replace(graph, ops=(silu,), outputs=("x",)), codes)["x"]
    error = compiled.mapped.context.semantics["silu"].error
    assert np.abs(found - exact).max() <= error <= 1.5 * step + 1
    assert step > 1 and (found % step == 0).all()


def test_what_bends_too_much_stays_on_the_cpu() -> None:
    graph = function("sign", 4.0, 1.0)
    (reason,) = map_ops(facts(graph)).reason_of.values()
    assert reason.rule.id == "WIDE-FUNCTION"
    compiled = compile_graph(graph, Options())
    found = Emulation(compiled.program, compiled.graph).run(every_code())["y"]
    np.testing.assert_array_equal(found, run_graph(compiled.graph, every_code())["y"])


@pytest.mark.parametrize("stretch", [64, 100, 977])
def test_halves_of_a_stretched_code_add_up_to_it(stretch: int) -> None:
    high, low = Halves(stretch)(CODES)
    stretched = CODES * stretch / 64
    inside = np.abs(stretched) < 32_000
    assert np.abs(256 * high + low + 128 - stretched)[inside].max() <= (0 if stretch == 64 else 1)
    assert np.all(np.diff(high) >= 0) and set(high) == set(range(-128, 128))
    beyond = stretched > 33_000
    assert (high[beyond] == 127).all() and (low[beyond] == 127).all()


def test_the_units_may_be_relied_on() -> None:
    exact = run_graph(function("tanh", 6.0, 1.0), {"x": CODES.reshape(ALL).astype(np.int16)})["y"].reshape(-1)
    lines = lines_of(exact, PUBLISHED)
    for table in (lines.slope, *(table for _, table in lines.parts)):
        assert PUBLISHED.allows_all(PUBLISHED.grade_unit(table.config))
    assert np.abs(lines.results.astype(int) - exact).max() == lines.error
