"""What the words of epoch-controller programs are for, beside those of another commit.

Words of this tree: `--save FILE`; of another commit: the same with `--tree` at a checkout of it, and then
`--before FILE --after FILE` makes the page from both.
"""

from __future__ import annotations

import argparse
import importlib
from collections import Counter
from pathlib import Path
from typing import Any

from atonc.compiler.compile.pipeline import compile_file
from atonc.compiler.request.options import Options
from atonc.machine.hw.ec.instructions import encode, merge_writes
from benchmarks.shared.corpus import chosen
from benchmarks.shared.declare import BEFORE, MODEL_FILES, ONLY, SAVE, WRITE, Report, argument
from benchmarks.shared.kept import read, write

FEW = (  # single layers, and some small networks
    "baseline_conv2d", "mnist_int8", "fomo_face", "person_detect", "mobilenet_v1_0.25_96_tfs", "resnet_v1_8",
    "pretrainedResnet", "xinet", "pose_coco", "nano_320", "nano_480_1.0_0.25_3_st", "deeplabv3_mnv2",
)  # fmt: skip
GROUP = "speed"
ARGUMENTS = (
    MODEL_FILES,
    ONLY.but(default=FEW),
    SAVE,
    BEFORE,
    argument("--after", type=Path, metavar="FILE", help="the counts to compare with those of --before"),
    WRITE,
)

KINDS = ("STRENG", "CONVACC", "ARITH", "POOL", "ACTIV")
UNITS, TABLES = "units", "tables"
COLUMNS = (*(f"configure {kind}" for kind in KINDS), TABLES, "wire and unwire", "start and wait", "release", "begin")
HEAD = """# What the words of programs are for

Before: commit 7616abc, which had no lanes.
*units*: those that all epochs configure together; *tables*: rows of coefficients and functions; *words a unit*:
without tables; every column: before > after.

A unit takes no more words than before. Programs are longer where lanes configure more units: each has registers of its
own (units have no common address), is started, waited for and released (11 words, as every published program does:
clear, reset, clock off), and a lane of rows loads the whole table into its ARITH. Keeping registers over epochs would
spare part of it; no published program does, and none keeps tables ([kept tables](kept_tables.md)). ST's own programs
take 35 to 37 words a unit without tables, in every release from 2.0 to 4.0.

The words are part of the price by which lanes are chosen: an epoch takes them into its cycles, so a lane that saves
less than its words cost is not taken. Dearer words (9 or 12 cycles in the choice of forms instead of 7) changed one of
16 small networks: 6 % fewer words, 2.4 % more time. What large bands of stripes save is in [stripes](stripes.md).

"""

Counts = dict[str, int]


def phases() -> Any:
    """The parts of an epoch; the module moved."""
    for name in ("atonc.machine.hw.ec.ec_program", "atonc.compiler.emit.ec_program"):
        try:
            return importlib.import_module(name).epoch_phases
        except ModuleNotFoundError:
            continue
    raise SystemExit("no epoch_phases in this tree")


def count(model: Path) -> Counts:
    compiled = compile_file(model, Options(verify=False))
    found = Counter[str]()
    for epoch in compiled.program.epochs:
        found[UNITS] += len(epoch.units)
        for what, instructions in phases()(epoch):
            for instruction in merge_writes(instructions):
                found[_column(what, instruction)] += len(encode([instruction]))
    return dict(found)


def _column(what: str, instruction: Any) -> str:
    verb, _, rest = what.partition(" ")
    if verb == "configure":
        table = getattr(instruction, "reg", 0) >= 256 and not rest.startswith("STRENG")
        return TABLES if table else f"configure {rest.rstrip('0123456789')}"
    return next((column for column in COLUMNS if verb in column.split()), verb)


def words(counts: Counts) -> int:
    return sum(number for column, number in counts.items() if column != UNITS)


def table(before: dict[str, Counts], after: dict[str, Counts]) -> str:
    names = [name for name in after if name in before]
    shown = [c for c in COLUMNS if any(counts[n].get(c) for counts in (before, after) for n in names)]
    head = f"| model | units | words | ratio | words a unit | {' | '.join(shown)} |"
    lines = [head, "|---" + "|---:" * (4 + len(shown)) + "|"]
    for name in names:
        old, new = before[name], after[name]
        each = " > ".join(f"{(words(one) - one.get(TABLES, 0)) / one[UNITS]:.1f}" for one in (old, new))
        own = " | ".join(f"{old.get(c, 0):,} > {new.get(c, 0):,}" for c in shown)
        both = f"{old[UNITS]} > {new[UNITS]} | {words(old):,} > {words(new):,} | {words(new) / words(old):.2f}"
        lines.append(f"| {name} | {both} | {each} | {own} |")
    return "\n".join(lines) + "\n"


def run(arguments: argparse.Namespace) -> Report:
    if arguments.save:
        write(arguments.save, {model.name: count(model) for model in chosen(arguments)})
        return Report()
    return Report(HEAD + table(read(arguments.before), read(arguments.after)))
