"""FULLY_CONNECTED whose weights are computed: the products of attention as TFLite writes them, one for each head."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from atonc.compiler.compare.inputs import make_inputs
from atonc.compiler.compile.pipeline import compile_file
from atonc.compiler.frontends.read import read
from atonc.compiler.ops import run_graph
from atonc.compiler.request.options import Options
from atonc.compiler.verify.emulation import Emulation
from atonc.machine.base.errors import UnsupportedError
from tests.frontends.tflite_models import O, T, build

ROWS, DEPTH, COLUMNS = 6, 8, 5


def product_model(turned: bool, bias: bool, rows: int = ROWS) -> bytes:
    """x [1, rows, depth] times k, which the network computes too."""
    tensors = [
        T("x", (1, rows, DEPTH), scale=0.02, zero=-5),
        T("k", (DEPTH, COLUMNS) if turned else (COLUMNS, DEPTH), scale=0.03, zero=7),
        T("b", (COLUMNS,), "int32", scale=0.02 * 0.03, data=[900, -500, 0, 1, 77]),
        T("perm", (2,), "int32", data=[1, 0]),
        T("t", (COLUMNS, DEPTH), scale=0.03, zero=7),
        T("y", (rows, COLUMNS), scale=0.05, zero=3),
    ]
    weights = "t" if turned else "k"
    dense = O("FULLY_CONNECTED", ["x", weights, *(["b"] if bias else [])], ["y"], "FullyConnectedOptions")
    turn = [O("TRANSPOSE", ["k", "perm"], ["t"], "TransposeOptions")] if turned else []
    return build(tensors, [*turn, dense], ["x", "k"], ["y"])


@pytest.mark.parametrize("rows", [1, ROWS])
@pytest.mark.parametrize("turned", [True, False])
def test_gives_what_the_model_says(turned: bool, rows: int, tmp_path: Path) -> None:
    file = tmp_path / "product.tflite"
    file.write_bytes(product_model(turned, False, rows))
    source, compiled = read(file), compile_file(file, Options(verify=True))
    inputs = make_inputs(source, 2)
    got = Emulation(compiled.program, compiled.graph).run(inputs)
    assert np.array_equal(got["y"], run_graph(source, inputs)["y"])
    assert len(np.unique(got["y"])) > rows


@pytest.mark.parametrize("rows", [1, ROWS])
def test_with_a_bias_no_kernel_has_it(rows: int, tmp_path: Path) -> None:
    """It keeps all its rows, and the user is told which node it is."""
    file = tmp_path / "product.tflite"
    file.write_bytes(product_model(turned=False, bias=True, rows=rows))
    with pytest.raises(UnsupportedError, match="FULLY_CONNECTED_0: dense: weights that are computed"):
        compile_file(file, Options(verify=True))


def test_a_turned_factor_is_read_as_it_lies(tmp_path: Path) -> None:
    file = tmp_path / "product.tflite"
    file.write_bytes(product_model(turned=True, bias=False))
    kinds = [op.kind for op in compile_file(file, Options(verify=False)).graph.ops]
    assert "matmul" in kinds and "transpose" not in kinds
