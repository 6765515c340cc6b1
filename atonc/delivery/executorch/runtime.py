"""ExecuTorch's own runtime on this machine, with our backend in it: its delegates run on the virtual board.

The backend is the C++ that ships, built for this computer against the headers of the installed package; behind it stand
functions of this module instead of the loader of the STM32N6.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from atonc.delivery.firmware.building import STRICT, runtime_folder
from atonc.delivery.trials.loading import LoaderRig
from atonc.delivery.trials.npu_operator import install
from atonc.machine.base.errors import AtoncError, ModelError, ToolError, not_loaded
from atonc.machine.hw.machine import stm32n6

_AGAIN = "write the .pte again with this release of atonc"
_COMPILERS = ("c++", "g++", "clang++")
_TIMEOUT_S = 300


class _Operand(ctypes.Structure):
    _fields_ = (("data", ctypes.c_void_p), ("bytes", ctypes.c_size_t))


_Why = (ctypes.c_void_p, ctypes.c_size_t)
_INSTALL = ctypes.CFUNCTYPE(ctypes.c_ssize_t, ctypes.c_void_p, ctypes.c_size_t, *_Why)
_BLOCK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int32, ctypes.c_uint64, ctypes.c_uint64)
_GIVEN = (ctypes.POINTER(_Operand), ctypes.c_size_t, _BLOCK, ctypes.c_void_p)
_RUN = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_ssize_t, *_GIVEN, *_Why)
_REMOVE = ctypes.CFUNCTYPE(None, ctypes.c_ssize_t)


class _Emulator(ctypes.Structure):
    _fields_ = (("install", _INSTALL), ("run", _RUN), ("remove", _REMOVE))


@cache
def register() -> None:
    """Makes `AtonBackend` known to the runtime of this process; afterwards executorch.runtime loads .pte files with
    our delegates. Once is enough."""
    try:
        import executorch.extension.pybindings._C  # noqa: F401  (its runtime; the library below is linked against it)
    except ImportError as error:
        raise not_loaded(error, "executorch", "'atonc[executorch]'") from None
    with tempfile.TemporaryDirectory(prefix="atonc_") as folder:
        library = ctypes.CDLL(str(build(Path(folder))))
    library.atonc_use_emulator(ctypes.byref(_kept_emulator()))


def build(folder: Path) -> Path:
    """The backend for this computer as a shared library."""
    compiler = next(filter(None, map(shutil.which, _COMPILERS)), None)
    if compiler is None:
        raise ToolError("no C++ compiler was found", rule="ExecuTorch's runtime takes backends in C++",
                        remedy="Debian, Ubuntu: apt install g++")  # fmt: skip
    package, ours, target = package_folder(), runtime_folder("executorch"), folder / "libatonc_executorch.so"
    options = ["-std=c++17", "-O1", "-fPIC", "-shared", *STRICT, *header_options(), f"-I{ours}"]
    sources = [str(ours / name) for name in ("atonc_backend.cc", "port_emulator.cc")]
    command = [compiler, *options, *sources, f"-L{package / 'lib'}", "-lexecutorch", "-o", str(target)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=_TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ToolError(f"{compiler} could not build the backend: {error}") from error
    if done.returncode:
        said = next((line for line in done.stderr.splitlines() if "error" in line), done.stderr)
        raise ToolError(f"{compiler} could not build the backend: {said.strip()[:300]}",
                        rule="it was tried with the headers of executorch 1.5")  # fmt: skip
    return target


def package_folder() -> Path:
    found = find_spec("executorch")
    places = list(found.submodule_search_locations or ()) if found is not None else []
    if not places:
        raise ToolError("executorch is not installed", remedy="pip install 'atonc[executorch]'")
    return Path(places[0])


def header_options() -> tuple[str, ...]:
    """What the headers of the package want; warnings of theirs are not ours."""
    include = package_folder() / "include"
    own = include / "executorch" / "runtime" / "core" / "portable_type" / "c10"
    return ("-isystem", str(include), "-isystem", str(own), "-DC10_USING_CUSTOM_GENERATED_MACROS",
            "-DET_EVENT_TRACER_ENABLED")  # fmt: skip


@cache
def _kept_emulator() -> _Emulator:
    """C keeps pointers to it."""
    boards = dict[int, LoaderRig]()
    numbers = count(1)

    def put(data: int, size: int) -> int:
        number = next(numbers)
        boards[number] = install(ctypes.string_at(data, size), "a delegate of AtonBackend", _AGAIN)
        return number

    def run(number: int, operands: Any, amount: int, block: Any, told: int) -> int:
        board = boards[number]
        inputs, outputs = board.inputs[0], board.outputs[0]
        given = [operands[k] for k in range(amount)]
        sizes = [one.bytes for one in given]
        if sizes != [buffer.size_bytes for buffer in (*inputs, *outputs)]:
            raise ModelError(f"operands of {sizes} bytes, the network has others")
        values = [np.frombuffer(ctypes.string_at(one.data, one.bytes), np.uint8) for one in given[: len(inputs)]]
        found, times = board.profile(values) if block else (board.run(values), [])
        for one, made in zip(given[len(inputs) :], found.outputs, strict=True):
            ctypes.memmove(one.data, np.ascontiguousarray(made).tobytes(), one.bytes)
        start, period_ns = 0, 1e3 / stm32n6().clocks.cpu_mhz
        for time in times:
            end = start + time.pre + time.npu + time.post
            block(told, time.first, round(start * period_ns), round(end * period_ns))
            start = end
        return 0

    def remove(number: int) -> None:
        boards.pop(number, None)

    return _Emulator(_INSTALL(_told(put, 0)), _RUN(_told(run, 1)), _REMOVE(remove))


def _told(function: Callable[..., int], failed: int) -> Callable[..., int]:
    """What is raised becomes a reason for their log: nothing may be raised through C."""

    def called(*arguments: Any) -> int:
        *given, why, room = arguments
        try:
            return function(*given)
        except AtoncError as error:
            said = error.one_line
        except Exception as error:  # a mistake of ours: the log says so
            said = f"internal error: {type(error).__name__}: {error}"
        text = said.encode("ascii", "replace")[: room - 1] + b"\0"
        ctypes.memmove(why, text, len(text))
        return failed

    return called
