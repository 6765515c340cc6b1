"""An option is declared once: command line, Python, service, completion and reference follow from the declaration."""

from __future__ import annotations

import argparse
import ast
import importlib.util
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from atonc.compiler.compile import reproduce
from atonc.compiler.request.options import MAPPING, Gates, Options
from atonc.doors.cli.cli import FILES, VERBS, parser, verbs_of
from atonc.doors.verbs.completion import SHELLS
from atonc.doors.verbs.flags import ST_ONLY
from atonc.doors.verbs.generate import DECLARED
from atonc.insight.report.about_text import script
from atonc.machine.base.declare import arguments, declared, option
from atonc.machine.base.frozen import dataclass

ROOT = Path(__file__).parents[1]
_SPEC = importlib.util.spec_from_file_location("gen_reference", ROOT / "tools" / "gen_reference.py")
assert _SPEC is not None and _SPEC.loader is not None
gen_reference = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(gen_reference)
NEW = option("", "--sparkle", MAPPING, "how much it shines", metavar="LUX")
OWN_MEANING = {("boards.py", "--mpool")}  # any number of them, to be held against a linked firmware
COMPILING = ("generate", "analyze", "explain", "validate")


@pytest.fixture
def sparkling(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Any]]:
    """One more option of the compiler, as if a line more stood in atonc/compiler/request/options.py."""
    kind = dataclass(frozen=True)(type("More", (Options,), {"__annotations__": {"sparkle": "str"}, "sparkle": NEW}))
    added = next(member for member in fields(kind) if member.name == "sparkle")
    monkeypatch.setitem(Options.__dataclass_fields__, "sparkle", added)
    monkeypatch.setattr(Options, "sparkle", "", raising=False)
    parser.cache_clear()
    yield kind
    parser.cache_clear()


def test_an_option_more_is_on_the_command_line_of_every_verb_that_compiles(sparkling: type[Any]) -> None:
    verbs = verbs_of(parser())
    assert {name for name in COMPILING if "--sparkle" in verbs[name]._option_string_actions} == set(COMPILING)
    assert verbs["generate"].parse_args(["m.tflite", "--sparkle", "9"]).sparkle == "9"


def test_an_option_more_is_an_argument_in_python(sparkling: type[Any]) -> None:
    assert arguments(sparkling, {"sparkle": "9"}).sparkle == "9"


def test_an_option_more_is_in_the_form_of_the_service(sparkling: type[Any]) -> None:
    pytest.importorskip("starlette", reason="atonc[serve] is not installed")
    from atonc.doors.serve import api, form

    caches = (form._parser, form._actions, form._allowed)
    for cached in caches:
        cached.cache_clear()
    shown = {found["name"]: found for group in form.schema() for found in group["options"]}
    assert (shown["sparkle"]["help"], shown["sparkle"]["hint"]) == ("how much it shines", "LUX")
    assert form.parsed({"sparkle": "9"}).sparkle == "9" and "sparkle" in api.options_schema()["properties"]
    for cached in caches:
        cached.cache_clear()


def test_an_option_more_is_completed_and_in_the_reference(sparkling: type[Any]) -> None:
    for shell in SHELLS:
        assert "sparkle" in script(shell, parser())
    page = gen_reference.pages()["options.md"]
    assert page.count("| `--sparkle LUX` | how much it shines |  | sparkle |") >= len(COMPILING)


def test_an_option_more_is_in_the_command_that_gives_the_same_result(sparkling: type[Any]) -> None:
    assert reproduce.command("m.tflite", sparkling(sparkle="9")) == "atonc generate m.tflite --sparkle 9"


def test_generate_has_no_option_that_is_not_declared() -> None:
    known = {flag for kind in DECLARED for _, one in declared(kind) for flag in one.flags}
    verb = verbs_of(parser())["generate"]
    foreign = {flag for group in verb._action_groups if group.title == ST_ONLY for flag in _flags(group)}
    assert set(verb._option_string_actions) - known - foreign == {"-h", "--help", "--help-all", "--verbosity"}


def _flags(group: argparse._ArgumentGroup) -> list[str]:
    return [flag for action in group._group_actions for flag in action.option_strings]


def test_no_verb_writes_an_option_of_the_compiler_again() -> None:
    known = {flag for kind in (Options, Gates) for _, one in declared(kind) for flag in one.flags}
    again = [
        f"{path.name} line {node.lineno} writes {node.value} again: use verbs.flags.add_single"
        for path in sorted((ROOT / "atonc" / "doors" / "verbs").glob("*.py"))
        for call in ast.walk(ast.parse(path.read_text()))
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "add_argument"
        for node in call.args
        if isinstance(node, ast.Constant) and node.value in known and (path.name, node.value) not in OWN_MEANING
    ]
    assert not again


def test_a_verb_alone_has_the_options_that_it_has_among_all() -> None:
    """Only the file of the verb is loaded: the table of files says which that is."""
    assert list(VERBS) == list(verbs_of(parser()))
    for names in FILES.values():
        for name in names:
            alone, among = verbs_of(parser(name)), verbs_of(parser())
            assert set(alone) == set(names)
            assert alone[name].format_help() == among[name].format_help()
