"""Limits of the hardware: what the published programs say, and nowhere a second time."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from atonc.compiler.plan import policy
from atonc.machine.hw import limits
from atonc.machine.hw.machine import stm32n6
from atonc.machine.hw.safety.evidence.table import SeenNumbers, evidence
from atonc.machine.hw.safety.evidence.trust import frame_seen, padding_seen
from atonc.machine.hw.units import arith
from atonc.machine.hw.units.convacc import ConvaccConfig

ROOT = Path(__file__).resolve().parents[2] / "atonc"
HOMES = {
    "machine/hw/limits.py",
    "machine/hw/regs.py",
    "machine/hw/units/arith.py",
    "machine/hw/units/convacc.py",
    "compiler/plan/policy.py",
}
# numbers that mean one thing only, wherever they stand
TELLING = {33_600, 1792, 3072, 1920, 1600, 768, 576, 384, 1_700_000, 960 << 10, 640 << 10}
# numbers that mean many things: one of them under such a name is a second home
NAMED = {
    "ALIGN": {8, 16, 32, 64}, "GRANULE": {16}, "CACHE_LINE": {32, 64}, "PREFETCH": {64}, "XSPI": {32}, "BEAT": {8},
    "BUS": {8}, "CHAIN": {4}, "ENGINES": {10}, "READERS": {8}, "WRITERS": {5}, "PASSES": {128}, "GATED": {128},
    "SYNC": {768, 1600}, "OUT_SHIFT": {12}, "MOST_SHIFT": {23}, "TABLE_SHIFT": {23}, "POOL_BATCH": {8},
    "NPU_RAM": {1 << 18, 1_700_000}, "HUGE": {960 << 10}, "LARGE_BYTES": {512 << 10}, "BAND_BYTES": {512 << 10},
    "VECTOR": {512}, "CHEAP": {1.1}, "CLOSER": {0.8}, "WORTH": {0.0005, 0.005, 0.02, 0.05, 2048, 4096},
    "FEW_CYCLES": {8000}, "EPOCH": {5000}, "FLASH": {2.5}, "MANY_CHANNELS": {100}, "MARGIN": {2.5, 1.5, 64},
}  # fmt: skip
ROOMS = ("hw", "plan", "lower", "select", "place", "emit", "schedule", "semantics", "cost")
ELSEWHERE = {  # another quantity with the same number
    ("machine/hw/cycles/st_estimate.py", 3072),  # elements of a frame that ST's estimate counts once
    ("compiler/emit/c_info.py", 8),  # what c_info.json says of pools
    ("machine/hw/dma.py", 8),  # bytes of a beat of the chip's DMA
}


def number(node: ast.expr) -> float | None:
    """The value of a literal, or of a literal that is shifted."""
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool):
        return node.value
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.LShift):
        left, right = number(node.left), number(node.right)
        if isinstance(left, int) and isinstance(right, int):
            return left << right
    return None


def second_homes(source: str) -> Iterator[tuple[int, float]]:
    """Line and number of every known constant that a file defines or uses by itself."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        value = number(node) if isinstance(node, ast.expr) else None
        if value in TELLING:
            yield node.lineno, value
    for statement in tree.body:
        if isinstance(statement, ast.Assign):
            for target in statement.targets:
                yield from _named(target, statement.value)


def _named(target: ast.expr, value: ast.expr) -> Iterator[tuple[int, float]]:
    pairs = [(target, value)]
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        pairs = list(zip(target.elts, value.elts, strict=True))
    for name, content in pairs:
        found = number(content)
        if isinstance(name, ast.Name) and any(word in name.id and found in values for word, values in NAMED.items()):
            assert found is not None
            yield name.lineno, found


def test_no_constant_of_the_hardware_is_defined_twice() -> None:
    found = []
    for path in sorted(path for room in ROOMS for path in ROOT.glob(f"*/{room}/**/*.py")):
        name = path.relative_to(ROOT).as_posix()
        if name not in HOMES:
            again = {(line, value) for line, value in second_homes(path.read_text()) if (name, value) not in ELSEWHERE}
            found += [f"{name}:{line}: {value}" for line, value in sorted(again)]
    assert not found, "already in hw/limits.py or plan/policy.py:\n" + "\n".join(found)


@pytest.mark.parametrize(
    "line",
    [
        "MAX_CHAIN = 4",
        "_ALIGNED = 16",
        "_READ_ALIGNMENT, _WRITE_ALIGNMENT = 8, 16",
        "_NPU_RAM = 1_700_000",
        "HUGE_BYTES = 960 << 10",
        "def f():\n    return 24, 128, 3072, 33_600",
        "CHEAP = 1.1",
        "_MOST_READERS, _MOST_WRITERS = 8, 5",
    ],
)
def test_planted_duplicates_are_found(line: str) -> None:
    assert list(second_homes(line))


def extremes(name: str, *roles: str) -> tuple[int, int]:
    tables = [table for role, table in evidence()[name].items() if not roles or role in roles]
    values = [
        value for table in tables if isinstance(table, SeenNumbers) for value in (table.values[0], table.values[-1])
    ]
    return min(values), max(values)


def test_limits_are_those_of_the_evidence() -> None:
    assert extremes("CONVACC NR x B x KW x KH", "deep")[1] == limits.DEEP.weights
    assert extremes("CONVACC NR x B x KW x KH", "dss2")[1] == limits.DSS2.weights
    one_line = evidence()["CONVACC W x B"]["one line"]
    assert isinstance(one_line, SeenNumbers)
    *_, widest, in_one_program = one_line.values  # U04 notes the last, which one program of ST 2.2.0 has: not for us
    assert widest == limits.PLAIN.line == limits.DEEP.line == limits.LINES[1].line and in_one_program == 37_800
    for simd, sizes in limits.WINDOWS.items():
        several = f"several lines simd{simd} F{simd}"
        assert extremes("CONVACC W x B", several)[1] == sizes.line
        assert extremes("CONVACC NR x B x KW x KH", f"simd{simd} several lines")[1] == sizes.weights
        assert extremes("CONVACC NR", f"3x3/1 simd{simd} F{simd}")[1] == sizes.kernels
        assert extremes("CONVACC B", f"3x3/1 simd{simd} F{simd}")[1] == sizes.channels
        plain = f"1x1/1 simd{simd} F{simd}"
        assert (extremes("CONVACC NR", plain)[1], extremes("CONVACC B", plain)[1]) == limits.PLAIN[:2]
    for width, least in limits.LEAST_DEEP.items():
        assert extremes("CONVACC B", f"1x1/1 simd1 deep F{width}") == (least, limits.DEEP.channels)
    assert extremes("STRENG read-back frame elements")[0] == limits.LEAST_READ_BACK
    assert extremes("STRENG read-back frame elements", "no sync")[0] == limits.SYNC_BELOW
    assert extremes("CONVACC OUTSHIFT")[1] == limits.MOST_OUT_SHIFT
    assert extremes("POOL B")[1] == limits.POOL_CHANNELS
    assert extremes("POOL W x B")[1] == limits.POOL_LINE
    assert extremes("readers in an epoch")[1] == limits.MOST_READERS
    assert extremes("writers in an epoch")[1] == limits.MOST_WRITERS
    for role in ("max 2x2/1", "max 2x2/2", "max 3x3/1", "max 3x3/2"):
        window, stride = int(role[4]), int(role[-1])
        assert extremes("POOL B", role)[1] == limits.most_pooled(window, stride)


def test_counts_are_those_of_the_machine() -> None:
    assert limits.UNITS == {"STRENG": 10, "CONVACC": 4, "DECUN": 2, "ACTIV": 2, "ARITH": 4, "POOL": 2, "RECBUF": 1}
    assert arith.WINDOW_ROWS < arith.ROWS == 512


def test_windows_as_seen() -> None:
    three = ConvaccConfig(kernel_width=3, kernel_height=3, stride_x=1, stride_y=1, batch=1, line_elements=8, height=2)
    five = replace(three, kernel_width=5, stride_x=2, stride_y=2, line_elements=10, height=10)
    assert frame_seen(three) and frame_seen(five)
    assert not frame_seen(replace(three, height=1)) and not frame_seen(replace(five, height=9))
    assert padding_seen(replace(three, pad_top=1, pad_left=1)) and not padding_seen(replace(three, pad_top=2))


def test_room_follows_the_board() -> None:
    room = policy.whole_room(stm32n6())
    assert room.npu_ram_bytes == sum(b.size_bytes for b in stm32n6().memories if b.name.startswith("npuRAM"))
    assert (room.huge_bytes, room.large_bytes, room.copy_bytes) == (960 << 10, 512 << 10, 256 << 10)
    assert [some.huge_bytes >> 10 for some in room.tighter()] == [960, 640, 320, 160]
    small = policy.NpuRamBudget(448 << 10)
    assert small.step_bytes < small.npu_ram_bytes and small.huge_bytes == 240 << 10


def test_a_better_form_may_cost_a_little() -> None:
    assert policy.worth(107_000, 0.2, 100_000, 0.3)  # within ten per cent and clearly closer
    assert policy.worth(9_000, 0.2, 2_000, 0.3)  # few cycles, however many times as long
    assert not policy.worth(111_000, 0.2, 100_000, 0.3)
    assert not policy.worth(105_000, 0.28, 100_000, 0.3)
    assert policy.worth(99_999, 0.3, 100_000, 0.3)
