"""Boards and pool files: both dialects, virtual pools, neighbours as one region."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from atonc.compiler.place import board, place, read_board
from atonc.compiler.place.check import check
from atonc.compiler.place.pools import board_of, run_windows, segment_windows
from atonc.compiler.plan.types import BufferKind
from atonc.machine.base.errors import InputError
from atonc.machine.hw.machine import stm32n6
from tests.place.plans import chain, random_steps

KIB = 1 << 10


def pool(name: str, base: int, kib: int, ratio: float = 1.25, width: int = 8, **more: Any) -> dict[str, Any]:
    prop = {"rights": more.get("rights", "ACC_WRITE"), "byteWidth": width, "freqRatio": ratio}
    prop |= {key: value for key, value in more.items() if key != "rights"}
    size = {"value": str(kib), "magnitude": "KBYTES"}
    return {
        "fname": name,
        "name": name,
        "prop": prop,
        "offset": {"value": hex(base), "magnitude": "BYTES"},
        "size": size,
    }


def write(path: Path, *pools: dict[str, Any]) -> Path:
    path.write_text(json.dumps({"memory": {"mempools": pools}}))
    return path


NPU = [pool(f"npuRAM{n}", 0x3420_0000 + (n - 3) * 0x7_0000, 448) for n in range(3, 7)]
CPU2 = pool("cpuRAM2", 0x3410_0000, 1024, 2.5)
HYPER = pool("hyperRAM", 0x9000_0000, 32768, 5.0, 2, constants_preferred="true")
FLASH = pool("octoFlash", 0x7100_0000, 65536, 6.0, 1, rights="ACC_READ")


@pytest.mark.parametrize("name", ["stm32n6570-dk", "nucleo-n657x0-q"])
def test_boards_know_their_memories(name: str) -> None:
    found = board(name)
    assert sum(p.size_bytes for p in found.on_chip) == 2816 * KIB
    assert bool(found.external_ram) == (name == "stm32n6570-dk")
    fast, slow = segment_windows(found)
    assert (fast.start, fast.end) == (0x3420_0000, 0x343C_0000 - 64) and fast.npu_ram
    assert (slow.start, slow.end) == (0x3410_0000, 0x3420_0000) and not slow.npu_ram
    (whole,) = run_windows(found)
    assert (whole.start, whole.end, whole.downward) == (0x3410_0000, 0x343C_0000 - 64, True)


def test_names_of_boards_are_forgiving() -> None:
    assert board("STM32N6570_DK") == board("dk") == board("stm32n6570-dk")
    with pytest.raises(InputError, match="no board"):
        board("stm32f4")


def test_virtual_pools_are_their_parts(tmp_path: Path) -> None:
    virtual = pool("cpuRAM2_npuRAM3_npuRAM4_npuRAM5_npuRAM6", 0x3410_0000, 2816, 2.5)
    embedded = pool("ec params pool", 0, 0)
    embedded["size"] = {"value": str(2**63 - 32), "magnitude": "BYTES"}
    found = read_board(write(tmp_path / "saved.mpool", virtual, *NPU, CPU2, FLASH, embedded), stm32n6())
    assert {p.name for p in found.pools} == {"cpuRAM2", "npuRAM3", "npuRAM4", "npuRAM5", "npuRAM6", "octoFlash"}


def test_pools_with_gaps_are_used_one_by_one(tmp_path: Path) -> None:
    audio = read_board(write(tmp_path / "audio.mpool", CPU2, NPU[3], FLASH), stm32n6())
    assert len(run_windows(audio)) == 2
    steps = chain(1000, 400 * KIB, 900 * KIB, 1000)
    layout = place(steps.planned, audio)
    assert not check(layout.placed, steps.plans, audio, {}, steps.inputs, steps.outputs)
    assert layout.placed["t1"].pool == "npuRAM6" and layout.placed["t2"].pool == "cpuRAM2"


@pytest.mark.parametrize("pools", [(*NPU, HYPER), (*NPU,)])
def test_without_flash_constants_live_in_ram(tmp_path: Path, pools: tuple[dict[str, Any], ...]) -> None:
    found = read_board(write(tmp_path / "ram.mpool", *pools), stm32n6())
    steps = random_steps(3, 12, 20_000)
    layout = place(steps.planned, found)
    assert not check(layout.placed, steps.plans, found, {}, steps.inputs, steps.outputs)
    homes = {layout.placed[name].pool for name in steps.buffers if name.startswith("w")}
    assert homes == {"hyperRAM"} if HYPER in pools else "hyperRAM" not in homes


def test_only_external_memory(tmp_path: Path) -> None:
    found = read_board(write(tmp_path / "ext.mpool", HYPER, FLASH), stm32n6())
    steps = chain(1000, 40_000, 50_000, 1000)
    layout = place(steps.planned, found)
    assert not check(layout.placed, steps.plans, found, {}, steps.inputs, steps.outputs)
    assert layout.spilled_bytes == layout.peak_bytes == 90_000, "what lives one after the other shares bytes"
    assert layout.lower_bound_bytes <= layout.peak_bytes


def test_bad_boards_are_refused(tmp_path: Path) -> None:
    overlapping = {**NPU[1], "offset": {"value": "0x34208000", "magnitude": "BYTES"}}
    with pytest.raises(InputError, match="overlap"):
        read_board(write(tmp_path / "a.mpool", NPU[0], overlapping), stm32n6())
    beyond = {**NPU[1], "offset": {"value": "0x34200000", "magnitude": "MBYTES"}}
    with pytest.raises(InputError, match="addresses have 32 bits"):
        read_board(write(tmp_path / "c.mpool", NPU[0], beyond), stm32n6())
    with pytest.raises(InputError, match="no pool may be written"):
        read_board(write(tmp_path / "b.mpool", FLASH), stm32n6())
    with pytest.raises(InputError, match="there is no such file"):
        read_board(tmp_path / "absent.toml", stm32n6())
    assert board_of("x", board("dk").pools, stm32n6()).pools


def test_activations_outside_begin_behind_the_constants_there(tmp_path: Path) -> None:
    """Constants end at any multiple of 16, other buffers begin at a whole cache line: the next one, never the last."""
    found = read_board(write(tmp_path / "ext.mpool", HYPER), stm32n6())
    steps = chain(1000, 40_000, 1000)
    steps.epoch([steps.buffer("w", 48, BufferKind.CONSTANT), "t1"], [steps.buffer("u", 64)])
    layout = place(steps.planned, found)
    constant = layout.placed["w"]
    others = [home for home in layout.placed.values() if home.buffer.kind != BufferKind.CONSTANT]
    assert constant.end % 32 == 16 and min(home.address for home in others) == constant.end + 16
    assert not check(layout.placed, steps.plans, found, {}, steps.inputs, steps.outputs)
