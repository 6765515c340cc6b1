"""app_report.html: the application on one page. Times of a second, who waits for whom, and memory by network."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

import numpy as np

from atonc.compiler.place.pools import outside_chip
from atonc.compiler.plan.types import BufferKind
from atonc.delivery.application import memory as parts
from atonc.delivery.application.planning import (
    ApplicationFigures,
    ApplicationPlan,
    PlannedNetwork,
    demand_of,
    live_bytes,
)
from atonc.delivery.application.types import Application, AppNetwork, Span
from atonc.delivery.generate.generating import page_name
from atonc.insight.report.html.page import plain_page, table
from atonc.machine.base.words import listed, ms_text, size_text

_WIDE, _ROW, _TALL = 900, 22, 60  # of drawings
_COLOURS = {"works in": "var(--bar)", "stays": "var(--found)", "weights": "var(--accent)", "reserved": "var(--soft)"}


def page(found: ApplicationPlan, told: ApplicationFigures) -> bytes:
    said = (
        f"{len(found.networks)} networks for {found.application.board}: {100 * told.load:.1f} % of every second, "
        f"{size_text(told.ram_bytes)} of RAM (predicted; not measured on a board)"
    )
    return plain_page("Application", said, _sections(found, told))


def _sections(found: ApplicationPlan, told: ApplicationFigures) -> Iterator[tuple[str, str]]:
    columns = ("network", "latency", "runs a second", "time", "flash is read", "RAM", "constants", "slot")
    rows = [
        (
            *(one.name, ms_text(one.latency_ms), f"{one.per_second:g}", f"{100 * one.load:.1f} %"),
            *(f"{100 * one.flash_load:.1f} %", size_text(one.ram_bytes), size_text(one.constants_bytes)),
            size_text(one.slot_bytes),
        )
        for one in told.networks
    ]
    reports = ", ".join(
        f'<a href="{escape(page_name(one.name))}">{escape(one.name)}</a>' for one in found.application.networks
    )
    yield "A second", table(columns, rows, "Networks") + f"<p>Reports of the networks: {reports}</p>"
    yield "Who waits for whom", _order(found)
    yield "RAM of the chip by network", _map(found)
    yield "RAM over the time of one inference", "".join(_over_time(found, one) for one in found.networks)
    left = max(0.0, 100 - 100 * told.load)
    room = (
        f"A further network shares {size_text(told.ram_bytes - told.kept_bytes - told.resident_bytes)} of RAM with "
        f"these and finds {size_text(told.free_on_chip_bytes)} more on the chip, "
        f"{size_text(told.free_flash_bytes)} of flash and {left:.0f} % of the time."
    )
    yield "Room for more", f"<p>{escape(room)}</p>"


def _order(found: ApplicationPlan) -> str:
    """One network runs at a time: each waits for whoever runs, and followers for who they follow."""
    slowest = max(found.networks, key=lambda one: one.compiled.cost.latency_ms)
    lines = [f"{one.name} runs {_when(one, found.application)}" for one in found.application.networks]
    wait = ms_text(slowest.compiled.cost.latency_ms)
    lines.append(f"One runs at a time, to its end: any other waits up to {wait} for {slowest.name}")
    lines += [f"{one.tensor} of {one.network} stays while {listed(one.survives)} runs" for one in found.kept]
    return f"<ul>{''.join(f'<li>{escape(line)}</li>' for line in lines)}</ul>"


def _when(one: AppNetwork, application: Application) -> str:
    rate = f"{one.per_second:g} times a second"
    if not one.after:
        return rate
    seldom = one.per_second < application.network(one.after).per_second
    return f"behind runs of {one.after}, {rate}" if seldom else f"behind every run of {one.after}"


def _map(found: ApplicationPlan) -> str:
    """Addresses from left to right, a row for each network."""
    on_chip = [(pool.base, pool.base + pool.size_bytes) for pool in found.memory.on_chip]
    taken = [(one.start, one.end) for one in found.application.reserved if not outside_chip(one.start)]
    low, high = min(start for start, _ in on_chip + taken), max(end for _, end in on_chip + taken)
    rows: list[tuple[str, list[tuple[str, Span]]]] = []
    for one in found.networks:
        own = [kept.span for kept in found.kept if kept.network == one.name]
        copies = one.spans(BufferKind.RESIDENT)
        works = [piece for span in one.spans() for piece in parts.left_of(span, [*own, *copies])]
        kinds = (("works in", works), ("stays", own), ("weights", copies))
        rows.append((one.name, [(kind, span) for kind, spans in kinds for span in spans]))
    rows += [("the application", [("reserved", span) for span in taken])] if taken else []
    drawn = [line for number, row in enumerate(rows) for line in _bars(row, number * _ROW, low, high)]
    text = f"{low:#010x} to {high:#010x}; " + ", ".join(f"{kind}: {_WORDS[kind]}" for kind in _COLOURS)
    frame = f'viewBox="0 0 {_WIDE} {len(rows) * _ROW}" role="img" aria-label="RAM by network"'
    return f'<svg {frame}>{"".join(drawn)}</svg><p class="hint">{escape(text)}</p>'


_WORDS = {"works in": "light", "stays": "orange", "weights": "blue", "reserved": "grey"}


def _bars(row: tuple[str, Sequence[tuple[str, Span]]], top: int, low: int, high: int) -> Iterator[str]:
    name, spans = row
    yield f'<text x="0" y="{top + _ROW - 7}" font-size="12" fill="var(--ink)">{escape(name[:24])}</text>'
    left, wide = 180, _WIDE - 180
    for kind, (start, end) in spans:
        if start >= high or end <= low:
            continue
        at = left + wide * (max(start, low) - low) / (high - low)
        size = max(1.0, wide * (min(end, high) - max(start, low)) / (high - low))
        title = escape(f"{name}, {kind}: {start:#010x} to {end:#010x}, {size_text(end - start)}")
        yield (
            f'<rect x="{at:.1f}" y="{top + 3}" width="{size:.1f}" height="{_ROW - 6}" fill="{_COLOURS[kind]}">'
            f"<title>{title}</title></rect>"
        )


def _over_time(found: ApplicationPlan, one: PlannedNetwork) -> str:
    """Live bytes of each step, as wide as the step takes."""
    live = live_bytes(demand_of(found, one).buffers)
    times = np.array([step.milliseconds for step in one.compiled.cost.steps][: live.size])
    ends = np.concatenate([[0.0], np.cumsum(times)])
    if live.size != times.size or not ends[-1] or not live.max():
        return ""
    corners = "".join(
        f"L{_WIDE * a / ends[-1]:.1f},{_TALL - _TALL * value / live.max():.1f}H{_WIDE * b / ends[-1]:.1f}"
        for value, a, b in zip(live, ends, ends[1:], strict=False)
    )
    said = f"{one.name}: up to {size_text(int(live.max()))} in {ms_text(float(ends[-1]))}"
    return (
        f'<p>{escape(said)}</p><svg viewBox="0 0 {_WIDE} {_TALL}" role="img" aria-label="{escape(said)}">'
        f'<path d="M0,{_TALL}{corners}V{_TALL}Z" fill="var(--bar)" stroke="var(--accent)"/></svg>'
    )
