"""Networks that are updated in the field: a relocatable image in the slot of each, and RAM for its data and code.

How large an image is and how much RAM it takes is known when it is linked. So each is built before the plan is made,
compiled with all RAM of the board: its slot, and a part of the RAM that no network uses, have these sizes with room to
grow. The image that ships is built of the planned network, and has to fit into both."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Any

from atonc.compiler.compile.compile_view import CompileView, view_of
from atonc.compiler.compile.pipeline import Compiled, memories
from atonc.compiler.emit.c.files import files
from atonc.compiler.place import BoardMemory
from atonc.compiler.place.pools import outside_chip
from atonc.compiler.request.options import Options
from atonc.delivery.application import memory as parts
from atonc.delivery.application.memory import inside
from atonc.delivery.application.planning import (
    GROWTH,
    ApplicationPlan,
    AppSource,
    PlannedNetwork,
    compiled_for,
    erased,
    granted,
)
from atonc.delivery.application.types import Application, AppNetwork, FlashSlot, LoadMode, Reservation
from atonc.delivery.firmware.building import find_toolchain
from atonc.delivery.generate.generating import c_network
from atonc.delivery.reloc.build import build
from atonc.delivery.reloc.image import Image
from atonc.delivery.reloc.options import RelocOptions
from atonc.machine.base import progress
from atonc.machine.base.disk import write_files
from atonc.machine.base.errors import CapacityError
from atonc.machine.base.frozen import dataclass
from atonc.machine.base.spans import Span
from atonc.machine.base.words import NO_ROOM, Room


@dataclass(frozen=True)
class ImageEdge:
    """An input or output as the application knows it."""

    size_bytes: int
    dtype: str
    scale: float
    zero_point: int
    kept: Span | None = None  # its place, where it must survive the runs of others


@dataclass(frozen=True)
class ImagePlace:
    network: str
    mode: LoadMode
    slot: FlashSlot
    exec_ram: Span  # data of the image, and code that is copied
    ram: tuple[Span, ...]  # in which it works
    resident: tuple[Span, ...] = ()  # of that: for weights that stay there
    external: Span = (0, 0)  # what its loader is given of the RAM outside the chip
    inputs: tuple[ImageEdge, ...] = field(default=())
    outputs: tuple[ImageEdge, ...] = field(default=())

    def as_dict(self) -> dict[str, Any]:
        return {
            "network": self.network,
            "mode": self.mode.value,
            "slot": _span(self.slot.start, self.slot.end),
            "exec_ram": _span(*self.exec_ram),
            "ram": [_span(*span) for span in self.ram],
            "resident": [_span(*span) for span in self.resident],
            "external": _span(*self.external),
            "inputs": [_edge(one) for one in self.inputs],
            "outputs": [_edge(one) for one in self.outputs],
        }


def places(found: ApplicationPlan) -> list[ImagePlace]:
    return [place_of(found, one) for one in found.networks if one.network.relocatable is not None]


def place_of(found: ApplicationPlan, one: PlannedNetwork) -> ImagePlace:
    assert one.network.relocatable is not None
    graph, ram = one.compiled.graph, found.application.exec_ram(one.name)
    kept = {place.tensor: place.span for place in found.kept if place.network == one.name}
    inputs, outputs = (
        tuple(edge_of(one.compiled, name, kept.get(name)) for name in edges) for edges in (graph.inputs, graph.outputs)
    )
    works_in, own = granted(found, one.name), found.private.get(one.name, ())
    return ImagePlace(
        *(one.name, one.network.relocatable, one.slot, (ram.start, ram.end)),
        ram=tuple(works_in),
        resident=tuple(piece for span in works_in for piece in inside(span, own)),
        external=_external(found, one),
        inputs=inputs,
        outputs=outputs,
    )


def edge_of(made: Compiled, name: str, kept: Span | None = None) -> ImageEdge:
    tensor = made.graph.tensors[name]
    return ImageEdge(made.program.placed[name].size_bytes, tensor.dtype, tensor.scale, tensor.zero_point, kept)


def _external(found: ApplicationPlan, one: PlannedNetwork) -> Span:
    """From the start of the pool, as the program counts, to the end of what any network has there."""
    for pool in one.compiled.memory.pools:
        if pool.writable and outside_chip(pool.base):
            ends = [end for start, end in found.ram if pool.base <= start < pool.base + pool.size_bytes]
            if ends:
                return pool.base, max(ends)
    return 0, 0


# ---------------------------------------------------------------------------------------------------------------- JSON


def _span(start: int, end: int) -> dict[str, int]:
    return {"start": start, "end": end}


def _edge(one: ImageEdge) -> dict[str, Any]:
    codes = {"bytes": one.size_bytes, "type": one.dtype, "scale": one.scale, "zero_point": one.zero_point}
    return codes | {"kept": _span(*one.kept) if one.kept else None}


def read_place(row: Mapping[str, Any]) -> ImagePlace:
    """What is not as `as_dict` gives it raises one of LookupError, TypeError, ValueError."""
    name = str(row["network"])
    inputs, outputs = (tuple(_read_edge(one) for one in row[side]) for side in ("inputs", "outputs"))
    return ImagePlace(
        *(name, LoadMode(row["mode"]), FlashSlot(name, *_read_span(row["slot"])), _read_span(row["exec_ram"])),
        ram=tuple(_read_span(one) for one in row["ram"]),
        resident=tuple(_read_span(one) for one in row["resident"]),
        external=_read_span(row["external"]),
        inputs=inputs,
        outputs=outputs,
    )


def _read_span(row: Mapping[str, Any]) -> Span:
    start, end = row["start"], row["end"]
    if not (isinstance(start, int) and isinstance(end, int) and 0 <= start <= end < 1 << 32):
        raise ValueError("span")
    return start, end


def _read_edge(row: Mapping[str, Any]) -> ImageEdge:
    kept = _read_span(row["kept"]) if row["kept"] is not None else None
    return ImageEdge(int(row["bytes"]), str(row["type"]), float(row["scale"]), int(row["zero_point"]), kept)


_TOLD = (".json", ".txt", ".html")  # files about a network; the others are in its image


def with_images(application: Application, sources: Sequence[AppSource]) -> tuple[Application, list[AppSource]]:
    """The application with room for the images of its relocatable networks; the same where it has none."""
    memory = memories(Options(board=application.board))
    networks, reserved = list[AppNetwork](), list(application.reserved)
    for source in sources:
        network = source.network
        if network.relocatable is not None:
            free = parts.without(memory, [(one.start, one.end) for one in reserved])
            rooms = dict.fromkeys((NO_ROOM, application.resident))
            images = [_first_image(source, free, resident) for resident in rooms]
            reserved.append(_exec_ram(network, images, free))
            network = replace(
                network,
                slot_bytes=network.slot_bytes
                or erased(round(max(len(image.data) for image in images) * GROWTH) + parts.BEHIND),
            )
        networks.append(network)
    asked = replace(application, networks=tuple(networks), reserved=tuple(reserved))
    return asked, [replace(one, network=network) for one, network in zip(sources, networks, strict=True)]


def image_of(view: CompileView) -> Image:
    """Compiles and links it."""
    progress.stage("building the image")
    with tempfile.TemporaryDirectory(prefix="atonc_") as temporary:
        folder, work = Path(temporary) / "network", Path(temporary) / "work"
        work.mkdir()
        write_files(folder, files(c_network(view)))
        options = RelocOptions(name=view.name, secure=view.options.secure)
        return build(find_toolchain(), folder, options, work).image


def image_board(board: str, place: ImagePlace) -> BoardMemory:
    """What its files name: of the RAM on the chip no byte that belongs to others, and its slot."""
    found = parts.only_on_chip(memories(Options(board=board, relocatable=True)), place.ram)
    return parts.with_flash(found, place.slot.start, place.slot.end)


def split_files(files: Mapping[str, bytes], name: str, image: Image) -> tuple[dict[str, bytes], dict[str, bytes]]:
    """The image with what is told about it, and what is in it."""
    told = {file: data for file, data in files.items() if file.endswith(_TOLD)}
    inside = {file: data for file, data in files.items() if file not in told}
    return told | {f"{name}_rel.bin": image.data}, inside


def exec_bytes(mode: LoadMode | None, image: Image) -> int:
    """RAM that it takes when it is installed."""
    return image.copy_bytes if mode == LoadMode.COPY else image.xip_bytes


def require_fits(network: AppNetwork, image: Image, slot: FlashSlot, ram: Span) -> None:
    needs = len(image.data) + parts.BEHIND
    if needs > slot.end - slot.start:
        raise CapacityError(
            f"an image of {len(image.data):,} bytes and read-ahead, its slot has {slot.end - slot.start:,}",
            where=network.at("slot"),
            remedy=f"slot = {erased(needs)}, and the firmware is built anew",
        )
    if (size := exec_bytes(network.relocatable, image)) > ram[1] - ram[0]:
        raise CapacityError(
            f"its image takes {size:,} bytes of RAM, {ram[1] - ram[0]:,} are kept for it",
            where=network.at("exec_ram"),
            remedy=f"exec_ram = {_in_lines(size)}, and the firmware is built anew",
        )


def _first_image(source: AppSource, memory: BoardMemory, resident: Room) -> Image:
    """Weights in RAM make other programs, of which the image may have to patch more."""
    flash, network = parts.flash_of(memory), source.network
    whole = FlashSlot(source.name, flash.base, flash.base + flash.size_bytes)
    made = compiled_for(source, memory, whole, resident)
    with progress.part(f"network {source.name}"):
        return image_of(view_of(made, network.model, network.options, source.name))


def _exec_ram(network: AppNetwork, images: Sequence[Image], memory: BoardMemory) -> Reservation:
    needs = max(exec_bytes(network.relocatable, image) for image in images)
    size = network.exec_bytes or _in_lines(round(needs * GROWTH))
    place = parts.place_for_code(memory, size)
    if place is None:
        raise CapacityError(
            f"{size:,} bytes of RAM for its image find no place in one piece on the chip",
            where=f"network {network.name}",
            remedy='relocatable = "xip" takes less than "copy"; or reserve less',
        )
    return Reservation(f"image of {network.name}", *place, image=network.name)


def _in_lines(size: int) -> int:
    return -(-size // parts.LINE) * parts.LINE
