"""The reply of a command, and how the door shows it: a JSON document, lines for people, verdicts for machines.

`--json`: every document begins alike, so that whoever reads it knows what it is and of which model. As long as `FORMAT`
is the same, keys keep their names, meanings and types; new ones may come. The schemas in docs/reference/schemas say
which keys are always there. JUnit and SARIF files, and annotations of GitHub: the same question gives the same bytes,
no times, no names of machines.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

from atonc.compiler.request.options import GATES
from atonc.insight.report.document import Document, Mark, Marked, lines
from atonc.insight.report.terminal import show, show_paged
from atonc.machine.base.about import __version__
from atonc.machine.base.declare import Takes, option
from atonc.machine.base.disk import write_file
from atonc.machine.base.errors import CANNOT_JUDGE, WIDTH, AtoncError, InputError, plain
from atonc.machine.base.frozen import dataclass
from atonc.machine.base.progress import stage
from atonc.machine.base.reasons import CheckResult

FORMAT = 1


@dataclass(frozen=True)
class CommandReply:
    """What a command found."""

    kind: str = ""  # of the document: the verb, or the verb and what of it
    document: Document = Document()
    model_sha256: str | None = None
    raw: str = ""  # text that is printed as it is, before that of the document
    loud: bool = False  # shown although `--quiet` is given
    subject: Path = Path(".")  # what was checked
    complain: bool = True  # the text does not say yet what does not hold
    code: int = 0


def give(reply: CommandReply, options: argparse.Namespace) -> int:
    """Shows a reply as the user wants it; the exit code."""
    found = reply.document
    if found.data is not None and getattr(options, "json", False):
        print_document(reply.kind, found.data(), reply.model_sha256)
    elif reply.loud or not getattr(options, "quiet", False):
        print(reply.raw, end="")
        if text := lines(found):
            (show_paged if getattr(options, "pager", False) else show)(text)
    if found.checks is None:
        return reply.code
    for check in found.checks if reply.complain else ():
        if not check.holds:
            print(f"atonc: {check.says}", file=sys.stderr)
    if hasattr(options, "junit"):
        report(options, reply.kind.partition("-")[0], reply.subject, found.checks)
    if any(check.broken for check in found.checks):
        return 1
    return CANNOT_JUDGE if any(check.unjudged for check in found.checks) else 0


def note(text: str, options: argparse.Namespace) -> None:
    if not options.quiet:
        print(f"atonc: {text}", file=sys.stderr)


def progress(options: argparse.Namespace, what: str = "epochs") -> Callable[[int, int], None]:
    """For a verb that counts something itself; the command line decides whether anything is shown."""
    return (lambda done, total: None) if options.quiet or options.json else partial(stage, what)


def document(kind: str, data: Mapping[str, Any], model_sha256: str | None = None) -> dict[str, Any]:
    """`kind`: the verb that made it; `model_sha256`: None where it is of no model, or of one that nobody hashed."""
    head = {"format": FORMAT, "atonc": __version__, "document": kind, "model_sha256": model_sha256}
    return {**head, **data}


def print_document(kind: str, data: Mapping[str, Any], model_sha256: str | None = None) -> None:
    print(json.dumps(document(kind, data, model_sha256), indent=1))


def file_hash(model: Path) -> str | None:
    """The SHA-256 of a model; None for a folder."""
    import hashlib

    return hashlib.sha256(model.read_bytes()).hexdigest() if model.is_file() else None


def build_hash(folder: Path) -> str | None:
    """The SHA-256 of the model that a folder was built from, where it tells."""
    from atonc.compiler.compile.reproduce import MODEL_HASH
    from atonc.insight.explain.saved import read_asked
    from atonc.machine.emu.files.network_c import find_networks

    place = folder if folder.is_dir() else folder.parent
    told = [read_asked(place, c_file.stem) for c_file in find_networks(folder)]
    found = {asked.reproduce.get(MODEL_HASH) for asked in told if asked is not None}
    return found.pop() if len(found) == 1 else None


_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_FILE = Takes(local=True, rare=True)


@dataclass(frozen=True)
class CiOptions:
    """Flags of verbs that judge."""

    junit: Path | None = option(
        None, "--junit", GATES, "write every gate as a JUnit test", metavar="FILE.xml", parse=Path, takes=_FILE
    )
    sarif: Path | None = option(
        None, "--sarif", GATES, "write broken gates as SARIF", metavar="FILE.sarif", parse=Path, takes=_FILE
    )


def report(options: argparse.Namespace, verb: str, subject: Path, checks: Sequence[CheckResult]) -> None:
    """Writes the files that were asked for; on GitHub what does not hold is an annotation of the subject."""
    if options.junit is not None:
        write_file(options.junit, junit(verb, subject, checks))
    if options.sarif is not None:
        write_file(options.sarif, sarif(subject, checks))
    annotate(subject, [check for check in checks if not check.holds])


def report_error(options: argparse.Namespace | None, error: AtoncError) -> None:
    """What stops everything is a check that does not hold."""
    subject = Path(str(getattr(options, "positional", None) or getattr(options, "model", None) or error.where or "."))
    files = {name: getattr(options, name, None) for name in ("junit", "sarif")}
    check = CheckResult(type(error).__name__, holds=False, says=error.one_line)
    try:
        report(argparse.Namespace(**files), "error", subject, [check])
    except InputError as other:
        if other.where != error.where:  # the file of the report may be what was wrong
            show_error(other)


def show_error(error: AtoncError) -> None:
    """On standard error, never wider than the terminal or than lines that one can read; details as they come."""
    first, *rest = error.lines()
    show((Marked(Mark.ALARM, "atonc:", after=f" {first}"), *map(_labelled, rest)), sys.stderr, WIDTH)
    show(error.details, sys.stderr)


def _labelled(line: str) -> Marked:
    """The text of a cause or a fix stands in one column below its label; commands stay on one line."""
    label, _, text = line.partition(": ")
    mark = Mark.REMEDY if "fix" in label else Mark.DOUBT
    command = Mark.COMMAND if text.startswith("atonc ") else None
    return Marked.of((f"{label}: ", mark), (text, command), hang=len(label) + 2)


def annotate(subject: Path, broken: Sequence[CheckResult]) -> None:
    if os.environ.get("GITHUB_ACTIONS") != "true":
        return
    for check in broken:
        title, file = _property(f"atonc: {check.name}"), _property(subject.as_posix())
        print(f"::{_level(check)} file={file},title={title}::{_message(check.says)}", file=sys.stderr)


def _level(check: CheckResult) -> str:
    return "warning" if check.unjudged else "error"


def _message(text: str) -> str:
    return plain(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _message(text).replace(":", "%3A").replace(",", "%2C")


def junit(verb: str, subject: Path, checks: Sequence[CheckResult]) -> bytes:
    from xml.etree import ElementTree as Xml

    number = {word: sum(getattr(check, word) for check in checks) for word in ("broken", "unjudged")}
    counts = {"tests": str(len(checks)), "failures": str(number["broken"]), "errors": "0"}
    counts |= {"skipped": str(number["unjudged"])} if number["unjudged"] else {}
    suites = Xml.Element("testsuites", counts)
    suite = Xml.SubElement(suites, "testsuite", {"name": plain(f"atonc {verb} {subject.name}"), **counts})
    for check in checks:
        case = Xml.SubElement(suite, "testcase", {"classname": f"atonc.{verb}", "name": plain(check.name)})
        if not check.holds:
            Xml.SubElement(case, "skipped" if check.unjudged else "failure", {"message": plain(check.says)})
        else:
            Xml.SubElement(case, "system-out").text = plain(check.says)
    Xml.indent(suites)
    return bytes(Xml.tostring(suites, "utf-8", xml_declaration=True)) + b"\n"


def sarif(subject: Path, checks: Sequence[CheckResult]) -> bytes:
    place = {"physicalLocation": {"artifactLocation": {"uri": quote(subject.as_posix())}}}
    results = [
        {"ruleId": check.name, "level": _level(check), "message": {"text": plain(check.says)}, "locations": [place]}
        for check in checks
        if not check.holds
    ]
    rules: list[dict[str, Any]] = [{"id": name} for name in dict.fromkeys(check.name for check in checks)]
    tool = {"driver": {"name": "atonc", "version": __version__, "rules": rules}}
    document = {"$schema": _SCHEMA, "version": "2.1.0", "runs": [{"tool": tool, "results": results}]}
    return (json.dumps(document, indent=1) + "\n").encode()
