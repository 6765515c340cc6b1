"""`atonc run`: a compiled network on the emulator."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from atonc.errors import InputError
from atonc.verbs.common import add_output_options, progress


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    run = verbs.add_parser("run", help="run a compiled network on the emulator")
    run.set_defaults(verb=_run)
    run.add_argument("directory", type=Path, metavar="DIR", help="folder with network.c, its blobs and weights")
    run.add_argument("-n", "--name", help="which network, when the folder holds several")
    run.add_argument("--weights", type=Path, action="append", default=[], metavar="FILE", help=".raw, .bin or .hex")
    run.add_argument("--blobs", type=Path, metavar="FILE", help="the *_ecblobs.h, if it is not beside the C file")
    run.add_argument("--input", type=Path, action="append", default=[], metavar="FILE", help=".npz, .npy, .png, .jpg")
    run.add_argument("--seed", type=int, default=0, help="photo-like input from this number (default 0)")
    run.add_argument("--output", type=Path, metavar="FILE.npz", help="write the outputs")
    run.add_argument("--save-input", type=Path, metavar="FILE.npz", help="write the inputs that were used")
    run.add_argument("--until", type=int, metavar="E", help="stop after epoch E")
    run.add_argument("--dump", type=Path, metavar="DIR", help="write every buffer after the epoch that wrote it")
    run.add_argument("--compare", type=Path, metavar="REF", help="--output file or --dump folder; exit 1 if unequal")
    run.add_argument("--layers", type=Path, metavar="MODEL", help="each layer against exact arithmetic")
    run.add_argument("--no-check", action="store_true", help="skip the safety rules")
    add_output_options(run)


def _run(options: argparse.Namespace) -> int:
    from atonc.app import preflight

    _must_not_exist(options.dump)
    for file in (options.output, options.save_input):
        preflight.check_file(file)
    from atonc.app import comparing, runs, safety
    from atonc.cost import network as costs
    from atonc.emu.files.c_info import fitting_c_info
    from atonc.report import run_text

    request = runs.RunOptions(
        options.directory,
        options.name,
        tuple(options.weights),
        options.blobs,
        tuple(options.input),
        options.seed,
        options.until,
        observe=bool(options.dump or options.compare or options.layers),
    )
    reference = comparing.read_reference(options.compare) if options.compare else None
    graph = comparing.read_model(options.layers) if options.layers else None
    with progress(options.quiet or options.json) as report:
        result = runs.run(request, report)
    differences = comparing.compare_run(result, reference) if reference is not None else None
    layers = comparing.layer_report(result, graph) if graph is not None else None
    violations = None if options.no_check else safety.check_run(result)
    if options.save_input:
        runs.save_arrays(options.save_input, result.inputs)
    if options.output:
        runs.save_arrays(options.output, result.outputs)
    if options.dump:
        runs.dump(options.dump, result)
    cost = costs.network_cost(result.net, result.steps, info=fitting_c_info(result.net.network)[0])
    view = run_text.RunView(result, cost, differences, layers, violations)
    if options.json:
        print(json.dumps(run_text.as_json(view), indent=1))
    elif not options.quiet:
        run_text.print_run(view, options.verbose)
    return 1 if differences is not None and any(d.different for d in differences) else 0


def _must_not_exist(folder: Path | None) -> None:
    if folder is not None and folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError("exists and is not an empty folder", where=str(folder), remedy="name a new folder")
