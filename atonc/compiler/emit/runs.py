"""Which steps the epoch controller runs without help: one program for each such run.

Addresses that are known only at run time make a program one with symbols. Inputs and outputs that the application
supplies (`Program.user_io`) stand at addresses where the chip has no memory, pools of relative mode
(`Program.relative`) at the base of the pool file. Every start and limit of an engine there becomes a symbol plus an
offset, and the blob a container whose relocation table names these words: the loader adds the base of each symbol
before it starts the epoch controller.

And what a finished program takes from memory: its buffers, and what its C files keep in RAM besides.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, groupby

from atonc.compiler.emit.c.calls import tables_of
from atonc.compiler.emit.c.cpu_calls import cpu_calls
from atonc.compiler.emit.program import Movable, Program, ProgramStep
from atonc.compiler.ir import Graph
from atonc.compiler.place.pools import banks_of
from atonc.compiler.place.types import USER_BASE, USER_BYTES
from atonc.compiler.place.usage import MemoryUse, memory_use
from atonc.compiler.plan.types import CpuPlan
from atonc.machine.base.errors import InternalError, ToolError
from atonc.machine.hw import epoch as tables
from atonc.machine.hw import regs
from atonc.machine.hw.dma import LINK_BYTES
from atonc.machine.hw.ec import ec_program
from atonc.machine.hw.ec.blob import Blob, Container, Relocation
from atonc.machine.hw.ec.instructions import BurstWrite, BurstWriteInc, Instruction, Write
from atonc.machine.hw.ec.text import SymbolOffset, collect_relocations, container_of
from atonc.machine.hw.limits import NPU_CACHE_LINE
from atonc.machine.hw.mpool import MemoryPool

MOST_WORDS = 116_383  # of a program, in an application that ST ships; several in a row occur as well


def npu_runs(program: Program) -> list[list[ProgramStep]]:
    """The steps between CPU steps, in programs no longer than those that are known to work. Where the processor starts
    or awaits the DMA, another one begins."""
    begun = accumulate(step.dma is not None for step in program.steps)
    lists = {step.number: so_far for step, so_far in zip(program.steps, begun, strict=True)}
    found: list[list[ProgramStep]] = []
    for (on_npu, _), steps in groupby(program.steps, lambda step: (step.epoch is not None, lists[step.number])):
        found += _cut(list(steps)) if on_npu else []
    for run in found:
        _require_tables(run)
    return found


def _cut(steps: list[ProgramStep]) -> list[list[ProgramStep]]:
    found: list[list[ProgramStep]] = [[]]
    room = _most_words()
    for step in steps:
        size = ec_program.written_words(step.epoch) if step.epoch is not None else 0
        if found[-1] and size > room:
            found.append([])
            room = _most_words()
        found[-1].append(step)
        room -= size
    return found


def _most_words() -> int:
    """Without what ends a program."""
    return MOST_WORDS - len(ec_program.words([]))


def keep_tables(program: Program) -> Program:
    """The same without loading coefficients that are still there. A program of the controller begins without any, so it
    may run again, or after another network; where it must be cut, the next one loads its own."""
    steps: list[ProgramStep] = []
    held: tables.Held = {}
    room = whole = _most_words()
    for step in program.steps:
        if step.epoch is None:
            held, room = {}, whole
        else:
            held, room = ({}, whole) if step.dma is not None else (held, room)
            epoch = tables.keep_tables(step.epoch, held)
            if ec_program.written_words(epoch) > room and room < whole:
                held, room = {}, whole
                epoch = tables.keep_tables(step.epoch, held)
            room -= ec_program.written_words(epoch)
            step = replace(step, epoch=epoch)
        steps.append(step)
    return replace(program, steps=tuple(steps))


def _require_tables(run: Sequence[ProgramStep]) -> None:
    """What an epoch does not load, an earlier one of the same program has."""
    epochs = [step.epoch for step in run if step.epoch is not None]
    missing = tables.never_loaded(epochs) if any(epoch.kept for epoch in epochs) else []
    if missing:
        number, unit = missing[0]
        raise InternalError(
            f"{unit} relies on coefficients that its program has not loaded",
            where=f"epoch {number}",
            rule="a program of the epoch controller loads every table that it uses",
            remedy="report the model; without --schedule-with tables every epoch loads its own",
        )


VERSION = 0x20  # of containers that the oldest published loader takes; later loaders take 0x30 or 0x50 only
_ENGINES = {unit.id for unit in regs.UNIT_BY_NAME.values() if unit.kind == "STRENG"}
_ADDRESSES = {regs.registers("STRENG")[name].index for name in ("ADDR", "LIMITADDR")}


def instructions(program: Program, steps: Iterable[ProgramStep]) -> list[Instruction]:
    """A run of NPU steps for the epoch controller; what moves is a symbol plus an offset.

    The same as `ec_program.program` where nothing moves. `format_program` writes the symbols.
    """
    plain = ec_program.program(step.epoch for step in steps if step.epoch is not None)
    return [_symbolic(i, program.movable) for i in plain] if program.movable else plain


def relocations(program: Program, steps: Iterable[ProgramStep]) -> tuple[Relocation, ...]:
    """For one run of NPU steps: by symbol, the program words (counted without magic and length) to add its base to.

    Sorted by symbol, which is the order of the indices in the container; empty when the run touches nothing that moves.
    """
    return collect_relocations(instructions(program, steps))


def container(program: Program, steps: Iterable[ProgramStep], version: int = VERSION) -> Container:
    """The run as it is stored: a bare blob if nothing is relocated, else a container (`.words()`, `.relocations`)."""
    if program.movable:
        return container_of(instructions(program, steps), version)
    return Container(Blob(tuple(ec_program.words(step.epoch for step in steps if step.epoch is not None))))


def bases(program: Program, addresses: Mapping[str, int] | None = None) -> dict[str, int]:
    """Symbol -> base, for `hw.ec.relocate`: where what moves is, by default where the compiler saw it."""
    return {part.symbol: (addresses or {}).get(part.symbol, part.address) for part in program.movable}


def _symbolic(instruction: Instruction, parts: Sequence[Movable]) -> Instruction:
    if not isinstance(instruction, (Write, BurstWrite, BurstWriteInc)) or instruction.unit not in _ENGINES:
        return instruction
    if isinstance(instruction, Write):
        return replace(instruction, value=_value(instruction.reg, instruction.value, parts))
    step = 1 if isinstance(instruction, BurstWriteInc) else 0
    values = (_value(instruction.reg + step * k, value, parts) for k, value in enumerate(instruction.values))
    return replace(instruction, values=tuple(values))


def _value(register: int, value: int, parts: Sequence[Movable]) -> int:
    if register not in _ADDRESSES:
        return value
    owner = next((part for part in parts if part.address <= value < part.limit), None)
    if owner is not None:
        return SymbolOffset(value - owner.address, owner.symbol)
    if USER_BASE <= value < USER_BASE + USER_BYTES:
        raise ToolError(f"an engine is told {value:#x}, which belongs to no buffer of the application")
    return value


def program_memory(
    program: Program, graph: Graph, pools: Iterable[MemoryPool], epoch_controller: bool = True
) -> MemoryUse:
    """Kernels of the CPU add their constants, and no RAM: they work in the buffers that they are given and on the
    stack."""
    patched = _patched_bytes(program) if epoch_controller and program.movable else 0
    set_later = patched + LINK_BYTES * dma_links(program)
    return memory_use(program.placed.values(), banks_of(pools), set_later, code_constants_bytes(program, graph))


def code_constants_bytes(program: Program, graph: Graph) -> int:
    """What CPU layers know beforehand, as NAME.c holds it: weights, biases, scales, steps of loops."""
    ops = {op.name: op for op in graph.ops}
    shifts = {name: home.buffer.offset for name, home in program.placed.items() if home.buffer.offset}
    on_cpu = [ops[step.plan.op] for step in program.steps if isinstance(step.plan, CpuPlan)]
    return sum(table.size_bytes for op in on_cpu for table in tables_of(cpu_calls(op, graph, shifts)))


def dma_links(program: Program) -> int:
    """Blocks of the longest list of copies: NAME.c has room for one list."""
    return max(
        (sum(one.blocks for one in step.dma.starts) for step in program.steps if step.dma is not None), default=0
    )


def dma_notes(program: Program, channel: int | None) -> list[str]:
    """What `--prefetch dma` came to, and what nobody knows of it yet. Nothing without the option."""
    if channel is None:
        return []
    copies = [one for step in program.steps if step.dma is not None for one in step.dma.starts]
    if not copies:
        return ["--prefetch dma: nothing is copied, no list of copies would save time here"]
    moved = sum(one.size_bytes for one in copies)
    return [
        f"--prefetch dma: channel {channel} of HPDMA1 copies {moved:,} bytes ahead; emulated, not yet run on a board"
    ]


def _patched_bytes(program: Program) -> int:
    stored = (container(program, run) for run in npu_runs(program))
    return sum(copy_bytes(one) for one in stored if one.relocations)


def copy_bytes(container: Container) -> int:
    """A program in RAM, whose addresses are set there. Whole cache lines: nothing else shares the last one."""
    return -(-4 * len(container.blob.words()) // NPU_CACHE_LINE) * NPU_CACHE_LINE
