"""`atonc deploy`: the steps of a deployment in order, each shown with its time.

A step gives the files that it wants; `journal.py` puts them in place together, with a record of what the step was made
from. So a step that was done is known as such, and whoever is interrupted starts again with the first that was not.
Steps that change what `make` compiles wait for each other: their files take their places in one step, before the build.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import zip_longest

from atonc.delivery.deploy import journal
from atonc.delivery.deploy.deployment import Deployment, DeployStep, StepResult
from atonc.delivery.deploy.steps import build, flash, generate, header, initialisers, network, patch, sign
from atonc.machine.base.errors import InputError, UnsupportedError
from atonc.machine.base.frozen import dataclass


@dataclass(frozen=True)
class FinishedStep:
    step: str
    what: str
    seconds: float
    result: StepResult


def steps_of(deployment: Deployment) -> list[DeployStep]:
    if deployment.config.is_mpu:
        what = f"{deployment.config.board} runs Linux: there is no firmware to make"
        raise UnsupportedError(what, where=deployment.config.settings.where("deployment.hardware_setup.serie"))
    if deployment.is_h7:
        return [header.STEP, network.STEP, patch.STEP, build.STEP, flash.STEP]
    if deployment.config.serie != "STM32N6":
        what = f"firmware for the {deployment.config.serie} is not built; its header is"
        if deployment.wishes.until != header.STEP.name:
            raise UnsupportedError(what, remedy=f"write --until {header.STEP.name}")
        return [header.STEP]
    return [generate.STEP, header.STEP, network.STEP, initialisers.STEP, build.STEP, sign.STEP, flash.STEP]


def deploy(deployment: Deployment, dry_run: bool, say: Callable[[FinishedStep], None]) -> list[FinishedStep]:
    """Every step, up to the one that the user named; `say` hears of each as it ends."""
    chosen = _chosen(steps_of(deployment), deployment.wishes.until)
    if not dry_run:
        journal.recover(deployment.root)
    done: list[FinishedStep] = []
    waiting: list[FinishedStep] = []
    for step, following in zip_longest(chosen, chosen[1:]):
        started = time.perf_counter()
        result = step.run(deployment, dry_run)
        waiting.append(FinishedStep(step.name, step.what, time.perf_counter() - started, result))
        if not (step.drafts and following is not None and following.drafts):
            _commit(deployment, [one.result for one in waiting])
            for one in waiting:
                say(one)
            done, waiting = [*done, *waiting], []
    return done


def _commit(deployment: Deployment, results: Sequence[StepResult]) -> None:
    files = {file: data for result in results for file, data in result.files.items()}
    backup = [file for result in results for file in result.backup]
    if files:
        journal.commit(deployment.root, files, backup, next((f for f in files if f.endswith("/network.c")), ""))


def _chosen(steps: list[DeployStep], until: str) -> list[DeployStep]:
    names = [step.name for step in steps]
    if until and until not in names:
        raise InputError(f"there is no step {until!r}", where="--until", remedy=f"choose from {', '.join(names)}")
    return steps[: names.index(until) + 1] if until else steps
