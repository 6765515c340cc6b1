"""A chain that no published program has sends its operator to the CPU, with the chain as the reason: no error."""

from __future__ import annotations

import numpy as np
import pytest

from atonc.compiler.compile.pipeline import compile_graph
from atonc.compiler.ir import Graph, Op, Quantisation, Tensor
from atonc.compiler.request.options import Options
from atonc.machine.hw.safety.evidence import Graded, Trust


def dense() -> Graph:
    rng = np.random.default_rng(0)
    first, second = (rng.integers(-127, 128, (16, size)).astype(np.int8) for size in (32, 16))
    tensors = [
        Tensor("x", (1, 32), "int8", Quantisation.per_tensor(0.1, 9)),
        Tensor("w1", first.shape, "int8", Quantisation.per_tensor(0.004, 0), first),
        Tensor("y", (1, 16), "int8", Quantisation.per_tensor(0.1, -128)),
        Tensor("w2", second.shape, "int8", Quantisation.per_tensor(0.004, 0), second),
        Tensor("z", (1, 16), "int8", Quantisation.per_tensor(0.1, -128)),
    ]
    ops = (
        Op("dense", "fc", ("x", "w1"), ("y",), {}, ("fc",)),
        Op("dense", "next", ("y", "w2"), ("z",), {}, ("next",)),
    )
    return Graph({t.name: t for t in tensors}, ops, ("x",), ("z",))


@pytest.fixture
def no_chains(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if nobody had published a chain with a CONVACC."""
    honest = Trust.allows

    def allows(trust: Trust, graded: Graded) -> bool:
        planted = graded.feature.name == "chain" and "CONVACC" in str(graded.feature.value)
        return trust.unproven or (honest(trust, graded) and not planted)

    monkeypatch.setattr(Trust, "allows", allows)


@pytest.mark.usefixtures("no_chains")
def test_the_operator_goes_to_the_cpu() -> None:
    compiled = compile_graph(dense(), Options(verify=False))
    assert {(reason.node, reason.rule.id) for reason in compiled.choices.reasons} == {
        ("fc", "CPU-EVIDENCE"),
        ("next", "CPU-EVIDENCE"),
    }
    assert "chain" in compiled.choices.reasons[0].seen


@pytest.mark.usefixtures("no_chains")
def test_unless_the_user_takes_it() -> None:
    compiled = compile_graph(dense(), Options(verify=False, allow_unproven=True))
    assert not compiled.choices.reasons
