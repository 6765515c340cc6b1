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
from atonc.machine.hw.board import DEFAULT_SET, find_board

SYSTEMS = ("linux", "windows", "mac")
SCRIPTS = ("scripts/N6_scripts", "Utilities/scripts/N6_scripts")
RUNTIME = Path("Middlewares/ST/AI")
RUNTIME_PARTS = ("Inc", "Lib", "Npu")
BOARD = "stm32n6570-dk"
CONTROLLER = "--enable-epoch-controller"
PROFILES = ("default", "profile_O3", "profile-default", "profile-minimal")
_LAUNCHER = """#!{python}
# Runs atonc by the name of ST's tool; {release} in the environment chooses the release that it answers for.
import sys

sys.path.insert(0, {package!r})
sys.argv[0] = "stedgeai"
from atonc.doors.cli.start import main

sys.exit(main())
"""
_COMMAND = '@"{python}" "%~dp0stedgeai" %*\r\n'
_SCRIPT = """# Runs `atonc {verb}`, whichever Python this file is started with.
import os
import subprocess
import sys

paths = [{package!r}, os.environ.get("PYTHONPATH", "")]
environment = dict(os.environ, PYTHONPATH=os.pathsep.join(filter(None, paths)))
command = [{python!r}, "-m", "atonc", {verb!r}, *sys.argv[1:]]
sys.exit(subprocess.call(command, env=environment))
"""


def files(release_variable: str) -> dict[str, str]:
    """Path inside the folder -> text."""
    told = {"python": sys.executable, "package": str(package_folder().parent), "release": release_variable}
    found = {f"Utilities/{system}/stedgeai": _LAUNCHER.format(**told) for system in SYSTEMS}
    found["Utilities/windows/stedgeai.cmd"] = _COMMAND.format(**told)
    for script, verb in (("npu_driver", "reloc"), ("st_load_and_run", "load-and-run")):
        found[f"scripts/N6_reloc/{script}.py"] = _SCRIPT.format(**told, verb=verb)
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
