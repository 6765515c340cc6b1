"""What `atonc app` shows: the networks in a table, and the figures of the whole."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from atonc.delivery.application.building import BuiltApplication
from atonc.delivery.application.page import NAME, NETWORKS, percent
from atonc.delivery.application.relocatable import ImagePlace, exec_bytes, places
from atonc.delivery.application.types import LoadMode
from atonc.delivery.application.updating import BuiltUpdate
from atonc.delivery.reloc.image import Image
from atonc.insight.report import document as doc
from atonc.machine.base.reasons import CheckResult
from atonc.machine.base.words import count, elided, ms_text, size_text

_MODES = {LoadMode.XIP: "runs in place", LoadMode.COPY: "runs in RAM"}
_BUSY = 0.8  # of the time: above it little is left for waiting and for what the prediction may be off


def document(built: BuiltApplication) -> doc.Document:
    found = built.plan
    blocks: list[doc.Block] = [
        f"{count(len(found.networks), 'network')} for {found.application.board}, which take turns on the NPU",
        doc.Table(NETWORKS, built.figures.networks, "Networks", titles=True),
        *(
            f"  stays: {elided(place.tensor, NAME)} of {place.network} at {place.span[0]:#010x} while "
            f"{', '.join(place.survives)} runs ({place.because})"
            for place in found.kept
        ),
        *(f"  image: {_image(image, built.output.images[image.network])}" for image in places(found)),
    ]
    return doc.Document(
        sections=[doc.Chapter("", blocks)],
        summary=list(_rows(built)),
        data=built.as_dict,
        checks=[*built.gates, *_trial(built.trial)],
    )


def _trial(trial: Mapping[str, Any] | None) -> list[CheckResult]:
    return [] if trial is None else [CheckResult("--try", trial["equal"], trial["says"])]


def _image(place: ImagePlace, image: Image) -> str:
    ram, needs = place.exec_ram[1] - place.exec_ram[0], exec_bytes(place.mode, image)
    return (
        f"{elided(place.network, NAME)}, {size_text(len(image.data))} in its slot at {place.slot.start:#010x}; "
        f"{_MODES[place.mode]}, {size_text(needs)} of {size_text(ram)} RAM at {place.exec_ram[0]:#010x}"
    )


def update(made: BuiltUpdate) -> doc.Document:
    """What `atonc app update` shows."""
    network = made.application.network(made.name)
    checked = f"{made.trial['says']}" if made.trial is not None else "it touches only what the firmware grants it"
    layers = made.compiled.report.layers if made.compiled.report else 0
    verified = f"{count(layers, 'layer')} emulated; " if layers else ""
    wrong = made.trial is not None and not made.trial["equal"]
    step = f"program {made.name}_rel.hex, or send {made.name}_rel.bin (docs/several-networks.md)"
    rows = (
        doc.SummaryRow("model", f"{network.model.name}, {ms_text(made.compiled.cost.latency_ms)} predicted"),
        doc.SummaryRow("image", _image(made.place, made.image)),
        *(doc.SummaryRow("news", line, doc.Mark.DOUBT) for line in made.news),
        doc.SummaryRow("checked", verified + checked, doc.Mark.ALARM if wrong else doc.Mark.GOOD),
        doc.files_row(made.files),
        doc.next_row(step) if made.files else None,
    )
    sections = [doc.Chapter("", [f"{made.name} for the firmware of {made.built.folder}"])]
    return doc.Document(sections=sections, summary=rows, data=made.as_dict, checks=_trial(made.trial))


def _rows(built: BuiltApplication) -> Iterator[doc.SummaryRow | None]:
    told = built.figures
    by_time = sorted(told.networks, key=lambda one: -one.load)
    shown = ", ".join(f"{elided(one.name, NAME)} {percent(one.load)}" for one in by_time[:3])
    more = f" and {len(by_time) - 3} more" if len(by_time) > 3 else ""
    busy = doc.Mark.ALARM if told.load > 1 else doc.Mark.DOUBT if told.load > _BUSY else None
    yield doc.SummaryRow("time", f"{percent(told.load)} of every second, predicted: {shown}{more}", busy)
    yield doc.SummaryRow("flash", f"read {percent(told.flash_load)} of the time; {_slots(built)}")
    yield doc.SummaryRow("RAM", _ram(built))
    yield doc.SummaryRow(
        "room",
        f"for a further network: {size_text(told.ram_bytes - told.kept_bytes - told.resident_bytes)} shared, "
        f"{size_text(told.free_on_chip_bytes)} free on the chip, {max(0.0, 100 - 100 * told.load):.0f} % of the time",
    )
    layers = sum(one.compiled.report.layers for one in built.plan.networks if one.compiled.report)
    verified = f"{count(layers, 'layer')} emulated, " if layers else ""
    trial = f"; {built.trial['says']}" if built.trial is not None else ""
    wrong = built.trial is not None and not built.trial["equal"]
    checked = f"{verified}no overlap between networks{trial}"
    yield doc.SummaryRow("checked", checked, doc.Mark.ALARM if wrong else doc.Mark.GOOD)
    yield doc.files_row(built.files)
    if built.files:
        yield doc.next_row("app_networks.h has the table, app_loop.c the loops (docs/several-networks.md)")


def _slots(built: BuiltApplication) -> str:
    told = built.figures
    size = sum(one.slot_bytes for one in told.networks)
    used = sum(len(one.data) for one in built.output.contents)
    what = "constants and images" if built.output.images else "constants"
    saved = f", {size_text(told.saved_constants_bytes)} saved by sharing" if told.saved_constants_bytes else ""
    in_code = sum(one.code_constants_bytes for one in told.networks if one.name not in built.output.images)
    beside = f", {size_text(in_code)} more in C files" if in_code else ""  # of CPU layers
    return f"{count(len(told.networks), 'slot')} ({size_text(size)}) with {size_text(used)} of {what}{saved}{beside}"


def _ram(built: BuiltApplication) -> str:
    told = built.figures
    sizes = {"kept between inferences": told.kept_bytes, "resident weights": told.resident_bytes}
    own = ", ".join(f"{what} {size_text(size)}" for what, size in sizes.items() if size)
    parts = f" ({own})" if own else ""
    images = f", and {size_text(told.image_ram_bytes)} for images" if told.image_ram_bytes else ""
    return (
        f"{size_text(told.ram_bytes)} for all{parts}{images}; without sharing {size_text(told.ram_sum_bytes)}, "
        f"lower bound {size_text(told.lower_bound_bytes)}"
    )
