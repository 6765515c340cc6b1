"""Writes atonc/machine/hw/safety/data/evidence.json from published programs: `python tools/gen_evidence.py
FETCHED_DIR...`.

Every epoch of every distinct program is taken apart into the features that the grades look at
(atonc/machine/hw/safety/evidence); kept are their values with how often, in how many programs, of how many owners and
in how many that ST ships. Files that people edited carry the header of ST's compiler too, so `why_not` keeps out what
tools/not_evidence.toml names and what breaks a safety rule. Same input, same bytes.
"""

from __future__ import annotations

import json
import sys
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from atonc.machine.base.reasons import Severity  # noqa: E402
from atonc.machine.hw.safety import check_program  # noqa: E402
from atonc.machine.hw.safety.evidence.epochs import epoch_features, memory_kind, unit_features  # noqa: E402
from atonc.machine.hw.safety.evidence.grades import Feature, Strength, Value  # noqa: E402
from atonc.machine.hw.safety.view import EpochView  # noqa: E402
from benchmarks.shared.published import Program, Reading, read_programs  # noqa: E402

OUT = ROOT / "atonc" / "machine" / "hw" / "safety" / "data" / "evidence.json"
EXCLUDED = Path(__file__).with_name("not_evidence.toml")


@cache
def excluded() -> tuple[tuple[str, str], ...]:
    """Patterns of paths, each with the reason."""
    return tuple((row["path"], row["reason"]) for row in tomllib.loads(EXCLUDED.read_text())["excluded"])


def why_not(program: Program) -> str:
    """Why a program is no evidence; empty if it is. Being named comes first: not every edited file breaks a rule."""
    if not program.epochs:
        return "no epoch of the NPU"
    named = next((reason for path, reason in excluded() if fnmatchcase(program.name, path)), "")
    return named or next(_violations(program), "")


def _violations(program: Program) -> Iterator[str]:
    for found in check_program(program.epochs, program.context):
        if found.severity == Severity.VIOLATION:
            yield f"epoch {found.epoch}, {found.unit}: {found.rule.id} {found.rule.sentence} ({found.seen})"


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


@dataclass
class Seen:
    """Where a form was seen."""

    times: int = 0
    programs: list[Program] = field(default_factory=list)

    def add(self, program: Program, times: int) -> None:
        self.times += times
        self.programs.append(program)

    @property
    def strength(self) -> Strength:
        owners = {program.owner for program in self.programs}
        return Strength(self.times, len(self.programs), len(owners), sum(p.shipped for p in self.programs))


class Collected:
    """Values by name and role, and each role as a whole."""

    def __init__(self) -> None:
        self.values: dict[tuple[str, str], dict[Value, Seen]] = defaultdict(lambda: defaultdict(Seen))
        self.roles: dict[tuple[str, str], Seen] = defaultdict(Seen)

    def add(self, program: Program) -> None:
        roles: Counter[tuple[str, str]] = Counter()
        for feature, times in Counter(program_features(program)).items():
            key = feature.name, feature.role
            self.values[key][feature.value].add(program, times)
            roles[key] += times
        for key, times in roles.items():
            self.roles[key].add(program, times)

    def tables(self) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = {}
        for (name, role), values in sorted(self.values.items()):
            found.setdefault(name, {})[role] = _row(values, self.roles[name, role])
        return found


def _row(values: dict[Value, Seen], role: Seen) -> Any:
    if all(isinstance(value, int) for value in values):
        ordered = sorted(int(value) for value in values)
        return [*role.strength, [ordered[0], *(b - a for a, b in pairwise(ordered))]]
    return {str(value): values[value].strength for value in sorted(values, key=str)}


def collect(folders: list[Path]) -> dict[str, Any]:
    return gather(read_programs(folders, Reading()))


def gather(programs: Iterable[Program]) -> dict[str, Any]:
    """What is no evidence is named on standard error."""
    collected, kept = Collected(), []
    for program in programs:
        if reason := why_not(program):
            print(f"kept out: {program.name}: {reason}", file=sys.stderr)
            continue
        collected.add(program)
        kept.append([program.name, program.compiler, program.driven_by, len(program.epochs), int(program.shipped)])
    return {"programs": sorted(kept), "features": collected.tables()}


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
