"""`atonc deploy`: a deployment file of ST's model zoo, step by step to a firmware."""

from __future__ import annotations

import argparse
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from atonc.verbs.common import add_output_options, note

if TYPE_CHECKING:
    from atonc.deploy.plan import Done

_STEPS = "generate, header, network, initialisers, patch, build, sign, flash"


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
    deploy.add_argument("--model", type=Path, metavar="FILE", help="instead of the model in the file")
    deploy.add_argument("--project", type=Path, metavar="DIR", help="instead of c_project_path in the file")
    deploy.add_argument("--network", type=Path, metavar="DIR", help="STM32H7: output folder of stedgeai generate")
    deploy.add_argument("--use-case", default="", help="where the file does not show it")
    deploy.add_argument("--dialect", choices=["zoo", "current"], default="", help="names in app_config.h")
    deploy.add_argument("--until", default="", metavar="STEP", help=f"the last step: {_STEPS}")
    deploy.add_argument("--dry-run", action="store_true", help="show every change as a patch, change nothing")
    deploy.add_argument("--no-verify", action="store_true", help="compile without checking each layer")
    deploy.add_argument("-j", "--jobs", type=int, default=0, help="compilers at the same time (default: one per core)")
    add_output_options(deploy)


def _deploy(options: argparse.Namespace) -> int:
    from atonc.deploy.config import read_config
    from atonc.deploy.plan import Deployment, Wishes, deploy
    from atonc.report import deploy_text

    config = read_config(options.config, options.use_case)
    if options.model is not None:
        config = replace(config, model=str(options.model))
    for line in config.notes:
        note(line, options)
    wishes = Wishes(
        model=options.model,
        project=options.project,
        network=options.network,
        dialect=options.dialect,
        verify=not options.no_verify,
        until=options.until,
        jobs=options.jobs if options.jobs > 0 else os.cpu_count() or 1,
    )

    def say(done: Done) -> None:
        if not (options.quiet or options.json):
            print("\n".join(deploy_text.lines(done, options.dry_run, options.verbose)), flush=True)

    done = deploy(Deployment(config, wishes), options.dry_run, say)
    if options.json:
        print(json.dumps({"steps": [deploy_text.as_json(step) for step in done]}, indent=1))
    return 0
