"""`atonc validate --mode target`: a model, or a folder of a compiled network, against a board."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from atonc.doors.verbs.common import compiler_options, progress
from atonc.insight.validating.validate_options import SAMPLES

if TYPE_CHECKING:
    from atonc.compiler.inputs.sample_files import Sample
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
        from atonc.delivery.trials import recording

        recording.save(options.record, found, path.name, reproduce)
    if options.page:
        from atonc.insight.report.html import html_page
        from atonc.machine.base.disk import write_file

        write_file(options.page, html_page(replace(view, measured=found.measured)))
    if options.st:
        from atonc.doors.verbs import st_verbs

        st_verbs.validated(options, "TARGET", found.outputs, target_text.lines(found, options.verbose))
    if options.json:
        print(json.dumps(target_text.as_json(found), indent=1))
    elif not options.quiet or not found.equal:
        print("\n".join(target_text.lines(found, options.verbose)))
    return 0 if found.equal else 1


def _model(
    options: argparse.Namespace, path: Path, client: Client
) -> tuple[TargetValidation, NetworkView, dict[str, str]]:
    from atonc.compiler.inputs import sample_files
    from atonc.delivery.generate import generating
    from atonc.delivery.trials import targeting
    from atonc.insight.explain import ours
    from atonc.insight.validating import validating
    from atonc.insight.validating.references import References

    with References(path) as references:
        view = generating.analyze(path, compiler_options(options, verify=False))
        source = view.compiled.source
        if options.valinput:
            samples = sample_files.read_samples(source, options.valinput, options.batches)
        elif options.range:
            samples = validating.random_samples(source, options.batches or SAMPLES, options.seed, options.range)
        else:
            samples = validating.synthetic_samples(source, options.batches or SAMPLES, options.seed)
        side = targeting.CompiledSide(view)
        found = _on_board(options, client, side, samples)
        figures = side.figures(references, samples, found.turns)
        found = replace(found, reference=references.yardstick, outputs=tuple(figures))
    return found, ours.network_view(view), dict(view.reproduce)


def _folder(
    options: argparse.Namespace, path: Path, client: Client
) -> tuple[TargetValidation, NetworkView, dict[str, str]]:
    from atonc.delivery.trials import targeting
    from atonc.insight.explain import folder
    from atonc.insight.runs import runs

    name = None if options.name == "network" else options.name
    net = runs.load(runs.RunOptions(path, name))
    if options.valinput:
        samples: list[Sample] = runs.samples_from(net, options.valinput, options.batches)
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
