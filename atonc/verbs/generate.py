"""`atonc generate` (also `compile`) and `atonc analyze`: a model becomes a verified program."""

from __future__ import annotations

import argparse
import json
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from atonc.errors import InputError
from atonc.verbs.common import (
    add_model_options,
    add_output_options,
    add_picture_options,
    compiler_options,
    model_path,
    write_pictures,
)

if TYPE_CHECKING:
    from atonc.compile_view import CompileView
    from atonc.options import Options
    from atonc.place.explain import PlacementError

STAGES = ("read", "passes", "lower", "place")
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(|k|m)(i?b)?", re.IGNORECASE)
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20}


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    generate = verbs.add_parser(
        "generate",
        aliases=["compile"],
        help="compile a model and write the program",
        description="Compiles a quantised model, verifies the program on the emulator and writes it: the C files of "
        "the network, programs of the epoch controller, memory images, required memories, reports, assembly text.",
    )
    generate.set_defaults(verb=_generate)
    generate.add_argument("-o", "--output", type=Path, default=Path("st_ai_output"), metavar="DIR", help="folder")
    generate.add_argument("--hex", action="store_true", help="memory images also as Intel HEX, with their addresses")
    generate.add_argument("--stai", action="store_true", help="also stai_NAME.c, .h, for applications of Core 3.0 on")
    analyze = verbs.add_parser("analyze", help="mapping, memory, latency and verification of a model, without files")
    analyze.set_defaults(verb=_analyze)
    for parser in (generate, analyze):
        add_model_options(parser)
        parser.add_argument("--no-verify", action="store_true", help="do not run the program on the emulator")
        parser.add_argument("--dump", type=Path, metavar="DIR", help="what each stage hands to the next, as text")
        parser.add_argument("--stop-after", choices=STAGES, help="with --dump: go no further")
        parser.add_argument("--max-ram", type=_size, default=0, metavar="BYTES", help="gate: exit 1 above (1.5M, 640k)")
        parser.add_argument("--max-latency", type=float, default=0.0, metavar="MS", help="gate: exit 1 above")
        parser.add_argument("--no-cpu", action="store_true", help="gate: exit 1 if an operator runs on the CPU")
        parser.add_argument("--no-spill", action="store_true", help="gate: exit 1 if activations leave the chip")
        add_picture_options(parser)
        add_output_options(parser)


def _generate(options: argparse.Namespace) -> int:
    return _compile(options, options.output)


def _analyze(options: argparse.Namespace) -> int:
    return _compile(options, None)


def _compile(options: argparse.Namespace, folder: Path | None) -> int:
    from atonc import generating
    from atonc.place.explain import PlacementError
    from atonc.report import compile_text

    if folder is not None and folder.exists() and not folder.is_dir():
        raise InputError("is not a folder", where=str(folder), remedy="name a folder with -o")
    model, wanted = model_path(options), compiler_options(options, not options.no_verify)
    gates = generating.Gates(options.max_ram, options.max_latency, options.no_cpu, options.no_spill)
    if options.stop_after and not options.dump:
        raise InputError("--stop-after needs --dump", remedy="name a folder for what the stages give")
    if options.dump:
        from atonc import stages

        stages.dump(model, replace(wanted, verify=False), options.stop_after or STAGES[-1], options.dump)
    if options.stop_after:
        return 0
    try:
        view = generating.analyze(model, wanted, options.name)
    except PlacementError as error:
        raise with_levers(model, wanted, error) from None
    broken = gates.broken(view)
    if options.relocatable is not None:
        from atonc import relocating

        relocating.check_pools(view)
    if folder is not None and not broken:
        view = generating.generate(view, folder, options.hex, options.stai)
        if options.relocatable is not None:
            view = with_image(view, folder, options.relocatable)
    if options.trace or options.annotate:
        from atonc.insight.ours import network_view

        write_pictures(network_view(view), options)
    if options.json:
        print(json.dumps(compile_text.as_json(view) | {"gates": broken}, indent=1))
    elif not options.quiet:
        compile_text.print_compiled(view, options.verbose)
    for sentence in broken:
        print(f"atonc: {sentence}", file=sys.stderr)
    return 1 if broken else 0


def with_image(view: CompileView, folder: Path, asked: str) -> CompileView:
    """Also the relocatable image of what was just written."""
    from atonc import relocating

    done = relocating.generated(folder, view.name, relocating.words(asked))
    return replace(view, files=(*view.files, *map(str, done.files)))


def with_levers(model: Path, wanted: Options, error: PlacementError) -> PlacementError:
    """The error with what lives at the worst step, and the levers, each tried."""
    from atonc.frontends.read import read
    from atonc.insight.fit import shortage_lines

    source = read(model, wanted.cut_outputs, wanted.fixed_shapes)
    error.details = tuple(shortage_lines(source, wanted, error))
    return error


def _size(text: str) -> int:
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size: write bytes, or 640k, or 1.5M")
    return round(float(match[1]) * _UNITS[match[2].lower()])
