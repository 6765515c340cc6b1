"""`atonc app build`: all files of an application, checked as a whole, and written together or not at all. Where it does
not fit, every single change is tried, and told with what it costs."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Any

from atonc.compiler.compile import reproduce
from atonc.compiler.compile.compile_view import CompileView, view_of
from atonc.compiler.compile.pipeline import memories
from atonc.compiler.emit import write
from atonc.compiler.emit.c.memories import PoolRange, by_pool, file_stem, hex_lines, raw_files
from atonc.compiler.request.options import Options
from atonc.delivery.application import c_text, check, page, planning
from atonc.delivery.application import memory as parts
from atonc.delivery.application.planning import (
    ApplicationFigures,
    ApplicationPlan,
    AppSource,
    PlannedNetwork,
    figures,
    plan,
    with_residents,
    with_shared_constants,
)
from atonc.delivery.application.read import MAP_FORMAT, SHARED, slots_rows, with_slots_of
from atonc.delivery.application.relocatable import (
    image_board,
    image_of,
    place_of,
    places,
    require_fits,
    split_files,
    with_images,
)
from atonc.delivery.application.types import (
    OWNER,
    Application,
    AppOptions,
    FlashSlot,
    SharedSlot,
    SlotContents,
    WholeFile,
)
from atonc.delivery.generate.generating import c_network, files_of
from atonc.delivery.reloc.image import Image
from atonc.machine.base import progress
from atonc.machine.base.about import __version__
from atonc.machine.base.build_folder import write_whole
from atonc.machine.base.disk import together, write_files
from atonc.machine.base.errors import AtoncError, CapacityError, ModelError
from atonc.machine.base.frozen import brief, dataclass
from atonc.machine.base.reasons import CheckResult
from atonc.machine.base.words import size_text
from atonc.machine.hw.board import DEFAULT_SET, find_board, split_choice
from atonc.machine.hw.mpool import MemoryPool

_MOST = 12  # ways that are tried: each is a plan of its own
_LARGER_SET = "intram35mb"  # of the boards that ship: half a megabyte more on the chip


def ways_out(application: Application, sources: Sequence[AppSource]) -> Iterator[str]:
    """A line for every single change with which all networks fit; the fastest first."""
    found: list[tuple[float, str]] = []
    tried = 0
    for change, other in _changes(application):
        if tried == _MOST:
            break
        tried += 1
        try:
            told = figures(plan(other, [replace(one, network=other.network(one.name)) for one in sources]))
        except AtoncError:
            continue
        load = f"{100 * told.load:.1f} % of the time, RAM {size_text(told.ram_bytes)}"
        found.append((told.load, f"  fits: {change} ({load})"))
    yield f"{tried} single changes were tried:" if tried else "nothing to leave out was found"
    yield from (line for _, line in sorted(found))
    if tried and not found:
        yield "  none of them is enough: take fewer or smaller networks, or a board with more RAM"


def _changes(application: Application) -> Iterator[tuple[str, Application]]:
    for one in application.networks:
        if one.inputs_survive:
            less = application.with_network(replace(one, inputs_survive=()))
            yield f"inputs of {one.name} need not survive", less
        if one.outputs_survive:
            less = application.with_network(replace(one, outputs_survive=()))
            yield f'outputs of {one.name} need not survive (outputs_survive = "none")', less
    for taken in (one for one in application.reserved if not one.image):
        left = tuple(one for one in application.reserved if one is not taken)
        yield f"{taken.name} elsewhere, not in these memories", replace(application, reserved=left)
    choice, board = split_choice(application.board)
    if choice == DEFAULT_SET and _LARGER_SET in find_board(application.board).set_names:
        yield f'board = "{_LARGER_SET}@{board}"', replace(application, board=f"{_LARGER_SET}@{board}")
    for one in application.networks:
        if one.options.prefer != "memory":
            thrifty = replace(one, options=replace(one.options, prefer="memory"))
            yield f'prefer = "memory" for {one.name}', application.with_network(thrifty)
        if one.slot_bytes:
            yield f"no slot size for {one.name}", application.with_network(replace(one, slot_bytes=0))


# ------------------------------------------------------------------------ the files that belong to no single network

ERASED = b"\xff"  # what flash reads before it is programmed


def flash_image(contents: Sequence[SlotContents]) -> tuple[int, bytes]:
    """The first address, and everything from there to the last constant; nothing lies between the slots."""
    ordered = sorted((one for one in contents if one.data), key=lambda one: one.slot.start)
    if not ordered:
        return 0, b""
    image = bytearray()
    base = ordered[0].slot.start
    for one in ordered:
        image += ERASED * (one.slot.start - base - len(image))
        image += one.data
    return base, bytes(image)


def hex_text(contents: Sequence[SlotContents], pool: MemoryPool) -> bytes:
    """The same as Intel HEX, without what lies between."""
    ordered = sorted((one for one in contents if one.data), key=lambda one: one.slot.start)
    parts = [PoolRange(pool, one.slot.start, one.data, len(one.data)) for one in ordered]
    return "".join(hex_lines(parts)).encode()


def linker_lines(contents: Sequence[SlotContents]) -> Iterator[str]:
    yield "/* Where the networks of the application lie in flash, written by atonc: INCLUDE it in a linker script."
    yield " * app_flash.bin and app_flash.hex have the contents; a slot is larger than what is in it, so that the next"
    yield " * version of a network finds room. */"
    for one in contents:
        start, end = f"_app_flash_{one.slot.network}_start", f"_app_flash_{one.slot.network}_end"
        yield f"PROVIDE({start} = {one.slot.start:#010x}); PROVIDE({end} = {one.slot.end:#010x});"
    first = min((one.slot.start for one in contents), default=0)
    last = max((one.slot.end for one in contents), default=0)
    yield f"PROVIDE(_app_flash_start = {first:#010x}); PROVIDE(_app_flash_end = {last:#010x});"


def whole_files(found: ApplicationPlan, told: ApplicationFigures, contents: Sequence[SlotContents]) -> dict[str, bytes]:
    head = {"format": MAP_FORMAT, "atonc": __version__}
    made: dict[WholeFile, bytes | str] = {
        WholeFile.REPORT: page.page(found, told),
        WholeFile.HEADER: c_text.header(found),
        WholeFile.SOURCE: c_text.source(found, contents),
        WholeFile.LOOP: c_text.loop_source(),
        WholeFile.ADDRESSES: c_text.addresses(found, contents),
        WholeFile.LINKER: "\n".join(linker_lines(contents)) + "\n",
        WholeFile.BINARY: flash_image(contents)[1],
        WholeFile.HEX: hex_text(contents, parts.flash_of(found.memory)),
        WholeFile.MAP: write.to_json(head | document(found, told, contents)),
    }
    return {file.value: text.encode() if isinstance(text, str) else text for file, text in made.items()}


def document(found: ApplicationPlan, told: ApplicationFigures, contents: Sequence[SlotContents]) -> dict[str, Any]:
    """The map of everything, for people, tools, and the next build."""
    hashes = {one.slot.network: hashlib.sha256(one.data).hexdigest() for one in contents}
    return {
        "board": found.application.board,
        "flash_start": flash_image(contents)[0],
        "slots": list(slots_rows([one.slot for one in found.networks])),
        "networks": [
            row | {"model": network.network.model.name, "constants_sha256": hashes[network.name]}
            for row, network in zip(told.as_dict()["networks"], found.networks, strict=True)
        ],
        "totals": {name: value for name, value in told.as_dict().items() if name != "networks"},
        "ram": [{"start": start, "end": end} for start, end in found.ram],
        "kept": [
            {"network": one.network, "tensor": one.tensor, "start": one.span[0], "end": one.span[1]}
            | {"survives": list(one.survives), "because": one.because}
            for one in found.kept
        ],
        "shared_constants": [
            {"networks": list(one.networks), "start": one.start, "bytes": len(one.data), "saved": one.saved_bytes}
            for one in found.shared
        ],
        "relocatable": [one.as_dict() for one in places(found)],
        "reserved": [{"name": one.name, "start": one.start, "end": one.end} for one in found.application.reserved],
    }


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
    __repr__ = brief

    @property
    def notes(self) -> tuple[str, ...]:
        """What the build is good for only if somebody knows it."""
        load, networks = self.figures.load, {one.name: one for one in self.plan.application.networks}
        more = f"the networks would run {100 * load:.0f} % of the time as often as the file asks: they run less often"
        lost = [
            f"outputs of {one.after} do not stay while {one.name} runs, which is after it: outputs_survive says so"
            for one in networks.values()
            if one.after and one.name not in networks[one.after].outputs_survive
        ]
        return (*self.plan.model_notes, *([more] if load > 1 else []), *lost)

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
    load = 100 * told.load
    says = (
        f"the networks run {load:.1f} % of the time, --max-load allows {options.max_load:g} %: lower per_second, or "
        f"allow more and they run less often than the file says"
    )
    gates = (CheckResult("--max-load", load <= options.max_load, says),)
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
    for number, part in enumerate(found.shared, 1):
        contents.append(SlotContents(FlashSlot(f"{SHARED}_{number}", part.start, part.end), part.data))
    files = together([("the application", whole_files(found, told, contents)), *made])
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
