"""Passes of the schedule are one list: names of options, their help, evidence and what runs follow from it."""

from __future__ import annotations

import ast
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from atonc.compiler import schedule as room
from atonc.compiler.request.options import SEEN, Options
from atonc.compiler.schedule import ON_REQUEST, PASSES, passes, unused
from atonc.compiler.schedule.passes import ALL, Pass
from atonc.compiler.schedule.types import Schedule
from atonc.doors.verbs.parser import declared
from atonc.machine.base.errors import InputError


def test_every_pass_can_be_left_out() -> None:
    assert Options(schedule_without=tuple(PASSES)).schedule_without == tuple(PASSES)


def test_a_wrong_name_is_refused_with_the_right_ones() -> None:
    with pytest.raises(InputError) as refused:
        Options(schedule_without=("lane",))
    assert "did you mean lanes" in str(refused.value) and ", ".join(PASSES) in str(refused.value)


def test_help_names_every_pass() -> None:
    helps = {member.name: known.help for member, known in declared(Options)}
    assert all(name in helps["schedule_without"] for name in PASSES)
    assert all(f"{name} ({one.what}" in helps["schedule_with"] for name, one in ON_REQUEST.items())


@pytest.mark.parametrize("one", [p for p in ALL if p.verb], ids=lambda p: p.name)
def test_a_verb_stands_in_a_file_of_its_name(one: Pass) -> None:
    assert callable(getattr(import_module(f"atonc.compiler.schedule.{one.verb}"), one.verb, None)), (
        f"the pass {one.name} names atonc/compiler/schedule/{one.verb}.py, which has no function {one.verb}"
    )


def _is_verb(path: Path) -> bool:
    """It has a function of its name that takes a schedule and a network and gives a schedule."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef) and node.name == path.stem and node.returns is not None:
            given = [ast.unparse(one.annotation) for one in node.args.args if one.annotation]
            return given == ["Schedule", "TaskNetwork"] and ast.unparse(node.returns) == "Schedule"
    return False


def test_every_verb_is_in_the_list() -> None:
    assert room.__file__ is not None
    verbs = {path.stem for path in Path(room.__file__).parent.glob("*.py") if _is_verb(path)}
    missing = verbs - {one.verb for one in ALL}
    assert "pack_ops" in verbs
    assert not missing, f"{', '.join(sorted(missing))} has no line in atonc/compiler/schedule/passes.py: it never runs"


def test_what_nobody_has_seen_is_off_by_default() -> None:
    assert not [one.name for one in ALL if one.default and not one.seen]


def test_off_by_default_and_without_evidence_are_two_properties(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pass that is off although published programs have what it makes goes with `--silicon seen`."""
    monkeypatch.setitem(ON_REQUEST, "tables", replace(ON_REQUEST["tables"], seen=True))
    assert Options(schedule_with=("tables",), silicon=SEEN).schedule_with == ("tables",)
    with pytest.raises(InputError, match=r"^prefetch makes epochs"):
        Options(schedule_with=("tables", "prefetch"), silicon=SEEN)


def test_unused_passes() -> None:
    assert unused((), ()) == tuple(ON_REQUEST)
    off = ("pack", "prefetch", "engine-kernels", "many-writers")
    assert unused(("pack",), ("tables",)) == tuple(p.name for p in ALL if p.name in off)


def test_verbs_run_in_their_order_unless_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    def verb(name: str) -> Any:
        return SimpleNamespace(**{name: lambda found, network: seen.append(name) or found})

    listed = (Pass("late", "", verb="put_late"), Pass("b", ""), Pass("early", "", verb="early"))
    monkeypatch.setattr(room, "ALL", listed)
    monkeypatch.setattr(room, "import_module", lambda path: verb(path.rsplit(".", 1)[1]))
    network: Any = SimpleNamespace()
    room.schedule((), network, ("b",))
    assert seen == ["put_late", "early"]
    assert room.schedule((), network, ("late",)) == Schedule(()) and seen == ["put_late", "early", "early"]


def test_the_list_is_the_one_that_options_read() -> None:
    assert passes.PASSES is PASSES and list(PASSES) + list(ON_REQUEST) == [one.name for one in ALL]
