"""Whole random networks as a strategy of hypothesis: it chooses operators, shapes and attributes, and so can make
failing networks smaller. Weights, data and examples follow from a seed that it draws first."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from hypothesis import HealthCheck, Phase, assume, given, seed, settings
from hypothesis import strategies as st

from atonc.compiler.ir import Graph, text
from tests.compiler.draws import Drawn
from tests.compiler.random_graphs import Net, grown

PRINTED_CHARACTERS = 30_000
EXAMPLES = 20  # networks of a shard; `benchmarks/random_graphs.py` judges thousands


class Case:
    """Not a dataclass: hypothesis would print every field of it."""

    def __init__(self, graph: Graph, seed: int) -> None:
        self.graph, self.seed = graph, seed  # of the inputs

    def __repr__(self) -> str:
        return f"<{self.graph.name}, {len(self.graph.ops)} operators>"

    def text(self) -> str:
        """As it is kept; constants by their hash where there is too much of them."""
        whole = text.dump(self.graph, complete=True)
        return f"# inputs {self.seed}\n{whole if len(whole) <= PRINTED_CHARACTERS else text.dump(self.graph)}"


@st.composite
def cases(draw: st.DrawFn, plain: bool) -> Case:
    number = _number(draw, 0, (1 << 14) - 1)
    draws = Drawn(lambda low, high: _number(draw, low, high))
    net = Net(np.random.default_rng([number, 20252]), draws, plain)
    return Case(grown(net, number), number)


def _number(draw: st.DrawFn, low: int, high: int) -> int:
    """From single bits: integers of hypothesis prefer constants of the modules that happen to be loaded, so that other
    tests would decide which networks are tried."""
    span = high - low
    bits = [draw(st.booleans()) for _ in range(span.bit_length())]
    return low + sum(bit << k for k, bit in enumerate(bits)) % (span + 1)


def try_cases(check: Callable[[Case], None], plain: bool, shard: int, examples: int = EXAMPLES) -> None:
    """The same networks every time for the same shard; the last call of a failing check is for the smallest one."""
    limits = settings(
        max_examples=examples,
        database=None,
        deadline=None,
        derandomize=True,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )
    seed(shard)(limits(given(cases(plain))(_each_once(check))))()


def _each_once(check: Callable[[Case], None]) -> Callable[[Case], None]:
    """Hypothesis varies what it has: networks of operators that another one had do not count, until one fails."""
    passed: set[tuple[str, ...]] = set()
    failed: list[Case] = []

    def checked(case: Case) -> None:
        kinds = tuple(op.kind for op in case.graph.ops)
        assume(failed or kinds not in passed)
        try:
            check(case)
        except BaseException:
            failed.append(case)
            raise
        passed.add(kinds)

    return checked
