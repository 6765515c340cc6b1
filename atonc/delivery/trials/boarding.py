"""Networks on the virtual board: build a firmware, run it, compare every output byte with the emulator."""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from atonc.compiler.emit.c import memories
from atonc.compiler.lower.sizes import item_bytes
from atonc.delivery.firmware import image as firmware
from atonc.delivery.firmware.image import ImageNetwork, Runtime
from atonc.insight.validating.sequences import unreset
from atonc.machine.base.build_folder import network_build, write_whole
from atonc.machine.base.errors import AtoncError, InputError
from atonc.machine.base.frozen import dataclass
from atonc.machine.base.progress import stage
from atonc.machine.base.words import count
from atonc.machine.emu.board import VirtualBoard, read_firmware
from atonc.machine.emu.board.board import DEFAULT_BUDGET
from atonc.machine.emu.bus import AddressSpace, Bytes
from atonc.machine.hw.board import USER_BUFFERS, find_board
from atonc.machine.hw.board import Board as Described
from atonc.machine.hw.machine import Machine

if TYPE_CHECKING:
    from atonc.compiler.compile.compile_view import CompileView
    from atonc.compiler.compile.pipeline import Compiled
    from atonc.compiler.inputs.inputs import Array, Sample
    from atonc.compiler.request.options import Options
    from atonc.compiler.verify.emulation import Emulation

Expectation = tuple[tuple[bytes, ...], tuple[bytes, ...]]  # inputs as they lie in memory, and what should come out
_READY = 1
_RUN, _SET_INPUT, _SET_OUTPUT, INSTALL, _RESET = 1, 2, 3, 4, 6  # as board_io.h numbers them
_LINE = 64


@dataclass(frozen=True)
class BoardBuffer:
    """An input or output as the firmware prints it."""

    address: int
    size_bytes: int
    user: bool  # the application supplies the memory


@dataclass(frozen=True)
class Inference:
    outputs: tuple[Bytes, ...]
    cycles: int  # CPU clock, from start to end as the firmware measures it
    npu_cycles: int
    instructions: int


class FirmwareError(InputError):
    """The firmware reported an error by itself."""

    def __init__(self, line: str, cause: AtoncError | None = None) -> None:
        late = "TIMEOUT" in line.split()
        super().__init__(
            f"the firmware says: {line}" + (f"; the NPU says: {cause}" if cause else ""),
            rule="its watchdog gave up: the NPU hangs, or takes longer at these clocks and this speed of the flash"
            if late
            else "",
            remedy="where --npu-mhz or --flash-mbps is low, raise it" if late else "",
        )
        self.line = line


class Rig:
    """A board with a firmware in it that waits for commands."""

    def __init__(
        self,
        elf: Path,
        networks: Sequence[ImageNetwork],
        budget: int = DEFAULT_BUDGET,
        start: bool = True,
        data_cache: bool = True,
        described: Described | None = None,
        machine: Machine | None = None,  # the board's; with other clocks where somebody asked for them
    ) -> None:
        self.described = described or find_board(firmware.DEFAULT_BOARD)
        self.machine = machine or self.described.machine()
        self.board, self.budget = VirtualBoard(read_firmware(elf), data_cache, machine=self.machine), budget
        for network in networks:
            self.board.memory.four_bits = self.board.memory.four_bits or network.four_bits
            for address, data in network.contents:
                self.board.poke(address, np.frombuffer(data, np.uint8))
        self.inputs: dict[int, list[BoardBuffer]] = {}
        self.outputs: dict[int, list[BoardBuffer]] = {}
        self.said: list[str] = []  # what the firmware printed during the last command
        self._read = 0
        self._given = 0  # bytes of the area for buffers that the application supplies
        if start:
            self.start()

    def start(self) -> None:
        """Runs the initialisation; errors that the firmware prints are raised."""
        self._learn(self._go())

    def put(self, address: int, data: bytes) -> None:
        """Bytes from the host; instructions that the processor has run there before are forgotten."""
        self.board.poke(address, np.frombuffer(data, np.uint8))
        self.board.core.uc.ctl_remove_cache(address, address + len(data))

    def _learn(self, lines: Sequence[str]) -> None:
        """Inputs and outputs that the firmware has printed; those without memory get some."""
        for line in lines:
            words = line.split()
            if words[:2] in (["ATONC", "IN"], ["ATONC", "OUT"]):
                side = self.inputs if words[1] == "IN" else self.outputs
                user = words[4] == "user"
                side.setdefault(int(words[2]), []).append(BoardBuffer(int(words[-2], 16), int(words[-1]), user))
        for number in self.inputs.keys() | self.outputs.keys():
            self._supply(number, self.inputs.get(number, []), _SET_INPUT)
            self._supply(number, self.outputs.get(number, []), _SET_OUTPUT)

    def run(self, inputs: Sequence[Bytes], network: int = 0, command: int = _RUN) -> Inference:
        """One inference; inputs and outputs are the bytes as they lie in memory."""
        board, buffers = self.board, self.inputs.get(network, [])
        if len(inputs) != len(buffers):
            what = f"{count(len(inputs), 'input')} for a network that has {len(buffers)}"
            raise InputError(what, where=f"network {network}")
        for buffer, value in zip(buffers, inputs, strict=True):
            if value.size != buffer.size_bytes:
                raise InputError(f"input of {value.size} bytes for a buffer of {buffer.size_bytes}")
            board.poke(buffer.address, value)
        npu, instructions = board.npu.cycles, board.core.instructions
        lines = self.command(command, network)
        done = [line.split() for line in lines if line.startswith("ATONC RUN")]
        if not done:
            raise FirmwareError(lines[-1] if lines else "nothing")
        found = tuple(board.memory.read(b.address, b.size_bytes) for b in self.outputs.get(network, []))
        return Inference(found, int(done[0][-1]), board.npu.cycles - npu, board.core.instructions - instructions)

    def reset(self, network: int = 0) -> None:
        """States get their first values, where a sequence begins."""
        self.command(_RESET, network)

    def _supply(self, network: int, buffers: list[BoardBuffer], command: int) -> None:
        for index, buffer in enumerate(buffers):
            if buffer.user:
                size = -(-buffer.size_bytes // _LINE) * _LINE
                address = self._room(size + _LINE)  # engines may prefetch behind the end
                lines = self.command(command, network, index, address, size)
                if "ATONC BUFFER 0" not in lines:
                    raise FirmwareError(lines[-1] if lines else "nothing")
                buffers[index] = BoardBuffer(address, buffer.size_bytes, True)

    def _room(self, size: int) -> int:
        area = self.described.area(USER_BUFFERS)
        if area is None or self._given + size > area.size_bytes:
            raise InputError(
                f"{self._given + size:,} bytes of buffers that the application supplies",
                where=self.described.file,
                rule=f"they go to the area {USER_BUFFERS!r} of the board"
                + (f", which has {area.size_bytes:,}" if area else ", which has none"),
                remedy="name such an area in the board file, or let the network have its own inputs and outputs",
            )
        self._given += size
        return area.base + self._given - size

    def command(self, *words: int) -> list[str]:
        """Lets the firmware do it; the lines that it prints."""
        place = self.board.firmware.symbols["board_host"]
        self.board.poke(place, np.array([*words, 0, 0, 0][:5], "<u4").view(np.uint8))
        return self._go()

    def _go(self) -> list[str]:
        stop = self.board.run(self.budget)
        lines = self.board.serial.lines[self._read :]
        self._read += len(lines)
        self.said = lines
        bad = [line for line in lines if line.startswith("ATONC ERROR")]
        if bad or stop.number != _READY:
            raise FirmwareError(bad[0] if bad else lines[-1] if lines else "nothing", self.board.npu.fault)
        return lines


# -------------------------------------------------------------------------------------------------------- validation


@dataclass(frozen=True)
class BoardValidation:
    """How a compiled model behaved as Arm code."""

    runtime: str
    samples: int
    outputs: int
    bytes_compared: int
    bytes_different: int
    cycles: int  # of the last inference, at the CPU's clock
    npu_cycles: int
    instructions: int
    npu_mhz: float  # the clocks that the board had
    cpu_mhz: float
    flash_mb_per_s: float
    first_difference: str = ""
    sequences: int = 0  # of a network with states: each from a reset on, its states compared after every frame

    @property
    def equal(self) -> bool:
        return self.bytes_different == 0


def choose_runtime(folder: Path | None, polling: bool = False) -> Runtime:
    mode = firmware.POLLING if polling else firmware.ASYNC
    return firmware.our_runtime(mode) if folder is None else firmware.vendor_runtime(folder, mode)


def image_network(view: CompileView, folder: Path) -> ImageNetwork:
    """Writes the files of a compiled model and describes them for the build."""
    from atonc.delivery.generate.generating import c_network, files_of

    write_whole(folder, files_of(view), network_build(view.name))
    network = c_network(view)
    ranges = tuple((h.address, h.end) for h in view.compiled.program.placed.values() if not h.user_allocated)
    files = [(pool.base, folder / f"{memories.file_stem(network, pool)}.raw") for pool in memories.by_pool(network)]
    contents = tuple((base, file.read_bytes()) for base, file in files)
    symbols = tuple((network.c_symbol(pool), pool.address) for pool in view.compiled.program.relative)
    form = network.program.four_bits
    reset = firmware.reset_function(view.name) if network.program.states else ""
    return ImageNetwork(network.suffix, folder / f"{view.name}.c", ranges, contents, symbols, form, reset)


def validate_on_board(
    view: CompileView,
    samples: Sequence[Sample],
    runtime_folder: Path | None = None,
    budget: int = DEFAULT_BUDGET,
    starts: Collection[int] = (0,),
) -> BoardValidation:
    """The model as a firmware on the virtual board, sample by sample against the emulator. `starts`: of a network with
    states, the samples with which sequences begin."""
    runtime = choose_runtime(runtime_folder)
    with tempfile.TemporaryDirectory(prefix="atonc_") as temporary:
        folder = Path(temporary)
        network, board = image_network(view, folder / "network"), find_board(view.options.board)
        stage("building the firmware")
        elf = firmware.build_firmware([network], runtime, folder / "build", board=board)
        rig = Rig(elf, [network], budget, described=board, machine=view.compiled.target.machine)
    return compare(view, samples, rig, runtime.label, starts=starts)


def validate_built(
    c_file: Path,
    asked: Options,
    turns: Iterable[Expectation],
    runtime_folder: Path | None = None,
    kept: KeptStates | None = None,
) -> BoardValidation:
    """The same for a folder that was written before, with the options `asked`; `turns` are its inputs with what should
    come out."""
    from atonc.compiler.request.target import with_asked_clocks

    runtime = choose_runtime(runtime_folder)
    described = find_board(asked.board or firmware.DEFAULT_BOARD)
    machine = with_asked_clocks(described.machine(), asked)
    network = firmware.network_in(c_file.parent, c_file.stem)
    with tempfile.TemporaryDirectory(prefix="atonc_") as temporary:
        stage("building the firmware")
        elf = firmware.build_firmware([network], runtime, Path(temporary) / "build", board=described)
        rig = Rig(elf, [network], described=described, machine=machine)
    return compare_turns(turns, rig, runtime.label, kept=kept)


def compare(
    view: CompileView,
    samples: Sequence[Sample],
    rig: Rig,
    label: str = "atonc",
    number: int = 0,
    starts: Collection[int] = (0,),
) -> BoardValidation:
    """Every output byte of one network of an image against the emulator, and every byte of its states."""
    from atonc.compiler.verify.emulation import Emulation

    emulation, program = Emulation(view.compiled.program, view.compiled.graph), view.compiled.program
    turns = _expected(view, emulation, samples, starts)
    kept = KeptStates([(one.address, one.size_bytes) for one in program.states], emulation.memory, starts)
    return compare_turns(turns, rig, label, number, view.compiled.graph.frame_outputs, kept)


def _expected(
    view: CompileView, emulation: Emulation, samples: Sequence[Sample], starts: Collection[int]
) -> Iterator[Expectation]:
    for turn, sample in enumerate(samples):
        if turn in starts:
            emulation.reset()
        found = expectation(view.compiled, emulation, sample)
        stage("running on the virtual board", turn, len(samples))
        yield found


def expectation(compiled: Compiled, emulation: Emulation, sample: Sample) -> Expectation:
    """What the emulator makes of a sample."""
    from atonc.compiler.inputs.inputs import frame_inputs

    inputs, graph = frame_inputs(compiled, sample), compiled.graph
    stored = tuple(stored_input(emulation, name, inputs[name]).tobytes() for name in graph.frame_inputs)
    emulation.run(inputs)
    homes = [(compiled.program.placed[name].address, emulation.load(name).nbytes) for name in graph.frame_outputs]
    return stored, tuple(emulation.memory.read(*home).tobytes() for home in homes)


@dataclass(frozen=True)
class KeptStates:
    """Where the emulator has the states of the turn that it gave last, and with which turns sequences begin."""

    ranges: Sequence[tuple[int, int]]  # address and bytes
    memory: AddressSpace
    starts: Collection[int] = (0,)

    def beside(self, rig: Rig) -> Iterator[tuple[str, Bytes, Bytes]]:
        """What the board has in these memories, and the emulator."""
        for place in self.ranges:
            yield f"state at {place[0]:#x}", rig.board.memory.read(*place), self.memory.read(*place)


def compare_turns(
    turns: Iterable[Expectation],
    rig: Rig,
    label: str = "atonc",
    number: int = 0,
    names: Sequence[str] = (),
    kept: KeptStates | None = None,
) -> BoardValidation:
    compared = different = count = resets = 0
    first, last = "", None
    for turn, (stored, expected) in enumerate(turns):
        if kept is not None and kept.ranges and turn in kept.starts:
            rig.reset(number)
            resets += 1
        last = rig.run([np.frombuffer(value, np.uint8) for value in stored], number)
        count += 1
        pairs = [
            (f"output {names[k] if names else k}", found, np.frombuffer(bytes_, np.uint8))
            for k, (found, bytes_) in enumerate(zip(last.outputs, expected, strict=True))
        ]
        pairs += kept.beside(rig) if kept is not None else ()
        for what, found, right in pairs:
            wrong = np.flatnonzero(found != right)
            compared, different = compared + found.size, different + wrong.size
            if wrong.size and not first:
                first = f"sample {turn}, {what}, byte {wrong[0]}: {found[wrong[0]]} not {right[wrong[0]]}"
                first += unreset(turn, kept.starts) if kept is not None and resets else ""
    return BoardValidation(
        runtime=label,
        samples=count,
        outputs=len(last.outputs) if last else 0,
        bytes_compared=compared,
        bytes_different=different,
        cycles=last.cycles if last else 0,
        npu_cycles=last.npu_cycles if last else 0,
        instructions=last.instructions if last else 0,
        npu_mhz=rig.machine.clocks.npu_mhz,
        cpu_mhz=rig.machine.clocks.cpu_mhz,
        flash_mb_per_s=rig.machine.clocks.flash_mb_per_s,
        first_difference=first,
        sequences=resets,
    )


def stored_input(emulation: Emulation, name: str, value: Array) -> Bytes:
    """The input as bytes; taken before the program runs, which may write over it."""
    emulation.store(name, value)
    home = emulation.program.placed[name]
    return emulation.memory.read(home.address, value.size * item_bytes(emulation.graph.tensors[name]))
