"""CPU steps as epoch functions: calls of our kernels with addresses, numbers and tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from atonc.compiler.emit.c import caches, names
from atonc.compiler.emit.c.calls import Argument, ConstantTable, CpuCall, Pointer, Struct, tables_of
from atonc.compiler.emit.c.cpu_calls import cpu_calls
from atonc.compiler.emit.c.network import Block, CNetwork
from atonc.compiler.ir import Op
from atonc.compiler.plan.types import CpuPlan
from atonc.machine.base.frozen import dataclass

ARGUMENTS = "ATONC_EPOCH_ARGUMENTS"  # differs between releases of the runtime: network_c.py defines it


def end_function(block: Block) -> str:
    return f"LL_ATON_End_EpochBlock_{block.first}"


def text(network: CNetwork, block: Block, ops: Mapping[str, Op]) -> str:
    plan = block.steps[0].plan
    assert isinstance(plan, CpuPlan)
    made = cpu_calls(ops[plan.op], network.graph, network.shifts)
    body = _Body(network, {table: f"table_{number}" for number, table in enumerate(tables_of(made))})
    calls = [body.call(call) for call in made]
    lines = [*body.definitions(), *caches.before_cpu(network, block), *calls, *caches.after_cpu(network, block)]
    inner = "".join(f"  {line}\n" for line in lines)
    title = names.comment(plan.title)
    return f"/* epoch {block.first}: {title} */\nstatic void {end_function(block)}({ARGUMENTS})\n{{\n{inner}}}\n"


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
            members = ", ".join(f".{name} = {self.argument(member)}" for name, member in value.members)
            return f"&(const {value.ctype}){{ {members} }}"
        return _number(value)

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
