"""What many damaged or odd inputs end in, recorded: each sentence that is said and how often, and a digest of them all
in their order. A limit that is one off, or a refusal that is gone, is another record.

Whoever changes a sentence, a limit or a figure writes the records anew

    pytest TESTS --rewrite-outcomes

and reads the difference in `tests/golden/outcomes`.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "golden" / "outcomes"
MOST_WORDS = 90


def figure(value: float) -> str:
    """Shows a sum whose last digits may differ between processors."""
    return f"{value:.6g}"


def _sentence(line: str) -> str:
    """Without its numbers and what is quoted."""
    line = re.sub(r"'[^']*'", "'...'", " ".join(line.split()))
    return re.sub(r"-?(?:0x[0-9a-f]+|\d[\d,.]*(?:e[-+]?\d+)?)|\bnan\b|\binf\b", "#", line)[:MOST_WORDS]


class Outcomes:
    """The record of one test: give it a line for each outcome, the part in front of a bar being a sentence."""

    def __init__(self, file: str, name: str, rewrite: bool) -> None:
        self.path, self.name, self.rewrite = FOLDER / f"{file}.json", name, rewrite
        self.lines: list[str] = []

    def add(self, said: str, *figures: object) -> None:
        self.lines.append(" | ".join([said, *map(str, figures)]))

    def record(self) -> dict[str, Any]:
        said = Counter(_sentence(line.partition(" | ")[0]) for line in self.lines)
        digest = hashlib.sha256("\n".join(self.lines).encode()).hexdigest()[:16]
        return {"all": digest, "said": dict(sorted(said.items()))}

    def check(self) -> None:
        known = json.loads(self.path.read_text()) if self.path.exists() else {}
        if self.rewrite:
            known[self.name] = self.record()
            self.path.parent.mkdir(exist_ok=True)
            self.path.write_text(json.dumps(dict(sorted(known.items())), indent=1, ensure_ascii=False) + "\n")
        assert self.record() == known.get(self.name), _differences(self.record(), known.get(self.name, {}))


def _differences(now: dict[str, Any], known: dict[str, Any]) -> Sequence[str]:
    if not known:
        return ["it has no record yet: run it with --rewrite-outcomes, and read what it wrote"]
    before, after = Counter(known.get("said", {})), Counter(now["said"])
    changes = [f"{n} more: {said}" for said, n in (after - before).items()]
    changes += [f"{n} fewer: {said}" for said, n in (before - after).items()]
    return changes or ["the same sentences, with other figures or at other inputs"]
