"""The one search: build decides nothing, the loop keeps the best and says what it tried, decisions come back."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import pytest

import atonc
from atonc.compiler.compile.pipeline import Compiled, compile_graph
from atonc.compiler.request.options import Options
from atonc.compiler.search import build as building
from atonc.compiler.search import candidate as judging
from atonc.compiler.search import known, loop
from atonc.compiler.search.build import build
from atonc.compiler.search.candidate import Candidate, Setting
from atonc.compiler.search.generators import GENERATORS, thrift, unfuse
from atonc.compiler.search.goal import Goal
from atonc.compiler.search.log import Proposal, Verdict
from atonc.compiler.search.loop import Generator, search
from atonc.compiler.search.saved import as_json, made_for, read_decisions
from atonc.compiler.select.decisions import FIRST, Decisions, Stripe
from atonc.compiler.select.form import RefusedForm
from atonc.compiler.select.rules import NO_EVIDENCE
from atonc.insight.estimating import estimate
from atonc.machine.base.errors import InputError
from tests.compiler.golden_graphs import Sketch

PLAIN = Options(verify=False)
STAGES = ("map_ops", "fuse", "schedule", "assign", "place")
WHY = RefusedForm(NO_EVIDENCE, "a planted form", "none", "nothing")


@cache
def compiled() -> Compiled:
    net = Sketch().start(1, 24, 24, 8)
    net.conv(16)
    net.conv(16)
    net.conv(8)
    return compile_graph(net.graph(), PLAIN)


def setting(options: Options = PLAIN) -> Setting:
    return Setting(compiled().graph, compiled().memory, compiled().target, options)


def bytes_of(candidate: Candidate) -> str:
    return str([step.epoch for step in candidate.made.program.steps])


def test_build_runs_every_stage_once_and_compares_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    given, called = setting(), list[str]()
    monkeypatch.setattr(known, "_last", None)
    for name in STAGES:
        honest = getattr(building, name)

        def counted(*arguments: object, honest: Callable[..., object] = honest, name: str = name) -> object:
            called.append(name)
            return honest(*arguments)

        monkeypatch.setattr(building, name, counted)
    for price in ("program_cost", "program_cycles"):
        monkeypatch.setattr(judging, price, lambda *_: pytest.fail("build asked what a program costs"))
    build(given, FIRST)
    assert called == list(STAGES)
    words = {node.id for node in ast.walk(ast.parse(Path(building.__file__).read_text())) if isinstance(node, ast.Name)}
    assert not words & {"min", "sorted", "GENERATORS", "program_cost"}


def test_there_is_one_loop() -> None:
    """Nobody but the loop builds programs, and an estimate its first one."""
    root = Path(atonc.__file__).parent
    line = re.compile(rf"^from {re.escape(building.__name__)} import .*\bbuild\b", re.MULTILINE)
    callers = [path for path in sorted(root.rglob("*.py")) if line.search(path.read_text())]
    assert callers == [Path(loop.__file__), Path(estimate.__file__)]


def test_what_did_not_change_is_taken_over(monkeypatch: pytest.MonkeyPatch) -> None:
    before = build(setting(), FIRST)
    again = build(setting(), FIRST.but(fused=False), before)
    assert again.mapped is before.mapped
    monkeypatch.setattr(building, "schedule", lambda *_: pytest.fail("only weights move"))
    kept = build(setting(), replace(FIRST, resident={}), before)
    assert kept.made.program is before.made.program


def test_the_same_program_whatever_it_was_built_from() -> None:
    ops = [op.name for op in compiled().graph.ops]
    for decisions in (FIRST.but(fused=False), FIRST.but(alone=frozenset(ops)), FIRST.but(compact=True)):
        alone, after = build(setting(), decisions), build(setting(), decisions, build(setting(), FIRST))
        assert bytes_of(alone) == bytes_of(after) and alone.cycles == after.cycles


# --- the loop, with generators of its own


def proposing(of: Verdict, **changes: object) -> Generator:
    def propose(candidate: Candidate) -> Iterator[Proposal]:
        yield Proposal(candidate.decisions.but(**changes), f"try {sorted(changes)}", candidate)

    return Generator(of, propose)


def test_the_best_is_kept_and_all_is_written_down() -> None:
    ops = frozenset(op.name for op in compiled().graph.ops)
    slower = proposing(Verdict.BEST, alone=ops, fused=False)
    best, found = search(setting(), FIRST, (slower,))
    assert best.decisions == FIRST
    assert [one.verdict for one in found.log] == [Verdict.BEST, Verdict.KEPT_OUT]
    assert found.log[1].cycles > found.log[0].cycles
    worst = FIRST.but(alone=ops, fused=False)
    best, found = search(setting(), worst, (proposing(Verdict.BEST, alone=frozenset(), fused=True),))
    assert best.decisions == FIRST and [one.verdict for one in found.log] == [Verdict.BEST] * 2


def test_a_generator_that_never_stops_is_stopped() -> None:
    def propose(candidate: Candidate) -> Iterator[Proposal]:
        more = Stripe(("no such operator",), 2 + len(candidate.decisions.stripes))
        yield Proposal(candidate.decisions.but(stripes=(*candidate.decisions.stripes, more)), "more", candidate)

    _, found = search(setting(), FIRST, (Generator(Verdict.BEST, propose),))
    assert len(found.log) == 2, "a candidate that is no better is not looked at"


def test_forms_that_nobody_trusts_are_mended_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """A planted refusal of every epoch of one operator: out of chains, then alone, then on the CPU."""
    name = compiled().graph.ops[1].name
    honest = judging.silicon.refused

    def refused(*given: object) -> dict[str, RefusedForm]:
        found = honest(*given)  # type: ignore[arg-type]
        shares = given[2]
        on_npu = any(share.op == name and share.units for some in shares for share in some)  # type: ignore[attr-defined]
        return {**found, name: WHY} if on_npu else found

    monkeypatch.setattr(judging.silicon, "refused", refused)
    best, found = search(setting(), FIRST, GENERATORS)
    assert dict(best.decisions.on_cpu) == {name: WHY}
    assert {one.verdict for one in found.log[:-1]} == {Verdict.UNTRUSTED} and found.log[-1].verdict == Verdict.BEST
    assert "a planted form" in found.log[0].seen


# --- decisions as data


EVERYTHING = Decisions(
    compact=True,
    fused=False,
    on_cpu={"b": WHY},
    unfused=frozenset("ab"),
    alone=frozenset("a"),
    stripes=(Stripe(("a", "b"), 3),),
    unstriped=frozenset("b"),
    reserved=frozenset("a"),
    cuts={"kernels:1": (64, 128)},
    resident={"kernels:1": 0x34200000},
    fetched=(),
)


def test_decisions_come_back_as_they_were(tmp_path: Path) -> None:
    graph = compiled().graph
    named = {op.name: replace(op, name=letter) for op, letter in zip(graph.ops, "ab", strict=False)}
    graph = replace(graph, ops=tuple(named.get(op.name, op) for op in graph.ops))
    file = tmp_path / "decisions.json"
    for decisions in (FIRST, EVERYTHING):
        file.write_text(json.dumps({"decisions": as_json(decisions)}))
        assert read_decisions(file, graph, made_for(graph, PLAIN)) == decisions
    assert as_json(FIRST) == {}


def test_a_program_is_built_again_from_its_decisions(tmp_path: Path) -> None:
    options = replace(PLAIN, resident="4k")
    found = compile_graph(compiled().source, options)
    file = tmp_path / "decisions.json"
    file.write_text(json.dumps({"decisions": as_json(found.decisions)}))
    again = compile_graph(compiled().source, replace(options, decisions=str(file)))
    assert [s.epoch for s in again.program.steps] == [s.epoch for s in found.program.steps]
    assert len(again.search) == 1
    file.write_text(json.dumps({"fused": False}))
    assert not compile_graph(compiled().source, replace(PLAIN, decisions=str(file))).scheduled.schedule.merges


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "no decisions"),
        ("[1]", "no decisions: the file is a list, not an object with names"),
        ('{"decisions": [1]}', "no decisions: its 'decisions' is a list"),
        ('{"fussed": true}', "fused"),
        ('{"on_cpu": {"a": {"rule": "CPU-GATER", "seen": "", "limit": "", "remedy": ""}}}', "CPU-GATHER"),
        ('{"fused": 1}', "neither true nor false"),
        ('{"huge_share": "1/0"}', "no decisions"),
        ('{"alone": ["nobody"]}', "no operator 'nobody'"),
        ('{"stripes": [{"ops": ["x"], "bands": 1}]}', "no operator 'x'"),
        ('{"fetched": [{"constant": 1}]}', "no decisions"),
        ('{"decisions": {"cuts": 5}}', "no decisions"),
        ("[" * 100_000, "no decisions"),
    ],
)
def test_a_file_that_is_no_decisions(tmp_path: Path, content: str, said: str) -> None:
    file = tmp_path / "decisions.json"
    file.write_text(content)
    with pytest.raises(InputError) as caught:
        compile_graph(compiled().source, replace(PLAIN, decisions=str(file)))
    assert said in str(caught.value)


def test_trust_is_asked_of_the_best_only() -> None:
    """Grading is dear: candidates that are no better are not graded."""
    ops = frozenset(op.name for op in compiled().graph.ops)
    _, found = search(setting(), FIRST, (proposing(Verdict.BEST, alone=ops, fused=False),))
    assert ["refused" in vars(one) for one in found.sound] == [True, False]


def test_who_was_never_asked_for_evidence_never_leads() -> None:
    """A program that was no better when it was built is not graded. It stays out when a faster one makes the smallest
    too slow, although it would then be the smallest of those that are fast enough."""
    small, middle, fast = (
        SimpleNamespace(built=1, undecided=False, cycles=cycles, peak_bytes=peak, refused={}, decisions=cycles)
        for cycles, peak in ((111, 10), (100, 12), (90, 20))
    )
    middle.refused = {"conv": WHY}
    found = loop.Search(setting(), (), Goal("memory"))
    for one in (small, middle, fast):
        found.take(Proposal(FIRST, ""), one)  # type: ignore[arg-type]
    assert [attempt.verdict for attempt in found.log] == [Verdict.BEST, Verdict.KEPT_OUT, Verdict.BEST]
    assert found.leaders == [fast]


@pytest.mark.parametrize(("chained", "spilled", "tried"), [(True, 64, 1), (True, 0, 0), (False, 64, 0)])
def test_chains_that_spill_are_tried_apart(chained: bool, spilled: int, tried: int) -> None:
    made = SimpleNamespace(layout=SimpleNamespace(spilled_bytes=spilled))
    found = list(unfuse.propose(SimpleNamespace(decisions=FIRST, chained=chained, made=made)))  # type: ignore[arg-type]
    assert [one.decisions.fused for one in found] == [False] * tried


@pytest.mark.parametrize("spends", [True, False])
def test_forms_that_raise_the_peak_are_tried_without_where_room_is_short(spends: bool) -> None:
    room, made = SimpleNamespace(spends=spends), SimpleNamespace(layout=SimpleNamespace(spilled_bytes=1))
    mapped = SimpleNamespace(context=SimpleNamespace(room=room))
    one = SimpleNamespace(decisions=FIRST, mapped=mapped, made=made)
    for found in (thrift.propose(one), thrift.without_room(one)):  # type: ignore[arg-type]
        assert [proposal.decisions for proposal in found] == [FIRST.but(thrifty=True)] * spends
    assert FIRST.spends and not FIRST.but(thrifty=True).spends and not FIRST.but(compact=True).spends
