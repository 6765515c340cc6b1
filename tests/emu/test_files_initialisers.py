"""Initial memory contents: found, placed, and refused when they belong to something else."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atonc.machine.base.errors import InputError, UnsupportedError
from atonc.machine.emu.files.initialisers import load_initialisers, parse_hex
from atonc.machine.emu.files.network_c import read_network
from tests.emu.files_samples import driver_text, hex_record, hex_text, write_network

BASE = 0x70380000
NEEDED = 32  # the weights of the sample end here


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_network(tmp_path)
    (tmp_path / "network_atonbuf.xSPI2.raw").unlink()
    return tmp_path


@pytest.mark.parametrize(
    "name",
    [
        "network_atonbuf.xSPI2.raw",
        "network_atonbuf.xSPI2.bin",
        "network_data.xSPI2.bin",
        "atonbuf.xSPI2.raw",
        "network_data.bin",
        "other_weights.bin",  # of exactly the right size
    ],
)
def test_bare_files_are_found(folder: Path, name: str) -> None:
    (folder / name).write_bytes(bytes(range(NEEDED)))
    (segment,) = load_initialisers(read_network(folder))
    assert (segment.address, segment.data, segment.source.name) == (BASE, bytes(range(NEEDED)), name)


@pytest.mark.parametrize("name", ["network_data.hex", "network_data.xSPI2.hex"])
def test_hex_files_carry_their_address(folder: Path, name: str) -> None:
    (folder / name).write_text(hex_text(BASE, bytes(range(NEEDED))))
    (segment,) = load_initialisers(read_network(folder))
    assert (segment.address, segment.data) == (BASE, bytes(range(NEEDED)))


@pytest.mark.parametrize(("kind", "count"), [("uint8_t", 32), ("uint32_t", 8), ("uint64_t", 4), ("unsigned char", 32)])
def test_c_arrays(folder: Path, kind: str, count: int) -> None:
    values = ", ".join(f"0x{i:x}" for i in range(count))
    (folder / "atonbuf_xSPI2.c").write_text(f"const {kind} _mem_pool_xSPI2_Default[] = {{ {values} }};\n")
    (segment,) = load_initialisers(read_network(folder))
    width = NEEDED // count
    assert segment.data == b"".join(i.to_bytes(width, "little") for i in range(count))


def test_named_files_win(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    elsewhere = tmp_path_factory.mktemp("weights")
    named = elsewhere / "w.bin"
    named.write_bytes(bytes(NEEDED))
    assert load_initialisers(read_network(folder), [named])[0].source == named
    (elsewhere / "atonbuf.xSPI2.raw").write_bytes(bytes(NEEDED))
    assert load_initialisers(read_network(folder), search=[elsewhere])[0].source.name == "atonbuf.xSPI2.raw"


def test_padding_is_allowed_other_content_is_not(folder: Path) -> None:
    path = folder / "network_atonbuf.xSPI2.raw"
    for padding in (b"\0" * 8, b"\xff" * 100):
        path.write_bytes(bytes(NEEDED) + padding)
        assert load_initialisers(read_network(folder))
    path.write_bytes(bytes(NEEDED) + b"more weights")
    with pytest.raises(InputError, match="too long: 44 bytes, but the constants end at 32"):
        load_initialisers(read_network(folder))


def test_missing_short_and_oversized_files(folder: Path) -> None:
    network = read_network(folder)
    with pytest.raises(InputError, match=r"no initial contents for pool xSPI2 (?s:.*) weights"):
        load_initialisers(network)
    path = folder / "network_atonbuf.xSPI2.raw"
    path.write_bytes(bytes(NEEDED - 1))
    with pytest.raises(InputError, match="too short for pool xSPI2: 31 bytes, but weights needs 16 to 32"):
        load_initialisers(network)
    path.write_bytes(b"")
    with pytest.raises(InputError, match="no initial contents"):
        load_initialisers(network)
    path.write_bytes(bytes(5000))
    with pytest.raises(InputError, match="do not fit pool xSPI2"):
        load_initialisers(network)
    with pytest.raises(InputError, match="there is no such file"):
        load_initialisers(network, [folder / "absent.xSPI2.raw"])


def test_a_hex_file_for_another_address(folder: Path) -> None:
    (folder / "network_data.hex").write_text(hex_text(0x71000000, bytes(NEEDED)))
    with pytest.raises(InputError, match="starts at 0x71000000"):
        load_initialisers(read_network(folder))


def test_two_files_for_one_place(folder: Path) -> None:
    first, second = folder / "a.xSPI2.raw", folder / "b.xSPI2.bin"
    first.write_bytes(bytes(NEEDED))
    second.write_bytes(bytes(NEEDED))
    with pytest.raises(InputError, match="both initialise"):
        load_initialisers(read_network(folder), [first, second])


def test_a_constant_outside_every_pool(folder: Path) -> None:
    path = folder / "network.c"
    text = path.read_text().replace(
        "(0x70380000UL)},\n      .offset_start = 16", "(0x60000000UL)},\n      .offset_start = 16"
    )
    path.write_text(text)
    with pytest.raises(InputError, match="in no memory pool"):
        load_initialisers(read_network(folder))


def test_encrypted_weights_are_refused(tmp_path: Path) -> None:
    info = "const E *LL_ATON_WeightEncryption_Info_Default() { static const E e = { .enable = 1, }; return &e; }\n"
    (tmp_path / "network.c").write_text(driver_text() + info)
    with pytest.raises(UnsupportedError, match="encrypted"):
        load_initialisers(read_network(tmp_path))


@pytest.mark.parametrize(
    "array",
    [
        "const float _mem_pool_xSPI2_Default[] = { 1.5 };",
        "const uint8_t _mem_pool_xSPI2_Default[] = { 256 };",
        "const uint8_t _mem_pool_xSPI2_Default[] = { 1, UNKNOWN };",
        "const uint8_t _mem_pool_xSPI2_Default[] = { 1, 2 ;",
    ],
)
def test_broken_c_arrays(folder: Path, array: str) -> None:
    (folder / "weights.c").write_text(array)
    with pytest.raises(InputError):
        load_initialisers(read_network(folder))


@given(st.binary(min_size=1, max_size=300), st.integers(0, 0xFFFF_FF00), st.randoms(use_true_random=False))
def test_hex_round_trip(data: bytes, address: int, random: object) -> None:
    page = address & 0xFFFF_0000
    assert parse_hex(hex_text(page, data).encode(), "x.hex") == [(page, data)]


def test_hex_runs_are_joined_and_sorted() -> None:
    text = hex_record(0x20, 0, b"cd") + hex_record(0x10, 0, b"ab") + hex_record(0x12, 0, b"!") + hex_record(0, 1, b"")
    assert parse_hex(text.encode(), "x") == [(0x10, b"ab!"), (0x20, b"cd")]
    segmented = (
        hex_record(0, 2, b"\x10\x00") + hex_record(4, 0, b"z") + hex_record(0, 3, bytes(4)) + hex_record(0, 1, b"")
    )
    assert parse_hex(segmented.encode(), "x") == [(0x10004, b"z")]


GOOD = hex_text(BASE, bytes(range(40)))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (GOOD.replace(":10", ":11", 1), "wrong length"),
        (GOOD[:40] + ("0" if GOOD[40] != "0" else "1") + GOOD[41:], r"x\.hex:2: wrong checksum"),
        (GOOD.replace(":10", "10", 1), "not a record"),
        (GOOD.replace(":10", ":1G", 1), "not hexadecimal"),
        (GOOD[: GOOD.rindex(":")], "end record is missing"),
        (hex_record(0, 9, b"") + GOOD, "type 9"),
        (hex_record(0, 4, b"abc") + GOOD, "type 4"),
        (hex_record(0, 0, b"abc") * 2 + GOOD, "written twice"),
        ("", "end record is missing"),
        (":", "wrong length"),
        (":0000", "wrong length"),
    ],
)
def test_damaged_hex(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_hex(text.encode(), "x.hex")


@given(st.integers(0, len(GOOD) - 1), st.integers(0, 255))
def test_any_changed_byte_of_a_hex_file_is_noticed(position: int, byte: int) -> None:
    changed = bytearray(GOOD.encode())
    changed[position] = byte
    try:
        runs = parse_hex(bytes(changed), "x.hex")
    except InputError:
        return
    assert runs == parse_hex(GOOD.encode(), "x.hex")
