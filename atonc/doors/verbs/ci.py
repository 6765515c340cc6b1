"""Verdicts for machines: JUnit and SARIF files, and annotations of GitHub.

The same question gives the same bytes: no times, no names of machines.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from atonc.compiler.request.options import GATES
from atonc.machine.base.about import __version__
from atonc.machine.base.declare import Takes, option
from atonc.machine.base.disk import write_file
from atonc.machine.base.errors import AtoncError, InputError, plain
from atonc.machine.base.frozen import dataclass
from atonc.machine.base.reasons import CheckResult

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
    check = CheckResult(type(error).__name__, holds=False, says=str(error))
    try:
        report(argparse.Namespace(**files), "error", subject, [check])
    except InputError as other:  # the file of the report may be what was wrong
        print(f"atonc: {other}", file=sys.stderr)


def annotate(subject: Path, broken: Sequence[CheckResult]) -> None:
    if os.environ.get("GITHUB_ACTIONS") != "true":
        return
    for check in broken:
        title, file = _property(f"atonc: {check.name}"), _property(subject.as_posix())
        print(f"::error file={file},title={title}::{_message(check.says)}", file=sys.stderr)


def _message(text: str) -> str:
    return plain(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _message(text).replace(":", "%3A").replace(",", "%2C")


def junit(verb: str, subject: Path, checks: Sequence[CheckResult]) -> bytes:
    from xml.etree import ElementTree as Xml

    broken = sum(not check.holds for check in checks)
    counts = {"tests": str(len(checks)), "failures": str(broken), "errors": "0"}
    suites = Xml.Element("testsuites", counts)
    suite = Xml.SubElement(suites, "testsuite", {"name": plain(f"atonc {verb} {subject.name}"), **counts})
    for check in checks:
        case = Xml.SubElement(suite, "testcase", {"classname": f"atonc.{verb}", "name": plain(check.name)})
        if not check.holds:
            Xml.SubElement(case, "failure", {"message": plain(check.says)})
        else:
            Xml.SubElement(case, "system-out").text = plain(check.says)
    Xml.indent(suites)
    return bytes(Xml.tostring(suites, "utf-8", xml_declaration=True)) + b"\n"


def sarif(subject: Path, checks: Sequence[CheckResult]) -> bytes:
    place = {"physicalLocation": {"artifactLocation": {"uri": quote(subject.as_posix())}}}
    results = [
        {"ruleId": check.name, "level": "error", "message": {"text": plain(check.says)}, "locations": [place]}
        for check in checks
        if not check.holds
    ]
    rules: list[dict[str, Any]] = [{"id": name} for name in dict.fromkeys(check.name for check in checks)]
    tool = {"driver": {"name": "atonc", "version": __version__, "rules": rules}}
    document = {"$schema": _SCHEMA, "version": "2.1.0", "runs": [{"tool": tool, "results": results}]}
    return (json.dumps(document, indent=1) + "\n").encode()
