"""The files of an application that belong to no single network: `WholeFile` has their names, here they are made."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from atonc.compiler.emit import write
from atonc.delivery.application import c_text, flash, page
from atonc.delivery.application import memory as parts
from atonc.delivery.application.app_map import MAP_FORMAT
from atonc.delivery.application.figures import ApplicationFigures
from atonc.delivery.application.flash import SlotContents
from atonc.delivery.application.image_place import places
from atonc.delivery.application.plan_types import ApplicationPlan
from atonc.delivery.application.read import slots_rows
from atonc.delivery.application.types import WholeFile
from atonc.machine.base.about import __version__
from atonc.machine.base.frozen import dataclass


@dataclass(frozen=True)
class Whole:
    """What they are made of."""

    plan: ApplicationPlan
    figures: ApplicationFigures
    contents: Sequence[SlotContents]  # of the flash


def _map(whole: Whole) -> bytes:
    head = {"format": MAP_FORMAT, "atonc": __version__}
    return write.to_json(head | document(whole.plan, whole.figures, whole.contents))


_MAKERS: Mapping[WholeFile, Callable[[Whole], bytes]] = {
    WholeFile.REPORT: lambda whole: page.page(whole.plan, whole.figures),
    WholeFile.HEADER: lambda whole: c_text.header(whole.plan).encode(),
    WholeFile.SOURCE: lambda whole: c_text.source(whole.plan, whole.contents).encode(),
    WholeFile.LOOP: lambda whole: c_text.loop_source().encode(),
    WholeFile.ADDRESSES: lambda whole: c_text.addresses(whole.plan, whole.contents).encode(),
    WholeFile.LINKER: lambda whole: ("\n".join(flash.linker_lines(whole.contents)) + "\n").encode(),
    WholeFile.BINARY: lambda whole: flash.flash_image(whole.contents)[1],
    WholeFile.HEX: lambda whole: flash.hex_text(whole.contents, parts.flash_of(whole.plan.memory)),
    WholeFile.MAP: _map,
}


def whole_files(whole: Whole) -> dict[str, bytes]:
    return {file.value: _MAKERS[file](whole) for file in WholeFile}


def document(found: ApplicationPlan, told: ApplicationFigures, contents: Sequence[SlotContents]) -> dict[str, Any]:
    """The map of everything, for people, tools, and the next build."""
    hashes = {one.slot.network: hashlib.sha256(one.data).hexdigest() for one in contents}
    return {
        "board": found.application.board,
        "flash_start": flash.flash_image(contents)[0],
        "slots": list(slots_rows([one.slot for one in found.networks])),
        "networks": [
            row | {"model": network.network.model.name, "constants_sha256": hashes[network.name]}
            for row, network in zip(told.as_dict()["networks"], found.networks, strict=True)
        ],
        "totals": {name: value for name, value in told.as_dict().items() if name != "networks"},
        "ram": [{"start": start, "end": end} for start, end in found.ram],
        "kept": [
            {"network": one.network, "tensor": one.tensor, "start": one.span[0], "end": one.span[1]}
            | {"survives": list(one.survives)}
            for one in found.kept
        ],
        "shared_constants": [
            {"networks": list(one.networks), "start": one.start, "bytes": len(one.data), "saved": one.saved_bytes}
            for one in found.shared
        ],
        "relocatable": [one.as_dict() for one in places(found)],
        "reserved": [{"name": one.name, "start": one.start, "end": one.end} for one in found.application.reserved],
    }
