"""`atonc explain --terms`: what the words mean. `glossary.toml` has them, for the terminal and for docs/glossary.md."""

from __future__ import annotations

import tomllib
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

from atonc.insight.report.marks import Mark, Marked, head
from atonc.machine.base.frozen import dataclass

_FILE = Path(__file__).with_name("glossary.toml")


@dataclass(frozen=True)
class Term:
    word: str
    means: str
    elsewhere: str  # what the field calls the same thing


@cache
def sections() -> dict[str, tuple[Term, ...]]:
    """Title -> its words."""
    found = tomllib.loads(_FILE.read_text(encoding="utf-8"))["section"]
    return {section["title"]: tuple(Term(*row) for row in section["terms"]) for section in found}


def lines() -> list[str]:
    out: list[str] = []
    for title, terms in sections().items():
        out += ["", head(title)]
        for term in terms:
            elsewhere = f" (elsewhere: {term.elsewhere})" if term.elsewhere else ""
            text = (f"  {term.word}", Mark.RULE), (f": {term.means}{elsewhere}", None)
            out.append(Marked.of(*text, hang=4))
    return out[1:]


def as_json() -> dict[str, Any]:
    rows = [(title, term) for title, terms in sections().items() for term in terms]
    return {"terms": [{"section": title} | asdict(term) for title, term in rows]}


def page() -> list[str]:
    """docs/glossary.md."""
    out = ["# Glossary", "", "The words that code, reports and pages use, each with one meaning, and what the field"]
    out += ["calls the same thing. None belongs to one model or board. `atonc explain --terms` prints them."]
    for title, terms in sections().items():
        out += ["", f"## {title}", "", "| word | means | elsewhere |", "|---|---|---|"]
        out += [f"| {term.word} | {term.means} | {term.elsewhere} |" for term in terms]
    return out
