"""Our CPU kernels as one header and one C file for all networks (`--shared-kernels`), made of the families in
`runtime/kernels/parts`.

One file is one line in an application's Makefile, for any number of networks, and the linker drops the functions that
nobody calls; so it always has all families. `own_kernels.py` writes what one network needs into its own file.
"""

from __future__ import annotations

import re
from functools import cache
from importlib import resources

HEADER, SOURCE = "atonc_kernels.h", "atonc_kernels.c"
UNPACK = "atonc_unpack.h"
PARTS = (
    "numbers.h", "functions.h", "loops.h", "vectors.h", "memory.c", "elementwise.c", "windows.c",
    "products.c", "softmax.c", "rows.c", "states.c",
)  # fmt: skip
_PROTOTYPES = re.compile(r"^/\* Prototypes: [^\n]*\n", re.MULTILINE)  # where the header has room for them
_SHOWN = re.compile(  # of a part: titles, and functions that are not static with the comment above them
    r"^(?:/\* --- [^\n]*|(?:/\*(?:(?!\*/).)*\*/\n)?void atonc_\w+\([^)]*\)(?=\n\{))", re.MULTILINE | re.DOTALL
)
_SECTION = "/* --- "  # what stands before the first one serves editors, and compilers of a single part

_FOLDER = resources.files("atonc.machine").joinpath("runtime", "kernels")


def kernel_files() -> dict[str, bytes]:
    return {HEADER: header().encode(), SOURCE: source().encode()}


@cache
def header() -> str:
    """Types and numbers as they are written, and a prototype of every function: it cannot differ from the body."""
    shown = (match[0] for name in PARTS if name.endswith(".c") for match in _SHOWN.finditer(part(name)))
    lines = (f"\n{text}\n\n" if text.startswith(_SECTION) else f"{text};\n" for text in shown)
    prototypes = "".join(lines).lstrip("\n")
    return _PROTOTYPES.sub(lambda _: f"{prototypes}\n", _FOLDER.joinpath(HEADER).read_text(encoding="utf-8"))


def types() -> str:
    """Types and numbers of the header, without what stands around them."""
    text = _FOLDER.joinpath(HEADER).read_text(encoding="utf-8")
    return _PROTOTYPES.split(text[text.index(_SECTION) :])[0]


def unpacking() -> str:
    """The function that unpacks values of 4 bits, which networks have for themselves, behind what says where vectors
    are."""
    paragraphs = part("prologue.h").split("\n\n")
    vectors = next(text for text in paragraphs if "#define ATONC_VECTORS" in text)
    return f"{vectors}\n\n{_FOLDER.joinpath(UNPACK).read_text(encoding='utf-8')}"


def part(name: str) -> str:
    return _FOLDER.joinpath("parts", name).read_text(encoding="utf-8")


def body(name: str) -> str:
    text = part(name)
    return text[text.index(_SECTION) :]


@cache
def source() -> str:
    return part("prologue.h") + "\n" + "".join(map(body, PARTS))
