"""A chain that no published program has sends its operator to the CPU, with the chain as the reason: no error."""

from __future__ import annotations

import numpy as np

from atonc.compiler.compile.pipeline import compile_graph
from atonc.compiler.ir import Graph, Op, Quantisation, Tensor
from atonc.compiler.request.options import Options


def dense() -> Graph:
    """As wide as the first two layers of MLPerf's anomaly detection."""
    rng = np.random.default_rng(0)
    first, second = (rng.integers(-127, 128, (128, size)).astype(np.int8) for size in (640, 128))
    tensors = [
        Tensor("x", (1, 640), "int8", Quantisation.per_tensor(0.39, 89)),
        Tensor("w1", first.shape, "int8", Quantisation.per_tensor(0.004, 0), first),
        Tensor("y", (1, 128), "int8", Quantisation.per_tensor(0.1, -128)),
        Tensor("w2", second.shape, "int8", Quantisation.per_tensor(0.004, 0), second),
        Tensor("z", (1, 128), "int8", Quantisation.per_tensor(0.1, -128)),
    ]
    ops = (
        Op("dense", "fc", ("x", "w1"), ("y",), {}, ("fc",)),
        Op("dense", "next", ("y", "w2"), ("z",), {}, ("next",)),
    )
    return Graph({t.name: t for t in tensors}, ops, ("x",), ("z",))


def test_the_operator_goes_to_the_cpu() -> None:
    compiled = compile_graph(dense(), Options(verify=False, numerics="2.x"))
    assert [(reason.node, reason.rule) for reason in compiled.mapped.reasons] == [("fc", "CPU-EVIDENCE")]
    assert "chain" in compiled.mapped.reasons[0].seen


def test_unless_the_user_takes_it() -> None:
    compiled = compile_graph(dense(), Options(verify=False, numerics="2.x", allow_unproven=True))
    assert not compiled.mapped.reasons
