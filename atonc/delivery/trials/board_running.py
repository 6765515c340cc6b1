"""`atonc board run`: a firmware on the virtual board, its UART on a socket or a pseudo-terminal."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import field
from pathlib import Path

import numpy as np

from atonc.delivery.trials import mailbox
from atonc.machine.base.errors import InputError
from atonc.machine.base.frozen import dataclass
from atonc.machine.emu.board import VirtualBoard, read_firmware
from atonc.machine.emu.board.chip import ChipSetup, faults, mapped
from atonc.machine.emu.board.core import Halt
from atonc.machine.emu.board.gdb_server import GdbListening, GdbServer
from atonc.machine.emu.board.peripherals import AFTER_FIRST_STAGE
from atonc.machine.emu.board.semihosting import SEMIHOSTING, answer
from atonc.machine.emu.board.wires import PtyWire, SocketWire
from atonc.machine.emu.files.initialisers import read_hex

STRETCH = 2_000_000  # instructions between two looks at what the host wants
PATIENCE = 1_000_000_000  # instructions without a byte, an epoch or sleep, after which a firmware counts as hung
_PORT = re.compile(r"socket:(\d{1,5})")
_ADDRESS = re.compile(r"(.+)@(0x[0-9A-Fa-f]{1,8}|\d{1,10})(?:\+(0x[0-9A-Fa-f]{1,8}|\d{1,10}))?")
_MAX_FLASH = 256 << 20
HEX = ".hex"

Say = Callable[[str], None]


@dataclass(frozen=True)
class PreloadedFile:
    """A file that the host puts into memory before the start; `skip` bytes of it are left out."""

    path: Path
    address: int
    skip: int = 0


@dataclass(frozen=True)
class BoardRun:
    firmware: Path
    flash: tuple[PreloadedFile, ...] = ()
    serial: str = ""  # "", "pty", "pty:LINK" or "socket:PORT"
    first_stage: bool | None = None  # clocks as a first-stage loader leaves them; None: when it runs from flash
    seconds: float | None = None  # of the host's time
    patience: int = PATIENCE
    registers: bool = False  # tell which registers no model stands behind
    gdb: GdbListening | None = None  # a debugger decides when it runs
    strict: bool | None = None  # memories, clocks and rights as after reset; None: when it runs from RAM
    chip_faults: tuple[str, ...] = ()  # names of `chip.FAULTS`; they make the chip strict


@dataclass(frozen=True)
class BoardRunEnd:
    """How it ended: `bkpt` with its number, `exit`, `time`, `interrupted`, or `quit` by a debugger."""

    reason: str
    number: int
    instructions: int
    sent: int
    received: int
    epochs: int
    picture: tuple[str, ...] = field(default=(), repr=False)


def contents(text: str) -> PreloadedFile:
    """FILE@ADDRESS, or FILE@ADDRESS+BYTES to leave out the first bytes of the file; FILE.hex knows its addresses."""
    if text.endswith(HEX):
        return PreloadedFile(Path(text), 0)
    found = _ADDRESS.fullmatch(text)
    if not found:
        raise InputError(f"{text} is not FILE@ADDRESS", rule="as in model_rel.bin@0x71000000")
    return PreloadedFile(Path(found[1]), int(found[2], 0), int(found[3] or "0", 0))


def wire_for(text: str) -> SocketWire | PtyWire | None:
    if not text:
        return None
    if text == "pty" or text.startswith("pty:"):
        return PtyWire(Path(text[4:]) if text[4:] else None)
    found = _PORT.fullmatch(text)
    if not found or int(found[1]) > 65535:
        raise InputError(f"--serial {text} is neither pty[:LINK] nor socket:PORT")
    return SocketWire(int(found[1]))


def make_board(options: BoardRun) -> VirtualBoard:
    firmware = read_firmware(options.firmware)
    from_flash = firmware.vector_table >> 28 == 7
    first_stage = from_flash if options.first_stage is None else options.first_stage
    strict = not from_flash if options.strict is None else options.strict
    chip = None
    if strict or options.chip_faults:
        chip = (mapped("XSPI2") if from_flash or first_stage else ChipSetup()) + faults(*options.chip_faults)
    board = VirtualBoard(firmware, clocks=AFTER_FIRST_STAGE if first_stage else {}, chip=chip)
    put(board, options.flash)
    if mailbox.SYMBOL in firmware.symbols:  # the probes' firmware leaves out what the emulator does not know
        offset, asked = mailbox.request(0, mailbox.EMULATED)
        board.poke(firmware.symbols[mailbox.SYMBOL] + offset, np.frombuffer(asked, np.uint8))
    return board


def put(board: VirtualBoard, parts: Sequence[PreloadedFile]) -> None:
    for part in parts:
        if not part.path.is_file():
            raise InputError("no such file", where=str(part.path))
        if part.path.stat().st_size > _MAX_FLASH:
            raise InputError("larger than any memory of the board", where=str(part.path))
        if part.path.name.endswith(HEX):
            for address, content in read_hex(part.path):
                board.poke(address, np.frombuffer(content, np.uint8))
        else:
            board.poke(part.address, np.fromfile(part.path, np.uint8)[part.skip :])


def run_firmware(options: BoardRun, say: Say, stop: Callable[[], bool] = lambda: False) -> BoardRunEnd:
    wire = wire_for(options.serial)
    if wire is not None:
        say(f"UART at {wire.path}" if isinstance(wire, PtyWire) else f"UART at socket:127.0.0.1:{wire.port}")

    def make() -> VirtualBoard:
        board = make_board(options)
        if wire is not None:
            board.peripherals.connect(wire)
        board.serial.listen = lambda line: say(f"| {line}")
        return board

    board = None
    try:
        if options.gdb is None:
            board = make()
            halt = _run(board, options, stop)
        else:
            board, halt = _debug(make, options, say, stop)
    finally:
        if wire is not None:
            for uart in board.peripherals.uarts.values() if board is not None else ():
                uart.flush()
            wire.close()
    return _summary(board, halt, options)


def _debug(
    make: Callable[[], VirtualBoard], options: BoardRun, say: Say, stop: Callable[[], bool]
) -> tuple[VirtualBoard, Halt]:
    """A debugger says when it runs and stops; it may leave and come back."""
    began, limit = time.monotonic(), options.seconds
    assert options.gdb is not None
    server = GdbServer(make, options.gdb, lambda: stop() or (limit is not None and time.monotonic() - began > limit))
    say(f"gdb: target remote {server.host}:{server.port} (the board is halted at its reset)")
    server.serve()
    reason = "quit" if server.quit else "interrupted" if stop() else "time"
    return server.board, Halt(reason, server.board.core.pc)


def _run(board: VirtualBoard, options: BoardRun, stop: Callable[[], bool]) -> Halt:
    began, alive, alive_at = time.monotonic(), _signs_of_life(board), 0
    while True:
        if stop():
            return Halt("interrupted", board.core.pc)
        if options.seconds is not None and time.monotonic() - began > options.seconds:
            return Halt("time", board.core.pc)
        halt = board.go_on(STRETCH)
        if halt is not None:
            if halt.reason == "bkpt" and halt.number == SEMIHOSTING:
                said = answer(board.core)
                for byte in said.text.encode():
                    board.serial.put(byte)
                if said.exit_code is None:
                    continue
            return halt
        signs = _signs_of_life(board)
        if signs != alive:
            alive, alive_at = signs, board.core.instructions
        elif board.core.instructions - alive_at > options.patience:
            raise InputError(
                f"it seems to hang: {options.patience // 1_000_000} million instructions without a byte, an epoch or "
                "sleep",
                where=board.where(),
                remedy="\n".join(["see where it stands:", *board.picture()]),
            )


def _signs_of_life(board: VirtualBoard) -> tuple[int, ...]:
    uarts = board.peripherals.uarts.values()
    return (board.npu.epochs, board.clock.waited, *(uart.sent + uart.received for uart in uarts))


def _summary(board: VirtualBoard, halt: Halt, options: BoardRun) -> BoardRunEnd:
    uarts = board.peripherals.uarts.values()
    picture = [*board.picture(), *(board.accesses.unmodelled_lines() if options.registers else [])]
    reason = "exit" if halt.reason == "bkpt" and halt.number == SEMIHOSTING else halt.reason
    return BoardRunEnd(
        reason,
        halt.number,
        board.core.instructions,
        sum(uart.sent for uart in uarts),
        sum(uart.received for uart in uarts),
        board.npu.epochs,
        tuple(picture),
    )
