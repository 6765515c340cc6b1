"""The format of images: known words, reading back, and what a damaged file gives."""

from __future__ import annotations

import re
import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import atonc
from atonc.delivery.firmware import building
from atonc.delivery.reloc import format as fmt
from atonc.delivery.reloc.build import CPU_NUMBERS, RelocOptions, facts_of, link_image, prepare
from atonc.delivery.reloc.elf import read_linked
from atonc.delivery.reloc.format import ABIS, Flags, PoolEntry, abi_named, abi_of
from atonc.delivery.reloc.image import Image, c_files, checks, read_image
from atonc.delivery.texts import reloc_text
from atonc.delivery.trials import relocating
from atonc.insight.report.document import lines
from atonc.machine.base.errors import AtoncError, InputError
from tests.board.programs import needs_compiler
from tests.reloc import images
from tests.reloc.images import FOR_BOARD


@pytest.mark.parametrize(
    "word, expected",
    [
        (0x8078_5D22, Flags()),
        (0x8058_5D22, Flags(debug_info=False)),
        (0x8078_5D21, Flags(cpu=0xD21)),
        (0x8068_5D22, Flags(secure=False)),
    ],
)
def test_flags(word: int, expected: Flags) -> None:
    """The first two are those of published images."""
    assert Flags.of(word) == expected and expected.word == word


@pytest.mark.parametrize("word", [0, 0xFFFF_FFFF, 0x1234_5678, 0x8080_8000])
def test_every_flag_word_comes_back(word: int) -> None:
    assert Flags.of(word).word == word


@pytest.mark.parametrize(
    "flags, label",
    [
        (0x0101_0500, "RELOC.PARAM.0.RCACHED"),
        (0x0302_0200, "RESET.ACTIV.WRITE"),
        (0x0103_0601, "RELOC.MIXED.1.WCACHED"),
        (0, "UNUSED"),
    ],
)
def test_pool_labels(flags: int, label: str) -> None:
    assert PoolEntry("", flags, 0, 0, 0).label() == label


def test_releases() -> None:
    assert [abi.core for abi in ABIS] == ["2.1", "2.2", "3.0", "4.0"]
    assert abi_named("2.2").evidence == "1.1.1-14" and abi_named("1.1.3").core == "4.0"
    assert abi_named("1.1.3-8").core == "3.0" and abi_of((1, 1, 3), 262) == ABIS[-1]
    assert abi_of((1, 2, 0)) is None
    shared = {abi.callbacks[:7] for abi in ABIS}
    assert len(shared) == 1, "images of ours rely on these"
    with pytest.raises(InputError, match=r"1\.1\.3-262"):
        abi_named("9.9")


@needs_compiler
@pytest.mark.parametrize("runtime", [abi.evidence for abi in ABIS])
def test_every_release_has_its_header(runtime: str) -> None:
    image = images.image(images.folder(), replace(FOR_BOARD, runtime=runtime)).image
    abi = abi_named(runtime)
    assert image.abi == abi and image.header_bytes == 4 * abi.header_words
    assert (image.context.number, image.context.dev) == (abi.version, int(runtime.split("-")[1]))
    assert image.context.buffer_info_bytes == (56 if abi.context_words > 16 else 0)
    assert all(check.good is not False for check in checks(image))


@needs_compiler
def test_reading_back() -> None:
    built = images.image(images.folder())
    image = read_image(built.image.data)
    assert image == built.image and image.flags == Flags(cpu=CPU_NUMBERS[FOR_BOARD.cpu])
    assert image.context.c_name == "network" and image.context.params_bytes == 7377
    assert all(check.good for check in checks(image))
    assert image.copy_bytes == image.xip_bytes + image.ro_bytes
    assert {fmt.segment(slot.where) for slot in image.relocations} == {fmt.ImageBase.RAM}


@needs_compiler
@pytest.mark.parametrize("memories", ["flash", "ram"])
def test_the_table_of_addresses_ends_with_its_three_reserved_words(memories: str) -> None:
    """ST's scripts take every word before them for an address, and refuse an image whose table is filled up."""
    values = [slot.value for slot in images.image(images.folder(memories)).image.got]
    assert all(values[:-3]) and values[-3:] == [0, 0, 0]


@needs_compiler
def test_the_same_files_give_the_same_bytes(tmp_path: Path) -> None:
    once = images.image(images.folder()).image.data
    again = atonc.relocate(images.folder(), tmp_path, cpu=FOR_BOARD.cpu)
    assert again.built.image.data == once == again.files[0].read_bytes()


@needs_compiler
def test_a_linker_output_is_told_from_an_image() -> None:
    """A published file is the binary of an ELF whose relocation list was never filled in."""
    image = images.image(images.folder()).image
    raw = bytearray(image.data)
    raw[40:44] = raw[36:40]
    found = {check.what: check for check in checks(read_image(bytes(raw)))}
    assert found["relocation list"].good is False and "pointers" in found["relocation list"].seen


@needs_compiler
def test_damaged_files_are_one_error() -> None:
    image = images.image(images.folder("ram")).image
    rng = np.random.default_rng(5)
    refused = 0
    for _ in range(400):
        data = bytearray(image.data)
        for _ in range(int(rng.integers(1, 4))):
            at = 4 * int(rng.integers(0, 30)) if rng.random() < 0.6 else int(rng.integers(0, len(data) - 4))
            struct.pack_into("<I", data, at, int(rng.integers(0, 1 << 32)))
        if rng.random() < 0.2:
            del data[int(rng.integers(0, len(data))) :]
        try:
            checks(read_image(bytes(data)))
        except AtoncError:
            refused += 1
    assert refused > 100


@needs_compiler
def test_an_image_inside_a_package(tmp_path: Path) -> None:
    image = images.image(images.folder()).image
    path = tmp_path / "package.bin"
    path.write_bytes(bytes(0x1000) + image.data)
    found, start = relocating.read_image_file(path)
    assert start == 0x1000 and found == image
    assert relocating.read_image_file(path, at=0x1000)[0] == image
    path.write_bytes(b"nothing of that kind")
    with pytest.raises(InputError, match="NBIN"):
        relocating.read_image_file(path)


@needs_compiler
def test_the_image_as_c() -> None:
    image: Image = images.image(images.folder()).image
    files = c_files(image, "network")
    numbers = re.findall(r"0x([0-9a-f]{2})\b", files["network_rel.c"].decode())
    assert bytes(int(number, 16) for number in numbers) == image.data
    header = files["network_rel.h"].decode()
    assert f"#define AI_NETWORK_RELOC_RAM_SIZE_XIP ({image.xip_bytes})" in header
    assert "AI_NETWORK_RELOC_MPOOL_DESC_0_FLAGS (0x1010500) /* RELOC.PARAM.0.RCACHED */" in header


@needs_compiler
def test_an_image_costs_little() -> None:
    """Beside parameters and programs: 40 KB for a network without CPU layers; this one has some and takes less."""
    built = images.image(images.folder())
    programs = sum(4 * len(container.words()) for container in built.prepared.network.blobs.values())
    assert built.image.code_bytes - programs < 12 << 10


@needs_compiler
@pytest.mark.parametrize(("cpu", "said"), [("cortex-m55", "load-and-run"), ("cortex-m33", "takes cortex-m55")])
def test_the_virtual_board_is_advised_for_images_that_it_takes(cpu: str, said: str) -> None:
    built = images.image(images.folder(), RelocOptions(cpu=cpu))
    assert said in lines(reloc_text.document(built.image, checks(built.image)))[-1]


@needs_compiler
def test_every_layer_can_be_moved(tmp_path: Path) -> None:
    """No kernel, library layer or driver that an image may hold needs code of the C library that cannot move. The
    Cortex-M33 takes more of that library: it computes doubles in software."""
    cpu = "cortex-m33"
    options = RelocOptions(cpu=cpu)
    ready = prepare(images.folder(epoch_controller=False), options)
    whole = ("-Wl,--no-gc-sections",)
    elf = link_image(
        building.find_toolchain(), ready.network, facts_of(ready, "network", options), tmp_path, cpu, whole
    )
    linked = read_linked(elf, ready.abi.header_words)
    assert len(linked.flash) > 20_000 and linked.relocations


@needs_compiler
@pytest.mark.parametrize("split", [False, True])
def test_little_is_added_to_weights_and_programs(split: bool) -> None:
    """Header, code, tables and relocations: at most 40 KB are allowed, one CPU layer included here; 8 KB are used."""
    built = images.image(images.folder(), RelocOptions(split=split))
    blobs = sum(4 * len(container.words()) for container in built.prepared.network.blobs.values())
    inside = 0 if split else built.image.params_bytes
    assert blobs > 0 and (inside or built.params)
    assert 0 < len(built.image.data) - inside - blobs <= 8 << 10
