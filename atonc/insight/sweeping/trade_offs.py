"""How much time RAM buys one model: `atonc analyze --pareto`.

The search with two objectives gives every program that no other beats in both. Each is finished as any other program
is, and its decisions are saved: `generate --decisions FILE` builds it again.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from atonc.compiler.compile.compile_view import view_of
from atonc.compiler.compile.pipeline import Compiled, compile_front
from atonc.compiler.request.options import Options
from atonc.compiler.search.saved import KEY, as_json
from atonc.insight.sweeping.row import figures_of
from atonc.insight.sweeping.run import Sweep, SweepResult
from atonc.machine.base.disk import write_file
from atonc.machine.base.errors import plain


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
