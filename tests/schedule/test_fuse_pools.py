"""Windows of a pooling behind the convolution that writes the picture: the same bits, and every fault is found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from atonc.compiler.compare.inputs import make_inputs
from atonc.compiler.compile.pipeline import Compiled, compile_graph
from atonc.compiler.ir import Graph
from atonc.compiler.plan.flow import EachWindow
from atonc.compiler.plan.longer import UNCHANGED
from atonc.compiler.plan.task import Task
from atonc.compiler.request.options import Options
from atonc.compiler.schedule import POOLS
from atonc.compiler.schedule.check import MERGED
from atonc.compiler.schedule.fuse import _costs_more
from atonc.compiler.schedule.fuse_pools import after_pools
from atonc.compiler.schedule.merging import MergeCandidate, MergeNetwork, MergeState
from atonc.compiler.schedule.types import Merge
from atonc.compiler.select.cycles import cycles_of
from atonc.compiler.verify.emulation import Emulation
from atonc.insight.explain.decide import of_schedule
from atonc.machine.hw.safety.evidence import Grade, unit_grade
from atonc.machine.hw.units import activ
from tests.compiler.golden_graphs import Sketch
from tests.lower.harness import TARGET
from tests.schedule.planted import (
    Fault,
    before_the_codes,
    pool_of,
    rules_broken,
    with_fault,
    with_pool,
    with_result,
    without_a_lane,
)

ON, OFF = Options(verify=False), Options(verify=False, schedule_without=(POOLS,))
HALVES = {"window": (2, 2), "stride": (2, 2), "padding": (0, 0, 0, 0), "layout": "NHWC"}


def pool(net: Sketch, kind: str = "max_pool") -> str:
    tensor = net.tensors[net.last]
    _, height, width, channels = tensor.shape
    same = {"scale": tensor.scale, "zero": tensor.zero_point}
    return net.op(kind, (1, height // 2, width // 2, channels), **same, **HALVES)


def layer(
    size: int = 32, channels: int = 16, kind: str = "max_pool", kernel: int = 3, depthwise: bool = False
) -> Graph:
    net = Sketch().start(1, size, size, channels if depthwise else 8, zero=-128)
    net.conv(channels, (kernel, kernel), depthwise=depthwise)
    pool(net, kind)
    return net.graph()


def with_table() -> Graph:
    """A function between the convolution and the pooling takes the place of the ACTIV that changes nothing."""
    net = Sketch().start(1, 16, 16, 8, zero=-128)
    net.conv(16, (3, 3))
    net.op("logistic", (1, 16, 16, 16), scale=1 / 256, zero=-128)
    pool(net)
    return net.graph()


def encoder() -> Graph:
    """Others read the picture too."""
    net = Sketch().start(1, 32, 32, 24, zero=-128)  # the peak is here
    net.conv(8)
    picture = net.conv(8, (3, 3), depthwise=True)
    small = pool(net)
    net.last = picture
    net.conv(8, stride=2)
    net.op("add", (1, 16, 16, 8), small, scale=0.04)
    return net.graph()


def stem() -> Graph:
    """A CONVACC pads the picture for windows that overlap."""
    net = Sketch().start(1, 32, 32, 8, zero=-128)
    net.conv(16, (3, 3))
    tensor = net.tensors[net.last]
    window = {**HALVES, "window": (3, 3), "padding": (0, 0, 1, 1)}
    net.op("max_pool", (1, 16, 16, 16), scale=tensor.scale, zero=tensor.zero_point, **window)
    return net.graph()


def cycles(compiled: Compiled) -> int:
    return compiled.cost.cycles


def merges(compiled: Compiled) -> list[Merge]:
    return [merge for merge in compiled.scheduled.schedule.merges if "pool" in merge.consumer]


def outputs(compiled: Compiled) -> list[np.ndarray]:
    found = Emulation(compiled.program, compiled.graph).run(make_inputs(compiled.source, 3))
    return [found[name] for name in compiled.source.outputs]


@pytest.fixture(scope="module")
def chained() -> Compiled:
    return compile_graph(layer(), ON)


GRAPHS: dict[str, Callable[[], Graph]] = {
    "maxima": layer,
    "averages": lambda: layer(kind="average_pool"),
    "channels that are no multiple of eight": lambda: layer(channels=12),
    "a large picture": lambda: layer(size=128),
    "depthwise": lambda: layer(channels=24, depthwise=True),
    "windows of one pixel": lambda: layer(kernel=1, size=16),
    "with a table between": with_table,
    "others read it too": encoder,
}


@pytest.mark.parametrize("name", GRAPHS)
def test_faster_with_the_same_bits(name: str) -> None:
    on, off = (compile_graph(GRAPHS[name](), options) for options in (ON, OFF))
    assert len(merges(on)) == 1 and not merges(off) and len(on.program.epochs) <= len(off.program.epochs)
    assert cycles(on) < 0.9 * cycles(off) and on.layout.peak_bytes <= off.layout.peak_bytes
    assert all(grade.grade.rank <= Grade.COMPOSED.rank for grade in on.grades) and not on.choices.reasons
    assert all(np.array_equal(one, two) for one, two in zip(outputs(on), outputs(off), strict=True))


def test_the_picture_is_in_no_memory(chained: Compiled) -> None:
    (merge,) = merges(chained)
    assert not merge.kept and merge.through == "conv0"
    assert "conv0" not in chained.layout.placed and "conv0" in compile_graph(layer(), OFF).layout.placed


def test_every_layer_is_verified() -> None:
    compiled = compile_graph(layer(), replace(ON, verify=True))
    assert compiled.report is not None and merges(compiled)


def test_the_activ_that_changes_nothing_was_seen() -> None:
    codes = np.arange(-128, 128, dtype=np.int8)
    assert np.array_equal(activ.execute(UNCHANGED, codes), codes)
    assert unit_grade(UNCHANGED) == Grade.SEEN


@pytest.mark.parametrize(
    ("graph", "why"),
    [
        (lambda: layer(size=31), "pixels that none sees"),  # no window sees the last line
        (lambda: layer(kernel=1, channels=12, size=8), "POOL B 12"),  # more channels at a time than seen
        (stem, "which pads"),
    ],
)
def test_what_does_not_fit_stays_apart(graph: Callable[[], Graph], why: str) -> None:
    compiled = compile_graph(graph(), ON)
    (apart,) = [one for one in compiled.scheduled.schedule.apart if "pool" in one.consumer]
    assert not merges(compiled) and why in apart.seen


def test_what_could_follow_the_pooling_alone_counts_too() -> None:
    """The next convolution wants features without zero point: an ARITH behind the POOL, as long as that is alone."""
    net = Sketch().start(1, 32, 32, 8, zero=-128)
    net.conv(16, (3, 3), zero=-128)
    pool(net)
    net.conv(16, (3, 3))
    mapped = compile_graph(net.graph(), ON).mapped
    network = MergeNetwork(
        mapped.context.buffers, mapped.context.aliases, ("conv2",), partial(cycles_of, target=TARGET)
    )
    state = MergeState(list(mapped.works), network)
    place = next((k, 0) for k, work in enumerate(state.works) if work.op == "max_pool1")
    flow = state.group(place).flow
    assert isinstance(flow, EachWindow)
    (found,) = after_pools(state, place, flow)
    assert isinstance(found, MergeCandidate) and not _costs_more(state, found)
    assert _costs_more(state, replace(found, merge=replace(found.merge, saved_cycles=1)))


def test_a_layer_on_the_cpu_may_read_the_result() -> None:
    net = Sketch().start(1, 32, 32, 8, zero=-128)
    net.conv(16, (3, 3))
    pool(net)
    net.op("softmax", (1, 16, 16, 16), scale=1 / 256, zero=-128, beta=1.0, axis=-1)
    compiled = compile_graph(net.graph(), ON)
    assert [reason.node for reason in compiled.choices.reasons] == ["softmax2"] and len(merges(compiled)) == 1


def test_explain_has_a_line_for_both(chained: Compiled) -> None:
    rules = {op: {d.rule.id for d in of_schedule(op, chained.scheduled.schedule)} for op in ("conv0", "max_pool1")}
    assert "CHAIN-CARRIES" in rules["conv0"] and "CHAIN-BEHIND" in rules["max_pool1"]


# ------------------------------------------------------------------------------------------------- planted faults


def other_threshold(old: Task, new: Task) -> Task:
    """The ACTIV cuts the lowest codes off."""
    name = next(n for n in new.units if n.startswith("ACTIV"))
    return replace(new, units={**new.units, name: replace(UNCHANGED, parameter=0, parameter2=0)})


def beside(old: Task, new: Task) -> Task:
    _, pool = pool_of(new)
    line, lines = 2 * pool.line_elements, pool.height // 2
    sizes = {"line_elements": line, "height": lines, "crop_right": line - 1, "crop_bottom": lines - 1}
    return with_pool(**sizes, out_width=2 * pool.out_width, out_height=pool.out_height // 2)(old, new)


FAULTS: dict[str, Fault] = {
    "means instead of maxima": with_pool(type=2, multiplier=1 << 14, out_shift=16),
    "windows in steps of one": with_pool(stride_x=1),
    "windows of three lines": with_pool(window_y=3),
    "half of the lines": with_pool(crop_bottom=1),
    "other channels in a pixel": with_pool(batch=2),
    "pixels of two lines side by side": beside,
    "results at another place": with_result(lambda config: replace(config, address=config.address + 8)),
    "results in other lines": with_result(lambda config: replace(config, line_offset_low=config.line_offset_low + 8)),
    "half of the results": with_result(lambda config: replace(config, fsize_high=config.fsize_high // 2)),
    "codes that are cut off": other_threshold,
    "sums instead of codes": before_the_codes,
}


@pytest.mark.parametrize("name", FAULTS)
def test_planted_faults_are_found(name: str, chained: Compiled) -> None:
    (merge,) = merges(chained)
    assert not rules_broken(chained, merge)
    assert MERGED in rules_broken(chained, with_fault(merge, FAULTS[name]))


def test_forgotten_lanes_are_found(chained: Compiled) -> None:
    (merge,) = merges(chained)
    assert MERGED in rules_broken(chained, without_a_lane(merge))
