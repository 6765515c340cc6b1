"""A network without NPU as a shared library of this computer, for ST's runner: what `--dll` of its tool gives."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from atonc.machine.base.about import package_folder
from atonc.machine.base.errors import ToolError, UnsupportedError

_RUNTIME = ("machine", "runtime")
_FLAGS = ("-shared", "-fPIC", "-O2", "-std=gnu11", "-w")


def build(files: Mapping[str, bytes], name: str, regions: Sequence[tuple[int, int]], folder: Path) -> list[Path]:
    """Libraries in `folder` of the generated `files`; `regions`: base and bytes of the memories that are used."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        raise ToolError("no C compiler of this computer is found", remedy="install gcc, or leave out --dll")
    if not sys.platform.startswith("linux"):
        raise UnsupportedError(
            "--dll needs Linux: the memories of the chip are mapped at their own addresses",
            remedy="leave it out; `atonc run` runs the generated files on any computer",
        )
    runtime = package_folder().joinpath(*_RUNTIME)
    folder.mkdir(parents=True, exist_ok=True)
    library, observer = folder / f"libai_{name}.so", folder / "libai_observer.so"
    with tempfile.TemporaryDirectory() as temporary:
        sources = _written(files, f"stai_{name}.c", Path(temporary))
        table = ",".join(f"{{{base:#x},{size:#x}}}" for base, size in regions)
        defined = [f"-DNETWORK={re.sub(r'[^0-9A-Za-z_]', '_', name)}", f"-DREGIONS={table}"]
        include = [f"-I{temporary}", f"-I{runtime / 'include'}"]
        _compile([compiler, *_FLAGS, *defined, *include, *sources, str(runtime / "host" / "host_stai.c")], library)
    _compile([compiler, *_FLAGS, str(runtime / "host" / "host_observer.c")], observer)
    return [library, observer]


def _written(files: Mapping[str, bytes], interface: str, place: Path) -> list[str]:
    """The C files that run the network; that of the interface on the chip is replaced."""
    for file, content in files.items():
        if file.endswith((".c", ".h")):
            (place / file).write_bytes(content)
    return [str(place / file) for file in files if file.endswith(".c") and file != interface]


def _compile(command: Sequence[str], library: Path) -> None:
    done = subprocess.run([*command, "-o", str(library), "-lm"], capture_output=True, text=True, errors="replace")
    if done.returncode:
        last = " / ".join(done.stderr.strip().splitlines()[-3:])
        raise ToolError(f"the library of this computer cannot be built: {last}", where=library.name)
