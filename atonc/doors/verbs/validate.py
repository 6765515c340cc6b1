"""`atonc validate`: the compiled program against the model's reference kernels, on the emulator, on the virtual board,
or on a real one (`--mode target`: a model, or a folder of a compiled network)."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from atonc.doors.verbs.compiling import compiler_options, model_options, model_path
from atonc.doors.verbs.parser import SHOWN, Command, declared_values, flags
from atonc.doors.verbs.reply import CiOptions, CommandReply, file_hash, note, progress
from atonc.insight.validating.validate_options import (
    BOARD_FRAMES,
    BOARD_SAMPLES,
    FOLDER,
    MODES,
    SAMPLES,
    ValidateOptions,
)
from atonc.machine.base.about import __version__
from atonc.machine.base.disk import write_file, write_files
from atonc.machine.base.errors import InputError

if TYPE_CHECKING:
    from atonc.compiler.inputs.inputs import Sample
    from atonc.compiler.ir import Graph
    from atonc.compiler.request.options import Options
    from atonc.delivery.trials.targeting import (
        BuiltNetwork,
        BuiltSide,
        CompiledSide,
        ExpectedRun,
        FolderSide,
        Looked,
        TargetValidation,
    )
    from atonc.delivery.wire.client import Client
    from atonc.insight.explain.types import NetworkView

    Found = tuple[TargetValidation, NetworkView, dict[str, str]]  # with what reproduces the build
    ModelSide = BuiltSide | CompiledSide
    Frames = tuple[list[Sample], list[int]]  # samples, and with which of them sequences begin
    Told = Callable[[], tuple[NetworkView, dict[str, str]]]


def _validate(options: argparse.Namespace) -> CommandReply:
    from atonc.delivery.generate import preflight

    path, mode = model_path(options), MODES[options.mode]
    model, built = _of_folder(options, path) if path.is_dir() and mode != "target" else (path, None)
    _check_bisect(options, mode)
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
        return _on_virtual_board(options, model)
    return _on_target(options, model) if mode == "target" else _on_emulator(options, model, path, built)


def _check_bisect(options: argparse.Namespace, mode: str) -> None:
    if not options.bisect:
        return
    if mode != "target":
        rule, remedy = "layers of a board are compared with the emulator's", "add --mode target and -d LINE"
        raise InputError("--bisect needs a board", rule=rule, remedy=remedy)
    written = [flag for flag in ("record", "page") if getattr(options, flag)]
    if written:
        rule, remedy = "it looks for one layer, and gives no times", "run once more without --bisect"
        raise InputError(f"--bisect writes no {' and no '.join(written)}", rule=rule, remedy=remedy)


def _of_folder(options: argparse.Namespace, folder: Path) -> tuple[Path, Options]:
    """The model that a folder was built from, and with which options; files that it used lie beside the model."""
    from atonc.compiler.compile.reproduce import MODEL_HASH, options_of
    from atonc.insight.explain.saved import read_asked
    from atonc.machine.base.build_folder import SUFFIX, read_whole
    from atonc.machine.emu.files.network_c import find_networks

    names = [file.stem for file in find_networks(folder)]
    name = options.name if options.name in names else names[0] if len(names) == 1 else ""
    if not name:
        listed = f"several networks: {', '.join(names[:9])}" if names else "no network that was built"
        remedy = "name one of them with -n" if names else "name the model, a .tflite or .onnx file"
        raise InputError(listed, where=str(folder), remedy=remedy)
    if not (folder / f"{name}{SUFFIX}").is_file():
        what = f"has no {name}{SUFFIX}: its files cannot be checked"
        raise InputError(what, where=str(folder), remedy="name the model instead of the folder")
    found = read_whole(folder, lambda: read_asked(folder, name))
    if found is None or MODEL_HASH not in found.reproduce:
        raise InputError("does not tell its model", where=str(folder), remedy="name the model instead of the folder")
    places = dict.fromkeys((folder, folder.resolve().parent, Path()))
    files = [place / found.model for place in places if (place / found.model).is_file()]
    same = [file for file in files if file_hash(file) == found.reproduce[MODEL_HASH]]
    if not same:
        lacking = f"that file is in none of {', '.join(map(str, places))}"
        what = f"{files[0]} has changed since" if files else lacking
        words = found.reproduce.get("command", "").partition(" generate ")[2].partition(" ")[2]
        remedy = f"put {found.model} there, or name it as MODEL: atonc validate MODEL {words}".strip()
        raise InputError(f"was built from {found.model}, and {what}", where=str(folder), remedy=remedy)
    changed = "" if found.reproduce.get("atonc") == __version__ else ", by another version of atonc"
    note(f"validating {folder} against {same[0]}, with the options that it was built with{changed}", options)
    options.name = name
    if MODES[options.mode] == "board":
        options.val_json = options.val_json or folder / f"{name}_c_info.json"
    built = replace(options_of(found.options), board=found.board, custom=options.custom)
    return same[0], replace(built, verify=False, seed=options.seed)


def _on_emulator(options: argparse.Namespace, model: Path, path: Path, built: Options | None) -> CommandReply:
    """`path`: where that is the folder that was `built` from the model, its files run."""
    from atonc.compiler.compile.reproduce import again
    from atonc.compiler.inputs.arrays import csv_text
    from atonc.insight.report import validate_text
    from atonc.insight.report.document import lines
    from atonc.insight.report.html.page import document_page
    from atonc.insight.runs.runs import RunOptions, load, npz
    from atonc.insight.validating.validating import validate_model

    wanted = built or compiler_options(options)
    network = load(RunOptions(path, options.name, custom=options.custom)) if built else None
    found = validate_model(model, declared_values(ValidateOptions, options), wanted, built=network)
    if options.output is not None:
        files = {f"{options.name}_val_io.npz": npz(found.recorded)}
        if options.save_csv:
            files |= {f"{options.name}_val_{name}.csv": csv_text(value) for name, value in found.recorded.items()}
        write_files(options.output, files)
    if options.st:
        said = lines(validate_text.document(found, options.min_cos, verbose=True))
        options.st.validated(options, "HOST", found.outputs, said)

    def other(verb: str, *more: str) -> str:
        return again(verb, model, wanted, *more)

    document = validate_text.document(found, options.min_cos, other, options.verbose, options.per_layer)
    if options.page:
        write_file(options.page, document_page(document))
    return CommandReply("validate", document, file_hash(model), subject=model)


# ------------------------------------------------------------------------------------------------ on the virtual board


def _on_virtual_board(options: argparse.Namespace, model: Path) -> CommandReply:
    """What was built from this model with what is asked for, if there is such a folder; else the model is compiled."""
    from atonc.compiler.compile.reproduce import asked, options_of
    from atonc.compiler.ops import custom
    from atonc.delivery.generate import generating
    from atonc.delivery.texts import target_text
    from atonc.delivery.trials import boarding, targeting
    from atonc.delivery.trials.targeting import BuiltSide

    given = compiler_options(options)
    looked = targeting.look(model, options.val_json, options.output)
    chosen = targeting.of_model(looked, model, asked(given))
    if chosen is not None:
        _say_chosen(options, chosen, asked(given))
        side = BuiltSide(chosen, model, given)
        source = side.source
        samples, starts = _samples(options, source, BOARD_SAMPLES)
        built_with = given
        if chosen.asked:
            built_with = replace(options_of(chosen.asked.options), board=chosen.asked.board, custom=given.custom)
        turns, kept = targeting.in_sequence(side, samples, starts), side.kept(starts)
        found = boarding.validate_built(chosen.c_file, built_with, turns, options.runtime, kept)
    else:
        if looked.found:
            _say_compiled(options, model, looked, "is of this model with these options")
        view = generating.analyze(model, given)
        source = view.compiled.source
        samples, starts = _samples(options, source, BOARD_SAMPLES)
        found = boarding.validate_on_board(view, samples, options.runtime, starts=starts)
    document, loud = target_text.virtual(found, list(custom.notes(source))), not found.equal
    return CommandReply("validate-board", document, file_hash(model), loud=loud, subject=model, complain=False)


# --------------------------------------------------------------------------------------------------- on a real board


def _on_target(options: argparse.Namespace, path: Path) -> CommandReply:
    from atonc.delivery.recordings import making, store
    from atonc.delivery.recordings.store import Statement
    from atonc.delivery.texts import target_text
    from atonc.delivery.wire.client import Client
    from atonc.delivery.wire.links import open_link
    from atonc.insight.report.document import lines
    from atonc.insight.report.html import html_page

    def say(line: str) -> None:
        if options.verbose and not options.json:
            print(line, file=sys.stderr)

    client = Client(open_link(options.desc), options.patience, say)  # before the work of compiling: nobody may be there
    if options.bisect:
        return _bisected(options, path, client)
    try:
        found, view, reproduce = (_folder if path.is_dir() else _model)(options, path, client)
    finally:
        client.disconnect()
    if options.record:
        stated = Statement(options.record_board, options.record_licence)
        store.write(options.record, making.of_validation(found, stated, reproduce))
    if options.page:
        write_file(options.page, html_page(replace(view, measured=found.measured)))
    document, equal = target_text.document(found, options.verbose), found.equal
    if options.st:
        options.st.validated(options, "TARGET", found.outputs, lines(document))
    return CommandReply("validate-target", document, file_hash(path), loud=not equal, code=0 if equal else 1)


def _bisected(options: argparse.Namespace, path: Path, client: Client) -> CommandReply:
    """Where the bytes differ first, instead of how far the outputs are off."""
    from atonc.delivery.texts import bisect_text
    from atonc.delivery.trials.bisecting import bisect_target

    side: ExpectedRun
    try:
        if path.is_dir():
            side, samples, _ = _folder_side(options, path)
        else:
            side, (samples, _), _ = _model_side(options, path, client)
        found = bisect_target(client, side, samples, lambda line: note(line, options))
    finally:
        client.disconnect()
    document, code = bisect_text.document(found), 0 if found.equal else 1
    return CommandReply("validate-bisect", document, file_hash(path), loud=not found.equal, code=code)


def _model(options: argparse.Namespace, path: Path, client: Client) -> Found:
    """What was built, where the board holds it; else the model as it is compiled here, if the board holds that."""
    from atonc.insight.validating.references import References

    with References(path) as references:
        side, (samples, starts), told = _model_side(options, path, client)
        found = _run_on_board(options, client, side, samples, starts)
        figures = side.figures(references, samples, found.turns, starts)
        found = replace(found, reference=references.yardstick, outputs=tuple(figures))
    return found, *told()


def _model_side(options: argparse.Namespace, path: Path, client: Client) -> tuple[ModelSide, Frames, Told]:
    """With samples, and what shows and reproduces the network."""
    from atonc.compiler.compile.reproduce import asked
    from atonc.delivery.generate import generating
    from atonc.delivery.trials import targeting
    from atonc.delivery.trials.targeting import BuiltSide
    from atonc.insight.explain import folder, ours

    given = compiler_options(options)
    looked = targeting.look(path, options.val_json, options.output)
    client.connect()
    models = client.models()
    chosen = targeting.on_board(looked, models, path)
    if chosen is None and (looked.named or any(not model.signature for model in models)):
        chosen = targeting.of_model(looked, path, asked(given))
    if chosen is not None:
        _say_chosen(options, chosen, asked(given))
    else:
        _say_compiled(options, path, looked, "is the board's")
    if chosen is not None:
        built, reproduce = BuiltSide(chosen, path, given), dict(chosen.asked.reproduce) if chosen.asked else {}
        return built, _samples(options, built.source, SAMPLES), lambda: (folder.view_of(built.net), reproduce)
    compiled = generating.analyze(path, given)
    side = targeting.CompiledSide(compiled, looked.lines)
    samples = _samples(options, compiled.compiled.source, SAMPLES)
    return side, samples, lambda: (ours.network_view(compiled), dict(compiled.reproduce))


def _folder(options: argparse.Namespace, path: Path, client: Client) -> Found:
    from atonc.insight.explain import folder

    side, samples, starts = _folder_side(options, path)
    return _run_on_board(options, client, side, samples, starts), folder.view_of(side.net), {}


def _folder_side(options: argparse.Namespace, path: Path) -> tuple[FolderSide, list[Sample], list[int]]:
    from atonc.delivery.trials import targeting
    from atonc.insight.runs import runs

    name = None if options.name == "network" else options.name
    net = runs.load(runs.RunOptions(path, name))
    if options.valinput:
        samples: list[Sample] = runs.samples_from(net.inputs, options.valinput, options.batches)
    else:
        count = options.batches or SAMPLES
        samples = [runs.choose_inputs(net, runs.RunOptions(path, seed=options.seed + k)) for k in range(count)]
    if options.frames and (not net.network.states or len(samples) % options.frames):
        rule = "samples of a folder are frames of sequences of one length, where the network keeps states"
        remedy = "leave --frames out, or give -b or -vi of a multiple"
        raise InputError(f"--frames {options.frames} for {len(samples)} samples", rule=rule, remedy=remedy)
    return targeting.FolderSide(net), samples, list(range(0, len(samples), options.frames or len(samples) or 1))


def _run_on_board(
    options: argparse.Namespace, client: Client, side: ExpectedRun, samples: list[Sample], starts: list[int]
) -> TargetValidation:
    from atonc.delivery.trials import targeting

    return targeting.validate_target(client, side, samples, progress(options, "samples on the board"), starts)


def _samples(options: argparse.Namespace, source: Graph, count: int) -> Frames:
    from atonc.insight.validating.validating import chosen_frames

    frames = BOARD_FRAMES if MODES[options.mode] == "board" else SAMPLES
    asked = declared_values(ValidateOptions, options)
    return chosen_frames(source, asked, options.seed, count, frames)


def _say_chosen(options: argparse.Namespace, chosen: BuiltNetwork, given: Mapping[str, str]) -> None:
    """Which build it is, and which words of this command line it was not built with."""
    new = [(flag, text) for flag, text in given.items() if chosen.asked and not chosen.suits({flag: text})]
    others = [f"{flag} {text}".strip() for flag, text in new]
    more = f"; it was built without {', '.join(others)}, which changes nothing here" if others else ""
    note(f"validating what was built as {chosen.c_file}{more}", options)


def _say_compiled(options: argparse.Namespace, path: Path, looked: Looked, what: str) -> None:
    where = "; ".join(looked.lines)
    note(f"no network that was built {what} ({where}): {path.name} is compiled with the options given here", options)


COMMANDS = (
    Command(
        "validate",
        "the compiled program against the reference interpreter",
        _validate,
        (model_options(), flags(ValidateOptions), flags(CiOptions), SHOWN),
        (
            "atonc validate model.tflite -vi samples.npz  # your inputs",
            "atonc validate -m model.onnx --mode target -d serial:921600 -b 4",
        ),
    ),
)
