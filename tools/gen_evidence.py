"""Writes atonc/machine/hw/safety/data/evidence.json from published programs: `python tools/gen_evidence.py [--add]
FETCHED_DIR...`.

Every epoch of every distinct program is taken apart into the features that the grades look at
(atonc/machine/hw/safety/evidence); kept are their values with how often, in how many programs, of how many owners and
in how many that ST ships. Files that people edited carry the header of ST's compiler too, so `why_not` keeps out what
tools/not_evidence.toml names and what breaks a safety rule. Same input, same bytes.

`--add` counts the programs of the folders on top of what the file has: for who does not have all of them. A program
that is in it already, by name, by content or as a copy without anything new, is not counted again.
"""

from __future__ import annotations

import json
import sys
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from atonc.machine.base.reasons import Severity  # noqa: E402
from atonc.machine.hw.safety import check_program  # noqa: E402
from atonc.machine.hw.safety.evidence.epochs import epoch_features, memory_kind, unit_features  # noqa: E402
from atonc.machine.hw.safety.evidence.grades import NOTHING, Feature, Strength, Value  # noqa: E402
from atonc.machine.hw.safety.evidence.table import EvidenceProgram  # noqa: E402
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

    def strength(self, counted: Strength, owners_counted: frozenset[str]) -> Strength:
        """On top of what was counted before. Which owners had a form is not kept: one who may be among them counts no
        second time."""
        owners = {program.owner for program in self.programs}
        new = len(owners - owners_counted) if counted.times else len(owners)
        shipped = sum(program.shipped for program in self.programs)
        mine = (self.times, len(self.programs), new, shipped)
        return Strength(*(one + other for one, other in zip(counted, mine, strict=True)))


class Collected:
    """Values by name and role, and each role as a whole."""

    def __init__(self) -> None:
        self.values: dict[tuple[str, str], dict[Value, Seen]] = defaultdict(lambda: defaultdict(Seen))
        self.roles: dict[tuple[str, str], Seen] = defaultdict(Seen)

    def add(self, program: Program, features: Counter[Feature]) -> None:
        roles: Counter[tuple[str, str]] = Counter()
        for feature, times in features.items():
            key = feature.name, feature.role
            self.values[key][feature.value].add(program, times)
            roles[key] += times
        for key, times in roles.items():
            self.roles[key].add(program, times)

    def tables(self, known: Known) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = {}
        for name, role in sorted({*self.values, *known.roles}):
            values, whole = self.values.get((name, role), {}), self.roles.get((name, role), Seen())
            found.setdefault(name, {})[role] = _row(values, whole, known.row(name, role), known.owners)
        return found


@dataclass(frozen=True)
class Known:
    """What the file has already."""

    programs: tuple[EvidenceProgram, ...] = ()
    features: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def owners(self) -> frozenset[str]:
        return frozenset(program.owner for program in self.programs)

    @property
    def roles(self) -> Iterator[tuple[str, str]]:
        return ((name, role) for name, roles in self.features.items() for role in roles)

    def row(self, name: str, role: str) -> Any:
        return self.features.get(name, {}).get(role)

    def why_not(self, program: Program, features: Iterable[Feature]) -> str:
        """Why a program is not counted once more; empty if it is new."""
        for known in self.programs:
            if known.name == program.name or (known.digest and known.digest == program.digest):
                return f"counted as {known.name}"
        alike = (p for p in self.programs if _build(p) == _build(program) and p.epochs == len(program.epochs))
        copied = next(alike, None)
        if copied is not None and all(self.has(feature) for feature in features):
            return f"nothing new, and as many epochs by the same compiler as {copied.name}"
        return ""

    def has(self, feature: Feature) -> bool:
        row = self.row(feature.name, feature.role)
        if row is None or isinstance(row, dict):
            return row is not None and str(feature.value) in row
        return feature.value in accumulate(row[-1])


def _build(program: Program | EvidenceProgram) -> tuple[str, str]:
    """Compiler and driver. The description of a compiler ends in a commit of 8 or 9 digits, as the host had it."""
    head, _, commit = program.compiler.partition("-g")
    return f"{head}-g{commit[:8]}", program.driven_by


def _row(values: dict[Value, Seen], role: Seen, known: Any, owners: frozenset[str]) -> Any:
    """Numbers and words do not mix: which of them a role has is the feature's kind."""
    before = known if isinstance(known, list) else [*NOTHING, []]
    if not isinstance(known, dict) and all(isinstance(value, int) for value in values):
        ordered = sorted({*(int(value) for value in values), *accumulate(before[-1])})
        return [*role.strength(Strength(*before[:-1]), owners), [ordered[0], *(b - a for a, b in pairwise(ordered))]]
    assert not isinstance(known, list), "a number became a word"
    counted = {word: Strength(*row) for word, row in (known or {}).items()}
    added = {str(value): seen for value, seen in values.items()}
    return {
        word: added.get(word, Seen()).strength(counted.get(word, NOTHING), owners)
        for word in sorted({*counted, *added})
    }


def collect(folders: list[Path], known: Known | None = None) -> dict[str, Any]:
    return gather(read_programs(folders, Reading()), known)


def gather(programs: Iterable[Program], known: Known | None = None) -> dict[str, Any]:
    """What is no evidence is named on standard error."""
    known = known or Known()
    collected, kept = Collected(), [_listed(program) for program in known.programs]
    for program in programs:
        features = Counter(program_features(program))
        if reason := why_not(program) or known.why_not(program, features):
            print(f"kept out: {program.name}: {reason}", file=sys.stderr)
            continue
        collected.add(program, features)
        row = (program.name, program.compiler, program.driven_by, len(program.epochs), int(program.shipped))
        kept.append(_listed(EvidenceProgram(*row, program.digest)))
    return {"programs": sorted(kept), "features": collected.tables(known)}


def _listed(program: EvidenceProgram) -> list[Any]:
    row = [program.name, program.compiler, program.driven_by, program.epochs, program.shipped]
    return [*row, program.digest] if program.digest else row


def written() -> Known:
    """What the file has now."""
    data = json.loads(OUT.read_text())
    return Known(tuple(EvidenceProgram(*row) for row in data["programs"]), data["features"])


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
    adding = sys.argv[1:2] == ["--add"]
    write(collect([Path(folder) for folder in sys.argv[1 + adding :]], written() if adding else None))
