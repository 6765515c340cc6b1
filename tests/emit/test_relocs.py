"""Inputs and outputs that the application supplies: symbols in the program, patched for any address at run time."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from atonc.compiler.compare.inputs import make_inputs
from atonc.compiler.compile import pipeline
from atonc.compiler.emit import runs
from atonc.compiler.emit.program import Program
from atonc.compiler.emit.runs import npu_runs
from atonc.compiler.ir import Graph, Op
from atonc.compiler.place.types import USER_BASE
from atonc.compiler.request.options import Options
from atonc.compiler.verify.emulation import Emulation
from atonc.machine.base.errors import UnsupportedError
from atonc.machine.hw.decode import decode_epochs
from atonc.machine.hw.ec import ec_program
from atonc.machine.hw.ec.blob import read_container, relocate
from atonc.machine.hw.ec.instructions import decode, encode
from atonc.machine.hw.ec.text import assemble, format_program
from tests.lower.harness import activation

DIGITS = Path(__file__).parents[2] / "examples" / "digits" / "digits.tflite"
OWN = Options(inputs_allocation=False, outputs_allocation=False, verify=False)


def compiled(options: Options = OWN) -> pipeline.Compiled:
    """The digits up to their first pooling: input and output are the NPU's own."""
    return pipeline.compile_file(DIGITS, replace(options, cut_outputs=("pool",)))


@pytest.fixture(scope="module")
def own() -> pipeline.Compiled:
    return compiled()


def two_inputs(*, swapped: bool = False) -> Graph:
    """Two sums of two inputs; each tensor large enough for several engines."""
    shape = (1, 24, 24, 16)
    tensors = {n: activation(n, shape, 0.05 + 0.01 * k, k) for k, n in enumerate(("a", "b", "c", "d"))}
    ops = (Op("add", "first", ("a", "b"), ("c",)), Op("sub", "second", ("b", "a"), ("d",)))
    return Graph(tensors, ops, ("a", "b"), ("d", "c") if swapped else ("c", "d"))


def moved(program: Program, bases: dict[str, int]) -> Program:
    """The program as the loader leaves it for other addresses: every word goes through a stored container."""
    steps = {step.number: step for step in program.steps}
    for run in npu_runs(program):
        stored = read_container(runs.container(program, run).to_bytes())
        wanted = {r.symbol: bases[r.symbol] for r in stored.relocations}
        epochs = decode_epochs(decode(relocate(stored, wanted).program))
        steps |= {e.number: replace(steps[e.number], epoch=e) for e in epochs if not e.empty}
    shift = {user.address: bases[user.symbol] for user in program.user_io}
    placed = {n: replace(h, address=shift.get(h.address, h.address)) for n, h in program.placed.items()}
    users = tuple(replace(user, address=bases[user.symbol]) for user in program.user_io)
    return replace(program, steps=tuple(steps.values()), placed=placed, user_io=users)


def test_user_buffers_take_no_activations(own: pipeline.Compiled) -> None:
    users = own.program.user_io
    assert [(u.symbol, u.name, u.size_bytes) for u in users] == [
        ("_user_io_input_0", "image", 64),
        ("_user_io_output_0", "pool", 256),
    ]
    assert all(own.layout.placed[u.name].user_allocated and u.address >= USER_BASE for u in users)
    assert pipeline.compile_graph(two_inputs(), Options(verify=False)).layout.peak_bytes == 4 * 24 * 24 * 16
    assert pipeline.compile_graph(two_inputs(), OWN).layout.peak_bytes == 0


def test_only_starts_and_limits_of_user_buffers_are_relocated(own: pipeline.Compiled) -> None:
    """Against the plain program: exactly those words differ, by the address that stands for the buffer."""
    (run,) = npu_runs(own.program)
    plain = encode(ec_program.program(s.epoch for s in run if s.epoch is not None))
    symbolic = encode(runs.instructions(own.program, run))
    bases = runs.bases(own.program)
    offsets = {o: bases[r.symbol] for r in runs.relocations(own.program, run) for o in r.offsets}
    assert [a - b for a, b in zip(plain, symbolic, strict=True)] == [offsets.get(k, 0) for k in range(len(plain))]
    engines = [u for s in run for u in getattr(s.plan, "engines", {}).values() if u.buffer in ("image", "pool")]
    assert len(offsets) == 2 * len(engines) > 0
    assert not any(USER_BASE <= word < USER_BASE + 0x1000 for k, word in enumerate(symbolic))


@pytest.mark.parametrize("version", [0x20, 0x30, 0x50])
def test_every_generation_of_containers(own: pipeline.Compiled, version: int) -> None:
    (run,) = npu_runs(own.program)
    stored = read_container(runs.container(own.program, run, version).to_bytes())
    assert stored.version == version and stored.relocations == runs.relocations(own.program, run)
    plain = encode(ec_program.program(s.epoch for s in run if s.epoch is not None))
    assert list(relocate(stored, runs.bases(own.program)).program) == plain
    text = format_program(runs.instructions(own.program, run))
    assert "_user_io_output_0(0x0)" in text and assemble(text).relocations == stored.relocations


def test_the_patched_program_computes_the_same(own: pipeline.Compiled) -> None:
    inputs = make_inputs(own.graph, 5)
    expected = Emulation(compiled(Options(verify=False)).program, own.graph).run(inputs)["pool"]
    assert np.array_equal(Emulation(own.program, own.graph).run(inputs)["pool"], expected)
    elsewhere = {"_user_io_input_0": 0xB123_4560, "_user_io_output_0": 0xB000_0020}
    assert np.array_equal(Emulation(moved(own.program, elsewhere), own.graph).run(inputs)["pool"], expected)


@pytest.mark.parametrize("swapped", [False, True])
def test_indices_follow_the_order_of_the_model(swapped: bool) -> None:
    found = pipeline.compile_graph(two_inputs(swapped=swapped), OWN)
    names = [(u.symbol, u.name) for u in found.program.user_io]
    outputs = ("d", "c") if swapped else ("c", "d")
    assert names == [
        *(("_user_io_input_0", "a"), ("_user_io_input_1", "b")),
        *(("_user_io_output_0", outputs[0]), ("_user_io_output_1", outputs[1])),
    ]
    inputs = make_inputs(found.graph, 2)
    bases = {u.symbol: 0xB000_0000 + 0x10_0000 * (7 - k) for k, u in enumerate(found.program.user_io)}
    got = Emulation(moved(found.program, bases), found.graph).run(inputs)
    expected = Emulation(pipeline.compile_graph(two_inputs(), Options(verify=False)).program, found.graph).run(inputs)
    assert all(np.array_equal(got[name], expected[name]) for name in ("c", "d"))


def test_one_side_alone() -> None:
    only = pipeline.compile_graph(two_inputs(), Options(outputs_allocation=False))
    assert [u.symbol for u in only.program.user_io] == ["_user_io_output_0", "_user_io_output_1"]
    assert only.report is not None and all(o.max_lsb <= 1 for o in only.report.outputs)


def test_without_user_buffers_blobs_stay_bare() -> None:
    program = pipeline.compile_graph(two_inputs(), Options(verify=False)).program
    (run,) = npu_runs(program)
    assert program.user_io == () and runs.container(program, run).version == 0


def shapes(outputs: tuple[str, ...]) -> Graph:
    """One value under several shapes."""
    names = {"a": (1, 8, 8, 16), "b": (1, 64, 16), "c": (1, 1024)}
    ops = (
        Op("reshape", "first", ("a",), ("b",), {"shape": names["b"]}),
        Op("reshape", "second", ("b",), ("c",), {"shape": names["c"]}),
    )
    return Graph({n: activation(n, shape) for n, shape in names.items()}, ops, ("a",), outputs)


@pytest.mark.parametrize("outputs", [("b",), ("c",), ("b", "c")])
@pytest.mark.parametrize("sides", [("inputs",), ("outputs",), ("inputs", "outputs")])
def test_values_that_could_share_memory_are_copied(outputs: tuple[str, ...], sides: tuple[str, ...]) -> None:
    own = pipeline.compile_graph(shapes(outputs), Options(**{f"{side}_allocation": False for side in sides}))
    homes = [own.program.placed[name] for name in ("a", *own.graph.outputs)]
    user_allocated = [home.address for home in homes if home.user_allocated]
    assert len(user_allocated) == len(set(user_allocated)) == ("inputs" in sides) + len(outputs) * ("outputs" in sides)
    assert own.report is not None and all(o.exact_percent == 100 for o in own.report.outputs)
    assert not [s for s in pipeline.compile_graph(shapes(outputs)).program.steps]  # without: one memory, no step


def test_one_memory_cannot_be_supplied_twice() -> None:
    graph = Graph({"a": activation("a", (1, 8, 8, 16))}, (), ("a",), ("a",))
    with pytest.raises(UnsupportedError, match="also an output"):
        pipeline.compile_graph(graph, OWN)
