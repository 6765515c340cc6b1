"""Every refusal names a rule that exists, and every rule says what users want to know."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import atonc.lower
from atonc.insight import rules as shaping
from atonc.lower import rules as mapping
from atonc.reasons import Rule


def _keys() -> Iterator[tuple[str, str]]:
    folder = Path(atonc.lower.__file__).parent
    for path in sorted(folder.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Refusal":
                key = node.args[0]
                if isinstance(key, ast.Constant):
                    yield str(key.value), path.name


def test_refusals_name_known_rules() -> None:
    keys = list(_keys())
    assert len(keys) > 30
    for key, _ in keys:
        assert mapping.rule_of(key).sentence


@pytest.mark.parametrize("rule", [*mapping.RULES.values(), *shaping.RULES], ids=lambda rule: rule.id)
def test_rules_are_complete(rule: Rule) -> None:
    for text in (rule.id, rule.sentence, rule.limit, rule.remedy, str(rule.evidence)):
        assert text
        assert "unknown" not in text.lower()


def test_ids_are_unique() -> None:
    ids = [rule.id for rule in (*mapping.RULES.values(), *shaping.RULES)]
    assert len(ids) == len(set(ids))
