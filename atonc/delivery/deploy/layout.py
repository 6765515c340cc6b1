"""Where things are in a firmware project: read off its `stmaic_BOARD.conf`, as the zoo's scripts do."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from atonc.machine.base.declare import did_you_mean
from atonc.machine.base.errors import InputError
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.machine import read_json

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
        return _join(self.network.rpartition("/")[0], "st_ai_output")

    @property
    def firmware(self) -> str:
        """What comes out at the end."""
        return _join("firmware", self.network.rpartition("/")[2])


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
        return _of_two_cores(root, sources)
    if not (root / sources).is_dir() or not (root / "Model").is_dir():
        otherwise = f"give a project with stmaic_{board}.conf, or with folders {sources} and {network}"
        remedy = did_you_mean(board, _boards(root), otherwise)
        raise InputError(f"is no application for the {board}", where=str(root), remedy=remedy)
    profile = _existing(root, f"Model/user_neuralart_{board}.json")
    headers = {"app_config.h": f"{sources}/Inc/app_config.h"}
    given = f"default@{root / profile}" if profile else ""
    return ProjectLayout(root, network, headers, sources, given, f"{sources}/STM32CubeIDE")


def _of_two_cores(root: Path, sources: str) -> ProjectLayout:
    """Projects for the STM32H747I-DISCO: the network runs on the larger core."""
    headers = {"ai_model_config.h": f"{sources}/Inc/{_CORE}/ai_model_config.h"}
    return ProjectLayout(root, "Application/Network", headers, sources, "", f"{sources}/STM32CubeIDE/{_CORE}")


def _boards(root: Path) -> list[str]:
    """Those that the project has something for, and those of the published applications."""
    described = [path.stem.removeprefix("stmaic_") for path in sorted(root.glob("stmaic_*.conf"))]
    folders = [path.name for path in sorted(root.glob("Application/*")) if path.is_dir()]
    return list(dict.fromkeys([*described, *folders, *_PUBLISHED]))


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


def _join(*parts: str) -> str:
    return "/".join(filter(None, parts))
