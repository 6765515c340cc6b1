"""Pool file, linker fragment and board file of the same board: each says what the others say."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from atonc.delivery.boards.importing import LinkerRegion, import_board, parse_regions, same_pool
from atonc.delivery.boards.linker_text import linker_text
from atonc.delivery.boards.mpool_text import mpool_text
from atonc.doors.cli.cli import main
from atonc.machine.base.errors import InputError
from atonc.machine.hw.board import board_names, find_board, parse_board
from atonc.machine.hw.mpool import parse_mpool

CHOICES = [(name, found) for name in board_names() if find_board(name).has_npu for found in find_board(name).pool_sets]
VISION_SCRIPT = """/* ORIGIN = 0 */
_size = 1023K;
MEMORY
{
  AXISRAM1_S (xrw) : ORIGIN = 0x34000400, LENGTH = _size /* of it */
  PSRAM (xrw)      : org = 0x90000000 + 16M, len = (8 + 8) * 1M
}
SECTIONS { .text : { *(.text) } >AXISRAM1_S }
"""


@pytest.mark.parametrize("name, pool_set", CHOICES)
def test_a_pool_file_says_what_the_board_says(name: str, pool_set: str) -> None:
    pools = find_board(name).pool_set(pool_set).pools
    found = parse_mpool(mpool_text(find_board(name), pool_set))
    assert found.pools == pools and found.file_prefix == "atonbuf"
    json.loads(mpool_text(find_board(name), pool_set))  # without comments: others read it strictly


def test_pools_of_published_applications() -> None:
    """Bases and sizes as ST's GettingStarted repositories have them; benchmarks/boards.py compares every property."""
    chip = [(0x3420_0000 + n * 0x7_0000, 448 << 10) for n in range(4)]
    weights, hyper = (0x7038_0000, 61 << 20), (0x9000_0000, 16 << 20)
    expected = {
        "vision@stm32n6570-dk": [(0x3410_0000, 1 << 20), *chip, hyper, weights],
        "vision@nucleo-n657x0-q": [(0x3410_0000, 1 << 20), *chip, weights],
        "face@nucleo-n657x0-q": [(0x3419_C000, 400 << 10), *chip, (0x7038_0000, 16 << 20)],
        "reid@stm32n6570-dk": [*chip, hyper, (0x7200_0000, 32 << 20)],
        "audio@stm32n6570-dk": [(0x3410_0000, 1 << 20), chip[3], hyper, (0x7018_0000, 63 << 20)],
    }
    for choice, pools in expected.items():
        found = parse_mpool(mpool_text(find_board(choice), choice.split("@")[0])).pools
        assert [(pool.base, pool.size_bytes) for pool in found] == pools, choice
    kit = {pool.name: pool for pool in find_board("dk").pool_set("vision").pools}
    assert (kit["hyperRAM"].byte_width, kit["hyperRAM"].freq_ratio, kit["hyperRAM"].read_power) == (2, 5.0, 380.0)
    assert (kit["octoFlash"].writable, kit["octoFlash"].cacheable) == (False, True)
    assert kit["octoFlash"].constants_preferred and kit["hyperRAM"].constants_preferred


def test_the_linker_fragment_has_the_regions_and_the_flash_map() -> None:
    text = linker_text(find_board("dk"), "vision")
    assert parse_regions(text, "x.ld") == (
        LinkerRegion("AXISRAM1_S", "xrw", 0x3400_0400, 1023 << 10),
        LinkerRegion("PSRAM", "xrw", 0x9100_0000, 16 << 20),
    )
    assert "PROVIDE(_board_weights_start = 0x70380000)" in text
    assert "PROVIDE(_board_pool_xspi1_end = 0x91000000)" in text and "share" not in text
    assert "pool hyperRAM and region PSRAM share 0x91000000 to 0x91ffffff" in linker_text(find_board("dk"), "default")
    hostile = parse_board('name = "x"\ntitle = "*/ MEMORY { A : ORIGIN = 0, LENGTH = 1 }"\nbased_on = "dk"\n', "x.toml")
    assert len(parse_regions(linker_text(hostile, "vision"), "x.ld")) == 2
    disco = parse_regions(linker_text(find_board("disco"), ""), "x.ld")
    assert disco[2] == LinkerRegion("AXIRAM", "xrw", 0x2400_0000, 512 << 10)


@pytest.mark.skipif(shutil.which("arm-none-eabi-gcc") is None, reason="arm-none-eabi-gcc is not installed")
def test_the_linker_takes_the_fragment(tmp_path: Path) -> None:
    (tmp_path / "board.ld").write_text(linker_text(find_board("dk"), "vision"))
    (tmp_path / "app.ld").write_text(
        "INCLUDE board.ld\nENTRY(go)\nSECTIONS { .text : { *(.text) } >AXISRAM1_S\n"
        ".frames (NOLOAD) : { *(.f) } >PSRAM }\n"
    )
    (tmp_path / "app.c").write_text(
        'extern char _board_weights_start[];\n__attribute__((section(".f"))) char frame[64];\n'
        "char *go(void) { return _board_weights_start + (frame[0] = 1); }\n"
    )
    command = ["arm-none-eabi-gcc", "-mcpu=cortex-m55", "-mthumb", "-nostdlib", "-Wl,--no-warn-rwx-segments"]
    subprocess.run([*command, "-Tapp.ld", "app.c", "-o", "app.elf"], cwd=tmp_path, check=True)
    assert main(["board", "check", str(tmp_path / "app.elf"), "--board", "vision@dk"]) == 0


def test_a_pair_becomes_a_board(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pool_file, script, output = tmp_path / "own.mpool", tmp_path / "own.ld", tmp_path / "own.toml"
    pool_file.write_text(mpool_text(find_board("dk"), "vision"))
    script.write_text(VISION_SCRIPT)
    assert main(["board", "import", str(pool_file), str(script), "-o", str(output)]) == 0
    own = find_board(str(output))
    assert own.name == "own" and own.machine().clocks == find_board("dk").machine().clocks
    for ours, theirs in zip(own.pool_set().pools, find_board("dk").pool_set("vision").pools, strict=True):
        assert same_pool(ours, theirs) == ""
    assert {(r.name, r.base, r.size_bytes) for r in parse_regions(linker_text(own, "default"), "x")} == {
        ("AXISRAM1_S", 0x3400_0400, 1023 << 10),
        ("PSRAM", 0x9100_0000, 16 << 20),
    }
    capsys.readouterr()
    assert main(["board", "mpool", str(output)]) == 0
    assert parse_mpool(capsys.readouterr().out).pools == own.pool_set().pools


def test_import_of_memories_that_no_board_has(tmp_path: Path) -> None:
    """64 MB of PSRAM, pools of relative mode, a region over two memories, one in a third external memory."""
    document = json.loads(mpool_text(find_board("dk"), "vision"))
    hyper = document["memory"]["mempools"][5]
    hyper |= {"offset": {"value": "0x92000000", "magnitude": "BYTES"}, "mode": "USEMODE_RELATIVE"}
    (tmp_path / "big.mpool").write_text(json.dumps(document))
    (tmp_path / "big.ld").write_text(
        "MEMORY { RAM (xrw) : ORIGIN = 0x34000400, LENGTH = 2047K\n X (rw) : ORIGIN = 0x80000000, LENGTH = 8M\n }"
    )
    own = parse_board(import_board(tmp_path / "big.mpool", tmp_path / "big.ld"), "big.toml")
    hyper_ram, third = own.memory("hyperRAM"), own.memory_at(0x8000_0000)
    assert hyper_ram is not None and hyper_ram.size_bytes == 64 << 20
    assert third is not None and third.size_bytes == 8 << 20
    assert not own.pool_set().pools[5].absolute
    region = own.area("region RAM")
    assert region is not None and region.size_bytes == 2047 << 10


@pytest.mark.parametrize(
    "text",
    ["", "MEMORY { }", "MEMORY { A : ORIGIN = 1, LENGTH = 1\nA : ORIGIN = 2, LENGTH = 1 }",
     "MEMORY { A : ORIGIN = x, LENGTH = 1 }", "MEMORY { A : ORIGIN = 1 +, LENGTH = 1 }",
     "a = a; MEMORY { A : ORIGIN = a, LENGTH = 1 }", "MEMORY { A : ORIGIN = 1 - 2, LENGTH = 1 }",
     "MEMORY { A : ORIGIN = (1, LENGTH = 1 }", "MEMORY { A : ORIGIN = 1" + " " * 100_000 + ", LENGTH }",
     "/*" * 50_000, "a" + "\n" * 100_000, "MEMORY {" * 20_000],
)  # fmt: skip
def test_scripts_that_say_nothing_are_refused(text: str) -> None:
    with pytest.raises(InputError):
        parse_regions(text, "x.ld")


def test_boards_are_listed_and_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine.toml").write_text('name = "mine"\nbased_on = "dk"\n[clocks]\nnpu_mhz = 640\n')
    assert main(["board", "list", str(tmp_path)]) == 0
    listed = capsys.readouterr().out.splitlines()
    assert listed.index("") == len(board_names()) + 1 and "NPU 640 MHz" in listed[len(board_names())]
    assert listed[-2] == f"in all     {len(board_names()) + 1} boards"
    assert main(["board", "show", "dk"]) == 0
    shown = capsys.readouterr().out
    assert "0x91000000 to 0x91ffffff 16 MiB frame buffers: display, linker region PSRAM" in " ".join(shown.split())
    assert "pool set vision" in shown and "400 MB/s" in shown
    assert main(["board", "show", "nucleo", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["clocks"]["npu_mhz"] == 1000
    assert main(["board", "show", "template", "--toml"]) == 0
    assert parse_board(capsys.readouterr().out, "copy.toml").name == "template"
    assert main(["board", "linker", "vision@dk", "-o", str(tmp_path / "b.ld")]) == 0
    assert main(["board", "mpool", "disco"]) == 2
