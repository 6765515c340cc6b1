"""`atonc app build`: all files of an application, checked as a whole, and written together or not at all."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Any

from atonc.compiler.compile import reproduce
from atonc.compiler.compile.compile_view import CompileView, view_of
from atonc.compiler.compile.pipeline import memories
from atonc.compiler.emit.c.memories import by_pool, file_stem, raw_files
from atonc.compiler.request.options import Options
from atonc.delivery.application import check, planning
from atonc.delivery.application import memory as parts
from atonc.delivery.application.figures import ApplicationFigures, figures
from atonc.delivery.application.flash import SlotContents
from atonc.delivery.application.image_place import place_of
from atonc.delivery.application.options import AppOptions
from atonc.delivery.application.plan_types import ApplicationPlan, AppSource, PlannedNetwork, SharedConstants
from atonc.delivery.application.read import SHARED, with_slots_of
from atonc.delivery.application.relocatable import image_board, image_of, require_fits, split_files, with_images
from atonc.delivery.application.residents import with_residents
from atonc.delivery.application.sharing import with_shared_constants
from atonc.delivery.application.types import OWNER, Application, FlashSlot, SharedSlot
from atonc.delivery.application.ways_out import ways_out
from atonc.delivery.application.whole_files import Whole, document, whole_files
from atonc.delivery.generate.generating import c_network, files_of
from atonc.delivery.reloc.image import Image
from atonc.machine.base import progress
from atonc.machine.base.build_folder import write_whole
from atonc.machine.base.checks import CheckResult
from atonc.machine.base.disk import write_files
from atonc.machine.base.errors import CapacityError, ModelError
from atonc.machine.base.file_sets import together
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.board_file import find_board


@dataclass(frozen=True)
class ApplicationFiles:
    """What a build makes of a plan."""

    files: Mapping[str, bytes]  # of the folder
    contents: tuple[SlotContents, ...]  # of the flash
    images: Mapping[str, Image] = field(default_factory=dict)  # of relocatable networks
    inside: Mapping[str, bytes] = field(default_factory=dict)  # what the images were made of: no part of the firmware

    @property
    def all_files(self) -> dict[str, bytes]:
        return {**self.files, **self.inside}


@dataclass(frozen=True)
class BuiltApplication:
    """An application as it was planned and written."""

    plan: ApplicationPlan
    figures: ApplicationFigures
    output: ApplicationFiles = field(repr=False)
    gates: tuple[CheckResult, ...] = ()
    files: tuple[str, ...] = ()  # as they were written
    trial: Mapping[str, Any] | None = None  # what the virtual board showed, if it was asked

    @property
    def notes(self) -> tuple[str, ...]:
        """What the build is good for only if somebody knows it."""
        load = self.figures.load
        more = f"the networks would run {100 * load:.0f} % of the time as often as the file asks: they run less often"
        return (f"{more}; lower per_second, or --max-load 100 refuses such a build",) if load > 1 else ()

    def as_dict(self) -> dict[str, Any]:
        return document(self.plan, self.figures, self.output.contents) | {
            "gates": [gate.says for gate in self.gates if not gate.holds],
            "notes": list(self.notes),
            "files": list(self.files),
            "trial": self.trial,
        }


def build(application: Application, folder: Path | None, options: AppOptions | None = None) -> BuiltApplication:
    """Plans, verifies, checks; writes the files unless a gate does not hold. Without a folder nothing is written."""
    options = options or AppOptions()
    if options.keep_slots is not None:
        application = with_slots_of(application, options.keep_slots)
    found = planning.verify_all(planned(application))
    told = figures(found)
    gates = _gates(told, options)
    made = files_of_application(found, told, options)
    require_sound(found, made)
    written: Sequence[Path] = ()
    if folder is not None and all(gate.holds for gate in gates):
        written = write_whole(folder, made.files, OWNER)
    return BuiltApplication(found, told, made, gates, tuple(map(str, written)))


def planned(application: Application) -> ApplicationPlan:
    """Where it does not fit, the error has the ways out, each of which is planned too."""
    application, sources = read_with_room(application)
    try:
        return planned_from(application, sources)
    except CapacityError as error:
        error.details = tuple(ways_out(application, sources))
        raise


def read_with_room(application: Application) -> tuple[Application, list[AppSource]]:
    """Networks as they were read, and room for the images of those that are relocatable."""
    return with_images(application, planning.read_all(application))


def planned_from(application: Application, sources: Sequence[AppSource]) -> ApplicationPlan:
    """Shared memory first, then weights in what it leaves free."""
    return with_shared_constants(with_residents(planning.plan(application, sources), sources), sources)


def _gates(told: ApplicationFigures, options: AppOptions) -> tuple[CheckResult, ...]:
    load = 100 * told.load
    says = f"the networks run {load:.1f} % of the time, --max-load allows {options.max_load:g} %"
    return (CheckResult("--max-load", load <= options.max_load, says),) if options.max_load else ()


# --------------------------------------------------------------------------------------------------------------- files


def files_of_application(found: ApplicationPlan, told: ApplicationFigures, options: AppOptions) -> ApplicationFiles:
    made: list[tuple[str, Mapping[str, bytes]]] = []
    inside: dict[str, bytes] = {}
    images: dict[str, Image] = {}
    contents = []
    for one in found.networks:
        with progress.part(f"network {one.name}"):
            view = network_view(found, one)
            if one.network.relocatable is not None:
                image = images[one.name] = image_of(view)
                require_fits(one.network, image, one.slot, place_of(found, one).exec_ram)
                told_files, sources = split_files(files_of(view), one.name, image)
                made.append((f"network {one.name!r}", told_files))
                inside = together([("another network", inside), (f"the image of {one.name!r}", sources)])
                contents.append(SlotContents(one.slot, image.data))
            else:
                made.append((f"network {one.name!r}", files_of(view, with_stai=options.stai)))
                contents.append(SlotContents(one.slot, _constants(view, one.slot.start)))
    contents += [SlotContents(FlashSlot(name, one.start, one.end), one.data) for name, one in shared_parts(found)]
    files = together([("the application", whole_files(Whole(found, told, contents))), *made])
    return ApplicationFiles(files, tuple(contents), images, inside)


def network_view(found: ApplicationPlan, one: PlannedNetwork) -> CompileView:
    """For its files: with the memories of the board under their own names, and its slot of the flash."""
    network = one.network
    if network.relocatable is not None:
        board = image_board(network.options.board, place_of(found, one))
    else:
        board = parts.with_flash(memories(Options(board=network.options.board)), one.slot.start, one.slot.end)
    if shared := [part for part in found.shared if one.name in part.networks]:
        board = parts.with_shared(board, [(part.start, part.end) for part in shared], one.compiled.memory.constants_at)
    view = view_of(one.compiled, network.model, network.options, one.name)
    command = f"atonc app build, network {one.name}; alone: {reproduce.command(view.model, network.options, one.name)}"
    return replace(view, board=board, reproduce={**view.reproduce, "command": command})


def _constants(view: CompileView, start: int) -> bytes:
    """The bytes of its slot; what it shares with others is in the files of each."""
    network = c_network(view)
    names = {pool.base: f"{file_stem(network, pool)}.raw" for pool in by_pool(network)}
    memory = view.compiled.memory
    if set(names) - {start, *(pool.base for pool in memory.pools if memory.is_filled(pool))}:
        raise ModelError("constants in several memories", where=f"network {view.name}", rule="they lie in one slot")
    return raw_files(network)[names[start]] if start in names else b""


def shared_parts(found: ApplicationPlan) -> Iterator[tuple[str, SharedConstants]]:
    """Parts of the flash that several networks read, with names for C."""
    yield from ((f"{SHARED}_{number}", one) for number, one in enumerate(found.shared, 1))


def require_sound(found: ApplicationPlan, made: ApplicationFiles) -> None:
    """What the files say is held against what the application asks for."""
    progress.stage("checking the plan")
    board = find_board(found.application.board)
    with tempfile.TemporaryDirectory(prefix="atonc_") as folder:
        write_files(Path(folder), made.all_files)
        touched = [check.touched_by(Path(folder), one.name, board, made.images.get(one.name)) for one in found.networks]
    slots = [one.slot for one in found.networks]
    shared = [SharedSlot(one.networks, one.start, one.end) for one in found.shared]
    check.require_sound(check.check(found.application, slots, touched, board, shared))
