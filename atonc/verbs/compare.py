"""`atonc compare A B`: two builds side by side. Each is a folder (ours or ST's) or a model to compile."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from atonc.errors import InputError
from atonc.verbs.common import add_output_options

if TYPE_CHECKING:
    from atonc.insight.types import NetworkView


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser("compare", help="two builds side by side: epochs, cycles, memory, layers")
    parser.set_defaults(verb=_compare)
    for side in ("a", "b"):
        parser.add_argument(side, type=Path, metavar=side.upper(), help="folder of a build, or a model to compile")
    parser.add_argument("--board", default="stm32n6570-dk", help="for models (default stm32n6570-dk)")
    parser.add_argument("--max-ratio", type=float, default=0.0, metavar="R", help="gate: exit 1 if B takes longer")
    add_output_options(parser)


def _compare(options: argparse.Namespace) -> int:
    from atonc.insight.compare import compare
    from atonc.report import compare_text

    found = compare(network(options.a, options.board), network(options.b, options.board))
    if options.json:
        print(json.dumps(compare_text.as_json(found), indent=1))
    elif not options.quiet:
        print("\n".join(compare_text.lines(found, options.verbose)))
    ratio = found.figures[0].ratio
    return int(bool(options.max_ratio and ratio is not None and ratio > options.max_ratio))


def network(place: Path, board: str = "stm32n6570-dk") -> NetworkView:
    """The picture of a folder or of a model."""
    if place.is_dir():
        from atonc.insight.folder import folder_view

        return folder_view(place)
    if not place.is_file():
        raise InputError("there is no such file or folder", where=str(place))
    from atonc import generating
    from atonc.insight.ours import network_view
    from atonc.options import Options

    return network_view(generating.analyze(place, Options(board=board, verify=False)))
