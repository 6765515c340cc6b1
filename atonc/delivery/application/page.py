"""app_report.html: the application on one page. Times of a second, who waits for whom, and memory by network."""

from __future__ import annotations

from collections.abc import Iterator

from atonc.compiler.place.pools import outside_chip
from atonc.compiler.plan.types import BufferKind
from atonc.delivery.application import memory as parts
from atonc.delivery.application.planning import (
    ApplicationFigures,
    ApplicationPlan,
    NetworkFigures,
    PlannedNetwork,
    demand_of,
    live_bytes,
)
from atonc.delivery.application.types import Application, AppNetwork
from atonc.delivery.generate.generating import page_name
from atonc.insight.report import document as doc
from atonc.insight.report.html.page import document_page
from atonc.machine.base.words import elided, listed, ms_text, size_text

NAME = 28  # characters of a network's
_WORDS = "works in: light, stays: orange, weights: blue, reserved: grey"


def percent(share: float) -> str:
    return f"{100 * share:.{2 if share < 0.01 else 1 if share < 0.1 else 0}f} %"


NETWORKS = (
    doc.Column[NetworkFigures]("network", lambda one: elided(one.name, NAME), width=NAME, left=True),
    doc.Column[NetworkFigures]("latency", lambda one: ms_text(one.latency_ms)),
    doc.Column[NetworkFigures]("runs/s", lambda one: one.per_second, "{:g}"),
    doc.Column[NetworkFigures]("time", lambda one: percent(one.load)),
    doc.Column[NetworkFigures]("flash", lambda one: percent(one.flash_load)),
    doc.Column[NetworkFigures]("RAM", lambda one: size_text(one.ram_bytes)),
    doc.Column[NetworkFigures]("constants", lambda one: size_text(one.constants_bytes), only=doc.Only.PAGE),
    doc.Column[NetworkFigures]("slot", lambda one: size_text(one.slot_bytes)),
)


def page(found: ApplicationPlan, told: ApplicationFigures) -> bytes:
    said = (
        f"{len(found.networks)} networks for {found.application.board}: {100 * told.load:.1f} % of every second, "
        f"{size_text(told.ram_bytes)} of RAM (predicted; not measured on a board)"
    )
    return document_page(doc.Document(title="Application", said=said, sections=list(_sections(found, told))))


def _sections(found: ApplicationPlan, told: ApplicationFigures) -> Iterator[doc.Chapter]:
    hint = "time: share of a second in which it runs; flash: in which the flash is read for it"
    reports = doc.Links({f"Report of {one.name}": page_name(one.name) for one in found.application.networks})
    table = doc.Table(NETWORKS, told.networks, "Networks")
    yield doc.Chapter("A second", [table, doc.Note(hint, hint=True), *map(doc.Note, found.model_notes), reports])
    yield doc.Chapter("Who waits for whom", list(_order(found)))
    yield doc.Chapter("RAM of the chip by network", list(_map(found)))
    live = [block for one in found.networks for block in _over_time(found, one)]
    yield doc.Chapter("RAM over the time of one inference", live)
    left = max(0.0, 100 - 100 * told.load)
    room = (
        f"A further network shares {size_text(told.ram_bytes - told.kept_bytes - told.resident_bytes)} of RAM with "
        f"these and finds {size_text(told.free_on_chip_bytes)} more on the chip, "
        f"{size_text(told.free_flash_bytes)} of flash and {left:.0f} % of the time."
    )
    yield doc.Chapter("Room for more", [room])


def _order(found: ApplicationPlan) -> Iterator[str]:
    """One network runs at a time: each waits for whoever runs, and followers for who they follow."""
    slowest = max(found.networks, key=lambda one: one.compiled.cost.latency_ms)
    yield from (f"{one.name} runs {_when(one, found.application)}" for one in found.application.networks)
    wait = ms_text(slowest.compiled.cost.latency_ms)
    yield f"One runs at a time, to its end: any other waits up to {wait} for {slowest.name}"
    yield from (
        f"{one.tensor} of {one.network} stays while {listed(one.survives)} runs ({one.because})" for one in found.kept
    )


def _when(one: AppNetwork, application: Application) -> str:
    rate = "once a second" if one.per_second == 1 else f"{one.per_second:g} times a second"
    if not one.after:
        return rate
    seldom = one.per_second < application.network(one.after).per_second
    return f"behind runs of {one.after}, {rate}" if seldom else f"behind every run of {one.after}"


def _map(found: ApplicationPlan) -> Iterator[doc.Block]:
    on_chip = [(pool.base, pool.base + pool.size_bytes) for pool in found.memory.on_chip]
    taken = [(one.start, one.end) for one in found.application.reserved if not outside_chip(one.start)]
    low, high = min(start for start, _ in on_chip + taken), max(end for _, end in on_chip + taken)
    rows: dict[str, list[tuple[str, int, int]]] = {}
    for one in found.networks:
        own = [kept.span for kept in found.kept if kept.network == one.name]
        copies = one.spans(BufferKind.RESIDENT)
        works = [piece for span in one.spans() for piece in parts.left_of(span, [*own, *copies])]
        kinds = (("works in", works), ("stays", own), ("weights", copies))
        rows[one.name] = [(kind, *span) for kind, spans in kinds for span in spans]
    if taken:
        rows["the application"] = [("reserved", *span) for span in taken]
    yield doc.MemoryMap(low, high, rows)
    yield doc.Note(f"{low:#010x} to {high:#010x}; {_WORDS}", hint=True)


def _over_time(found: ApplicationPlan, one: PlannedNetwork) -> Iterator[doc.Block]:
    live = [int(size) for size in live_bytes(demand_of(found, one).buffers)]
    times = [step.milliseconds for step in one.compiled.cost.steps][: len(live)]
    if len(live) == len(times) and any(times) and any(live):
        said = f"{one.name}: up to {size_text(max(live))} in {ms_text(sum(times))}"
        yield from (said, doc.LiveMemory(said, list(zip(times, live, strict=True))))
