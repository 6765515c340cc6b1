"""`atonc validate`: the compiled program against the model's reference kernels."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from atonc.verbs import validate_target
from atonc.verbs.common import add_model_options, add_output_options, compiler_options, model_path

SAMPLES = 10
MIN_COSINE = 0.98


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    validate = verbs.add_parser("validate", help="the compiled program against the reference interpreter")
    validate.set_defaults(verb=_validate)
    add_model_options(validate)
    board = (
        "where the program runs; board: as Arm code on a virtual STM32N6, compared byte by byte with the emulator; "
        "target: on a board that answers ST's validation protocol, real or virtual (-d)"
    )
    validate.add_argument("--mode", choices=["emulator", "board", "target"], default="emulator", help=board)
    line = "with --mode target: the line to the board, serial[:PORT][:BAUD] or socket:HOST:PORT (default serial)"
    validate.add_argument("-d", "--desc", default="serial", metavar="LINE", help=line)
    record = "with --mode target: write inputs, outputs, times and versions, so that others can check them"
    validate.add_argument("--record", type=Path, metavar="FILE.npz", help=record)
    page = "with --mode target: write the report page with the measured times"
    validate.add_argument("--page", type=Path, metavar="FILE.html", help=page)
    patience = "with --mode target: how long an inference may take (default 120)"
    validate.add_argument("--patience", type=float, default=120.0, metavar="S", help=patience)
    runtime = "with --mode board: a folder with ST's LL_ATON sources and CMSIS headers, instead of our runtime"
    validate.add_argument("--runtime", type=Path, metavar="DIR", help=runtime)
    validate.add_argument(
        *("-vi", "--valinput", "--input"),
        type=Path,
        nargs="+",
        default=[],
        metavar="FILE",
        help="inputs by name in .npz, or .npy; an array labels in it holds the right classes",
    )
    validate.add_argument(
        *("-b", "--batches", "--batch-size", "--samples"), type=int, default=0, metavar="N", help="default 10"
    )
    validate.add_argument("--per-layer", action="store_true", help="list every layer (with -v or --json)")
    validate.add_argument(
        "--min-cos", type=float, default=MIN_COSINE, metavar="C", help=f"outputs this close pass (default {MIN_COSINE})"
    )
    add_output_options(validate)


def _validate(options: argparse.Namespace) -> int:
    from atonc import judging, validating
    from atonc.pipeline import compile_file
    from atonc.references import References
    from atonc.report import validate_text

    model = model_path(options)
    if options.mode == "board":
        return _validate_on_board(options, model)
    if options.mode == "target":
        return validate_target.run(options, model)
    with References(model) as references:
        compiled = compile_file(model, compiler_options(options, verify=False))
        if options.valinput:
            samples = validating.read_samples(compiled.source, options.valinput, options.batches)
        else:
            samples = validating.synthetic_samples(compiled.source, options.batches or SAMPLES, options.seed)
        found = validating.validate(references, compiled, samples, validating.read_labels(options.valinput))
    if options.json:
        print(json.dumps(validate_text.as_json(found, options.min_cos, options.per_layer), indent=1))
    elif not options.quiet:
        validate_text.print_validation(found, options.min_cos, options.per_layer, options.verbose)
    complaints = list(judging.complaints(found, options.min_cos))
    for sentence in complaints:
        print(f"atonc: {sentence}", file=sys.stderr)
    return 1 if complaints else 0


def _validate_on_board(options: argparse.Namespace, model: Path) -> int:
    from atonc import boarding, generating, validating

    view = generating.analyze(model, compiler_options(options, verify=False))
    if options.valinput:
        samples = validating.read_samples(view.compiled.source, options.valinput, options.batches)
    else:
        samples = validating.synthetic_samples(view.compiled.source, options.batches or 2, options.seed)
    found = boarding.validate_on_board(view, samples, options.runtime)
    if options.json:
        print(json.dumps(boarding.as_json(found), indent=1))
    elif not options.quiet or not found.equal:
        print("\n".join(boarding.lines(found)))
    return 0 if found.equal else 1
