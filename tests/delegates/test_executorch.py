"""Modules through PT2E and ExecuTorch's exporter to a .pte, and that in ExecuTorch's own runtime."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("executorch", reason="atonc[executorch] is not installed: delegates are not tried")
pytest.importorskip("torchao", reason="atonc[executorch] is not installed: PT2E needs torchao")
pytest.importorskip("onnxscript", reason="atonc[torch] is not installed: PyTorch's exporter needs onnxscript")

import torch
from onnx import TensorProto, helper

import atonc
from atonc.compiler.ir import Array
from atonc.delivery.executorch import partitioner, runtime
from atonc.delivery.executorch.backend import delegate_data
from atonc.delivery.executorch.operators import EDGE
from atonc.delivery.firmware.building import runtime_folder
from atonc.machine.base.errors import InputError, UnsupportedError
from tests.cells import run_cells
from tests.delegates import modules
from tests.delegates.modules import Lowered, in_their_runtime, quantised
from tests.emit.generated import GCC, needs_compiler
from tests.patience import PATIENCE

pytestmark = needs_compiler


@cache
def _lowered(name: str) -> Lowered:
    return modules.lowered(quantised(name).program)


@pytest.mark.parametrize("name", modules.MODULES)
def test_their_runtime_gives_the_bytes_of_the_emulator(name: str) -> None:
    given, made = quantised(name), _lowered(name)
    found = in_their_runtime(made.pte, given.example)
    whole = given.in_pieces(_remainder) if name == "interrupted" else given.on_emulator()
    assert found == whole
    assert len(set(found[0])) > 8  # not all alike


def _remainder(values: Array) -> Array:
    return np.asarray(torch.remainder(torch.tensor(values), 0.5))


@pytest.mark.parametrize("name", [name for name in modules.MODULES if name != "interrupted"])
def test_all_of_a_quantised_module_is_one_delegate(name: str) -> None:
    made = _lowered(name)
    assert (made.delegates, made.beside, made.partitioner.undelegated) == (1, (), ())


def test_what_stays_outside_says_why() -> None:
    made = _lowered("interrupted")
    starts = [found.start() for found in re.finditer(b"ATNO", made.pte)]
    assert len(starts) == 2 and not any(start % 64 for start in starts)  # where the NPU can read them
    assert made.delegates == 2 and len(made.beside) == 1 and "remainder" in made.beside[0]
    (node,) = made.partitioner.undelegated
    assert str(node).startswith("middle: aten.remainder.Scalar (") and "no such operator" in node.reason


def test_the_same_module_gives_the_same_bytes() -> None:
    assert modules.lowered(quantised("ds_cnn").program).pte == _lowered("ds_cnn").pte


def test_every_operator_of_the_table_compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = set[Any]()

    def reason(node: Any) -> str:
        seen.add(getattr(node.target, "_op", node.target))
        return right(node)

    right = partitioner.reason_against
    monkeypatch.setattr(partitioner, "reason_against", reason)
    given = quantised("everything")
    made = modules.lowered(given.program)
    assert (made.delegates, made.beside, made.partitioner.undelegated) == (1, (), ())
    assert in_their_runtime(made.pte, given.example) == given.on_emulator()
    for name in modules.MODULES:
        modules.lowered(quantised(name).program, verify=False)
    assert set(EDGE) - seen == set()


def test_sixteen_and_four_bits() -> None:
    for options in ({"activation_bits": 16}, {"weight_bits": 4}):
        given = quantised("ds_cnn", **options)
        assert in_their_runtime(modules.lowered(given.program).pte, given.example) == given.on_emulator()
    streamed = modules.lowered(quantised("mobilenet", weight_bits=4).program, allow_unproven=("w4-stream",))
    assert len(streamed.pte) + 2000 < len(_lowered("mobilenet").pte)


def test_what_is_told_to_stay_outside_stays() -> None:
    made = modules.lowered(quantised("detector").program, outside=("score", "aten.cat.default"), verify=False)
    reasons = {(one.module, one.operator): one.reason for one in made.partitioner.undelegated}
    assert reasons[("score", "aten.convolution.default")] == "it was told to stay outside"
    assert any(operator == "aten.cat.default" for _, operator in reasons) and made.delegates > 1


def test_convolutions_in_three_dimensions_stay_outside_and_are_named() -> None:
    net = torch.nn.Conv3d(2, 3, 3).eval()
    made = modules.lowered(torch.export.export(net, (torch.randn(1, 2, 5, 6, 7),)), verify=False)
    (reason,) = (one.reason for one in made.partitioner.undelegated if "conv" in one.operator)
    assert reason == "atonc has no 3-D convolutions"


def test_of_several_outputs_all_or_none_stay_outside() -> None:
    given = quantised("several")
    made = modules.lowered(given.program, verify=False)
    (node,) = made.partitioner.undelegated
    assert (
        node.operator == "aten.topk.default"
        and made.delegates == 2
        and len(in_their_runtime(made.pte, given.example)) == 2
    )
    told = modules.lowered(given.program, outside=("aten.split_with_sizes_copy.default",), verify=False)
    assert [one.operator for one in told.partitioner.undelegated] == [
        "aten.topk.default",
        "aten.split_with_sizes_copy.default",
    ]
    assert in_their_runtime(told.pte, given.example) == in_their_runtime(made.pte, given.example)


def test_a_delegate_that_does_not_compile_says_how_to_leave_a_layer_out() -> None:
    sides = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in (("x", [2, 3, 3]), ("y", [2]))
    ]
    graph = helper.make_graph(
        [helper.make_node("Det", ["x"], ["y"], name="head/Det")], "delegate", sides[:1], sides[1:]
    )
    with pytest.raises(UnsupportedError) as found:
        delegate_data(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]), {})
    assert "head/Det" in found.value.where and "outside=(PATH,)" in found.value.remedy


NOTEBOOK = Path(__file__).parents[2] / "examples" / "executorch.ipynb"


def test_the_notebook_runs() -> None:
    _, shown = run_cells(NOTEBOOK)
    (outside,), (best, away), blocks = shown
    assert outside.startswith("forward: aten.topk.default") and len(best[0]) == 3 and away < 0.01
    assert len(blocks) >= 3 and all(0 < time < 1 for time in blocks.values())


@pytest.mark.parametrize("given", [{"weight_bits": 3}, {"activation_bits": 32}, {"observer": "none"}])
def test_wrong_options_are_refused(given: dict[str, object]) -> None:
    with pytest.raises(InputError, match="AtonQuantizer"):
        atonc.executorch.AtonQuantizer(**given)
    with pytest.raises(InputError, match="no option 'bord'"):
        atonc.executorch.AtonPartitioner(bord="stm32n6570-dk")


def test_the_example_runs_as_it_stands(tmp_path: Path) -> None:
    command = [sys.executable, str(Path(__file__).parents[2] / "examples" / "delegate.py"), str(tmp_path / "some.pte")]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=PATIENCE)
    assert "0 nodes outside" in done.stdout and "within 0.0" in done.stdout


# -------------------------------------------------------------------------------------------------------------- in C++

FOLDERS = tuple(f"-I{runtime_folder(part)}" for part in ("executorch", "interpreters", "include"))
HOST = ("g++", ("atonc_backend.cc", "port_emulator.cc"), ("-fPIC",))
BOARD = (
    GCC.replace("gcc", "g++"),
    ("atonc_backend.cc", "port_npu.cc"),
    ("-mcpu=cortex-m55", "-mthumb", "-mfloat-abi=hard", "-fno-exceptions", "-fno-rtti", "-DLL_ATON_RT_RELOC",
     "-DLL_ATON_EB_DBG_INFO"),
)  # fmt: skip


@pytest.mark.parametrize(("tool", "sources", "machine"), [HOST, BOARD], ids=["host", "board"])
@pytest.mark.parametrize("traced", [True, False], ids=["traced", "untraced"])
def test_it_compiles_without_warnings(
    tool: str, sources: Sequence[str], machine: Sequence[str], traced: bool, tmp_path: Path
) -> None:
    if not has_headers(tool):
        pytest.skip(f"no {tool} with headers of C++")
    theirs = [one for one in runtime.header_options() if traced or "TRACER" not in one]
    options = ["-std=c++17", "-O2", "-Wall", "-Wextra", "-Werror", "-Wshadow", *machine, *theirs, *FOLDERS]
    for source in sources:
        file = runtime_folder("executorch") / source
        command = [tool, *options, "-c", str(file), "-o", str(tmp_path / "made.o")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


def has_headers(tool: str) -> bool:
    if shutil.which(tool) is None:
        return False
    command = [tool, "-x", "c++", "-fsyntax-only", "-"]
    return not subprocess.run(command, input="#include <array>", capture_output=True, text=True, check=False).returncode


# ------------------------------------------------------------------------------------------------------------- profile


def test_a_profile_has_every_block_of_epochs(tmp_path: Path) -> None:
    from executorch.devtools import Inspector
    from executorch.extension.pybindings.portable_lib import _load_for_executorch_from_buffer

    given, made = quantised("ds_cnn"), _lowered("ds_cnn")
    runtime.register()
    module = _load_for_executorch_from_buffer(made.pte, enable_etdump=True)
    found = module.run_method("forward", given.example)
    assert [one.numpy().tobytes() for one in found] == in_their_runtime(made.pte, given.example)
    module.write_etdump_result_to_file(str(tmp_path / "net.etdump"))
    events = [event for block in Inspector(str(tmp_path / "net.etdump")).event_blocks for event in block.events]
    ours = [event for event in events if event.is_delegated_op]
    assert [int(event.name) for event in ours] == sorted({int(event.name) for event in ours}) and len(ours) >= 3
    assert all(0 < event.perf_data.raw[0] < 1 for event in ours)  # ms on the chip, not on this computer


# -------------------------------------------------------------------------------------------------------------- damage


def _damaged(pte: bytes, at: int) -> bytes:
    return pte[:at] + bytes([pte[at] ^ 4]) + pte[at + 1 :]


@pytest.mark.parametrize("offset", [0, 4, 8, 12, 13, 16, 20, 24, 40, 60, 64, 68, 900, 4000, -1, -60])
def test_a_damaged_delegate_is_refused(offset: int, capfd: pytest.CaptureFixture[str]) -> None:
    """Below 0: from the end, where the memory map lies."""
    pte = _lowered("ds_cnn").pte
    start = pte.index(b"ATNO")
    at = start + offset if offset >= 0 else start + int.from_bytes(pte[start + 16 : start + 20], "little") + offset
    with pytest.raises(RuntimeError):
        in_their_runtime(_damaged(pte, at), quantised("ds_cnn").example)
    said = capfd.readouterr().err
    assert "AtonBackend: a delegate" in said and "fix: write the .pte again" in said and "internal" not in said


def test_inputs_of_other_sizes_are_refused() -> None:
    with pytest.raises(RuntimeError):
        in_their_runtime(_lowered("ds_cnn").pte, (torch.zeros(1, 1, 49, 11),))
