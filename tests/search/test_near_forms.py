"""Weights in RAM change which cut is best: the search finds it, and the network computes the same bits."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from atonc.compiler.compile.pipeline import compile_graph
from atonc.compiler.ir import Graph
from atonc.compiler.request.options import Options
from atonc.compiler.search import generators
from atonc.compiler.search.candidate import Setting
from atonc.compiler.search.generators import FRONT, GENERATORS, near_forms
from atonc.compiler.search.loop import search
from atonc.compiler.select.decisions import FIRST
from atonc.compiler.verify.emulation import Emulation
from atonc.machine.base.words import ALL_RAM
from tests.compiler.golden_graphs import Sketch

RESIDENT = Options(verify=False, resident="all")


def small_picture() -> Graph:
    """From flash each lane has kernels of its own; from RAM all kernels for some of the rows are quicker."""
    net = Sketch().start(1, 30, 30, 64)
    net.conv(64)
    return net.graph()


def test_cuts_are_chosen_again_for_weights_in_ram() -> None:
    found = compile_graph(small_picture(), RESIDENT)
    assert found.decisions.forms, [attempt.reason for attempt in found.search]
    without = tuple(one for one in GENERATORS if one.propose is not near_forms.propose)
    setting = Setting(found.graph, found.memory, found.target, RESIDENT)
    plain, _ = search(setting, FIRST.but(resident_bytes=ALL_RAM), without)
    assert found.cost.cycles < plain.cycles
    assert not plain.decisions.forms
    x = np.random.default_rng(7).integers(-128, 128, (1, 30, 30, 64)).astype(np.int8)
    name = found.graph.inputs[0]
    ours, theirs = (Emulation(program, found.graph).run({name: x}) for program in (found.program, plain.made.program))
    for output in found.graph.outputs:
        np.testing.assert_array_equal(ours[output], theirs[output])


def test_nothing_is_proposed_where_weights_come_from_flash() -> None:
    assert not compile_graph(small_picture(), Options(verify=False)).decisions.forms


def test_every_generator_has_a_line() -> None:
    files = {path.stem for path in Path(generators.__file__).parent.glob("*.py")} - {"__init__"}
    named = {one.propose.__module__.rpartition(".")[2] for one in FRONT}
    assert named == files, "a file without a line in generators/__init__.py proposes nothing"
