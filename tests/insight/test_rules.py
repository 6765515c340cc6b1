"""Every refusal names a rule that exists, and every rule says what users want to know."""

from __future__ import annotations

import argparse
import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import atonc.compiler.lower
from atonc.compiler.select import rules as mapping
from atonc.doors.cli import cli
from atonc.insight.explain import rules as shaping
from atonc.machine.base.reasons import Rule


def _named_rules() -> Iterator[tuple[Path, str]]:
    folder = Path(atonc.compiler.lower.__file__).parent
    for path in sorted(folder.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("Refusal", "RefusedForm"):
                yield path, ast.unparse(node.args[0])


def test_refusals_carry_rules_and_no_keys() -> None:
    """mypy says the same of the compiler; here it holds of whoever does not ask it. Names in capitals are constants."""
    named = list(_named_rules())
    assert len({name for _, name in named}) > 30
    for path, name in named:
        assert hasattr(mapping, name) or name in ("rule", "STRIPE"), f"{path.name}: {name}"


def test_all_rules_are_found_by_their_id() -> None:
    own = [one for one in vars(mapping).values() if isinstance(one, Rule)]
    assert len(own) > 40 and all(mapping.RULES[one.id] is one for one in (*own, *mapping.BY_NATURE.values()))


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
