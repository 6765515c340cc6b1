"""`atonc validate`: the compiled program against the model's reference kernels."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from atonc.doors.verbs import st_options, validate_target
from atonc.doors.verbs.common import add_model_options, compiler_options, model_path, note
from atonc.doors.verbs.flags import add_declared, add_output_options
from atonc.insight.validating.validate_options import BOARD_SAMPLES, FOLDER, MODES, SAMPLES, ValidateOptions

if TYPE_CHECKING:
    from atonc.compiler.compile.pipeline import Compiled
    from atonc.compiler.inputs.sample_files import Sample
    from atonc.delivery.trials.boarding import BoardValidation
    from atonc.insight.validating.validating import Validation


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    validate = verbs.add_parser("validate", help="the compiled program against the reference interpreter")
    validate.set_defaults(verb=_validate)
    add_model_options(validate, st_options.VALIDATE)
    add_declared(validate, ValidateOptions)
    add_output_options(validate, verbosity=True)


def _validate(options: argparse.Namespace) -> int:
    from atonc.delivery.generate import preflight

    model, mode = model_path(options), MODES[options.mode]
    options.io_only = options.io_only or options.mode.endswith("io-only")
    if (options.save_csv or options.st) and options.output is None:
        options.output = FOLDER
    if options.output is not None:
        preflight.check_folder(options.output)
    for file in (options.record, options.page):
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
    from atonc.compiler.compile.pipeline import compile_file
    from atonc.compiler.inputs import sample_files
    from atonc.insight.report import validate_text
    from atonc.insight.validating import judging, validating
    from atonc.insight.validating.references import References

    wanted = compiler_options(options, verify=False)
    begins_later = bool(wanted.cut_inputs or wanted.cut_input_layers)
    with References(model, exact_only=begins_later or options.no_exec_model) as references:
        compiled = compile_file(model, wanted)
        samples = validate_target.model_samples(options, compiled.source, SAMPLES)
        what = validating.Wanted(
            sample_files.read_labels(options.valinput),
            sample_files.read_outputs(compiled.graph, options.valoutput),
            not options.io_only,
            options.classifier,
            options.min_cos,
            _more(options, compiled),
        )
        found = validating.validate(None if options.no_exec_model else references, compiled, samples, what)
    if options.output is not None:
        _save(options, found)
    if options.st:
        from atonc.doors.verbs import st_verbs

        st_verbs.validated(options, "HOST", found.outputs, validate_text.lines(found, options.min_cos))
    if options.json:
        print(json.dumps(validate_text.as_json(found, options.min_cos, options.per_layer), indent=1))
    elif not options.quiet:
        validate_text.print_validation(found, options.min_cos, options.per_layer, options.verbose)
    complaints = list(judging.complaints(found, options.min_cos))
    for sentence in complaints:
        print(f"atonc: {sentence}", file=sys.stderr)
    return 1 if complaints else 0


def _more(options: argparse.Namespace, compiled: Compiled) -> Callable[[int, int], Sequence[Sample]] | None:
    """Further samples where the verdict is open; none where the user says which or how many."""
    return None if options.valinput or options.valoutput or options.batches else partial(_made, options, compiled)


def _made(options: argparse.Namespace, compiled: Compiled, first: int, count: int) -> list[Sample]:
    more = argparse.Namespace(valinput=(), batches=count, range=options.range, seed=options.seed + first)
    return validate_target.model_samples(more, compiled.source, count)


def _save(options: argparse.Namespace, found: Validation) -> None:
    from atonc.compiler.inputs.csv_arrays import csv_text
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
        print(json.dumps(boarding.as_json(found), indent=1))
    elif not options.quiet or not found.equal:
        print("\n".join(boarding.lines(found)))
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
