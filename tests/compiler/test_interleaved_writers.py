"""Writers of one epoch that fill one buffer in turns of bytes: two as published, two otherwise, three and more.

The last two rest on S10; three and more, which nobody has run, are made on request only.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from atonc.compiler.compare.inputs import make_inputs
from atonc.compiler.compile.pipeline import Compiled, compile_graph
from atonc.compiler.ir import Graph
from atonc.compiler.request.options import Options
from atonc.compiler.request.target import trust_of
from atonc.compiler.verify.emulation import Emulation
from atonc.delivery.probes import PROBES
from atonc.delivery.probes.log import features_of
from atonc.insight.report import parts
from atonc.insight.report.html.network import _silicon
from atonc.machine.base.errors import InputError
from atonc.machine.base.reasons import Severity
from atonc.machine.hw.safety.evidence import PUBLISHED, Feature, Grade, Trust
from atonc.machine.hw.safety.evidence.board_file import BoardEvidence
from atonc.machine.hw.safety.evidence.epochs import (
    BETWEEN,
    MANY,
    RUN,
    TOGETHER,
    Relation,
    Writers,
    together,
    writers_of,
)
from atonc.machine.hw.safety.evidence.table import SeenNumbers, evidence
from tests.compiler.golden_graphs import Sketch

THREE = Feature(TOGETHER, "", "3")
WITHOUT = Trust(distrusted=frozenset({"S10"}))
SETTINGS = {
    "default": Options(verify=False),
    "many": Options(verify=False, schedule_with=("many-writers",)),
    "without": Options(verify=False, distrust=("S10",)),
    "seen": Options(verify=False, silicon="seen"),
}


# -------------------------------------------------------------------------------------------------------------- grades


def of_probe(name: str, trust: Trust = PUBLISHED) -> Writers | None:
    features = features_of(next(probe for probe in PROBES if probe.name == name))
    return writers_of([trust.grade(feature) for feature in features])


@pytest.mark.parametrize(
    ("probe", "kind"),
    [
        ("control-raster", None),
        ("writers-interleaved", Writers.PUBLISHED),
        ("writers-interleaved-32", Writers.PUBLISHED),
        ("writers-interleaved-256", Writers.OTHERWISE),
        ("writers-interleaved-gap", Writers.OTHERWISE),
        ("writers-three-interleaved", Writers.MANY),
        ("writers-four-interleaved", Writers.MANY),
    ],
)
def test_what_an_epoch_has_of_them(probe: str, kind: Writers | None) -> None:
    assert of_probe(probe) == of_probe(probe, WITHOUT) == kind


def test_sets_are_counted_by_what_hangs_together() -> None:
    near, own, apart = Relation.SHARED_WORDS, Relation.OWN_WORDS, Relation.APART
    assert not list(together({("a", "b"): apart, ("b", "c"): Relation.BORDER}))
    assert not list(together({("a", "b"): own, ("b", "c"): apart}))  # the two of them say all
    assert list(together({("a", "b"): own, ("b", "c"): near, ("a", "c"): apart})) == [THREE]
    assert list(together({("a", "b"): own, ("c", "d"): own})) == [Feature(TOGETHER, "", "2 2")]
    assert list(together({("a", "b"): own, ("c", "d"): own, ("b", "c"): own})) == [Feature(TOGETHER, "", "4")]


def test_longer_runs_and_wider_gaps_rest_on_the_argument() -> None:
    runs = evidence()[RUN][""]
    assert isinstance(runs, SeenNumbers)
    longer, shorter = (Feature(RUN, "", value) for value in (runs.values[-1] + 8, runs.values[0] - 1))
    gap, pairs = Feature(BETWEEN, str(Relation.OWN_WORDS), 16), Feature(TOGETHER, "", "2 2")
    for feature in (longer, gap, pairs, THREE):
        found = PUBLISHED.grade(feature)
        assert (found.grade, found.argument) == (Grade.COMPOSED, "S10")
        assert WITHOUT.grade(feature).grade == Grade.UNSEEN
    assert PUBLISHED.grade(shorter).grade == Grade.UNSEEN
    assert all(PUBLISHED.grade(Feature(RUN, "", value)).grade != Grade.COMPOSED for value in runs.values)


def test_three_are_used_where_somebody_asked_or_a_board_answered() -> None:
    assert {Feature(TOGETHER, "", word) for word in ("3", "4", "5", "2 3")} == MANY
    confirmed = Trust(board=BoardEvidence(confirmed=MANY))
    for trust, allowed in ((PUBLISHED, False), (Trust(asked=MANY), True), (confirmed, True), (WITHOUT, False)):
        assert trust.allows(trust.grade(THREE)) == allowed
    assert PUBLISHED.allows(PUBLISHED.grade(Feature(TOGETHER, "", "2 2")))


@pytest.mark.parametrize("against", [{"distrust": ("S10",)}, {"silicon": "seen"}])
def test_nobody_asks_for_them_and_against_them(against: dict[str, object]) -> None:
    with pytest.raises(InputError) as error:
        trust_of(Options(schedule_with=("many-writers",), **against))  # type: ignore[arg-type]
    assert "many-writers" in str(error.value) and error.value.remedy


# ------------------------------------------------------------------------------------------------------------ programs


def wide() -> Graph:
    """Lanes of many channels, of few, and slices of a depthwise layer."""
    net = Sketch().start(1, 28, 28, 48)
    net.conv(48, (3, 3), depthwise=True)
    net.conv(288)
    net.conv(288, (3, 3), depthwise=True)
    net.conv(48)
    return net.graph()


@cache
def compiled(setting: str) -> Compiled:
    return compile_graph(wide(), SETTINGS[setting])


def kinds(setting: str) -> set[Writers | None]:
    return {epoch.writers for epoch in compiled(setting).grades}


def test_each_setting_has_what_it_allows() -> None:
    assert Writers.MANY in kinds("many")
    assert kinds("default") >= {Writers.OTHERWISE, Writers.PUBLISHED} and Writers.MANY not in kinds("default")
    for setting in ("without", "seen"):
        assert Writers.PUBLISHED in kinds(setting) and not kinds(setting) & {Writers.MANY, Writers.OTHERWISE}


def test_lanes_stay_where_the_argument_goes() -> None:
    """Rows, or channels as published, before one chain after the other."""
    alone = compile_graph(wide(), Options(verify=False, distrust=("S10",), schedule_without=("lanes",)))
    cycles = {setting: compiled(setting).cost.cycles for setting in SETTINGS}
    assert cycles["default"] < cycles["without"] < 1.05 * cycles["default"] < alone.cost.cycles
    assert all(not compiled(setting).choices.reasons for setting in SETTINGS)


@pytest.mark.parametrize("setting", ["many", "without", "seen"])
def test_results_are_the_same_within_a_code(setting: str) -> None:
    inputs = make_inputs(compiled("default").graph, 5)
    one, other = (Emulation(each.program, each.graph).run(inputs) for each in map(compiled, ("default", setting)))
    for name, values in one.items():
        assert np.abs(values.astype(int) - other[name].astype(int)).max() <= 1
        assert np.mean(values != other[name]) < 0.02
    assert not [found for found in compiled(setting).findings if found.severity == Severity.VIOLATION]


def test_the_summary_says_how_much_time_rests_on_them() -> None:
    found = compiled("many")
    steps = zip(found.program.steps, found.cost.steps, strict=True)
    cycles = {step.number: cost.cycles for step, cost in steps}
    resting = [e.number for e in found.grades if e.writers in (Writers.OTHERWISE, Writers.MANY)]
    share = sum(cycles[number] for number in resting) / found.cost.cycles
    said = found.silicon.by_argument["S10"]
    assert said.epochs == len(resting) and said.of_time == pytest.approx(share) and 0 < share < 1
    data = found.silicon.as_dict()
    listed = {row["writers"]: row["share_of_time"] for row in data["interleaved_writers"]}
    assert sum(listed.get(kind, 0) for kind in Writers if kind != Writers.PUBLISHED) == pytest.approx(share, abs=1e-3)
    assert next(row for row in data["arguments"] if row["id"] == "S10")["share_of_time"] == round(share, 4)
    line = f"S10 Interleaved writers: {said.epochs} epochs, {100 * share:.1f} % of the time"
    assert f"  {line}" in parts.silicon_lines(found.silicon)
    page = _silicon(found.silicon)
    assert "three or more" in page["strength"]
    shown = [f"{100 * share:.1f} % of the time" in row[1] for row in page["groups"] if row[0].startswith("S10 ")]
    assert shown == [True]
