"""Instructions that a Cortex-M55 has and unicorn's Cortex-M33 has not: against what QEMU's Cortex-M55 answered; long
shifts against plain integers too."""

from __future__ import annotations

import random
import struct
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("unicorn", reason="unicorn is not installed: pip install 'atonc[board]'")

from atonc.machine.base.errors import NotModelledError
from atonc.machine.emu.board import core as core_module
from atonc.machine.emu.board import v81m
from atonc.machine.emu.board.core import Core
from atonc.machine.emu.board.mve import unit
from atonc.machine.emu.board.mve.unit import ENTRIES
from atonc.machine.emu.board.v81m import Instruction, Pattern
from tests.board import instructions
from tests.board.instructions import CODE, RECORD, STACK

RECORDED = Path(__file__).with_name("instructions.npz")  # python -m benchmarks instructions --for-tests
BREAK = 0xBE00
PLACE = CODE + 0x100


def wrong_cases(program: instructions.Program, answers: bytes, names: list[str]) -> list[str]:
    found = instructions.on_board(program)
    wrong = []
    for number, name in enumerate(names):
        part = slice(number * RECORD, (number + 1) * RECORD)
        differs = instructions.difference(found[part], answers[part]) if name else ""
        wrong += [f"{name}, case {number}: {differs}"] if differs else []
    return wrong


def test_every_case_as_qemu_answered() -> None:
    assert wrong_cases(*instructions.load(RECORDED)) == []


@pytest.mark.parametrize("length", [1, 2, 3, 7])
def test_the_core_may_stop_behind_every_instruction(length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Interrupts are looked for between slices: a replacement of an instruction must not come apart there."""
    program, answers, names = instructions.load(RECORDED)
    every = [k for k, name in enumerate(names) if name == "DLS, WLS, LE" or k % 12 == length]
    records, expected = (
        b"".join(side[k * RECORD : (k + 1) * RECORD] for k in every) for side in (program.records, answers)
    )
    moved = [k for k in every if names[k].startswith(("VLD", "VST"))]  # their addresses are those of their old place
    monkeypatch.setattr(core_module, "_LONGEST", length)
    padding = program.count * RECORD - len(records)
    assert padding > 0
    part = instructions.Program(program.segments, records + _nothing(program) * (padding // RECORD))
    chosen = ["" if k in moved else names[k] for k in every]
    assert wrong_cases(part, expected, chosen) == []


def _nothing(program: instructions.Program) -> bytes:
    """The first record is a NOP, and the program expects as many records as it had."""
    return program.records[:RECORD]


def test_every_instruction_of_the_tables_is_recorded() -> None:
    _, _, names = instructions.load(RECORDED)
    known = Counter(name.removesuffix(" in an IT block") for name in names)
    tables = (*v81m.SHIFTS, *v81m.DOUBLES, *(entry.pattern for entry in ENTRIES))
    assert [pattern.name for pattern in tables if not known[pattern.name]] == []
    assert known["CSEL and its kin"] and known["DLS, WLS, LE"] >= 20
    assert sum(known.values()) > 600


# ---------------------------------------------------------------------------------------------------------- one by one


def executed(words: list[int], registers: dict[str, int]) -> Core:
    """Halfwords at PLACE, then a breakpoint."""
    core = instructions.make_core()
    put(core, words)
    core.start(PLACE, STACK)
    for name, value in registers.items():
        core.set_register(name, value)
    assert core.run(100_000, 1 << 40).reason == "bkpt"
    return core


def put(core: Core, words: list[int]) -> None:
    code = struct.pack(f"<{len(words) + 1}H", *words, BREAK)
    core.memory.view(PLACE, len(code))[:] = np.frombuffer(code, np.uint8)


def halves(pattern: Pattern, **fields: int) -> list[int]:
    word = pattern.value
    for letter, places in pattern.fields:
        for k, position in enumerate(reversed(places)):
            word |= (fields[letter] >> k & 1) << position
    return [word >> 16, word & 0xFFFF]


SHIFTED = {
    "LSLL": lambda value, by: value << by,
    "LSRL": lambda value, by: value >> by,
    "ASRL": lambda value, by: (value - (value >> 63 << 64)) >> by,
}


@pytest.mark.parametrize("name", SHIFTED)
def test_long_shifts_are_found_in_the_middle_of_a_block(name: str) -> None:
    """A Cortex-M33 would take them for ORRS and go on."""
    drawing = next(pattern for pattern in v81m.SHIFTS if pattern.name == name)
    rng = random.Random(name)
    for by in (1, 5, 31, 32, rng.randrange(2, 31)):
        value = rng.getrandbits(64) | 1 << 63
        words = [0x3401, *halves(drawing, l=1, h=1, i=by % 32), 0x3402]  # adds r4, #1; shift of r2, r3; adds r4, #2
        core = executed(words, {"R2": value & 0xFFFF_FFFF, "R3": value >> 32, "R4": 10})
        expected = SHIFTED[name](value, by) & (1 << 64) - 1
        assert core.register("R2") | core.register("R3") << 32 == expected, (name, by)
        assert core.register("R4") == 13
        assert core.blocks.replaced == {name: 1}
        assert core.memory.code(PLACE + 2, 4) == struct.pack("<HH", *words[1:3]), "the firmware reads its own code"


def test_long_shifts_that_are_written_over_code_are_found_too() -> None:
    lsll = halves(next(pattern for pattern in v81m.SHIFTS if pattern.name == "LSLL"), l=1, h=1, i=4)
    core = executed([0xBF00, 0xBF00], {"R2": 0x8000_0001, "R3": 0})
    assert core.register("R3") == 0
    core.uc.mem_write(PLACE, struct.pack("<HH", *lsll))  # as a store of the firmware would
    core.uc.ctl_remove_cache(PLACE, PLACE + 4)
    core.pc = PLACE
    core.run(1000, 1 << 40)
    assert (core.register("R2"), core.register("R3")) == (0x10, 8)


def test_a_loop_that_begins_inside_another_block_is_translated_once() -> None:
    """Two blocks share the replaced instruction: one must not drop the other each time round."""
    lsrl = next(pattern for pattern in v81m.SHIFTS if pattern.name == "LSRL")
    outer = [0x2004, 0x3401]  # movs r0, #4; adds r4, #1
    inner = [*halves(lsrl, l=1, h=1, i=1), 0x3801, 0xD1FB]  # lsrl r2, r3, #1; subs r0, #1; bne to lsrl
    core = executed([*outer, *inner, 0x3D01, 0xD1F7], {"R2": 0, "R3": 0, "R4": 0, "R5": 200})  # subs r5, #1; bne outer
    assert core.register("R4") == 200
    assert core.blocks.replaced["LSRL"] < 12


def test_translations_are_dropped_before_the_buffer_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    """unicorn would drop them itself by a jump out of the hook, and take Python's frames along."""
    monkeypatch.setattr(core_module.blocks, "BUFFER_BYTES", 16 << 20)
    monkeypatch.setattr(core_module.blocks, "_MOST_TRANSLATED", 8 << 20)
    lsll = halves(next(pattern for pattern in v81m.SHIFTS if pattern.name == "LSLL"), l=1, h=1, i=1)
    core = executed([*lsll, 0xBF00], {"R2": 1, "R3": 0})
    for _ in range(2500):
        core.uc.ctl_remove_cache(PLACE, PLACE + 8)  # as if the firmware had written there
        core.pc = PLACE
        core.run(100, 1 << 40)
        core.set_register("R2", 1)
    assert core.blocks.replaced["LSLL"] > 2500


def test_an_interrupt_in_an_it_block_does_not_take_its_condition_along() -> None:
    """unicorn executes such a block as a whole; it comes apart at an instruction that is executed for it."""
    core = instructions.make_core()
    core.memory.view(CODE + 64, 4)[:] = np.frombuffer(struct.pack("<I", CODE + 0x201), np.uint8)
    handler = struct.pack("<4H", 0x3501, 0x3501, 0x3501, 0x4770)  # adds r5, #1 three times; bx lr
    core.memory.view(CODE + 0x200, 8)[:] = np.frombuffer(handler, np.uint8)
    shift = next(pattern for pattern in v81m.SHIFTS if pattern.name == "SQRSHR")
    put(core, [0x2800, 0xBF16, *halves(shift, d=1, m=0), 0x3204, 0x3208, 0x3401])  # cmp r0, #0; itet ne: r1, r2, r2; r4
    core.start(PLACE, STACK)
    for number in range(6):
        core.set_register(f"R{number}", number == 0)
    core.nvic.enabled.add(16)
    run, calls = core._executor.run, []

    def run_and_interrupt(instruction: Instruction) -> None:
        run(instruction)
        calls.append(instruction.name)
        core.nvic.pending.add(16)

    core._executor.run = run_and_interrupt  # type: ignore[method-assign]
    core.run(1000, 1 << 40)
    assert calls == ["SQRSHR"]
    assert [core.register(f"R{number}") for number in (2, 4, 5)] == [8, 1, 3]


def unknown() -> list[Pattern]:
    loops = [pattern for pattern in v81m.LOOPS if pattern.name in ("DLSTP", "WLSTP", "LETP", "LCTP")]
    return [*loops, *unit.MISSING_PATTERNS]


@pytest.mark.parametrize("pattern", unknown(), ids=lambda pattern: f"{pattern.name} {pattern.value:08x}")
def test_what_is_missing_stops_with_its_name(pattern: Pattern) -> None:
    rng = random.Random(pattern.value)
    for _ in range(40):
        word = pattern.value | rng.getrandbits(32) & ~pattern.mask
        if (core_module.blocks.find(word) or pattern).name == pattern.name and not _vector(word):
            with pytest.raises(NotModelledError) as caught:
                executed([word >> 16, word & 0xFFFF], {})
            assert pattern.name in caught.value.what
            assert caught.value.where == f"pc {PLACE:#010x}"
            return
    assert any(_vector(pattern.value | k) for k in (0, 1)), "no encoding of it is left: the drawing is dead"


def _vector(word: int) -> bool:
    return instructions.make_core().vectors.table.find(word) is not None


@pytest.mark.parametrize(
    ("condition", "holds"), list(enumerate(("EQ", "VS", "GE", "GT"))), ids=("EQ", "VS", "GE", "GT")
)
def test_a_choice_between_doubles_looks_at_the_flags(condition: int, holds: str) -> None:
    """VSEL.F64 runs on a core of its own, which has to know them."""

    class Registers(dict[str, int]):
        register, set_register = dict.__getitem__, dict.__setitem__

    unit, (word, pattern) = v81m.DoubleUnit(), (0xFE06_9B09 | condition << 20, v81m.DOUBLES[-1])
    for flags in range(16):
        n, z, v = flags >> 3 & 1, flags >> 2 & 1, flags & 1
        wanted = {"EQ": z, "VS": v, "GE": n == v, "GT": not z and n == v}[holds]
        core = Registers({f"D{k}": 0 for k in range(16)} | {"D6": 111, "D9": 222, "FPSCR": 0, "XPSR": flags << 28})
        unit.execute(Instruction(pattern, word), core)
        assert core["D9"] == (111 if wanted else 222), flags
