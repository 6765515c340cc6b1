"""`atonc board check`: every planted overlap is found with both sides and a remedy; what is right passes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import atonc
from atonc.delivery.boards.checking import Checked, CheckRequest, check, read_elf_map
from atonc.delivery.boards.mpool_text import mpool_document
from atonc.delivery.generate import generating
from atonc.doors.cli.cli import main
from atonc.machine.base.errors import AtoncError, InputError
from atonc.machine.hw.board_file import find_board
from tests.boards.images import Part, write_elf
from tests.emit.generated import digits

KIB, MIB = 1 << 10, 1 << 20
CODE = Part(".text", 0x3400_0400, 0x8000)
DATA = Part(".data", 0x3400_9000, 0x1000)
ROOM = Part(".bss", 0x3400_A000, 0x8_0000, contents=False)
FRAMES = Part(".psram_section", 0x9100_0000, 0x60_0000, contents=False)
USUAL = (CODE, DATA, ROOM, FRAMES)


def pools(folder: Path, board: str = "vision@dk", name: str = "x.mpool", **changes: tuple[int, int]) -> Path:
    """A pool set as a file, some pools moved or resized."""
    found, _, kit = board.partition("@")
    document = mpool_document(find_board(kit).pool_set(found))
    for pool in document["memory"]["mempools"]:
        if pool["name"] in changes:
            base, size = changes[pool["name"]]
            pool["offset"] = {"value": hex(base), "magnitude": "BYTES"}
            pool["size"] = {"value": str(size), "magnitude": "BYTES"}
    path = folder / name
    path.write_text(json.dumps(document))
    return path


def checked(
    folder: Path, parts: tuple[Part, ...], *files: Path, board: str = "dk", networks: tuple[Path, ...] = ()
) -> Checked:
    image = write_elf(folder / "app.elf", *parts)
    return check(CheckRequest(find_board(board), "default", (image,), files, networks))


def test_a_usual_application_passes(tmp_path: Path) -> None:
    found = checked(tmp_path, USUAL, pools(tmp_path))
    assert not found.wrong
    (note,) = found.findings  # ST's own pools cover the loader's RAM, which is free by then
    assert note.note and "FSBL" in note.second and "cpuRAM2" in note.first
    nucleo = checked(tmp_path, (CODE, ROOM), pools(tmp_path, "vision@nucleo"), board="nucleo")
    assert not nucleo.wrong and any("512 KiB" in f.fix or "524,288" in f.fix for f in nucleo.findings)


def test_room_may_lie_where_the_loader_was(tmp_path: Path) -> None:
    parts = (CODE, Part(".bss", 0x3417_0000, 0x4_0000, contents=False))
    assert not checked(tmp_path, parts, pools(tmp_path, "people@dk")).wrong


def test_networks_that_take_turns_share_ram(tmp_path: Path) -> None:
    first, second = pools(tmp_path, "reid-detection@dk", "a.mpool"), pools(tmp_path, "reid@dk", "b.mpool")
    assert not checked(tmp_path, USUAL, first, second).wrong


PLANTED = [
    ("data in the NPU's RAM", (*USUAL, Part(".npu", 0x3420_0000, 64)), {}, ("section .npu", "pool npuRAM3")),
    (
        "a .bss that grows into cpuRAM2",
        (CODE, Part(".bss", 0x3400_A000, 0xF_7000, contents=False)),
        {},
        ("section .bss", "pool cpuRAM2"),
    ),
    (
        "frame buffers below the end of the pool",
        (CODE, Part(".psram_section", 0x90F0_0000, 0x20_0000, contents=False)),
        {},
        ("pool hyperRAM", "section .psram_section"),
    ),
    ("a pool in the frame buffers", USUAL, {"hyperRAM": (0x9000_0000, 17 * MIB)}, ("pool hyperRAM", "frame buffers")),
    ("code in the loader's RAM", (CODE, Part(".hot", 0x3418_0000, 256)), {"cpuRAM2": (0, 0)}, ("section .hot", "FSBL")),
    ("an image that reaches the weights", (Part(".text", 0x3400_0400, 0x8_0000),), {"octoFlash": (0x7018_0000, MIB)},
     ("image of app.elf in the flash", "pool octoFlash")),
    ("weights on the loader", USUAL, {"octoFlash": (0x7008_0000, MIB // 4)}, ("pool octoFlash", "FSBL image")),
    ("code in the weights", (*USUAL, Part(".xip", 0x7100_0000, 256)), {}, ("pool octoFlash", "section .xip")),
    ("two pools of one file", USUAL, {"npuRAM4": (0x3426_0000, 0x7_0000)}, ("pool npuRAM3", "pool npuRAM4")),
    ("sections on each other", (*USUAL, Part(".more", 0x3400_9800, 64)), {}, ("section .data", "section .more")),
    ("the same RAM by its other address", (*USUAL, Part(".ns", 0x2430_0000, 64, contents=False)), {},
     ("section .ns", "pool npuRAM5")),
    ("a place without memory", (*USUAL, Part(".far", 0x6000_0000, 64)), {}, ("section .far", "no memory")),
    ("a section past the end of the RAM", (CODE, Part(".frames", 0x91F0_0000, 2 * MIB, contents=False)), {},
     ("section .frames", "the end of hyperRAM")),
    ("a section where only the NPU may be", (CODE, Part(".cache", 0x343C_0000, 64)), {},
     ("section .cache", "npuCache")),
    ("contents that are loaded into a pool", (CODE, Part(".data", 0x3400_9000, 64, loaded_at=0x7100_0000)), {},
     ("pool octoFlash", "contents of section .data")),
]  # fmt: skip


@pytest.mark.parametrize("what, parts, changes, sides", PLANTED, ids=[row[0] for row in PLANTED])
def test_planted_overlaps_are_found(
    what: str, parts: tuple[Part, ...], changes: dict[str, tuple[int, int]], sides: tuple[str, str], tmp_path: Path
) -> None:
    assert not checked(tmp_path, tuple(p for p in parts if p in USUAL) or USUAL, pools(tmp_path, name="y.mpool")).wrong
    found = checked(tmp_path, parts, pools(tmp_path, **changes)).wrong
    assert any(all(any(side in text for text in (f.first, f.second)) for side in sides) for f in found), found
    assert all(f.fix and f.shared_bytes > 0 for f in found)


def test_the_stack_at_the_end_of_its_region_counts(tmp_path: Path) -> None:
    """It lies in no section: a pool in the upper half of AXISRAM1 would meet it first."""
    symbols = {"_estack": 0x3410_0000, "_sstack": 0x340F_C000, "_Min_Stack_Size": 0x4000}
    image = write_elf(tmp_path / "app.elf", CODE, DATA, symbols=symbols)
    assert read_elf_map(image).stack == (0x340F_C000, 0x3410_0000)
    assert not check(CheckRequest(find_board("dk"), "vision", (image,))).wrong
    (wrong,) = check(CheckRequest(find_board("nucleo"), "intram35mb", (image,))).wrong
    assert "stack of app.elf" in wrong.first + wrong.second and "pool cpuRAM1" in wrong.first + wrong.second
    low = write_elf(tmp_path / "low.elf", CODE, symbols={"_estack": CODE.start + 0x100})
    found = check(CheckRequest(find_board("dk"), "vision", (low,))).wrong
    assert any("stack of low.elf" in f.first + f.second and "grows into it" in f.fix for f in found)


def test_weights_of_two_networks_need_two_places(tmp_path: Path) -> None:
    first, second = pools(tmp_path, "vision@dk", "a.mpool"), pools(tmp_path, "reid@dk", "b.mpool")
    (wrong,) = checked(tmp_path, USUAL, first, second).wrong
    assert "a.mpool" in wrong.first and "b.mpool" in wrong.second and "0x74080000 or later" in wrong.fix


def test_what_a_network_really_uses_counts(tmp_path: Path) -> None:
    """With the folder of a network, memory that it leaves free is free."""
    folder = tmp_path / "net"
    generating.generate(digits(), folder)
    beside = (*USUAL, Part(".fast", 0x3431_0000, 64, contents=False))
    assert not checked(tmp_path, beside, networks=(folder,)).wrong
    assert not checked(tmp_path, USUAL, pools(tmp_path), networks=(folder,)).wrong  # it lies in its own pools
    used = next(s for s in checked(tmp_path, USUAL, networks=(folder,)).spans if s.kind == "activations")
    inside = (*USUAL, Part(".inside", used.start, 64, contents=False))
    (wrong,) = checked(tmp_path, inside, networks=(folder,)).wrong
    assert "activations of net" in wrong.first + wrong.second and ".inside" in wrong.first + wrong.second


def test_two_networks_with_constants_at_one_place(tmp_path: Path) -> None:
    folders = tmp_path / "one", tmp_path / "two"
    for folder in folders:
        generating.generate(digits(), folder)
    found = checked(tmp_path, USUAL, networks=folders)
    assert any("constants of one" in f.first and "constants of two" in f.second for f in found.wrong)


def test_the_default_set_is_what_else_is_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    image = str(write_elf(tmp_path / "app.elf", *USUAL))
    assert main(["board", "check", image]) == 1  # a network for the whole hyperRAM may use the frame buffers
    assert "pool hyperRAM of default@stm32n6570-dk" in capsys.readouterr().out
    assert main(["board", "check", image, "--board", "vision@dk", "-v"]) == 0
    said = capsys.readouterr().out
    assert "no overlaps" in said and "section .text" in said
    assert main(["board", "check", image, "--mpool", str(pools(tmp_path)), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["ok"] is True
    assert main(["board", "check"]) == 2
    assert atonc.check_firmware(image, "vision@dk").wrong == () != atonc.check_firmware(image).wrong
    assert atonc.check_firmware(image, pool_files=[pools(tmp_path)]).board == atonc.describe_board().title


def test_images_that_are_none(tmp_path: Path) -> None:
    path = tmp_path / "x.elf"
    good = write_elf(path, *USUAL[:3]).read_bytes()
    for bad in (b"", b"MZ", good[:60], b"\x7fELF\x02\x01" + good[6:], good[:18] + b"\x3e" + good[19:]):
        path.write_bytes(bad)
        with pytest.raises(InputError):
            read_elf_map(path)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_damaged_images_are_refused_or_read(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    path = tmp_path_factory.getbasetemp() / "damaged.elf"
    good = bytearray(write_elf(path, CODE, ROOM).read_bytes())
    ends = [*range(60), *range(len(good) - 200, len(good))]  # headers and names
    for _ in range(data.draw(st.integers(1, 6))):
        good[data.draw(st.sampled_from(ends))] = data.draw(st.integers(0, 255))
    path.write_bytes(good)
    try:
        check(CheckRequest(find_board("dk"), "default", (path,)))
    except AtoncError as error:
        assert str(error).isprintable()
