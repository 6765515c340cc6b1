"""Programs of ExecuTorch (.pte) as files: `atonc run` and `atonc explain` take those with our delegates, and refuse
damaged and foreign ones."""

from __future__ import annotations

import gc
import json
import struct
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("executorch", reason="atonc[executorch] is not installed: delegates are not tried")
pytest.importorskip("torchao", reason="atonc[executorch] is not installed: PT2E needs torchao")
pytest.importorskip("onnxscript", reason="atonc[torch] is not installed: PyTorch's exporter needs onnxscript")

import torch

import atonc
from atonc.compiler.frontends.tflite_file import root
from atonc.delivery.trials import pte_file, pte_running
from atonc.delivery.trials.pte_file import read_pte
from atonc.doors.cli.cli import main
from atonc.machine.base.errors import AtoncError
from tests.delegates import modules
from tests.delegates.modules import in_their_runtime, quantised
from tests.emit.generated import needs_compiler

pytestmark = needs_compiler


@cache
def _pte(name: str) -> bytes:
    return modules.lowered(quantised(name).program, verify=False).pte


def _file(folder: Path, data: bytes) -> Path:
    path = folder / "net.pte"
    path.write_bytes(data)
    return path


def _inputs(name: str) -> dict[str, Any]:
    return {f"input_{k}": value.numpy() for k, value in enumerate(quantised(name).example)}


@pytest.mark.parametrize("name", ["ds_cnn", "detector", "interrupted"])
def test_it_runs_as_in_their_runtime(name: str, tmp_path: Path) -> None:
    """The first two by our loader alone, the third with their kernels between delegates."""
    found = atonc.run(_file(tmp_path, _pte(name)), _inputs(name))
    assert [one.tobytes() for one in found.values()] == in_their_runtime(_pte(name), quantised(name).example)


def test_the_command_runs_and_explains(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = _file(tmp_path, _pte("ds_cnn"))
    assert (
        main(
            [
                "run",
                str(file),
                "--seed",
                "3",
                "--output",
                str(tmp_path / "out.npz"),
                "--save-input",
                str(tmp_path / "in.npz"),
            ]
        )
        == 0
    )
    assert "1 call of delegates for the NPU" in capsys.readouterr().out
    given, found = (dict(np.load(tmp_path / f"{side}.npz")) for side in ("in", "out"))
    assert np.array_equal(atonc.run(file, given)["output_0"], found["output_0"])
    assert main(["explain", str(file), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    (one,) = document["delegates"]
    assert document["inputs"] == [{"type": "float32", "shape": [1, 1, 49, 10]}] and one["weights_bytes"] > 500
    assert 0 < one["latency_ms"] < 1 and len(one["epochs"]) >= 3 and one["memories"]
    assert main(["analyze", str(file)]) == 0
    assert "call 0: AtonBackend, by the NPU: delegate 0" in capsys.readouterr().out


@pytest.mark.parametrize("words", [["explain", "--board", "nucleo-n657x0-q"], ["analyze", "--max-latency", "3"],
                                   ["explain", "--layer", "x"], ["run", "--until", "3"], ["generate"]])  # fmt: skip
def test_options_of_the_compiler_are_refused(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([words[0], str(_file(tmp_path, _pte("ds_cnn"))), *words[1:]]) != 0
    said = capsys.readouterr().err
    assert "fix:" in said and ("with a .pte file" in said or words == ["generate"])


def test_without_executorch_only_whole_delegates_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pte_running, "find_spec", lambda name: None)
    assert atonc.run(_file(tmp_path, _pte("ds_cnn")), _inputs("ds_cnn"))
    with pytest.raises(AtoncError, match="executorch is not installed"):
        atonc.run(_file(tmp_path, _pte("interrupted")), _inputs("interrupted"))


def test_wrong_inputs_are_refused(tmp_path: Path) -> None:
    file = _file(tmp_path, _pte("ds_cnn"))
    for wrong in ({}, {"input_1": np.zeros((1, 1, 49, 10))}, {"input_0": np.zeros((1, 1, 49, 11))}):
        with pytest.raises(AtoncError, match="input_"):
            atonc.run(file, wrong)


def _foreign(partitioner: Any) -> bytes:
    from executorch.exir import to_edge_transform_and_lower

    program = torch.export.export(torch.nn.Linear(4, 4).eval(), (torch.zeros(1, 4),))
    return bytes(to_edge_transform_and_lower(program, partitioner=partitioner).to_executorch().buffer)


def test_programs_of_others_are_refused(tmp_path: Path) -> None:
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner

    for given, said in (([XnnpackPartitioner()], "it has delegates for XnnpackBackend"), ([], "no part of it")):
        with pytest.raises(AtoncError, match=said):
            atonc.run(_file(tmp_path, _foreign(given)), {})


# -------------------------------------------------------------------------------------------------------------- damage


@pytest.mark.parametrize("seed", range(4))
def test_damaged_files_are_refused_or_give_the_same(seed: int, tmp_path: Path) -> None:
    """Fifty each: bits, bytes and cuts, most of them among the tables, which have no checksum."""
    whole, drawn = _pte("ds_cnn"), np.random.default_rng(seed)
    tables = whole.index(b"ATNO")
    right = [one.tobytes() for one in atonc.run(_file(tmp_path, whole), _inputs("ds_cnn")).values()]
    refused = 0
    for number in range(50):
        data = bytearray(whole)
        at = int(drawn.integers(8, tables if number % 5 else len(whole)))
        if number % 10 == 9:
            del data[at:]
        else:
            data[at] ^= 1 << int(drawn.integers(8)) if number % 2 else int(drawn.integers(1, 256))
        try:
            found = atonc.run(_file(tmp_path, bytes(data)), _inputs("ds_cnn"))
        except AtoncError as error:
            assert error.what
            refused += 1
        else:
            assert [one.tobytes() for one in found.values()] == right, f"{at:#x}"
        gc.collect()  # boards hold themselves, each with its memories
    assert refused > 10


def _edited(number: int, value: int, vector: int) -> bytes:
    """The vector of a method's field with another number in it."""
    data = bytearray(_pte("detector"))
    (method,) = root(bytes(data), b"ET12").tables(1)
    start, length = method.vector(number, 4)
    assert length > vector
    struct.pack_into("<i", data, start + 4 * vector, value)
    return bytes(data)


@pytest.mark.parametrize(
    ("number", "value", "vector"), [(3, 1, 0), (3, -1, 0), (3, 1 << 30, 0), (4, 0, 0), (4, 1, 1), (4, 99, 0)]
)
def test_calls_that_contradict_values_are_refused(number: int, value: int, vector: int, tmp_path: Path) -> None:
    """Inputs (3) and outputs (4) that are other values."""
    with pytest.raises(AtoncError):
        atonc.run(_file(tmp_path, _edited(number, value, vector)), _inputs("detector"))


def test_huge_counts_end_soon() -> None:
    data = bytearray(_pte("ds_cnn"))
    (method,) = root(bytes(data), b"ET12").tables(1)
    for number in (2, 3, 4, 5, 6, 7):
        start, _ = method.vector(number, 4)
        spoiled = bytearray(data)
        struct.pack_into("<I", spoiled, start - 4, 0x0FFF_FFFF)
        with pytest.raises(AtoncError):
            read_pte(bytes(spoiled))
    assert read_pte(bytes(data)).delegates and pte_file.BACKEND.encode() in data
