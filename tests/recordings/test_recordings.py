"""One file from a board: read back as it was written, refused where it was edited or cannot be true."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from atonc.delivery.recordings import making, store
from atonc.delivery.recordings.store import (
    VIRTUAL,
    RanWith,
    RecordedBlock,
    RecordedTensor,
    Recording,
    Statement,
    digest,
    whole_hash,
)
from atonc.doors.cli import cli
from atonc.machine.base.errors import InputError

RAN = RanWith("0.1.0", "protocol 3.1, atonc", 0x486, 600_000_000, 800_000_000, ("--numerics", "2.x"))
BLOCKS = (RecordedBlock(1, 4, 10, 500_000, 90, 0.8), RecordedBlock(5, 5, 0, 0, 99_900, 0.2))


def made(**other: Any) -> Recording:
    edge = RecordedTensor((4,), "|i1", 0.5, -3)
    inputs = np.arange(8, dtype=np.int8).reshape(2, 4)
    arrays = {"c_inputs_1": inputs, "c_outputs_1": inputs + 1, "m_outputs_1": inputs + 1}
    stated = Statement("stm32n6570-dk", "CC0-1.0")
    found = Recording(stated, RAN, "ab" * 32, "cd" * 16, (edge,), (edge,), (1.0, 1.01), BLOCKS, arrays)
    return replace(found, **other)


def written(folder: Path, recording: Recording, name: str = "one.npz") -> Path:
    store.write(folder / name, recording)
    return folder / name


def test_it_comes_back_as_it_was(tmp_path: Path) -> None:
    path = written(tmp_path, made())
    found = store.read(path)
    assert found.manifest() == made().manifest() and not found.different
    assert not store.faults(found) and not store.gaps(found)
    assert path.read_bytes() == written(tmp_path, found, "two.npz").read_bytes()
    with np.load(path) as plain:  # as any script reads it
        assert plain["c_outputs_1"].tolist() == made().arrays["c_outputs_1"].tolist()


def _edit(path: Path, change: Callable[[dict[str, Any], dict[str, Any]], None]) -> Path:
    """Changes manifest or arrays as a stranger could."""
    with np.load(path) as stored:
        arrays = dict(stored)
    told = json.loads(arrays.pop("atonc").tobytes())
    change(told, arrays)
    arrays["atonc"] = np.frombuffer(json.dumps(told).encode(), np.uint8)
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    path.write_bytes(stream.getvalue())
    return path


def _sign(told: dict[str, Any]) -> None:
    told["whole_sha256"] = whole_hash(told)


def _other_output(told: dict[str, Any], arrays: dict[str, Any]) -> None:
    arrays["c_outputs_1"][0, 0] ^= 1


def _other_time(told: dict[str, Any], arrays: dict[str, Any]) -> None:
    told["milliseconds"][0] = 0.9


def _more_samples(told: dict[str, Any], arrays: dict[str, Any]) -> None:
    told["milliseconds"].append(1.0)
    _sign(told)


def _no_output(told: dict[str, Any], arrays: dict[str, Any]) -> None:
    del arrays["c_outputs_1"]


def _wrong_kind(told: dict[str, Any], arrays: dict[str, Any]) -> None:
    told["blocks"][0]["core"] = "many"
    _sign(told)


def _no_number(told: dict[str, Any], arrays: dict[str, Any]) -> None:
    told["milliseconds"][0] = float("nan")
    _sign(told)


def _deep(told: dict[str, Any], arrays: dict[str, Any]) -> None:
    told["sha256"] = [told["sha256"]]
    _sign(told)


def _future(told: dict[str, Any], arrays: dict[str, Any]) -> None:
    told["version"] = 2
    _sign(told)


FAULTS = [_other_output, _other_time, _more_samples, _no_output, _wrong_kind, _no_number, _deep, _future]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_an_edited_file_is_refused(tmp_path: Path, fault: Callable[..., None], capsys: Any) -> None:
    path = _edit(written(tmp_path, made()), fault)
    assert cli.main(["recordings", "check", str(path)]) == 2
    assert "one.npz" in capsys.readouterr().err


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"\x93NUMPY\x01\x00", b"text"])
def test_other_files_are_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.npz"
    path.write_bytes(content)
    with pytest.raises(InputError):
        store.read(path)


def _ran(**other: Any) -> dict[str, Any]:
    return {"ran_with": replace(RAN, **other)}


@pytest.mark.parametrize(
    ("other", "rule"),
    [
        ({"milliseconds": (9.0, 1.0)}, "add up"),
        ({"milliseconds": (1.0, -1.0)}, "takes up to"),
        ({"blocks": BLOCKS[::-1]}, "in order"),
        ({"blocks": (RecordedBlock(4, 1, 0, 600_000, 0),)}, "ends behind"),
        (_ran(device=0x450), "STM32N6"),
        (_ran(npu_hz=5_000_000_000), "clocks"),
        (_ran(options=("--mpool", "/home/me/my.mpool")), "folders"),
        ({"stated": Statement("C:\\desk", "MIT")}, "folders"),
    ],
)
def test_what_cannot_be_true_is_told(tmp_path: Path, other: dict[str, Any], rule: str, capsys: Any) -> None:
    path = written(tmp_path, made(**other))
    assert cli.main(["recordings", "check", str(path)]) == 1
    out = capsys.readouterr().out
    assert "not true" in out and rule in out
    with pytest.raises(InputError):
        store.add(path, tmp_path / "all")
    assert not (tmp_path / "all").exists()


@pytest.mark.parametrize("stated", [Statement(), Statement("dk", "secret"), Statement("", "MIT")])
def test_only_what_may_be_used_is_collected(tmp_path: Path, stated: Statement) -> None:
    path = written(tmp_path, made(stated=stated))
    assert cli.main(["recordings", "check", str(path)]) == 0
    assert cli.main(["recordings", "add", str(path), "--to", str(tmp_path / "all")]) == 2


def test_a_collection_has_a_table_of_all(tmp_path: Path, capsys: Any) -> None:
    folder = tmp_path / "all"
    on_board = written(tmp_path, made())
    emulated = written(tmp_path, made(stated=Statement(VIRTUAL, "MIT")), "two.npz")
    for path in (on_board, emulated, on_board):  # the same one twice is one
        assert cli.main(["recordings", "add", str(path), "--to", str(folder)]) == 0
    rows = [line for line in (folder / store.TABLE).read_text().splitlines() if line.startswith("| ")][1:]
    assert len(rows) == 2 == len(list(folder.glob("*.npz")))
    assert "stm32n6570-dk | abababababab | 600 / 800 MHz | 2 | 1.000 ms | 0 | CC0-1.0" in rows[0]
    assert "virtual board (emulated)" in rows[1]


def test_two_recordings_beside_each_other(tmp_path: Path) -> None:
    one = made()
    arrays = {name: value[::-1].copy() for name, value in one.arrays.items()}  # the samples in another order
    arrays["c_outputs_1"][0, 2] ^= 4
    slower = tuple(replace(block, core=2 * block.core) for block in one.blocks)
    other = made(arrays=arrays, blocks=slower, program="ef" * 16)
    found = making.compare(one, written(tmp_path, other))
    assert (found.samples, found.compared, found.different, found.same_program) == (2, 8, 1, False)
    assert [round(block.ratio, 2) for block in found.blocks] == [0.5, 1.0]
    stranger = made(arrays=one.arrays | {"c_inputs_1": one.arrays["c_inputs_1"] + 50})
    with pytest.raises(InputError, match="no sample"):
        making.compare(one, written(tmp_path, stranger))


def test_the_hash_is_of_the_bytes() -> None:
    assert digest(np.arange(6, dtype=np.int8).reshape(2, 3).T) != digest(np.arange(6, dtype=np.int8).reshape(2, 3))


def test_pages_take_their_rows_from_the_folder(tmp_path: Path) -> None:
    """docs/latency.md and docs/silicon.md: a bundle that is added is a row, an emulated one no evidence."""
    shared = tmp_path / "recordings"
    assert store.latency_table(shared) == "No recording has been given yet."
    assert store.evidence_table(shared) == "No recording of a board yet."
    store.add(written(tmp_path, made(stated=Statement(VIRTUAL, "CC0-1.0"))), shared)
    assert "(emulated)" in store.latency_table(shared) and not store.ran_on_a_board(shared)
    assert "1 recording of the virtual board does not count" in store.evidence_table(shared)
    board = store.add(written(tmp_path, made()), shared)
    row = next(line for line in store.latency_table(shared).splitlines() if board.name in line)
    assert "stm32n6570-dk" in row and "| 1.000 | 1.000 | 1.00 |" in row  # recorded, predicted by its blocks, ratio
    evidence = store.evidence_table(shared)
    assert board.name in evidence and "| 5 | 2 | 0 |" in evidence and "virtual" not in evidence
    assert store.ran_on_a_board(shared)
