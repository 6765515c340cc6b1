"""Writers that are killed, and writers at the same time: every reader sees one whole build.

Two different builds of the digits network are written into one folder again and again. `tests/unlucky_writers.py` does
the work.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from atonc.compiler.request.options import Options
from atonc.delivery.generate import generating
from atonc.machine.base import build_folder
from benchmarks.shared.corpus import ROOT
from benchmarks.shared.declare import KILLS, SEED, WRITE, Report, argument
from tests import unlucky_writers as unlucky

GROUP = "tools"
ARGUMENTS = (
    KILLS.but(default=200),
    argument("--pairs", type=int, default=60),
    SEED,
    argument("--folder", type=Path, metavar="DIR", help="where, instead of the place for temporary files"),
    WRITE,
)

HEAD = """# Writers that are killed, and writers at the same time

Two builds of different models (13 and 15 files, the longer one with `--stai`) go into one folder again and again.
*Kills*: SIGKILL at a random moment of writing; *pairs*: two processes that write five builds each at the same time, and
a reader that reads all the while. The reader runs the network on the emulator, and then makes the picture that `view`,
`explain` and `compare` show: two readings. Each saw the first build, or the second one, or something else (a mix, an
error, nothing).

| what | times | readings | first build | second build | something else |
|---|---|---|---|---|---|
"""
DIED = "\nThe killed writers died {}.\n"


def builds() -> list[unlucky.Build]:
    folder = ROOT / "examples" / "digits"
    models = (folder / "digits.tflite", False), (folder / "digits.onnx", True)
    views = [(generating.analyze(model, Options(verify=False)), stai) for model, stai in models]
    return [dict(generating.files_of(view, with_stai=stai)) for view, stai in views]


def run(arguments: argparse.Namespace) -> Report:
    made = builds()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as temporary:
        home = Path(temporary)
        known = {}
        for number, build in enumerate(made):
            build_folder.write_whole(home / str(number), build, unlucky.NAME)
            known |= dict.fromkeys(unlucky.real_readings(home / str(number)), number)
        assert len(known) == 2 * len(made)
        target = home / "out"
        build_folder.write_whole(target, made[0], unlucky.NAME)
        rows, died = [], Counter[str]()
        read = unlucky.real_readings
        for what, times, work in (
            ("kills", arguments.kills, lambda: unlucky.kills(target, made, arguments.kills, arguments.seed, read)),
            ("pairs", arguments.pairs, lambda: unlucky.pairs(target, made, arguments.pairs, 5, read)),
        ):
            started = time.perf_counter()
            seen = work()
            died += Counter({key: seen.pop(key, 0) for key in (unlucky.BEFORE, unlucky.BEHIND, unlucky.BETWEEN)})
            rows.append((what, times, counts(seen, known)))
            strange = [key for key in seen if key not in known]
            print(rows[-1], f"{time.perf_counter() - started:.0f} s", strange, flush=True)
    lines = [f"| {what} | {times} | {sum(c)} | {' | '.join(map(str, c))} |\n" for what, times, c in rows]
    where = ", ".join(f"{count} {moment}" for moment, count in died.items())
    page = HEAD + "".join(lines) + DIED.format(where)
    return Report(page, failed=any(found[2] for _, _, found in rows))


def counts(seen: Mapping[str, int], known: Mapping[str, int]) -> tuple[int, int, int]:
    found = [0, 0, 0]
    for key, count in seen.items():
        found[known.get(key, 2)] += count
    return found[0], found[1], found[2]
