"""The C file as people will compile it: strict warnings, for the chip, and never with fused multiply-add."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from atonc.compiler.emit.c import kernels
from tests.kernels import three_ways
from tests.kernels.kernel_examples import examples
from tests.kernels.three_ways import FLAGS, KERNELS, kernels_folder, random_values, same_three_ways

SOURCE = kernels_folder() / kernels.SOURCE
LOOSE = ("-ffast-math", "-fsingle-precision-constant", "-fno-builtin")
ALLOWED = {"arm_mve.h", "atonc_kernels.h", "math.h", "stddef.h", "stdint.h"}


def test_no_library_but_the_standard_one() -> None:
    includes = re.findall(r'#include [<"]([^>"]+)[>"]', SOURCE.read_text() + kernels.header())
    assert set(includes) <= ALLOWED
    assert not re.search(r"\b(malloc|calloc|free|printf)\b", SOURCE.read_text())


def test_every_part_is_in_the_file_and_stands_for_itself() -> None:
    """Families include what they need, so that an editor or a compiler can look at one alone."""
    parts = KERNELS / "parts"
    assert {path.name for path in parts.iterdir()} == {"prologue.h", *kernels.PARTS}
    assert all(len(path.read_text().splitlines()) <= 400 for path in parts.iterdir())
    gcc = shutil.which("gcc")
    if gcc is None:
        pytest.skip("no gcc")
    families = [str(parts / name) for name in kernels.PARTS if name.endswith(".c")]
    flags = [*FLAGS, "-Wno-unused-function", f"-I{KERNELS}", "-fsyntax-only"]
    subprocess.run([gcc, *flags, *families], check=True)


@pytest.mark.parametrize("standard", ["c99", "c11", "gnu11"])
def test_compiles_here_without_a_warning(standard: str, tmp_path: Path) -> None:
    gcc = shutil.which("gcc")
    if gcc is None:
        pytest.skip("no gcc")
    flags = [f"-std={standard}", *FLAGS[1:], "-pedantic", "-Wshadow", "-Wcast-qual"]
    subprocess.run([gcc, *flags, "-c", str(SOURCE), "-o", str(tmp_path / "k.o")], check=True)


def test_header_in_cpp(tmp_path: Path) -> None:
    cpp = shutil.which("g++")
    if cpp is None:
        pytest.skip("no g++")
    user = tmp_path / "user.cpp"
    user.write_text('#include "atonc_kernels.h"\nint main() { atonc_copy(nullptr, nullptr, 0); }\n')
    flags = ["-Wall", "-Wextra", "-Werror", f"-I{SOURCE.parent}"]
    subprocess.run([cpp, *flags, "-c", str(user), "-o", f"{user}.o"], check=True)


@pytest.mark.parametrize(
    ("core", "standard", "level"),
    [
        ("cortex-m55", "c99", "-O2"),
        ("cortex-m55", "gnu11", "-O2"),
        ("cortex-m55", "gnu11", "-O3"),
        ("cortex-m55", "gnu11", "-Os"),
        ("cortex-m33", "gnu11", "-Os"),
    ],
)
def test_arm_code_rounds_every_product(core: str, standard: str, level: str, tmp_path: Path) -> None:
    """With -std=gnu11 the compiler may fuse by default; the pragma in the file forbids it."""
    gcc, objdump = shutil.which("arm-none-eabi-gcc"), shutil.which("arm-none-eabi-objdump")
    if gcc is None or objdump is None:
        pytest.skip("no arm-none-eabi-gcc")
    target = tmp_path / "k.o"
    flags = [f"-mcpu={core}", "-mfloat-abi=hard", level, f"-std={standard}", "-Wall", "-Wextra", "-Werror"]
    subprocess.run([gcc, *flags, "-c", str(SOURCE), "-o", str(target)], check=True)
    code = subprocess.run([objdump, "-d", str(target)], check=True, capture_output=True, text=True).stdout
    assert "<atonc_conv>" in code
    assert not re.findall(r"\bv(?:fma|fms|fnma|fnms)\w*\.f\d+", code)


def test_no_option_of_the_command_line_changes_a_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """ST's packager compiles networks so; the file switches it off for itself."""
    gcc = shutil.which("gcc")
    if gcc is None:
        pytest.skip("no gcc")
    target = tmp_path / "k.so"
    subprocess.run([gcc, *FLAGS, *LOOSE, "-fPIC", "-c", str(SOURCE), "-o", str(tmp_path / "k.o")], check=True)
    subprocess.run([gcc, "-shared", str(tmp_path / "k.o"), "-o", str(target), "-lm"], check=True)
    loose = ctypes.CDLL(str(target))
    monkeypatch.setattr(three_ways, "library", lambda: loose)
    rng = np.random.default_rng(2)
    for graph, op in examples():
        wanted = [graph.tensors[name] for name in op.inputs if graph.tensors[name].data is None]
        values = {tensor.name: random_values(rng, tensor) for tensor in wanted}
        values |= {"i": np.abs(values["i"]) % 3} if op.kind.startswith("gather") else {}
        same_three_ways(graph, op, values)


def test_kernels_need_no_library_on_the_chip(tmp_path: Path) -> None:
    """Images of ST's packager are linked without one; compilers ask for memset wherever they like."""
    gcc, nm = shutil.which("arm-none-eabi-gcc"), shutil.which("arm-none-eabi-nm")
    if gcc is None or nm is None:
        pytest.skip("no arm-none-eabi-gcc")
    target = tmp_path / "k.o"
    chip = ("-mthumb", "-mcpu=cortex-m55", "-mfpu=fpv4-sp-d16", "-mfloat-abi=hard", "-Os", "-fpic")
    subprocess.run([gcc, *chip, *LOOSE, "-Wall", "-Werror", "-c", str(SOURCE), "-o", str(target)], check=True)
    listed = subprocess.run([nm, "-u", str(target)], check=True, capture_output=True, text=True).stdout
    assert {line.split()[-1] for line in listed.splitlines()} <= {"memset", "memcpy", "_GLOBAL_OFFSET_TABLE_"}
