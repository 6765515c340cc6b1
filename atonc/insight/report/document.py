"""What was found, as data to be shown: made once for a question, rendered once for a format.

A question has a function `document(found, ...)` in its module of this room or of `delivery/texts`: `quantize_text`,
`board_text` and so on. A verb gives the document in its reply; whoever shows it takes one of these:

    show(lines(document))                         a terminal: `terminal.show`, `document.lines`
    print_document(name, document.data())         --json
    html.page.document_page(document)             a page in one file
    notebook.fragment(document)                   under a cell of a notebook; `document.tables` are its data frames
    reply.report(..., document.checks)            JUnit, SARIF, annotations

A new column is a `Column` in the tuple of columns of its question: text, page and notebook show it. A new format is a
file with one function over these types.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from atonc.machine.base.errors import plain
from atonc.machine.base.frozen import dataclass
from atonc.machine.base.words import count, elided, ms_text, size_text

if TYPE_CHECKING:  # with some of these come arrays, and verbs that only have a summary would load them for their help
    from collections.abc import Callable

    from atonc.compiler.place.usage import MemoryUse
    from atonc.insight.evaluating.metrics import RecallCurve
    from atonc.insight.explain.types import StepView
    from atonc.machine.base.reasons import CheckResult
    from atonc.machine.cost.network import NetworkCost

PLAIN_HANG = 2  # columns that the rest of a long line is indented by, beside the indent of the line


class Mark(StrEnum):
    ALARM = "alarm"  # what costs most and should not be, what failed
    DOUBT = "doubt"  # a note, or how far a figure may be off
    GOOD = "good"  # what was checked and holds
    REMEDY = "remedy"
    RULE = "rule"  # the name of a rule
    HEAD = "head"  # the words that begin a section
    PLACE = "place"  # where a layer runs
    ON_CPU = "on the CPU"
    COMMAND = "command"  # stays on one line, to be pasted


class Marked(str):
    """A line with parts of it marked; wherever else it goes it is plain text."""

    spans: tuple[tuple[Mark, int, int], ...]
    hang: int  # columns before whatever does not fit on the first line

    def __new__(cls, mark: Mark, part: str, before: str = "", after: str = "") -> Marked:
        return cls.of((before, None), (part, mark), (after, None))

    @classmethod
    def of(cls, *parts: tuple[str, Mark | None], hang: int | None = None) -> Marked:
        line = super().__new__(cls, "".join(text for text, _ in parts))
        spans, start = [], 0
        for text, mark in parts:
            spans += [(mark, start, start + len(text))] if mark is not None and text else []
            start += len(text)
        line.spans, line.hang = tuple(spans), usual_hang(line) if hang is None else hang
        return line


def short_name(text: str) -> str:
    """A name of a model or a side, printable and of bearable length."""
    return elided(plain(text), 48)


def usual_hang(line: str) -> int:
    return len(line) - len(line.lstrip()) + PLAIN_HANG


def note(text: str, indent: str = "") -> Marked:
    return Marked(Mark.DOUBT, f"{indent}note: {text}")


def head(words: str, rest: str = "") -> Marked:
    return Marked(Mark.HEAD, words, after=rest)


T = TypeVar("T")


class Only(StrEnum):
    TEXT = "text"
    PAGE = "page"


@dataclass(frozen=True)
class Column(Generic[T]):
    """A figure of each row of a table."""

    title: str
    of: Callable[[T], Any]
    form: str = "{}"  # how a value reads; None is shown as nothing
    width: int = 0  # characters that it has at least in text
    left: bool = False  # words begin at the left, figures end at the right
    mark: Callable[[T], Mark | None] | None = None  # of a cell of the text
    only: Only | None = None
    about: str = ""  # on a page, what the title means, where the glossary has no such word

    def text(self, row: T) -> str:
        value = self.of(row)
        return "" if value is None else self.form.format(value)


@dataclass(frozen=True)
class Table(Generic[T]):
    columns: Sequence[Column[T]]
    rows: Sequence[T]
    label: str = ""  # what it is, for who cannot see the page
    titles: bool = False  # above the columns of the text; a page always has them
    numbered: bool = False  # on a page, as the dots of the plot above it
    indent: int = 2  # of the text
    framed: bool = False  # in text with lines around its cells, titles and the label, as tools of ST print


@dataclass(frozen=True)
class ScatterDot:
    label: str  # beside the dot, such as its number in a table
    x: float
    y: float
    title: str
    chosen: bool = False


@dataclass(frozen=True)
class Scatter:
    """Two figures of several candidates against each other; `across` and `up` are the titles of the axes."""

    dots: Sequence[ScatterDot]
    across: str
    up: str


@dataclass(frozen=True)
class Curves:
    """Precision against recall, of several sides in one plot."""

    lines: Mapping[str, RecallCurve]


@dataclass(frozen=True)
class Intervals:
    """A figure of each side, with its ends."""

    rows: Sequence[tuple[str, str, float, float, float]]  # side, figure, low, value, high


@dataclass(frozen=True)
class Timelines:
    """Epochs of builds, one below the other."""

    builds: Mapping[str, Sequence[StepView]]


@dataclass(frozen=True)
class MemoryMap:
    """Addresses from `low` at the left to `high`, a row for each user: what it is, start and end of its stretches."""

    low: int
    high: int
    rows: Mapping[str, Sequence[tuple[str, int, int]]]


@dataclass(frozen=True)
class LiveMemory:
    """Milliseconds of each step, and the bytes that live in it."""

    label: str
    steps: Sequence[tuple[float, int]]


@dataclass(frozen=True)
class Trend:
    """One figure of several builds, in their order: name, value, the value in words. `bounds`: around the values."""

    title: str
    points: Sequence[tuple[str, float, str]]
    bounds: Sequence[tuple[float, float] | None] = ()
    of: str = "builds"  # what its points are


@dataclass(frozen=True)
class Card:
    """A small picture with its caption: a file of a picture, or curves."""

    title: str
    said: Sequence[str] = ()
    picture: Path | Curves | None = None


@dataclass(frozen=True)
class Cards:
    cards: Sequence[Card]


@dataclass(frozen=True)
class Terms:
    """Names with what they are."""

    rows: Mapping[str, str]


@dataclass(frozen=True)
class Links:
    """Files beside the page, by what they are."""

    files: Mapping[str, str]


@dataclass(frozen=True)
class Note:
    """A remark; `hint`: on a page only, about what stands below it."""

    text: str
    hint: bool = False


@dataclass(frozen=True)
class Subtitle:
    text: str


Plot = Scatter | Curves | Intervals | Timelines | MemoryMap | LiveMemory | Trend
Block = str | Note | Subtitle | Table[Any] | Plot | Cards | Terms | Links


@dataclass(frozen=True)
class Chapter:
    title: str
    blocks: Sequence[Block]
    only: Only | None = None
    close: bool = False  # no blank line of text before it


@dataclass(frozen=True)
class SummaryRow:
    label: str
    text: str
    mark: Mark | None = None
    command: str = ""  # in front of the text


@dataclass(frozen=True)
class Document:
    line: str = ""  # all of it in one line
    sections: Sequence[Chapter] = ()
    summary: Sequence[SummaryRow | None] = ()
    title: str = ""  # of its page
    said: str = ""  # below the title
    data: Callable[[], Mapping[str, Any]] | None = None  # what --json prints, made when it is asked for
    tables: Mapping[str, list[dict[str, Any]]] = field(default_factory=dict)  # the first is what people mean
    plot: Plot | None = None  # of a notebook
    checks: Sequence[CheckResult] | None = None  # for machines that judge: what does not hold ends with exit code 1


def fields_of(one: Any, *names: str) -> dict[str, Any]:
    """These fields for JSON, in this order; `key=field` where it has another name there."""
    found: dict[str, Any] = {}
    for name in names:
        key, _, member = name.partition("=")
        value = getattr(one, member or key)
        found[key] = list(value) if isinstance(value, tuple) else dict(value) if isinstance(value, Mapping) else value
    return found


def lines(document: Document) -> list[str]:
    """The text: a blank line between sections, then the figures that people look for."""
    out: list[str] = []
    for section in document.sections:
        shown = [*([section.title] if section.title else []), *block_lines(section.blocks)]
        if section.only != Only.PAGE and shown:
            out += shown if section.close or not out else ["", *shown]
    return [*out, *summary_lines(document.summary)] if document.summary else out


def block_lines(blocks: Iterable[Block]) -> Iterator[str]:
    """Drawings, links and hints are for pages."""
    for block in blocks:
        if isinstance(block, str):
            yield block
        elif isinstance(block, Note) and not block.hint:
            yield note(block.text)
        elif isinstance(block, Table):
            yield from table_lines(block)
        elif isinstance(block, Terms):
            width = max(map(len, block.rows), default=0)
            yield from (f"{name:{width}} : {value}" for name, value in block.rows.items())


def at_most(most: int, found: Sequence[str], more: str = "  and {} more (-v shows all)") -> list[str]:
    """The first of them, and how many there are behind."""
    return list(found) if len(found) <= most else [*found[:most], more.format(len(found) - most)]


def table_lines(table: Table[Any]) -> Iterator[str]:
    """Two blanks between columns, each as wide as its widest cell."""
    columns = [column for column in table.columns if column.only != Only.PAGE]
    cells = [[column.text(row) for column in columns] for row in table.rows]
    titles = [[column.title for column in columns]] if table.framed or (table.titles and cells) else []
    widths = [max([c.width, *map(len, found)]) for c, *found in zip(columns, *titles, *cells, strict=True)]
    if table.framed:
        yield from _framed([*titles, *cells], widths, table.label)
        return
    marks: list[list[Mark | None]] = [[None] * len(columns)] * len(titles)
    marks += [[column.mark(row) if column.mark else None for column in columns] for row in table.rows]
    for texts, marked in zip([*titles, *cells], marks, strict=True):
        parts: list[tuple[str, Mark | None]] = [(" " * table.indent, None)]
        for text, mark, width, column in zip(texts, marked, widths, columns, strict=True):
            room = " " * (width - len(text)), None
            parts += [(text, mark), room] if column.left else [room, (text, mark)]
            parts.append(("  ", None))
        while not parts[-1][0].strip() and len(parts) > 1:
            parts.pop()
        yield Marked.of(*parts) if any(marked) else "".join(text for text, _ in parts)


def _framed(rows: Sequence[Sequence[str]], widths: Sequence[int], label: str) -> Iterator[str]:
    def rule(left: str, middle: str, right: str) -> str:
        return left + middle.join("\N{BOX DRAWINGS LIGHT HORIZONTAL}" * (width + 2) for width in widths) + right

    lines = ["│" + "│".join(f" {cell:<{w}} " for cell, w in zip(row, widths, strict=True)) + "│" for row in rows]
    yield from (rule("┌", "┬", "┐"), lines[0], rule("├", "┼", "┤"), *lines[1:], rule("└", "┴", "┘"))
    yield f" Table: {label}"


MOST = 8  # rows of a summary, so that the last screen of a terminal has all of them
NAME = 36  # characters of a layer's name
ALL_ON_NPU = "nothing: every layer runs on the NPU"
_LABEL = 11  # columns
_LARGE_SHARE = 0.1  # of the time: so much on the CPU is worth a look
WORTH = 0.95  # of the time: what brings less is not worth a line
_FILES = 3  # that are named
_FIRST_FILES = (".html", ".c", ".h")  # what people open first


def summary_lines(rows: Iterable[SummaryRow | None]) -> list[str]:
    """Rows that there are; a blank line sets them apart from the details."""
    found = [row for row in rows if row is not None]
    if len(found) > MOST:
        raise AssertionError(f"a summary of {len(found)} rows")
    return ["", *(_line(row) for row in found)]


def _line(row: SummaryRow) -> Marked:
    command = [(row.command, Mark.COMMAND), (": ", None)] if row.command else []
    return Marked.of((f"{row.label:{_LABEL - 1}} ", Mark.HEAD), *command, (row.text, row.mark), hang=_LABEL)


def latency_row(ms: float, how: str, clocks: str) -> SummaryRow:
    """`how`: predicted, with its band, or by whom it was estimated."""
    return SummaryRow("latency", f"{ms_text(ms)} {how} at {clocks}")


def ram_row(memory: MemoryUse) -> SummaryRow:
    from atonc.compiler.place.usage import RAM_FOR, Use

    parts = [f"{RAM_FOR[use]} {size_text(size)}" for use, size in memory.ram_by_use.items()]
    if list(memory.ram_by_use) == [Use.ACTIVATIONS]:
        parts = ["activations only"]
    if memory.outside:
        outside = " and ".join(f"{size_text(size)} of {use}" for use, size in memory.outside.items())
        parts.append(f"{outside} outside the chip, where they cost most")
    text = ": ".join((size_text(memory.ram_bytes), ", ".join(parts))) if parts else size_text(memory.ram_bytes)
    return SummaryRow("RAM", text, Mark.ALARM if memory.outside else None)


def flash_row(memory: MemoryUse) -> SummaryRow:
    in_code = memory.code_constants_bytes
    of_cpu = f", {size_text(in_code)} of them for CPU layers in the C file" if in_code else ""
    weights = f"{size_text(memory.flash_bytes)} of weights{of_cpu}"
    return SummaryRow("flash", weights if memory.flash_bytes else "nothing")


def predicted_row(cost: NetworkCost) -> SummaryRow:
    clocks = f"NPU {cost.npu_mhz:.0f} MHz, CPU {cost.cpu_mhz:.0f} MHz"
    return latency_row(cost.latency_ms, f"predicted ({cost.band.span(cost.latency_ms)})", clocks)


def share_text(share: float) -> str:
    """Whole percents; below one so many digits that it is not 0."""
    return f"{100 * share:.0f} %" if not 0 < share < 0.005 else f"{100 * share:.1g} %"


def cpu_row(layers: Sequence[tuple[str, str, float]], total_ms: float) -> SummaryRow:
    """`layers`: kind, name and milliseconds of those that the processor computes."""
    if not layers:
        return SummaryRow("CPU", ALL_ON_NPU, Mark.GOOD)
    took = sum(ms for _, _, ms in layers)
    kind, name, worst_ms = max(layers, key=lambda layer: layer[2])
    share = took / total_ms if total_ms else 0.0
    costliest = f"costliest {kind} {elided(name, NAME // 2)} {ms_text(worst_ms)}"
    text = f"{count(len(layers), 'layer')}, {ms_text(took)} ({share_text(share)}); {costliest}"
    return SummaryRow("CPU", text, Mark.DOUBT if share >= _LARGE_SHARE else None)


def files_row(files: Sequence[str]) -> SummaryRow | None:
    """The folder that most of them are in, and which to open."""
    if not files:
        return None
    paths = [Path(file) for file in files]
    if len(paths) == 1:
        return SummaryRow("written", str(paths[0]))
    first = sorted(paths, key=lambda path: _FIRST_FILES.index(path.suffix) if path.suffix in _FIRST_FILES else MOST)
    named = ", ".join(path.name for path in first[:_FILES])
    more = f" and {len(paths) - _FILES} more" if len(paths) > _FILES else ""
    return SummaryRow("written", f"{paths[0].parent}: {named}{more}")


def next_row(step: str, command: str = "") -> SummaryRow:
    """`step`: what to do, or what the command brings."""
    return SummaryRow("next", step, Mark.REMEDY, command)
