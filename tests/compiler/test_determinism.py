"""The same model gives the same bytes, whatever the hash seed, folder, locale or time zone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.compiler.hostile_models import onnx_model
from tests.compiler.twice import compile_twice
from tests.frontends.tflite_models import chain_model

MODELS = {"chain.tflite": chain_model, "pooled.onnx": lambda: bytes(onnx_model().SerializeToString())}


@pytest.mark.parametrize("name", MODELS)
def test_two_compilations_are_byte_identical(name: str, tmp_path: Path) -> None:
    model = tmp_path / name
    model.write_bytes(MODELS[name]())
    first, second = compile_twice(model, tmp_path)
    assert first == second
    assert any("program" in file for file in first) and len(first) >= 3, "programs and memory images are among them"
