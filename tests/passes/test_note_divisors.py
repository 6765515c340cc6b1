"""Divisors that can be zero are said, others are not."""

from __future__ import annotations

import numpy as np
import pytest

from atonc.compiler.ir import Graph, Op
from atonc.compiler.passes import order
from tests.lower.harness import activation, constant


def quotient(divisor: str, codes: list[int] | None = None) -> Graph:
    """x / d with d as an input, as a constant or behind a table."""
    d = constant("d", np.array(codes, np.int8).reshape(1, 4), 0.05, 3) if divisor == "constant" else None
    tensors = [activation("x", (1, 4), 0.05), d or activation("d", (1, 4), 0.05, 3), activation("y", (1, 4), 0.05)]
    ops = [Op("div", "quotient", ("x", "d"), ("y",), {})]
    inputs = ("x",) if divisor == "constant" else ("x", "d")
    if divisor == "table":
        tensors.append(activation("z", (1, 4), 0.05, 0))
        ops, inputs = [Op("table", "f", ("z",), ("d",), {"table": tuple(codes * 64)}), *ops], ("x", "z")
    return Graph({t.name: t for t in tensors}, tuple(ops), inputs, ("y",))


@pytest.mark.parametrize(
    ("divisor", "codes", "said"),
    [
        ("input", None, True),
        ("constant", [5, 6, 7, 8], False),
        ("constant", [5, 3, 7, 8], True),
        ("table", [4, 5, 6, 7], False),
        ("table", [3, 4, 5, 6], True),
    ],
)
def test_divisors_that_can_be_zero_are_noted(divisor: str, codes: list[int] | None, said: bool) -> None:
    notes = order.run(quotient(divisor, codes)).notes
    assert [note.startswith("quotient: its divisor can be 0") for note in notes] == [True] * said
