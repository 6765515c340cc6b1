"""Our CPU kernels as a network brings them: one header and one C file, made of the families in `runtime/kernels/parts`.

One file is one line in an application's Makefile, for any number of networks, and the linker drops the functions that
nobody calls; so it always has all families.
"""

from __future__ import annotations

from functools import cache
from importlib import resources

HEADER, SOURCE = "atonc_kernels.h", "atonc_kernels.c"
PARTS = (
    "numbers.h", "functions.h", "loops.h", "vectors.h", "memory.c", "elementwise.c", "windows.c",
    "products.c", "rows.c", "states.c",
)  # fmt: skip
_SECTION = "/* --- "  # what stands before the first one serves editors, and compilers of a single part

_FOLDER = resources.files("atonc").joinpath("runtime", "kernels")


def kernel_files() -> dict[str, bytes]:
    return {HEADER: _FOLDER.joinpath(HEADER).read_bytes(), SOURCE: source().encode()}


@cache
def source() -> str:
    folder = _FOLDER.joinpath("parts")
    parts = [folder.joinpath(name).read_text(encoding="utf-8") for name in PARTS]
    prologue = folder.joinpath("prologue.h").read_text(encoding="utf-8")
    return prologue + "".join(part[part.index(_SECTION) :] for part in parts)
