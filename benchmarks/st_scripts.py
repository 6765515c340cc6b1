"""Do ST's own scripts, unchanged, run on atonc by ST's name?

DIR holds the repositories as bare git directories, OWNER+NAME/repo; nothing of them is changed or kept. `--python` is
an interpreter for ST's scripts: hydra-core, omegaconf, mako, colorama, tabulate, requests, marshmallow, munch, pandas,
onnx, onnxruntime, gitpython, pyserial, ai-edge-litert. Heavy packages are stand-ins (shared/zoo_session.py).
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from atonc.doors.verbs.st_release import DEFAULT
from benchmarks.shared import st_lines, st_zoo
from benchmarks.shared.declare import ONE_FETCHED, ONLY, PYTHON, WORK, WRITE, Report
from benchmarks.shared.st_script_row import Row

GROUP = "deployment"
ARGUMENTS = (
    ONE_FETCHED,
    PYTHON.but(required=True),
    ONLY,
    WORK,
    WRITE,
)
# rows of other parts: applications and their generate scripts; packagers, loaders and clients
OTHERS = ("benchmarks.shared.st_apps", "benchmarks.shared.st_runners")
INTRODUCTION = f"""# ST's scripts on atonc by ST's name

One row a script: the repository at its commit, what was called, what came of it. The scripts are unchanged; `stedgeai`
is the launcher of `atonc stedgeai --install` (release {DEFAULT}). Boards are the virtual board, STM32CubeIDE is the
make line of the same application, heavy Python packages are stand-ins.

| repository | commit | script | called | result | |
|---|---|---|---|---|---|
"""


def run(arguments: argparse.Namespace) -> Report:
    found = []
    with tempfile.TemporaryDirectory() as temporary:
        work = (arguments.work or Path(temporary)).absolute()
        for row in _rows(arguments.fetched, work, arguments.python.absolute(), arguments.only):
            print(_line(row), flush=True)
            found.append(row)
    page = (
        INTRODUCTION + "\n".join(map(_line, found)) + f"\n\n{sum(r.passed for r in found)} of {len(found)} rows hold.\n"
    )
    return Report(page, failed=not all(row.passed for row in found), data=[asdict(row) for row in found])


def _rows(fetched: Path, work: Path, python: Path, only: list[str]) -> Iterator[Row]:
    parts = {"lines": lambda place: st_lines.rows(place), "zoo": lambda place: st_zoo.rows(fetched, place, python)}
    for name in OTHERS:
        if importlib.util.find_spec(name) is not None:
            module = importlib.import_module(name)
            parts[name.rpartition(".st_")[2]] = lambda place, module=module: module.rows(fetched, place)
    for name, rows in parts.items():
        if not only or name in only:
            place = work / name
            place.mkdir(parents=True, exist_ok=True)
            yield from rows(place)


def _line(row: Row) -> str:
    cells = (row.repository, row.commit, row.script, row.called, row.result, "yes" if row.passed else "**no**")
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"
