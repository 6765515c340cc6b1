"""The runtime compiled for this machine, with a stand-in for the NPU."""

from __future__ import annotations

import atexit
import ctypes
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest

from atonc.machine.hw import regs

HERE = Path(__file__).resolve().parent
RUNTIME = HERE.parent.parent / "atonc" / "machine" / "runtime"
WARNINGS = ("-Wall", "-Wextra", "-Werror")
_LOG = 200000


class Store(ctypes.Structure):
    _fields_ = (("unit", ctypes.c_uint32), ("reg", ctypes.c_uint32), ("value", ctypes.c_uint32))


def build(folder: Path, sources: Sequence[Path], defines: Sequence[str] = (), *, strict: bool = True) -> ctypes.CDLL:
    """Runtime, stand-in and `sources` as one shared library; a warning is an error if `strict`."""
    target = folder / "runtime.so"
    flags = _flags(tuple(defines), strict)
    _run([_compiler(), *flags, "-shared", *_runtime_objects(tuple(defines)), *map(str, sources), "-o", str(target)])
    library = ctypes.CDLL(str(target))
    reset(library)
    return library


def _compiler() -> str:
    found = shutil.which("cc") or shutil.which("gcc")
    if found is None:
        pytest.skip("no C compiler for this machine: the runtime cannot be run here")
    return found


def _flags(defines: tuple[str, ...], strict: bool) -> list[str]:
    includes = [f"-I{RUNTIME / 'include'}", f"-I{RUNTIME / 'src'}"]
    warnings = WARNINGS if strict else ("-w",)
    return ["-std=c11", "-O0", "-fPIC", "-DATONC_HOST", *warnings, *[f"-D{d}" for d in defines], *includes]


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@cache
def _runtime_objects(defines: tuple[str, ...]) -> list[str]:
    """The runtime's objects, compiled once per set of defines."""
    folder = Path(tempfile.mkdtemp(prefix="atonc-runtime-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    sources = [*sorted((RUNTIME / "src").glob("*.c")), HERE / "fake_npu.c"]
    for source in sources:
        _run([_compiler(), *_flags(defines, True), "-c", str(source), "-o", str(folder / f"{source.stem}.o")])
    return sorted(map(str, folder.glob("*.o")))


def check_syntax(source: Path) -> None:
    flags = ["-std=c11", "-fsyntax-only", "-DLL_ATON_RT_RELOC", *WARNINGS, f"-I{RUNTIME / 'include'}"]
    _run([_compiler(), *flags, str(source)])


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
