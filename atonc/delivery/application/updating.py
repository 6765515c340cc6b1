"""`atonc app update`: the next version of a relocatable network, for firmware that was built before.

The firmware stays as it is. So the new version is compiled for what that firmware grants (`ImagePlace`, from app.json):
the same RAM, the same slot, the same places of inputs and outputs that survive; and it is checked against that.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Any

from atonc.compiler.compile.compile_view import view_of
from atonc.compiler.compile.pipeline import Compiled, memories, verified
from atonc.compiler.place.explain import PlacementError
from atonc.compiler.request.options import Options
from atonc.delivery.application import building, check, planning
from atonc.delivery.application import memory as parts
from atonc.delivery.application.planning import AppSource
from atonc.delivery.application.read import MAP, read_map
from atonc.delivery.application.relocatable import (
    ImageEdge,
    ImagePlace,
    edge_of,
    exec_bytes,
    image_board,
    image_of,
    read_place,
    require_fits,
    split_files,
)
from atonc.delivery.application.types import Application, SlotContents, owner_of
from atonc.delivery.generate.generating import files_of
from atonc.delivery.reloc.image import Image
from atonc.machine.base.build_folder import write_whole
from atonc.machine.base.declare import did_you_mean
from atonc.machine.base.disk import write_files
from atonc.machine.base.errors import CapacityError, InputError
from atonc.machine.base.frozen import brief, dataclass
from atonc.machine.base.words import Room
from atonc.machine.hw.board import find_board


@dataclass(frozen=True)
class BuiltMap:
    """What an update must know of a build."""

    folder: Path
    board: str
    networks: tuple[str, ...]
    ram: tuple[tuple[int, int], ...]
    places: tuple[ImagePlace, ...]


@dataclass(frozen=True)
class BuiltUpdate:
    application: Application
    built: BuiltMap
    place: ImagePlace
    compiled: Compiled = field(repr=False)
    image: Image = field(repr=False)
    news: tuple[str, ...]  # what the application must know of inputs and outputs
    told: Mapping[str, bytes] = field(repr=False)  # the image and texts
    inside: Mapping[str, bytes] = field(repr=False)  # what the image was made of
    files: tuple[str, ...] = ()  # as they were written
    trial: Mapping[str, Any] | None = None  # what the virtual board showed, if it was asked
    __repr__ = brief

    @property
    def name(self) -> str:
        return self.place.network

    def as_dict(self) -> dict[str, Any]:
        network = self.application.network(self.name)
        return {
            "network": self.name,
            "model": network.model.name,
            "latency_ms": self.compiled.cost.latency_ms,
            "image_bytes": len(self.image.data),
            "slot": {"start": self.place.slot.start, "end": self.place.slot.end},
            "exec_ram_bytes": exec_bytes(self.place.mode, self.image),
            "exec_ram": {"start": self.place.exec_ram[0], "end": self.place.exec_ram[1]},
            "news": list(self.news),
            "files": list(self.files),
            "trial": self.trial,
        }


def update(application: Application, name: str, built: Path, folder: Path | None) -> BuiltUpdate:
    """Compiles, verifies, checks, writes; without a folder nothing is written."""
    found = read_built(built)
    place = _place(application, found, name)
    network = application.network(name)
    network = replace(network, relocatable=place.mode, options=replace(network.options, relocatable=True))
    application = application.with_network(network)
    source = planning.read_all(replace(application, networks=(network,)))[0]
    made = verified(_compiled(source, place), network.options)
    news = tuple(_news(place, made, name))
    view = replace(view_of(made, network.model, network.options, name), board=image_board(application.board, place))
    image = image_of(view)
    require_fits(network, image, place.slot, place.exec_ram)
    told, inside = split_files(files_of(view), name, image)
    contents = [SlotContents(place.slot, image.data)]
    told[f"{name}_rel.hex"] = building.hex_text(contents, parts.flash_of(memories(Options(board=application.board))))
    _require_sound(application, place, image, {**told, **inside})
    written = write_whole(folder, told, owner_of(name)) if folder is not None else []
    files = tuple(map(str, written))
    return BuiltUpdate(application, found, place, made, image, news, told=told, inside=inside, files=files)


def read_built(built: Path) -> BuiltMap:
    """`built`: the folder of `atonc app build`, or its app.json."""
    path = built / MAP if built.is_dir() else built

    def parse(data: Mapping[str, Any]) -> BuiltMap:
        return BuiltMap(
            path.parent,
            str(data["board"]),
            tuple(str(row["name"]) for row in data["networks"]),
            tuple((int(row["start"]), int(row["end"])) for row in data["ram"]),
            tuple(read_place(row) for row in data["relocatable"]),
        )

    return read_map(path, parse)


def _place(application: Application, found: BuiltMap, name: str) -> ImagePlace:
    where = f"network {name}"
    names = tuple(one.name for one in application.networks)
    if name not in names:
        remedy = did_you_mean(name, names, f"there are {', '.join(names)}")
        raise InputError("is not in the application file", where=where, remedy=remedy)
    by_name = {one.network: one for one in found.places}
    if name not in by_name:
        raise InputError(
            f"the build in {found.folder} has no image of it",
            where=where,
            rule=f"relocatable there are: {', '.join(by_name) or 'none'}",
            remedy='relocatable = "xip" in the application file, and a new firmware',
        )
    if (Path(application.board).name, names) != (Path(found.board).name, found.networks):
        raise InputError(
            f"the build is for {found.board} with {', '.join(found.networks)}; the file says {application.board} with "
            f"{', '.join(names)}",
            where=where,
            rule="an update is for the firmware that is out",
            remedy="take the application file of that build, with another model or other options for this network",
        )
    return by_name[name]


def _compiled(source: AppSource, place: ImagePlace) -> Compiled:
    graph = source.graph
    pins = {
        name: edge.kept
        for names, edges in ((graph.inputs, place.inputs), (graph.outputs, place.outputs))
        for name, edge in zip(names, edges, strict=False)
        if edge.kept is not None
    }
    memory = planning.granted_memory(source.network.options.board, place.ram, pins)
    if place.resident:
        shared = [piece for span in place.ram for piece in parts.left_of(span, place.resident)]
        memory = replace(memory, overwritten=tuple(parts.joined(shared)))
    try:
        return planning.compiled_for(source, memory, place.slot, Room(parts.size_of(place.resident)))
    except (PlacementError, CapacityError) as error:
        error.remedy = f"the firmware grants it {parts.size_of(place.ram):,} bytes of RAM; more takes a new firmware"
        raise


def _news(place: ImagePlace, made: Compiled, name: str) -> Iterator[str]:
    """Inputs and outputs are as large as before; how codes are meant may differ."""
    for what, names, edges in (
        ("input", made.graph.inputs, place.inputs),
        ("output", made.graph.outputs, place.outputs),
    ):
        now = [edge_of(made, tensor) for tensor in names]
        if [edge.size_bytes for edge in now] != [edge.size_bytes for edge in edges]:
            raise InputError(
                f"{what}s of {_sizes(now)} bytes, the application knows {_sizes(edges)}",
                where=f"network {name}",
                rule="an update has inputs and outputs of the same sizes: the firmware refuses others",
                remedy="keep the shapes and types of the model, or build the firmware anew",
            )
        for number, (new, old) in enumerate(zip(now, edges, strict=True)):
            if (new.dtype, new.scale, new.zero_point) != (old.dtype, old.scale, old.zero_point):
                yield f"{what} {number} is now {_codes(new)}, was {_codes(old)}"


def _sizes(edges: Sequence[ImageEdge]) -> str:
    return ", ".join(str(edge.size_bytes) for edge in edges) or "no"


def _codes(edge: ImageEdge) -> str:
    return f"{edge.dtype} with scale {edge.scale:g} and zero point {edge.zero_point}"


def _require_sound(application: Application, place: ImagePlace, image: Image, files: Mapping[str, bytes]) -> None:
    """What the files say is held against what the firmware grants."""
    board = find_board(application.board)
    with tempfile.TemporaryDirectory(prefix="atonc_") as folder:
        write_files(Path(folder), files)
        touched = check.touched_by(Path(folder), place.network, board, image)
    check.require_sound(list(check.outside(touched, [*place.ram, (place.slot.start, place.slot.end)])))
