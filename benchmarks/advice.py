"""Whether the first advice pays: every single option is tried, and what `explain` and `generate` advise is followed.

For each model all single options are compiled, also those that the tool does not offer. The first line of `explain` and
the last of `generate` are followed as a user would, by their command; both should bring at least 90 % of what the best
option brings, and what they promise should be within 2 % of what comes of it. Where the best option brings less than
0.5 % (`generate`: 5 %) nothing has to be said; a time that is promised as "at most" may be undercut. `--prefer memory`
is tried where activations lie outside the chip. The smallest models come first.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from atonc.compiler.compile import reproduce
from atonc.compiler.compile.compile_view import CompileView, analyze
from atonc.compiler.compile.pipeline import compile_file
from atonc.compiler.request.options import Options
from atonc.compiler.schedule.passes import ON_REQUEST, PASSES
from atonc.doors.cli.cli import parse
from atonc.doors.verbs.compiling import compiler_options, model_path
from atonc.insight.explain.actions import ACTIONS, Subject, TriedOption, offered, quick, ranked, tried
from atonc.machine.base.errors import AtoncError
from benchmarks.shared.corpus import corpus_dir
from benchmarks.shared.declare import COUNT, KEEP, SECONDS, WRITE, Report, argument
from benchmarks.shared.kept import Kept, Record
from benchmarks.shared.tables import in_a_cell, short, table

GROUP = "truth"
MORE = argument("--more", nargs="+", type=Path, default=(), metavar="DIR", help="also the models in these folders")
ARGUMENTS = (COUNT.but(default=60, help="models, the smallest first"), MORE, KEEP, SECONDS, WRITE)
ENOUGH, EXACT, NOTHING = 0.9, 0.02, 0.005  # of the best gain; of the time; of the time that is not worth an option

# what the tool does not offer, or only where it applies
OTHERS: tuple[dict[str, Any], ...] = (
    *({"schedule_with": (name,)} for name in ON_REQUEST),
    *({"schedule_without": (name,)} for name in PASSES),
    *({"input_type": kind} for kind in ("int8", "uint8")),
    {"output_type": "int8"},
    {"allow_coarse": 256.0},
    {"inputs_channel_position": "chlast"},
    {"outputs_channel_position": "chlast"},
    {"inputs_allocation": False},
    {"outputs_allocation": False},
    {"allow_unproven": True},
    {"numerics": "2.x"},
    {"no_npu": True},
    {"epoch_controller": False},
)


def measured(model: Path) -> Record:
    options = Options(verify=False)
    try:
        view = analyze(model, options)
    except AtoncError as error:
        return {"error": str(error)[:200]}
    found = every(view)
    best = max(found, key=lambda one: one.gain, default=None)
    advised = ranked(one for one in found if one.action in ACTIONS)
    first, last = next(iter(advised), None), next(iter(quick(view)), None)
    return {
        "ms": view.cost.latency_ms,
        "tried": len(found),
        "best": [best.flags, best.gain] if best else ["", 0.0],
        "explain": followed(first, view),
        "generate": followed(last, view),
    }


def every(view: CompileView) -> list[TriedOption]:
    """All single options, those that are offered first."""
    subject, other = Subject.of(view), replace(ACTIONS[0])
    wanted = offered(subject)
    known = [options for _, options in wanted]
    for changes in OTHERS:
        options = replace(view.options, **changes)
        if options not in known:
            wanted.append((replace(other, otherwise="not offered"), options))
    return [tried(subject, action, options, verify=False)[0] for action, options in wanted]


def followed(advice: TriedOption | None, view: CompileView) -> Record:
    """The option, the part of the time that it promised, and the part that it brought."""
    if advice is None:
        return {"option": "", "promised": 0.0, "brought": 0.0}
    words = parse(shlex.split(advice.command)[1:])
    found = compile_file(model_path(words), compiler_options(words))
    brought = 1 - found.cost.latency_ms / view.cost.latency_ms
    flags = reproduce.changes(view.options, advice.options)
    return {"option": flags, "promised": advice.gain, "brought": brought, "at_most": advice.after.at_most}


def pays(record: Record, who: str) -> bool:
    """`generate` says nothing where less than a twentieth is to be had."""
    best, one = record["best"][1], record[who]
    least = NOTHING if who == "explain" else 0.05
    return bool(best <= least or one["brought"] >= ENOUGH * best)


def is_true(record: Record, who: str) -> bool:
    """A time that is promised as an upper bound may be undercut."""
    one = record[who]
    apart = (1 - one["brought"]) / max(1e-9, 1 - one["promised"]) - 1
    return bool(apart <= EXACT and (apart >= -EXACT or one.get("at_most")))


def cases(arguments: argparse.Namespace) -> list[Path]:
    folders = (corpus_dir() / "models", *arguments.more)
    models = [path for folder in folders for kind in ("*.tflite", "*.onnx") for path in folder.rglob(kind)]
    unique = {(path.name, path.stat().st_size): path for path in reversed(models)}
    return sorted(unique.values(), key=lambda path: (path.stat().st_size, path.name))[: arguments.count]


def rows(found: dict[str, Record]) -> Iterator[tuple[object, ...]]:
    for name, one in found.items():
        cells: list[object] = [in_a_cell(short(name, 44)), f"{one['ms']:.3f}", one["tried"]]
        cells += [f"`{in_a_cell(one['best'][0], 60)}`", f"{100 * one['best'][1]:.1f} %"]
        for who in ("explain", "generate"):
            told = one[who]
            same = "the same" if told["option"] == one["best"][0] else f"`{in_a_cell(told['option'], 60)}`"
            cells += [same if told["option"] else "none", f"{100 * told['brought']:.1f} %"]
            cells.append("" if pays(one, who) and is_true(one, who) else "missed")
        yield tuple(cells)


def run(arguments: argparse.Namespace) -> Report:
    kept, found = Kept(arguments.keep), dict[str, Record]()
    from time import monotonic

    end = monotonic() + arguments.seconds
    for model in cases(arguments):
        if model.name in kept or monotonic() < end:
            found[model.name] = kept.of(model.name, partial(measured, model))
    good = {name: one for name, one in found.items() if "error" not in one}
    lines = ["# Whether the first advice pays", "", (__doc__ or "").partition("\n\n")[2].strip(), ""]
    failed = False
    for who, what in (("explain", "the first line of `explain`"), ("generate", "the last line of `generate`")):
        paid, exact = (sum(test(one, who) for one in good.values()) for test in (pays, is_true))
        lines.append(f"- {what}: {paid} of {len(good)} bring 90 % of the best option, {exact} promise within 2 %")
        failed |= paid < len(good) or exact < len(good)
    lines += [f"- {len(found) - len(good)} of {len(found)} models are refused by the compiler", ""]
    lines += table(
        ("model", ">ms", ">options", "best option", ">gain", "explain", ">brings", "", "generate", ">brings", ""),
        rows(good),
    )
    return Report("\n".join(lines), failed=failed)
