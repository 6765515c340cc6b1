"""Convolutions that stay on the NPU with `--silicon seen`, in windows and walks of published programs only."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from atonc.compiler.compile.pipeline import compile_graph
from atonc.compiler.ir import Graph, Op
from atonc.compiler.lower.conv.chains import as_seen
from atonc.compiler.lower.semantics.run import run_mapped
from atonc.compiler.plan.types import EpochPlan
from atonc.compiler.request.options import Options
from atonc.compiler.verify.emulation import Emulation
from atonc.machine.hw.fields import changed
from atonc.machine.hw.safety import mode_keys
from atonc.machine.hw.safety.evidence import Grade
from atonc.machine.hw.units.convacc import ConvaccConfig
from tests.compiler.layer_checks import soil
from tests.compiler.random_graphs import random_inputs
from tests.lower.harness import activation, constant, graph_of, lower

ALLOWED = (Grade.SEEN, Grade.ONCE, Grade.WITHIN)
Size = tuple[int, int]


def conv(
    size: Size, channels: int, outputs: int, kernel: Size, padding: tuple[int, ...] = (0, 0, 0, 0), **changes: Any
) -> Graph:
    """`groups`, `stride`, `dilation`, `zero` as named."""
    rng = np.random.default_rng(1)
    zero, groups = changes.pop("zero", -128), changes.pop("groups", 1)
    attrs = {"stride": (1, 1), "dilation": (1, 1), "layout": "NHWC", "padding": padding, "groups": groups, **changes}
    around = [padding[0] + padding[2], padding[1] + padding[3]]
    axes = zip(size, around, kernel, attrs["dilation"], attrs["stride"], strict=True)
    rows, columns = ((n + p - (k - 1) * d - 1) // s + 1 for n, p, k, d, s in axes)
    weights = rng.integers(-127, 128, (outputs, *kernel, channels // groups)).astype(np.int8)
    scales = rng.uniform(0.002, 0.004, outputs) / np.sqrt(weights[0].size)
    return graph_of(
        Op("conv", "conv", ("x", "w", "b"), ("y",), attrs),
        activation("x", (1, *size, channels), 0.02, zero),
        constant("w", weights, scales, axis=0),
        constant("b", rng.integers(-2000, 2000, outputs).astype(np.int32)),
        activation("y", (1, rows, columns, outputs), 0.05, -20),
    )


def transposed() -> Graph:
    rng = np.random.default_rng(2)
    attrs = {"stride": (2, 2), "dilation": (1, 1), "padding": (0, 0, 0, 0), "groups": 1, "layout": "NHWC"}
    return graph_of(
        Op("transpose_conv", "transposed", ("x", "w", "b"), ("y",), attrs),
        activation("x", (1, 8, 8, 8), 0.02, -128),
        constant("w", rng.integers(-127, 128, (8, 2, 2, 8)).astype(np.int8), rng.uniform(0.001, 0.002, 8), axis=0),
        constant("b", rng.integers(-2000, 2000, 8).astype(np.int32)),
        activation("y", (1, 16, 16, 8), 0.05, -20),
    )


CASES = {
    "transposed": transposed(),
    "5x5 channel by channel on many columns": conv((8, 100), 8, 8, (5, 5), (2, 2, 2, 2), groups=8),
    "with a dilation": conv((12, 12), 8, 8, (3, 3), (2, 2, 2, 2), groups=8, dilation=(2, 2)),
    "with a larger one and a zero point": conv((10, 10), 8, 8, (3, 3), (4, 4, 4, 4), groups=8, dilation=(4, 4), zero=9),
    "without padding": conv((12, 14), 3, 8, (3, 3)),
    "without padding on many channels": conv((12, 14), 12, 8, (3, 3), zero=-5),
    "9x9 without padding": conv((14, 16), 8, 4, (9, 9)),
    "9x9 on more channels than a window holds": conv((14, 16), 12, 3, (9, 9)),
    "a high kernel with a stride": conv((25, 10), 1, 8, (10, 4), (4, 1, 5, 1), stride=(2, 2), zero=83),
    "1x1 with a stride": conv((12, 12), 16, 8, (1, 1), stride=(2, 2)),
    "a stride above eight channels": conv((12, 12), 16, 8, (3, 3), (0, 0, 1, 1), stride=(2, 2)),
    "more rows than units were seen with": conv((200, 32), 16, 1, (1, 1)),
}


@pytest.mark.parametrize("graph", CASES.values(), ids=CASES.keys())
def test_a_convolution_stays_on_the_npu(graph: Graph) -> None:
    compiled = compile_graph(graph, Options(silicon="seen"))
    assert not compiled.choices.reasons, compiled.choices.reasons[0]
    assert compiled.grades and all(epoch.grade in ALLOWED for epoch in compiled.grades)
    assert compiled.report is not None and compiled.report.outputs[0].within1_percent == 100
    emulation, inputs = Emulation(compiled.program, compiled.graph), random_inputs(graph, 3)
    soil(emulation)
    reference = run_mapped(compiled.graph, compiled.mapped, inputs)
    assert np.array_equal(emulation.run(inputs)["y"], reference["y"])


@pytest.mark.parametrize("seen", (0, 1))
def test_a_unit_takes_the_raw_flag_that_it_was_seen_with(seen: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever it had before; without either of them there is no such unit."""
    plans, _ = lower(conv((12, 12), 8, 8, (3, 3), (1, 1, 1, 1)))
    units = [unit for plan in plans if isinstance(plan, EpochPlan) for unit in plan.units.values()]
    unit = next(one for one in units if isinstance(one, ConvaccConfig))
    known = mode_keys.mode_key(changed(unit, raw_out=seen))
    monkeypatch.setattr(mode_keys, "proven_modes", lambda kind: {known: None})
    found = [as_seen(changed(unit, raw_out=before)) for before in (0, 1)]
    assert found == [changed(unit, raw_out=seen)] * 2
    monkeypatch.setattr(mode_keys, "proven_modes", lambda kind: {})
    assert as_seen(unit) is None
