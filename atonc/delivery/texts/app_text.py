"""What `atonc app build` shows: the networks in a table, and the figures of the whole."""

from __future__ import annotations

from collections.abc import Iterator

from atonc.delivery.application.building import BuiltApplication
from atonc.delivery.application.image_place import ImagePlace, places
from atonc.delivery.application.relocatable import exec_bytes
from atonc.delivery.application.types import LoadMode
from atonc.delivery.application.updating import BuiltUpdate
from atonc.delivery.reloc.image import Image
from atonc.insight.report.document import Mark, SummaryRow, files_row, next_row, summary_lines
from atonc.machine.base.words import count, elided, ms_text, size_text

_NAME = 28
_MODES = {LoadMode.XIP: "runs in place", LoadMode.COPY: "runs in RAM"}
_BUSY = 0.8  # of the time: above it little is left for waiting and for what the prediction may be off


def lines(built: BuiltApplication) -> list[str]:
    return [*_table(built), *summary_lines(_rows(built))]


def _table(built: BuiltApplication) -> Iterator[str]:
    found = built.plan
    yield f"{count(len(found.networks), 'network')} for {found.application.board}, which take turns on the NPU"
    yield f"  {'network':{_NAME}} {'latency':>10} {'runs/s':>7} {'time':>7} {'flash':>7} {'RAM':>10} {'slot':>10}"
    for one in built.figures.networks:
        yield (
            f"  {elided(one.name, _NAME):{_NAME}} {ms_text(one.latency_ms):>10} {one.per_second:>7g} "
            f"{_percent(one.load):>7} {_percent(one.flash_load):>7} {size_text(one.ram_bytes):>10} "
            f"{size_text(one.slot_bytes):>10}"
        )
    for place in found.kept:
        yield (
            f"  stays: {elided(place.tensor, _NAME)} of {place.network} at {place.span[0]:#010x} while "
            f"{', '.join(place.survives)} runs"
        )
    for image in places(found):
        yield f"  image: {_image(image, built.output.images[image.network])}"


def _image(place: ImagePlace, image: Image) -> str:
    ram, needs = place.exec_ram[1] - place.exec_ram[0], exec_bytes(place.mode, image)
    return (
        f"{elided(place.network, _NAME)}, {size_text(len(image.data))} in its slot at {place.slot.start:#010x}; "
        f"{_MODES[place.mode]}, {size_text(needs)} of {size_text(ram)} RAM at {place.exec_ram[0]:#010x}"
    )


def update_lines(made: BuiltUpdate) -> list[str]:
    """What `atonc app update` shows."""
    network = made.application.network(made.name)
    checked = f"{made.trial['says']}" if made.trial is not None else "it touches only what the firmware grants it"
    layers = made.compiled.report.layers if made.compiled.report else 0
    verified = f"{count(layers, 'layer')} emulated; " if layers else ""
    wrong = made.trial is not None and not made.trial["equal"]
    rows = [
        SummaryRow("model", f"{network.model.name}, {ms_text(made.compiled.cost.latency_ms)} predicted"),
        SummaryRow("image", _image(made.place, made.image)),
        *(SummaryRow("news", line, Mark.DOUBT) for line in made.news),
        SummaryRow("checked", verified + checked, Mark.ALARM if wrong else Mark.GOOD),
        files_row(made.files),
    ]
    if made.files:
        rows.append(next_row(f"program {made.name}_rel.hex, or send {made.name}_rel.bin (docs/several-networks.md)"))
    return [f"{made.name} for the firmware of {made.built.folder}", *summary_lines(rows)]


def _rows(built: BuiltApplication) -> Iterator[SummaryRow | None]:
    told = built.figures
    by_time = sorted(told.networks, key=lambda one: -one.load)
    shown = ", ".join(f"{elided(one.name, _NAME)} {_percent(one.load)}" for one in by_time[:3])
    more = f" and {len(by_time) - 3} more" if len(by_time) > 3 else ""
    busy = Mark.ALARM if told.load > 1 else Mark.DOUBT if told.load > _BUSY else None
    yield SummaryRow("time", f"{_percent(told.load)} of every second, predicted: {shown}{more}", busy)
    yield SummaryRow("flash", f"read {_percent(told.flash_load)} of the time; {_slots(built)}")
    yield SummaryRow("RAM", _ram(built))
    yield SummaryRow(
        "room",
        f"a further network shares {size_text(told.ram_bytes - told.kept_bytes - told.resident_bytes)} and finds "
        f"{size_text(told.free_on_chip_bytes)} more on the chip, {max(0.0, 100 - 100 * told.load):.0f} % of the time",
    )
    wrong = built.trial is not None and not built.trial["equal"]
    yield SummaryRow("checked", _checked(built), Mark.ALARM if wrong else Mark.GOOD)
    yield files_row(built.files)
    if built.files:
        yield next_row("app_networks.h has the table, app_loop.c the loops (docs/several-networks.md)")


def _slots(built: BuiltApplication) -> str:
    told = built.figures
    size = sum(one.slot_bytes for one in told.networks)
    used = sum(len(one.data) for one in built.output.contents)
    what = "constants and images" if built.output.images else "constants"
    saved = f", {size_text(told.saved_constants_bytes)} saved by sharing" if told.saved_constants_bytes else ""
    return f"{count(len(told.networks), 'slot')} of {size_text(size)} with {size_text(used)} of {what}{saved}"


def _ram(built: BuiltApplication) -> str:
    told = built.figures
    own = [
        f"{what} {size_text(size)}"
        for what, size in (("that stays", told.kept_bytes), ("resident weights", told.resident_bytes))
        if size
    ]
    parts = f" ({', '.join(own)})" if own else ""
    images = f", and {size_text(told.image_ram_bytes)} for images" if told.image_ram_bytes else ""
    return (
        f"{size_text(told.ram_bytes)} for all{parts}{images}; one beside the other {size_text(told.ram_sum_bytes)}, no "
        f"plan of these programs below {size_text(told.lower_bound_bytes)}"
    )


def _checked(built: BuiltApplication) -> str:
    layers = sum(one.compiled.report.layers for one in built.plan.networks if one.compiled.report)
    verified = f"{count(layers, 'layer')} emulated, " if layers else ""
    trial = f"; {built.trial['says']}" if built.trial is not None else ""
    return f"{verified}no file touches what belongs to another{trial}"


def _percent(share: float) -> str:
    return f"{100 * share:.{1 if share < 0.1 else 0}f} %"
