"""Every refusal names a rule that exists, and every rule says what users want to know."""

from __future__ import annotations

import argparse
import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import atonc.compiler.lower
from atonc.compiler.lower import rules as mapping
from atonc.doors.cli import cli
from atonc.insight.explain import rules as shaping
from atonc.machine.base.reasons import Rule


def _keys() -> Iterator[tuple[str, str]]:
    folder = Path(atonc.compiler.lower.__file__).parent
    for path in sorted(folder.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("Refusal", "RefusedForm"):
                key = node.args[0]
                if isinstance(key, ast.Constant):
                    yield str(key.value), path.name


def test_refusals_name_known_rules() -> None:
    keys = list(_keys())
    assert len(keys) > 30
    for key, _ in keys:
        assert mapping.rule_of(key).sentence


# the best form there is, or another rule of the same layer has the remedy
WITHOUT_REMEDY = {
    *("BOUND-CPU", "MODE-PASSES", "MODE-STATIONARY"),
    *("CHAIN-BEHIND", "CHAIN-CARRIES", "CHAIN-APART", "PACK-BESIDE", "FORM-CHEAPEST", "ROWS-IN-TURN", "ROWS-AT-ONCE"),
}


@pytest.mark.parametrize("rule", [*mapping.RULES.values(), *shaping.RULES], ids=lambda rule: rule.id)
def test_rules_are_complete(rule: Rule) -> None:
    assert bool(rule.remedy) != (rule.id in WITHOUT_REMEDY)
    for text in (rule.id, rule.sentence, rule.limit, rule.remedy or "none", str(rule.evidence)):
        assert text
        assert "unknown" not in text.lower()


def test_ids_are_unique() -> None:
    ids = [rule.id for rule in (*mapping.RULES.values(), *shaping.RULES)]
    assert len(ids) == len(set(ids))


def test_remedies_name_options_that_exist() -> None:
    known = {option for _, parser in _parsers() for option in parser._option_string_actions}
    texts = [f"{rule.remedy} {rule.limit} {rule.sentence}" for rule in (*mapping.RULES.values(), *shaping.RULES)]
    folder = Path(atonc.compiler.lower.__file__).parent
    texts += [path.read_text() for path in sorted(folder.rglob("*.py"))]
    named = {flag for text in texts for flag in re.findall(r"(?<![\w-])--[a-z][a-z-]+", text)}
    assert named
    assert named <= known, sorted(named - known)


def _parsers() -> Iterator[tuple[str, argparse.ArgumentParser]]:
    verbs = next(a for a in cli.parser()._actions if isinstance(a, argparse._SubParsersAction))
    yield from verbs.choices.items()
