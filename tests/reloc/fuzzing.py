"""Builds the fuzzing program of the loader for this machine, with sanitizers."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

RUNTIME = Path(__file__).resolve().parents[2] / "atonc" / "machine" / "runtime"
SOURCE = Path(__file__).resolve().parent / "fuzz_loader.c"
_PARTS = ("atonc_reloc*.c", "atonc_memories.c", "atonc_caches.c", "atonc_lib*.c")
_STUB = """#include "atonc_runtime.h"
void atonc_rt_fail(atonc_error_t code, uint32_t detail) { (void)code, (void)detail; }
"""
_DEFINES = ("ATONC_HOST", "CPU_IN_SECURE_STATE", "LL_ATON_RT_RELOC", "LL_ATON_EB_DBG_INFO")
SANITIZERS = "address,undefined"


def compiler() -> str | None:
    return shutil.which("cc") or shutil.which("gcc")


def build(folder: Path, command: str) -> Path:
    """The program; raises `CalledProcessError` with what the compiler says."""
    target, stub = folder / "fuzz_loader", folder / "stub.c"
    stub.write_text(_STUB)
    sources = [path for part in _PARTS for path in sorted((RUNTIME / "src").glob(part))]
    flags = ["-std=gnu11", "-O1", "-g", f"-fsanitize={SANITIZERS}", "-fno-sanitize-recover=all", "-Wall", "-Wextra"]
    flags += [f"-D{name}" for name in _DEFINES] + [f"-I{RUNTIME / part}" for part in ("include", "src")]
    words = [command, *flags, "-DFUZZ_MAIN", *map(str, sources), str(SOURCE), str(stub), "-lm", "-o", str(target)]
    subprocess.run(words, check=True, capture_output=True, text=True)
    return target


def run(program: Path, count: int, seed: int, image: Path, params: Path | None = None) -> tuple[int, int]:
    """(accepted, refused); a report of a sanitizer is an error with its text. The loader allocates nothing, and
    looking for leaks takes seconds at the end of every process."""
    words = [str(program), str(count), str(seed), str(image), *([str(params)] if params else [])]
    settings = {**os.environ, "ASAN_OPTIONS": "detect_leaks=0"}
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=settings)
    if done.returncode:
        raise RuntimeError(f"{' '.join(words)}: exit {done.returncode}: {done.stderr[-3000:]}")
    accepted, refused = (int(word) for word in done.stdout.split() if word.isdecimal())
    return accepted, refused
