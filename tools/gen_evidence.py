"""Writes atonc/hw/safety/data/evidence.json from published programs: `python tools/gen_evidence.py FETCHED_DIR...`.

Every epoch of every distinct program is taken apart into the features that the grades look at
(atonc/hw/safety/evidence); kept are their values with counts. Same input, same bytes.
"""

from __future__ import annotations

import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

from published import Program, Reading, read_programs  # noqa: E402

from atonc.hw.safety.evidence.epochs import epoch_features, memory_kind, unit_features  # noqa: E402
from atonc.hw.safety.evidence.grades import Feature  # noqa: E402
from atonc.hw.safety.view import EpochView  # noqa: E402

OUT = ROOT / "atonc" / "hw" / "safety" / "data" / "evidence.json"


def program_features(program: Program) -> Iterator[Feature]:
    for epoch in program.epochs:
        view = EpochView(epoch, program.context)
        for unit, config in view.units.items():
            if unit in view.engines:
                yield from unit_features(config, view.role(unit), memory_kind(view, unit))
            else:
                yield from unit_features(config)
        yield from (feature for _, feature in epoch_features(view))
    for words in program.blob_words:
        yield Feature("words of a blob", "", words)


class Collected:
    """Values by name and role, each with how often, in how many programs, and in how many that ST ships."""

    def __init__(self) -> None:
        self.counts: dict[tuple[str, str], dict[int | str, list[int]]] = defaultdict(dict)

    def add(self, features: Iterable[Feature], shipped: bool) -> None:
        for feature, times in Counter(features).items():
            row = self.counts[feature.name, feature.role].setdefault(feature.value, [0, 0, 0])
            row[0] += times
            row[1] += 1
            row[2] += shipped

    def tables(self, programs: dict[tuple[str, str], tuple[int, int]]) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = {}
        for (name, role), values in sorted(self.counts.items()):
            found.setdefault(name, {})[role] = _row(values, programs[name, role])
        return found


def _row(values: dict[int | str, list[int]], programs: tuple[int, int]) -> Any:
    if all(isinstance(value, int) for value in values):
        ordered = sorted(int(value) for value in values)
        steps = [ordered[0], *(b - a for a, b in pairwise(ordered))]
        return [sum(row[0] for row in values.values()), *programs, steps]
    return {str(value): values[value] for value in sorted(values, key=str)}


def collect(folders: list[Path]) -> dict[str, Any]:
    collected, reading = Collected(), Reading()
    within: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0])
    programs = []
    for program in read_programs(folders, reading):
        features = list(program_features(program))
        collected.add(features, program.shipped)
        for key in {(f.name, f.role) for f in features}:
            within[key][0] += 1
            within[key][1] += program.shipped
        programs.append([program.name, program.compiler, program.driven_by, len(program.epochs), int(program.shipped)])
    counts = {key: (row[0], row[1]) for key, row in within.items()}
    return {"programs": sorted(programs), "features": collected.tables(counts)}


def write(data: dict[str, Any]) -> None:
    """One role a line, so that a change can be read."""

    def compact(value: Any) -> str:
        return json.dumps(value, separators=(",", ":"))

    lines = ["{", '"programs":[', ",\n".join(map(compact, data["programs"])), "],", '"features":{']
    parts = []
    for name, roles in data["features"].items():
        rows = ",\n".join(f"{compact(role)}:{compact(row)}" for role, row in roles.items())
        parts.append(f"{compact(name)}:{{\n{rows}\n}}")
    OUT.write_text("\n".join([*lines, ",\n".join(parts), "}", "}"]) + "\n")


if __name__ == "__main__":
    write(collect([Path(folder) for folder in sys.argv[1:]]))
