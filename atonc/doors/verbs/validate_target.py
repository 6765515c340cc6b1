"""`atonc validate --mode target`: a model, or a folder of a compiled network, against a board."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from atonc.doors.verbs.common import compiler_options, note, progress
from atonc.doors.verbs.documents import file_hash, print_document
from atonc.doors.verbs.flags import declared_values
from atonc.insight.report.terminal import show
from atonc.insight.validating.validate_options import SAMPLES, ValidateOptions

if TYPE_CHECKING:
    from atonc.compiler.inputs.inputs import Sample
    from atonc.compiler.ir import Graph
    from atonc.compiler.request.options import Options
    from atonc.delivery.trials.built import BuiltNetwork, Looked
    from atonc.delivery.trials.targeting import ExpectedRun, TargetValidation
    from atonc.delivery.wire.client import Client
    from atonc.insight.explain.types import NetworkView


def run(options: argparse.Namespace, path: Path) -> int:
    from atonc.delivery.texts import target_text

    client = _client(options)  # before the work of compiling: nobody may be there
    try:
        found, view, reproduce = (_folder if path.is_dir() else _model)(options, path, client)
    finally:
        client.disconnect()
    if options.record:
        from atonc.delivery.recordings import files, make
        from atonc.delivery.recordings.recording import Statement

        stated = Statement(options.record_board, options.record_licence)
        files.write(options.record, make.of_validation(found, stated, reproduce))
    if options.page:
        from atonc.insight.report.html import html_page
        from atonc.machine.base.disk import write_file

        write_file(options.page, html_page(replace(view, measured=found.measured)))
    if options.st:
        from atonc.doors.verbs import st_verbs

        st_verbs.validated(options, "TARGET", found.outputs, target_text.lines(found, options.verbose))
    if options.json:
        print_document("validate-target", target_text.as_json(found), file_hash(path))
    elif not options.quiet or not found.equal:
        show(target_text.lines(found, options.verbose))
    return 0 if found.equal else 1


Found = tuple["TargetValidation", "NetworkView", dict[str, str]]


def _model(options: argparse.Namespace, path: Path, client: Client) -> Found:
    """What was built, where the board holds it; else the model as it is compiled here, if the board holds that."""
    from atonc.compiler.compile.reproduce import asked
    from atonc.delivery.trials import built

    given = compiler_options(options, verify=False)
    looked = built.look(path, options.val_json, options.output)
    client.connect()
    models = client.models()
    chosen = built.on_board(looked, models, path)
    if chosen is None and (looked.named or any(not model.signature for model in models)):
        chosen = built.of_model(looked, path, asked(given))
    if chosen is not None:
        say_chosen(options, chosen, asked(given))
        return _built(options, path, client, chosen, given)
    say_compiled(options, path, looked, "is the board's")
    return _compiled(options, path, client, given, looked.lines)


def say_chosen(options: argparse.Namespace, chosen: BuiltNetwork, given: Mapping[str, str]) -> None:
    """Which build it is, and which words of this command line it was not built with."""
    new = [(flag, text) for flag, text in given.items() if chosen.asked and not chosen.suits({flag: text})]
    others = [f"{flag} {text}".strip() for flag, text in new]
    note(
        f"validating what was built as {chosen.c_file}"
        + (f"; it was built without {', '.join(others)}, which changes nothing here" if others else ""),
        options,
    )


def _built(options: argparse.Namespace, path: Path, client: Client, chosen: BuiltNetwork, given: Options) -> Found:
    from atonc.delivery.trials.built_side import BuiltSide
    from atonc.insight.explain import folder
    from atonc.insight.validating.references import References

    with References(path) as references:
        side = BuiltSide(chosen, path, given)
        samples = model_samples(options, side.source, SAMPLES)
        found = _on_board(options, client, side, samples)
        figures = side.figures(references, samples, found.turns)
        found = replace(found, reference=references.yardstick, outputs=tuple(figures))
    return found, folder.view_of(side.net), dict(chosen.asked.reproduce) if chosen.asked else {}


def say_compiled(options: argparse.Namespace, path: Path, looked: Looked, what: str) -> None:
    where = "; ".join(looked.lines)
    note(f"no network that was built {what} ({where}): {path.name} is compiled with the options given here", options)


def _compiled(
    options: argparse.Namespace, path: Path, client: Client, given: Options, looked: tuple[str, ...]
) -> Found:
    from atonc.delivery.generate import generating
    from atonc.delivery.trials import targeting
    from atonc.insight.explain import ours
    from atonc.insight.validating.references import References

    with References(path) as references:
        view = generating.analyze(path, given)
        samples = model_samples(options, view.compiled.source, SAMPLES)
        side = targeting.CompiledSide(view, looked)
        found = _on_board(options, client, side, samples)
        figures = side.figures(references, samples, found.turns)
        found = replace(found, reference=references.yardstick, outputs=tuple(figures))
    return found, ours.network_view(view), dict(view.reproduce)


def model_samples(options: argparse.Namespace, source: Graph, count: int) -> list[Sample]:
    from atonc.insight.validating.validating import chosen_samples

    return chosen_samples(source, declared_values(ValidateOptions, options), options.seed, count)


def _folder(options: argparse.Namespace, path: Path, client: Client) -> Found:
    from atonc.delivery.trials import targeting
    from atonc.insight.explain import folder
    from atonc.insight.runs import edge_inputs, runs

    name = None if options.name == "network" else options.name
    net = runs.load(runs.RunOptions(path, name))
    if options.valinput:
        samples: list[Sample] = edge_inputs.samples_from(net.inputs, options.valinput, options.batches)
    else:
        count = options.batches or SAMPLES
        samples = [runs.choose_inputs(net, runs.RunOptions(path, seed=options.seed + k)) for k in range(count)]
    return _on_board(options, client, targeting.FolderSide(net), samples), folder.view_of(net), {}


def _on_board(
    options: argparse.Namespace, client: Client, side: ExpectedRun, samples: list[Sample]
) -> TargetValidation:
    from atonc.delivery.trials import targeting

    with progress(options.quiet or options.json, "samples on the board") as report:
        return targeting.validate_target(client, side, samples, report)


def _client(options: argparse.Namespace) -> Client:
    from atonc.delivery.wire.client import Client
    from atonc.delivery.wire.links import open_link

    def note(line: str) -> None:
        if options.verbose and not options.json:
            print(line, file=sys.stderr)

    return Client(open_link(options.desc), options.patience, note)
