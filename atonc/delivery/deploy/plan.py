"""`atonc deploy`: the steps of a deployment in order, each shown with its time.

A step gives the files that it wants; `journal.py` puts them in place together, with a record of what the step was made
from. So a step that was done is known as such, and whoever is interrupted starts again with the first that was not.
"""

from __future__ import annotations

import time
from collections.abc import Callable

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
    done = []
    for step in chosen:
        started = time.perf_counter()
        result = step.run(deployment, dry_run)
        done.append(FinishedStep(step.name, step.what, time.perf_counter() - started, result))
        say(done[-1])
    return done


def _chosen(steps: list[DeployStep], until: str) -> list[DeployStep]:
    names = [step.name for step in steps]
    if until and until not in names:
        raise InputError(f"there is no step {until!r}", where="--until", remedy=f"choose from {', '.join(names)}")
    return steps[: names.index(until) + 1] if until else steps
