"""The processor of the virtual board: instructions, time, interrupts, faults."""

from __future__ import annotations

from pathlib import Path

import pytest

from atonc.machine.base.errors import InputError
from atonc.machine.emu.board import VirtualBoard, read_firmware
from tests.board.programs import build, needs_compiler

pytestmark = needs_compiler


def start(folder: Path, text: str) -> VirtualBoard:
    return VirtualBoard(read_firmware(build(folder, text)))


def test_text_and_float(tmp_path: Path) -> None:
    board = start(
        tmp_path,
        'volatile float f = 1.5f; int main(void) { f = f * 2 + 1; board_print("hi "); '
        'board_print_number((uint32_t)(f * 100)); board_print("\\n"); return 0; }',
    )
    assert board.run().number == 2
    assert board.serial.lines == ["hi 400"]
    assert 100 < board.core.instructions < 5000


def test_both_aliases_are_one_memory(tmp_path: Path) -> None:
    board = start(
        tmp_path,
        "int main(void) { WORD(0x24200000u) = 0x12345678u; WORD(0x34200004u) = WORD(0x34200000u); "
        "WORD(0x90000000u) = 7; WORD(0x56020000u) = 5; WORD(0x90000004u) = WORD(0x46020000u); return 0; }",
    )
    board.memory.view(0x34200000, 4)[:] = 255
    board.run()
    assert board.memory.read(0x24200004, 4).tolist() == [0x78, 0x56, 0x34, 0x12]
    assert board.memory.read(0x90000000, 8).tolist() == [7, 0, 0, 0, 5, 0, 0, 0]


def test_interrupt_preserves_registers(tmp_path: Path) -> None:
    board = start(
        tmp_path,
        """
volatile uint32_t hits; volatile float half = 0.5f;
void NPU0_IRQHandler(void) { hits++; half = half * 0.5f; WORD(0xE000E284u) = 1u << 21; }
int main(void) {
    WORD(0xE000E104u) = 1u << 21;
    float sum = 0; uint32_t total = 0;
    for (uint32_t k = 0; k < 20; k++) { sum += half; half = 1.0f; total += k; WORD(0xE000E204u) = 1u << 21;
        moment(); }
    board_print_number(hits); board_print(" "); board_print_number(total); board_print(" ");
    board_print_number((uint32_t)(sum * 2)); board_print("\\n");
    return 0;
}""",
    )
    board.run()
    assert board.serial.lines == ["20 190 20"]


def test_masked_interrupt_wakes_but_waits(tmp_path: Path) -> None:
    board = start(
        tmp_path,
        """
volatile uint32_t hits;
void NPU0_IRQHandler(void) { hits++; }
int main(void) {
    WORD(0xE000E104u) = 1u << 21;
    __asm volatile("cpsid i"); WORD(0xE000E204u) = 1u << 21;
    __asm volatile("wfi"); board_print_number(hits);
    __asm volatile("cpsie i"); moment(); board_print_number(hits); board_print("\\n");
    return 0;
}""",
    )
    board.run()
    assert board.serial.lines == ["01"]


def test_priorities_nest(tmp_path: Path) -> None:
    board = start(
        tmp_path,
        """
void NPU1_IRQHandler(void);
void NPU0_IRQHandler(void) { board_print("a"); WORD(0xE000E204u) = 1u << 22;
    moment(); board_print("c"); }
void NPU1_IRQHandler(void) { board_print("b"); }
int main(void) {
    *(volatile uint8_t *)(0xE000E400u + 53) = 0x80; *(volatile uint8_t *)(0xE000E400u + 54) = 0x40;
    WORD(0xE000E104u) = 3u << 21; WORD(0xE000E204u) = 1u << 21; moment();
    board_print("d\\n"); return 0;
}""",
    )
    board.run()
    assert board.serial.lines == ["abcd"]


def test_tick_wakes_sleep(tmp_path: Path) -> None:
    board = start(
        tmp_path,
        'int main(void) { while (board_milliseconds() < 5) __asm volatile("wfe"); '
        "board_print_number(board_cycles() / 800000u); return 0; }",
    )
    board.run()
    assert board.serial.text == "5"
    assert board.core.instructions < 20000 < board.clock.now


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("WORD(0xA0000000u) = 1;", "write of 4 bytes at 0xa0000000"),
        ('__asm volatile("udf #0");', "Invalid instruction"),
        ("((void (*)(void))0xA0000001u)();", "0xa0000000"),
    ],
)
def test_faults_name_the_place(tmp_path: Path, text: str, said: str) -> None:
    board = start(tmp_path, f"int main(void) {{ {text} return 0; }}")
    with pytest.raises(InputError) as raised:
        board.run()
    assert said in str(raised.value)
    assert "pc 0x" in raised.value.where


def test_endless_loop_ends(tmp_path: Path) -> None:
    board = start(
        tmp_path,
        'static void __attribute__((noinline)) turn(void) { for (;;) __asm volatile(""); } '
        "int main(void) { turn(); return 0; }",
    )
    with pytest.raises(InputError, match="no end after 100000 instructions") as raised:
        board.run(100000)
    assert "turn" in raised.value.where


def test_sleep_without_wakeup_ends(tmp_path: Path) -> None:
    board = start(tmp_path, 'int main(void) { WORD(0xE000E010u) = 0; for (;;) __asm volatile("wfi"); }')
    with pytest.raises(InputError, match="sleeps"):
        board.run()
