"""Single operators through the compiler's own stages: mapped, placed, bound, checked, and run on the emulator.

The operators are canonical already (`pipeline.compile_canonical`), and none of them may go to the CPU: a refusal is
raised with its reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atonc.compiler.compile.pipeline import Compiled, compile_canonical, memories
from atonc.compiler.ir import Graph, Op, Quantisation, Tensor
from atonc.compiler.lower.context import Context
from atonc.compiler.lower.facts import Facts
from atonc.compiler.lower.map_ops import Mapped, map_ops
from atonc.compiler.lower.registry import Refusal
from atonc.compiler.lower.semantics.run import run_mapped
from atonc.compiler.plan.policy import whole_room
from atonc.compiler.plan.types import StepPlan
from atonc.compiler.request.options import Options
from atonc.compiler.schedule import schedule
from atonc.compiler.schedule.assign import assign
from atonc.compiler.verify.emulation import Emulation
from atonc.machine.hw.machine import stm32n6
from atonc.machine.hw.target import Target
from tests.compiler.layer_checks import soil

Array = NDArray[Any]
TARGET = Target(stm32n6())  # of tests that look at forms without a board


def activation(name: str, shape: tuple[int, ...], scale: float = 0.05, zero_point: int = 0) -> Tensor:
    return Tensor(name, shape, "int8", Quantisation.per_tensor(scale, zero_point))


def constant(name: str, data: Array, scale: Any = None, zero_point: int = 0, axis: int | None = None) -> Tensor:
    quant = None
    if scale is not None:
        scales = np.atleast_1d(np.asarray(scale, np.float64))
        quant = Quantisation(scales, np.full(scales.size, zero_point), axis if scales.size > 1 else None)
    return Tensor(name, data.shape, str(data.dtype), quant, data)


def graph_of(op: Op, *tensors: Tensor) -> Graph:
    by_name = {t.name: t for t in tensors}
    inputs = tuple(n for n in op.inputs if n and not by_name[n].is_constant)
    return Graph(by_name, (op,), inputs, op.outputs)


def facts(graph: Graph, numerics: str = "best", cuts: Mapping[str, tuple[int, ...]] | None = None) -> Facts:
    """What recipes know of a network that has all of the chip."""
    return Facts(graph, TARGET, whole_room(TARGET.machine), numerics, cuts=cuts or {})


def lower(graph: Graph, numerics: str = "best") -> tuple[list[StepPlan], Context]:
    mapped = map_ops(facts(graph, numerics))
    _require_npu(mapped)
    return list(assign(schedule(mapped.works))), mapped.context


def run(
    graph: Graph, inputs: Mapping[str, Array], numerics: str = "best", allow_unproven: bool = True
) -> dict[str, Array]:
    """Output codes of a graph whose operators all lower to NPU epochs: bit for bit what the recipes say they mean."""
    return run_compiled(compiled_on_npu(graph, numerics, allow_unproven), inputs)


def compiled_on_npu(graph: Graph, numerics: str = "best", allow_unproven: bool = True) -> Compiled:
    # forms without evidence may run here: that the pipeline refuses them has its own tests
    options = Options(numerics=numerics, verify=False, allow_unproven=allow_unproven)
    compiled = compile_canonical(graph, graph, options, memories(options))
    _require_npu(compiled.mapped)
    bad = [v for v in compiled.findings if v.rule.id != "E01"]
    assert not bad, "\n".join(f"{v.where} {v.rule.id} {v.rule.sentence}: {v.seen}" for v in bad[:6])
    return compiled


def run_compiled(compiled: Compiled, inputs: Mapping[str, Array]) -> dict[str, Array]:
    graph = compiled.graph
    emulation = Emulation(compiled.program, graph)
    soil(emulation)
    outputs = emulation.run(inputs)
    reference = run_mapped(graph, compiled.mapped, inputs)
    for name, got in outputs.items():
        assert np.array_equal(got, reference[name]), f"{name} is not what {graph.producers[name].kind} means"
    return outputs


def _require_npu(mapped: Mapped) -> None:
    for reason in mapped.reason_of.values():
        raise Refusal(reason.rule, reason.seen, reason.limit, reason.remedy)
