"""`atonc deploy`: a deployment file of ST's model zoo, step by step to a firmware."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from atonc.delivery.deploy.options import DeployOptions
from atonc.doors.verbs.common import add_output_options, note
from atonc.doors.verbs.documents import print_document
from atonc.doors.verbs.flags import add_declared, declared_values
from atonc.insight.report.terminal import show

if TYPE_CHECKING:
    from atonc.delivery.deploy.steps import FinishedStep


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    deploy = verbs.add_parser(
        "deploy",
        help="a model-zoo deployment file, step by step to a firmware",
        description="Compiles the model that a deployment file of ST's model zoo names, describes it to the "
        "application, copies network and weights into its project, builds, signs and flashes it as far as the tools "
        "are there. Steps that are done are not done again; an interrupted run goes on where it was.",
    )
    deploy.set_defaults(verb=_deploy)
    deploy.add_argument("config", type=Path, metavar="CONFIG.yaml", help="deployment file of the model zoo")
    add_declared(deploy, DeployOptions)
    add_output_options(deploy)


def _deploy(options: argparse.Namespace) -> int:
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
    if options.json:
        print_document("deploy", {"steps": [deploy_text.as_json(step) for step in done]})
    elif not options.quiet:
        show(deploy_text.summary(done, wishes.dry_run))
    return 0
