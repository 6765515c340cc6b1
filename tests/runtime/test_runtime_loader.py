"""Containers of all versions, in C: copied, relocated and patched as `atonc.machine.hw.ec` does it."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import pytest

from atonc.machine.hw.ec.blob import Blob, Container, Patch, Relocation, apply_patches, build_container, relocate
from tests.runtime import host

PROGRAM = tuple(range(100, 141))
RELOCATIONS = (Relocation("_user_io_input_0", (1, 7, 40)), Relocation("xSPI2", (2, 3)))
BASES = {"_user_io_input_0": 0x34100000, "xSPI2": 0x70380000}


@pytest.fixture(scope="module")
def loader(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    library = host.build(tmp_path_factory.mktemp("loader"), [])
    for name in ("ec_get_blob_ptr", "ec_get_reloc_table_ptr", "ec_get_patch_table_ptr"):
        getattr(library, name).restype = ctypes.c_void_p
    library.ec_get_reloc_id.restype = ctypes.c_char_p
    for name in ("ec_copy_blob", "ec_reloc", "ec_reloc_by_id", "ec_patch", "ec_patch_by_id", "ec_copy_reloc_table"):
        getattr(library, name).restype = ctypes.c_bool
    return library


def words(values: Sequence[int]) -> Any:
    """32-bit words on an 8-byte boundary."""
    doubles = (ctypes.c_uint64 * ((len(values) + 3) // 2))()
    target = (ctypes.c_uint32 * len(values)).from_buffer(doubles)
    target[:] = values
    return target


def container(version: int) -> Container:
    return build_container(Blob(PROGRAM), version, RELOCATIONS if version else ())


def copy_of(loader: ctypes.CDLL, stored: Any) -> Any:
    size = ctypes.c_uint(0)
    assert loader.ec_copy_blob(None, stored, ctypes.byref(size))
    blob = words([0] * size.value)
    assert loader.ec_copy_blob(blob, stored, ctypes.byref(size))
    return blob


@pytest.mark.parametrize("version", [0, 0x20, 0x30, 0x50])
def test_blobs_are_copied(loader: ctypes.CDLL, version: int) -> None:
    stored = words(container(version).words())
    assert list(copy_of(loader, stored)) == Blob(PROGRAM).words()[: len(PROGRAM) + 2]
    too_small = ctypes.c_uint(len(PROGRAM) + 1)
    assert not loader.ec_copy_blob(words([0] * 60), stored, ctypes.byref(too_small))


@pytest.mark.parametrize("version", [0x20, 0x30, 0x50])
@pytest.mark.parametrize("table_first", [True, False])
def test_relocation_by_number_in_either_order(loader: ctypes.CDLL, version: int, table_first: bool) -> None:
    stored = words(container(version).words())
    table = ctypes.c_void_p(loader.ec_get_reloc_table_ptr(stored))
    blob = copy_of(loader, stored)
    assert loader.ec_get_num_relocs(table) == 2
    previous = (ctypes.c_uint32 * 2)()
    for number in range(2):
        name = loader.ec_get_reloc_id(table, number).decode()
        place = ctypes.byref(previous, 4 * number)
        first, second = (table, blob) if table_first else (blob, table)
        assert loader.ec_reloc(first, second, number, ctypes.c_uint32(0x1234), place)
        assert loader.ec_reloc(first, second, number, ctypes.c_uint32(BASES[name]), place)  # moved again
    assert list(blob)[2:] == list(relocate(container(version), BASES).program)


def test_relocation_by_name(loader: ctypes.CDLL) -> None:
    stored = words(container(0x20).words())
    table, blob = ctypes.c_void_p(loader.ec_get_reloc_table_ptr(stored)), copy_of(loader, stored)
    for name, base in BASES.items():
        before = ctypes.byref(ctypes.c_uint32(0))
        assert loader.ec_reloc_by_id(blob, table, name.encode(), ctypes.c_uint32(base), before)
    assert list(blob)[2:] == list(relocate(container(0x20), BASES).program)
    assert not loader.ec_reloc_by_id(blob, table, b"other", ctypes.c_uint32(1), ctypes.byref(ctypes.c_uint32(0)))


@pytest.mark.parametrize(("shift", "value"), [(0, 0x12345), (4, 0x12345), (-3, 0x5)])
def test_patches(loader: ctypes.CDLL, shift: int, value: int) -> None:
    patched = build_container(Blob(PROGRAM), 0x50, (), (Patch("gain", 0xFF, (0, 9), shift),))
    stored = words(patched.words())
    table, blob = ctypes.c_void_p(loader.ec_get_patch_table_ptr(stored)), copy_of(loader, stored)
    assert loader.ec_patch_by_id(blob, table, b"gain", ctypes.c_uint64(value))
    assert list(blob)[2:] == list(apply_patches(patched, {"gain": value}).blob.program)


def test_the_table_can_be_copied(loader: ctypes.CDLL) -> None:
    for version in (0x20, 0x50):
        stored = words(container(version).words())
        size = ctypes.c_uint(0)
        assert loader.ec_copy_reloc_table(None, stored, ctypes.byref(size))
        table = words([0] * size.value)
        assert loader.ec_copy_reloc_table(stored, table, ctypes.byref(size))  # the order of release 1.1.0
        assert loader.ec_get_num_relocs(table) == 2
        assert loader.ec_get_reloc_id(table, 1) == b"xSPI2"


def test_damage_is_refused(loader: ctypes.CDLL) -> None:
    size, zero = ctypes.c_uint(60), ctypes.c_uint32(0)
    for stored in ([0xDEADBEEF, 1, 2, 3, 4, 5], [0xECBF0020, 0, 0, 0, 0], [0xECBF0050, 0, 0, 0, 3, 0]):
        assert not loader.ec_copy_blob(words([0] * 60), words(stored), ctypes.byref(size))
    good = container(0x20).words()
    blob = copy_of(loader, words(good))
    for place, wrong in ((4, 5000), (5, 3), (7, 2)):  # how many symbols, and where the first one's places are
        broken = words([*good[:place], wrong, *good[place + 1 :]])
        table = ctypes.c_void_p(loader.ec_get_reloc_table_ptr(broken))
        before = list(blob)
        if not loader.ec_reloc(blob, table, 0, ctypes.c_uint32(16), ctypes.byref(zero)):
            assert list(blob) == before
    assert not loader.ec_reloc(words([0, 0, 0, 0]), words([1, 0, 0, 0]), 0, ctypes.c_uint32(1), ctypes.byref(zero))
