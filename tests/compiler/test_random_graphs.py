"""Random networks and those that once failed: they compile, keep all rules, compute bit for bit what they mean, and
stay as close to exact arithmetic as they should.

A network that fails is printed as text, with its seed. To make it small and keep it as a case of its own:

    python -m benchmarks random_graphs --seed NUMBER [--steep] --keep-as NAME
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from atonc.compiler.ir import text
from tests.compiler.cases import describe, judge
from tests.compiler.random_graphs import random_graph, random_inputs
from tests.compiler.shrink import shrink

PLAIN_SHARDS, STEEP_SHARDS = 4, 2
NETWORKS = 14  # of a shard; `benchmarks/random_graphs.py` judges thousands
KEPT = sorted((Path(__file__).parents[1] / "golden" / "regress").glob("*.txt"))

# A layer whose sums are thousands of times larger than what its output can show: partial sums have 16 bits, so the
# steps between them are worth more than a code. The compiler has to say so.
COARSE_CASES = {"five_by_five_parts_coarse_sums"}

# Sums that inputs of the usual kind take beyond the 24 bits between units. The compiler has to say that they may.
SATURATING_CASES = {"chain_beyond_24_bits"}


# What random_more_ops.py adds to the usual operators, as far as a kind tells. Some of it is in every shard.
UNUSUAL = {
    "lstm", "matmul", "div", "gather_nd", "shape", "squared_difference", "rsqrt", "round", "floor", "ceil", "tanh",
}  # fmt: skip
FEWEST_UNUSUAL = 3


def _all_judged(plain: bool, shard: int) -> None:
    kinds: set[str] = set()
    for seed in range(NETWORKS * shard, NETWORKS * (shard + 1)):
        graph = random_graph(seed, plain)
        verdict = judge(graph, seed)
        assert not verdict.problem, f"seed {seed}: {verdict.problem}\n{text.dump(graph)}"
        assert verdict.layers
        kinds.update(op.kind for op in graph.ops)
    assert len(kinds & UNUSUAL) >= FEWEST_UNUSUAL, "the shard draws the usual operators only"


@pytest.mark.parametrize("shard", range(PLAIN_SHARDS))
def test_networks_whose_layers_do_not_enlarge_roundings(shard: int) -> None:
    """Every output within 2 codes of the source unless a reported sum saturated."""
    _all_judged(plain=True, shard=shard)


@pytest.mark.parametrize("shard", range(STEEP_SHARDS))
def test_networks_with_any_formats(shard: int) -> None:
    """Equal to what they mean and every layer close; outputs as far as roundings may take them."""
    _all_judged(plain=False, shard=shard)


@pytest.mark.parametrize("path", KEPT, ids=lambda p: p.stem)
def test_kept_case(path: Path) -> None:
    """Shrunk from a random network that failed; no allowance for sums here."""
    content = path.read_text()
    graph = text.parse(content)
    for seed in (0, 1, 2, 3, *(int(number) for number in re.findall(r"(?m)^# inputs (\d+)$", content))):
        verdict = judge(graph, seed)
        assert not verdict.problem
        beyond = [layer for layer in verdict.layers if layer.most > layer.limit]
        if path.stem in COARSE_CASES:
            assert all(layer.most <= layer.expected for layer in beyond)
        elif path.stem in SATURATING_CASES:
            assert all(layer.saturated for layer in beyond)
        else:
            assert not [describe(layer) for layer in beyond]


def test_a_seed_always_gives_the_same_network() -> None:
    for plain in (True, False):
        first, second = (text.dump(random_graph(7, plain), complete=True) for _ in range(2))
        assert first == second
        assert first != text.dump(random_graph(8, plain), complete=True)
    inputs, again = (random_inputs(random_graph(7), 3) for _ in range(2))
    assert all(np.array_equal(value, again[name]) for name, value in inputs.items())


def test_failing_networks_become_small() -> None:
    """As if every concatenation were wrong."""
    graph = next(g for g in map(random_graph, range(50)) if any(op.kind == "concat" for op in g.ops))
    small = shrink(graph, lambda smaller: any(op.kind == "concat" for op in smaller.ops))
    assert [op.kind for op in small.ops] == ["concat"] and len(graph.ops) > 1
    assert text.dump(text.parse(text.dump(small, complete=True))) == text.dump(small)
