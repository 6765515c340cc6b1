"""One row: a model compiled for a board. A pure function of files and options, so it can be kept and done anywhere.

`pareto`: how much time RAM buys one model (`atonc analyze --pareto`). The search with two objectives gives every
program that no other beats in both. Each is finished as any other program is, and its decisions are saved:
`generate --decisions FILE` builds it again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from atonc.compiler.compile.compile_view import CompileView, view_of
from atonc.compiler.compile.pipeline import Compiled, compile_front
from atonc.compiler.frontends.custom_file import custom_files
from atonc.compiler.request.options import Options
from atonc.compiler.search.saved import KEY, as_json
from atonc.insight.sweeping.plan import SweepPlan, SweepRow, compiler_options
from atonc.insight.sweeping.run import Sweep, SweepResult
from atonc.insight.workers import WorkUnit
from atonc.machine.base.disk import read_text, write_file
from atonc.machine.base.errors import AtoncError, InternalError, plain
from atonc.machine.hw.board import MAX_BYTES, parse_toml

FUNCTION = "atonc.insight.sweeping.row:compute"
MOST_BOARD_FILES = 8
_FILES = ("mpool", "evidence")  # options that name one


def unit_of(plan: SweepPlan, row: SweepRow) -> WorkUnit:
    """Every file that takes part by its place in `files`, so that the result does not depend on where it lies."""
    files, options = [row.model], dict[str, Any](row.options)
    names: dict[str, Any] = {"options": options, "size": row.size, "verify": plan.verify}
    names |= add_board(row.board, files)
    for option in _FILES:
        if options.get(option):
            names[f"{option}_file"] = len(files)
            files.append(Path(options.pop(option)))
    files += custom_files(str(options.get("custom", "")))  # what they hold counts, too
    if plan.estimate:
        names["estimate"] = True
    if plan.accuracy:
        names |= {"accuracy": True, "samples": plan.samples}
        for key, file in (("float_file", plan.float_model), ("inputs_file", plan.inputs)):
            if file is not None:
                names[key] = len(files)
                files.append(file)
    title = " ".join(filter(None, (row.model.name, row.size, Path(row.board).name)))
    return WorkUnit(title, tuple(files), names)


def add_board(board: str, files: list[Path]) -> dict[str, Any]:
    """What a unit says of its board; the board's own files are put to the others."""
    if not board.endswith(".toml"):
        return {"board": board}
    choice, at, place = board.rpartition("@")
    number = len(files)
    files += _board_files(Path(place))
    return {"board": f"{choice}{at}", "board_file": number}


def board_of(unit: WorkUnit) -> str:
    given = unit.options
    return str(given["board"]) + (str(unit.files[given["board_file"]]) if "board_file" in given else "")


def _board_files(file: Path) -> list[Path]:
    """The file of a board and those that it is based on: the result depends on all of them."""
    found = [file]
    while len(found) <= MOST_BOARD_FILES:
        base = parse_toml(read_text(found[-1], MAX_BYTES), str(found[-1])).data.get("based_on")
        if not isinstance(base, str) or not base.endswith(".toml"):
            break
        found.append(found[-1].parent / base)
    return found


def compute(unit: WorkUnit) -> bytes:
    return figures_or_reason(unit, _figures)


def figures_or_reason(unit: WorkUnit, measure: Callable[[WorkUnit], dict[str, Any]]) -> bytes:
    """Figures, or the reason why there are none: what is refused is a result too."""
    try:
        found: dict[str, Any] = {"figures": measure(unit)}
    except InternalError:
        raise
    except AtoncError as error:
        found = {"refused": error.as_dict()}
    text = json.dumps(found, sort_keys=True)
    for file in unit.files:  # the same wherever the files are
        text = text.replace(json.dumps(str(file))[1:-1], json.dumps(file.name)[1:-1])
    text = text.replace(json.dumps(os.path.join(unit.files[0].parent, ""))[1:-1], "")
    return text.encode()


def _figures(unit: WorkUnit) -> dict[str, Any]:
    from atonc.compiler.compile.compile_view import analyze

    options = _options(unit)
    if unit.options.get("estimate"):
        from atonc.insight.estimating.estimate import estimate

        return estimate(unit.files[0], options).as_figures()
    view = analyze(unit.files[0], options)
    figures = figures_of(view)
    if unit.options.get("accuracy"):
        figures["outputs_db"] = _quality(unit, options, view.compiled)
    return figures


def figures_of(view: CompileView) -> dict[str, Any]:
    from atonc.insight.explain.ours import network_view

    compiled, cost, limit = view.compiled, view.cost, network_view(view).limit
    near = {"times_practical": limit.times_practical, "times_absolute": limit.times_absolute} if limit else {}
    return {
        "latency_ms": cost.latency_ms,
        **cost.band.as_data(cost.latency_ms),
        "energy_uj": cost.energy.uj.likely,
        "cpu_ms": cost.cpu_ms,
        "cycles": cost.cycles,
        "macs": view.macs,
        **near,
        **view.memory.as_dict(),
        "cpu_layers": len(compiled.choices.reasons),
        "verified": None if compiled.report is None else True,  # what fails is refused
        "notes": list(compiled.source.notes),
    }


def _options(unit: WorkUnit) -> Options:
    given, files = unit.options, unit.files
    options = compiler_options(SweepRow(files[0], board_of(unit), given["size"], given["options"]), given["verify"])
    places = {option: given[f"{option}_file"] for option in _FILES if f"{option}_file" in given}
    named: dict[str, Any] = {option: str(files[place]) for option, place in places.items()}
    return replace(options, **named)


def _quality(unit: WorkUnit, options: Options, compiled: Any) -> float:
    """Signal to noise of the outputs on the NPU against float, in dB; 300 where nothing is lost."""
    from math import isfinite

    from atonc.insight.accuracy.explain import outputs_db

    given, files = unit.options, unit.files
    original = files[given["float_file"]] if "float_file" in given else None
    inputs = [files[given["inputs_file"]]] if "inputs_file" in given else []
    found = outputs_db(compiled, original, inputs, given["samples"])
    return found if isfinite(found) else 300.0 if found > 0 else -300.0


def pareto(model: Path, asked: Options, folder: Path) -> Sweep:
    """By RAM. `folder`: for the decisions of each program."""
    found = compile_front(model, asked)
    folder.mkdir(parents=True, exist_ok=True)
    results = []
    for number, compiled in enumerate(found, 1):
        file = folder / f"{number}.json"
        write_file(file, (json.dumps({KEY: as_json(compiled.decisions)}, indent=1) + "\n").encode())
        options, figures = {KEY: f"{folder.name}/{file.name}"}, figures_of(view_of(compiled, model, asked))
        results.append(SweepResult(plain(model.name), asked.board, "", options, figures, on_front=True))
    return Sweep(str(model), tuple(results), (KEY,), False, 0, _notes(found))


def _notes(found: Sequence[Compiled]) -> tuple[str, ...]:
    tried = len(found[0].search)
    return (f"{tried} programs were built; `atonc generate MODEL --decisions FILE` builds one of these again",)
