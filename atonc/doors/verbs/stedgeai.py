"""`atonc stedgeai --install DIR`: a folder in which scripts for ST's tool find what they call."""

from __future__ import annotations

import argparse
from pathlib import Path

from atonc.doors.verbs.documents import print_document
from atonc.doors.verbs.flags import add_output_options
from atonc.doors.verbs.st_release import DEFAULT, RELEASE
from atonc.insight.report.terminal import show


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser(
        "stedgeai",
        help="a folder in which scripts for ST's tool find atonc by its name",
        description="Lays out what scripts expect of ST's installation, with launchers that run this atonc. Called so, "
        "options, defaults, files and versions are those of ST's tool, and the first line says who answers. "
        f"{RELEASE} in the environment chooses the release (default {DEFAULT}).",
    )
    parser.set_defaults(verb=_install)
    parser.add_argument(
        "--install", type=Path, required=True, metavar="DIR", help="the folder; what is ST's in it stays"
    )
    runtime = "ST's runtime of an application (Inc, Lib, Npu), which the model zoo copies: linked as Middlewares/ST/AI"
    parser.add_argument("--runtime", type=Path, metavar="DIR", help=runtime)
    add_output_options(parser)


def _install(options: argparse.Namespace) -> int:
    from atonc.delivery.generate import preflight
    from atonc.delivery.generate.st_files import install

    preflight.check_folder(options.install)
    written = install(options.install.absolute(), RELEASE, options.runtime)
    if options.json:
        print_document("stedgeai", {"files": list(map(str, written))})
    elif not options.quiet:
        place = options.install.absolute()
        show([*(f"wrote {path}" for path in written), "", *_next(place)])
    return 0


def _next(place: Path) -> list[str]:
    return [
        f"export STEDGEAI_CORE_DIR={place}",
        f'export PATH="{place / "Utilities" / "linux"}:$PATH"   # or mac, windows',
    ]
