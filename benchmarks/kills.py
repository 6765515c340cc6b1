"""Commands that are killed at file system calls, and a reader that knows nothing of atonc.

`tests/killed.py` kills and judges; here are the commands: each has an old state and a new one.
"""

from __future__ import annotations

import argparse
import random
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, replace
from functools import partial
from io import StringIO
from pathlib import Path

from atonc.delivery.deploy import journal
from atonc.doors.cli.cli import main
from atonc.machine.base.build_folder import read_whole
from benchmarks.shared.corpus import ROOT
from benchmarks.shared.declare import KILLS, ONLY, SEED, WRITE, Report
from tests import killed
from tests.deploy.projects import n6_project
from tests.deploy.samples import SAMPLES

GROUP = "tools"
ARGUMENTS = (KILLS.but(default=210), ONLY, SEED, WRITE)
DIGITS = ROOT / "examples" / "digits"
MODELS = (DIGITS / "digits.tflite", DIGITS / "digits.onnx")

HEAD = """# Commands that are killed

Each command runs over the folder that another build left, and gets SIGKILL in front of one of its file system calls
below that folder, chosen at random from its first change on (seed {seed}); what lies between two such calls changes no
name. The work before the first change is done once: a process forks there for every kill. Then the folder is read as
`make` would read it, all files but hidden ones. It holds *all old* files, *all new* ones, or it is *without what make
needs*: a C file, the image of an update, the `Cargo.toml` of a layout, `network.c` of a project. While one of these is
there, all files are of one build. Anything else is *a mix*. At last atonc reads the folder, and ends what was begun:
*then* it is the old state or the new one, byte for byte.

| command | calls | kills | all old | all new | without what make needs | a mix | then old or new |
|---|---|---|---|---|---|---|---|
"""
_APP = """[[network]]
name = "one"
model = "{0}"
[[network]]
name = "two"
model = "{1}"
after = "one"
relocatable = "xip"
[network.options]
input_type = "int8"
output_type = "float32"
"""


@dataclass(frozen=True)
class Command:
    title: str
    folder: Path  # that is read
    words: tuple[tuple[str, ...], tuple[str, ...]]  # of the old build, of the new one
    needed: tuple[str, ...]  # endings of names
    ends: Callable[[Path], object] = lambda folder: read_whole(folder, lambda: None)
    apart: str = "-"  # a folder inside that is judged by itself: no make reads both

    def state(self) -> killed.State:
        found = killed.state_of(self.folder)
        return {file: data for file, data in found.items() if not file.endswith(journal.BACKUP)}

    def judged(self, *states: killed.State) -> str:
        """Judges the folder, or the part by itself where that is worse."""
        of_part, of_rest = (self._verdict([self._part(state, inside) for state in states]) for inside in (True, False))
        return of_part if of_part in (killed.WITHOUT, killed.MIX) and of_rest != killed.MIX else of_rest

    def _part(self, state: killed.State, inside: bool) -> killed.State:
        return {file: data for file, data in state.items() if file.startswith(self.apart) == inside}

    def _verdict(self, states: list[killed.State]) -> str:
        found, old, new = states
        return killed.judged(found, old, new, [file for file in {*old, *new} if file.endswith(self.needed)])


def run(arguments: argparse.Namespace) -> Report:
    with tempfile.TemporaryDirectory() as work:
        found = list(_commands(Path(work)))
        chosen = [one for one in found if not arguments.only or any(text in one.title for text in arguments.only)]
        rows, bad = [], 0
        for number, command in enumerate(chosen):
            started, seen = time.perf_counter(), Counter[str]()
            calls = _killed(command, -(-arguments.kills // len(chosen)), random.Random(arguments.seed + number), seen)
            kinds = [seen[kind] for kind in (killed.OLD, killed.NEW, killed.WITHOUT, killed.MIX)]
            bad += seen[killed.MIX] + sum(kinds) - seen["then"]
            cells = (f"`{command.title}`", calls, sum(kinds), *kinds, seen["then"])
            rows.append(f"| {' | '.join(map(str, cells))} |\n")
            print(rows[-1].strip(), f"{time.perf_counter() - started:.0f} s", flush=True)
    return Report(HEAD.format(seed=arguments.seed) + "".join(rows), failed=bool(bad))


def _killed(command: Command, count: int, chooser: random.Random, seen: Counter[str]) -> int:
    """Calls of the new command over the old state, from its first change on; what was seen is counted."""
    kept = command.folder.with_name(command.folder.name + "_kept")
    _quietly(command.words[0])
    old = command.state()
    shutil.copytree(command.folder, kept)
    work = partial(_quietly, command.words[1])
    first, total = killed.calls_of(work, command.folder)
    new = command.state()

    def restore() -> None:
        shutil.rmtree(command.folder)
        shutil.copytree(kept, command.folder)

    def look() -> str:
        found = command.judged(command.state(), old, new)
        command.ends(command.folder)
        return f"{found}, {command.judged(command.state(), old, new)}"

    restore()
    numbers = [chooser.randrange(first, total) for _ in range(count)]
    for line in killed.kill_often(work, command.folder, numbers, restore, look):
        found, _, then = line.partition(", ")
        seen[found] += 1
        seen["then"] += then in (killed.OLD, killed.NEW)
    return total - first


def _quietly(words: tuple[str, ...]) -> None:
    said = StringIO()
    with redirect_stdout(said), redirect_stderr(said):
        code = main(list(words))
    if code:
        raise RuntimeError(f"atonc {' '.join(words)}: {said.getvalue()}")


# ------------------------------------------------------------------------------------------------------------- commands


def _commands(work: Path) -> Iterator[Command]:
    plain = ("--no-verify", "-q")
    out = work / "generate"
    words = [("generate", str(model), "-o", str(out), *plain) for model in MODELS]
    yield Command("generate", out, ((*words[0], "--stai"), words[1]), (".c",))
    out = work / "layout"
    word = ("generate", str(MODELS[0]), "-o", str(out), "--layout", "rust", *plain, "--cut-output-tensors")
    yield Command("generate --layout rust", out, ((*word, "dense"), (*word, "conv3")), (".c", "Cargo.toml"))
    out = work / "image"
    words = [("generate", str(model), "-o", str(out), "-r", "split", *plain) for model in MODELS]
    yield Command("generate -r split", out, (words[0], words[1]), (".c", "_rel.bin"))
    yield _reloc(work, plain)
    yield from _applications(work)
    yield _deploy(work)


def _reloc(work: Path, plain: tuple[str, ...]) -> Command:
    out, sources = work / "reloc", [work / f"source{number}" for number in range(2)]
    for source, model in zip(sources, MODELS, strict=True):
        _quietly(("generate", str(model), "-o", str(source), "-r", *plain))
    words = [("reloc", str(source), "-o", str(out), "--split", "--gen-c-file", "-q") for source in sources]
    return Command("reloc --split --gen-c-file", out, (words[0], words[1]), (".c", "_rel.bin"))


def _applications(work: Path) -> Iterator[Command]:
    files = [work / f"app{number}.toml" for number in range(2)]
    for file, models in zip(files, (MODELS, MODELS[::-1]), strict=True):
        file.write_text(_APP.format(*models))
    out, built = work / "app", work / "built"
    words = [("app", "build", str(file), "-o", str(out), "-q") for file in files]
    yield Command("app build", out, (words[0], words[1]), (".c",))
    _quietly(("app", "build", str(files[0]), "-o", str(built), "-q"))
    out = work / "update"
    words = [("app", "update", str(file), "two", "--built", str(built), "-o", str(out), "-q") for file in files]
    yield Command("app update", out, (words[0], words[1]), ("_rel.bin", "_rel.hex"))


def _deploy(work: Path) -> Command:
    """The folders that `make` reads; what the compiler wrote lies beside them."""
    sample = next(one for one in SAMPLES if one.name == "classification")
    project = n6_project(work / "project")
    other = replace(sample, name="other", text=sample.text.replace("roses", "roses, tulips"), given=((1, 3),))
    configs = [one.write(work, project) for one in (sample, other)]
    words = [("deploy", str(file), "--until", "initialisers", "--no-verify", "-q") for file in configs]
    return Command("deploy", project, (words[0], words[1]), ("/network.c",), journal.recover, "Model/st_ai_output/")
