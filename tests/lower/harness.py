"""Runs lowered operators on the emulator: lower, place side by side, bind, check, execute."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atonc.emit import ec_program
from atonc.emit.program import Placed, bind_epoch
from atonc.emu.bus import Memory
from atonc.emu.npu import run_epoch
from atonc.hw import safety
from atonc.hw.decode import decode_epochs
from atonc.hw.ec import instructions
from atonc.hw.epoch import Epoch
from atonc.ir import Graph, Op, Quantisation, Tensor
from atonc.lower.context import Context, item_bytes
from atonc.lower.meaning.run import mapped_op
from atonc.lower.registry import recipe_for
from atonc.ops.run import start_values
from atonc.plan.types import BufferKind, EpochPlan, StepPlan
from atonc.reasons import Severity
from atonc.schedule import schedule
from atonc.schedule.assign import assign
from atonc.schedule.types import Work

Array = NDArray[Any]
RAM, FLASH = 0x3420_0000, 0x7000_0000


def activation(name: str, shape: tuple[int, ...], scale: float = 0.05, zero_point: int = 0) -> Tensor:
    return Tensor(name, shape, "int8", Quantisation.per_tensor(scale, zero_point))


def constant(name: str, data: Array, scale: Any = None, zero_point: int = 0, axis: int | None = None) -> Tensor:
    quant = None
    if scale is not None:
        scales = np.atleast_1d(np.asarray(scale, np.float64))
        quant = Quantisation(scales, np.full(scales.size, zero_point), axis if scales.size > 1 else None)
    return Tensor(name, data.shape, str(data.dtype), quant, data)


def graph_of(op: Op, *tensors: Tensor) -> Graph:
    by_name = {t.name: t for t in tensors}
    inputs = tuple(n for n in op.inputs if n and not by_name[n].is_constant)
    return Graph(by_name, (op,), inputs, op.outputs)


def lower(graph: Graph, numerics: str = "best") -> tuple[list[StepPlan], Context]:
    context = Context(graph, numerics)
    works = []
    for op in graph.ops:
        recipe = recipe_for(op.kind)
        assert recipe is not None, op.kind
        works.append(Work(op.name, tuple(recipe(op, context))))
    return list(assign(schedule(works))), context


def place(context: Context) -> dict[str, Placed]:
    """Every buffer on its own memory, far apart, so that a stray access shows."""
    placed, ram, flash = {}, RAM, FLASH
    for buffer in context.buffers.values():
        size = -(-(buffer.size_bytes + 128) // 64) * 64
        if buffer.kind == BufferKind.CONSTANT:
            placed[buffer.name] = Placed(buffer, flash, "octoFlash", 0, 0)
            flash += size
        else:
            placed[buffer.name] = Placed(buffer, ram, "npuRAM", 0, 0)
            ram += size
    return placed


def epochs_of(plans: list[StepPlan], placed: Mapping[str, Placed]) -> list[Epoch]:
    cached = frozenset({"octoFlash"})
    bound = [bind_epoch(p, k, placed, cached) for k, p in enumerate(plans, 1) if isinstance(p, EpochPlan)]
    words = instructions.encode(ec_program.program(bound))
    decoded = [e for e in decode_epochs(instructions.decode(words)) if not e.empty]
    assert [set(e.units) for e in decoded] == [set(e.units) for e in bound]
    return decoded


def run(graph: Graph, inputs: Mapping[str, Array], numerics: str = "best", check: bool = True) -> dict[str, Array]:
    """Output codes of a graph whose operators all lower to NPU epochs."""
    plans, context = lower(graph, numerics)
    for name in graph.outputs:
        context.buffer(name)
    placed = place(context)
    epochs = epochs_of(plans, placed)
    if check:
        # forms without evidence are the pipeline's to refuse: it knows the memories, and sends the operator to the CPU
        bad = [v for v in safety.check_program(epochs) if v.severity != Severity.NOTE and v.rule.id != "E01"]
        assert not bad, "\n".join(f"{v.where} {v.rule.id} {v.rule.sentence}: {v.seen}" for v in bad[:6])
    memory = Memory()
    memory.add("ram", RAM, 1 << 24)
    memory.add("flash", FLASH, 1 << 24)
    rng = np.random.default_rng(0)
    memory.view(RAM, 1 << 22)[:] = rng.integers(0, 256, 1 << 22, dtype=np.uint8)  # nothing may rely on zeros
    for home in placed.values():
        if home.buffer.data:
            memory.write(home.address, np.frombuffer(home.buffer.data, np.uint8))
    for name, value in inputs.items():
        memory.write(placed[name].address, np.ascontiguousarray(value).view(np.uint8).reshape(-1))
    for epoch in epochs:
        run_epoch(epoch, memory)
    outputs = {name: _read(graph.tensors[name], placed[name], memory) for name in graph.outputs}
    _check_meaning(graph, context, inputs, outputs)
    return outputs


def _check_meaning(
    graph: Graph, context: Context, inputs: Mapping[str, Array], outputs: Mapping[str, Array]
) -> None:
    """Bit for bit what the recipes say that they mean."""
    values = start_values(graph, inputs)
    for op in graph.ops:
        values |= zip(op.outputs, mapped_op(context, op, values), strict=True)
    for name, got in outputs.items():
        assert np.array_equal(got, values[name]), f"{name} is not what {graph.producers[name].kind} means"


def _read(tensor: Tensor, home: Placed, memory: Memory) -> Array:
    data = memory.read(home.address, tensor.elements * item_bytes(tensor))
    return data.view(tensor.dtype).reshape(tensor.shape)
