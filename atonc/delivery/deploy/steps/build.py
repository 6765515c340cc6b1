"""The firmware, with what the project is built with: make, CMake, or STM32CubeIDE without its window.

The user's Makefile stays as it is: a twin beside it leaves out what this compiler does not know.
Objects are made in a folder of their own. A mark says that it is being worked in; whoever finds it begins anew, because
a compiler that was killed leaves halves.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from atonc.delivery.deploy import journal, tools
from atonc.delivery.deploy.deployment import Deployment, DeployStep, StepResult, put
from atonc.machine.base.errors import ToolError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

TWIN = "Makefile.atonc"
ELF, BINARY = "Project.elf", "Project.bin"
_BUILD = "build-atonc"
_MARK = f"{journal.FOLDER}/building"
_ODD_OPTION = "-fcyclomatic-complexity"  # known to ST's compiler only
# what headers of some compilers lack -> the macros that stand in for it
_LACKS = {
    "#include <math.h>\nfloat_t x;\ndouble_t y;\n": "-Dfloat_t=float -Ddouble_t=double",
    "#include <inttypes.h>\nconst char *x = PRIx64 PRIu64;\n": "-DPRIx64='\"llx\"' -DPRIu64='\"llu\"'",
}
_REMEDY = "Debian, Ubuntu: apt install make gcc-arm-none-eabi libnewlib-arm-none-eabi; or install STM32CubeIDE"


def run(deployment: Deployment, dry_run: bool) -> StepResult:
    builder = _builder(deployment)
    if builder is None:
        return StepResult(skipped=f"neither make with arm-none-eabi-gcc, nor CMake, nor STM32CubeIDE. {_REMEDY}")
    name, folder = builder
    if dry_run:
        return StepResult(note=f"would build {folder} with {name}")
    with _alone(deployment) as handle:
        image = _BUILDERS[name](deployment, handle)
    firmware = deployment.layout.firmware
    files = {f"{firmware}/{ELF}": image.read_bytes(), f"{firmware}/{BINARY}": _binary(image)}
    return put(deployment, files, dry_run, f"{firmware}/{BINARY}")


def _builder(deployment: Deployment) -> tuple[str, str] | None:
    folder, compiler = deployment.layout.sources, tools.find("arm-none-eabi-gcc")
    if (deployment.root / folder / "Makefile").is_file() and compiler and tools.find("make"):
        return "make", folder
    if (deployment.root / folder / "CMakeLists.txt").is_file() and compiler and tools.find("cmake"):
        return "cmake", folder
    if (deployment.root / deployment.layout.ide_project / ".project").is_file() and _ide(deployment):
        return "STM32CubeIDE", deployment.layout.ide_project
    return None


# ---------------------------------------------------------------------------------------------------------------- make


def _make(deployment: Deployment, handle: int) -> Path:
    folder = deployment.root / deployment.layout.sources
    twin = f"{deployment.layout.sources}/{TWIN}"
    text = twin_makefile((folder / "Makefile").read_text(errors="surrogateescape"))
    journal.commit(deployment.root, {twin: text.encode(errors="surrogateescape")})
    folder_name = "BUILD_TOP" if "BUILD_TOP" in text else "BUILD_DIR"
    command = ["make", "-f", TWIN, f"{folder_name}={_BUILD}", f"-j{deployment.wishes.compilers}"]
    tools.run(command, folder, "building the firmware", (handle,))
    return _newest(folder / _BUILD)


def twin_makefile(text: str) -> str:
    """The project's Makefile for this compiler."""
    gcc = tools.find("arm-none-eabi-gcc") or Path("arm-none-eabi-gcc")
    if _ODD_OPTION in text and not tools.accepts(gcc, "int x;\n", _ODD_OPTION):
        text = text.replace(_ODD_OPTION, "")
    macros = " ".join(macro for source, macro in _LACKS.items() if not tools.accepts(gcc, source))
    if macros:
        text = f"C_DEFS += {macros}\n" + text
    return f"# made by atonc from Makefile; it is written anew with every deployment\n{text}"


def _cmake(deployment: Deployment, handle: int) -> Path:
    folder = deployment.root / deployment.layout.sources
    build = folder / _BUILD
    tools.run(["cmake", "-S", ".", "-B", str(build)], folder, "configuring the firmware", (handle,))
    command = ["cmake", "--build", str(build), f"-j{deployment.wishes.compilers}"]
    tools.run(command, folder, "building the firmware", (handle,))
    return _newest(build)


def _ide(deployment: Deployment) -> Path | None:
    named = str(deployment.config.settings.get("tools.path_to_cubeIDE") or "")
    if named and Path(named).is_file():
        return Path(named)
    folder = os.environ.get("STM32_CUBE_IDE_DIR")
    return tools.find("stm32cubeide", *([Path(folder)] if folder else []))


def _cube_ide(deployment: Deployment, handle: int) -> Path:
    layout, program = deployment.layout, _ide(deployment)
    project = deployment.root / layout.ide_project
    with tempfile.TemporaryDirectory() as workspace:
        command = [str(program), "--launcher.suppressErrors", "-nosplash", "-application"]
        command += ["org.eclipse.cdt.managedbuilder.core.headlessbuild", "-data", workspace]
        command += ["-import", str(project), "-cleanBuild", f"{layout.ide_name}/{layout.ide_configuration}"]
        tools.run(command, project, "building the firmware", (handle,))
    return _newest(project / layout.ide_configuration)


_BUILDERS = {"make": _make, "cmake": _cmake, "STM32CubeIDE": _cube_ide}

# ------------------------------------------------------------------------------------------------------------- results


def _newest(folder: Path) -> Path:
    """The one image of a build."""
    found = sorted(folder.rglob("*.elf"), key=lambda path: (path.stat().st_mtime_ns, str(path)))
    if not found:
        raise ToolError("the build ended without an image", where=str(folder), remedy="look at what it makes")
    return found[-1]


def _binary(image: Path) -> bytes:
    """Reads the image as it lies in memory: what gets signed and flashed."""
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder, BINARY)
        command = ["arm-none-eabi-objcopy", "-O", "binary", str(image), str(target)]
        tools.run(command, image.parent, "converting the image")
        return target.read_bytes()


@contextmanager
def _alone(deployment: Deployment) -> Iterator[int]:
    """Nobody else builds: a compiler of a run that was killed may still be at work, and holds the lock until it ends.
    The mark stays if the build does not come to its end."""
    root = deployment.root
    (root / journal.FOLDER).mkdir(exist_ok=True)
    handle = os.open(root / journal.FOLDER / "build.lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        if fcntl is not None:
            fcntl.flock(handle, fcntl.LOCK_EX)
        if (root / _MARK).exists():
            shutil.rmtree(root / deployment.layout.sources / _BUILD, ignore_errors=True)
        (root / _MARK).write_text("")
        try:
            yield handle
        except ToolError as error:
            if error.details:  # it ended by itself, with errors in the sources: no halves
                (root / _MARK).unlink(missing_ok=True)
            raise
        (root / _MARK).unlink(missing_ok=True)
    finally:
        os.close(handle)


STEP = DeployStep("build", "build the firmware", run)
