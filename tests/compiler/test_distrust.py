"""`--distrust`: each argument can be done without, and no form of the program rests on it then."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from atonc.compiler.compile.pipeline import Compiled, compile_graph
from atonc.compiler.ir import Graph
from atonc.compiler.request.options import Options
from atonc.machine.base.errors import InputError
from atonc.machine.hw.safety.evidence import Feature, Trust
from atonc.machine.hw.safety.evidence.arguments import ARGUMENTS
from atonc.machine.hw.safety.evidence.trust import padding_grade
from tests.compiler.golden_graphs import Sketch
from tests.compiler.wide_networks import random_network

IDS = [argument.id for argument in ARGUMENTS]
RESULTS = Path(__file__).parents[2] / "benchmarks" / "results" / "arguments.json"


def compiled(graph: Graph, *distrust: str) -> Compiled:
    return compile_graph(graph, Options(verify=False, distrust=distrust))


def arguments(found: Compiled) -> set[str]:
    return {form.graded.argument for epoch in found.grades for form in epoch.forms} - {""}


def windows() -> Graph:
    """A zero point of -128, a picture that is wider than any seen with such windows, strides of both kinds."""
    net = Sketch().start(1, 24, 300, 3, zero=-128)
    net.conv(8, (3, 3))
    net.conv(16, (3, 3), 2)
    return net.graph()


def wide_windows() -> Graph:
    net = Sketch().start(1, 12, 12, 3, zero=3)
    net.conv(8, (5, 5))
    return net.graph()


def sixteen_bits() -> Graph:
    return random_network(3).graph("int16")


GRAPHS: dict[str, Callable[[], Graph]] = {
    "windows": windows,
    "wide windows": wide_windows,
    "16 bits": sixteen_bits,
}


@pytest.mark.parametrize("argument", IDS)
@pytest.mark.parametrize("name", GRAPHS)
def test_nothing_rests_on_an_argument_that_is_distrusted(name: str, argument: str) -> None:
    assert argument not in arguments(compiled(GRAPHS[name](), argument))


def test_by_default_these_networks_rest_on_some() -> None:
    found = set().union(*(arguments(compiled(make())) for make in GRAPHS.values()))
    assert {"S3", "S5", "S9"} <= found


@pytest.mark.parametrize("argument", IDS)
def test_a_form_of_an_argument_is_unseen_without_it(argument: str) -> None:
    examples = {
        "S1": Feature("chains side by side", "", "IN>POOL>OUT || IN>POOL>OUT || IN>POOL>OUT"),
        "S2": Feature("CONVACC pads left right top bottom", "3x3/2", "1 0 0 0"),
        "S3": Feature("CONVACC W", "3x3/1 simd1 F1", 300),
        "S4": Feature("STRENG line step", "read", 400_000),
        "S5": Feature("CONVACC FSUB", "signed", -128),
        "S6": Feature("ARITH SHIFT RES", "AFFINE dual X2 Y2 O2", 14),
        "S7": Feature("reader and writer", "of one chain", "interleaved, no word in common"),
        "S8": Feature("CONVACC B", "5x3/1 simd1 F1", 3),
        "S9": Feature("STRENG reads features", "simd2", "16 bits"),
        "S10": Feature("interleaved writers of a buffer", "", "3"),
        "S11": Feature("writer of kernels", "", "CPU"),
    }
    feature = examples[argument]
    assert Trust().grade(feature).argument == argument
    without = Trust(distrusted=frozenset({argument}))
    assert not without.allows(without.grade(feature))


def test_an_unknown_argument_is_refused() -> None:
    with pytest.raises(InputError) as error:
        Options(distrust=("S2", "S99"))
    assert "S99" in str(error.value) and error.value.remedy


@pytest.mark.parametrize("sides", [(1, 1, 0, 1), (0, 1, 0, 1), (0, 1, 1, 1), (0, 0, 1, 0), (1, 0, 1, 0)])
def test_no_side_alone_with_stride_1(sides: tuple[int, int, int, int]) -> None:
    trust = Trust()
    assert not trust.allows(padding_grade((3, 3), 1, sides, trust))
    assert trust.allows(padding_grade((3, 3), 2, sides, trust))


def test_the_table_of_prices_has_every_argument() -> None:
    if not RESULTS.is_file():
        pytest.skip("benchmarks are not part of this checkout")
    rows = json.loads(RESULTS.read_text())["rows"]
    assert [row["argument"] for row in rows] == IDS
    assert not any(row["left"] for row in rows)


def test_an_argument_in_small_letters() -> None:
    with pytest.raises(InputError) as refused:
        Options(distrust=("s9",))
    assert refused.value.fix == "did you mean S9?"
