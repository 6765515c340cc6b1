"""`atonc app`: several networks in one firmware (docs/several-networks.md)."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from atonc.compiler.request.options import Options
from atonc.delivery.application.types import OWNER, AppOptions, AppUpdateOptions, owner_of
from atonc.doors.verbs.common import MODELS, add_output_options, note
from atonc.doors.verbs.documents import print_document
from atonc.doors.verbs.flags import add_declared, add_single, declared_values
from atonc.machine.base.errors import InputError

if TYPE_CHECKING:
    from atonc.delivery.application.types import Application


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    app = verbs.add_parser("app", help="several networks in one firmware: memory planned together, one flash image")
    kinds = app.add_subparsers(required=True, metavar="WHAT")
    build = kinds.add_parser(
        "build",
        help="all files of an application",
        description="Compiles the networks of an application so that they share RAM and flash, checks all files "
        "against each other and writes them: C of every network, app_networks.h with one table, one flash image.",
    )
    build.set_defaults(verb=_build)
    files = "an application file, or models that take turns"
    build.add_argument("files", type=Path, nargs="+", metavar="APP.toml|MODEL", help=files)
    build.add_argument("-o", "--output", type=Path, metavar="DIR", help="folder for the files (default: only plan)")
    add_single(
        build,
        board="for a list of models: name of the board, or a .toml",
        resident="for a list of models: weights in RAM, BYTES for all together, or all that is free",
    )
    add_declared(build, AppOptions)
    add_output_options(build)
    update = kinds.add_parser(
        "update",
        help="the next version of a relocatable network, for firmware that is out",
        description="Compiles one network of an application for the RAM and the slot that it has in firmware that was "
        "built before, and writes its relocatable image: NAME_rel.bin and .hex. The firmware stays as it is.",
    )
    update.set_defaults(verb=_update)
    update.add_argument("file", type=Path, metavar="APP.toml", help="the application file, with the new model")
    update.add_argument("network", metavar="NETWORK", help="its name there")
    update.add_argument("-o", "--output", type=Path, metavar="DIR", help="folder for the files (default: only try)")
    add_declared(update, AppUpdateOptions)
    add_output_options(update)


def _update(options: argparse.Namespace) -> int:
    from atonc.delivery.application.read import read_application
    from atonc.delivery.generate import preflight

    application = read_application(options.file)
    wanted = declared_values(AppUpdateOptions, options)
    if options.output is not None:
        preflight.check_folder(options.output, owner=owner_of(options.network))
    preflight.check_compiler()
    from atonc.delivery.texts import app_text
    from atonc.delivery.trials.applications import update_and_try
    from atonc.insight.report.terminal import show

    made = update_and_try(application, options.network, options.output, wanted)
    if options.json:
        print_document("app-update", made.as_dict())
    elif not options.quiet:
        show(app_text.update_lines(made))
    if made.trial is not None and not made.trial["equal"]:
        print(f"atonc: {made.trial['says']}", file=sys.stderr)
        return 1
    return 0


def _build(options: argparse.Namespace) -> int:
    from atonc.delivery.generate import preflight

    application = _application(options)
    wanted = declared_values(AppOptions, options)
    if options.output is not None:
        preflight.check_folder(options.output, owner=OWNER)
    for network in application.networks:
        preflight.check_reader(network.model)
    if wanted.trial or any(one.relocatable is not None for one in application.networks):
        preflight.check_compiler()
    from atonc.delivery.texts import app_text
    from atonc.delivery.trials import applications
    from atonc.insight.report.terminal import show

    built = applications.build_and_try(application, options.output, wanted)
    broken = [gate.says for gate in built.gates if not gate.holds]
    if built.trial is not None and not built.trial["equal"]:
        broken.append(built.trial["says"])
    if options.json:
        print_document("app-build", built.as_dict())
    elif not options.quiet:
        show(app_text.lines(built))
    for sentence in built.notes:
        note(sentence, options)
    for sentence in broken:
        print(f"atonc: {sentence}", file=sys.stderr)
    return 1 if broken else 0


def _application(options: argparse.Namespace) -> Application:
    from atonc.delivery.application.read import of_models, read_application

    files: list[Path] = options.files
    if any(file.suffix == ".toml" for file in files):
        given = [flag for flag in ("--board", "--resident") if _said(flag, options)]
        if len(files) > 1 or given:
            what = f"{given[0]} with an application file" if given else "an application file and something else"
            raise InputError(what, where=str(files[0]), remedy="say it in the file" if given else "name one file")
        return read_application(files[0])
    strange = [file for file in files if file.suffix.lower() not in MODELS]
    if strange:
        raise InputError("neither an application file nor a model", where=str(strange[0]), rule="app.toml, or models")
    return of_models(files, Options(board=options.board, resident=options.resident))


def _said(flag: str, options: argparse.Namespace) -> bool:
    name = flag.lstrip("-")
    return bool(getattr(options, name) != getattr(Options(), name))
