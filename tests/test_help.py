"""The help of every verb: two screens at most, rare options behind --help-all, nothing wider than a terminal."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator

import pytest

from atonc.doors.cli import cli
from atonc.doors.cli.cli import main
from atonc.doors.verbs.parser import Parser, is_rare
from atonc.machine.base.declare import did_you_mean

TWO_SCREENS, WIDTH = 48, 80


def each_verb(parser: argparse.ArgumentParser, name: str = "") -> Iterator[tuple[str, argparse.ArgumentParser]]:
    for word, verb in cli.verbs_of(parser).items():
        path = f"{name} {word}".strip()
        yield path, verb
        yield from each_verb(verb, path)


VERBS = dict(each_verb(cli.parser()))


@pytest.mark.parametrize("name", VERBS)
def test_help_fits_two_screens(name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    with pytest.raises(SystemExit):
        main([*name.split(), "--help"])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= TWO_SCREENS, len(lines)
    assert not [line for line in lines if len(line) > WIDTH]


def test_the_full_help_has_every_option(capsys: pytest.CaptureFixture[str]) -> None:
    verb = VERBS["generate"]
    assert isinstance(verb, Parser)
    rare = [action for action in verb._actions if is_rare(action)]
    assert len(rare) > 40
    with pytest.raises(SystemExit):
        main(["generate", "--help-all"])
    every, usual = capsys.readouterr().out, verb.format_help()
    for action in verb._actions:
        for flag in action.option_strings:
            assert re.search(rf"(?<![\w-]){re.escape(flag)}(?![\w-])", every), flag
    assert "--distrust" in every and "--distrust" not in usual and "generate --help-all" in usual


def test_what_decides_a_build_is_usual_where_one_is_made() -> None:
    """Verbs that compile on the way show their own options first."""
    for flag in ("--name", "--st-neural-art", "--prefer", "--board"):
        shown = {name for name in ("generate", "explain", "validate") if flag in VERBS[name].format_help()}
        assert shown == {"generate"}, flag


def test_a_verb_without_rare_options_has_no_full_help() -> None:
    assert "--help-all" not in VERBS["completion"].format_help()
    assert main(["completion", "bash", "--help-all"]) == 2


def test_wrong_names_get_different_ones_that_are_near() -> None:
    assert did_you_mean("prefr", ["prefer", "prefer"]) == "did you mean prefer?"
    assert did_you_mean("lanse", ["lanes", "lane", "pack"]) == "did you mean lane or lanes?"
    assert did_you_mean("x", ["lanes"], "see the list") == "see the list"
