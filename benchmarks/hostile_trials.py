"""Damaged and hostile files on the command line: exit code, one paragraph, seconds and memory of each.

The files are those of $ATONC_TRIALS or of trials beside the corpus: `damaged` (models, memory pools, folders of
networks) and `inputs` (.npy and .npz files for `run --input` and `validate --input`). Each is tried in a process of its
own.
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.shared.children import measure
from benchmarks.shared.corpus import ROOT, asked_for, trials_dir
from benchmarks.shared.declare import ONLY, WRITE, Report

GROUP = "tools"
ARGUMENTS = (ONLY, WRITE)

TRIALS = trials_dir()
DIGITS, FIRST = ROOT / "examples" / "digits" / "digits.tflite", ROOT / "examples" / "first"
COMPILED, REFUSED, TOO_LARGE = 0, 2, 3
GIVE_UP_SECONDS, GIVE_UP_BYTES = 120, 8 << 30  # so that a trial that fails does not take the machine along
HEAD = """# Damaged and hostile files on the command line

One thread, on a machine that others used too. Each line is one process of its own; *CPU s*: seconds of the processor
(the clock depends on the neighbours); *MB*: largest resident memory. Expected of `damaged`: exit code 2, or 3 where a
model does not fit, or a verified program (0) where the model is a good one after all; one paragraph; 20 s, 1500 MB. Of
`inputs`: exit code 2, one paragraph, 5 s, 500 MB.

"""


@dataclass(frozen=True)
class Limits:
    codes: tuple[int, ...]
    seconds: float
    megabytes: float


DAMAGED = Limits((REFUSED, TOO_LARGE, COMPILED), 20.0, 1500.0)
INPUTS = Limits((REFUSED,), 5.0, 500.0)


@dataclass(frozen=True)
class Trial:
    name: str
    words: tuple[str, ...]
    limits: Limits


@dataclass(frozen=True)
class Outcome:
    trial: Trial
    code: int
    seconds: float
    megabytes: float
    said: str
    left: tuple[str, ...]  # files that a refused command wrote

    @property
    def wrong(self) -> list[str]:
        limits, found = self.trial.limits, []
        if self.code not in limits.codes:
            found.append(f"exit code {self.code}")
        if "Traceback" in self.said:
            found.append("traceback")
        if self.code == REFUSED and (not self.said.startswith("atonc: ") or len(self.said.splitlines()) != 1):
            found.append(f"{len(self.said.splitlines())} lines")
        if not all(line.isprintable() for line in self.said.splitlines()):
            found.append("control characters")
        if self.seconds > limits.seconds:
            found.append(f"{self.seconds:.1f} s")
        if self.megabytes > limits.megabytes:
            found.append(f"{self.megabytes:.0f} MB")
        if self.code and self.left:
            found.append(f"left {', '.join(self.left)}")
        return found


def trials() -> list[Trial]:
    found = []
    for path in sorted((TRIALS / "damaged").iterdir()):
        if path.is_dir():
            words = ["run", str(path)]
        elif path.suffix == ".mpool":
            words = ["generate", str(DIGITS), "--mpool", str(path)]
        else:
            words = ["generate", str(path)]
        found.append(Trial(f"damaged/{path.name}", tuple(words), DAMAGED))
    for path in sorted((TRIALS / "inputs").iterdir()):
        found.append(Trial(f"inputs/{path.name}, run", ("run", str(FIRST), "--input", str(path)), INPUTS))
        words = ("validate", str(DIGITS), "--input", str(path))
        found.append(Trial(f"inputs/{path.name}, validate", words, INPUTS))
    return found


def attempt(trial: Trial) -> Outcome:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (GIVE_UP_BYTES, GIVE_UP_BYTES))
        resource.setrlimit(resource.RLIMIT_CPU, (GIVE_UP_SECONDS, GIVE_UP_SECONDS))

    command = [sys.executable, "-m", "atonc", *trial.words]
    with tempfile.TemporaryDirectory() as home:
        used = measure(command, Path(home), limit)
        left = tuple(sorted(str(path.relative_to(home)) for path in Path(home).rglob("*") if path.is_file()))
    return Outcome(trial, used.code, used.cpu_seconds, used.megabytes, used.said, left)


def table(outcomes: Sequence[Outcome]) -> str:
    rows = ["| file | exit code | CPU s | MB | says |", "|---|---|---|---|---|"]
    for one in outcomes:
        said = one.said.splitlines()[0].replace(str(TRIALS), "trials").replace("|", "/") if one.said else ""
        said = said if len(said) <= 150 else said[:147] + "..."
        wrong = f" **{', '.join(one.wrong)}**" if one.wrong else ""
        rows.append(f"| {one.trial.name} | {one.code}{wrong} | {one.seconds:.1f} | {one.megabytes:.0f} | {said} |")
    return "\n".join(rows) + "\n"


def summary(outcomes: Sequence[Outcome]) -> str:
    wrong = sum(bool(one.wrong) for one in outcomes)
    codes = ", ".join(f"{sum(o.code == code for o in outcomes)} with code {code}" for code in (0, 2, 3))
    slowest = max((one.seconds for one in outcomes), default=0.0)
    largest = max((one.megabytes for one in outcomes), default=0.0)
    return (
        f"{len(outcomes)} trials, {wrong} not as expected; {codes}; at most {slowest:.1f} s of the processor and "
        f"{largest:.0f} MB.\n"
    )


def run(arguments: argparse.Namespace) -> Report:
    outcomes = []
    for trial in trials():
        if asked_for(arguments.only, trial.name):
            outcomes.append(attempt(trial))
            one = outcomes[-1]
            used = f"{one.code} {one.seconds:.1f} s {one.megabytes:.0f} MB"
            print(f"{trial.name}: {used} {one.wrong or ''} {one.said[:300]}", flush=True)
    page = HEAD + summary(outcomes) + "\n" + table(outcomes)
    return Report(page, failed=any(one.wrong for one in outcomes))
