"""`atonc explain`: where every layer runs, which rules decided so, the remedy and what it brings."""

from __future__ import annotations

import argparse
import difflib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from atonc.errors import InputError
from atonc.verbs.common import add_model_options, add_output_options, compiler_options, model_path
from atonc.verbs.compare import is_build

if TYPE_CHECKING:
    from atonc.insight.fit import Lever
    from atonc.insight.types import LayerView, NetworkView


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser(
        "explain",
        help="why every layer runs where it runs, and what to do about it",
        description="Explains a model, or a folder that atonc or ST's compiler wrote.",
    )
    parser.set_defaults(verb=_explain)
    add_model_options(parser)
    parser.add_argument("--node", action="append", default=[], metavar="NAME", help="only this node (repeatable)")
    parser.add_argument("--no-prices", action="store_true", help="do not try the remedies: faster")
    add_output_options(parser)


def _explain(options: argparse.Namespace) -> int:
    from atonc.costs import spill_lines
    from atonc.insight.fit import lever_lines, peak, peak_lines
    from atonc.place.explain import PlacementError
    from atonc.report import explain_text
    from atonc.verbs.generate import with_levers

    try:
        network, tried = _network(options)
    except PlacementError as error:
        raise with_levers(model_path(options), compiler_options(options, verify=False), error) from None
    layers, worst = _chosen(network, options.node), peak(network)
    if options.json:
        print(json.dumps(explain_text.as_json(network, layers, worst, tried or ()), indent=1))
    elif not options.quiet:
        spill = spill_lines(network.spilled_bytes, ((step.bound_by, step.milliseconds) for step in network.steps))
        helps = lever_lines(tried) if tried is not None else []
        explain_text.print_explained([*spill, *peak_lines(worst), *helps], network, layers, _verbose(options))
    return 0


def _verbose(options: argparse.Namespace) -> bool:
    return bool(options.verbose or options.node)


def _network(options: argparse.Namespace) -> tuple[NetworkView, tuple[Lever, ...] | None]:
    """What is to be explained; and where activations spill, what would help, tried."""
    place: Path | None = options.positional or options.model
    if place is not None and is_build(place):
        from atonc.insight.folder import folder_view
        from atonc.options import Options
        from atonc.pipeline import with_asked_clocks

        asked = Options(npu_mhz=options.npu_mhz, cpu_mhz=options.cpu_mhz, flash_mbps=options.flash_mbps)
        name = None if options.name == "network" else options.name
        return folder_view(place, name, lambda machine: with_asked_clocks(machine, asked)), None
    from atonc import generating
    from atonc.insight.fit import levers
    from atonc.insight.ours import network_view
    from atonc.insight.prices import priced

    model, wanted = model_path(options), compiler_options(options, verify=False)
    view = generating.analyze(model, wanted, options.name)
    network = network_view(view)
    if options.no_prices:
        return network, None
    tried = levers(view.compiled.source, wanted) if network.spilled_bytes else None
    return priced(view, network, wanted), tried


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
