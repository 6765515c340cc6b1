"""Many small random networks through the default text of every verb that looks at a model: how many internal errors.

Tests that read JSON never see what people read. Networks follow from their seeds (tests/views/random_models.py): codes
of 8 and 16 bits, floats between, states, all on the CPU, values at the edges of floats.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path

from atonc.doors.cli.cli import TRACEBACK, main
from benchmarks.shared import tables as markdown
from benchmarks.shared.declare import COUNT, FIRST, WRITE, Report
from tests.views.random_models import STYLES, random_model

GROUP = "truth"
ARGUMENTS = (COUNT.but(default=400, help="networks"), FIRST, WRITE)

VERBS = ("generate", "analyze", "validate", "explain", "compare")
INTERNAL = 4  # the exit code of a mistake of ours; no tool is missing here
MEANING = {
    0: "done",
    1: "the verdict is no: a layer or an output is too far off",
    2: "refused, with a reason",
    3: "does not fit",
    INTERNAL: "internal error",
}


@dataclass
class Outcomes:
    codes: dict[str, Counter[int]] = field(default_factory=lambda: {verb: Counter() for verb in VERBS})
    failures: list[str] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)

    def note(self, seed: int, verb: str, code: int, said: str) -> None:
        self.codes[verb][code] += 1
        if code == INTERNAL:
            self.failures.append(f"seed {seed}, {verb}: {said.strip()[-300:]}")
        elif code and verb == "generate":
            self.refused[_rule(said)] += 1


def _rule(said: str) -> str:
    """Why it is refused, without names."""
    return said.partition("Rule: ")[2].partition(". What")[0] or said.strip()[:100]


def commands(model: Path, build: Path) -> Iterator[tuple[str, list[str]]]:
    yield "generate", ["generate", str(model), "--allow-float", "-o", str(build)]
    for verb in ("analyze", "validate", "explain"):
        yield verb, [verb, str(model), "--allow-float"]
    if build.exists():
        yield "compare", ["compare", str(build), str(build)]


def try_network(seed: int, folder: Path, found: Outcomes) -> None:
    model = folder / f"net{seed}.onnx"
    model.write_bytes(random_model(seed))
    for verb, words in commands(model, folder / f"build{seed}"):
        out, err = StringIO(), StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            code = main(words)
        found.note(seed, verb, code, err.getvalue())


def run(arguments: argparse.Namespace) -> Report:
    found = Outcomes()
    os.environ[TRACEBACK] = "1"
    with tempfile.TemporaryDirectory() as folder:
        for number in range(arguments.count):
            try_network(arguments.first + number, Path(folder), found)
            if (number + 1) % 20 == 0:
                print(f"{number + 1} networks, internal errors: {len(found.failures)}", flush=True)
    return Report(page(found, arguments.count), failed=bool(found.failures))


def page(found: Outcomes, count: int) -> str:
    rows = [(verb, *(codes[code] for code in MEANING)) for verb, codes in found.codes.items()]
    total = sum(sum(codes.values()) for codes in found.codes.values())
    lines = [
        "# The default text of every verb on random networks",
        "",
        f"{count} networks ({', '.join(STYLES)}), {total} outputs, {len(found.failures)} internal errors.",
        "",
        markdown.row(("verb", *MEANING.values())),
        markdown.row(("---",) * (len(MEANING) + 1)),
        *(markdown.row(row) for row in rows),
    ]
    if found.refused:
        lines += ["", "Why `generate` says no:", "", *(f"- {n} x {why}" for why, n in found.refused.most_common())]
    if found.failures:
        lines += ["", "## Internal errors", "", *(f"- {one}" for one in found.failures)]
    return "\n".join([*lines, ""])
