"""The figures that people look for first, and what to do next: four tiles, the rest as a table, the best actions. Each
is worded once, as the summary of the terminal words it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from atonc.compiler.place.usage import RAM_FOR
from atonc.insight.explain.rules import bound_name
from atonc.insight.explain.types import (
    CPU,
    HYBRID,
    NPU,
    PREDICTED,
    UNBUILT,
    Decision,
    LayerView,
    NetworkView,
    error_band,
)
from atonc.insight.report import document as doc
from atonc.machine.base.frozen import dataclass
from atonc.machine.base.words import count, ms_text, size_text
from atonc.machine.hw.machine import milliseconds

MOST_ACTIONS, MOST_STATES = 3, 8
_FLAG = re.compile(r"--[a-z][a-z-]*")


@dataclass(frozen=True)
class KeyFigure:
    name: str  # a word of the glossary
    value: str
    said: str = ""


@dataclass(frozen=True)
class BestAction:
    what: str
    gain: str
    layer: str = ""  # where it matters most


def tiles(network: NetworkView) -> tuple[KeyFigure, ...]:
    """Latency, RAM, flash, CPU share."""
    if network.basis == UNBUILT:
        held = f"compiling; {size_text(network.memory.weights_bytes)} of weights in the model"
        said = {"latency": "compiling", "RAM": "compiling", "flash": held, "CPU share": "compiling"}
        return tuple(KeyFigure(name, "...", text) for name, text in said.items())
    return (
        KeyFigure("latency", ms_text(network.latency_ms), _latency(network)),
        _sized("RAM", network.memory.ram_bytes, doc.ram_row(network.memory)),
        _sized("flash", network.memory.flash_bytes, doc.flash_row(network.memory)),
        _cpu_share(network),
    )


def _latency(network: NetworkView) -> str:
    bounds = error_band(network).span(network.latency_ms)
    said = f"predicted, error bounds {bounds}" if network.basis == PREDICTED else network.basis
    return f"{said}; measured {ms_text(network.measured.total_ms)}" if network.measured else said


def _sized(name: str, size_bytes: int, row: doc.SummaryRow) -> KeyFigure:
    """What the row of the terminal says behind the size."""
    value = size_text(size_bytes)
    return KeyFigure(name, value, row.text.removeprefix(value).removeprefix(":").strip())


def _cpu_share(network: NetworkView) -> KeyFigure:
    on_cpu = [(one.kind, one.name, one.milliseconds) for one in network.layers if one.on in (CPU, HYBRID)]
    share = sum(ms for _, _, ms in on_cpu) / (network.latency_ms or 1.0)
    value = doc.share_text(share)
    return KeyFigure("CPU share", value, doc.cpu_row(on_cpu, network.latency_ms).text.replace(f" ({value})", ""))


def more_figures(network: NetworkView) -> Iterator[KeyFigure]:
    if (limit := network.limit) is not None:
        best = ms_text(milliseconds(limit.practical, network.npu_mhz))
        times = f"{limit.times_practical:.2f}x attainable minimum ({best})"
        yield KeyFigure("attainable minimum", f"{times}, {limit.times_absolute:.2f}x theoretical minimum")
    bound = next(iter(network.bound_by.items()), None)
    if bound is not None:
        yield KeyFigure("bottleneck", f"{bound_name(bound[0])}, {100 * bound[1]:.0f} % of the time")
    on_cpu = network.count(CPU) + network.count(HYBRID)
    yield KeyFigure("epochs", f"{network.count(NPU):,} on the NPU, {on_cpu:,} on the CPU")
    yield KeyFigure("cycles", f"{network.cycles:,}")
    if network.basis == PREDICTED and network.st_cycles:
        yield KeyFigure("ST's estimate", f"{network.st_cycles:,} cycles")
    if network.macs:
        yield KeyFigure("multiplications", f"{network.macs / 1e6:,.1f} M")
        yield KeyFigure("MAC/cycle", f"{network.macs / max(1, network.cycles):.1f}")
    if network.energy.known:
        yield KeyFigure("energy", f"{network.energy}; estimated")
    yield KeyFigure("weights", size_text(network.memory.weights_bytes))
    uses = network.memory.ram_by_use
    if len(uses) > 1:
        yield KeyFigure("RAM", ", ".join(f"{RAM_FOR[use]} {size_text(size)}" for use, size in uses.items()))
    if network.states:
        yield KeyFigure("states", "; ".join(map(str, network.states[:MOST_STATES])) + _more(network))


def _more(network: NetworkView) -> str:
    left = len(network.states) - MOST_STATES
    return f"; and {left} more" if left > 0 else ""


def best_actions(network: NetworkView) -> list[BestAction]:
    """Options that were compiled, the best first; then what changes of the model may gain: where they were tried what
    they gained, else at most what their layers take now."""
    options = [BestAction(flags, brings) for flags, brings in network.advice]
    found: dict[tuple[str, str], list[tuple[LayerView, Decision]]] = {}
    for layer in network.layers:
        for one in layer.decisions:
            if one.remedy and layer.cycles:
                found.setdefault((one.rule.id, one.remedy), []).append((layer, one))
    ranked = sorted(found.items(), key=lambda group: -sum(map(_gained, group[1])))
    known = {flag for one in options for flag in one.what.split() if flag.startswith("--")}
    changes = [_action(what, own, network) for (_, what), own in ranked if not known & set(_FLAG.findall(what))]
    return [*options, *changes][:MOST_ACTIONS]


def _gained(row: tuple[LayerView, Decision]) -> int:
    layer, one = row
    return one.price.cycles if one.price and one.price.tried else layer.cycles


def _action(what: str, own: list[tuple[LayerView, Decision]], network: NetworkView) -> BestAction:
    gained = ms_text(milliseconds(sum(map(_gained, own)), network.npu_mhz))
    tried = all(one.price and one.price.tried for _, one in own)
    where = count(len(own), "layer")
    untried = f"saves at most {gained}, all that {where} take; not tried"
    gain = f"saves {gained} in {where} (tried)" if tried else untried
    return BestAction(what, gain, max(own, key=_gained)[0].name)
