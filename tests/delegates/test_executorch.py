"""Modules through PT2E and ExecuTorch's exporter to a .pte, and that in ExecuTorch's own runtime."""

from __future__ import annotations

from functools import cache

import pytest

pytest.importorskip("executorch", reason="atonc[executorch] is not installed: delegates are not tried")
pytest.importorskip("torchao", reason="atonc[executorch] is not installed: PT2E needs torchao")
pytest.importorskip("onnxscript", reason="atonc[torch] is not installed: PyTorch's exporter needs onnxscript")

from tests.delegates import modules
from tests.delegates.modules import Lowered, in_their_runtime, quantised
from tests.emit.generated import needs_compiler

pytestmark = needs_compiler


@cache
def _lowered(name: str) -> Lowered:
    return modules.lowered(quantised(name).program)


@pytest.mark.parametrize("name", modules.MODULES)
def test_their_runtime_gives_the_bytes_of_the_emulator(name: str) -> None:
    given, made = quantised(name), _lowered(name)
    found = in_their_runtime(made.pte, given.example)
    assert found == given.on_emulator()
    assert len(set(found[0])) > 8  # not all alike


def test_all_of_a_quantised_module_is_one_delegate() -> None:
    made = _lowered("ds_cnn")
    assert (made.delegates, made.beside, made.partitioner.undelegated) == (1, (), ())


def test_the_same_module_gives_the_same_bytes() -> None:
    assert modules.lowered(quantised("ds_cnn").program).pte == _lowered("ds_cnn").pte
