"""What boards told: `atonc probe` asks the owner of a board, with small programs, what nobody has shown, and reads the
answers; `atonc recordings` checks, compares and collects what boards computed and how long they took."""

from __future__ import annotations

import argparse
from pathlib import Path

from atonc.doors.verbs.parser import JSON, SHOWN, Adds, Command, arg, single
from atonc.doors.verbs.reply import CommandReply
from atonc.insight.report.document import Chapter, Document
from atonc.machine.base.disk import write_file, write_files
from atonc.machine.base.errors import InputError
from atonc.machine.base.progress import stage
from atonc.machine.base.words import instead

READ = "read"  # instead of a name: the way back


def _probe(options: argparse.Namespace) -> CommandReply:
    from atonc.delivery.probes import PROBES
    from atonc.delivery.texts import probe_text

    if options.list or not options.names:
        return CommandReply("probe-list", probe_text.listing(PROBES))
    if options.names[0] == READ:
        return _read(options)
    known = [probe.name for probe in PROBES]
    for name in options.names if options.names != ["all"] else ():
        if name not in known:
            raise InputError(f"no probe is called {name[:60]!r}", remedy=instead(name, known))
    return _write(tuple(known if options.names == ["all"] else options.names), options)


def _read(options: argparse.Namespace) -> CommandReply:
    if len(options.names) != 2:
        raise InputError(f"{READ} takes one file: the log of the board's UART", remedy=f"atonc probe {READ} LOG")
    from atonc.delivery.generate import preflight

    log, output = Path(options.names[1]), options.output or Path("evidence.json")
    preflight.check_file(output)
    if output.resolve() == log.resolve():
        raise InputError("the log itself", where=f"-o {output}", rule="the log is the record", remedy="another name")
    from atonc.delivery.probes import PROBES
    from atonc.delivery.probes.log import evidence_bytes, read_log, require_answers, settle
    from atonc.delivery.texts import probe_text

    settled = settle(read_log(log), PROBES)
    require_answers(settled, str(log))
    write_file(output, evidence_bytes(settled))
    return CommandReply("probe-read", probe_text.document(settled, output, options.verbose))


def _write(names: tuple[str, ...], options: argparse.Namespace) -> CommandReply:
    from atonc.delivery.generate import preflight

    folder = options.output or Path("probes")
    preflight.check_folder(folder)
    from atonc.compiler.place import board
    from atonc.delivery.probes import with_controls
    from atonc.delivery.probes.build import build_all
    from atonc.delivery.probes.table import folder_files
    from atonc.delivery.texts import probe_text

    wanted, target = with_controls(names), board(options.board)
    built = []
    for number, one in enumerate(build_all(wanted, target)):
        stage("compiling probes", number, len(wanted))
        built.append(one)
    if not built:
        raise InputError(
            f"{target.name} has no memory that these probes could use", remedy="choose a board with an NPU: --board"
        )
    files = write_files(folder, folder_files(built, target))
    made = [one.probe.name for one in built]
    lacks = [probe.name for probe in wanted if probe.name not in made]
    return CommandReply("probe", probe_text.written(made, lacks, target.name, folder, files))


# ---------------------------------------------------------------------------------------------------------- recordings


def _check(options: argparse.Namespace) -> CommandReply:
    from atonc.delivery.recordings import store
    from atonc.delivery.texts import recordings_text

    found = store.read(options.file)
    wrong, missing = store.faults(found), store.gaps(found)
    document = recordings_text.checked(found, wrong, missing)
    return CommandReply("recordings-check", document, found.model_sha256 or None, code=1 if wrong else 0)


def _compare(options: argparse.Namespace) -> CommandReply:
    from atonc.delivery.recordings import making, store
    from atonc.delivery.texts import recordings_text

    recording = store.read(options.file)
    found = making.compare(recording, options.other)
    document, code = recordings_text.compared(found), 0 if found.equal else 1
    return CommandReply("recordings-compare", document, recording.model_sha256 or None, code=code)


def _collect(options: argparse.Namespace) -> CommandReply:
    from atonc.delivery.recordings import store

    target = store.add(options.file, options.to)
    said = [f"{target}, and its row in {options.to / store.TABLE}"]
    data = {"file": target.name, "table": store.TABLE}
    return CommandReply("recordings-add", Document(sections=[Chapter("", said)], data=lambda: data))


def _power(options: argparse.Namespace) -> CommandReply:
    from atonc.delivery.recordings import power, store
    from atonc.delivery.texts import recordings_text

    recording = store.read(options.recording) if options.recording else None
    trace = power.read(options.file, power.PowerOptions(options.volts, options.efficiency, options.mark))
    found = power.measure(trace, recording.milliseconds if recording else ())
    estimate = power.estimate(options.build, recording) if options.build else None
    document = recordings_text.power(trace, found, estimate)
    return CommandReply("recordings-power", document, recording.model_sha256 if recording else None)


def _file(metavar: str = "FILE.npz", help: str = "written by --record") -> tuple[Adds, Adds]:
    return arg("file", type=Path, metavar=metavar, help=help), JSON


_KINDS = (
    Command(
        "check",
        "whether a recording can be what it says",
        _check,
        _file(),
        (
            "atonc recordings check board.npz  # hashes, clocks, times: code 1 if untrue",
            "atonc recordings check board.npz --json",
        ),
    ),
    Command(
        "compare",
        "with another recording, or with a folder of generated files on the emulator",
        _compare,
        (*_file(), arg("other", type=Path, metavar="OTHER", help="a recording, or a folder as generate writes it")),
        (
            "atonc recordings compare board.npz st_ai_output  # beside the emulator",
            "atonc recordings compare board.npz other.npz  # two boards, or two clocks",
        ),
    ),
    Command(
        "add",
        "into a folder of recordings that others may use",
        _collect,
        (*_file(), arg("--to", type=Path, default=Path("recordings"), metavar="DIR", help="default recordings")),
        (
            "atonc recordings add board.npz  # into the folder recordings",
            "atonc recordings add board.npz --to shared  # for others to use",
        ),
    ),
    Command(
        "power",
        "what an inference takes, as a power meter saw it",
        _power,
        (
            *_file("FILE.csv", "as a power meter exports it"),
            arg("--recording", type=Path, metavar="FILE.npz", help="of the same run: when no marks say where"),
            arg("--build", type=Path, metavar="DIR", help="what ran, for the estimate beside it"),
            arg("--mark", default="", metavar="COLUMN", help="high while an inference runs"),
            arg("--volts", type=float, default=0.0, metavar="V", help="where the file has current only"),
            arg("--efficiency", type=float, default=1.0, metavar="SHARE", help="of regulators behind the meter"),
        ),
        (
            "atonc recordings power meter.csv --build out  # beside the estimate",
            "atonc recordings power meter.csv --volts 3.3 --recording board.npz",
        ),
    ),
)
COMMANDS = (
    Command(
        "probe",
        "firmware that tests on a board what no ST program shows",
        _probe,
        (
            arg(
                "names", nargs="*", metavar="NAME", help="probes, or all; their controls come along. Or `read LOG`: "
                "what the board answered, as an evidence file",
            ),
            arg("--list", action="store_true", help="all probes with their question (also without a NAME)"),
            single("board"),
            arg(
                "-o", "--output", type=Path, metavar="PATH",
                help="folder of the firmware (default probes), or with `read` the evidence file (default "
                "evidence.json)",
            ),
            SHOWN,
        ),
        (
            "atonc probe --list  # which questions there are",
            "atonc probe all -o probes  # firmware for all of them",
            "atonc probe all --board nucleo-n657x0-q -o probes  # for the other board",
            "atonc probe read uart.log -o evidence.json  # for --evidence",
        ),
    ),
    Command("recordings", "what boards gave and took: check, compare, collect", kinds=_KINDS),
)  # fmt: skip
