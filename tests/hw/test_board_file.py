"""Board files: what they say is what the machine gets; what they say wrongly is named with file, line and key."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atonc.machine.base.errors import AtoncError, InputError
from atonc.machine.hw.board import (
    MAX_BYTES,
    board_names,
    board_text,
    find_board,
    parse_board,
    read_board_file,
    split_choice,
)
from atonc.machine.hw.machine import FLASH, HYPERRAM, MemoryBank, kind_of_label, stm32n6

MIB = 1 << 20
OWN = 'name = "own"\nbased_on = "stm32n6570-dk"\n'


def test_boards_are_the_files_of_the_folder() -> None:
    assert {"stm32n6570-dk", "nucleo-n657x0-q", "stm32h747i-disco"} <= set(board_names())
    for name in board_names():
        assert find_board(name).name == name
    assert find_board("DK").name == find_board("vision@STM32N6570_DK").name == "stm32n6570-dk"
    with pytest.raises(InputError, match=r"known boards(?s:.*)nucleo"):
        find_board("stm32f4")
    with pytest.raises(InputError, match="no board ''"):
        find_board("")


def test_the_discovery_kit_is_the_machine_that_was_measured() -> None:
    """The constants of the cycle model hold at its clocks; predictions for it must not move."""
    assert find_board("dk").machine() == stm32n6()
    assert find_board("nucleo-n657x0-q").machine().clocks == stm32n6().clocks


def test_the_template_says_what_the_discovery_kit_is() -> None:
    own, kit = parse_board(board_text("_template"), "template"), find_board("dk")
    assert own.machine() == kit.machine() and own.memories == kit.memories and own.areas == kit.areas
    assert own.pool_set().pools[0] == kit.pool_set().pools[0]
    assert "_template" not in board_names()


def test_a_file_says_only_what_differs() -> None:
    text = OWN + '[clocks]\nnpu_mhz = 800\n[[memories]]\nname = "hyperRAM"\nsize = "16M"\nmb_per_s = 200\n'
    text += '[[areas]]\nname = "frame buffers"\nsize = 0\n[[areas]]\nname = "weights"\nbase = 0x70400000\n'
    own = parse_board(text, "own.toml")
    machine = own.machine()
    assert (machine.clocks.npu_mhz, machine.clocks.cpu_mhz, machine.clocks.hyperram_mb_per_s) == (800, 800, 200)
    assert machine.timing.read_beat == pytest.approx(stm32n6().timing.read_beat * 0.8)
    pools = {pool.name: pool for pool in own.pool_set().pools}
    assert pools["hyperRAM"].size_bytes == 16 * MIB and pools["octoFlash"].base == 0x7040_0000
    assert pools["octoFlash"].base + pools["octoFlash"].size_bytes == 0x7800_0000
    bank = machine.memory_at(0x9100_0000)
    assert bank is None and own.area("frame buffers") is None
    assert {p.name for p in own.pool_set("noextmem").pools} == {"cpuRAM2", *(f"npuRAM{n}" for n in range(3, 7))}


def test_a_board_without_hyperram_has_no_pool_in_it() -> None:
    nucleo = find_board("nucleo-n657x0-q")
    for name in nucleo.set_names:
        if name not in ("nointmem",):
            assert all(pool.name != "hyperRAM" for pool in nucleo.pool_set(name).pools)
    with pytest.raises(InputError, match="no memory that may be written"):
        nucleo.pool_set("nointmem")
    assert nucleo.pool_set("vision").past_end == {"octoFlash"}  # ST's file is larger than the flash
    assert not nucleo.pool_set().past_end


def test_boards_without_npu_are_not_compiled_for() -> None:
    disco = find_board("stm32h747i-disco")
    assert not disco.has_npu and disco.memory("SDRAM") is not None
    with pytest.raises(InputError, match="no NPU"):
        disco.pool_set()


def test_choices_name_a_set_and_a_board() -> None:
    assert split_choice("vision@dk") == ("vision", "dk")
    assert split_choice("/tmp/x@1/b.toml") == ("default", "/tmp/x@1/b.toml")
    with pytest.raises(InputError, match=r"no pool set 'none'(?s:.*)default"):
        find_board("dk").pool_set("none")


@pytest.mark.parametrize(
    "text, said",
    [
        ("", "lacks name, machine"),
        ('name = "x"', "lacks machine"),
        ("name = 3", "line 1, name: '3' is not a text"),
        ("name = ", "not TOML: Invalid value"),
        (OWN + "colour = 1", "line 3, colour: unknown key"),
        (OWN + "[clocks]\nnpu_mhz = 0", "line 4, clocks, npu_mhz: 0 is out of range"),
        (OWN + "[clocks]\nnpu_mhz = nan", "clocks, npu_mhz: nan is out of range"),
        (OWN + "[clocks]\nnpu = 800", "line 4, clocks, npu: unknown key.*did you mean npu_mhz"),
        (OWN + '[[memories]]\nname = "hyperRAM"\nsize = "16Q"', "line 5, memories 'hyperRAM', size: '16Q' is not"),
        (OWN + '[[memories]]\nname = "hyperRAM"\nsize = -1', "size: -1 is out of range"),
        (OWN + '[[memories]]\nname = "hyperRAM"\nsize = true', "size: 'True' is not a number"),
        (OWN + '[[memories]]\nname = "hyperRAM"\nkind = "rom"', "kind: 'rom' is not known.*cpu_ram"),
        (OWN + '[[memories]]\nname = "hyperRAM"\nusers = ["me"]', "users.*'me'.*is not known.*application"),
        (OWN + '[[memories]]\nname = "hyperRAM"\n[[memories]]\nname = "hyperRAM"', "a name of its own"),
        (OWN + "[[memories]]\nsize = 1", "a name of its own"),
        (OWN + '[[memories]]\nname = "new"', "'new'.*lacks kind, base, size, users"),
        (OWN + '[[memories]]\nname = "hyperRAM"\npostfix = "a/b"', "postfix: 'a/b' cannot be used.*C identifier"),
        (OWN + '[[memories]]\nname = "cpuRAM1"\nsize = "2M"', "memories cpuRAM1 and cpuRAM2 overlap at 0x34100000"),
        (OWN + '[[memories]]\nname = "hyperRAM"\nbase = 0xff000000', "ends at 0x101000000"),
        (OWN + '[[areas]]\nname = "x"\nuser = "npu"\nbase = 0x60000000', "line 3, areas 'x': no memory at 0x60000000"),
        (OWN + '[[areas]]\nname = "frame buffers"\nsize = "32M"', "ends at 0x93000000, hyperRAM at 0x92000000"),
        (OWN + '[[areas]]\nname = "x"\nuser = "fsbl"\nbase = 0x91000000\nsize = 1', "fsbl is not among the users"),
        (OWN + '[pools.x]\nuse = ["rom"]', "line 4, pools.x, use: no memory or area 'rom'"),
        (OWN + '[pools.x]\nuse = [{ of = "octoFlash", base = 0x70380000, size = "128M" }]', "pool octoFlash ends at"),
        (OWN + '[pools.x]\nuse = [{ of = "octoFlash", base = 0x90000000 }]', "0x90000000 is not in octoFlash"),
        (OWN + '[pools.x]\nuse = [{ of = "octoFlash", base = 0x78000000 }]', "0x78000000 is not in octoFlash"),
        (OWN + "[pools.x]\nuse = [{ size = 1 }]", "lacks `of`"),
        (OWN + "[pools.x]\nuse = [3]", "not a list of at most"),
        (OWN + '[pools."a b"]\nuse = []', "not a name for a pool set"),
        ('name = "x"\nmachine = "stm32n6"\n', "names no memory"),
        ('name = "x"\nbased_on = "stm32f4"\n', "no board 'stm32f4'"),
        ('name = "x"\nbased_on = "absent.toml"\n', "there is no such file"),
        ("memories = 3\n" + OWN, "memories: '3' is not a list"),
        (OWN + "x = " + "[" * 5000, "not TOML"),
        (OWN + "a . 'a'." * 60 + "x = 1", "line 3.*not TOML: Key of 100 parts"),
        (OWN + f"[{'a.' * 100_000}x]", "line 3.*not TOML: Key of 100 parts"),
        (OWN + "title = 9" + "9" * 5000, "not TOML"),
        (OWN + 'title = "\\u001b[31m"', "not a printable text"),
    ],
)
def test_mistakes_are_named(text: str, said: str) -> None:
    with pytest.raises(InputError, match=f"(?s){said}"):
        parse_board(text, "own.toml")


def test_files_are_bounded(tmp_path: Path) -> None:
    large = tmp_path / "large.toml"
    large.write_text(OWN + "#" * MAX_BYTES)
    with pytest.raises(InputError, match="at most"):
        read_board_file(large)
    many = "".join(f'[[memories]]\nname = "m{n}"\n' for n in range(65))
    with pytest.raises(InputError, match="at most 64"):
        parse_board(OWN + many, "many.toml")
    ring = tmp_path / "ring.toml"
    ring.write_text('name = "ring"\nbased_on = "ring.toml"\n')
    with pytest.raises(InputError, match="based on each other"):
        read_board_file(ring)
    mine, other = tmp_path / "mine.toml", tmp_path / "other.toml"
    mine.write_text('name = "mine"\nbased_on = "other.toml"\n')
    other.write_text(OWN + "[clocks]\ncpu_mhz = 600\n")
    assert find_board(str(mine)).machine().clocks.cpu_mhz == 600


@settings(max_examples=60, deadline=None)
@given(st.integers(0, len(board_text("_template")) - 1), st.text(max_size=6), st.integers(0, 12))
def test_damaged_files_are_refused_or_read(at: int, put: str, cut: int) -> None:
    """Whatever happens to a file, the answer is a board or one of our errors."""
    text = board_text("_template")
    try:
        parse_board(text[:at] + put + text[at + cut :], "damaged.toml").pool_set()
    except AtoncError as error:
        assert all(line.isprintable() for line in str(error).splitlines())


def test_labels_tell_memories_apart() -> None:
    """Reports say what an epoch waits for; the kind of the memory must be in the word, whatever the board calls it."""
    names = [("hyperRAM", HYPERRAM), ("psram", HYPERRAM), ("flashy", HYPERRAM), ("octoFlash", FLASH), ("hyper", FLASH)]
    for name, kind in names:
        label = MemoryBank(name, kind, 0x9000_0000, MIB, 2, 5.0, "HIGH").label
        assert kind_of_label(label) == kind and name in label
    assert MemoryBank("hyperRAM", HYPERRAM, 0, 1, 2, 5.0, "HIGH").label == "hyperRAM"
    assert MemoryBank("cpuRAM2", "cpu_ram", 0, 1, 8, 2.5, "MID").label == "cpuRAM2"
