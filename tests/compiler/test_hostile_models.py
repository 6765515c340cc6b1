"""Models that mean harm or are merely broken: a program or a short error, quickly, within bounds, nothing written."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from atonc.doors.cli import cli
from atonc.machine.base.errors import ModelError
from tests.compiler.hostile_models import hostile_models, onnx_model, tflite_parts
from tests.errors_said import readable
from tests.frontends.tflite_models import build
from tests.patience import no_hang

GROUPS, EACH = 10, 50
MEMORY = 2 << 30
COMPILED, USER_ERROR, TOO_LARGE = 0, 2, 3
OUT_OF_MEMORY = ("out of memory", "Unable to allocate", "MemoryError")  # somebody asked for more than the limit


@pytest.fixture
def limited_memory() -> Iterator[None]:
    """Two gigabytes more than now; what needs more fails at once instead of taking the machine along."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + MEMORY, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


@pytest.mark.parametrize("group", range(GROUPS))
@pytest.mark.usefixtures("limited_memory")
def test_hostile_models(
    group: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.chdir(home)
    codes = []
    for name, data in hostile_models(group, EACH):
        path = tmp_path / name
        path.write_bytes(data)
        with no_hang():
            codes.append(cli.main(["analyze", "-m", str(path), "--quiet"]))
        said = capsys.readouterr().err
        allowed = (COMPILED, USER_ERROR, TOO_LARGE)
        assert codes[-1] in allowed, f"{name} of group {group}: {said}"
        assert not any(words in said for words in OUT_OF_MEMORY), f"{name} of group {group}: {said}"
        if codes[-1] != COMPILED:
            assert said.startswith("atonc: ") and "Traceback" not in said
        if codes[-1] == USER_ERROR:
            readable(said)
    assert codes.count(USER_ERROR) > EACH // 4
    assert not list(home.iterdir()), "nothing is written"


def test_the_models_are_good_before_they_are_changed(tmp_path: Path) -> None:
    for name, data in (
        ("a.tflite", build(*tflite_parts(), ["x"], ["y"])),
        ("a.onnx", bytes(onnx_model().SerializeToString())),
    ):
        (tmp_path / name).write_bytes(data)
        assert cli.main(["analyze", "-m", str(tmp_path / name), "--quiet"]) == COMPILED


def test_names_do_not_reach_the_terminal_as_they_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Newlines and control characters in a name could forge messages."""
    assert all(map(str.isprintable, ModelError("bad", where="x\natonc: all is well\x1b[2J").lines()))
    tensors, ops = tflite_parts()
    ops[0] = replace(ops[0], inputs=["y", *ops[0].inputs[1:]])  # reads what it writes
    tensors = [replace(t, name="y\natonc: all is well\x1b[2J") if t.name == "y" else t for t in tensors]
    name = next(t.name for t in tensors if t.name.startswith("y"))
    ops = [replace(o, inputs=[name if i == "y" else i for i in o.inputs], outputs=[name]) for o in ops[:1]]
    (tmp_path / "a.tflite").write_bytes(build(tensors, ops, ["x"], [name]))
    assert cli.main(["analyze", "-m", str(tmp_path / "a.tflite"), "--quiet"]) == USER_ERROR
    readable(capsys.readouterr().err)
