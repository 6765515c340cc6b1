"""Memory pools of relative mode: symbols in C and in programs, right for any base that is found at run time."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import atonc
from atonc.compiler.emit import relocs, write
from atonc.compiler.emit.c.files import network_c
from atonc.compiler.request.options import Options
from atonc.delivery.generate import generating
from atonc.machine.hw.ec import ec_program, relocate
from tests.emit.generated import DIGITS, digits, network_of


def test_the_board_decides_what_is_relative() -> None:
    assert not digits().compiled.program.relative
    program = digits(relocatable=True).compiled.program
    assert [pool.symbol for pool in program.relative] == ["xSPI2"]


def test_programs_move_with_the_pool() -> None:
    """The words of a relocated program are those of the plain one plus the distance, at the listed places only."""
    program = digits(relocatable=True).compiled.program
    base, distance = program.relative[0].address, 0x0123_4560
    seen = 0
    for run in write.npu_runs(program):
        container = relocs.container(program, run)
        plain = np.array(ec_program.words(step.epoch for step in run if step.epoch is not None), np.uint32)
        places = [place for relocation in container.relocations for place in relocation.offsets]
        for shift in (0, distance):
            moved = np.array(relocate(container, {"xSPI2": base + shift}).program, np.uint32)
            changed = np.flatnonzero(moved != plain)
            assert set(changed) == (set(places) if shift else set())
            assert (moved[changed] - plain[changed] == shift).all()
        seen += len(places)
    assert seen == 8, "start and limit of four readers of weights"


@pytest.mark.parametrize("epoch_controller", [True, False])
def test_no_address_of_the_pool_is_left(epoch_controller: bool) -> None:
    """Neither in calls of drivers and caches nor in tables; only the comment about the pool names its base."""
    network = network_of(digits(relocatable=True, epoch_controller=epoch_controller))
    text = re.sub(r"/\*.*?\*/", "", network_c(network), flags=re.S)
    assert "extern unsigned char _mem_pool_xSPI2_Default[];" in text
    numbers = [int(number, 16) for number in re.findall(r"0x[0-9a-fA-F]{8}", text)]
    pool = network.program.relative[0]
    assert not [number for number in numbers if pool.address <= number < pool.limit]


@pytest.mark.parametrize("epoch_controller", [True, False])
def test_the_emulator_reads_such_a_folder(tmp_path: Path, epoch_controller: bool) -> None:
    options = Options(verify=False, relocatable=True, epoch_controller=epoch_controller)
    view = generating.analyze(DIGITS, options)
    generating.generate(view, tmp_path)
    network = atonc.load(tmp_path)
    name = network.inputs[0].name
    image = np.random.default_rng(3).integers(-128, 128, (1, 8, 8, 1), dtype=np.int8)
    expected = atonc.run(view.compiled, {view.compiled.graph.inputs[0]: image})
    found = atonc.run(network, {name: image})
    assert np.array_equal(*(next(iter(values.values())).reshape(-1) for values in (found, expected)))


def test_stai_and_ram_constants_know_the_pool(tmp_path: Path) -> None:
    view = generating.analyze(DIGITS, Options(verify=False, relocatable=True))
    files = generating.files_of(view, with_stai=True)
    source = files["stai_network.c"].decode()
    assert "extern unsigned char _mem_pool_xSPI2_Default[];" in source
    assert "((uintptr_t)_mem_pool_xSPI2_Default + 0U)" in source
    header = files["network_memories.h"].decode()
    assert "wherever the firmware has it" in header
