"""What the steps of a deployment know and give: the project with its records, where things are in it (read off its
`stmaic_BOARD.conf`, as the zoo's scripts do), and what a step changed."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from functools import cached_property
from pathlib import Path
from typing import Any

from atonc.delivery.deploy import journal
from atonc.delivery.deploy.app_config import CURRENT, output_type_of
from atonc.delivery.deploy.app_config.header import ModelFacts, dialect_of, read_facts
from atonc.delivery.deploy.config import DeployConfig
from atonc.delivery.deploy.journal import FOLDER, Contents, digest
from atonc.delivery.deploy.options import DeployOptions
from atonc.machine.base.about import __version__
from atonc.machine.base.declare import did_you_mean
from atonc.machine.base.disk import read_file
from atonc.machine.base.errors import InputError
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.tolerant_json import read_json

_VARIABLE = re.compile(r"\$\{(\w+)\}")
_ROOT = "ProjectFolder"
_BINARIES = ("Binary", "Binaries")
_SHORT = {"audio_event_detection": "aed", "human_activity_recognition": "har"}  # projects with several applications
_PUBLISHED = ("STM32N6570-DK", "NUCLEO-N657X0-Q", "STM32H747I-DISCO")
_CORE = "CM7"
_HEADERS = ("app_config.h", "ai_model_config.h")


@dataclass(frozen=True)
class ProjectLayout:
    """Folders are relative to the root, with slashes."""

    root: Path
    network: str  # where the application has its network
    headers: Mapping[str, str]  # name -> where it goes
    sources: str  # where the Makefile is
    profile: str  # PROFILE@FILE of ST's compiler
    ide_project: str  # of STM32CubeIDE
    ide_name: str = ""
    ide_configuration: str = "Release"
    fsbl: str = ""  # the first boot loader, as a file to flash
    loader: str = ""  # how the programmer reaches the flash

    @property
    def generated(self) -> str:
        """What the compiler writes; beside the network, under the name that ST's tool gives it."""
        return "/".join(filter(None, (self.network.rpartition("/")[0], "st_ai_output")))

    @property
    def firmware(self) -> str:
        """What comes out at the end."""
        return f"firmware/{self.network.rpartition('/')[2]}"


def layout_of(root: Path, board: str, configuration: str = "", use_case: str = "") -> ProjectLayout:
    """`configuration` is the name of one in the description; the first counts where there is none of that name."""
    names = (f"stmaic_{board}.conf", "stmaic_c_project.conf", f"{_SHORT.get(use_case, '')}_stmaic_c_project.conf")
    conf = next((path for name in names if (path := root / name).is_file()), None)
    return _from_conf(root, conf, configuration) if conf is not None else _usual(root, board)


def _from_conf(root: Path, conf: Path, wanted: str) -> ProjectLayout:
    document = read_json(conf)
    try:
        values = {_ROOT: ".", **{str(k): str(v) for k, v in document.get("env", {}).items()}}
        pool: Mapping[str, Any] = document.get("memory_pool", {})
        listed = sorted(document.get("configurations", []), key=lambda entry: entry.get("name") != wanted)
        first: Mapping[str, Any] = next(iter(listed), {})
        copied = [_expanded(str(entry[1]), values) for entry in document.get("templates", [])]
        network = _expanded(values.get("network_src_root", "."), values)
        place = _expanded(str(first.get("cproject_location", ".")), values)
        profile = _expanded(str(pool.get("neuralart_user_path", "")), values)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise InputError(f"is not a project description: {error!r} fails", where=str(conf)) from None
    headers = {name: path for path in copied if (name := path.rpartition("/")[2]) in _HEADERS}
    return ProjectLayout(
        root=root,
        network=network,
        headers=headers,
        sources=place.removesuffix("/STM32CubeIDE"),
        profile=f"{pool.get('profile', 'default')}@{root / profile}" if profile else "",
        ide_project=place,
        ide_name=_expanded(str(first.get("cproject_name", "")), values),
        ide_configuration=str(first.get("cproject_config", "Release")),
        fsbl=next(filter(None, (_existing(root, f"{one}/{values.get('fsbl_bin', '')}") for one in _BINARIES)), ""),
        loader=str(first.get("external_loader", "")),
    )


def _usual(root: Path, board: str) -> ProjectLayout:
    """Assumes the layout of the published applications."""
    sources, network = f"Application/{board}", f"Model/{board}"
    if all((root / sources / part / _CORE).is_dir() for part in ("Inc", "Src")):
        # projects for the STM32H747I-DISCO: the network runs on the larger core
        headers = {"ai_model_config.h": f"{sources}/Inc/{_CORE}/ai_model_config.h"}
        return ProjectLayout(root, "Application/Network", headers, sources, "", f"{sources}/STM32CubeIDE/{_CORE}")
    if not (root / sources).is_dir() or not (root / "Model").is_dir():
        otherwise = f"give a project with stmaic_{board}.conf, or with folders {sources} and {network}"
        described = [path.stem.removeprefix("stmaic_") for path in sorted(root.glob("stmaic_*.conf"))]
        folders = [path.name for path in sorted(root.glob("Application/*")) if path.is_dir()]
        remedy = did_you_mean(board, list(dict.fromkeys([*described, *folders, *_PUBLISHED])), otherwise)
        raise InputError(f"is no application for the {board}", where=str(root), remedy=remedy)
    profile = _existing(root, f"Model/user_neuralart_{board}.json")
    headers = {"app_config.h": f"{sources}/Inc/app_config.h"}
    given = f"default@{root / profile}" if profile else ""
    return ProjectLayout(root, network, headers, sources, given, f"{sources}/STM32CubeIDE")


def _expanded(text: str, values: Mapping[str, str], depth: int = 8) -> str:
    """Variables of the description; what leads out of the project is refused."""
    if depth == 0:
        raise ValueError(f"{text} refers to itself")
    found = _VARIABLE.sub(lambda match: _expanded(values.get(match[1], match[0]), values, depth - 1), text)
    parts = [part for part in found.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise ValueError(f"{found} leads out of the project")
    return "/".join(parts)


def _existing(root: Path, file: str) -> str:
    return file if (root / file).is_file() else ""


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
        there = [
            (data := self.current(file)) is not None and digest(data) == wanted
            for file, wanted in known.get("outputs", {}).items()
        ]
        return known.get("inputs") == inputs and bool(there) and all(there)


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
    """Files of the user's sources: those of all steps take their places together (`steps.deploy`)."""
    if dry_run:
        return _as_patch(deployment, files)
    changed = tuple(journal.changes(deployment.root, files))
    return StepResult(changed, files=files, backup=tuple(backup))


def _as_patch(deployment: Deployment, files: Contents) -> StepResult:
    shown = {file: data for file, data in files.items() if not file.startswith(FOLDER)}
    changed = tuple(journal.changes(deployment.root, shown))
    return StepResult(changed, diff=journal.unified_diff(deployment.root, shown))
