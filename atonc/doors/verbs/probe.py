"""`atonc probe`: small programs with which the owner of a board can settle what nobody has shown, and their answers."""

from __future__ import annotations

import argparse
from pathlib import Path

from atonc.doors.verbs.documents import print_document
from atonc.doors.verbs.flags import add_output_options, add_single
from atonc.insight.report.terminal import show
from atonc.machine.base.errors import InputError
from atonc.machine.base.progress import stage
from atonc.machine.base.words import instead

READ = "read"  # instead of a name: the way back


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser("probe", help="firmware that asks a board about forms that nobody has shown")
    parser.set_defaults(verb=_probe)
    names = "probes, or all; their controls come along. Or `read LOG`: what the board answered, as an evidence file"
    parser.add_argument("names", nargs="*", metavar="NAME", help=names)
    parser.add_argument("--list", action="store_true", help="all probes with their question (also without a NAME)")
    add_single(parser, "board")
    output = "folder of the firmware (default probes), or with `read` the evidence file (default evidence.json)"
    parser.add_argument("-o", "--output", type=Path, metavar="PATH", help=output)
    add_output_options(parser)


def _probe(options: argparse.Namespace) -> int:
    from atonc.delivery.probes import PROBES

    if options.list or not options.names:
        return _list(options)
    if options.names[0] == READ:
        return _read(options)
    options.output = options.output or Path("probes")
    return _write(_wanted(options.names, [probe.name for probe in PROBES]), options)


def _list(options: argparse.Namespace) -> int:
    from atonc.delivery.probes import PROBES

    if options.json:
        rows = [
            {"name": p.name, "form": p.form, "published": p.known, "control": p.control, "argument": p.argument}
            | {"measures": p.measures, "units": p.units, "baseline": p.baseline, "rate": p.rate}
            for p in PROBES
        ]
        print_document("probe-list", {"probes": rows})
    elif not options.quiet:
        from atonc.delivery.texts import probe_text

        show(probe_text.list_lines(PROBES))
    return 0


def _wanted(names: list[str], known: list[str]) -> tuple[str, ...]:
    if names == ["all"]:
        return tuple(known)
    for name in names:
        if name not in known:
            raise InputError(f"no probe is called {name[:60]!r}", remedy=instead(name, known))
    return tuple(names)


def _read(options: argparse.Namespace) -> int:
    if len(options.names) != 2:
        raise InputError(f"{READ} takes one file: the log of the board's UART", remedy=f"atonc probe {READ} LOG")
    from atonc.delivery.generate import preflight

    log, output = Path(options.names[1]), options.output or Path("evidence.json")
    preflight.check_file(output)
    from atonc.delivery.probes import PROBES
    from atonc.delivery.probes.log import document, evidence_bytes, read_log, require_answers, settle
    from atonc.delivery.texts import probe_text
    from atonc.machine.base.disk import write_file

    settled = settle(read_log(log), PROBES)
    require_answers(settled, str(log))
    write_file(output, evidence_bytes(settled))
    if options.json:
        told = document(settled) | {"outcomes": probe_text.data(settled), "file": str(output)}
        print_document("probe-read", {key: value for key, value in told.items() if key != "format"})
    elif not options.quiet:
        show(probe_text.lines(settled, output, options.verbose))
    return 0


def _write(names: tuple[str, ...], options: argparse.Namespace) -> int:
    from atonc.delivery.generate import preflight

    preflight.check_folder(options.output)
    from atonc.compiler.place import board
    from atonc.delivery.probes import with_controls
    from atonc.delivery.probes.build import build_all
    from atonc.delivery.probes.table import folder_files
    from atonc.machine.base.disk import write_files

    wanted, target = with_controls(names), board(options.board)
    built = []
    for number, one in enumerate(build_all(wanted, target)):
        stage("compiling probes", number, len(wanted))
        built.append(one)
    if not built:
        raise InputError(
            f"{target.name} has no memory that these probes could use", remedy="choose a board with an NPU: --board"
        )
    written = write_files(options.output, folder_files(built, target))
    if options.json:
        print_document("probe", {"probes": [one.probe.name for one in built], "files": [str(path) for path in written]})
    elif not options.quiet:
        from atonc.delivery.texts import probe_text

        names_built = [one.probe.name for one in built]
        absent = [probe.name for probe in wanted if probe.name not in names_built]
        show(probe_text.written_lines(names_built, absent, target.name, options.output))
    return 0
