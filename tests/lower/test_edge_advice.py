"""Who may be told to cut a softmax off, or to take integers: only where the model begins or ends there."""

from __future__ import annotations

import numpy as np
import pytest

from atonc.compiler.ir import Graph, Op, Quantisation, Tensor
from atonc.compiler.lower.edge_advice import holds

CODES = Quantisation(np.array([0.1]), np.array([0]), None)


def chain(*kinds: str, outputs: tuple[int, ...] = (-1,)) -> Graph:
    """Operators one behind the other; `outputs`: whose results leave the model."""
    names = [f"t{k}" for k in range(len(kinds) + 1)]
    tensors = {name: Tensor(name, (1, 4), "int8", CODES) for name in names}
    ops = tuple(Op(kind, f"op{k}", (names[k],), (names[k + 1],)) for k, kind in enumerate(kinds))
    return Graph(ops=ops, tensors=tensors, inputs=("t0",), outputs=tuple(names[1:][k] for k in outputs))


@pytest.mark.parametrize(
    ("kinds", "number", "outputs", "expected"),
    [
        (("dense", "softmax"), 1, (-1,), True),
        (("dense", "softmax", "reshape", "dequantize"), 1, (-1,), True),
        (("softmax", "matmul"), 0, (-1,), False),  # attention
        (("softmax", "transpose", "conv"), 0, (-1,), False),  # the head of a detector
        (("softmax", "reshape"), 0, (0, 1), True),
        (("softmax", "conv"), 0, (0, 1), False),
        (("conv", "dequantize"), 1, (-1,), True),
        (("dequantize", "sqrt", "quantize", "conv"), 0, (-1,), False),
        (("quantize", "conv"), 0, (-1,), True),
        (("transpose", "quantize", "conv"), 1, (-1,), True),
        (("sqrt", "quantize", "conv"), 1, (-1,), False),
        (("conv", "gather", "conv"), 1, (-1,), True),
    ],
)
def test_where_advice_holds(kinds: tuple[str, ...], number: int, outputs: tuple[int, ...], expected: bool) -> None:
    graph = chain(*kinds, outputs=outputs)
    assert holds(graph.ops[number], graph) is expected


def test_long_chains_are_no_problem() -> None:
    graph = chain("softmax", *["reshape"] * 5000)
    assert holds(graph.ops[0], graph)
