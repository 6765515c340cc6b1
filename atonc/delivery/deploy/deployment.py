"""What the steps of a deployment know and give: the project with its layout and records, and what a step changed."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import field
from functools import cached_property
from pathlib import Path
from typing import Any

from atonc.delivery.deploy import journal
from atonc.delivery.deploy.app_config import CURRENT, output_type_of
from atonc.delivery.deploy.app_config.dialects import dialect_of
from atonc.delivery.deploy.config import DeployConfig
from atonc.delivery.deploy.journal import FOLDER, Contents, digest
from atonc.delivery.deploy.layout import ProjectLayout, layout_of
from atonc.delivery.deploy.model_facts import ModelFacts, read_facts
from atonc.delivery.deploy.options import DeployOptions
from atonc.machine.base.about import __version__
from atonc.machine.base.disk import read_file
from atonc.machine.base.errors import InputError
from atonc.machine.base.frozen import dataclass

STATE = f"{FOLDER}/state.json"
_MOST_STATE = 1 << 22


@dataclass(frozen=True)
class Deployment:
    """What every step may ask; what takes time is worked out once."""

    config: DeployConfig
    wishes: DeployOptions = field(default_factory=DeployOptions)

    @cached_property
    def model_file(self) -> Path:
        return self.wishes.model or self.config.model_file()

    @cached_property
    def model(self) -> ModelFacts:
        return read_facts(self.model_file)

    @cached_property
    def root(self) -> Path:
        found = (self.wishes.project or self.config.project()).resolve()
        if not found.is_dir():
            raise InputError("is no folder", where=str(found), remedy="give the folder of the application")
        return found

    @cached_property
    def layout(self) -> ProjectLayout:
        configuration = str(self.config.settings.get("deployment.build_conf", ""))
        return layout_of(self.root, self.config.board, configuration, self.config.use_case)

    @cached_property
    def dialect(self) -> str:
        return self.wishes.dialect or (dialect_of(self.root) if self.config.serie == "STM32N6" else CURRENT)

    @cached_property
    def output_type(self) -> str:
        return output_type_of(self.config, self.model, self.dialect)

    @cached_property
    def is_h7(self) -> bool:
        return self.config.serie == "STM32H7"

    def current(self, file: str) -> bytes | None:
        return journal.current(self.root, file)

    def record(self, step: str) -> dict[str, Any]:
        """What was written about the step when it was done; a record that cannot be read is none."""
        found = self._records().get(step)
        return found if isinstance(found, dict) and isinstance(found.get("outputs"), dict) else {}

    def outputs(self, step: str) -> list[str]:
        """The files that the step left."""
        return list(self.record(step).get("outputs", {}))

    def _records(self) -> dict[str, Any]:
        path = self.root / STATE
        try:
            known = json.loads(read_file(path, _MOST_STATE)) if path.is_file() else {}
        except ValueError:
            known = {}
        return known if isinstance(known, dict) else {}

    def recorded(self, step: str, inputs: str, files: Contents) -> Contents:
        """The files, and with them the record that the step was done for these inputs."""
        known = self._records()
        known[step] = {"inputs": inputs, "outputs": {file: digest(data) for file, data in files.items()}}
        return {**files, STATE: (json.dumps(known, indent=1, sort_keys=True) + "\n").encode()}

    def is_done(self, step: str, inputs: str) -> bool:
        """Whether the step was done for the same inputs, and nobody has changed what came out."""
        known = self.record(step)
        outputs = known.get("outputs", {})
        return (
            known.get("inputs") == inputs
            and bool(outputs)
            and all((data := self.current(file)) is not None and digest(data) == d for file, d in outputs.items())
        )


@dataclass(frozen=True)
class StepResult:
    """What a step did: `skipped` says why nothing, `changed` which files, `note` what else."""

    changed: tuple[str, ...] = ()
    skipped: str = ""
    note: str = ""
    diff: str = ""  # of a dry run
    files: Contents = field(default_factory=dict)  # that wait for those of other steps, to take their places together
    backup: tuple[str, ...] = ()


@dataclass(frozen=True)
class DeployStep:
    name: str
    what: str
    run: Callable[[Deployment, bool], StepResult]  # with dry_run
    drafts: bool = False  # its files wait for those of the steps around it


def inputs_digest(*parts: object) -> str:
    """Hashes everything that a step depends on, our version included."""
    return digest("\0".join(map(str, (__version__, *parts))).encode())


def put(deployment: Deployment, files: Contents, dry_run: bool, needed: str = "") -> StepResult:
    """Writes the files in place, or gives them as a patch. `needed`: see `journal.commit`."""
    if dry_run:
        return _as_patch(deployment, files)
    return StepResult(tuple(journal.commit(deployment.root, files, needed=needed)))


def draft(deployment: Deployment, files: Contents, dry_run: bool, backup: Sequence[str] = ()) -> StepResult:
    """Files of the user's sources: those of all steps take their places together (`plan.py`)."""
    if dry_run:
        return _as_patch(deployment, files)
    changed = tuple(journal.changes(deployment.root, files))
    return StepResult(changed, files=files, backup=tuple(backup))


def _as_patch(deployment: Deployment, files: Contents) -> StepResult:
    shown = {file: data for file, data in files.items() if not file.startswith(FOLDER)}
    changed = tuple(journal.changes(deployment.root, shown))
    return StepResult(changed, diff=journal.unified_diff(deployment.root, shown))
