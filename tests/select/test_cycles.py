"""What a form is said to take before placement is nearly what the finished program takes by the same model."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from atonc.compiler.compile.pipeline import compile_canonical, memories
from atonc.compiler.ir import Op
from atonc.compiler.lower.map_ops import map_ops
from atonc.compiler.plan.build import TaskBuilder
from atonc.compiler.plan.streams import contiguous
from atonc.compiler.plan.types import Buffer, BufferKind
from atonc.compiler.request.options import Options
from atonc.compiler.schedule.pack import packed
from atonc.compiler.select.cycles import assumed_epoch, cycles_of, epoch_cycles
from atonc.machine.hw.cycles import hardware
from atonc.machine.hw.ec import ec_program
from atonc.machine.hw.machine import FLASH, HYPERRAM, NPU_RAM, stm32n6
from tests.lower import harness


@pytest.mark.parametrize(
    "asked", [{}, {"npu_mhz": 400}, {"flash_mbps": 99}, {"epoch_controller": False}], ids=lambda asked: str(asked)
)
def test_a_form_takes_what_its_program_takes(asked: dict[str, Any]) -> None:
    weights = np.random.default_rng(1).integers(-9, 9, (32, 3, 3, 16)).astype(np.int8)
    tensors = (
        harness.activation("x", (1, 24, 24, 16), zero_point=3),
        harness.constant("w", weights, np.full(32, 0.01), axis=0),
        harness.activation("y", (1, 24, 24, 32), scale=0.5),
    )
    attrs = {"padding": (1, 1, 1, 1), "stride": (1, 1), "dilation": (1, 1), "layout": "NHWC"}
    graph = harness.graph_of(Op("conv", "c", ("x", "w"), ("y",), attrs), *tensors)
    options = Options(verify=False, **asked)
    memory = memories(options)
    compiled = compile_canonical(graph, graph, options, memory)
    placed = compiled.cost.cycles
    assert abs(compiled.mapped.forms["c"].cycles - placed) <= 0.02 * placed


def test_banks_are_assumed_by_what_a_buffer_is() -> None:
    huge = sum(bank.size_bytes for bank in stm32n6().npu_ram) + 1
    kinds = {"constant": BufferKind.CONSTANT, "huge": BufferKind.ACTIVATION, "small": BufferKind.ACTIVATION}
    buffers = {name: Buffer(name, huge if name == "huge" else 64, kind) for name, kind in kinds.items()}
    b = TaskBuilder(("c",), "copies")
    for source, target in (("constant", "small"), ("huge", "small")):
        b.write(b.read(source, contiguous(64)), target, contiguous(64, write=True))
    group = b.alone()
    kept = {**buffers, "constant": replace(buffers["constant"], near=True)}
    for known, target, expected in (
        (buffers, harness.TARGET, FLASH),
        (kept, harness.TARGET, NPU_RAM),
        (buffers, replace(harness.TARGET, weights_near=True), NPU_RAM),
    ):
        epoch = assumed_epoch(group.tasks, known, target)
        banks = [stm32n6().memory_at(engine.address) for engine in epoch.readers().values()]
        assert [bank.kind for bank in banks if bank is not None] == [expected, HYPERRAM]
    slower = {**buffers, "small": Buffer("small", huge, BufferKind.ACTIVATION)}
    assert cycles_of([group], slower, harness.TARGET) > cycles_of([group], buffers, harness.TARGET)


def test_epochs_that_look_alike_are_priced_once_and_all_others_by_themselves() -> None:
    """Remembered cycles are those of the model: other tables and buffers make no difference, everything else may."""
    machine, rng = stm32n6(), np.random.default_rng(2)
    for channels, size, seed in ((16, 24, 1), (16, 24, 2), (24, 24, 1), (16, 40, 1)):
        weights = np.random.default_rng(seed).integers(-9, 9, (32, 3, 3, channels)).astype(np.int8)
        tensors = (
            harness.activation("x", (1, size, size, channels), zero_point=3),
            harness.constant("w", weights, rng.uniform(0.005, 0.05, 32), axis=0),
            harness.activation("y", (1, size, size, 32), scale=0.5),
        )
        attrs = {"padding": (1, 1, 1, 1), "stride": (1, 1), "dilation": (1, 1), "layout": "NHWC"}
        mapped = map_ops(harness.facts(harness.graph_of(Op("conv", "c", ("x", "w"), ("y",), attrs), *tensors)))
        for form in (mapped.forms["c"], *(other.form for other in mapped.forms["c"].alternatives)):
            buffers = {**form.earlier, **form.buffers}
            for tasks in packed(form.groups):
                epoch = assumed_epoch(tasks, buffers, harness.TARGET)
                alone = hardware.epoch_cycles(replace(epoch, words=ec_program.epoch_words(epoch)), machine).cycles
                assert epoch_cycles(tasks, buffers, harness.TARGET) == alone
