"""How much RAM do random sets of networks share in one firmware, how slow do they get, and are their bytes the same?

Sets of two to five models of the corpus, drawn at random, for both boards. RAM of the plan stands beside its lower
bound and the sum of the networks; time of each network beside that of itself alone with all RAM of the board. Plans are
checked from the generated files (`application/check.py`). Then sets of small networks run on the virtual board, in
random order, RAM poisoned between any two inferences.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from atonc.compiler.emit.c.files import files
from atonc.compiler.request.options import Options
from atonc.delivery.application import building
from atonc.delivery.application.figures import ApplicationFigures, figures
from atonc.delivery.application.read import checked, of_models
from atonc.delivery.application.types import Application
from atonc.delivery.generate.generating import c_network
from atonc.delivery.trials import app_running
from atonc.machine.base.errors import AtoncError
from benchmarks.shared import tables
from benchmarks.shared.corpus import ON_THE_BOARD, corpus_dir, models_in
from benchmarks.shared.declare import COUNT, INPUTS, SEED, WRITE, Report, argument

GROUP = "board"
ARGUMENTS = (
    COUNT.but(default=10),
    SEED,
    INPUTS.but(default=50, help="inferences of every network on the virtual board"),
    argument("--trials", type=int, default=3, help="sets of small networks that run there"),
    WRITE,
)
BOARDS = ("stm32n6570-dk", "nucleo-n657x0-q")
MOST_BYTES = 1_200_000  # of a model: the search takes minutes for larger ones
GOAL = 1.02  # for the share of RAM and for the time


def run(arguments: argparse.Namespace) -> Report:
    draw = random.Random(arguments.seed)
    found = models_in(corpus_dir() / "models")
    rows, trials, failed = list[str](), list[str](), 0
    for number in range(arguments.trials):
        row, good = _tried(number, draw, [path for path in found if path.name in ON_THE_BOARD], arguments.inputs)
        trials.append(row)
        failed += not good
        print(row, flush=True)
    small = [path for path in found if path.stat().st_size <= MOST_BYTES]
    for number in range(arguments.count):
        made = None
        while made is None:  # models that are not quantised, or that a board cannot run alone, are drawn again
            made = _planned(number + 1, draw.sample(small, 2 + number % 4))
        rows += [row for row, _ in made]
        failed += sum(not good for _, good in made)
    return Report(_page(rows, trials, arguments.inputs), failed > 0)


def _planned(number: int, chosen: Sequence[Path]) -> list[tuple[str, bool]] | None:
    """The same set for both boards."""
    made = []
    for board in BOARDS:
        try:
            found = building.planned(of_models(chosen, Options(board=board)))
        except AtoncError as error:
            print(f"drawn again: {str(error)[:160]}", flush=True)
            return None
        views = [building.network_view(one) for one in found.networks]
        building.require_sound(found, {name: data for view in views for name, data in files(c_network(view)).items()})
        told = figures(found)
        share, slower = _ratios(told)
        cells = (number, board, ", ".join(model.stem[:24] for model in chosen), f"{told.ram_bytes:,}")
        cells = (*cells, f"{told.lower_bound_bytes:,}", f"{share:.3f}", f"{told.ram_sum_bytes:,}", f"{slower:.3f}")
        fine = share <= GOAL and slower <= GOAL and told.ram_bytes <= told.ram_sum_bytes
        made.append((tables.row(cells), fine))
        print(made[-1][0], flush=True)
    return made


def _ratios(told: ApplicationFigures) -> tuple[float, float]:
    slower = max(one.latency_ms / one.alone_ms for one in told.networks)
    return told.ram_bytes / max(1, told.lower_bound_bytes), slower


def _tried(number: int, draw: random.Random, small: Sequence[Path], each: int) -> tuple[str, bool]:
    chosen = draw.sample(list(small), 2 + number % 2)
    options = Options(board=BOARDS[number % 2], resident="all" if number else "")
    application = _with_survivors(of_models(chosen, options))
    built = building.build(application, None)
    found = app_running.try_application(built, each)
    cells = (application.board, ", ".join(model.stem[:28] for model in chosen), f"{built.figures.kept_bytes:,}")
    cells = (*cells, f"{built.figures.resident_bytes:,}", len(found.order), f"{found.bytes_compared:,}")
    return tables.row((*cells, found.survivors_checked, found.bytes_different)), found.equal


def _with_survivors(application: Application) -> Application:
    """The first network's outputs are read, and the second one's inputs filled, while all others run."""
    first, second, *rest = application.networks
    networks = (replace(first, outputs_survive=("all",)), replace(second, inputs_survive=("all",)), *rest)
    return checked(replace(application, networks=networks))


def _page(rows: Sequence[str], trials: Sequence[str], each: int) -> str:
    return "\n".join(
        [
            "# Several networks in one firmware",
            "",
            "Random sets of networks that take turns. *Share* is the RAM of the plan over its lower bound (the largest",
            "sum of live buffers of any network); *sum* is what the networks take one beside the other; *slower*",
            "is the worst network's predicted time over its own with all RAM of the board to itself. Every plan was",
            "checked from the generated files, and nothing was found.",
            "",
            *tables.head(">set", "board", "networks", ">RAM", ">lower bound", ">share", ">sum", ">slower"),
            *rows,
            "",
            f"On the virtual board, {each} inferences of every network in random order; all RAM that need not stay is",
            "filled with noise between any two. Outputs of the first and inputs of the second network survive the runs",
            "of all others, and are looked at again behind each.",
            "",
            *tables.head("board", "networks", ">kept", ">resident", ">inferences", ">bytes", ">survivors", ">wrong"),
            *trials,
            "",
        ]
    )
