"""What the processor does: CPU steps as functions that call our kernels, and cache maintenance around the NPU.

Buffers that the CPU or the application touches begin at a cache line of their own, so whole lines may be cleaned and
invalidated. The rules:
- the CPU reads what the NPU wrote, or writes beside it: lines are dropped before the NPU writes (none may be evicted
  over its results) and again before the CPU starts (the processor may have fetched some meanwhile);
- the CPU wrote: lines are cleaned at once, for the NPU, for other masters, and so that nothing dirty is left behind;
- states that the NPU wrote in the run before are read from memory, too;
- inputs are the application's duty, as in ST's networks: clean after writing them with the CPU.
Activations never pass through the NPU cache; constants do, and never change.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from atonc.compiler.emit.c import names
from atonc.compiler.emit.c.calls import Argument, ConstantTable, CpuCall, Pointer, Struct, Word, tables_of
from atonc.compiler.emit.c.cpu_calls import cpu_calls
from atonc.compiler.emit.c.network import Block, CNetwork
from atonc.compiler.emit.program import UserBuffer
from atonc.compiler.ir import Op
from atonc.compiler.place.types import Placed
from atonc.compiler.plan.types import BufferKind, CpuPlan
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.limits import CPU_CACHE_LINE


def end_function(block: Block) -> str:
    return f"LL_ATON_End_EpochBlock_{block.first}"


def text(network: CNetwork, block: Block, ops: Mapping[str, Op]) -> str:
    plan = block.steps[0].plan
    assert isinstance(plan, CpuPlan)
    made = cpu_calls(ops[plan.op], network.graph, network.shifts)
    body = _Body(network, {table: f"table_{number}" for number, table in enumerate(tables_of(made))})
    calls = [body.call(call) for call in made]
    before = (*of_dma(network, block), *before_cpu(network, block))
    lines = [*body.definitions(), *before, *calls, *after_cpu(network, block)]
    return f"/* epoch {block.first}: {names.comment(plan.title)} */\n{function(end_function(block), lines)}"


def function(name: str, lines: Iterable[str]) -> str:
    """Its arguments differ between releases of the runtime: `<name>.c` defines them."""
    inner = "".join(f"  {line}\n" for line in lines)
    return f"static void {name}(ATONC_EPOCH_ARGUMENTS)\n{{\n{inner}}}\n"


@dataclass(frozen=True)
class _Body:
    """Statements of one function, and the names of its tables."""

    network: CNetwork
    tables: Mapping[ConstantTable, str]

    def call(self, call: CpuCall) -> str:
        arguments = ",\n    ".join(self.argument(argument) for argument in call.arguments)
        return f"{call.function}(\n    {arguments});"

    def argument(self, value: Argument) -> str:
        if isinstance(value, Pointer):
            const = "const " if value.constant else ""
            return f"({const}{value.ctype} *){self.network.address(value.buffer, value.offset_bytes)}"
        if isinstance(value, ConstantTable):
            return self.tables[value]
        if isinstance(value, Struct):
            members = ", ".join(f".{name} = {self.member(name, member)}" for name, member in value.members)
            return f"&(const {value.ctype}){{ {members} }}"
        if isinstance(value, Word):
            return value.name
        return _number(value)

    def member(self, name: str, value: Argument) -> str:
        """Data of a tensor may lie in a table: its pointer is one for all tensors."""
        cast = "(void *)" if name == "data" and isinstance(value, ConstantTable) else ""
        return f"{cast}{self.argument(value)}"

    def definitions(self) -> Iterator[str]:
        for table, name in self.tables.items():
            values = names.lines_of(_numbers(table), 12, "    ")
            yield f"static const {table.ctype} {name}[{len(table.values)}] = {{\n{values}  }};"


def _numbers(table: ConstantTable) -> Iterable[str]:
    if table.ctype == "float":
        return names.float_literals(table.values)
    if table.ctype == "double":
        return map(names.double_literal, map(float, table.values))
    return names.int_literals([int(value) for value in table.values])


def _number(value: int | float) -> str:
    """Floats are doubles: kernels compute in double precision, and scales must arrive exactly."""
    return names.double_literal(value) if isinstance(value, float) else names.int_literal(value)


INVALIDATE = "LL_ATON_Cache_MCU_Invalidate_Range"
CLEAN = "LL_ATON_Cache_MCU_Clean_Range"
CLEAN_INVALIDATE = "LL_ATON_Cache_MCU_Clean_Invalidate_Range"

Key = tuple[int, int, int]


@dataclass(frozen=True)
class CacheRange:
    start: int
    end: int
    user: UserBuffer | None = None


def of_dma(network: CNetwork, block: Block) -> list[str]:
    """What is done first: copies are awaited, others begin."""
    step = block.steps[0]
    if step.dma is None:
        return []
    lines = [f"ATONC_Await_Copies_{network.suffix}();"] if step.dma.waits else []
    if step.dma.starts:
        first, count = network.copies_before(step.number), len(step.dma.starts)
        lines.append(f"ATONC_Start_Copies_{network.suffix}({first}U, {count}U);")
    return lines


def before_npu(network: CNetwork, block: Block) -> list[str]:
    """Before a run of epochs: copies ahead; results for the CPU or the application are not in the cache."""
    readers = [name for other in network.blocks if other.on_cpu for name in other.reads()]
    wanted = {_key(network.home(name)) for name in (*readers, *network.program.outputs)}
    touched = [name for name in sorted(block.writes()) if _key(network.home(name)) in wanted]
    return [*of_dma(network, block), *_calls(network, INVALIDATE, touched)]


def before_cpu(network: CNetwork, block: Block) -> list[str]:
    """Before a CPU step: what the NPU wrote is read from memory, and never overwritten with older bytes where both
    write parts of one buffer."""
    written = _state_writers(network)
    for other in network.blocks:
        if other is block:
            break
        written |= {_key(network.home(name)): other for name in other.writes()}
    fresh = []
    for name in sorted(block.reads() | block.writes()):
        home = network.home(name)
        writer = written.get(_key(home))
        if home.buffer.kind != BufferKind.CONSTANT and writer is not None and not writer.on_cpu:
            fresh.append(name)
    return _calls(network, INVALIDATE, fresh)


def _state_writers(network: CNetwork) -> dict[Key, Block]:
    """Who wrote the states that the run before has left."""
    writers = {name: block for block in network.blocks for name in block.writes()}
    ends = ((network.home(one.name), writers.get(one.output)) for one in network.program.states)
    return {_key(home): writer for home, writer in ends if writer is not None}


def after_cpu(network: CNetwork, block: Block) -> list[str]:
    return _calls(network, CLEAN, sorted(block.writes()))


def _key(home: Placed) -> Key:
    """Buffers that share memory at the same time are the same memory."""
    return home.address, home.first, home.last


def _calls(network: CNetwork, function: str, buffers: Iterable[str]) -> list[str]:
    lines = []
    for part in _merged(_lines(network, name) for name in buffers):
        size = part.end - part.start
        if part.user is None:
            lines.append(f"{function}({network.place(part.start)}, {size}U);")
            continue
        # the application may keep something else in the last line: nothing of it is thrown away
        name = CLEAN_INVALIDATE if function == INVALIDATE and part.user.size_bytes % CPU_CACHE_LINE else function
        start = part.start - part.user.address
        lines.append(f"{name}((uintptr_t){network.c_symbol(part.user)} + {start}U, {size}U);")
    return lines


def _lines(network: CNetwork, buffer: str) -> CacheRange:
    home = network.home(buffer)
    start = home.address // CPU_CACHE_LINE * CPU_CACHE_LINE
    end = -(-max(home.end, home.address + 1) // CPU_CACHE_LINE) * CPU_CACHE_LINE
    return CacheRange(start, end, network.user_of(buffer))


def _merged(ranges: Iterable[CacheRange]) -> Iterator[CacheRange]:
    """Merges ranges by address, so that each cache line occurs once."""
    current: CacheRange | None = None
    for part in sorted(set(ranges), key=lambda r: (r.start, r.end)):
        if current is not None and part.user == current.user and part.start <= current.end:
            current = CacheRange(current.start, max(current.end, part.end), current.user)
            continue
        if current is not None:
            yield current
        current = part
    if current is not None:
        yield current
