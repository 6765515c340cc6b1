"""What `atonc explain` shows: every layer, where it runs, its bottleneck, which rules decided so, and what to do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from atonc.compiler.search import saved
from atonc.compiler.search.log import Attempt
from atonc.compiler.search.saved import KEY
from atonc.compiler.select.decisions import Decisions
from atonc.insight.explain.rules import bound_name
from atonc.insight.explain.types import (
    CPU,
    HYBRID,
    NOTHING,
    NPU,
    PREDICTED,
    Decision,
    LayerView,
    NetworkView,
    error_band,
    span_of,
)
from atonc.insight.report import columns, parts
from atonc.insight.report import document as doc
from atonc.machine.base.errors import sentence
from atonc.machine.base.frozen import dataclass
from atonc.machine.base.words import count, elided, ms_text
from atonc.machine.cost.network import spill_lines

if TYPE_CHECKING:
    from atonc.compiler.place.explain import PlacementError
    from atonc.insight.explain.actions import Peak, TriedOption

LONG_NAME = 72
_MOST_SLOW = 12
_MOST_LOST = 3
_MOST_OPTIONS = 4
OPTIONS = "options that help, each compiled, the best first"


@dataclass(frozen=True)
class Known:
    """What was tried for the network as a whole."""

    tried: Sequence[TriedOption] | None = None  # options that help, the best first; None: nothing was tried
    of_folder: bool = False  # without the model nothing can be tried


NOTHING_TRIED = Known()


def document(
    network: NetworkView,
    layers: Sequence[LayerView],
    known: Known = NOTHING_TRIED,
    everything: bool = False,
    verbose: bool = False,
) -> doc.Document:
    """The costliest layers; `everything`: all of them with every reason; `verbose`: with every form behind the grades,
    too."""
    from atonc.insight.explain.actions import peak

    spill = spill_lines(network.memory.spilled_bytes, ((step.bound_by, step.milliseconds) for step in network.steps))
    alarms = [doc.Marked(doc.Mark.ALARM, line) for line in spill]
    tried = _tried(known, len(known.tried or ()) if everything or verbose else _MOST_OPTIONS)
    if everything or verbose:
        most, *buffers = _peak_lines(peak(network)) or [""]
        busy = [line for layer in layers if layer.on != NOTHING for line in layer_lines(layer)]
        whole = doc.Chapter("", [*alarms, *_whole(network, layers, verbose)])
        sections = [whole, doc.Chapter("", busy), doc.Chapter(doc.head(most), buffers), tried]
    else:
        sections = [_headline(network, [*alarms, *map(doc.Note, network.notes)]), _costliest(network, layers), tried]
    on_cpu = [(one.kind, one.name, one.milliseconds) for one in network.layers if one.on in (CPU, HYBRID)]
    summary = (
        doc.latency_row(network.latency_ms, f"{network.basis}{span_of(network)}", network.clocks),
        doc.ram_row(network.memory),
        doc.flash_row(network.memory),
        doc.cpu_row(on_cpu, network.latency_ms),
        parts.energy_row(network.energy),
        *_advice(network, known),
    )
    return doc.Document(sections=sections, summary=summary, data=lambda: as_json(network, layers, known))


def layer_document(network: NetworkView, layers: Sequence[LayerView], known: Known) -> doc.Document:
    """`--layer`: these layers and nothing of the rest."""
    said = [line for layer in layers for line in layer_lines(layer)]
    return doc.Document(sections=[doc.Chapter("", said)], data=lambda: as_json(network, layers, known))


def _whole(network: NetworkView, layers: Sequence[LayerView], verbose: bool) -> Iterator[doc.Block]:
    """What is true of all layers."""
    idle = sum(layer.on == NOTHING for layer in layers)
    free = f", {idle} cost nothing" if idle else ""
    on_cpu = sum(layer.on in (CPU, HYBRID) for layer in layers)
    bounds = list(network.bound_by.items())[:5]
    shares = ", ".join(f"{bound_name(label)} {100 * share:.0f} %" for label, share in bounds)
    yield (
        f"{network.model}, compiled by {network.tool}: {count(len(network.steps), 'epoch')}, "
        f"{ms_text(network.latency_ms)} {network.basis}{span_of(network)} at {network.clocks}"
    )
    yield f"{count(len(layers), 'layer')}, {on_cpu} of them on the CPU{free}; bottlenecks: {shares}"
    yield f"{network.memory.ram_text}, weights {network.memory.weights_bytes:,} bytes"
    yield from parts.energy_lines(network.energy)
    if network.basis == PREDICTED:
        yield doc.Marked(doc.Mark.DOUBT, f"expected error of the prediction: {error_band(network)}")
    yield from limit_lines(network)
    yield from map(doc.Note, network.notes)
    yield from parts.silicon_lines(network.silicon, verbose)
    yield from coverage_lines(network, verbose)


def limit_lines(network: NetworkView) -> list[str]:
    """How near it is to what the chip could do, and which layers are furthest from it."""
    limit = network.limit
    if limit is None:
        return []
    worst = sorted((one for one in network.layers if one.lost_cycles), key=lambda one: -one.lost_cycles)[:_MOST_LOST]
    most = ", ".join(f"{elided(one.name, LONG_NAME)} {100 * one.lost_cycles / network.cycles:.0f} %" for one in worst)
    return [f"{limit}" + (f"; largest losses, by share of the time: {most}" if most else "")]


def coverage_lines(network: NetworkView, verbose: bool) -> list[str]:
    """Nodes that the quantiser left in float, and why."""
    found = network.coverage
    if found is None or not found.float_nodes:
        return []
    nodes = sorted(found.float_nodes, key=lambda node: -node.size_bytes)
    share = f" {found.percent:.1f} % of the operators that compute; {len(nodes)} left in float"
    out = [f"  {node.kind} {elided(node.name, LONG_NAME)} ({node.size_bytes:,} bytes): {node.why}" for node in nodes]
    title = doc.head("quantised:", f"{share} ({found.float_bytes:,} bytes)")
    return [title, *doc.at_most(len(out) if verbose else _MOST_SLOW, out)]


def _numbers(layer: LayerView) -> str:
    return f"epoch {layer.steps[0]}" if len(layer.steps) == 1 else f"epochs {layer.steps[0]} to {layer.steps[-1]}"


def layer_lines(layer: LayerView) -> list[str]:
    if layer.on == NOTHING:
        return [f"{layer.kind} {elided(layer.name, LONG_NAME)}: costs nothing, the bytes stay where they are"]
    place = _numbers(layer) if layer.steps else "in the epochs of another layer"
    name, figures = f"{layer.kind} {elided(layer.name, LONG_NAME)}: ", ", ".join((place, *columns.words(layer)))
    out: list[str] = [doc.Marked(doc.Mark.PLACE, layer.on.upper(), name, f", {figures}")]
    if layer.chains:
        out.append("    " + "; ".join(layer.chains) + (f" ({', '.join(layer.modes)})" if layer.modes else ""))
    for one in layer.decisions:
        if one.avoided:
            out.append(doc.Marked(doc.Mark.RULE, one.rule.id, "    ", f": {sentence(one.seen)}"))
            continue
        seen = sentence(f"seen: {one.seen}")
        out.append(doc.Marked(doc.Mark.RULE, one.rule.id, "    ", f": {one.rule.sentence}"))
        out.append(f"        {seen} {sentence(f'Limit: {one.limit}')}")
        if one.remedy:
            out.append(doc.Marked(doc.Mark.REMEDY, f"fix: {sentence(one.remedy)}{_price(one)}", "        "))
        elif one.price is not None and one.price.tried:
            out.append(f"        tried without gain: {sentence(one.price.how)}")
    return out


def _price(one: Decision) -> str:
    price = one.price
    if price is None:
        return ""
    if not price.tried:
        return f" Brings {price.how}." if one.rule.id.startswith("CPU-") else ""
    saved = f"{abs(price.bytes):,} bytes of RAM {'less' if price.bytes > 0 else 'more'}" if price.bytes else ""
    faster = f"{abs(price.cycles):,} cycles {'less' if price.cycles > 0 else 'more'}" if price.cycles else "no cycles"
    return f" Tried: {', '.join(filter(None, (faster, saved)))} ({price.how})."


def as_json(network: NetworkView, layers: Sequence[LayerView], known: Known = NOTHING_TRIED) -> dict[str, Any]:
    from atonc.insight.explain.actions import peak

    top = peak(network)
    return {
        **doc.fields_of(network, "model", "tool", "board", "cycles", "latency_ms"),
        **error_band(network).as_data(network.latency_ms),
        "clocks": doc.fields_of(network, "npu_mhz", "cpu_mhz"),
        "bound_by": dict(network.bound_by),
        "limit": network.limit.as_dict() if network.limit else None,
        **parts.energy_data(network.energy),
        "notes": list(network.notes),
        "coverage": _coverage_data(network),
        "silicon": parts.silicon_data(network.silicon) if network.silicon else None,
        "memory": network.memory.as_dict(),
        "spilled_bytes": network.memory.spilled_bytes,
        "peak": None if top is None else _peak_data(top),
        "levers": [_option_data(one) for one in known.tried or ()],
        "layers": [layer_data(layer) for layer in layers],
    }


def _peak_data(top: Peak) -> dict[str, Any]:
    buffers = [doc.fields_of(buffer, "name", "kind", "size_bytes", "layer") for buffer in top.buffers]
    return {"epoch": top.step.number, "title": top.step.title, "live_bytes": top.live_bytes, "buffers": buffers}


def _option_data(one: TriedOption) -> dict[str, Any]:
    names = ("what=flags", "command", "saved_bytes", "unspilled_bytes", "cycles", "marks")
    after = doc.fields_of(one.after, "latency_ms", "cpu_ms", "ram_bytes", "flash_bytes", "cosine", "fits")
    return {**doc.fields_of(one, *names), **after}


def _coverage_data(network: NetworkView) -> dict[str, Any] | None:
    found = network.coverage
    if found is None:
        return None
    nodes = [doc.fields_of(node, "node=name", "op=kind", "size_bytes", "why") for node in found.float_nodes]
    return {"percent": found.percent, "float_ops": nodes}


def layer_data(layer: LayerView) -> dict[str, Any]:
    names = ("name", "op=kind", "nodes", "on", "epochs=steps", "shape", "macs")
    return {
        **doc.fields_of(layer, *names),
        "milliseconds": layer.milliseconds,
        **columns.figures(layer),
        "bound_by": dict(layer.bound_by),
        "limited_by": layer.limit.held_by if layer.limit else "",
        **doc.fields_of(layer, "chains", "modes"),
        "decisions": [one.as_dict() for one in layer.decisions],
    }


MOST_LAYERS, MOST_FLAGS = 10, 100  # layers; characters of the options that were tried


def _headline(network: NetworkView, alarms: Sequence[doc.Block]) -> doc.Chapter:
    free = sum(layer.on == NOTHING for layer in network.layers)
    steps = f"{count(len(network.layers), 'layer')} in {parts.epochs_text(len(network.steps), network.count(NPU))}"
    steps += f", {count(free, 'layer')} at no cost" if free else ""
    title = doc.head(elided(network.model, doc.NAME), f", compiled by {network.tool}: {steps}")
    return doc.Chapter(title, [parts.bounds_table(network.bound_by, "{:3.0f} % of the time"), *alarms])


def _costliest(network: NetworkView, layers: Sequence[LayerView]) -> doc.Chapter:
    busy = sorted((layer for layer in layers if layer.cycles), key=lambda layer: -layer.cycles)
    shown = busy[:MOST_LAYERS]
    share = 100 * sum(layer.cycles for layer in shown) / max(1, network.cycles)
    every = "every layer" if len(layers) == len(shown) else "every layer that takes time"
    title = f"the {len(shown)} costliest of {count(len(layers), 'layer')}" if len(shown) < len(busy) else every
    said, out = set[str](), list[str]()
    for layer in shown:
        out += [_layer_line(layer, network), *_what_to_do(layer, said)]
    if len(shown) < len(busy):
        out.append("all layers with all reasons: --all; one of them: --layer NAME; glossary: --terms")
    guessed = "; ~: rough estimate" if any(_guessed(layer, network) for layer in shown) else ""
    what = f" ({share:.0f} % of the time: share, cycles, where{guessed}), with actions"
    return doc.Chapter(doc.head(title, what), out)


def _guessed(layer: LayerView, network: NetworkView) -> bool:
    return any(not step.known for step in network.steps if step.number in layer.steps)


def _layer_line(layer: LayerView, network: NetworkView) -> doc.Marked:
    guess = "~" if _guessed(layer, network) else ""
    before = f"{100 * layer.cycles / max(1, network.cycles):5.1f} % {f'{guess}{layer.cycles:,}':>12}  "
    place = (layer.on, doc.Mark.ON_CPU if layer.on in (CPU, HYBRID) else None)
    return doc.Marked.of((before, None), place, (f"  {layer.title} {elided(layer.name, doc.NAME)}", None))


def _what_to_do(layer: LayerView, said: set[str]) -> list[str]:
    """The remedy that brings most; its words once, for the layers behind only what it brings them."""
    tried = [one for one in layer.decisions if one.remedy and one.price is not None and one.price.tried]
    if not tried:
        open_ = next((one for one in layer.decisions if one.remedy), None)
        return [_once(open_, f"{_why(open_)}not tried: {open_.remedy}", said)] if open_ is not None else []
    best = max(tried, key=lambda one: one.price.cycles if one.price is not None else 0)
    assert best.price is not None
    gained = f"{best.price.cycles:,} cycles less" if best.price.cycles > 0 else f"{best.price.bytes:,} bytes less RAM"
    why, brings = _why(best), f"; {elided(best.price.how, MOST_FLAGS)}: {gained}"
    return [_once(best, f"{why}{best.remedy}{brings}", said, f"{why}as above{brings}")]


def _why(one: Decision) -> str:
    """Figures of this layer, where its rule has a limit in numbers."""
    return f"{one.seen} (limit: {one.limit}); " if one.limit != one.rule.limit else ""


def _once(one: Decision, words: str, said: set[str], again: str = "as above") -> doc.Marked:
    told = f"{one.rule.id} {one.remedy}"
    shown = again if told in said else words
    said.add(told)
    return doc.Marked.of((" " * 9, None), (one.rule.id, doc.Mark.RULE), (f": {shown}", doc.Mark.REMEDY), hang=11)


def _advice(network: NetworkView, known: Known) -> list[doc.SummaryRow]:
    """The option that brings most and, if something has to be accepted for it, the best one without that."""
    best = known.tried[0] if known.tried else None
    plain = next((one for one in known.tried or () if not one.marks and one.gained_ms > 0), best)
    if known.of_folder:
        custom = " --custom FILE" if "--custom" in (network.options or {}) else ""
        said = f"tries options that help (MODEL: {elided(network.model, doc.NAME)})"
        return [doc.next_row(said, f"atonc explain MODEL{custom}")]
    rows = [("next", best), *([("or", plain)] if plain is not best else [])]
    return [doc.SummaryRow(label, one.brings, doc.Mark.REMEDY, one.command) for label, one in rows if one]


def _tried(known: Known, most: int) -> doc.Chapter:
    if known.tried is None:
        return doc.Chapter("", [])
    title = (
        "options that help, each compiled, the best first" if known.tried else "no option that applies brings anything"
    )
    return doc.Chapter(doc.head(title), _option_lines(known.tried, most), close=True)


def _option_lines(found: Sequence[TriedOption], most: int) -> list[str]:
    """What each option brings, and the command to paste."""
    out: list[str] = []
    for number, one in enumerate(found[:most], 1):
        command = doc.Marked(doc.Mark.COMMAND, one.command, "     ")
        out += [doc.Marked(doc.Mark.HEAD, one.flags, f"  {number}. ", f": {one.brings}"), command]
    return [*out, f"  and {len(found) - most} more (--all)"] if len(found) > most else out


def shortage_lines(error: PlacementError, tried: Sequence[TriedOption]) -> list[str]:
    """What the user of a model that does not fit wants to know, behind the error itself."""
    found = error.shortage
    lines = [f"live in step {found.peak_step + 1} ({found.peak_title}):"]
    lines += [f"  {b.size_bytes:12,} {b.kind:10} {b.name[:70]}" for b in found.live[:12]]
    if not tried:
        return [*lines, "no option lowers the demand; a smaller input, shorter states or fewer channels would"]
    return [*lines, f"{OPTIONS}:", *_option_lines(tried, len(tried))]


def _peak_lines(found: Peak | None, most: int = 6) -> list[str]:
    if found is None:
        return []
    lines = [f"peak of memory: {found.live_bytes:,} bytes live in epoch {found.step.number} ({found.step.title})"]
    lines += [f"  {b.size_bytes:12,} {b.kind:10} {b.name[:70]}" for b in found.buffers[:most]]
    more = len(found.buffers) - most
    return [*lines, f"  and {more} more"] if more > 0 else lines


_DECIDED = {"fetched": "copied ahead", "by_dma": "copied by the DMA"}


def search_document(attempts: Sequence[Attempt], decisions: Decisions) -> doc.Document:
    built: list[doc.Block] = []
    for number, one in enumerate(attempts, 1):
        figures = f"{one.cycles:,} cycles, {one.peak_bytes:,} bytes at the peak: " if one.cycles else ""
        built.append(f"  {number:2}  {one.reason}")
        built.append(f"      {figures}{one.verdict}" + (f" ({one.seen})" if one.seen else ""))
    decided = saved.as_json(replace(decisions, made_for=None))
    title = f"{len(attempts)} programs were built:" if len(attempts) > 1 else "one program was built:"
    other = "decided: " + ("nothing otherwise than what is tried first" if not decided else "")
    return doc.Document(
        sections=[
            doc.Chapter(title, built),
            doc.Chapter(other, [f"  {_DECIDED.get(name, name)}: {_value(value)}" for name, value in decided.items()]),
        ],
        data=lambda: {"search": [asdict(one) for one in attempts], KEY: saved.as_json(decisions)},
    )


def _value(value: Any) -> str:
    if isinstance(value, dict | list | tuple):
        shown = [str(one.get("constant", one)) if isinstance(one, dict) else str(one) for one in value][:4]
        return ", ".join(shown) + (f" and {len(value) - 4} more" if len(value) > 4 else "")
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)
