"""A compiled network on the emulated chip: its program as steps, its memories, and how to run it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atonc.machine.base.build_folder import read_whole
from atonc.machine.base.errors import AtoncError, InputError
from atonc.machine.base.frozen import brief, dataclass
from atonc.machine.base.user_c import CustomOperators
from atonc.machine.emu import cpu, tensors
from atonc.machine.emu.batches import Outputs, Session, as_declared, by_name
from atonc.machine.emu.bus import AddressSpace
from atonc.machine.emu.dma import Dma
from atonc.machine.emu.files.initialisers import InitialBytes, load_initialisers
from atonc.machine.emu.files.network_c import AWAIT_COPIES, START_COPIES, read_network
from atonc.machine.emu.files.types import BufferInfo, CompiledNetwork, EpochBlock, FunctionCall, Resident
from atonc.machine.emu.npu import Watch, run_epoch
from atonc.machine.emu.states import StateView, named_states, table_rows
from atonc.machine.hw import ll
from atonc.machine.hw.decode import Replay, decode_epochs
from atonc.machine.hw.dma import DmaCopy, DmaWork
from atonc.machine.hw.ec import instructions
from atonc.machine.hw.ec.blob import relocate
from atonc.machine.hw.epoch import Epoch
from atonc.machine.hw.four_bits import saved_form

ON_CHIP_BASE, ON_CHIP_BYTES = 0x3400_0000, 0x3C_0000  # AXISRAM1 to 6 lie side by side: pools may span them
_MAX_POOL_BYTES = 256 << 20


@dataclass(frozen=True)
class NetworkStep:
    """What is executed as one epoch."""

    number: int
    kind: str  # npu, cpu, hybrid
    epoch: Epoch | None = None
    calls: tuple[FunctionCall, ...] = ()
    blob: str = ""  # epoch-controller program that it is part of
    origin: tuple[str, ...] = ()
    dma: DmaWork | None = None  # before it

    @property
    def empty(self) -> bool:
        return not self.calls and self.dma is None and (self.epoch is None or self.epoch.empty)


@dataclass
class EmulatedNetwork:
    network: CompiledNetwork
    memory: AddressSpace
    steps: tuple[NetworkStep, ...]
    custom: CustomOperators = field(default_factory=dict)  # C operators of the user, by function
    __repr__ = brief

    @property
    def inputs(self) -> tuple[BufferInfo, ...]:
        return self.network.inputs

    @property
    def outputs(self) -> tuple[BufferInfo, ...]:
        return self.network.outputs

    def reset(self) -> None:
        """States get their first values, as where a sequence begins."""
        for state in self.network.states:
            self.memory.write(state.address, np.frombuffer(state.first, np.uint8))

    @property
    def states(self) -> tuple[StateView, ...]:
        """What the network keeps from one inference to the next, with the names that the build has told."""
        return named_states(self.network)

    def stream(self) -> Session:
        """A sequence on the emulated chip, frame by frame: states stay from one call to the next."""
        names, shown, rows = [info.name for info in self.inputs], self.states, table_rows(self.network)

        def run(frame: Mapping[str, Any]) -> Outputs:
            given = by_name(names, frame, [one.name for one in shown])
            for index, name in enumerate(names):
                tensors.require_rows(name, given[name], rows)
                self.write_input(index, given[name])
            for _ in self.run():
                pass
            return {info.name: self.read_output(index) for index, info in enumerate(self.outputs)}

        def states() -> Outputs:
            return {one.name: as_declared(one.read(self.memory), one.turned) for one in shown}

        return Session({info.name: tensors.io_shape(info) for info in self.inputs}, run, self.reset, states)

    def write_input(self, index: int, value: NDArray[Any]) -> None:
        tensors.write_input(self.inputs[index], value, self.memory)

    def read_output(self, index: int) -> NDArray[Any]:
        return tensors.read_memory_order(self.outputs[index], self.memory)

    def run(
        self, until: int | None = None, after: Callable[[NetworkStep], None] | None = None, watch: Watch | None = None
    ) -> Iterator[NetworkStep]:
        """Executes step by step and stops behind epoch `until`; `after` sees memory as each step left it, `watch`
        the streams between the units."""
        if until is not None and not isinstance(until, int):
            raise InputError(
                f"run() goes from epoch to epoch and takes no {type(until).__name__}",
                remedy="atonc.run(network, inputs) gives the outputs; network.stream() keeps the states",
            )
        return self._executed(until, after, watch)

    def _executed(
        self, until: int | None, after: Callable[[NetworkStep], None] | None, watch: Watch | None
    ) -> Iterator[NetworkStep]:
        self._dma.reset()
        for step in self.steps:
            if until is not None and step.number > until:
                return
            self.execute(step, watch)
            if after is not None:
                after(step)
            yield step
        self._dma.end()

    @cached_property
    def _dma(self) -> Dma:
        return Dma(self.memory)

    def execute(self, step: NetworkStep, watch: Watch | None = None) -> None:
        try:
            if step.dma is not None:
                self._dma.before(step.dma, f"epoch {step.number}")
            if step.epoch is not None and not step.epoch.empty:
                self._dma.check(step.epoch)
                run_epoch(step.epoch, self.memory, watch)
            for call in step.calls:
                cpu.run_call(call.name, list(call.args), self.memory, self.custom)
        except AtoncError as error:
            where = error.where if error.where.startswith("epoch ") else f"epoch {step.number} {error.where}".strip()
            error.where = where
            raise


def load(
    directory: Path, name: str | None = None, weights: Sequence[Path] | None = None, blob_file: Path | None = None
) -> EmulatedNetwork:
    """Reads a folder that the compiler wrote: C file, blobs, initialisers (or the named ones)."""
    network, segments = read_contents(directory, name, weights, blob_file)
    memory = memory_of(network)
    for segment in segments:
        memory.write(segment.address, np.frombuffer(segment.data, np.uint8))
    for copy in network.residents:
        memory.write(copy.address, initial_copy(copy, memory))
    steps = tuple(plan_steps(network, memory))
    if any(engine.four_bits for step in steps if step.epoch for engine in step.epoch.readers().values()):
        memory.four_bits = saved_form(network.directory / f"{network.stem}_program.json")
    found = EmulatedNetwork(network, memory, steps)
    found.reset()
    return found


def initial_copy(copy: Resident, memory: AddressSpace) -> NDArray[np.uint8]:
    """What the network writes into RAM when it is initialised."""
    if copy.bits == 8:
        return memory.read(copy.source, copy.size_bytes)
    pairs = memory.read(copy.source, -(-copy.size_bytes // 2)).view(np.int8)
    both = np.stack([(pairs << 4) >> 4, pairs >> 4], axis=1)
    return both.view(np.uint8).reshape(-1)[: copy.size_bytes]


def read_contents(
    directory: Path, name: str | None, weights: Sequence[Path] | None, blob_file: Path | None = None
) -> tuple[CompiledNetwork, Sequence[InitialBytes]]:
    """A network and what its memories hold at first, both of one build."""

    def read() -> tuple[CompiledNetwork, Sequence[InitialBytes]]:
        network = read_network(directory, name, blob_file=blob_file)
        return network, load_initialisers(network, weights)

    return read_whole(directory, read)


def memory_of(network: CompiledNetwork) -> AddressSpace:
    memory = AddressSpace()
    memory.add("on-chip RAM", ON_CHIP_BASE, ON_CHIP_BYTES)
    for pool in network.pools:
        if pool.virtual or pool.size_bytes == 0 or memory.region_at(pool.base) is not None:
            continue
        if pool.size_bytes > _MAX_POOL_BYTES:
            raise InputError(f"pool {pool.name} claims {pool.size_bytes} bytes", where=str(network.c_file))
        memory.add(pool.name, pool.base, pool.size_bytes)
    for user in network.user_buffers:
        if memory.region_at(user.address) is None:
            # engines may prefetch behind the end, exactly as behind any other buffer
            memory.add(user.symbol, user.address, user.size_bytes + 64)
    return memory


def plan_steps(network: CompiledNetwork, memory: AddressSpace) -> Iterator[NetworkStep]:
    """The epochs of all blocks in the order in which the runtime walks them."""
    replay = Replay()
    bases = network.relocation_bases()
    generation = ll.generation_of(network.atonn_version)
    for block in network.blocks:
        if block.blob is not None:
            steps = _blob_steps(network, block, bases, replay)
        else:
            steps = _block_steps(block, memory, replay, generation)
        yield from _with_dma(steps, _dma_work(network, block))


def _with_dma(steps: Iterator[NetworkStep], work: DmaWork | None) -> Iterator[NetworkStep]:
    """The first step of a block begins with what its processor does."""
    for step in steps:
        yield step if work is None else replace(step, dma=work)
        work = None


def _dma_work(network: CompiledNetwork, block: EpochBlock) -> DmaWork | None:
    """Copies are awaited before others begin, once each."""
    named = ((call, call.name.removesuffix(f"_{network.name}")) for call in (*block.start_calls, *block.end_calls))
    found = [(call, name) for call, name in named if name in (AWAIT_COPIES, START_COPIES)]
    if not found:
        return None
    order = [name for _, name in found]
    if order not in ([AWAIT_COPIES], [START_COPIES], [AWAIT_COPIES, START_COPIES]):
        raise InputError("copies ahead are awaited, then others begin", where=found[0][0].where)
    starts: tuple[DmaCopy, ...] = ()
    if order[-1] == START_COPIES:
        call = found[-1][0]
        first, count = (*call.args, None, None)[:2]
        if isinstance(first, int) and isinstance(count, int) and first >= 0 < count:
            starts = network.copies[first : first + count]
        if len(starts) != count:
            what = f"copies {first} and {count} more of {len(network.copies)}"
            raise InputError(what, where=call.where, rule="a list of copies ahead is a part of all of them")
    return DmaWork(order[0] == AWAIT_COPIES, starts)


def _blob_steps(
    network: CompiledNetwork, block: EpochBlock, bases: dict[str, int], replay: Replay
) -> Iterator[NetworkStep]:
    assert block.blob is not None
    container = network.blobs[block.blob]
    wanted = {r.symbol for r in container.relocations}
    blob = relocate(container, {symbol: base for symbol, base in bases.items() if symbol in wanted})
    program = instructions.decode(blob.program)
    for epoch in decode_epochs(program, replay, block.epoch_num or 0):
        yield NetworkStep(epoch.number, "npu", epoch, blob=block.blob)


def _block_steps(
    block: EpochBlock, memory: AddressSpace, replay: Replay, generation: ll.Generation
) -> Iterator[NetworkStep]:
    number = block.epoch_num if block.epoch_num is not None else block.index
    calls = (*block.start_calls, *block.end_calls)
    kernels = tuple(call for call in calls if cpu.is_library_call(call.name))
    if kernels:
        on_cpu = all(call.name.startswith(("ll_sw_", "atonc_")) for call in kernels)
        yield NetworkStep(number, "cpu" if on_cpu else "hybrid", calls=kernels)
        return
    if not any(ll.is_driver_call(call.name) for call in block.start_calls):
        yield NetworkStep(number, "npu")
        return

    def read(address: int, size_bytes: int) -> bytes:
        return memory.view(address, size_bytes).tobytes()

    driver = [call for call in block.start_calls if ll.is_driver_call(call.name)]
    undo = [call for call in block.end_calls if ll.is_driver_call(call.name)]
    program = ll.merged(ll.epoch_program(driver, block.wait_mask, undo, read, generation, number))
    for epoch in decode_epochs(program, replay, number):
        yield NetworkStep(number, "npu", epoch)
