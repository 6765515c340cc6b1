"""A folder that looks like an installation of ST's tool to scripts: launchers by its names, which run this atonc.

Nothing of ST's is in it. The loader that belongs into `scripts/N6_scripts` (from release 4.1 on: `Utilities/scripts`)
and the runtime that the model zoo copies from `Middlewares/ST/AI` are the user's own, from an installation or from an
application; a runtime that is named is linked, not copied.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from atonc.delivery.boards.mpool_text import mpool_text
from atonc.machine.base.about import package_folder
from atonc.machine.base.disk import write_file
from atonc.machine.base.errors import InputError
from atonc.machine.base.templates import render
from atonc.machine.hw.board import DEFAULT_SET
from atonc.machine.hw.board_file import find_board

SYSTEMS = ("linux", "windows", "mac")
SCRIPTS = ("scripts/N6_scripts", "Utilities/scripts/N6_scripts")
RUNTIME = Path("Middlewares/ST/AI")
RUNTIME_PARTS = ("Inc", "Lib", "Npu")
BOARD = "stm32n6570-dk"
CONTROLLER = "--enable-epoch-controller"
PROFILES = ("default", "profile_O3", "profile-default", "profile-minimal")


def files(release_variable: str) -> dict[str, str]:
    """Path inside the folder -> text."""
    python, package = sys.executable, repr(str(package_folder().parent))
    launcher = render("stedgeai/stedgeai", python=python, package=package, release=release_variable)
    found = {f"Utilities/{system}/stedgeai": launcher for system in SYSTEMS}
    found["Utilities/windows/stedgeai.cmd"] = f'@"{python}" "%~dp0stedgeai" %*\r\n'
    for script, verb in (("npu_driver", "reloc"), ("st_load_and_run", "load-and-run")):
        told = {"verb": verb, "verb_text": repr(verb), "python": repr(python), "package": package}
        found[f"scripts/N6_reloc/{script}.py"] = render("stedgeai/script.py.in", told)
    for folder in SCRIPTS:
        found[f"{folder}/user_neuralart.json"] = json.dumps(_profiles(), indent=1) + "\n"
        found[f"{folder}/my_mpools/stm32n6.mpool"] = mpool_text(find_board(BOARD), DEFAULT_SET)
    return found


def _profiles() -> Mapping[str, object]:
    return {
        "Globals": {},
        "Profiles": {name: {"memory_pool": "./my_mpools/stm32n6.mpool", "options": CONTROLLER} for name in PROFILES},
    }


def install(folder: Path, release_variable: str, runtime: Path | None = None) -> list[Path]:
    """Writes the files; those that are there and are not ours, such as ST's loader and profiles, stay."""
    if runtime is not None:
        _check_runtime(runtime)
    written = []
    for name, text in files(release_variable).items():
        path = folder / name
        if path.exists() and not _ours(path):
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, text.encode())
        if name.startswith("Utilities/") and not path.suffix:
            path.chmod(0o755)
        written.append(path)
    return [*written, *(_link(folder, runtime) if runtime is not None else [])]


def _ours(path: Path) -> bool:
    """Launchers and commands are replaced by the next installation; whatever users may have changed is not."""
    return path.suffix not in (".json", ".mpool") and b"atonc" in path.read_bytes()[:4096]


def _check_runtime(runtime: Path) -> None:
    missing = [part for part in RUNTIME_PARTS if not (runtime / part).is_dir()]
    if missing:
        raise InputError(
            f"has no folder {', '.join(missing)}",
            where=str(runtime),
            rule="a runtime has Inc, Lib and Npu",
            remedy="name Middlewares/AI_Runtime of an application, or Middlewares/ST/AI of ST's installation",
        )


def _link(folder: Path, runtime: Path) -> list[Path]:
    place = folder / RUNTIME
    if place.is_symlink():
        place.unlink()
    if place.exists():
        raise InputError("is there already", where=str(place), remedy="leave out --runtime, or remove it")
    place.parent.mkdir(parents=True, exist_ok=True)
    os.symlink(runtime.resolve(), place, target_is_directory=True)
    return [place]
