"""C that users call: one table of the networks, the runtime initialised once, and loops that run them in order.

Networks whose images are installed at run time, and may be replaced while the rest of the firmware stays, have a table
of their own in it: what an image may have, since the loader asks only the image.
"""

from __future__ import annotations

from collections.abc import Sequence

from atonc.delivery.application.flash import SlotContents
from atonc.delivery.application.image_place import ImageEdge, ImagePlace, places
from atonc.delivery.application.plan_types import ApplicationPlan
from atonc.delivery.application.read import SHARED
from atonc.delivery.application.types import AppNetwork
from atonc.machine.base.about import __version__
from atonc.machine.base.templates import Words, render


def header(found: ApplicationPlan) -> str:
    images = places(found)
    return render(
        "application/app_networks.h",
        version=__version__,
        kept=[
            {"tensor": _plain(one.tensor), "network": one.network, "survives": ", ".join(one.survives)}
            for one in found.kept
        ],
        nothing_kept=not found.kept,
        networks=[{"number": number_of(one.name), "k": k} for k, one in enumerate(found.application.networks)],
        count=len(found.application.networks),
        install=bool(images),
        names=", ".join(one.network for one in images),
    )


def _plain(name: str) -> str:
    """Nothing in it may end a comment."""
    return "".join(sign if sign.isalnum() or sign in "_./:-" else "_" for sign in name)[:80].replace("*/", "__")


def number_of(network: str) -> str:
    return f"APP_NETWORK_{network.upper()}"


def source(found: ApplicationPlan, contents: Sequence[SlotContents]) -> str:
    networks, images = found.application.networks, places(found)
    by_name = {one.slot.network: one for one in contents}
    shared = [one for one in contents if one.slot.network.startswith(SHARED)]
    return render(
        "application/app_networks.c",
        version=__version__,
        fixed=[{"name": one.name} for one in networks if one.relocatable is None],
        rows=[_row(one, by_name[one.name]) for one in networks],
        shares=bool(shared),
        shared=[
            {**_slot(one), "first": number_of(part.networks[0]), "networks": ", ".join(part.networks)}
            for one, part in zip(shared, found.shared, strict=True)
        ],
        images=bool(images),
        image_rows=[_image(one) for one in images],
        all_fixed=not images,
        edges=[{"name": "input"}, {"name": "output"}],
    )


def _slot(contents: SlotContents) -> Words:
    return {"start": f"{contents.slot.start:#010x}", "bytes": len(contents.data), "crc32": f"{contents.crc32:#010x}"}


def _row(network: AppNetwork, contents: SlotContents) -> Words:
    """The loader checks an image by itself, so that another one may take its place."""
    return {
        **_slot(contents if network.relocatable is None else SlotContents(contents.slot, b"")),
        "name": network.name,
        "per_second": repr(float(network.per_second)),
        "after": number_of(network.after) if network.after else "-1",
    }


def _image(one: ImagePlace) -> Words:
    exec_ram, external = one.exec_ram, one.external
    return {
        "network": one.network,
        "number": number_of(one.network),
        "ram": ", ".join(f"{{{start:#010x}U, {end - start}U}}" for start, end in one.ram),
        "inputs": _bytes(one.inputs),
        "outputs": _bytes(one.outputs),
        "exec_ram": f"{exec_ram[0]:#010x}",
        "exec_bytes": exec_ram[1] - exec_ram[0],
        "ext_ram": f"{external[0]:#010x}",
        "ext_bytes": external[1] - external[0],
        "mode": one.mode.name,
    }


def _bytes(edges: Sequence[ImageEdge]) -> str:
    return "".join(f"{edge.size_bytes}U, " for edge in edges)


def loop_source() -> str:
    return render("application/app_loop.c", version=__version__)


def addresses(found: ApplicationPlan, contents: Sequence[SlotContents]) -> str:
    reserved = list[Words]()
    for number, taken in enumerate(found.application.reserved, 1):
        name = "".join(sign if sign.isascii() and sign.isalnum() else "_" for sign in taken.name.upper())[:60]
        name = f"{name}_{number}" if any(row["name"] == name for row in reserved) else name
        reserved.append({"name": name, "start": f"{taken.start:#010x}", "bytes": taken.end - taken.start})
    slots = [
        {**_slot(one), "name": one.slot.network.upper(), "slot_bytes": one.slot.end - one.slot.start}
        for one in contents
    ]
    ram = " ".join(f"X({start:#010x}UL, {end - start}UL)" for start, end in found.ram)
    return render("application/app_addresses.h", version=__version__, slots=slots, reserved=reserved, ram=ram)
