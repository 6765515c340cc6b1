"""Does a network that ST's tool compiled and people published break a safety rule? None may.

Every `*_ecblobs.h` under the given folders is decoded, with the pools of the C file beside it when that can be read,
and every C file of a network that the CPU drives is turned into the same epochs. Equal programs are checked once.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random

from atonc.machine.base.reasons import Severity, Violation
from atonc.machine.hw.links import proven_chains, texts
from atonc.machine.hw.safety import all_rules, check_epoch, check_program
from benchmarks.shared.declare import FETCHED, WRITE, Report
from benchmarks.shared.published import Program, Reading, read_programs
from benchmarks.shared.safety_mutations import mutations

GROUP = "silicon"
ARGUMENTS = (FETCHED, WRITE)

EVERY = 8  # one epoch of so many is damaged


@dataclass
class Tally(Reading):
    rows: list[tuple[Program, list[Violation], float]] = field(default_factory=list)
    chains: int = 0
    unknown_chains: int = 0
    damaged: Counter[str] = field(default_factory=Counter)
    noticed: Counter[str] = field(default_factory=Counter)

    def check(self, program: Program) -> None:
        started = time.process_time()
        found = check_program(program.epochs, program.context)
        self.rows.append((program, found, time.process_time() - started))
        for epoch in program.epochs:
            forms = texts(epoch).values()
            self.chains += len(forms)
            self.unknown_chains += sum(form not in proven_chains() for form in forms)
        self._damage(program)

    def _damage(self, program: Program) -> None:
        """How sensitive the rules are: real epochs with one thing broken."""
        chance = Random(len(self.rows))
        for epoch in program.epochs[::EVERY]:
            for kind, broken in mutations(epoch, chance):
                self.damaged[kind] += 1
                found = check_epoch(broken, program.context)
                self.noticed[kind] += any(v.severity == Severity.VIOLATION for v in found)


def summary(tally: Tally) -> Iterator[str]:
    yield "| driven by | networks | epochs | stream engines | links | violations | unproven | notes | ms per epoch |"
    yield "|---|---:|---:|---:|---:|---:|---:|---:|---:|"
    for mode in ("EC", "CPU"):
        rows = [row for row in tally.rows if row[0].driven_by == mode]
        epochs = [epoch for program, _, _ in rows for epoch in program.epochs]
        engines, links = sum(len(e.engines()) for e in epochs), sum(len(e.links) for e in epochs)
        found = Counter(violation.severity for _, violations, _ in rows for violation in violations)
        counts = " | ".join(str(found[severity]) for severity in Severity)
        speed = 1000 * sum(seconds for _, _, seconds in rows) / max(1, len(epochs))
        yield f"| {mode} | {len(rows)} | {len(epochs)} | {engines} | {links} | {counts} | {speed:.2f} |"


def by_rule(tally: Tally) -> Iterator[str]:
    found = Counter((v.rule.id, v.severity) for _, violations, _ in tally.rows for v in violations)
    networks = Counter(id for _, violations, _ in tally.rows for id in {v.rule.id for v in violations})
    yield "| rule | sentence | evidence | violations | unproven | notes | networks |"
    yield "|---|---|---|---:|---:|---:|---:|"
    for rule in all_rules():
        counts = " | ".join(str(found[rule.id, severity] or "") for severity in Severity)
        yield f"| {rule.id} | {rule.sentence} | {rule.evidence} | {counts} | {networks[rule.id] or ''} |"


def by_network(tally: Tally) -> Iterator[str]:
    yield "| network | driven by | compiler | epochs | violations | unproven | notes |"
    yield "|---|---|---|---:|---:|---:|---|"
    for program, violations, _ in tally.rows:
        grave = Counter(v.severity for v in violations)
        notes = Counter(v.rule.id for v in violations if v.severity == Severity.NOTE)
        listed = ", ".join(f"{count} {id}" for id, count in sorted(notes.items()))
        serious = f"{grave[Severity.VIOLATION]} | {grave[Severity.UNPROVEN]}"
        compiler = program.compiler or "unknown"
        yield f"| {program.name} | {program.driven_by} | {compiler} | {len(program.epochs)} | {serious} | {listed} |"


def report(tally: Tally) -> str:
    grave = [
        f"- {program.name}: {violation}"
        for program, violations, _ in tally.rows
        for violation in violations
        if violation.severity != Severity.NOTE
    ]
    lines = [
        "# Safety checker on published networks",
        "",
        "Times are CPU time.",
        "",
        *summary(tally),
        "",
        f"Chains: {tally.chains}, of these not among the proven forms: {tally.unknown_chains}. "
        f"Programs equal to one already checked, not counted: {tally.equal}.",
        "",
        "Violations and unproven forms:" if grave else "No violation, nothing unproven.",
        *grave,
        "",
        "Notes are documented exceptions and things worth knowing; they do not stop anything.",
        "",
        "## Sensitivity",
        "",
        f"Every {EVERY}th epoch with one thing broken: how often a rule reports a violation.",
        "",
        "| damage | epochs | noticed |",
        "|---|---:|---:|",
        *(f"| {kind} | {count} | {tally.noticed[kind]} |" for kind, count in tally.damaged.items()),
        "",
        "## By rule",
        "",
        *by_rule(tally),
        "",
        "## By network",
        "",
        *by_network(tally),
        "",
        "## Not readable",
        "",
        *(f"- {text}" for text in dict.fromkeys(tally.unreadable or ["none"])),
    ]
    return "\n".join(lines) + "\n"


def run(arguments: argparse.Namespace) -> Report:
    tally = Tally()
    for program in read_programs(arguments.fetched, tally):
        tally.check(program)
    for folder in arguments.fetched:
        tally.unreadable = [text.replace(f"{folder}/", "") for text in tally.unreadable]
    grave = [v for _, violations, _ in tally.rows for v in violations if v.severity == Severity.VIOLATION]
    return Report(report(tally), failed=bool(grave))
