"""Means of whole pictures behind the convolution that writes the picture: the same bits, and every fault is found."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from atonc.compiler.compare.inputs import make_inputs
from atonc.compiler.compile.pipeline import Compiled, compile_graph
from atonc.compiler.ir import Graph
from atonc.compiler.plan.task import Task
from atonc.compiler.request.options import Options
from atonc.compiler.schedule import FUSE
from atonc.compiler.schedule.check import MERGED
from atonc.compiler.schedule.types import Merge
from atonc.compiler.verify.emulation import Emulation
from atonc.machine.hw.safety.evidence import Grade
from tests.compiler.golden_graphs import Sketch
from tests.schedule.planted import (
    Fault,
    before_the_codes,
    rules_broken,
    with_fault,
    with_pool,
    with_result,
    without_a_lane,
)

ON, OFF = Options(verify=False), Options(verify=False, schedule_without=(FUSE,))


def layer(kernel: int = 3) -> Graph:
    """Three lanes of rows are the fastest for the convolution alone, two of kernels with the mean behind it. Windows of
    1x1 take more kernels at a time than a POOL does."""
    net = Sketch().start(1, 64, 64, 3, zero=-128)
    net.conv(32, (kernel, kernel))
    net.op("mean", (1, 32), scale=0.01, axes=(1, 2))
    return net.graph()


def squeeze() -> Graph:
    """The picture is read by others too, and has a table in front of the mean."""
    net = Sketch().start(1, 16, 16, 16, zero=-128)
    net.conv(16, (3, 3), depthwise=True)
    net.op("logistic", (1, 16, 16, 16), scale=1 / 256, zero=-128)
    picture = net.last
    net.op("mean", (1, 1, 1, 16), scale=1 / 256, zero=-128, axes=(1, 2), keepdims=True)
    gate = net.conv(8)
    net.last = picture
    net.conv(8)
    net.op("add", (1, 16, 16, 8), gate, scale=0.04)
    return net.graph()


def cycles(compiled: Compiled) -> int:
    return compiled.cost.cycles


def merges(compiled: Compiled) -> list[Merge]:
    return [merge for merge in compiled.scheduled.schedule.merges if merge.consumer.startswith("mean")]


@pytest.fixture(scope="module")
def averaged() -> Compiled:
    return compile_graph(layer(), ON)


@pytest.mark.parametrize("kernel", [1, 3])
def test_one_epoch_with_the_same_bits(kernel: int) -> None:
    averaged, off = compile_graph(layer(kernel), ON), compile_graph(layer(kernel), OFF)
    assert len(merges(averaged)) == 1 and len(averaged.program.epochs) == 1 < len(off.program.epochs)
    assert cycles(averaged) < 0.65 * cycles(off)
    assert averaged.layout.peak_bytes <= off.layout.peak_bytes + 32  # the means lie beside the picture now
    assert all(grade.grade.rank <= Grade.COMPOSED.rank for grade in averaged.grades) and not averaged.choices.reasons
    inputs = make_inputs(layer(kernel), 3)
    one, two = (Emulation(c.program, c.graph).run(inputs) for c in (averaged, off))
    assert all(np.array_equal(one[name], two[name]) for name in one)


def test_every_layer_is_verified() -> None:
    compiled = compile_graph(layer(), replace(ON, verify=True))
    assert compiled.report is not None and merges(compiled)


# ------------------------------------------------------------------------------------------------- planted faults


def other_line(old: Task, new: Task) -> Task:
    name = next(n for n in reversed(new.units) if n.startswith("ARITH"))
    return replace(new, units={**new.units, name: replace(new.units[name], a=5)})  # type: ignore[call-arg, type-var]


FAULTS: dict[str, Fault] = {
    "another divisor": with_pool(multiplier=1),
    "half of the lines": with_pool(crop_bottom=1),
    "other channels in a pixel": with_pool(batch=2),
    "a mean at another place": with_result(lambda config: replace(config, address=config.address + 8)),
    "half of the means": with_result(lambda config: replace(config, fsize_low=config.fsize_low // 2)),
    "another line behind it": other_line,
    "sums instead of codes": before_the_codes,
}


@pytest.mark.parametrize("name", FAULTS)
def test_planted_faults_are_found(name: str, averaged: Compiled) -> None:
    (merge,) = merges(averaged)
    assert not rules_broken(averaged, merge)
    assert MERGED in rules_broken(averaged, with_fault(merge, FAULTS[name]))


def test_forgotten_lanes_are_found(averaged: Compiled) -> None:
    (merge,) = merges(averaged)
    assert MERGED in rules_broken(averaged, without_a_lane(merge))


def test_a_picture_that_others_read_is_written_too() -> None:
    off, on = compile_graph(squeeze(), OFF), compile_graph(squeeze(), ON)
    assert all(merge.kept for merge in merges(on)) and cycles(on) <= cycles(off)
    inputs = make_inputs(squeeze(), 3)
    one, two = (Emulation(c.program, c.graph).run(inputs) for c in (on, off))
    assert all(np.array_equal(one[name], two[name]) for name in one)
