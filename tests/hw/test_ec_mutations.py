"""Damaged files: whatever is done to them, they are read exactly or refused with an `InputError`."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from atonc.machine.base.errors import InputError
from atonc.machine.hw.ec.blob import Blob, Container, Relocation, build_container, read_blobs, read_container, relocate
from atonc.machine.hw.ec.header import read_header
from atonc.machine.hw.ec.instructions import encode
from atonc.machine.hw.ec.text import assemble, container_of, disassemble, instructions_of
from tests.hw.ec_programs import sample_program
from tests.outcomes import Outcomes

MUTATIONS_PER_SOURCE = 150
PROGRAM = Blob(tuple(int(word) for word in encode(sample_program())))


def sources() -> dict[str, bytes]:
    stored = {f"container {version:#x}": container_of(sample_program(), version) for version in (0x20, 0x30, 0x50)}
    stored["bare"] = Container(PROGRAM)
    stored["debug"] = build_container(PROGRAM, 0x20, (Relocation("a", (3,)),), debug=(1, 2, 3))
    return {name: container.to_bytes() for name, container in stored.items()}


def use_blob(data: bytes) -> None:
    """Everything a user can do with a blob; must be exact if it works at all."""
    container = read_container(data)
    assert container.to_bytes() == data
    program = instructions_of(container)
    assert tuple(encode(program)) == container.blob.program
    assert assemble(disassemble(container)).blob == container.blob
    relocate(container, {relocation.symbol: 0x3400_0000 for relocation in container.relocations})
    read_blobs(data)


def use_header(data: bytes) -> None:
    for blob in read_header(data.decode("utf-8", "replace")).blobs:
        disassemble(blob.container)


def use_text(data: bytes) -> None:
    container = assemble(data.decode("utf-8", "replace"))
    assert assemble(disassemble(container)) == container


def survives(use: Callable[[bytes], None], data: bytes, outcomes: Outcomes | None = None) -> bool:
    """True if it was read; refusing is fine, any other exception fails the test."""
    try:
        use(data)
    except InputError as error:
        assert error.what and len(str(error)) < 2000
        if outcomes is not None:
            outcomes.add(error.what, error.where)
        return False
    if outcomes is not None:
        outcomes.add("read")
    return True


def mutated(data: bytes, source: random.Random) -> bytes:
    raw = bytearray(data)
    for _ in range(source.choice([1, 1, 1, 2, 8])):
        near_start = source.random() < 0.5  # headers and tables deserve half of the damage
        place = source.randrange(min(len(raw), 96) if near_start else len(raw))
        kind = source.choice(["flip", "flip", "byte", "cut", "drop", "double"])
        if kind == "flip":
            raw[place] ^= 1 << source.randrange(8)
        elif kind == "byte":
            raw[place] = source.choice([0, 0x7F, 0x80, 0xFF])
        elif kind == "cut":
            del raw[max(place, 4) :]
        elif kind == "drop":
            del raw[place : place + 4]
        else:
            raw[place:place] = raw[place : place + 4]
        if not raw:
            break
    return bytes(raw)


@pytest.mark.parametrize("name", sorted(sources()))
def test_mutated_blobs(name: str, outcomes: Outcomes) -> None:
    data = sources()[name]
    assert survives(use_blob, data)
    source = random.Random(name)
    outcomes = [survives(use_blob, mutated(data, source), outcomes) for _ in range(MUTATIONS_PER_SOURCE)]
    assert outcomes.count(False) > MUTATIONS_PER_SOURCE // 4


@pytest.mark.parametrize("name", sorted(sources()))
def test_truncated_blobs_are_refused(name: str) -> None:
    data = sources()[name]
    end = len(data) - (4 if data.endswith(b"\0\0\0\0") else 0)
    for length in range(0, end, 7):
        assert not survives(use_blob, data[:length])


def test_mutated_headers(outcomes: Outcomes) -> None:
    numbers = np.frombuffer(sources()["container 0x20"], dtype="<u8").tolist()
    text = "static const uint64_t _ec_blob_1_reloc[] = {" + ",".join(f"{n:#x}UL" for n in numbers) + "};\n"
    text += "static uint64_t _ec_blob_1[9];\n#define _ec_blob_1__user_io_input_0_RELOC_IDX 0\n"
    assert survives(use_header, text.encode())
    source = random.Random(2)
    outcomes = [survives(use_header, mutated(text.encode(), source), outcomes) for _ in range(MUTATIONS_PER_SOURCE)]
    assert False in outcomes


def test_mutated_texts(outcomes: Outcomes) -> None:
    text = disassemble(container_of(sample_program())).encode()
    assert survives(use_text, text)
    source = random.Random(3)
    outcomes = [survives(use_text, mutated(text, source), outcomes) for _ in range(MUTATIONS_PER_SOURCE)]
    assert False in outcomes


def test_published_listings() -> None:
    """All blobs and listings under the folders of ATONC_FETCHED; see benchmarks/listings.py."""
    fetched = [Path(folder) for folder in os.environ.get("ATONC_FETCHED", "").split(os.pathsep) if folder]
    if not fetched:
        pytest.skip("set ATONC_FETCHED to folders of networks compiled by ST")
    from benchmarks import listings

    tally = listings.check_all(fetched)
    assert [problem for problem in tally.problems if not problem.startswith("unreadable")] == []
