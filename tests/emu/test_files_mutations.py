"""Damaged files of every kind end in one clear error: no traceback of ours, no hang."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from atonc.machine.base.errors import InputError
from atonc.machine.emu.files.initialisers import load_initialisers
from atonc.machine.emu.files.network_c import read_network
from tests.emu.files_samples import driver_text, ecblobs_text, network_text, write_network
from tests.outcomes import Outcomes
from tests.patience import no_hang

MUTATIONS = 120


def mutations(text: str, seed: int) -> Iterator[str]:
    """Cut, delete, repeat, exchange and replace, at places that a fixed generator chooses."""
    chooser = random.Random(seed)
    marks = [i for i, c in enumerate(text) if c in '{}()[];,=#."*/&']
    for number in range(MUTATIONS):
        at = chooser.choice(marks)
        other = chooser.choice(marks)
        kind = number % 6
        if kind == 0:
            yield text[:at]
        elif kind == 1:
            yield text[:at] + text[at + 1 :]
        elif kind == 2:
            yield text[:at] + text[at] * 2 + text[at + 1 :]
        elif kind == 3:
            low, high = sorted((at, min(other, at + 300)))
            yield text[:low] + text[high:]
        elif kind == 4:
            yield text[:at] + chooser.choice("{}()[];#\"'\\\0\xff9x") + text[at + 1 :]
        else:
            low, high = sorted((at, other))
            yield text[:low] + text[high] + text[low + 1 : high] + text[low] + text[high + 1 :]


def survives(folder: Path, outcomes: Outcomes | None = None) -> bool:
    """True when the damage went unnoticed; an error must be an InputError."""
    try:
        with no_hang():
            load_initialisers(read_network(folder))
    except InputError as error:
        assert str(error)
        if outcomes is not None:
            outcomes.add(error.what, str(error.where).replace(str(folder), ""))
        return False
    if outcomes is not None:
        outcomes.add("read")
    return True


@pytest.mark.parametrize("text", [network_text(), driver_text()], ids=["epoch-controller", "driver"])
def test_damaged_c_files(tmp_path: Path, text: str, outcomes: Outcomes) -> None:
    c_file = write_network(tmp_path)
    noticed = 0
    for mutated in mutations(text, seed=len(text)):
        c_file.write_bytes(mutated.encode("latin-1", "replace"))
        noticed += not survives(tmp_path, outcomes)
    assert noticed > MUTATIONS // 3  # damage to a comment or an unused name may pass


def test_damaged_headers(tmp_path: Path, outcomes: Outcomes) -> None:
    write_network(tmp_path)
    header = tmp_path / "network_ecblobs.h"
    for mutated in mutations(ecblobs_text(), seed=5):
        header.write_bytes(mutated.encode("latin-1", "replace"))
        survives(tmp_path, outcomes)


def test_every_truncation_of_the_c_file(tmp_path: Path) -> None:
    c_file = write_network(tmp_path)
    text = network_text()
    for length in range(0, len(text) - 60, 97):
        c_file.write_text(text[:length])
        assert not survives(tmp_path)


def test_binary_rubbish(tmp_path: Path) -> None:
    c_file = write_network(tmp_path)
    chooser = random.Random(1)
    for _ in range(20):
        c_file.write_bytes(b"LL_ATON_EpochBlockItems_Default(" + chooser.randbytes(chooser.randrange(3000)))
        assert not survives(tmp_path)


def test_large_hostile_files_do_not_hang(tmp_path: Path) -> None:
    c_file = write_network(tmp_path)
    head = "LL_ATON_EpochBlockItems_Default(\n"
    for body in (
        "{" * 200_000,
        "(" * 200_000,
        "/*" * 200_000,
        '"' * 200_000,
        "#if 1\n" * 50_000,
        "#define A A\n" * 50_000,
        "/* index=1 file postfix=a name=" * 50_000 + "*/",
        "static int a = " + "-" * 200_000 + "1;",
        "/* " + 'GIT_BRANCH "' * 50_000 + "*/",
    ):
        c_file.write_text(head + body)
        assert not survives(tmp_path)
