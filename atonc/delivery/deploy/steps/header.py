"""The header by which the application knows its model."""

from __future__ import annotations

from dataclasses import replace

from atonc.delivery.deploy.app_config import header_of, text_of
from atonc.delivery.deploy.c_text import line_end
from atonc.delivery.deploy.deployment import Deployment, DeployStep, StepResult, draft
from atonc.machine.base.errors import InputError

_SOUNDS = ("audio_event_detection", "speech_enhancement")
_TABLES = (
    "user_win and the mel tables of the project are not made here: they must be for the same numbers as this header"
)


def run(deployment: Deployment, dry_run: bool) -> StepResult:
    header = header_of(deployment.config, deployment.model, deployment.dialect)
    target = deployment.layout.headers.get(header.file)
    if target is None:
        where = f"stmaic_{deployment.config.board}.conf"
        raise InputError(f"does not say where {header.file} goes", where=where, remedy="add it to its templates")
    text, before = text_of(header).encode(), deployment.current(target)
    data = text.replace(b"\n", line_end(before)) if before else text
    note = _TABLES if deployment.config.use_case in _SOUNDS else ""
    return replace(draft(deployment, {target: data}, dry_run, backup=(target,)), note=note)


STEP = DeployStep("header", "describe the model to the application", run, drafts=True)
