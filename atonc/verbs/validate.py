"""`atonc validate`: the compiled program against the model's reference kernels."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from atonc.options import CHECKS
from atonc.verbs import st_options, validate_target
from atonc.verbs.common import add_model_options, compiler_options, model_path
from atonc.verbs.flags import OUTPUT, add_output_options, group

if TYPE_CHECKING:
    from atonc.app.validating import Sample, Validation
    from atonc.pipeline import Compiled

SAMPLES = 10
MIN_COSINE = 0.98
FOLDER = Path("st_ai_output")
# ST's modes beside ours: the emulator stands for its host
MODES = {
    **{"emulator": "emulator", "host": "emulator", "host-io-only": "emulator"},
    **{"board": "board", "target": "target", "target-io-only": "target"},
}


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    validate = verbs.add_parser("validate", help="the compiled program against the reference interpreter")
    validate.set_defaults(verb=_validate)
    add_model_options(validate, st_options.VALIDATE)
    _add_data(validate)
    _add_line(validate)
    checks, shown = group(validate, CHECKS), group(validate, OUTPUT)
    checks.add_argument("--io-only", action="store_true", help="only the outputs, not every layer: faster")
    checks.add_argument("--no-exec-model", action="store_true", help="do not run the model's own kernels")
    checks.add_argument("--classifier", action="store_true", help="also count right classes, with or without labels")
    checks.add_argument("--min-cos", type=float, default=MIN_COSINE, metavar="C", help="outputs this close pass")
    shown.add_argument("--per-layer", action="store_true", help="list every layer (with -v or --json)")
    shown.add_argument("-o", "--output", type=Path, metavar="DIR", help="write inputs and outputs: NAME_val_io.npz")
    save = f"write them as NAME_val_m_inputs_1.csv and so on too (into {FOLDER} without -o)"
    shown.add_argument("--save-csv", action="store_true", help=save)
    shown.add_argument("--no-report", action="store_true", help="changes nothing: reports are only written on request")
    add_output_options(validate, verbosity=True)


def _add_data(parser: argparse.ArgumentParser) -> None:
    data = group(parser, "inputs of the comparison")
    data.add_argument(
        *("-vi", "--valinput", "--input"),
        type=Path,
        nargs="+",
        default=[],
        metavar="FILE",
        help="inputs by name in .npz, or .npy, .csv; an array labels in it holds the right classes",
    )
    expected = "outputs to compare with, in the same forms, before those of the model's own kernels"
    data.add_argument("-vo", "--valoutput", type=Path, nargs="+", default=[], metavar="FILE", help=expected)
    how_many = f"samples (default {SAMPLES}, or all of -vi)"
    data.add_argument(
        *("-b", "--batches", "--batch-size", "--samples"), type=int, default=0, metavar="N", help=how_many
    )
    ranges = "random values between these instead of natural-looking inputs; a pair for each input, or one for all"
    data.add_argument("--range", type=float, nargs="+", default=[], metavar="MIN MAX", help=ranges)


def _add_line(parser: argparse.ArgumentParser) -> None:
    place = group(parser, "where the program runs")
    modes = (
        "emulator, which host means too; board: as Arm code on a virtual STM32N6, compared byte by byte with the "
        "emulator; target: on a board that answers ST's validation protocol, real or virtual (-d); ...-io-only: "
        "with --io-only"
    )
    place.add_argument("--mode", choices=list(MODES), default="emulator", help=modes)
    line = "with --mode target: the line to the board, serial[:PORT][:BAUD] or socket:HOST:PORT"
    place.add_argument("-d", "--desc", default="serial", metavar="LINE", help=line)
    record = "with --mode target: write inputs, outputs, times and versions, so that others can check them"
    place.add_argument("--record", type=Path, metavar="FILE.npz", help=record)
    page = "with --mode target: write the report page with the measured times"
    place.add_argument("--page", type=Path, metavar="FILE.html", help=page)
    patience = "with --mode target: seconds that an inference may take"
    place.add_argument("--patience", type=float, default=120.0, metavar="S", help=patience)
    runtime = "with --mode board: a folder with ST's LL_ATON sources and CMSIS headers, instead of our runtime"
    place.add_argument("--runtime", type=Path, metavar="DIR", help=runtime)


def _validate(options: argparse.Namespace) -> int:
    from atonc.app import preflight

    model, mode = model_path(options), MODES[options.mode]
    options.io_only = options.io_only or options.mode.endswith("io-only")
    if options.save_csv and options.output is None:
        options.output = FOLDER
    if options.output is not None:
        preflight.check_folder(options.output)
    for file in (options.record, options.page):
        preflight.check_file(file)
    preflight.check_reader(model)
    if mode == "board":
        preflight.check_packages("unicorn", "elftools", extra="board")
        preflight.check_compiler()
        return _validate_on_board(options, model)
    return validate_target.run(options, model) if mode == "target" else _validate_here(options, model)


def _validate_here(options: argparse.Namespace, model: Path) -> int:
    from atonc.app import judging, validating
    from atonc.app.references import References
    from atonc.pipeline import compile_file
    from atonc.report import validate_text

    wanted = compiler_options(options, verify=False)
    begins_later = bool(wanted.cut_inputs or wanted.cut_input_layers)
    with References(model, exact_only=begins_later or options.no_exec_model) as references:
        compiled = compile_file(model, wanted)
        samples = _samples(options, compiled, SAMPLES)
        what = validating.Wanted(
            validating.read_labels(options.valinput),
            validating.read_outputs(compiled, options.valoutput),
            not options.io_only,
            options.classifier,
        )
        found = validating.validate(None if options.no_exec_model else references, compiled, samples, what)
    if options.output is not None:
        _save(options, found)
    if options.json:
        print(json.dumps(validate_text.as_json(found, options.min_cos, options.per_layer), indent=1))
    elif not options.quiet:
        validate_text.print_validation(found, options.min_cos, options.per_layer, options.verbose)
    complaints = list(judging.complaints(found, options.min_cos))
    for sentence in complaints:
        print(f"atonc: {sentence}", file=sys.stderr)
    return 1 if complaints else 0


def _samples(options: argparse.Namespace, compiled: Compiled, count: int) -> list[Sample]:
    from atonc.app import validating

    if options.valinput:
        return validating.read_samples(compiled.source, options.valinput, options.batches)
    if options.range:
        return validating.random_samples(compiled.source, options.batches or count, options.seed, options.range)
    return validating.synthetic_samples(compiled.source, options.batches or count, options.seed)


def _save(options: argparse.Namespace, found: Validation) -> None:
    from atonc.app.csv_arrays import csv_text
    from atonc.app.runs import npz
    from atonc.disk import write_files

    files = {f"{options.name}_val_io.npz": npz(found.recorded)}
    if options.save_csv:
        files |= {f"{options.name}_val_{name}.csv": csv_text(value) for name, value in found.recorded.items()}
    write_files(options.output, files)


def _validate_on_board(options: argparse.Namespace, model: Path) -> int:
    from atonc.app import boarding, generating

    view = generating.analyze(model, compiler_options(options, verify=False))
    found = boarding.validate_on_board(view, _samples(options, view.compiled, 2), options.runtime)
    if options.json:
        print(json.dumps(boarding.as_json(found), indent=1))
    elif not options.quiet or not found.equal:
        print("\n".join(boarding.lines(found)))
    return 0 if found.equal else 1
