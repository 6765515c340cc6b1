"""The command line: parse, call, print."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import atonc
from atonc.errors import AtoncError, InputError


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code."""
    options = _parser().parse_args(arguments)
    try:
        return int(options.verb(options))
    except AtoncError as error:
        print(f"atonc: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("atonc: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of a pipe had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="atonc", description=atonc.__doc__)
    parser.add_argument("--version", action="version", version=f"atonc {atonc.__version__}")
    verbs = parser.add_subparsers(required=True, metavar="VERB")
    _add_run(verbs)
    _add_disasm(verbs)
    _add_asm(verbs)
    return parser


# --------------------------------------------------------------------------------------------------------------- run


def _add_run(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
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
    run.add_argument("--until", type=int, metavar="E", help="stop behind epoch E")
    run.add_argument("--dump", type=Path, metavar="DIR", help="write every buffer after the epoch that wrote it")
    run.add_argument("--compare", type=Path, metavar="REF", help="--output file or --dump folder; exit 1 if unequal")
    run.add_argument("--layers", type=Path, metavar="MODEL", help="each layer against exact arithmetic")
    run.add_argument("--no-check", action="store_true", help="skip the safety rules")
    run.add_argument("--json", action="store_true", help="one JSON document on standard output")
    run.add_argument("-v", "--verbose", action="store_true", help="every epoch, every layer")
    run.add_argument("-q", "--quiet", action="store_true", help="only errors")


def _run(options: argparse.Namespace) -> int:
    from atonc import comparing, costs, runs, safety
    from atonc.report import run_text

    _must_not_exist(options.dump)
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
    with _progress(options.quiet or options.json) as progress:
        result = runs.run(request, progress)
    differences = comparing.compare_run(result, reference) if reference is not None else None
    layers = comparing.layer_report(result, graph) if graph is not None else None
    violations = None if options.no_check else safety.check_run(result)
    if options.save_input:
        runs.save_arrays(options.save_input, result.inputs)
    if options.output:
        runs.save_arrays(options.output, result.outputs)
    if options.dump:
        runs.dump(options.dump, result)
    cost = costs.network_cost(result.net, result.steps)
    view = run_text.RunView(result, cost, differences, layers, violations)
    if options.json:
        print(json.dumps(run_text.as_json(view), indent=1))
    elif not options.quiet:
        run_text.print_run(view, options.verbose)
    return 1 if differences is not None and any(d.different for d in differences) else 0


def _must_not_exist(folder: Path | None) -> None:
    if folder is not None and folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError("exists and is not an empty folder", where=str(folder), remedy="name a new folder")


@contextlib.contextmanager
def _progress(silent: bool) -> Iterator[Callable[[int, int], None] | None]:
    """A progress bar on standard error, on terminals only."""
    if silent or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("epochs"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("epochs", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


# -------------------------------------------------------------------------------------------------------- disasm, asm


def _add_disasm(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    disasm = verbs.add_parser("disasm", help="epoch-controller programs to text")
    disasm.set_defaults(verb=_disasm)
    disasm.add_argument("file", type=Path, metavar="FILE", help="*_ecblobs.h, a raw blob, a container or a listing")
    disasm.add_argument("--blob", metavar="NAME", help="only this program of the file")
    disasm.add_argument("--epochs", action="store_true", help="decoded units, links and buffers per epoch")
    disasm.add_argument("--check", action="store_true", help="the safety rules; exit 1 on a violation")
    disasm.add_argument("--json", action="store_true", help="decoded epochs as data")


def _disasm(options: argparse.Namespace) -> int:
    from atonc import programs, safety
    from atonc.report import epochs, run_text

    found = programs.read_programs(options.file)
    chosen = [p for p in found if options.blob in (None, p.name)]
    if not chosen:
        names = ", ".join(p.name for p in found)
        raise InputError(f"no program is called {options.blob}", where=str(options.file), remedy=f"choose from {names}")
    violations = safety.check_programs(chosen) if options.check else []
    if options.json:
        document = [{"name": p.name, "epochs": [epochs.epoch_data(e) for e in p.epochs()]} for p in chosen]
        checked = {"violations": [run_text.violation_data(v) for v in violations]} if options.check else {}
        print(json.dumps({"file": options.file.name, "programs": document} | checked, indent=1))
    elif options.epochs:
        for program in chosen:
            print(f"program {program.name}")
            for epoch in program.epochs():
                print("\n".join(epochs.epoch_lines(epoch)))
    elif not options.check:
        for program in chosen:
            header = f";; {program.name}\n" if len(chosen) > 1 else ""
            print(header + program.text(), end="")
    if options.check and not options.json:
        run_text.print_violations(violations, sum(len(p.epochs()) for p in chosen))
    return 1 if any(v.severity == "violation" for v in violations) else 0


def _add_asm(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    asm = verbs.add_parser("asm", help="assembly text to epoch-controller programs")
    asm.set_defaults(verb=_asm)
    asm.add_argument("file", type=Path, metavar="FILE", help="assembly text")
    asm.add_argument("-o", "--output", type=Path, metavar="FILE", help=".bin (default) or .h")
    asm.add_argument("-n", "--name", default="_ec_blob_1", help="array name in a header")


def _asm(options: argparse.Namespace) -> int:
    from atonc import programs

    container = programs.assemble_file(options.file)
    target = options.output or options.file.with_suffix(".bin")
    if not options.name.isidentifier():
        raise InputError(f"{options.name!r} is not a C identifier", remedy="name the array with letters and digits")
    if target.suffix == ".h":
        target.write_text(programs.to_header(container, options.name))
    else:
        target.write_bytes(programs.to_binary(container))
    print(f"{target}: {len(container.blob.program)} words")
    return 0


if __name__ == "__main__":
    sys.exit(main())
