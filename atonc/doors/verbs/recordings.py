"""`atonc recordings`: what boards computed and how long they took, checked, compared and collected."""

from __future__ import annotations

import argparse
from pathlib import Path

from atonc.doors.verbs.documents import print_document
from atonc.insight.report.terminal import show


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    recordings = verbs.add_parser("recordings", help="what boards gave and took: check, compare, collect")
    kinds = recordings.add_subparsers(required=True, metavar="WHAT")
    check = _kind(kinds, "check", "whether a recording can be what it says")
    check.set_defaults(verb=_check)
    compare = _kind(kinds, "compare", "with another recording, or with a folder of generated files on the emulator")
    compare.set_defaults(verb=_compare)
    compare.add_argument("other", type=Path, metavar="OTHER", help="a recording, or a folder as generate writes it")
    collect = _kind(kinds, "add", "into a folder of recordings that others may use")
    collect.set_defaults(verb=_add)
    meter = "FILE.csv", "as a power meter exports it"
    power = _kind(kinds, "power", "what an inference takes, as a power meter saw it", meter)
    power.set_defaults(verb=_power)
    power.add_argument("--recording", type=Path, metavar="FILE.npz", help="of the same run: when no marks say where")
    power.add_argument("--build", type=Path, metavar="DIR", help="what ran, for the estimate beside it")
    power.add_argument("--mark", default="", metavar="COLUMN", help="high while an inference runs")
    power.add_argument("--volts", type=float, default=0.0, metavar="V", help="where the file has current only")
    power.add_argument("--efficiency", type=float, default=1.0, metavar="SHARE", help="of regulators behind the meter")
    collect.add_argument("--to", type=Path, default=Path("recordings"), metavar="DIR", help="default recordings")


def _kind(
    kinds: argparse._SubParsersAction[argparse.ArgumentParser],
    name: str,
    what: str,
    file: tuple[str, str] = ("FILE.npz", "written by --record"),
) -> argparse.ArgumentParser:
    found: argparse.ArgumentParser = kinds.add_parser(name, help=what)
    found.add_argument("file", type=Path, metavar=file[0], help=file[1])
    found.add_argument("--json", action="store_true", help="one JSON document on standard output")
    return found


def _check(options: argparse.Namespace) -> int:
    from atonc.delivery.recordings import store
    from atonc.delivery.texts import recordings_text

    found = store.read(options.file)
    wrong, missing = store.faults(found), store.gaps(found)
    if options.json:
        told = recordings_text.check_json(found, wrong, missing)
        print_document("recordings-check", told, found.model_sha256 or None)
    else:
        show(recordings_text.check_lines(found, wrong, missing))
    return 1 if wrong else 0


def _compare(options: argparse.Namespace) -> int:
    from atonc.delivery.recordings import making, store
    from atonc.delivery.texts import recordings_text

    recording = store.read(options.file)
    found = making.compare(recording, options.other)
    if options.json:
        print_document("recordings-compare", recordings_text.compare_json(found), recording.model_sha256 or None)
    else:
        show(recordings_text.compare_lines(found))
    return 0 if found.equal else 1


def _add(options: argparse.Namespace) -> int:
    from atonc.delivery.recordings import store

    target = store.add(options.file, options.to)
    if options.json:
        print_document("recordings-add", {"file": target.name, "table": store.TABLE})
    else:
        print(f"{target}, and its row in {options.to / store.TABLE}")
    return 0


def _power(options: argparse.Namespace) -> int:
    from atonc.delivery.recordings import power, store
    from atonc.delivery.texts import recordings_text

    recording = store.read(options.recording) if options.recording else None
    trace = power.read(options.file, power.PowerOptions(options.volts, options.efficiency, options.mark))
    found = power.measure(trace, recording.milliseconds if recording else ())
    estimate = power.estimate(options.build, recording) if options.build else None
    if options.json:
        told = recordings_text.power_json(trace, found, estimate)
        print_document("recordings-power", told, recording.model_sha256 if recording else None)
    else:
        show(recordings_text.power_lines(trace, found, estimate))
    return 0
