"""The files that ST's scripts copy are enough: what a `generate-n6-model_*.sh` takes along compiles and links alone."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from atonc.compiler.emit.c import kernels as own_kernels
from atonc.delivery.firmware import building
from atonc.delivery.generate import generating
from tests.emit.generated import GCC, digits, needs_compiler
from tests.emit.test_network_c import outputs_of

COPIED = ("{}.c", "{}.h", "{}_ecblobs.h", "stai_{}.c", "stai_{}.h", "{}_atonbuf.xSPI2.raw")
STRICT = ("-mcpu=cortex-m55", "-mthumb", "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror")
PLATFORM = ("-DLL_ATON_PLATFORM=LL_ATON_PLAT_STM32N6", "-DLL_ATON_OSAL=LL_ATON_OSAL_BARE_METAL")


def project_with(names: tuple[str, ...], folder: Path, shared_kernels: bool = False) -> Path:
    """A folder with only what a script copies there."""
    project = folder / "Model"
    project.mkdir()
    for name in names:
        out = folder / f"st_ai_output_{name}"
        generating.generate(digits(name), out, with_stai=True, shared_kernels=shared_kernels)
        for file in COPIED:
            shutil.copy(out / file.format(name), project)
    return project


def linked(project: Path, sources: list[str]) -> subprocess.CompletedProcess[str]:
    """All files in one object: names that two of them define are an error, and so is a warning."""
    includes = (f"-I{project}", f"-I{building.runtime_folder('include')}")
    for source in sources:
        command = [GCC, *STRICT, *PLATFORM, *includes, "-c", source, "-o", f"{source}.o"]
        done = subprocess.run(command, cwd=project, capture_output=True, text=True)
        if done.returncode:
            return done
    objects = [f"{source}.o" for source in sources]
    command = [GCC, "-mcpu=cortex-m55", "-nostdlib", "-r", *objects, "-o", "all.o"]
    return subprocess.run(command, cwd=project, capture_output=True, text=True)


def _plain(line: str) -> str:
    """The name in C of a line of `nm`: without our prefix, and without what an optimisation added."""
    return line.split()[-1].removeprefix("kernel_").split(".")[0]


@needs_compiler
def test_two_networks_with_cpu_layers_build_from_the_copied_files(tmp_path: Path) -> None:
    project = project_with(("first", "second"), tmp_path)
    done = linked(project, ["first.c", "second.c"])
    assert not done.returncode and not done.stderr, done.stderr
    listed = subprocess.run(["arm-none-eabi-nm", "all.o"], cwd=project, capture_output=True, text=True).stdout
    kernels = {name for definition in own_kernels.definitions() for name in definition.names}
    seen = {line.split()[-2] for line in listed.splitlines() if _plain(line) in kernels}
    assert seen == {"t"}, "no other file sees a kernel of the network, or must bring one"


def test_the_copied_files_run(tmp_path: Path) -> None:
    project = project_with(("first",), tmp_path)
    assert outputs_of(project, [])[0].tolist() == outputs_of(tmp_path / "st_ai_output_first", [])[0].tolist()


@needs_compiler
def test_shared_kernels_are_one_more_file(tmp_path: Path) -> None:
    project = project_with(("first", "second"), tmp_path, shared_kernels=True)
    assert "fatal error: atonc_kernels.h" in linked(project, ["first.c"]).stderr
    for file in ("atonc_kernels.c", "atonc_kernels.h"):
        shutil.copy(tmp_path / "st_ai_output_second" / file, project)
    done = linked(project, ["first.c", "second.c", "atonc_kernels.c"])
    assert not done.returncode and not done.stderr, done.stderr


@pytest.mark.parametrize("shared", (False, True))
def test_the_shared_file_is_an_option(shared: bool) -> None:
    files = generating.files_of(digits(), shared_kernels=shared)
    assert ("atonc_kernels.c" in files) == ("atonc_kernels.h" in files) == shared
    assert (b"static void atonc_softmax_8(" in files["network.c"]) == (not shared)
