"""Constants of TFLite files that are stored without their zeros."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from atonc.compiler.compare.reference import run_tflite
from atonc.compiler.frontends.tflite import read_tflite
from atonc.compiler.ops import run_graph
from atonc.machine.base.errors import AtoncError
from tests.frontends.tflite_models import O, T, build


def weights(blocks: tuple[int, int]) -> Any:
    """Eight rows of twelve, one block of three not zero."""
    rng = np.random.default_rng(2)
    kept = np.kron(rng.random((8 // blocks[0], 12 // blocks[1])) < 0.3, np.ones(blocks, bool))
    return np.where(kept, rng.integers(1, 128, (8, 12)), 0)


def model(blocks: tuple[int, int]) -> bytes:
    tensors = [
        T("x", (1, 12), scale=0.05, zero=4),
        T("w", (8, 12), scale=0.01, data=weights(blocks), blocks=blocks),
        T("whole", (8, 12), scale=0.01),
        T("y", (1, 8), scale=0.2),
    ]
    ops = [O("DENSIFY", ["w"], ["whole"]), O("FULLY_CONNECTED", ["x", "whole"], ["y"], "FullyConnectedOptions")]
    return build(tensors, ops, ["x"], ["y"])


@pytest.mark.parametrize("blocks", [(1, 1), (4, 1), (2, 3), (1, 12)])
def test_weights_are_whole_and_results_those_of_tflite(blocks: tuple[int, int], tmp_path: Path) -> None:
    pytest.importorskip("ai_edge_litert")
    path = tmp_path / "sparse.tflite"
    path.write_bytes(model(blocks))
    graph = read_tflite(path.read_bytes())
    assert [op.kind for op in graph.ops] == ["dense"]
    data = graph.tensors[graph.ops[0].inputs[1]].data
    assert data is not None and np.array_equal(data, weights(blocks))
    x = np.random.default_rng(0).integers(-128, 128, (1, 12)).astype(np.int8)
    assert np.array_equal(run_graph(graph, {"x": x})["y"], run_tflite(path, {"x": x})["y"])


def test_damaged_trees_are_errors_of_the_model() -> None:
    good, rng = model((2, 3)), np.random.default_rng(7)
    read_tflite(good)
    refused = 0
    for _ in range(300):
        damaged = bytearray(good)
        for position in rng.integers(0, len(good), 3):
            damaged[position] = rng.integers(0, 256)
        try:
            read_tflite(bytes(damaged))
        except AtoncError as error:
            refused += bool(str(error))
    assert refused > 30
