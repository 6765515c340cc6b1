"""`--schedule-with tables`: coefficients stay in their unit within a program of the epoch controller, if asked for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from atonc.compiler.compile.pipeline import Compiled, compile_file
from atonc.compiler.emit import runs
from atonc.compiler.emit.c.ll_calls import epoch_functions
from atonc.compiler.emit.program import Program
from atonc.compiler.emit.runs import keep_tables, npu_runs
from atonc.compiler.request.options import Options
from atonc.compiler.search.silicon import inspect, require_safe
from atonc.compiler.verify.emulation import Emulation
from atonc.machine.base.errors import InputError, InternalError
from atonc.machine.hw.decode import decode_epochs
from atonc.machine.hw.ec import ec_program, instructions
from atonc.machine.hw.epoch import Epoch, rows_of
from atonc.machine.hw.safety.evidence import PUBLISHED, Grade, grade_epoch
from atonc.machine.hw.units.arith import ArithConfig
from tests.compiler.random_graphs import random_inputs
from tests.frontends.tflite_models import conv_model

TABLES = Options(schedule_with=("tables",), verify=False)


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Compiled]:
    """A dilated convolution: its phases run one after the other, each with the same coefficients."""
    path = tmp_path_factory.mktemp("model") / "dilated.tflite"
    path.write_bytes(conv_model((1, 24, 24, 16), 32, (3, 3), 1, 0, 0, 4))
    return {"plain": compile_file(path, Options(verify=False)), "tables": compile_file(path, TABLES)}


def kept(program: Program) -> int:
    return sum(len(epoch.kept) for epoch in program.epochs)


def read_back(program: Program) -> list[tuple[Epoch, Epoch]]:
    """Every epoch with what a chip that holds no tables yet makes of its program."""
    found: list[tuple[Epoch, Epoch]] = []
    for run in npu_runs(program):
        epochs = [step.epoch for step in run if step.epoch is not None]
        decoded = decode_epochs(instructions.decode(ec_program.words(epochs)))
        found += zip(epochs, (epoch for epoch in decoded if not epoch.empty), strict=True)
    return found


def same_tables(program: Program) -> bool:
    units = [(reference.units[n], made.units[n]) for reference, made in read_back(program) for n in reference.units]
    pairs = [(rows_of(one), other) for one, other in units if isinstance(other, ArithConfig)]
    return all(other.table.startswith(rows) for rows, other in pairs)


def test_equal_tables_are_loaded_once_and_nothing_else_changes(compiled: dict[str, Compiled]) -> None:
    plain, less = (compiled[name].program for name in ("plain", "tables"))
    assert kept(plain) == 0 < kept(less)
    assert len(ec_program.words(less.epochs)) < 0.9 * len(ec_program.words(plain.epochs))
    assert all(reference.kept == made.kept for reference, made in read_back(less)) and same_tables(less)
    assert all(ec_program.epoch_words(epoch) == ec_program.written_words(epoch) for epoch in less.epochs)
    graph = compiled["plain"].graph
    outputs = [Emulation(program, graph).run(random_inputs(graph, 3)) for program in (plain, less)]
    assert all(np.array_equal(outputs[0][name], outputs[1][name]) for name in graph.outputs)


@pytest.mark.parametrize("most", [500, 900, 1500, 2500])
def test_every_program_loads_what_it_uses_wherever_it_is_cut(
    compiled: dict[str, Compiled], most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "MOST_WORDS", most)
    program = keep_tables(compiled["plain"].program)
    assert len(npu_runs(program)) > 1 and same_tables(program)


def test_a_table_that_its_program_never_loaded_is_found(compiled: dict[str, Compiled]) -> None:
    program = compiled["tables"].program
    first, *rest = program.steps
    assert first.epoch is not None
    units = frozenset(name for name, config in first.epoch.units.items() if rows_of(config))
    planted = replace(program, steps=(replace(first, epoch=replace(first.epoch, kept=units)), *rest))
    with pytest.raises(InternalError, match="relies on coefficients that its program has not loaded"):
        npu_runs(planted)


def test_no_published_program_has_it(compiled: dict[str, Compiled]) -> None:
    program, pools = compiled["tables"].program, ()
    relying = next(epoch for epoch in program.epochs if epoch.kept)
    assert grade_epoch(relying).grade == Grade.UNSEEN
    assert grade_epoch(replace(relying, kept=frozenset())).grade != Grade.UNSEEN
    found = inspect(program, pools)
    with pytest.raises(InternalError, match="table of ARITH = of an earlier epoch"):
        require_safe(found, PUBLISHED)
    with pytest.raises(InputError, match="not in ST programs"):
        Options(schedule_with=("tables",), silicon="seen")


def test_drivers_load_every_table(compiled: dict[str, Compiled]) -> None:
    step = next(step for step in compiled["tables"].program.steps if step.epoch is not None and step.epoch.kept)
    assert step.epoch is not None
    alone = replace(step, epoch=replace(step.epoch, kept=frozenset()))
    assert epoch_functions(step, "net") == epoch_functions(alone, "net")


def test_without_the_controller_nothing_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "dilated.tflite"
    path.write_bytes(conv_model((1, 12, 12, 16), 16, (3, 3), 1, 0, 0, 2))
    assert kept(compile_file(path, replace(TABLES, epoch_controller=False)).program) == 0
