"""Our CPU kernels, made of the families in `runtime/kernels/parts`: for all networks, or inside the file of one.

One header and one C file (`--shared-kernels`) are one line in an application's Makefile, for any number of networks,
and the linker drops the functions that nobody calls; so they always have all families.

Else a network's C file has the kernels that it calls: static, with what they need and nothing else. So it is complete,
and scripts that know the files of ST's compiler copy enough. What a definition needs is read from its text: every name
in it that another definition of `runtime/kernels` has. What only branches for vectors need is there for cores that have
them. Names that are not ours by their look get a prefix, because the file also includes headers of the application.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache, cached_property
from importlib import resources
from itertools import groupby

from atonc.machine.base.frozen import dataclass
from atonc.machine.base.templates import render

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


_GUARD = "#ifdef ATONC_VECTORS"
_VECTORS = re.compile(rf"^{_GUARD}\n.*?^#(?:else|endif)\n", re.MULTILINE | re.DOTALL)
_COMMENT = re.compile(r"(/\*.*?\*/)", re.DOTALL)
_WORD = re.compile(r"\b[A-Za-z_]\w*\b")
_DEFINED = re.compile(
    r"^#define (\w+)"  # a macro
    r"|^typedef [^;{]*\(\*(\w+)\)"  # a type of functions
    r"|^\} (\w+);"  # a structure
    r"|^(?:static |inline |ATONC_INLINE )*\w+ \*?(\w+)\([^;{]*\)\s\{"  # a function
    r"|\b(ATONC_\w+) = \d",  # a number of a list
    re.MULTILINE,
)
_KERNEL = re.compile(r"^void (?=atonc_)", re.MULTILINE)
_HEADER = '#include "atonc_kernels.h"\n'


@dataclass(frozen=True)
class Definition:
    """A function, type, macro or list of numbers, with the comment above it."""

    text: str

    @cached_property
    def code(self) -> str:
        return _COMMENT.sub("", self.text)

    @cached_property
    def plain_code(self) -> str:
        """Without branches for vectors."""
        return _VECTORS.sub("", self.code)

    @cached_property
    def names(self) -> set[str]:
        return {name for match in _DEFINED.finditer(self.code) for name in match.groups() if name}


def around(functions: str) -> str:
    """C functions behind the kernels that they call; by themselves where they call none. Options of the compiler hold
    for both: constants of who calls are doubles."""
    found = needed(functions, with_vectors=True)
    if not found:
        return functions
    kernels = _renamed("".join(_guarded(found, everywhere=needed(functions, with_vectors=False))))
    return render("network/cpu_layers.c", prologue=_prologue(kernels), kernels=kernels, functions=functions)


def needed(calls: str, with_vectors: bool) -> list[Definition]:
    """What these functions use, and what that uses, in the order of the parts."""
    known = {name: definition for definition in definitions() for name in definition.names}
    found = set[Definition]()
    left = [calls]
    while left:
        named = {known[word] for word in _WORD.findall(left.pop()) if word in known} - found
        found |= named
        left += [definition.code if with_vectors else definition.plain_code for definition in named]
    return [definition for definition in definitions() if definition in found]


@cache
def definitions() -> tuple[Definition, ...]:
    found = [d for text in (types(), *map(body, PARTS)) for d in _split(text) if d.code.strip()]
    unclear = [d.code for d in found if not d.names]
    assert not unclear, f"runtime/kernels: what does this define? {unclear[0]}"
    return tuple(found)


def _split(text: str) -> Iterator[Definition]:
    """Definitions are apart by an empty line, or by the directives around those for vectors."""
    lines: list[str] = []
    depth = 0
    for line in [*text.splitlines(), ""]:
        edge = depth == 0 and line in ("", _GUARD, "#endif")
        if not edge:
            lines.append(line)
            depth += line.count("{") - line.count("}")
        elif lines:
            yield Definition("\n".join(lines) + "\n")
            lines = []


def _guarded(found: list[Definition], everywhere: list[Definition]) -> Iterator[str]:
    for plain, group in groupby(found, key=everywhere.__contains__):
        inner = "\n".join(_KERNEL.sub("static void ", definition.text) for definition in group)
        yield f"{inner}\n" if plain else f"{_GUARD}\n{inner}#endif\n\n"


def _prologue(kernels: str) -> str:
    """As every part begins, without what follows here anyway, and without macros that these kernels do not use."""
    paragraphs = part("prologue.h").split(_HEADER)[1].strip("\n").split("\n\n")
    macros = [set(re.findall(r"#define (\w+)", paragraph)) for paragraph in paragraphs]
    used = set(_WORD.findall(kernels))
    return "".join(f"{text}\n\n" for text, names in zip(paragraphs, macros, strict=True) if not names or names & used)


def _renamed(text: str) -> str:
    """With a prefix for every name that is not ours by its look; comments stay."""
    names = {name for d in definitions() for name in d.names if not name.lower().startswith("atonc_")}
    pattern = re.compile(rf"\b(?:{'|'.join(sorted(names))})\b")
    pieces = _COMMENT.split(text)
    return "".join(piece if piece.startswith("/*") else pattern.sub(_prefixed, piece) for piece in pieces)


def _prefixed(match: re.Match[str]) -> str:
    return f"{'KERNEL' if match[0].isupper() else 'kernel'}_{match[0]}"
