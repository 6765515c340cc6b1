"""The NPU of the virtual board by its registers: versions, programs, interrupts, errors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from atonc.machine.base.errors import InputError
from atonc.machine.emu import network as emulator
from atonc.machine.emu.board import VirtualBoard, read_firmware
from atonc.machine.emu.files.initialisers import load_initialisers
from tests.board.programs import build, needs_compiler

pytestmark = needs_compiler
FIRST = Path(__file__).parents[2] / "examples" / "first"
REGISTERS = """
#define NPU 0x580E0000u
#define INTCTRL (NPU + 0x1000u)
#define EPOCHCTRL (NPU + 0x1E000u)
static void start(const void *program) {
    WORD(EPOCHCTRL + 0) = 2; WORD(EPOCHCTRL + 0) = 1u << 30;
    WORD(EPOCHCTRL + 8) = (uint32_t)(uintptr_t)program;
    WORD(EPOCHCTRL + 0) = 1;
}
"""
BLOB = f"""
#define ECBLOB_CONST_SECTION
#include "{FIRST}/network_ecblobs.h"
"""
BY_POLLING = """
int main(void) { start(_ec_blob_first_1); uint32_t looks = 0; while (WORD(EPOCHCTRL + 0) >> 31) looks++;
    board_print_number(looks); board_print(" "); board_print_number(WORD(EPOCHCTRL + 0x1C)); return 0; }
"""
BY_INTERRUPT = """
volatile uint32_t done;
void NPU0_IRQHandler(void) { uint32_t lines = WORD(INTCTRL + 8); done = WORD(EPOCHCTRL + 12);
    WORD(EPOCHCTRL + 12) = done; WORD(INTCTRL + 16) = lines; board_print_hex(lines); }
int main(void) { WORD(INTCTRL + 0x14) = 0x3ff; WORD(INTCTRL) = 1; WORD(0xE000E104u) = 1u << 21; start(PROGRAM);
    while (!done) __asm volatile("wfe"); board_print(" "); board_print_number(done); return 0; }
"""


def loaded(folder: Path, text: str) -> VirtualBoard:
    return VirtualBoard(read_firmware(build(folder, REGISTERS + text)))


def run_first(board: VirtualBoard) -> None:
    """The network of examples/first on this board and on the emulator: the same bytes."""
    net = emulator.load(FIRST)
    image = np.random.default_rng(5).integers(-128, 128, net.inputs[0].shape).astype(np.int8)
    for segment in load_initialisers(net.network):
        board.memory.write(segment.address, np.frombuffer(segment.data, np.uint8))
    net.write_input(0, image)
    given, wanted = net.inputs[0], net.outputs[0]
    board.memory.write(given.address, net.memory.read(given.address, given.size_bytes))
    list(net.run())
    board.run()
    found = board.memory.read(wanted.address, wanted.size_bytes)
    assert np.array_equal(found, net.memory.read(wanted.address, wanted.size_bytes))
    assert found.any()


def test_program_by_polling(tmp_path: Path) -> None:
    board = loaded(tmp_path, BLOB + BY_POLLING)
    run_first(board)
    assert board.serial.text == "1 3"
    assert board.npu.cycles > 1000 and board.clock.waited > 1000


def test_program_by_interrupt(tmp_path: Path) -> None:
    board = loaded(tmp_path, BLOB + BY_INTERRUPT.replace("PROGRAM", "_ec_blob_first_1"))
    run_first(board)
    assert board.serial.text == "0x10000000 1"


def test_versions_and_resets_read_back(tmp_path: Path) -> None:
    board = loaded(
        tmp_path,
        "int main(void) { board_print_hex(WORD(NPU + 0x5004)); WORD(0x480E5008u) = 0x1234; "
        "board_print_hex(WORD(NPU + 0x5008)); WORD(NPU + 0x5000) = 2; board_print_hex(WORD(NPU + 0x5000)); "
        "WORD(NPU + 0x5000) = 1u << 30; board_print_hex(WORD(NPU + 0x5008)); return 0; }",
    )
    board.run()
    assert board.serial.text == "0x003e5001" + "0x00001234" + "0x00000000" + "0x00000000"


@pytest.mark.parametrize(
    ("words", "status"),
    [
        ("0x12345678u, 2u, 0u, 0u", 1 << 3),
        ("0xCA057A7Au, 2u, 0x1Fu, 0x1Fu", 1 << 5),
    ],
)
def test_damaged_program_raises_the_error_line(tmp_path: Path, words: str, status: int) -> None:
    program = f"__attribute__((aligned(8))) static const uint32_t program[] = {{ {words} }};\n"
    board = loaded(tmp_path, program + BY_INTERRUPT.replace("PROGRAM", "program"))
    board.run()
    assert board.serial.text == f"0x40000000 {status}"


def test_hanging_epoch_is_named(tmp_path: Path) -> None:
    """An engine that writes what nobody sends: on the chip it waits for ever."""
    board = loaded(
        tmp_path,
        "int main(void) { WORD(0xE000E010u) = 0; WORD(NPU + 0x5008) = 0x34200000u; WORD(NPU + 0x500C) = 0x10001u; "
        'WORD(NPU + 0x5000) = 9; for (;;) __asm volatile("wfi"); }',
    )
    with pytest.raises(InputError, match="the NPU hangs") as raised:
        board.run()
    assert "epoch 1" in raised.value.where
