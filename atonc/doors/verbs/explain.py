"""`atonc explain`: where every layer runs, which rules decided so, the remedy and what it brings."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from atonc.compiler.request.options import Options
from atonc.delivery.generate.comparing import is_build
from atonc.doors.verbs.common import add_model_options, add_output_options, compiler_options, model_path
from atonc.doors.verbs.compile_options import ModelOptions
from atonc.doors.verbs.documents import file_hash, print_document
from atonc.doors.verbs.flags import add_declared
from atonc.machine.base.declare import AGAIN, PLAIN, SEVERAL, Takes, option
from atonc.machine.base.errors import InputError
from atonc.machine.base.frozen import dataclass
from atonc.machine.base.words import instead

if TYPE_CHECKING:
    from atonc.compiler.compile.compile_view import CompileView
    from atonc.insight.explain.types import LayerView, NetworkView
    from atonc.insight.report.explain_text import Known


LOCAL = Takes(local=True)
LOSSES = "where accuracy is lost"


@dataclass(frozen=True)
class ExplainOptions:
    """How much is explained, and of what."""

    layer: tuple[str, ...] = option(
        (), "--layer --node", PLAIN, "only this layer (repeatable)", metavar="NAME", takes=Takes(many=AGAIN)
    )
    all: bool = option(False, "--all", PLAIN, "every layer with every reason, not the ten costliest")
    prices: bool = option(True, "--no-prices", PLAIN, "do not try the remedies: faster")
    search: bool = option(False, "--search", PLAIN, "which programs were built, and what each brought", takes=LOCAL)
    terms: bool = option(
        False, "--terms", PLAIN, "what the words mean: epoch, feature, composed, ...; needs no model", takes=LOCAL
    )
    pager: bool = option(
        False, "--pager", PLAIN, "on a terminal, page by page with the program that PAGER names", takes=LOCAL
    )


@dataclass(frozen=True)
class AccuracyOptions:
    """Whether losses are measured, and with what."""

    accuracy: bool = option(False, "--accuracy", LOSSES, "every layer against float, what costs most, remedies")
    float: Path | None = option(
        None, "--float", LOSSES, "the float model that it was made from", metavar="FILE", parse=Path, takes=LOCAL
    )
    input: tuple[Path, ...] = option(
        (), "--input", LOSSES, "inputs by name in .npz, or .npy, .csv: real numbers, or codes as integers; else "
        "synthetic ones", metavar="FILE", parse=Path, takes=Takes(many=SEVERAL, local=True),
    )  # fmt: skip
    samples: int = option(0, "--samples", LOSSES, "at most this many (default all, or 2)", metavar="N", parse=int)
    page: Path | None = option(
        None, "--page", LOSSES, "write the report page with it", metavar="FILE.html", parse=Path, takes=LOCAL
    )


# all that `explain` is asked for: its form in `serve` follows from it
DECLARED = (ModelOptions, Options, ExplainOptions, AccuracyOptions)


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser(
        "explain",
        help="why every layer runs where it runs, and what to do about it",
        description="Explains a model, or a folder that atonc or ST's compiler wrote.",
    )
    parser.set_defaults(verb=_explain)
    add_model_options(parser)
    add_declared(parser, ExplainOptions)
    add_declared(parser, AccuracyOptions)
    add_output_options(parser)


def _explain(options: argparse.Namespace) -> int:
    from atonc.compiler.compile.reproduce import MODEL_HASH
    from atonc.compiler.place.explain import PlacementError
    from atonc.doors.verbs.generate import with_levers
    from atonc.insight.explain.remedies import peak
    from atonc.insight.report import explain_text

    if options.terms:
        return _terms(options)
    if options.accuracy:
        return _explain_accuracy(options)
    if options.search:
        return _explain_search(options)
    if options.float or options.input or options.page or options.samples:
        raise InputError("--float, --input, --samples and --page belong to --accuracy", remedy="add --accuracy")
    try:
        network, known = _network(options)
    except PlacementError as error:
        raise with_levers(model_path(options), compiler_options(options, verify=False), error) from None
    layers = chosen_layers(network, options.layer)
    if options.json:
        data = explain_text.as_json(network, layers, peak(network), known.levers or ())
        print_document("explain", data, network.reproduce.get(MODEL_HASH))
    elif not options.quiet:
        _show(text_lines(network, layers, known, options), options)
    return 0


def text_lines(
    network: NetworkView, layers: Sequence[LayerView], known: Known, options: argparse.Namespace
) -> list[str]:
    from atonc.insight.explain.remedies import lever_lines, peak, peak_lines
    from atonc.insight.report import explain_text
    from atonc.machine.cost.network import spill_lines

    if options.layer:
        return explain_text.node_lines(layers)
    spill = spill_lines(network.memory.spilled_bytes, ((step.bound_by, step.milliseconds) for step in network.steps))
    helps = lever_lines(known.levers) if known.levers is not None else []
    if not (options.all or options.verbose):
        details = explain_text.short_lines(network, layers, explain_text.alarms(spill))
        return [*details, *explain_text.sections(helps), *explain_text.summary(network, known)]
    memory = explain_text.sections(peak_lines(peak(network)), helps)
    details = [*explain_text.alarms(spill), *explain_text.lines(network, layers, options.verbose)]
    return [*details, "", *memory, *explain_text.summary(network, known)]


def _show(lines: Sequence[str], options: argparse.Namespace) -> None:
    from atonc.insight.report.terminal import show, show_paged

    (show_paged if options.pager else show)(lines)


def _terms(options: argparse.Namespace) -> int:
    from atonc.insight.report import about_text

    if options.json:
        print_document("terms", about_text.term_data())
    else:
        _show(about_text.term_lines(), options)
    return 0


def _explain_search(options: argparse.Namespace) -> int:
    from atonc.delivery.generate import generating
    from atonc.insight.report import explain_text
    from atonc.insight.report.terminal import show

    found = generating.analyze(model_path(options), compiler_options(options, verify=False), options.name).compiled
    if options.json:
        print_document(
            "search", explain_text.search_data(found.search, found.decisions), file_hash(model_path(options))
        )
    elif not options.quiet:
        show(explain_text.search_lines(found.search, found.decisions))
    return 0


def _explain_accuracy(options: argparse.Namespace) -> int:
    from atonc.compiler.compile.reproduce import MODEL_HASH
    from atonc.delivery.generate import generating, preflight
    from atonc.insight.accuracy.explain import explain_accuracy
    from atonc.insight.explain.ours import network_view
    from atonc.insight.report import accuracy_text
    from atonc.insight.report.html import html_page
    from atonc.insight.report.terminal import show
    from atonc.machine.base.disk import write_file

    preflight.check_file(options.page)
    wanted = compiler_options(options, verify=False)
    view = generating.analyze(model_path(options), wanted, options.name)
    found = explain_accuracy(view.compiled, wanted, options.float, options.input, options.samples, options.prices)
    report = replace(found, model=view.model)
    if options.page is not None:
        write_file(options.page, html_page(replace(network_view(view), accuracy=report)))
    if options.json:
        print_document("accuracy", {"accuracy": accuracy_text.as_json(report)}, view.reproduce.get(MODEL_HASH))
    elif not options.quiet:
        show(accuracy_text.lines(report, options.verbose))
    return 0


def _network(options: argparse.Namespace) -> tuple[NetworkView, Known]:
    """What is to be explained, and what is known of the whole."""
    from atonc.insight.report.explain_text import Known

    place: Path | None = options.positional or options.model
    if place is not None and is_build(place):
        from atonc.compiler.compile.pipeline import with_asked_clocks
        from atonc.insight.explain.folder import folder_view

        asked = Options(npu_mhz=options.npu_mhz, cpu_mhz=options.cpu_mhz, flash_mbps=options.flash_mbps)
        name = None if options.name == "network" else options.name
        return folder_view(place, name, lambda machine: with_asked_clocks(machine, asked)), Known()
    from atonc.delivery.generate import generating

    model, wanted = model_path(options), compiler_options(options, verify=False)
    return network_of(generating.analyze(model, wanted, options.name), wanted, options)


def network_of(view: CompileView, wanted: Options, options: argparse.Namespace) -> tuple[NetworkView, Known]:
    """A compilation with the remedies that were tried, as far as they are asked for."""
    from atonc.insight.explain.ours import network_view
    from atonc.insight.explain.remedies import levers, priced
    from atonc.insight.report.explain_text import Known

    network = network_view(view)
    if not options.prices:
        return network, Known(outlook=view.resident_outlook)
    tried = levers(view.compiled.source, wanted) if network.memory.spilled_bytes and not options.layer else None
    wished = chosen_layers(network, options.layer)  # only their remedies are tried
    rules = {one.rule.id for layer in wished for one in layer.decisions}
    return priced(view, network, wanted, rules), Known(tried, view.resident_outlook)


def chosen_layers(network: NetworkView, names: Sequence[str]) -> list[LayerView]:
    if not names:
        return list(network.layers)
    found = []
    for name in names:
        matching = [layer for layer in network.layers if name in (layer.name, *layer.nodes, *layer.outputs)]
        if not matching:
            known = [one for layer in network.layers for one in (layer.name, *layer.nodes)]
            raise InputError(f"no layer is called {name[:80]!r}", where=network.model, remedy=instead(name, known))
        found += matching
    return found
