"""Arm code from generated networks: finds the cross compiler, compiles, links.

The image is for the virtual board, whose core is a Cortex-M33; the same sources compile for the Cortex-M55 of the chip.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import field
from importlib import resources
from pathlib import Path

from atonc.machine.base.errors import InputError, ToolError
from atonc.machine.base.frozen import dataclass
from atonc.machine.base.templates import render

GCC = "arm-none-eabi-gcc"
PACKAGES = "gcc-arm-none-eabi libnewlib-arm-none-eabi"
_TIMEOUT_S = 600
_SHOWN_LINES = 12
_MAX_JOBS = 8
_FLAGS = ("-mthumb", "-mfloat-abi=hard", "-std=gnu11", "-ffunction-sections", "-fdata-sections", "-g")
_FPU = {
    "cortex-m33": ("-mcpu=cortex-m33", "-mfpu=fpv5-sp-d16"),
    "cortex-m55": ("-mcpu=cortex-m55", "-mfpu=auto"),
    "cortex-m55+nomve": ("-mcpu=cortex-m55+nomve", "-mfpu=auto"),
}
STRICT = ("-Wall", "-Wextra", "-Werror")


@dataclass(frozen=True)
class Toolchain:
    gcc: Path

    def run(self, arguments: Sequence[str], what: str, where: str) -> None:
        try:
            done = subprocess.run(
                [str(self.gcc), *arguments], capture_output=True, text=True, errors="replace", timeout=_TIMEOUT_S
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise ToolError(f"{self.gcc.name} could not {what}: {error}", where=where) from error
        if done.returncode:
            raise InputError(f"{self.gcc.name} could not {what}: {_first_errors(done.stderr)}", where=where)


@dataclass(frozen=True)
class CompileUnit:
    """Sources that are compiled with the same options; `strict` ones may not cause a warning."""

    sources: tuple[Path, ...]
    includes: tuple[Path, ...] = ()
    defines: Mapping[str, str] = field(default_factory=dict)
    strict: bool = False
    options: tuple[str, ...] = ()


@dataclass(frozen=True)
class Placement:
    """Where the linker puts the firmware: code and constants, and data with the stack at its end."""

    code: int = 0x7700_0000
    code_bytes: int = 0x100_0000
    data: int = 0x3400_0400
    data_bytes: int = 0xF_FC00

    @property
    def data_range(self) -> tuple[int, int]:
        return self.data, self.data + self.data_bytes


def find_toolchain() -> Toolchain:
    found = shutil.which(GCC)
    if found is None:
        raise ToolError(
            f"{GCC} was not found",
            rule="the virtual board runs Arm code, which needs a cross compiler",
            remedy=f"Debian, Ubuntu: apt install {PACKAGES}; elsewhere the Arm GNU toolchain, in PATH",
        )
    return Toolchain(Path(found))


def runtime_folder(part: str) -> Path:
    """A folder or file of the runtime that is shipped with this package: include, src, kernels, harness, wire."""
    return Path(str(resources.files("atonc.machine") / "runtime" / part))


def machine_options(cpu: str) -> tuple[str, ...]:
    """Options for compiler and linker: processor, floating point, instruction set."""
    return (*_FPU[cpu], *_FLAGS)


def compile_units(
    toolchain: Toolchain, units: Iterable[CompileUnit], folder: Path, cpu: str = "cortex-m33", optimise: str = "-O2"
) -> list[Path]:
    """One object per source, in `folder`."""
    jobs: list[tuple[Path, Path, list[str]]] = []
    for unit in units:
        options = [*machine_options(cpu), optimise, *(STRICT if unit.strict else ("-w",)), *unit.options]
        options += [f"-I{path}" for path in unit.includes]
        options += [f"-D{name}={value}" if value else f"-D{name}" for name, value in unit.defines.items()]
        for source in unit.sources:
            jobs.append((source, folder / f"{len(jobs)}_{source.stem}.o", options))

    def compile_one(job: tuple[Path, Path, list[str]]) -> Path:
        source, target, options = job
        toolchain.run([*options, "-c", str(source), "-o", str(target)], f"compile {source.name}", str(source))
        return target

    with ThreadPoolExecutor(min(_MAX_JOBS, os.cpu_count() or 1)) as pool:
        return list(pool.map(compile_one, jobs))


def link(
    toolchain: Toolchain,
    objects: Sequence[Path],
    output: Path,
    placement: Placement | None = None,
    cpu: str = "cortex-m33",
    symbols: Mapping[str, int] | None = None,
    fixed: Sequence[int] = (),
) -> Path:
    """`symbols` are addresses that no object defines; section `.contents_K` goes to address K of `fixed`."""
    script = output.with_suffix(".ld")
    script.write_text(linker_script(placement or Placement(), fixed))
    options = [*machine_options(cpu), "-nostartfiles", "--specs=nano.specs", "-Wl,--gc-sections", f"-T{script}"]
    options += ["-Wl,--no-warn-rwx-segments", f"-Wl,-Map={output.with_suffix('.map')}"]
    options += [f"-Wl,--defsym={name}={value:#x}" for name, value in (symbols or {}).items()]
    toolchain.run([*options, *map(str, objects), "-lm", "-o", str(output)], f"link {output.name}", str(output))
    return output


def linker_script(placement: Placement, fixed: Sequence[int] = ()) -> str:
    return render(
        "board.ld",
        code_origin=f"{placement.code:#x}",
        code_length=f"{placement.code_bytes:#x}",
        data_origin=f"{placement.data:#x}",
        data_length=f"{placement.data_bytes:#x}",
        contents="\n  ".join(f".contents_{k} {at:#x} : {{ KEEP(*(.contents_{k})) }}" for k, at in enumerate(fixed)),
    )


def _first_errors(text: str) -> str:
    lines = [line for line in text.splitlines() if "error" in line or "warning" in line or "undefined" in line]
    lines = lines or text.splitlines()
    rest = f" (and {len(lines) - _SHOWN_LINES} more lines)" if len(lines) > _SHOWN_LINES else ""
    return "; ".join(line.strip() for line in lines[:_SHOWN_LINES]) + rest
