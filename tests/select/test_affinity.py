"""--on cpu and --on npu: nodes run where the user wants, or the answer says why not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import atonc
from atonc.compiler.compare.inputs import make_inputs
from atonc.compiler.plan.types import CpuPlan
from atonc.doors.cli.cli import main
from atonc.machine.base.errors import InputError, UnsupportedError
from tests.errors_said import unwrapped

DIGITS = Path(__file__).parents[2] / "examples" / "digits" / "digits.tflite"


@pytest.mark.parametrize("node", ["CONV_2D_1", "conv2", "ADD_2", "MAX_POOL_2D_3", "FULLY_CONNECTED_6"])
def test_a_node_goes_to_the_cpu(node: str) -> None:
    plain, forced = atonc.compile(DIGITS, verify=False), atonc.compile(DIGITS, on_cpu=(node,))
    on_cpu = [s.plan.op for s in forced.program.steps if isinstance(s.plan, CpuPlan)]
    assert on_cpu == ["CONV_2D_1" if node == "conv2" else node, "SOFTMAX_7"]
    assert next(iter(forced.mapped.reason_of.values())).rule.id == "ON-CPU"
    assert forced.verification is not None and forced.verification.outputs[0].cosine > 0.999
    inputs = make_inputs(plain.graph, 3)
    assert np.argmax(atonc.run(forced, inputs)["probabilities"]) == np.argmax(atonc.run(plain, inputs)["probabilities"])


def test_everything_on_the_cpu_is_exact() -> None:
    names = tuple(op.name for op in atonc.compile(DIGITS, verify=False).graph.ops)
    forced = atonc.compile(DIGITS, on_cpu=names)
    assert forced.program.epochs == [] and not any(h.buffer.offset for h in forced.program.placed.values())
    assert forced.verification is not None and forced.verification.outputs[0].exact_percent == 100


def test_a_node_that_runs_on_the_npu_may_be_insisted_on() -> None:
    assert atonc.compile(DIGITS, on_npu=("CONV_2D_0", "MEAN_5"), verify=False).program.epochs


def test_what_the_npu_cannot_do_is_refused_with_the_rule() -> None:
    with pytest.raises(UnsupportedError, match="softmax cannot run on the NPU") as caught:
        atonc.compile(DIGITS, on_npu=("SOFTMAX_7",))
    assert caught.value.rule and caught.value.remedy and "SOFTMAX_7" in caught.value.where


def test_unknown_names_get_near_ones() -> None:
    with pytest.raises(InputError) as caught:
        atonc.compile(DIGITS, on_cpu=("CONV2D_1",))
    assert "'CONV_2D_1'" in caught.value.remedy
    with pytest.raises(InputError, match="no node"):
        atonc.compile(DIGITS, on_npu=("",))


def test_one_node_cannot_be_in_two_places() -> None:
    with pytest.raises(InputError, match="wanted on the CPU and on the NPU"):
        atonc.compile(DIGITS, on_cpu=("conv1",), on_npu=("CONV_2D_0",))


def test_on_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["analyze", str(DIGITS), "--no-verify"]
    assert main([*command, "--on", "cpu", "ADD_2", "--on", "cpu", "pool", "--on", "npu", "dense"]) == 0
    assert "the user asked for the CPU" in capsys.readouterr().out
    assert main([*command, "--on", "gpu", "ADD_2"]) == 2
    assert main([*command, "--on", "npu", "SOFTMAX_7"]) == 2
    assert "SOFTMAX_7: softmax cannot run on the NPU" in unwrapped(capsys.readouterr().err)
