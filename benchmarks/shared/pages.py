"""Pages of results: one helper writes them, and each says when, at which commit and on what machine it was made."""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.shared.corpus import ROOT
from benchmarks.shared.declare import Report

RESULTS = ROOT / "benchmarks" / "results"
CODE = ("atonc", "benchmarks", "tests", ":!benchmarks/results")  # what a result may depend on
_RECORD = re.compile(r"^\*Record of [\d-]{10}, ", re.M)
_STAMP = re.compile(r"^\*Made (?P<date>[\d-]+) at commit (?P<commit>[0-9a-f]+)(?P<changed> with changes)? on ", re.M)


@dataclass(frozen=True)
class Stamp:
    date: str
    commit: str
    changed: bool  # the checkout had changes that are in no commit


def git(*words: str, root: Path = ROOT) -> str:
    return subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=True).stdout.strip()


def machine() -> str:
    """Its kind, never its name."""
    return f"{os.cpu_count()}-core {platform.machine()} {platform.system()}, Python {platform.python_version()}"


def stamp_line(command: str, root: Path = ROOT) -> str:
    changed = " with changes" if git("status", "--porcelain", "--", *CODE, root=root) else ""
    commit, today = git("rev-parse", "--short=10", "HEAD", root=root), datetime.now(UTC).date()
    return f"*Made {today} at commit {commit}{changed} on {machine()}: `{command}`*"


def stamped(page: str, line: str) -> str:
    title, _, rest = page.partition("\n")
    if not title.startswith("# "):
        raise ValueError(f"a page begins with a title, `# ...`, and its stamp stands below; here: {title[:60]!r}")
    return f"{title}\n\n{line}\n\n{rest.lstrip()}"


def stamp_of(page: str) -> Stamp | None:
    found = _STAMP.search(page)
    return Stamp(found["date"], found["commit"], bool(found["changed"])) if found else None


def is_record(page: str) -> bool:
    """Whether it tells of something done once: no command makes it again; it does not age."""
    return _RECORD.search(page) is not None


def result(name: str) -> Path:
    return RESULTS / f"{name}.md"


def write(name: str, report: Report, command: str) -> None:
    result(name).write_text(stamped(report.page, stamp_line(command)))
    if report.data is not None:
        result(name).with_suffix(".json").write_text(json.dumps(report.data, indent=1) + "\n")
