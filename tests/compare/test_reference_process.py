"""The reference interpreter in a process of its own: what becomes of answers, errors, aborts and endless runs."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path

import numpy as np
import pytest

from atonc.compiler.compare import reference_process
from atonc.compiler.compare.reference import run_tflite
from atonc.compiler.compare.reference_process import ReferenceDied, ReferenceProcess, pack, unpack
from atonc.doors.cli.cli import main
from atonc.machine.base.child import ending, receive, send
from atonc.machine.base.errors import InputError, ToolError
from tests.frontends.tflite_models import O, T, build, conv_model

pytest.importorskip("ai_edge_litert", exc_type=ImportError)


def softmax(beta: float) -> bytes:
    """With a beta of -1 the reference kernels abort the process."""
    tensors = [T("x", (1, 2, 2, 4), scale=0.02, zero=-5), T("y", (1, 2, 2, 4), scale=1 / 256, zero=-128)]
    return build(tensors, [O("SOFTMAX", ["x"], ["y"], "SoftmaxOptions", {0: ("f", beta)})], ["x"], ["y"])


def test_answers_aborts_and_refusals(tmp_path: Path) -> None:
    conv, odd, wrong = (tmp_path / f"{name}.tflite" for name in ("conv", "odd", "wrong"))
    conv.write_bytes(conv_model())
    odd.write_bytes(softmax(-1.0))
    tensors = [T(name, (1, 4), scale=scale) for name, scale in (("x", 0.1), ("y", 0.2))]
    wrong.write_bytes(build(tensors, [O("EXPAND_DIMS", ["x"], ["y"])], ["x"], ["y"]))
    x = np.random.default_rng(0).integers(-128, 128, (1, 6, 7, 3)).astype(np.int8)
    with ReferenceProcess() as process:
        first = process.run(conv, {"x": x})
        number = process._process.pid
        assert np.array_equal(process.run(conv, [x])["y"], first["y"]) and process._process.pid == number
        assert np.array_equal(first["y"], run_tflite(conv, [x])["y"])
        assert set(process.run(conv, {"x": x}, tensors=["w", "y"])) == {"w", "y"}
        with pytest.raises(InputError, match="TFLite cannot run it"):
            process.run(wrong, {"x": np.zeros((1, 4), np.int8)})
        assert process._process.pid == number
        values = {"x": np.zeros((1, 2, 2, 4), np.int8)}
        with pytest.raises(ReferenceDied, match="the reference interpreter was ended by SIGABRT"):
            process.run(odd, values)
        with pytest.raises(ReferenceDied):  # and is not asked again
            process.run(odd, values)
        assert process.run(odd, values, "optimised")["y"].shape == (1, 2, 2, 4)
        assert np.array_equal(process.run(conv, {"x": x})["y"], first["y"]) and process._process.pid != number


def test_biases_with_the_axis_of_their_weights_are_mended(tmp_path: Path) -> None:
    """As TensorFlow's own person detection example has them; LiteRT refuses such a file."""
    tensors = [T("x", (1, 3), scale=0.1), T("w", (2, 3), scale=[0.1, 0.2], data=np.ones((2, 3)))]
    tensors += [T("b", (2,), "int32", scale=[0.01, 0.02], axis=3, data=[5, 6]), T("y", (1, 2), scale=0.1)]
    op = O("FULLY_CONNECTED", ["x", "w", "b"], ["y"], "FullyConnectedOptions", {})
    path = tmp_path / "axis.tflite"
    path.write_bytes(build(tensors, [op], ["x"], ["y"]))
    assert run_tflite(path, [np.zeros((1, 3), np.int8)])["y"].shape == (1, 2)


def test_an_endless_run_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reference_process, "_SERVER", "import time; time.sleep(60)")
    with ReferenceProcess(limit_seconds=0.2) as process, pytest.raises(ReferenceDied, match=r"not end within 0\.2 s"):
        process.run(tmp_path / "x.tflite", {"x": np.zeros(3)})
    assert process._process.ended


def test_modules_beside_the_user_are_not_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "numpy.py").write_text("raise SystemExit(3)")
    (tmp_path / "m.tflite").write_bytes(conv_model())
    monkeypatch.chdir(tmp_path)
    with ReferenceProcess() as process:
        assert "y" in process.run(Path("m.tflite"), {"x": np.zeros((1, 6, 7, 3), np.int8)})


def test_a_package_that_does_not_load_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "m.tflite").write_bytes(conv_model())
    (tmp_path / "ai_edge_litert.py").write_text("raise ImportError('no libgomp')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    with ReferenceProcess() as process, pytest.raises(ToolError, match="cannot be loaded") as told:
        process.run(tmp_path / "m.tflite", {"x": np.zeros((1, 6, 7, 3), np.int8)})
    assert told.value.rule == "no libgomp"


def test_validate_survives_an_abort(tmp_path: Path, capfd: pytest.CaptureFixture[str],
                                    monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    """The next kernel set is the yardstick, and a note says why; the front end would refuse this model."""
    from atonc.compiler.frontends import tflite_ops

    def read(source: tflite_ops.Source) -> tflite_ops.Translated:
        return tflite_ops.Translated("softmax", ["x"], {"beta": 1e-9, "axis": -1})

    monkeypatch.setitem(tflite_ops.TRANSLATORS, "SOFTMAX", read)
    path = tmp_path / "odd.tflite"
    path.write_bytes(softmax(0.0))
    assert main(["validate", str(path), "--samples", "2", "--json"]) == 0
    document = json.loads(capfd.readouterr().out)
    assert document["reference"] == "TFLite optimised kernels" and document["passed"]
    assert any("SIGABRT" in note for note in document["notes"])


@pytest.mark.parametrize(
    ("status", "said"),
    [(0, "ended with exit code 0"), (3, "ended with exit code 3"), (-9, "was ended by SIGKILL"),
     (-250, "was ended by signal 250")],
)  # fmt: skip
def test_how_a_process_ended_is_said(status: int, said: str) -> None:
    assert ending(status) == said


def test_messages_arrive_whole_or_not_at_all() -> None:
    arrays = {"a": np.arange(6, dtype=np.int8).reshape(2, 3), "": np.array(1.5), "none": np.zeros((0, 2), np.int64)}
    stream = io.BytesIO()
    listed, contents = pack(arrays)
    send(stream, {"path": "x", "arrays": listed}, *contents)
    whole = stream.getvalue()
    words, content = receive(io.BytesIO(whole))
    found = unpack(words["arrays"], content)
    assert words["path"] == "x" and list(found) == list(arrays)
    for name, value in arrays.items():
        assert found[name].dtype == value.dtype and np.array_equal(found[name], value)
    for cut in (0, 3, 10, len(whole) - 1):
        with pytest.raises(EOFError):
            receive(io.BytesIO(whole[:cut]))


def test_the_process_ends_with_its_owner() -> None:
    with ReferenceProcess() as process:
        number = process._process.pid
    with pytest.raises(ProcessLookupError):
        os.kill(number, 0)
