"""Blobs and containers: exact words, tables, relocation, patches, and damaged files."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from atonc.machine.base.errors import InputError
from atonc.machine.hw.ec.blob import (
    Blob,
    Container,
    Patch,
    Relocation,
    apply_patches,
    build_container,
    read_blobs,
    read_container,
    relocate,
)
from atonc.machine.hw.ec.instructions import Instruction, Label, Write, encode
from atonc.machine.hw.ec.text import SymbolOffset, bind_symbols, collect_relocations, container_of, instructions_of
from tests.hw.ec_programs import programs, sample_program, values, words

VERSIONS = (0x20, 0x30, 0x50)


def name_words(*names: str) -> list[int]:
    raw = b"".join(name.encode() + b"\0" for name in names)
    return np.frombuffer(raw + bytes(-len(raw) % 8), dtype="<u4").tolist()


def test_bare_blob_words() -> None:
    assert Blob((7, 8)).words() == [0xCA057A7A, 2, 7, 8]
    assert Blob((7,)).words() == [0xCA057A7A, 1, 7, 0]


def test_container_0x20_words() -> None:
    blob = Blob(tuple(encode([Label(1), Write(8, 2, 0)])))
    stored = build_container(blob, 0x20, (Relocation("xSPI2", (2,)),))
    table = [1, 20, 1, 16, 2, *name_words("xSPI2"), 0]
    assert stored.words() == [0xECBF0020, 16, 48, 48, *table, *blob.words()]


def test_container_0x50_words() -> None:
    blob = Blob(tuple(encode([Write(8, 2, 0), Write(8, 14, 63)])))
    stored = build_container(blob, 0x50, (Relocation("pool", (1, 3)),))
    table = [1, 24, 2, 16, 1, 3, *name_words("pool")]
    assert stored.words() == [0xECBF0050, 24, 0, 0, 56, 0, *table, *blob.words()]


@pytest.mark.parametrize(
    ("version", "shift", "middle"),
    [(0x30, 0, [0xFF00, 1]), (0x50, 5, [5, 0xFF00, 1]), (0x50, -4, [0xFFFFFFFC, 0xFF00, 1])],
)
def test_patch_entries_differ_by_version(version: int, shift: int, middle: list[int]) -> None:
    stored = build_container(Blob((0, 0)), version, patches=(Patch("n", 0xFF00, (1,), shift),))
    count, name, *rest = stored.prefix[stored.prefix[2] // 4 :]
    list_at = 4 * (2 + len(middle) + 1)
    assert (count, name) == (1, list_at + 4)
    assert rest[: len(middle) + 2] == [*middle, list_at, 1]
    assert stored.patches == (Patch("n", 0xFF00, (1,), shift),)


@st.composite
def containers(draw: st.DrawFn) -> Container:
    version = draw(st.sampled_from(VERSIONS))
    program = draw(st.lists(words, min_size=8, max_size=20))
    offsets = draw(st.permutations(range(len(program))))
    cuts = sorted(draw(st.lists(st.integers(0, len(program)), min_size=2, max_size=4)))
    relocations = tuple(Relocation(f"s{a}_{b}_{i}", tuple(offsets[a:b])) for i, (a, b) in enumerate(pairwise(cuts)))
    shifts = st.integers(-31, 31) if version == 0x50 else st.just(0)
    patches = st.builds(Patch, st.just("p"), words, st.just((0, 3)), shifts)
    patched = (draw(patches),) if version != 0x20 and draw(st.booleans()) else ()
    debug = tuple(draw(st.lists(words, max_size=3)))
    return build_container(Blob(tuple(program)), version, relocations, patched, debug)


@given(containers(), st.integers(0, 15))
def test_containers_round_trip(container: Container, filler: int) -> None:
    stored = [*container.words(), *[0] * filler]
    again = read_container(stored)
    assert again.words() == stored
    assert (again.blob, again.relocations, again.patches) == (
        container.blob,
        container.relocations,
        container.patches,
    )
    assert read_container(again.to_bytes()) == again


@given(programs(values), st.sampled_from(VERSIONS))
def test_relocatable_programs_round_trip(program: list[Instruction], version: int) -> None:
    stored = read_container(container_of(program, version).to_bytes())
    again = instructions_of(stored)
    assert again == program
    assert collect_relocations(again) == collect_relocations(program)
    assert stored.version == (version if stored.relocations else 0)


def test_relocation_adds_the_base() -> None:
    stored = container_of([Write(8, 2, SymbolOffset(0x40, "a")), Write(8, 14, SymbolOffset(0xFFFF_FFFF, "b"))])
    assert relocate(stored, {"a": 0x3400_0000, "b": 2}).program[1::2] == (0x3400_0040, 1)


@pytest.mark.parametrize("bases", [{}, {"a": 0, "b": 0}])
def test_relocation_needs_exactly_its_symbols(bases: dict[str, int]) -> None:
    with pytest.raises(InputError, match="relocation symbol"):
        relocate(container_of([Write(8, 2, SymbolOffset(0x40, "a"))]), bases)


def test_patches_replace_masked_bits() -> None:
    patches = (Patch("right", 0x0F, (0,), 4), Patch("left", 0x0F, (1,), -8), Patch("unused", 0xFF, (0, 1)))
    stored = build_container(Blob((0xFFFF_FFFF, 0)), 0x50, patches=patches)
    assert apply_patches(stored, {"right": 0x123, "left": 0xAB}).blob.program == (0xFFFF_FFF2, 0xB00)
    with pytest.raises(InputError, match="patch other"):
        apply_patches(stored, {"other": 1})


def test_several_blobs_in_one_file() -> None:
    stored = [container_of(sample_program()), Container(Blob((0x3DD,))), Container(Blob(()))]
    data = b"".join(part.to_bytes() + bytes(8 * i) for i, part in enumerate(stored))
    assert read_blobs(data) == tuple(stored)


def test_relocations_only_of_stored_values() -> None:
    program = [Label(1), Write(1, 1, 1)]
    for offset in (0, 1, 3):
        with pytest.raises(InputError):
            bind_symbols(program, [Relocation("a", (offset,))])


def damaged(changes: Iterable[tuple[int, int]]) -> list[int]:
    raw = container_of(sample_program()).words()
    for index, value in changes:
        raw[index] = value
    return raw


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ([], "empty"),
        ([0xCA057A7A], "before the program's magic and length"),
        ([0xCA057A7A, 3, 0, 0], "should have 3 words, but only 2"),
        ([0xCA057A7A, 1, 0x3DD, 1], "words follow the program"),
        ([0xCA057A7A, 0, *[0] * 16], "words follow the program"),
        ([0xECBF0050, 24], "header is truncated"),
        ([0xECBF0040, 24, 0, 0, 24, 0], "neither a blob nor a container"),
        ([0x7A7A05CA, 0], "neither a blob nor a container"),
        (damaged([(4, 0x7FFF_FFF8)]), "before the program's magic"),
        (damaged([(4, 20)]), "program offset 0x14"),
        (damaged([(4, 8)]), "program offset 0x8"),
        (damaged([(1, 4)]), "not inside the container"),
        (damaged([(2, 24)]), "overlap or are out of order"),
        (damaged([(3, 0x40000000)]), "not inside the container"),
        (damaged([(6, 0xFFFF_FFFF)]), "do not fit the table"),
        (damaged([(7, 0xFFFF)]), "does not end"),
        (damaged([(7, 0)]), "is not a name"),
        (damaged([(8, 0xFFFF)]), "longer than the table"),
        (damaged([(9, 2)]), "not inside the table"),
        (damaged([(13, 0xFFFF)]), "outside the program"),
        (damaged([(10, damaged([])[7])]), "listed twice"),
    ],
)
def test_damaged_containers(raw: list[int], message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_container(raw)


def test_bytes_that_are_no_words() -> None:
    with pytest.raises(InputError, match="whole number"):
        read_container(b"abc")


@pytest.mark.parametrize(
    ("version", "extra"), [(0x40, {}), (0x20, {"patches": (Patch("n", 1, (0,)),)}), (0, {"debug": (1,)})]
)
def test_containers_that_cannot_be_built(version: int, extra: dict[str, tuple[Patch, ...]]) -> None:
    with pytest.raises(InputError):
        build_container(Blob((0,)), version, **extra)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["", "two words", "f(x)", "a;b", "é", "x" * 257])
def test_names_that_cannot_be_stored(name: str) -> None:
    with pytest.raises(InputError, match="is not a name"):
        build_container(Blob((0,)), 0x50, (Relocation(name, (0,)),))
