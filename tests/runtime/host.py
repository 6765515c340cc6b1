"""The runtime compiled for this machine, with a stand-in for the NPU."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from atonc.hw import regs

HERE = Path(__file__).resolve().parent
RUNTIME = HERE.parent.parent / "atonc" / "runtime"
WARNINGS = ("-Wall", "-Wextra", "-Werror")
_LOG = 200000


class Store(ctypes.Structure):
    _fields_ = (("unit", ctypes.c_uint32), ("reg", ctypes.c_uint32), ("value", ctypes.c_uint32))


def build(
    folder: Path, sources: Sequence[Path], defines: Sequence[str] = (), *, strict: bool = True
) -> ctypes.CDLL:
    """Runtime, stand-in and `sources` as one shared library; a warning is an error if `strict`."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler for this machine: the runtime cannot be run here")
    target = folder / "runtime.so"
    files = [*sorted((RUNTIME / "src").glob("*.c")), HERE / "fake_npu.c", *sources]
    flags = ["-std=c11", "-O0", "-shared", "-fPIC", "-ffp-contract=off", "-DATONC_HOST"]
    flags += WARNINGS if strict else ["-w"]
    includes = [f"-I{RUNTIME / 'include'}", f"-I{RUNTIME / 'src'}"]
    command = [compiler, *flags, *[f"-D{d}" for d in defines], *includes, *map(str, files), "-o", str(target)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    library = ctypes.CDLL(str(target))
    reset(library)
    return library


def check_syntax(source: Path) -> None:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler for this machine")
    command = [compiler, "-std=c11", "-fsyntax-only", *WARNINGS, f"-I{RUNTIME / 'include'}", str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def reset(library: ctypes.CDLL) -> None:
    """All registers as after a reset of the chip."""
    library.fake_reset()
    for unit in regs.UNITS:
        for register in regs.registers(unit.kind).values():
            library.fake_set(unit.id, register.index, ctypes.c_uint32(register.reset))


def stores(library: ctypes.CDLL) -> list[tuple[int, int, int]]:
    """What was written since the last call."""
    count = ctypes.c_uint32.in_dll(library, "fake_count")
    log = (Store * _LOG).in_dll(library, "fake_log")
    result = [(s.unit, s.reg, s.value) for s in log[: count.value]]
    count.value = 0
    return result
