"""Generated cache maintenance against the worst cache there is.

This cache holds every line at all times: what it has fetched once stays until it is told otherwise, and what is
invalidated is fetched again at once. It writes back only dirty lines that are cleaned; a dirty line that stays behind
is an error, because nobody knows when it is evicted.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from atonc.compiler.compare.inputs import make_inputs
from atonc.compiler.compile.compile_view import CompileView
from atonc.compiler.emit.c.network import CNetwork
from atonc.compiler.ir import Graph, Op
from atonc.compiler.verify.emulation import Emulation
from atonc.delivery.generate import generating
from atonc.machine.emu import cpu
from atonc.machine.emu import network as emulated
from atonc.machine.emu.files.types import FunctionCall
from atonc.machine.emu.network import EmulatedNetwork, NetworkStep
from tests.emit.generated import digits, network_of, view_of
from tests.lower.harness import activation

LINE = 32


class Machine:
    """RAM as the NPU sees it, and as the processor sees it through its cache."""

    def __init__(self, folder: Path, network: CNetwork) -> None:
        self.ram, self.cached = emulated.load(folder), emulated.load(folder)
        self.network = network
        self.dirty: set[int] = set()
        for home in network.program.placed.values():
            if not home.buffer.data:  # what nobody wrote differs, so that a stale line shows
                self.ram.memory.write(home.address, np.full(home.buffer.size_bytes, 0x5A, np.uint8))
                self.cached.memory.write(home.address, np.full(home.buffer.size_bytes, 0xA5, np.uint8))

    def copy(self, source: EmulatedNetwork, target: EmulatedNetwork, line: int) -> None:
        target.memory.write(line * LINE, source.memory.read(line * LINE, LINE))

    def maintain(self, call: FunctionCall) -> None:
        address, size = (int(arg) for arg in call.args if isinstance(arg, int))
        assert address % LINE == 0 and size % LINE == 0, call
        for line in range(address // LINE, (address + size) // LINE):
            if "Clean" in call.name and line in self.dirty:
                self.copy(self.cached, self.ram, line)
                self.dirty.discard(line)
            if "Invalidate" in call.name:
                self.dirty.discard(line)
                self.copy(self.ram, self.cached, line)

    def calls(self, calls: tuple[FunctionCall, ...], written: set[str]) -> None:
        for call in calls:
            if cpu.is_library_call(call.name):
                cpu.run_call(call.name, list(call.args), self.cached.memory)
                for name in written:
                    home = self.network.home(name)
                    self.dirty |= set(range(home.address // LINE, -(-home.end // LINE)))
            elif "Cache_MCU" in call.name:
                self.maintain(call)

    def run(self) -> None:
        steps: dict[int, NetworkStep] = {step.number: step for step in self.ram.steps}
        for block, made in zip(self.ram.network.blocks, self.network.blocks, strict=True):
            self.calls(block.start_calls, made.writes())
            for step in made.steps if not made.on_cpu else ():
                self.ram.execute(steps[step.number])
            self.calls(block.end_calls, made.writes())
            assert not self.dirty, f"epoch {made.first} leaves dirty lines behind"


def between(*kinds: str) -> Graph:
    """A chain of additions (NPU) and softmaxes (CPU), each reading the one before and the input."""
    shape = (1, 8, 8, 16)
    names = [f"t{k}" for k in range(len(kinds) + 1)]
    tensors = {n: activation(n, shape, 0.02 + 0.01 * k, k) for k, n in enumerate(names)}
    ops = []
    for k, kind in enumerate(kinds):
        source, target = names[k], names[k + 1]
        if kind == "cpu":
            tensors[target] = activation(target, shape, 1 / 256, -128)
            ops.append(Op("softmax", f"soft{k}", (source,), (target,), {"axis": 3, "beta": 1.0}))
        else:
            ops.append(Op("add", f"add{k}", (source, "t0"), (target,)))
    return Graph(tensors, tuple(ops), ("t0",), (names[-1],))


def check(view: CompileView, folder: Path) -> None:
    generating.generate(view, folder)
    compiled = view.compiled
    inputs = make_inputs(compiled.graph, 0)
    expected = Emulation(compiled.program, compiled.graph).run(inputs)
    machine = Machine(folder, network_of(view))
    for index, name in enumerate(compiled.graph.inputs):  # the application writes them and cleans
        machine.ram.write_input(index, inputs[name])
        machine.cached.write_input(index, inputs[name])
    for _ in range(2):
        machine.run()
        for index, name in enumerate(compiled.graph.outputs):
            assert machine.ram.read_output(index).tobytes() == np.asarray(expected[name]).tobytes(), name
        for index, name in enumerate(compiled.graph.inputs):
            machine.ram.write_input(index, inputs[name])
            machine.cached.write_input(index, inputs[name])


CHAINS = ("npu cpu", "cpu npu", "npu cpu npu", "cpu npu cpu npu", "npu cpu cpu npu cpu", "cpu cpu npu npu cpu npu")


@pytest.mark.parametrize("chain", CHAINS)
@pytest.mark.parametrize("controller", (True, False), ids=("controller", "driver"))
def test_chains_of_both(chain: str, controller: bool, tmp_path: Path) -> None:
    view = view_of(between(*chain.split()))
    check(replace(view, options=replace(view.options, epoch_controller=controller)), tmp_path / "out")


def test_digits(tmp_path: Path) -> None:
    check(digits(), tmp_path / "out")


def test_what_the_application_wrote_over_an_output_is_dropped_before_the_npu_writes(tmp_path: Path) -> None:
    """It cleared the results of the last inference: lines that may be evicted over those of the next one."""
    view = view_of(between("npu"))
    generating.generate(view, tmp_path / "out")
    machine = Machine(tmp_path / "out", network_of(view))
    home = machine.network.home(view.compiled.graph.outputs[0])
    machine.dirty = set(range(home.address // LINE, -(-home.end // LINE)))
    machine.run()
    assert not machine.dirty


def test_the_cache_notices_what_is_missing(tmp_path: Path) -> None:
    """Without its maintenance the same network gives wrong bytes here."""
    view = view_of(between("npu", "cpu"))
    generating.generate(view, tmp_path / "out")
    source = tmp_path / "out" / "network.c"
    text = source.read_text()
    lines = [line for line in text.splitlines() if "LL_ATON_Cache_MCU_Invalidate_Range(" not in line]
    source.write_text("\n".join(lines))
    (tmp_path / "out" / "network_manifest.json").unlink()  # it would say that the file was changed
    compiled = view.compiled
    inputs = make_inputs(compiled.graph, 0)
    machine = Machine(tmp_path / "out", network_of(view))
    machine.ram.write_input(0, inputs["t0"])
    machine.run()
    expected = Emulation(compiled.program, compiled.graph).run(inputs)
    assert machine.ram.read_output(0).tobytes() != np.asarray(expected[compiled.graph.outputs[0]]).tobytes()
