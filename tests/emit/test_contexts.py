"""The safety rules see the memories of the board and the buffers of every step."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from atonc.compiler.compile import pipeline
from atonc.compiler.emit.contexts import safety_contexts
from atonc.compiler.place import board
from atonc.compiler.plan.types import BufferKind
from atonc.compiler.request.options import Options
from atonc.compiler.search import silicon
from atonc.insight.runs import programs, runs
from atonc.machine.base.errors import ToolError
from atonc.machine.hw.safety import PoolKind, check_program
from atonc.machine.hw.safety.evidence import PUBLISHED

EXAMPLES = Path(__file__).parents[2] / "examples"
POOLS = board("dk").pools
PLAIN = Options(verify=False)


@pytest.fixture(scope="module")
def compiled() -> pipeline.Compiled:
    return pipeline.compile_file(EXAMPLES / "digits" / "digits.tflite", PLAIN)


def test_contexts_name_what_lives(compiled: pipeline.Compiled) -> None:
    found = safety_contexts(compiled.program, POOLS)
    assert set(found) >= {step.number for step in compiled.program.steps}
    for step in compiled.program.steps:
        names = {buffer.name for buffer in found[step.number].buffers}
        constant = {n for n, h in compiled.program.placed.items() if h.buffer.kind == BufferKind.CONSTANT}
        assert (step.plan.reads() | step.plan.writes()) - constant <= names
    assert "image" not in {buffer.name for buffer in found[len(found)].buffers}
    kinds = {pool.name: pool.kind for pool in found[1].pools}
    assert kinds["octoFlash"] == PoolKind.FLASH and kinds["hyperRAM"] == PoolKind.HYPERRAM


def test_every_buffer_lives_from_its_first_to_its_last_step(compiled: pipeline.Compiled) -> None:
    homes = [home for home in compiled.program.placed.values() if home.buffer.kind != BufferKind.CONSTANT]
    for number, context in safety_contexts(compiled.program, POOLS).items():
        wanted = [home.buffer.name for home in homes if home.first + 1 <= number <= home.last + 1]
        assert [buffer.name for buffer in context.buffers] == wanted


def test_a_writer_that_leaves_its_buffer_is_found(compiled: pipeline.Compiled) -> None:
    homes = dict(compiled.program.placed)
    homes["add"] = replace(homes["add"], buffer=replace(homes["add"].buffer, size_bytes=900))
    with pytest.raises(ToolError, match="M15"):
        silicon.require_safe(silicon.inspect(replace(compiled.program, placed=homes), POOLS), PUBLISHED)


def test_memory_that_the_board_does_not_have_is_found(compiled: pipeline.Compiled) -> None:
    used = {pool.name for pool in POOLS if compiled.layout.memory.by_pool.get(pool.name) and pool.writable}
    with pytest.raises(ToolError, match="M14"):
        others = [pool for pool in POOLS if pool.name not in used]
        silicon.require_safe(silicon.inspect(compiled.program, others), PUBLISHED)


def test_buffers_of_the_application_are_memory_too() -> None:
    own = replace(PLAIN, inputs_allocation=False, outputs_allocation=False, cut_outputs=("pool",))
    program = pipeline.compile_file(EXAMPLES / "digits" / "digits.tflite", own).program
    with pytest.raises(ToolError, match="M14"):
        silicon.require_safe(silicon.inspect(replace(program, user_io=()), POOLS), PUBLISHED)


def test_networks_in_folders_are_checked_with_their_own_pools() -> None:
    result = runs.run(runs.RunOptions(EXAMPLES / "first", seed=1))
    context = programs.network_context(result.net.network)
    epochs = [step.epoch for step in result.steps if step.epoch is not None]
    assert not [v for v in check_program(epochs, context) if v.rule.id in ("M13", "M14", "M15")]
    less = tuple(replace(pool, size_bytes=0x100) for pool in context.pools)
    assert "M14" in {v.rule.id for v in check_program(epochs, replace(context, pools=less))}
