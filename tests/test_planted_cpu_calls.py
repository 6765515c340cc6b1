"""Faults in the C calls of CPU layers: `generate` runs what it would ship, sees each of them and writes nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from atonc.compiler.emit.c import cpu_functions
from atonc.compiler.emit.c.calls import ConstantTable, CpuCall, Pointer, Struct
from atonc.compiler.emit.c.cpu.site import changed
from atonc.compiler.verify import cpu_code
from atonc.doors.cli.cli import main
from atonc.machine.base.errors import ToolError
from atonc.machine.emu.cpu.families import KERNELS
from tests.frontends.tflite_models import O, T, build

Change = Callable[[CpuCall], CpuCall]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four CPU layers: a difference of floats, its codes, their shares, and those as floats again."""
    shape = (1, 4, 16)
    tensors = [
        T("a", shape, "float32"),
        T("b", shape, "float32"),
        T("difference", shape, "float32"),
        T("codes", shape, scale=0.03, zero=5),
        T("shares", shape, scale=1 / 256, zero=-128),
        T("reals", shape, "float32"),
    ]
    ops = [
        O("SUB", ["a", "b"], ["difference"], "SubOptions"),
        O("QUANTIZE", ["difference"], ["codes"]),
        O("SOFTMAX", ["codes"], ["shares"], "SoftmaxOptions", {0: ("f", 1.0)}),
        O("DEQUANTIZE", ["shares"], ["reals"]),
    ]
    path = tmp_path_factory.mktemp("planted") / "model.tflite"
    path.write_bytes(build(tensors, ops, ["a", "b"], ["reals"]))
    return path


def generated(model: Path, folder: Path) -> int:
    return main(["generate", str(model), "--allow-float", "-o", str(folder)])


def test_the_honest_build_is_written(model: Path, tmp_path: Path) -> None:
    assert generated(model, tmp_path / "out") == 0
    assert (tmp_path / "out" / "network.c").is_file()


def exchanged(call: CpuCall) -> CpuCall:
    out, form, a, a_form, b, b_form, *rest = call.arguments
    return CpuCall(call.function, (out, form, b, b_form, a, a_form, *rest))


def other_zero_point(call: CpuCall) -> CpuCall:
    form = call.arguments[1]
    assert isinstance(form, Struct)
    return _with(call, 1, changed(form, zero=6.0))


def other_exponential(call: CpuCall) -> CpuCall:
    table = call.arguments[7]
    assert isinstance(table, ConstantTable)
    return _with(call, 7, replace(table, values=(table.values[0], 0.5, *table.values[2:])))


def one_element_less(call: CpuCall) -> CpuCall:
    return _with(call, 4, _count(call) - 1)


def one_element_more(call: CpuCall) -> CpuCall:
    return _with(call, 4, _count(call) + 1)


def _count(call: CpuCall) -> int:
    count = call.arguments[4]
    assert isinstance(count, int)
    return count


def one_argument_less(call: CpuCall) -> CpuCall:
    return CpuCall(call.function, call.arguments[:-1])


def other_source(call: CpuCall) -> CpuCall:
    source = call.arguments[2]
    assert isinstance(source, Pointer)
    return _with(call, 2, replace(source, offset_bytes=4))


def other_target(call: CpuCall) -> CpuCall:
    target = call.arguments[0]
    assert isinstance(target, Pointer)
    return _with(call, 0, replace(target, offset_bytes=64))


def _with(call: CpuCall, index: int, value: Any) -> CpuCall:
    return CpuCall(call.function, (*call.arguments[:index], value, *call.arguments[index + 1 :]))


FAULTS: tuple[tuple[str, str, Change], ...] = (
    ("SUB", "atonc_binary", exchanged),
    ("SUB", "atonc_convert", other_zero_point),
    ("SOFTMAX", "atonc_softmax_8", other_exponential),
    ("SUB", "atonc_convert", one_element_less),
    ("SUB", "atonc_convert", one_element_more),
    ("SUB", "atonc_binary", one_argument_less),
    ("SUB", "atonc_binary", other_source),
    ("SUB", "atonc_binary", other_target),
)


@pytest.mark.parametrize(("node", "function", "change"), FAULTS, ids=lambda value: getattr(value, "__name__", ""))
def test_a_fault_in_a_call_ends_the_build(
    node: str,
    function: str,
    change: Change,
    model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    honest = cpu_functions.cpu_calls

    def planted(*arguments: Any) -> tuple[CpuCall, ...]:
        return tuple(change(call) if call.function == function else call for call in honest(*arguments))

    monkeypatch.setattr(cpu_functions, "cpu_calls", planted)
    refused(node, model, tmp_path, capsys)


def test_a_kernel_without_a_twin_ends_the_build(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delitem(KERNELS, "atonc_softmax_8")
    assert "atonc_softmax_8 is not among" in refused("SOFTMAX", model, tmp_path, capsys)
    assert main(["analyze", str(model), "--allow-float"]) == 1


def test_c_code_that_is_none_ends_the_build(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A fault of the writer of C itself."""
    honest = cpu_functions._Body.call
    monkeypatch.setattr(cpu_functions._Body, "call", lambda body, call: honest(body, call).replace("(", "", 1))
    assert "its C code cannot be read" in refused("SUB", model, tmp_path, capsys)


def refused(node: str, model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """Exit code 1, no files, and an error with node, cause and fix."""
    assert generated(model, tmp_path / "out") == 1
    said = capsys.readouterr().err
    assert f"{node}_" in said.split(": ")[1] and "  cause: " in said and "  fix: " in said, said
    assert "Traceback" not in said and not (tmp_path / "out").exists()
    return said


def test_a_tool_that_is_missing_is_no_fault_of_the_code(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def missing(*_: Any) -> Any:
        raise ToolError("tree-sitter is not installed", remedy="pip install tree-sitter")

    monkeypatch.setattr(cpu_code, "parse_unit", missing)
    assert generated(model, tmp_path / "out") != 0
    said = capsys.readouterr().err
    assert "pip install tree-sitter" in said and "report the model" not in said
