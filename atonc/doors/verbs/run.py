"""`atonc run`: a compiled network on the emulator."""

from __future__ import annotations

import argparse
from pathlib import Path

from atonc.doors.verbs.common import add_output_options, progress
from atonc.doors.verbs.documents import build_hash, print_document
from atonc.doors.verbs.flags import add_declared, declared_values
from atonc.insight.runs.run_options import RunOptions
from atonc.machine.base.errors import InputError


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    run = verbs.add_parser("run", help="run a compiled network on the emulator")
    run.set_defaults(verb=_run)
    run.add_argument("directory", type=Path, metavar="DIR", help="folder with network.c, its blobs and weights")
    add_declared(run, RunOptions)
    add_output_options(run)


def _run(options: argparse.Namespace) -> int:
    from atonc.delivery.generate import preflight

    observe = bool(options.dump or options.compare or options.layers)
    wanted = declared_values(RunOptions, options, directory=options.directory, observe=observe)
    _must_not_exist(wanted.dump)
    for file in (wanted.output, wanted.save_input):
        preflight.check_file(file)
    from atonc.insight.report import run_text
    from atonc.insight.runs import comparing, runs, safety
    from atonc.machine.cost import network as costs
    from atonc.machine.emu.files.c_info import fitting_c_info

    reference = comparing.read_reference(wanted.compare) if wanted.compare else None
    graph = comparing.read_model(wanted.layers) if wanted.layers else None
    with progress(options.quiet or options.json) as report:
        result = runs.run(wanted, report)
    differences = comparing.compare_run(result, reference) if reference is not None else None
    layers = comparing.layer_report(result, graph) if graph is not None else None
    violations = safety.check_run(result) if wanted.check else None
    if wanted.save_input:
        runs.save_arrays(wanted.save_input, result.inputs)
    if wanted.output:
        runs.save_arrays(wanted.output, result.outputs)
    if wanted.dump:
        runs.dump(wanted.dump, result)
    cost = costs.network_cost(result.net, result.steps, info=fitting_c_info(result.net.network)[0])
    view = run_text.RunView(result, cost, differences, layers, violations)
    if options.json:
        print_document("run", run_text.as_json(view), build_hash(wanted.directory))
    elif not options.quiet:
        run_text.print_run(view, options.verbose)
    return 1 if differences is not None and any(d.different for d in differences) else 0


def _must_not_exist(folder: Path | None) -> None:
    if folder is not None and folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError("exists and is not an empty folder", where=str(folder), remedy="name a new folder")
