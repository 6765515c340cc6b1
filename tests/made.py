"""What the tests of a folder make on their way, recorded: graphs that were read and simplified, programs, texts, data
of pages, files and figures. A test that looks at one property of a program fails where anything of it is different.

Each has a digest. A test may make only what the record of its folder has (`tests/golden/made`, a line for each test),
so it does not matter which of them comes first where they share something. Whoever changes what is made on purpose
writes the record anew

    pytest tests/FOLDER --rewrite-made

and looks at which tests have another line. Files of tests without a line are not looked at.
"""

from __future__ import annotations

import functools
import hashlib
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from atonc.compiler.compile import pipeline
from atonc.compiler.emit.program import Program
from atonc.compiler.frontends import onnx_qdq, tflite
from atonc.compiler.ir.text import dump
from atonc.compiler.passes import order
from atonc.insight.report import document
from atonc.insight.report.html import page
from atonc.machine.base import build_folder, disk
from atonc.machine.base.content import NoContentError, digest
from atonc.machine.cost import band, energy, network
from atonc.machine.emu.cpu import cycles
from atonc.machine.hw import decode, mpool
from atonc.machine.hw.cycles import bounds, doubts, flow, hardware, st_estimate, work
from atonc.machine.hw.ec import blob, ec_program, text
from atonc.machine.hw.safety import evidence
from atonc.machine.hw.safety.evidence import summary

ROOT = Path(__file__).resolve().parent.parent
FOLDER = Path(__file__).parent / "golden" / "made"
PROGRAMS = ("lower", "place", "schedule", "select")  # folders that look at single operators and small networks
VALUES = ("hw", "cost", "emu")  # folders that look at single epochs and calls
ROUGH = ("accuracy", "compare", "evaluating", "quantizing")  # folders whose figures come from kernels of this processor
TEXTS = re.compile(
    r"\.(c|cc|cmake|csv|h|hex|json|ld|md|mpool|ovly|py|rs|s|toml|txt|ya?ml)"
)  # what compilers and libraries of the machine make is left out, and pages, which hold scripts
OF_A_RUN = (
    (re.compile(r"[\w./-]*/(?:pytest-of-\w+/pytest-\d+|\.made)(?:/popen-gw\d+)?/[\w-]+|/tmp/[\w.-]+"), "TMP"),
    (re.compile(r"\b\d+(?:\.\d+)? (?:s|seconds)\b|\"seconds\": [\d.e-]+"), "- s"),
    (re.compile(r"\b20\d\d-\d\d-\d\d(?:[ T]\d\d:\d\d(?::\d\d)?Z?)?"), "DAY"),
)
Made = Iterator[tuple[str, str]]  # what it is, and its content


def _graph(made: Any, *_: Any) -> Made:
    yield f"graph {made.name} of {len(made.ops)} operators", dump(made)


def _compiled(made: Any, *_: Any) -> Made:
    program: Program = made.program
    placed = {name: (one.address, one.pool, one.first, one.last) for name, one in program.placed.items()}
    constants = [one.buffer.data for one in program.placed.values()]
    steps = [step.epoch or (step.plan.title, step.plan.op, step.plan.inputs) for step in program.steps]
    cost = [round(step.cycles) for step in made.cost.steps]
    yield f"program of {len(steps)} steps", digest(steps, placed, constants, program.inputs, program.outputs, cost)


def _value(made: Any, *_: Any) -> Made:
    with suppress(NoContentError):
        yield f"value: {type(made).__name__}", digest(made)


def _lines(made: Any, *_: Any) -> Made:
    yield f"text {' '.join(made[:1])[:60]}", "\n".join(made)


def _text(made: Any, *_: Any) -> Made:
    yield f"part of a page {made[:60]}", made


def _data(_: Any, template: str, title: str, scripts: Any, data: Any) -> Made:
    yield f"page {title}", json.dumps(data)


def _file(_: Any, path: Path, content: bytes) -> Made:
    if TEXTS.fullmatch(path.suffix) and "manifest" not in path.name:
        yield f"file {path.name}", content.decode("utf-8", "replace")


def _files(made: Any, folder: Path, files: Mapping[str, bytes]) -> Made:
    for name, content in files.items():
        yield from _file(made, Path(name), content)


def _change(made: Any, folder: Path, change: Any) -> Made:
    yield from _files(made, folder, change.files)
    for files in change.trees.values():
        yield from _files(made, folder, files)


DOORS: dict[Any, Callable[..., Made]] = {
    onnx_qdq.read_onnx: _graph,
    tflite.read_tflite: _graph,
    order.run: _graph,
    **dict.fromkeys((*order.PASSES, order.round_once, order.sort_channels, order.still_channels), _graph),
    document.lines: _lines,
    page._markup: _text,
    page._page: _data,
    disk.write_file: _file,
    disk.write_files: _files,
    build_folder.apply: _change,
    pipeline.compile_canonical: _compiled,
    **dict.fromkeys(
        (
            hardware.epoch_cycles, hardware.programming_cycles, st_estimate.epoch_cycles, bounds.bounds, doubts.doubts,
            work.epoch_work, flow.element_counts, evidence.grade_epoch,
            evidence.grade_view, evidence.reader_forms, summary.summarise, decode.decode_epochs, text.disassemble,
            blob.read_container, ec_program.words, mpool.parse_mpool, cycles.call_cost,
            cycles.describe_call, network.network_cost, energy.energy_of, band.band_of,
        ),
        _value,
    ),
}  # fmt: skip
ONLY = {_compiled: PROGRAMS, _value: VALUES}


class Known(NamedTuple):
    """Holds the files and digests of a folder's record."""

    files: frozenset[str]
    digests: frozenset[str]


class Record:
    """Keeps what each test made, and knows what tests of a folder may make."""

    def __init__(self, rewrite: bool) -> None:
        self.rewrite = rewrite
        self.tests: dict[str, dict[str, str]] = {}
        self.now: dict[str, str] | None = None  # of the test that runs: digest and what it is
        self.folder, self._known = "", dict[str, Known]()

    def add(self, what: str, content: str) -> None:
        assert self.now is not None
        content = content.replace(str(ROOT), "ROOT")
        for found, instead in OF_A_RUN:
            content = found.sub(instead, content)
        if self.folder in ROUGH:
            content = re.sub(r"-?\d[\d.,]*(?:e[-+]?\d+)?", "#", content)
        kind = what.partition(" ")[0]
        self.now[hashlib.sha256(f"{kind}\n{content}".encode()).hexdigest()[:8]] = what

    def known(self, folder: str) -> Known:
        if folder not in self._known:
            path = FOLDER / f"{folder}.txt"
            lines = [line.split() for line in path.read_text().splitlines()] if path.exists() else []
            files, digests = (
                {test.partition("::")[0] for test, *_ in lines},
                {one for _, *made in lines for one in made},
            )
            self._known[folder] = Known(frozenset(files), frozenset(digests))
        return self._known[folder]

    def write(self) -> None:
        """Lines of tests that ran are new, those of others stay."""
        for folder in {test.partition("/")[0] for test in self.tests}:
            path = FOLDER / f"{folder}.txt"
            before = path.read_text().splitlines() if path.exists() else []
            lines = {line.partition(" ")[0]: line for line in before}
            for test, made in self.tests.items():
                if test.partition("/")[0] == folder:
                    lines[test] = " ".join([test, *sorted(made)])
            path.parent.mkdir(exist_ok=True)
            path.write_text("".join(f"{line}\n" for _, line in sorted(lines.items()) if " " in line))


KEPT = pytest.StashKey[Record]()  # where the record of a session is


def watch(record: Record) -> None:
    """From now on the doors tell the record what goes through; whoever has imported one gets the one that tells."""
    instead = {id(door): (door, _telling(record, door, tells)) for door, tells in DOORS.items()}
    for module in list(sys.modules.values()):
        for name, value in list(getattr(module, "__dict__", {}).items()):
            if id(value) in instead and value is instead[id(value)][0]:
                setattr(module, name, instead[id(value)][1])


def _telling(record: Record, door: Any, tells: Callable[..., Made]) -> Any:
    @functools.wraps(door)
    def through(*words: Any, **named: Any) -> Any:
        made = door(*words, **named)
        if record.now is not None and record.folder in ONLY.get(tells, (record.folder,)):
            for what, content in tells(made, *words):
                record.add(what, content)
        return made

    return through


def begin(record: Record, item: Any) -> None:
    """Looks at tests of a file that has a record, but not at those whose inputs are drawn or the machine's own, or that
    record all outcomes themselves."""
    file = item.path.relative_to(ROOT / "tests")
    record.now, record.folder = None, file.parts[0]
    own = len(file.parts) < 2 or "outcomes" in item.fixturenames or getattr(item.obj, "is_hypothesis_test", False)
    if not own and not _looks_around(item.path) and (record.rewrite or str(file) in record.known(record.folder).files):
        record.now = {}


def end(record: Record, item: Any) -> None:
    made, record.now = record.now, None
    if made is None:
        return
    if record.rewrite:
        name = item.nodeid.partition("[")[0].removeprefix("tests/")
        record.tests.setdefault(name, {}).update(made)
        return
    known = record.known(record.folder).digests
    other = sorted(what for one, what in made.items() if one not in known)
    assert not other, f"not in tests/golden/made/{record.folder}.txt: {other[:9]}; --rewrite-made if that is meant"


@functools.cache
def _looks_around(path: Path) -> bool:
    return bool(re.search("real_networks|ATONC_CORPUS|ATONC_FETCHED", path.read_text()))
