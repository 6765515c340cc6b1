"""How much RAM do random sets of networks share in one firmware, how slow do they get, and are their bytes the same?

Sets of two to five models of the corpus, drawn at random, for both boards; with nothing that survives, and with outputs
of the first and inputs of the second network that survive the runs of all others. RAM of the plan stands beside its
lower bound and the sum of the networks; time of each network beside that of itself alone, with all RAM of the board and
with the RAM that the plan leaves it. Plans are checked from the generated files (`application/check.py`). Then sets of
small networks run on the virtual board, in random order, RAM poisoned between any two inferences; one network of some
is a relocatable image, which is exchanged for one that rounds otherwise while the firmware runs.
"""

from __future__ import annotations

import argparse
import random
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from atonc.compiler.emit.c.files import files
from atonc.compiler.place.explain import PlacementError
from atonc.compiler.request.options import Options
from atonc.delivery.application import building, planning, updating
from atonc.delivery.application import memory as parts
from atonc.delivery.application.planning import ApplicationPlan, PlannedNetwork, figures
from atonc.delivery.application.read import checked, of_models
from atonc.delivery.application.types import Application, AppNetwork, LoadMode
from atonc.delivery.generate.generating import c_network
from atonc.delivery.trials import applications
from atonc.machine.base.errors import AtoncError, CapacityError
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
GOAL = 1.02  # for the share of RAM
AS_FAST = 1.0005  # for the time: what three digits show as 1.000
_IMAGES = (None, LoadMode.XIP, LoadMode.COPY)  # of the second network, by trial
_COLUMNS = (">set", "board", "networks", ">kept", ">RAM", ">lower bound", ">share", ">sum", ">all RAM", ">same RAM")


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
    """The same set for both boards, and with survivors for one of them."""
    made = []
    for board, survivors in ((BOARDS[0], False), (BOARDS[1], False), (BOARDS[number % 2], True)):
        try:
            asked = of_models(chosen, Options(board=board))
            found = building.planned(_with_survivors(asked) if survivors else asked)
        except AtoncError as error:
            print(f"drawn again: {str(error)[:160]}", flush=True)
            return None
        views = [building.network_view(found, one) for one in found.networks]
        every = {name: data for view in views for name, data in files(c_network(view)).items()}
        building.require_sound(found, building.ApplicationFiles(every, ()))
        made.append(_measured((number, board, ", ".join(model.stem[:24] for model in chosen)), found))
        print(made[-1][0], flush=True)
    return made


def _measured(head: tuple[object, ...], found: ApplicationPlan) -> tuple[str, bool]:
    told = figures(found)
    share = told.ram_bytes / max(1, told.lower_bound_bytes)
    all_ram = max(one.latency_ms / one.alone_ms for one in told.networks)
    same_ram = max(one.compiled.cost.cycles / _same_ram_cycles(found, one) for one in found.networks)
    ram = f"{told.kept_bytes:,}", f"{told.ram_bytes:,}", f"{told.lower_bound_bytes:,}", f"{share:.3f}"
    cells = (*head, *ram, f"{told.ram_sum_bytes:,}", f"{all_ram:.3f}", f"{same_ram:.3f}")
    fine = share <= GOAL and same_ram <= AS_FAST and told.ram_bytes <= told.ram_sum_bytes + told.kept_bytes
    return tables.row(cells), fine


def _same_ram_cycles(found: ApplicationPlan, one: PlannedNetwork) -> int:
    """What the network takes when it has the RAM of the plan to itself, without what must survive it."""
    others = [kept.span for kept in found.kept if kept.network != one.name and one.name in kept.survives]
    room = [piece for span in found.ram for piece in parts.left_of(span, others)]
    source = planning.read_all(replace(found.application, networks=(one.network,)))[0]
    try:
        return planning.compiled_for(source, parts.within(found.memory, room), one.slot).cost.cycles
    except (PlacementError, CapacityError):  # by itself it does not find the layout of the plan
        return one.compiled.cost.cycles


def _tried(number: int, draw: random.Random, small: Sequence[Path], each: int) -> tuple[str, bool]:
    chosen = draw.sample(list(small), 2 + number % 2)
    options = Options(board=BOARDS[number % 2], resident="all" if number else "")
    application = _with_image(_with_survivors(of_models(chosen, options)), _IMAGES[number % len(_IMAGES)])
    second = application.networks[1]
    with tempfile.TemporaryDirectory() as folder:
        built = building.build(application, Path(folder))
        found = [applications.try_application(built, each)]
        if second.relocatable is not None:
            usual = replace(second, options=replace(second.options, numerics=Options().numerics))
            new = updating.update(_with_second(application, usual), second.name, Path(folder), None)
            found.append(applications.try_update(new, each))
    cells = (application.board, ", ".join(model.stem[:28] for model in chosen), f"{built.figures.kept_bytes:,}")
    cells = (*cells, f"{built.figures.resident_bytes:,}", second.relocatable.value if second.relocatable else "-")
    sums = (sum(len(one.order) for one in found), f"{sum(one.bytes_compared for one in found):,}")
    seen = (sum(one.survivors_checked for one in found), sum(one.bytes_different for one in found))
    return tables.row((*cells, *sums, *seen)), all(one.equal for one in found)


def _with_image(application: Application, mode: LoadMode | None) -> Application:
    second = application.networks[1]
    options = second.options
    if mode is not None:  # another rounding than that of the update: it takes more programs, so the update fits
        options = replace(options, relocatable=True, numerics="2.x")
    return _with_second(application, replace(second, relocatable=mode, options=options))


def _with_second(application: Application, second: AppNetwork) -> Application:
    first, _, *rest = application.networks
    return replace(application, networks=(first, second, *rest))


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
            "Random sets of networks that take turns; *kept* are bytes of inputs and outputs that survive the runs of",
            "others. *Share* is the RAM of the plan over its lower bound (the largest sum of live buffers of a network",
            "and of what must survive it); *sum* is what the networks take one beside the other. *All RAM* is the",
            "worst network's predicted time over its own with all RAM of the board to itself, *same RAM* over its own",
            "with the RAM that the plan leaves it. Every plan was checked from the generated files; nothing was found.",
            "",
            *tables.head(*_COLUMNS),
            *rows,
            "",
            f"On the virtual board, {each} inferences of every network in random order; all RAM that need not stay is",
            "filled with noise between any two. Outputs of the first and inputs of the second network survive the runs",
            "of all others, and are looked at again behind each. *Image*: the second network is relocatable, with its",
            "code in flash (xip) or in RAM (copy); it was exchanged for one that rounds otherwise while the firmware",
            "ran, with as many inferences before it and behind.",
            "",
            *tables.head(
                *("board", "networks", ">kept", ">resident", "image"),
                *(">inferences", ">bytes", ">survivors", ">wrong"),
            ),
            *trials,
            "",
        ]
    )
