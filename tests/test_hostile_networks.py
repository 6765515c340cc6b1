"""Damaged networks: one clear paragraph and exit code 2, never a traceback, never a hang."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from atonc.doors.cli.cli import main
from tests.errors_said import readable
from tests.patience import no_hang

FIRST = Path(__file__).parent.parent / "examples" / "first"
FILES = ("network.c", "network_ecblobs.h", "network_atonbuf.xSPI2.raw")


def _flip(data: bytearray, rng: random.Random) -> bytearray:
    for _ in range(rng.randint(1, 8)):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return data


def _truncate(data: bytearray, rng: random.Random) -> bytearray:
    return data[: rng.randrange(len(data))]


def _duplicate(data: bytearray, rng: random.Random) -> bytearray:
    start = rng.randrange(len(data))
    return data[:start] + data[start : start + rng.randint(1, 200)] + data[start:]


def _remove(data: bytearray, rng: random.Random) -> bytearray:
    start = rng.randrange(len(data))
    return data[:start] + data[start + rng.randint(1, 200) :]


def _digits(data: bytearray, rng: random.Random) -> bytearray:
    """Other numbers in the same places: programs that are well formed and wrong."""
    places = [k for k, c in enumerate(data) if chr(c) in "0123456789abcdef"]
    for _ in range(rng.randint(1, 6) if places else 0):
        data[rng.choice(places)] = ord(rng.choice("0123456789"))
    return data


MUTATIONS = (_flip, _truncate, _duplicate, _remove, _digits)


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("mutate", MUTATIONS, ids=lambda m: m.__name__)
def test_damaged_files_end_in_a_message(
    file: str, mutate: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    original = (FIRST / file).read_bytes()
    for seed in range(16):
        folder = tmp_path / str(seed)
        shutil.copytree(FIRST, folder)
        data = mutate(bytearray(original), random.Random(f"{file} {seed}"))  # type: ignore[operator]
        (folder / file).write_bytes(data)
        with no_hang():
            code = main(["run", str(folder)])
        error = capsys.readouterr().err
        assert code in (0, 2), (file, mutate, seed, error)
        assert "Traceback" not in error
        if code == 2:
            readable(error)


@pytest.mark.parametrize("missing", FILES)
def test_missing_files_are_named(missing: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "network"
    shutil.copytree(FIRST, folder)
    (folder / missing).unlink()
    assert main(["run", str(folder)]) == 2
    assert capsys.readouterr().err.startswith("atonc: ")
