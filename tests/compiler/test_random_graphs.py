"""Random networks and those that once failed: they compile, keep all rules, compute bit for bit what they mean, and
stay as close to exact arithmetic as the compiler says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from atonc.ir import text
from tests.compiler.cases import describe, judge
from tests.compiler.random_graphs import random_graph, random_inputs

SEEDS = range(300)
KEPT = sorted((Path(__file__).parents[1] / "golden" / "regress").glob("*.txt"))

# A layer whose sums are thousands of times larger than what its output can show: partial sums have 16 bits, so the
# steps between them are worth more than a code. The compiler has to say so.
COARSE_CASES = {"five_by_five_parts_coarse_sums"}


@pytest.mark.parametrize("seed", SEEDS)
def test_random_network(seed: int) -> None:
    verdict = judge(random_graph(seed), seed)
    assert not verdict.problem
    assert verdict.layers


@pytest.mark.parametrize("path", KEPT, ids=lambda p: p.stem)
def test_kept_case(path: Path) -> None:
    """Shrunk by tests/compiler/shrink.py from a random network that failed; no allowance for sums here."""
    graph = text.parse(path.read_text())
    for seed in range(4):
        verdict = judge(graph, seed)
        assert not verdict.problem
        beyond = [layer for layer in verdict.layers if layer.most > layer.limit]
        if path.stem in COARSE_CASES:
            assert all(layer.most <= layer.expected for layer in beyond)
        else:
            assert not [describe(layer) for layer in beyond]


def test_a_seed_always_gives_the_same_network() -> None:
    first, second = (text.dump(random_graph(7), complete=True) for _ in range(2))
    assert first == second
    inputs, again = (random_inputs(random_graph(7), 3) for _ in range(2))
    assert all(np.array_equal(value, again[name]) for name, value in inputs.items())
    assert first != text.dump(random_graph(8), complete=True)
