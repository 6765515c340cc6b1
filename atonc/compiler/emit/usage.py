"""What a finished program takes from memory: its buffers, and what its C files keep in RAM besides."""

from __future__ import annotations

from collections.abc import Iterable

from atonc.compiler.emit import runs
from atonc.compiler.emit.c.calls import tables_of
from atonc.compiler.emit.c.cpu_calls import cpu_calls
from atonc.compiler.emit.program import Program
from atonc.compiler.emit.runs import npu_runs
from atonc.compiler.ir import Graph
from atonc.compiler.place.pools import banks_of
from atonc.compiler.place.usage import MemoryUse, memory_use
from atonc.compiler.plan.types import CpuPlan
from atonc.machine.hw.ec import Container
from atonc.machine.hw.limits import NPU_CACHE_LINE
from atonc.machine.hw.mpool import MemoryPool


def program_memory(
    program: Program, graph: Graph, pools: Iterable[MemoryPool], epoch_controller: bool = True
) -> MemoryUse:
    """Kernels of the CPU add their constants, and no RAM: they work in the buffers that they are given and on the
    stack."""
    patched = _patched_bytes(program) if epoch_controller and program.movable else 0
    return memory_use(program.placed.values(), banks_of(pools), patched, code_constants_bytes(program, graph))


def code_constants_bytes(program: Program, graph: Graph) -> int:
    """What CPU layers know beforehand, as NAME.c holds it: weights, biases, scales, steps of loops."""
    ops = {op.name: op for op in graph.ops}
    shifts = {name: home.buffer.offset for name, home in program.placed.items() if home.buffer.offset}
    on_cpu = [ops[step.plan.op] for step in program.steps if isinstance(step.plan, CpuPlan)]
    return sum(table.size_bytes for op in on_cpu for table in tables_of(cpu_calls(op, graph, shifts)))


def _patched_bytes(program: Program) -> int:
    stored = (runs.container(program, run) for run in npu_runs(program))
    return sum(copy_bytes(one) for one in stored if one.relocations)


def copy_bytes(container: Container) -> int:
    """A program in RAM, whose addresses are set there. Whole cache lines: nothing else shares the last one."""
    return -(-4 * len(container.blob.words()) // NPU_CACHE_LINE) * NPU_CACHE_LINE
