"""`atonc compare A B`: two builds side by side. Each is a folder (ours or ST's) or a model to compile."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from atonc.doors.verbs.flags import add_output_options, add_single
from atonc.machine.base.errors import InputError

if TYPE_CHECKING:
    from atonc.insight.explain.accuracy import OutputAgreement
    from atonc.insight.explain.types import NetworkView


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser(
        "compare", help="two builds side by side: epochs, cycles, memory, layers, and accuracy on given inputs"
    )
    parser.set_defaults(verb=_compare)
    for side in ("a", "b"):
        parser.add_argument(side, type=Path, metavar=side.upper(), help="folder of a build, its C file, or a model")
    parser.add_argument("--input", type=Path, action="append", default=[], metavar="FILE", help="run both on this too")
    add_single(parser, "board", seed="run both on a photo-like input made from this number")
    parser.set_defaults(seed=None)  # None: only what `--input` names is run
    parser.add_argument("--html", type=Path, metavar="FILE", help="write both builds as one page, layers paired")
    parser.add_argument("--min-cosine", type=float, default=0.0, metavar="C", help="gate: exit 1 if an output is below")
    parser.add_argument("--max-ratio", type=float, default=0.0, metavar="R", help="gate: exit 1 if B takes longer")
    add_output_options(parser)


def _compare(options: argparse.Namespace) -> int:
    from atonc.insight.explain.compare import compare
    from atonc.insight.report import compare_text

    outputs = _outputs(options) if options.input or options.seed is not None or options.min_cosine else ()
    found = compare(network(options.a, options.board), network(options.b, options.board), outputs)
    if options.html:
        from atonc.insight.report.html import compare_page
        from atonc.machine.base.disk import write_file

        write_file(options.html, compare_page(found))
    if options.json:
        print(json.dumps(compare_text.as_json(found), indent=1))
    elif not options.quiet:
        print("\n".join(compare_text.lines(found, options.verbose)))
    ratio = found.figures[0].ratio
    slower = options.max_ratio and ratio is not None and ratio > options.max_ratio
    apart = any(output.cosine < options.min_cosine for output in outputs)
    return int(bool(slower or apart))


def _outputs(options: argparse.Namespace) -> tuple[OutputAgreement, ...]:
    """Both builds on the emulator; models are compiled into a folder for that."""
    from tempfile import TemporaryDirectory

    from atonc.insight.explain.accuracy import agreement
    from atonc.machine.emu.network import load

    with TemporaryDirectory() as work:
        folders = [
            _built(place, options.board, Path(work) / side) for side, place in (("a", options.a), ("b", options.b))
        ]
        return agreement(load(folders[0]), load(folders[1]), options.input, options.seed or 0)


def _built(place: Path, board: str, folder: Path) -> Path:
    if is_build(place):
        return place
    from atonc.compiler.request.options import Options
    from atonc.delivery.generate import generating

    generating.generate(generating.analyze(_existing(place), Options(board=board, verify=False)), folder)
    return folder


def is_build(place: Path) -> bool:
    """A folder, or the C file of one network where a folder holds several."""
    return place.is_dir() or (place.suffix == ".c" and place.is_file())


def _existing(place: Path) -> Path:
    if not place.is_file():
        raise InputError("there is no such file or folder", where=str(place))
    return place


def network(place: Path, board: str = "stm32n6570-dk") -> NetworkView:
    """The picture of a folder or of a model."""
    if is_build(place):
        from atonc.insight.explain.folder import folder_view

        return folder_view(place)
    from atonc.compiler.request.options import Options
    from atonc.delivery.generate import generating
    from atonc.insight.explain.ours import network_view

    return network_view(generating.analyze(_existing(place), Options(board=board, verify=False)))
