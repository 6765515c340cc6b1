"""`atonc explain`: where every layer runs, which rules decided so, the remedy and what it brings."""

from __future__ import annotations

import argparse
import difflib
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from atonc.doors.verbs.common import add_model_options, add_output_options, compiler_options, model_path
from atonc.doors.verbs.compare import is_build
from atonc.doors.verbs.flags import group
from atonc.machine.base.errors import InputError

if TYPE_CHECKING:
    from atonc.insight.explain.fit import FitLever
    from atonc.insight.explain.types import LayerView, NetworkView


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser(
        "explain",
        help="why every layer runs where it runs, and what to do about it",
        description="Explains a model, or a folder that atonc or ST's compiler wrote.",
    )
    parser.set_defaults(verb=_explain)
    add_model_options(parser)
    parser.add_argument("--node", action="append", default=[], metavar="NAME", help="only this node (repeatable)")
    parser.add_argument("--search", action="store_true", help="which programs were built, and what each brought")
    parser.add_argument("--no-prices", action="store_true", help="do not try the remedies: faster")
    _add_accuracy(parser)
    add_output_options(parser)


def _add_accuracy(parser: argparse.ArgumentParser) -> None:
    found = group(parser, "where accuracy is lost")
    found.add_argument("--accuracy", action="store_true", help="every layer against float, what costs most, remedies")
    found.add_argument("--float", type=Path, metavar="FILE", help="the float model that it was made from")
    inputs = "inputs by name in .npz, or .npy, .csv: real numbers, or codes as integers; else synthetic ones"
    found.add_argument("--input", type=Path, nargs="+", default=[], metavar="FILE", help=inputs)
    found.add_argument("--samples", type=int, default=0, metavar="N", help="at most this many (default all, or 2)")
    found.add_argument("--page", type=Path, metavar="FILE.html", help="write the report page with it")


def _explain(options: argparse.Namespace) -> int:
    from atonc.compiler.place.explain import PlacementError
    from atonc.doors.verbs.generate import with_levers
    from atonc.insight.explain.fit import lever_lines, peak, peak_lines
    from atonc.insight.report import explain_text
    from atonc.insight.report.terminal import show
    from atonc.machine.cost.network import spill_lines

    if options.accuracy:
        return _explain_accuracy(options)
    if options.search:
        return _explain_search(options)
    if options.float or options.input or options.page or options.samples:
        raise InputError("--float, --input, --samples and --page belong to --accuracy", remedy="add --accuracy")
    try:
        network, tried = _network(options)
    except PlacementError as error:
        raise with_levers(model_path(options), compiler_options(options, verify=False), error) from None
    layers, worst = _chosen(network, options.node), peak(network)
    if options.json:
        print(json.dumps(explain_text.as_json(network, layers, worst, tried or ()), indent=1))
    elif options.node and not options.quiet:
        show(explain_text.node_lines(layers))
    elif not options.quiet:
        times = ((step.bound_by, step.milliseconds) for step in network.steps)
        spill = spill_lines(network.memory.spilled_bytes, times)
        helps = lever_lines(tried) if tried is not None else []
        memory = explain_text.memory_lines(spill, peak_lines(worst), helps)
        explain_text.print_explained(memory, network, layers, options.verbose)
    return 0


def _explain_search(options: argparse.Namespace) -> int:
    from atonc.delivery.generate import generating
    from atonc.insight.report import search_text
    from atonc.insight.report.terminal import show

    found = generating.analyze(model_path(options), compiler_options(options, verify=False), options.name).compiled
    if options.json:
        print(json.dumps(search_text.data(found.search, found.decisions), indent=1))
    elif not options.quiet:
        show(search_text.lines(found.search, found.decisions))
    return 0


def _explain_accuracy(options: argparse.Namespace) -> int:
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
    found = explain_accuracy(
        view.compiled, wanted, options.float, options.input, options.samples, not options.no_prices
    )
    report = replace(found, model=view.model)
    if options.page is not None:
        write_file(options.page, html_page(replace(network_view(view), accuracy=report)))
    if options.json:
        print(json.dumps({"accuracy": accuracy_text.as_json(report)}, indent=1))
    elif not options.quiet:
        show(accuracy_text.lines(report, options.verbose))
    return 0


def _network(options: argparse.Namespace) -> tuple[NetworkView, tuple[FitLever, ...] | None]:
    """What is to be explained; and where activations spill, what would help, tried."""
    place: Path | None = options.positional or options.model
    if place is not None and is_build(place):
        from atonc.compiler.compile.pipeline import with_asked_clocks
        from atonc.compiler.request.options import Options
        from atonc.insight.explain.folder import folder_view

        asked = Options(npu_mhz=options.npu_mhz, cpu_mhz=options.cpu_mhz, flash_mbps=options.flash_mbps)
        name = None if options.name == "network" else options.name
        return folder_view(place, name, lambda machine: with_asked_clocks(machine, asked)), None
    from atonc.delivery.generate import generating
    from atonc.insight.explain.fit import levers
    from atonc.insight.explain.ours import network_view
    from atonc.insight.explain.prices import priced

    model, wanted = model_path(options), compiler_options(options, verify=False)
    view = generating.analyze(model, wanted, options.name)
    network = network_view(view)
    if options.no_prices:
        return network, None
    tried = levers(view.compiled.source, wanted) if network.memory.spilled_bytes and not options.node else None
    wished = _chosen(network, options.node)  # only their remedies are tried
    return priced(view, network, wanted, {one.rule.id for layer in wished for one in layer.decisions}), tried


def _chosen(network: NetworkView, names: Sequence[str]) -> list[LayerView]:
    if not names:
        return list(network.layers)
    found = []
    for name in names:
        matching = [layer for layer in network.layers if name in (layer.name, *layer.nodes, *layer.outputs)]
        if not matching:
            known = {known for layer in network.layers for known in (layer.name, *layer.nodes)}
            near = difflib.get_close_matches(name, sorted(known), 3)
            raise InputError(
                f"no node is called {name[:80]!r}",
                where=network.model,
                remedy=f"did you mean {', '.join(near)}?" if near else "`atonc explain -v` lists all nodes",
            )
        found += matching
    return found
