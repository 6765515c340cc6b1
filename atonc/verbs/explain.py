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

if TYPE_CHECKING:
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
    from atonc.insight.fit import peak, peak_lines
    from atonc.report import explain_text

    network = _network(options)
    layers = _chosen(network, options.node)
    if options.json:
        print(json.dumps(explain_text.as_json(network, layers), indent=1))
    elif not options.quiet:
        spill = spill_lines(network.spilled_bytes, ((step.bound_by, step.milliseconds) for step in network.steps))
        print("\n".join([*spill, *peak_lines(peak(network)), ""]))
        explain_text.print_explained(network, layers, options.verbose or bool(options.node))
    return 0


def _network(options: argparse.Namespace) -> NetworkView:
    place: Path | None = options.positional or options.model
    if place is not None and place.is_dir():
        from atonc.insight.folder import folder_view

        return folder_view(place, None if options.name == "network" else options.name)
    from atonc import generating
    from atonc.insight.ours import network_view
    from atonc.insight.prices import priced

    model, wanted = model_path(options), compiler_options(options, verify=False)
    view = generating.analyze(model, wanted, options.name)
    network = network_view(view)
    return network if options.no_prices else priced(view, network, wanted)


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
