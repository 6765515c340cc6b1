"""One price of an epoch, one machine of a compilation: whoever names cycles names the same."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import atonc
from atonc.compiler.compile.pipeline import compile_canonical, compile_graph, memories, target_of
from atonc.compiler.emit.c import ll_calls
from atonc.compiler.emit.c.driver_epochs import driver_words
from atonc.compiler.price.program import program_cost
from atonc.compiler.request.options import Options
from atonc.doors.cli.cli import main
from atonc.machine.hw import ll, regs
from atonc.machine.hw.cycles import hardware
from atonc.machine.hw.decode import decode_epochs
from atonc.machine.hw.ec import ec_program
from atonc.machine.hw.ec.instructions import Write
from atonc.machine.hw.epoch import Epoch
from tests.compiler.golden_graphs import GRAPHS

ROOT = Path(atonc.__file__).parent
DIGITS = str(ROOT.parent / "examples" / "digits" / "digits.tflite")
PLAIN = Options(verify=False)
SLOW_FLASH = replace(PLAIN, flash_mbps=99)
MACHINES = {
    "default": {},
    "400 MHz": {"npu_mhz": 400, "cpu_mhz": 400},
    "slow flash": {"flash_mbps": 100},
}
Figures = tuple[int, float]  # cycles and milliseconds


# ----------------------------------------------------------------------------------------------------------- one cost


@pytest.mark.parametrize("controller", [True, False], ids=["controller", "processor"])
@pytest.mark.parametrize("machine", MACHINES)
def test_every_view_names_the_same_time(
    machine: str, controller: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    clocks = [text for name, value in MACHINES[machine].items() for text in (f"--{name.replace('_', '-')}", str(value))]
    asked = [DIGITS, "--no-verify", *clocks, *([] if controller else ["--no-epoch-controller"])]
    folder = str(tmp_path / "out")
    assert main(["generate", *asked, "-o", folder, "-q"]) == 0
    capsys.readouterr()

    def said(*command: str) -> Figures:
        assert main([*command, "--json"]) == 0
        document = json.loads(capsys.readouterr().out)
        return document["cycles"], document["latency_ms"]

    expected = said("analyze", *asked)
    assert said("explain", folder) == expected
    assert said("run", folder) == expected
    assert _of_page(tmp_path / "out" / "report.html") == expected
    made = atonc.compile(DIGITS, verify=False, epoch_controller=controller, **MACHINES[machine])
    assert (made.view.cost.cycles, made.latency_ms) == expected
    assert main(["compare", folder, folder, "--json"]) == 0
    figures = {row["name"]: row for row in json.loads(capsys.readouterr().out)["figures"]}
    assert figures["latency"]["a"] == figures["latency"]["b"] == expected[1]
    gates = {factor: ["--max-latency", str(factor * expected[1])] for factor in (0.9999, 1.0001)}
    assert [main(["analyze", *asked, "-q", *gate]) for gate in gates.values()] == [1, 0]


def _of_page(path: Path) -> Figures:
    found = re.search(r'"totals":\{"latency_ms":([0-9.e-]+),"cycles":(\d+)', path.read_text())
    assert found is not None
    return int(found[2]), float(found[1])


def test_epochs_take_longer_without_the_controller() -> None:
    """FIGURES 1: 1.8136 ms were said of a network that took 3.105 without it."""
    ways = (replace(PLAIN, epoch_controller=one) for one in (True, False))
    with_it, without = (compile_graph(GRAPHS["residual"](), options) for options in ways)
    assert without.target.programmed_by == hardware.CPU
    assert without.cost.cycles > 1.3 * with_it.cost.cycles
    by_cpu = program_cost(with_it.program, with_it.graph, with_it.memory.pools, without.target)
    assert without.cost.cycles <= by_cpu.cycles  # the search has priced its epochs so


@pytest.mark.parametrize("name", GRAPHS)
def test_words_are_counted_as_the_chip_reads_them(name: str) -> None:
    compiled = compile_graph(GRAPHS[name](), PLAIN)
    epochs = compiled.program.epochs
    decoded = [epoch for epoch in decode_epochs(ec_program.program(epochs)) if not epoch.empty]
    assert [target_of(PLAIN).with_words(epoch).words for epoch in epochs] == [epoch.words for epoch in decoded]
    assert [driver_words(epoch) for epoch in epochs] == list(map(_driven, epochs))


def _driven(epoch: Epoch) -> int:
    """Words of all that the driver stores for an epoch."""
    mask = sum(1 << int(name.removeprefix("STRENG")) for name in epoch.writers())
    calls = ll_calls.start_calls(epoch, {}), ll_calls.end_calls(epoch)
    program = ll.epoch_program(calls[0], mask, calls[1], lambda address, size: b"", number=epoch.number)
    return sum(instruction.size for instruction in ll.merged(program))


# -------------------------------------------------------------------------------------------------------- one machine


def default_machines(tree: ast.AST) -> Iterator[int]:
    """Lines that take the machine that nobody named."""
    for node in ast.walk(tree):
        names = [alias.name for alias in node.names] if isinstance(node, ast.ImportFrom) else []
        if "stm32n6" in names or (isinstance(node, ast.Attribute) and node.attr == "stm32n6"):
            yield node.lineno


@pytest.mark.parametrize("room", ["lower", "select", "schedule", "place"])
def test_who_chooses_asks_for_the_machine_of_the_options(room: str) -> None:
    for path in (ROOT / room).rglob("*.py"):
        assert not list(default_machines(ast.parse(path.read_text()))), path
    planted = (
        "from atonc.machine.hw.machine import stm32n6\nimport atonc.machine.hw.machine as m\nx = m.stm32n6().timing"
    )
    assert list(default_machines(ast.parse(planted))) == [1, 3]


def test_a_compilation_has_one_machine() -> None:
    graph = GRAPHS["windows"]()
    compiled = compile_canonical(graph, graph, SLOW_FLASH, memories(PLAIN))
    machine = compiled.target.machine
    assert machine.clocks.flash_mb_per_s == 99
    assert compiled.memory.machine is compiled.mapped.context.facts.target.machine is machine
    forms = compiled.mapped.forms.values()
    assert all(one.target is compiled.target for form in forms for one in (form, *(o.form for o in form.alternatives)))
    assert target_of(SLOW_FLASH).machine is machine  # and what follows from it is remembered


def test_forms_follow_the_machine() -> None:
    """FIGURES 2: forms and chains were those of the default machine, whatever the options said."""
    other, saved = [], 0
    for name, made in GRAPHS.items():
        usual, slow = (compile_graph(made(), options) for options in (PLAIN, SLOW_FLASH))
        before = program_cost(usual.program, usual.graph, usual.memory.pools, slow.target).cycles
        other += [name] if usual.program.epochs != slow.program.epochs else []
        saved += before - slow.cost.cycles
    assert other and saved > 0


def test_no_store_moves_across_the_window_of_coefficients() -> None:
    """An ARITH shows its last rows where others were: a later row must not take the place of an earlier one."""
    unit, window = regs.UNIT_BY_NAME["ARITH0"].id, regs.registers("ARITH")["TRANSLATEADDR"].index
    stores = [Write(unit, window, 1), Write(unit, 256, 5), Write(unit, window, 0), Write(unit, 256, 7)]
    assert ll.merged(stores) == stores
