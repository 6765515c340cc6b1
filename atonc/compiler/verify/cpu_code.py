"""CPU steps of a compiled program as the C code that is written for them: its text is read back as `atonc run` reads a
folder, and the emulator's kernels compute its calls."""

from __future__ import annotations

from atonc.compiler.emit.c import cpu_functions
from atonc.compiler.emit.c.network import CNetwork
from atonc.compiler.emit.program import Program, ProgramStep
from atonc.compiler.ir import Graph
from atonc.compiler.ops.custom import of_graph
from atonc.compiler.plan.types import CpuPlan
from atonc.machine.base.errors import AtoncError, ToolError, VerificationError
from atonc.machine.base.user_c import UserCodeError
from atonc.machine.emu.bus import AddressSpace
from atonc.machine.emu.cpu import is_library_call, run_call
from atonc.machine.emu.files.c_values import FunctionReader, parse_unit
from atonc.machine.emu.files.types import FunctionCall
from atonc.machine.hw.mpool import MemoryPool

_MOST_KEPT = 64 << 20  # characters of C whose calls are kept: numbers in lists take several times their room


class CpuCode:
    """The CPU steps of a network as C says them, read when they run first; huge ones whenever they run."""

    def __init__(self, program: Program, graph: Graph, pools: tuple[MemoryPool, ...]) -> None:
        self.network = CNetwork("network", program, graph, pools, epoch_controller=False)
        self.blocks = {block.first: block for block in self.network.cpu_blocks}
        self.ops = {op.name: op for op in graph.ops}
        self.custom = of_graph(graph)
        self._known: dict[int, tuple[FunctionCall, ...]] = {}
        self._room = _MOST_KEPT

    def run(self, step: ProgramStep, plan: CpuPlan, memory: AddressSpace) -> None:
        for call in self.calls(step, plan):
            try:
                run_call(call.name, call.args, memory, self.custom, plan.op)
            except (ToolError, UserCodeError):  # of this machine or of the user, not of our code
                raise
            except AtoncError as error:
                raise _faulty(plan, f"the call of {call.name} does not run", error) from error

    def calls(self, step: ProgramStep, plan: CpuPlan) -> tuple[FunctionCall, ...]:
        if step.number not in self._known:
            text = cpu_functions.text(self.network, self.blocks[step.number], self.ops)
            try:
                calls = self._read(text, step.number)
            except ToolError:
                raise
            except AtoncError as error:
                raise _faulty(plan, "its C code cannot be read", error) from error
            self._room -= len(text)
            if self._room < 0:
                return calls
            self._known[step.number] = calls
        return self._known[step.number]

    def _read(self, text: str, number: int) -> tuple[FunctionCall, ...]:
        unit = parse_unit(text.encode(), f"{self.network.name}.c")
        movable = {self.network.c_symbol(part): part.address for part in self.network.program.movable}
        calls = FunctionReader(unit, movable).calls(cpu_functions.end_function(self.blocks[number]))
        return tuple(call for call in calls if is_library_call(call.name))


def _faulty(plan: CpuPlan, what: str, error: AtoncError) -> VerificationError:
    return VerificationError(
        f"{what}: {error.what}" + (f" ({error.where})" if error.where else ""),
        where=plan.op,
        rule="a CPU layer is verified as the C code that ships: the emulator has a twin of every kernel, and a layer "
        "touches nothing but its own buffers",
        remedy="report the model: nothing was written, because this code would not compute the layer",
    )
