"""What a header says before it is text, the text, and what a header defines as data; and what it is made from: the file
of the deployment and the edges of its model."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from atonc.compiler.frontends.read import read
from atonc.compiler.ir import Graph, Tensor
from atonc.delivery.deploy.config import DeployConfig
from atonc.machine.base.about import __version__
from atonc.machine.base.disk import read_file
from atonc.machine.base.errors import InputError, UnsupportedError
from atonc.machine.base.frozen import dataclass

ZOO, CURRENT = "zoo", "current"  # as the zoo's generator spells it, and as applications of today do
DIALECTS = (ZOO, CURRENT)
_OLD = b"AI_OBJDETECT_"  # how names of the post-processing began before the wrapper got a file per model
_MOST_FILES, _MOST_BYTES = 20_000, 4 << 20
_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_DEFINE = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)(\([^)\s]*\))?(.*)$", re.MULTILINE)
_TABLE = re.compile(r"\b(\w+)\s*\[[^\]\n]*\]\s*=\s*\{([^{}]*)\}\s*;")
_WIDTH = 48


# ----------------------------------------------------------------------------------------------------------- the model


@dataclass(frozen=True)
class Edge:
    name: str
    shape: tuple[int, ...]
    dtype: str
    scale: float = 0.0  # 0.0 and 0: the values are plain numbers
    zero_point: int = 0

    @property
    def sizes(self) -> str:
        return "x".join(map(str, self.shape))


@dataclass(frozen=True)
class ModelFacts:
    """What the application must know of a model: sizes, types and scales at its edges."""

    name: str  # of the file
    inputs: tuple[Edge, ...]
    outputs: tuple[Edge, ...]
    channels_last: bool = True

    @property
    def image(self) -> tuple[int, int, int]:
        """Height, width and channels of the first input."""
        shape = self.inputs[0].shape
        if len(shape) != 4 or shape[0] != 1:
            rule = "an application with a camera hands the network one image"
            raise UnsupportedError(f"the input of {self.name} is {self.inputs[0].sizes}, no image", rule=rule)
        return self.height_width_channels(shape)

    def height_width_channels(self, shape: tuple[int, ...]) -> tuple[int, int, int]:
        return (shape[1], shape[2], shape[3]) if self.channels_last else (shape[2], shape[3], shape[1])


def read_facts(path: Path) -> ModelFacts:
    graph = read(path)
    inputs, outputs = (tuple(_edge(graph.tensors[n]) for n in names) for names in (graph.inputs, graph.outputs))
    return ModelFacts(path.name, inputs, outputs, _is_last(graph, inputs[0]))


def _edge(tensor: Tensor) -> Edge:
    if tensor.quant is None or tensor.dtype.startswith("float"):
        return Edge(tensor.name, tensor.shape, tensor.dtype)
    return Edge(tensor.name, tensor.shape, tensor.dtype, tensor.scale, tensor.zero_point)


def _is_last(graph: Graph, first: Edge) -> bool:
    """Pictures have one or three channels; where both ends could be channels, the file's kind decides."""
    if len(first.shape) != 4:
        return True
    last, second = (first.shape[at] in (1, 3) for at in (3, 1))
    return last if last != second else graph.source == "tflite"


def dialect_of(project: Path) -> str:
    """Which spelling an application expects, read off its own sources: those that use the old names want all of that
    time; every other application wants those of today."""
    for number, path in enumerate(sorted(project.rglob("*postprocess*.c"))):
        if number >= _MOST_FILES:
            raise InputError("has too many files", where=str(project), remedy="say --dialect zoo or current")
        if path.is_file() and _OLD in read_file(path, _MOST_BYTES):
            return ZOO
    return CURRENT


@dataclass(frozen=True)
class Case:
    """Everything that a row of a header may ask."""

    config: DeployConfig
    model: ModelFacts
    dialect: str
    classes: tuple[str, ...] = ()

    @property
    def current(self) -> bool:
        return self.dialect == CURRENT

    @property
    def output(self) -> Edge:
        return self.model.outputs[0]

    def number(self, key: str) -> float:
        return float(self.config.settings.require(key))

    def whole(self, key: str) -> int:
        return int(self.config.settings.require(key))

    def chosen(self, key: str, known: Mapping[str, str]) -> str:
        """The application's name for what the file says."""
        given = str(self.config.settings.require(key))
        if given not in known:
            raise self.wrong(key, f"{given!r} does not exist on the {self.config.serie}", f"write {', '.join(known)}")
        return known[given]

    def wrong(self, key: str, what: str, remedy: str = "") -> InputError:
        return self.config.settings.error(key, f"{what} ({self.model.name})", remedy=remedy)

    def wrong_model(self, what: str) -> InputError:
        return self.wrong("general.model_type", what)


# ---------------------------------------------------------------------------------------------------------- the header


@dataclass(frozen=True)
class Define:
    name: str
    value: str = ""


@dataclass(frozen=True)
class HeaderTable:
    """An array of numbers."""

    name: str
    length: str
    values: tuple[float, ...]


@dataclass(frozen=True)
class HeaderComment:
    """A comment in front of what follows."""

    text: str


Line = Define | HeaderTable | HeaderComment


@dataclass(frozen=True)
class Header:
    file: str  # its name
    guard: str
    lines: tuple[Line, ...]
    includes: tuple[str, ...] = ()
    plain_c: bool = False  # also for C++ units: names as in C


def bracketed(name: str, value: object) -> Define:
    return Define(name, f"({value})")


def numbered(prefix: str, names: tuple[str, ...], suffix: str = "") -> Iterator[Define]:
    """A number for each, from 1 on."""
    yield from (bracketed(f"{prefix}{name}{suffix}", number) for number, name in enumerate(names, 1))


def strings(names: tuple[str, ...]) -> str:
    """A braced list; a line for every five."""
    quoted = [c_string(name) for name in names]
    rows = [", ".join(quoted[at : at + 5]) for at in range(0, len(quoted), 5)]
    return "{ \\\n  " + ", \\\n  ".join(rows) + " }"


def c_string(text: str) -> str:
    """Bytes that C takes as they are stay; all others as octal, which ends after three digits."""
    escaped = "".join(chr(b) if 32 <= b < 127 and b not in b'"\\' else f"\\{b:03o}" for b in text.encode())
    return f'"{escaped}"'


def classes_table(names: tuple[str, ...], end: str = "") -> Define:
    return Define("CLASSES_TABLE", f"const char* classes_table[NB_CLASSES] = {strings(names)}{end}")


def text_of(header: Header) -> str:
    guard = header.guard
    first = f"/* {header.file}: written by atonc {__version__} for the model that it names; changes will be lost. */"
    lines = [first, f"#ifndef {guard}", f"#define {guard}", ""]
    lines += ["#ifdef __cplusplus", 'extern "C" {', "#endif", ""] if header.plain_c else []
    lines += [*(f'#include "{include}"' for include in header.includes), *([""] if header.includes else [])]
    for line in header.lines:
        if isinstance(line, HeaderComment):
            lines += ["", f"/* {line.text} */"]
        elif isinstance(line, HeaderTable):
            values = ", ".join(f"{value:.6f}" for value in line.values)
            lines.append(f"static const float32_t {line.name}[{line.length}] = {{{values}}};")
        else:
            lines.append(f"#define {line.name:<{_WIDTH}} {line.value}".rstrip())
    lines += ["", *(["#ifdef __cplusplus", "}", "#endif", ""] if header.plain_c else [])]
    return "\n".join([*lines, f"#endif /* {guard} */", ""])


def meaning(text: str) -> Mapping[str, str]:
    """Name -> value of everything that a header defines, however it is laid out: to compare headers."""
    plain = _COMMENT.sub(" ", text).replace("\r\n", "\n")
    plain = re.sub(r"\\[ \t]*\n", " ", plain)
    found = {match[1]: (match[2] or "") + match[3] for match in _DEFINE.finditer(plain)}
    found |= {match[1]: match[2] for match in _TABLE.finditer(_DEFINE.sub("", plain))}
    words = re.compile(r'"(?:\\.|[^"\\])*"|[\w.]+|[^\w\s]')
    return {name: " ".join(words.findall(value)) for name, value in found.items()}
