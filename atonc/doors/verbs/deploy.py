"""Firmware: `atonc deploy` takes a deployment file of ST's model zoo step by step to one, `atonc app` puts several
networks into one (docs/several-networks.md)."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from atonc.compiler.request.options import Options
from atonc.delivery.application.types import OWNER, AppOptions, AppUpdateOptions, owner_of
from atonc.delivery.deploy.options import DeployOptions
from atonc.doors.verbs.compiling import MODELS
from atonc.doors.verbs.parser import SHOWN, Command, arg, declared_values, flags, single
from atonc.doors.verbs.reply import CommandReply, note
from atonc.insight.report.terminal import show
from atonc.machine.base.errors import InputError

if TYPE_CHECKING:
    from atonc.delivery.application.types import Application
    from atonc.delivery.deploy.steps import FinishedStep


def _deploy(options: argparse.Namespace) -> CommandReply:
    from atonc.delivery.deploy.config import read_config
    from atonc.delivery.deploy.deployment import Deployment
    from atonc.delivery.deploy.steps import deploy
    from atonc.delivery.texts import deploy_text

    wishes = declared_values(DeployOptions, options)
    config = read_config(options.config, wishes.use_case)
    if wishes.model is not None:
        config = replace(config, model=str(wishes.model))
    for line in config.notes:
        note(line, options)

    def say(done: FinishedStep) -> None:
        if not (options.quiet or options.json):
            show(deploy_text.lines(done, wishes.dry_run, options.verbose))

    done = deploy(Deployment(config, wishes), wishes.dry_run, say)
    return CommandReply("deploy", deploy_text.document(done, wishes.dry_run))


# ----------------------------------------------------------------------------------------------------------------- app


def _build(options: argparse.Namespace) -> CommandReply:
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

    built = applications.build_and_try(application, options.output, wanted)
    for sentence in built.notes:
        note(sentence, options)
    return CommandReply("app-build", app_text.document(built))


def _update(options: argparse.Namespace) -> CommandReply:
    from atonc.delivery.application.read import read_application
    from atonc.delivery.generate import preflight

    application = read_application(options.file)
    wanted = declared_values(AppUpdateOptions, options)
    if options.output is not None:
        preflight.check_folder(options.output, owner=owner_of(options.network))
    preflight.check_compiler()
    from atonc.delivery.texts import app_text
    from atonc.delivery.trials.applications import update_and_try

    made = update_and_try(application, options.network, options.output, wanted)
    return CommandReply("app-update", app_text.update(made))


def _application(options: argparse.Namespace) -> Application:
    from atonc.delivery.application.read import of_models, read_application

    files: list[Path] = options.files
    usual = Options()
    if any(file.suffix == ".toml" for file in files):
        given = [f"--{name}" for name in ("board", "resident") if getattr(options, name) != getattr(usual, name)]
        if len(files) > 1 or given:
            what = f"{given[0]} with an application file" if given else "an application file and something else"
            raise InputError(what, where=str(files[0]), remedy="say it in the file" if given else "name one file")
        return read_application(files[0])
    strange = [file for file in files if file.suffix.lower() not in MODELS]
    if strange:
        raise InputError("neither an application file nor a model", where=str(strange[0]), rule="app.toml, or models")
    return of_models(files, Options(board=options.board, resident=options.resident))


_APP = (
    Command(
        "build",
        "all files of an application",
        _build,
        (
            arg(
                "files", type=Path, nargs="+", metavar="APP.toml|MODEL",
                help="an application file, or models that take turns",
            ),
            arg("-o", "--output", type=Path, metavar="DIR", help="folder for the files (default: only plan)"),
            single(
                board="for a list of models: name of the board, or a .toml",
                resident="for a list of models: weights in RAM, BYTES for all together, or all that is free",
            ),
            flags(AppOptions),
            SHOWN,
        ),
        (
            "atonc app build app.toml -o build --max-load 60  # docs/several-networks.md",
            "atonc app build detector.tflite reid.onnx -o build --try 5  # without a file",
        ),
        "Compiles the networks of an application so that they share RAM and flash, checks all files "
        "against each other and writes them: C of every network, app_networks.h with one table, one flash image.",
    ),
    Command(
        "update",
        "the next version of a relocatable network, for firmware that is out",
        _update,
        (
            arg("file", type=Path, metavar="APP.toml", help="the application file, with the new model"),
            arg("network", metavar="NETWORK", help="its name there"),
            arg("-o", "--output", type=Path, metavar="DIR", help="folder for the files (default: only try)"),
            flags(AppUpdateOptions),
            SHOWN,
        ),
        (
            "atonc app update app.toml reid --built build -o new  # its next version",
            "atonc app update app.toml reid --try 5  # exchanged on the virtual board",
        ),
        "Compiles one network of an application for the RAM and the slot that it has in firmware that was "
        "built before, and writes its relocatable image: NAME_rel.bin and .hex. The firmware stays as it is.",
    ),
)  # fmt: skip
COMMANDS = (
    Command(
        "deploy",
        "a model-zoo deployment file, step by step to a firmware",
        _deploy,
        (
            arg("config", type=Path, metavar="CONFIG.yaml", help="deployment file of the model zoo"),
            flags(DeployOptions),
            SHOWN,
        ),
        (
            "atonc deploy deployment_config.yaml --dry-run  # patches, nothing changed",
            "atonc deploy deployment_config.yaml --until build",
        ),
        "Compiles the model that a deployment file of ST's model zoo names, describes it to the "
        "application, copies network and weights into its project, builds, signs and flashes it as far as the tools "
        "are there. Steps that are done are not done again; an interrupted run goes on where it was.",
    ),
    Command("app", "several networks in one firmware: memory planned together, one flash image", kinds=_APP),
)
