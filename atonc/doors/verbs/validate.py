"""`atonc validate`: the compiled program against the model's reference kernels."""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from atonc.doors.verbs import ci, st_options, validate_target
from atonc.doors.verbs.ci import CiOptions
from atonc.doors.verbs.common import add_model_options, compiler_options, model_path, note
from atonc.doors.verbs.documents import file_hash, print_document
from atonc.doors.verbs.flags import add_declared, add_output_options, declared_values
from atonc.insight.report.terminal import show
from atonc.insight.validating.validate_options import BOARD_SAMPLES, FOLDER, MODES, ValidateOptions
from atonc.machine.base.checks import CheckResult

if TYPE_CHECKING:
    from atonc.compiler.request.options import Options
    from atonc.delivery.trials.boarding import BoardValidation
    from atonc.insight.validating.validating import Validation


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    validate = verbs.add_parser("validate", help="the compiled program against the reference interpreter")
    validate.set_defaults(verb=_validate)
    add_model_options(validate, st_options.VALIDATE)
    add_declared(validate, ValidateOptions)
    add_declared(validate, CiOptions)
    add_output_options(validate, verbosity=True)


def _validate(options: argparse.Namespace) -> int:
    from atonc.delivery.generate import preflight

    model, mode = model_path(options), MODES[options.mode]
    options.io_only = options.io_only or options.mode.endswith("io-only")
    if (options.save_csv or options.st) and options.output is None:
        options.output = FOLDER
    if options.output is not None:
        preflight.check_folder(options.output)
    for file in (options.record, options.page, options.junit, options.sarif):
        preflight.check_file(file)
    preflight.check_reader(model)
    if mode == "emulator" and options.val_json:
        note("--val-json has no effect with --mode emulator: the model is compiled as the other options say", options)
    if mode == "board":
        preflight.check_packages("unicorn", extra="board")
        preflight.check_compiler()
        return _validate_on_board(options, model)
    return validate_target.run(options, model) if mode == "target" else _validate_here(options, model)


def _validate_here(options: argparse.Namespace, model: Path) -> int:
    from atonc.insight.report import validate_text
    from atonc.insight.report.document import lines
    from atonc.insight.validating import judging
    from atonc.insight.validating.validating import validate_model

    wanted = compiler_options(options, verify=False)
    found = validate_model(model, declared_values(ValidateOptions, options), wanted)
    if options.output is not None:
        _save(options, found)
    if options.st:
        from atonc.doors.verbs import st_verbs

        st_verbs.validated(options, "HOST", found.outputs, validate_text.lines(found, options.min_cos))
    if options.json:
        print_document("validate", validate_text.as_json(found, options.min_cos, options.per_layer), file_hash(model))
    elif not options.quiet:
        command = partial(_again, model, wanted)
        every = options.per_layer and options.verbose
        verbose = options.per_layer or options.verbose
        details = list(validate_text.sections(found, options.min_cos, every)) if verbose else ()
        show(lines(validate_text.document(found, options.min_cos, command, details)))
    checks = list(judging.checks(found, options.min_cos))
    for check in checks:
        if not check.holds:
            print(f"atonc: {check.says}", file=sys.stderr)
    ci.report(options, "validate", model, checks)
    return 0 if all(check.holds for check in checks) else 1


def _again(model: Path, wanted: Options, verb: str, *more: str) -> str:
    from atonc.compiler.compile.reproduce import again

    return again(verb, model, wanted, *more)


def _save(options: argparse.Namespace, found: Validation) -> None:
    from atonc.compiler.inputs.arrays import csv_text
    from atonc.insight.runs.runs import npz
    from atonc.machine.base.disk import write_files

    files = {f"{options.name}_val_io.npz": npz(found.recorded)}
    if options.save_csv:
        files |= {f"{options.name}_val_{name}.csv": csv_text(value) for name, value in found.recorded.items()}
    write_files(options.output, files)


def _validate_on_board(options: argparse.Namespace, model: Path) -> int:
    from atonc.delivery.trials import boarding

    found = _built_on_board(options, model) or _compiled_on_board(options, model)
    if options.json:
        print_document("validate-board", boarding.as_json(found), file_hash(model))
    elif not options.quiet or not found.equal:
        show(boarding.lines(found))
    said = f"{found.bytes_different} of {found.bytes_compared} bytes differ from the emulator's"
    ci.report(options, "validate", model, [CheckResult("outputs on the virtual board", found.equal, said)])
    return 0 if found.equal else 1


def _built_on_board(options: argparse.Namespace, model: Path) -> BoardValidation | None:
    """What was built from this model with what is asked for, if there is such a folder."""
    from atonc.compiler.compile.reproduce import asked
    from atonc.delivery.trials import boarding, built
    from atonc.delivery.trials.built_side import BuiltSide

    given = compiler_options(options, verify=False)
    looked = built.look(model, options.val_json, options.output)
    chosen = built.of_model(looked, model, asked(given))
    if chosen is None:
        if looked.found:
            validate_target.say_compiled(options, model, looked, "is of this model with these options")
        return None
    validate_target.say_chosen(options, chosen, asked(given))
    side = BuiltSide(chosen, model, given)
    turns = map(side.expect, validate_target.model_samples(options, side.source, BOARD_SAMPLES))
    return boarding.validate_built(chosen.c_file, chosen.asked.board if chosen.asked else "", turns, options.runtime)


def _compiled_on_board(options: argparse.Namespace, model: Path) -> BoardValidation:
    from atonc.delivery.generate import generating
    from atonc.delivery.trials import boarding

    view = generating.analyze(model, compiler_options(options, verify=False))
    samples = validate_target.model_samples(options, view.compiled.source, BOARD_SAMPLES)
    return boarding.validate_on_board(view, samples, options.runtime)
