"""Weights in RAM change which form is best: the search finds it, and its results are those of exact arithmetic."""

from __future__ import annotations

from pathlib import Path

from atonc.compiler.compile.pipeline import compile_graph
from atonc.compiler.ir import Graph
from atonc.compiler.plan.types import BufferKind
from atonc.compiler.request.options import Options
from atonc.compiler.search import generators
from atonc.compiler.search.build import build
from atonc.compiler.search.candidate import Candidate, Setting
from atonc.compiler.search.generators import FRONT, resident
from atonc.compiler.select.decisions import FIRST
from atonc.machine.base.words import ALL_RAM
from tests.compiler.golden_graphs import Sketch


def small_picture() -> Graph:
    """Chains that follow the flash read all kernels with one engine; from RAM two engines are quicker."""
    net = Sketch().start(1, 4, 4, 256)
    net.conv(256)
    return net.graph()


def test_forms_are_chosen_again_for_weights_in_ram() -> None:
    """Both with all weights in RAM: those that were chosen for it are faster, and right."""
    found = compile_graph(small_picture(), Options(resident="all"))
    assert found.decisions.near, [attempt.reason for attempt in found.search]
    assert found.report is not None  # of a verification that found nothing wrong
    setting = Setting(found.graph, found.memory, found.target, Options(verify=False, resident="all"))
    first = build(setting, FIRST.but(resident_bytes=ALL_RAM))
    *_, kept = resident.propose(first)
    plain = build(setting, kept.decisions, first)
    assert plain.decisions.resident and not plain.decisions.near
    assert found.cost.cycles < plain.cycles


def test_kernels_are_shorter_where_not_all_have_room() -> None:
    """Blocks of a depthwise layer hold zeros for other channels: from RAM large blocks are faster, and longer."""
    net = Sketch().start(1, 7, 7, 256)
    net.conv(256, (3, 3), depthwise=True)
    graph, options = net.graph(), Options(verify=False)
    found = compile_graph(graph, options)
    setting = Setting(found.graph, found.memory, found.target, options)
    near = FIRST.but(near=frozenset(op.name for op in found.graph.ops))
    roomy, scarce = (build(setting, near.but(ram_scarce=scarce)) for scarce in (False, True))
    assert kernel_bytes(scarce) < kernel_bytes(roomy)


def kernel_bytes(candidate: Candidate) -> int:
    homes = candidate.made.layout.placed.values()
    return sum(home.buffer.size_bytes for home in homes if home.buffer.kind == BufferKind.CONSTANT)


def test_nothing_is_proposed_where_weights_come_from_flash() -> None:
    assert not compile_graph(small_picture(), Options(verify=False)).decisions.near


def test_every_generator_has_a_line() -> None:
    files = {path.stem for path in Path(generators.__file__).parent.glob("*.py")} - {"__init__"}
    named = {one.propose.__module__.rpartition(".")[2] for one in FRONT}
    assert named == files, "a file without a line in generators/__init__.py proposes nothing"
