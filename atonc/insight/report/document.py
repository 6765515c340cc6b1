"""Lines that know what they are: who makes a line says what matters in it, a terminal only picks the colour."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from atonc.machine.base.frozen import dataclass
from atonc.machine.base.words import count, elided, ms_text, size_text

if TYPE_CHECKING:
    from atonc.compiler.place.usage import MemoryUse

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


def usual_hang(line: str) -> int:
    return len(line) - len(line.lstrip()) + PLAIN_HANG


def note(text: str, indent: str = "") -> Marked:
    return Marked(Mark.DOUBT, f"{indent}note: {text}")


def head(words: str, rest: str = "") -> Marked:
    return Marked(Mark.HEAD, words, after=rest)


MOST = 8
NAME = 36  # characters of a layer's name
_LABEL = 11  # columns
_LARGE_SHARE = 0.1  # of the time: so much on the CPU is worth a look
WORTH = 0.95  # of the time: what brings less is not worth a line
_FILES = 3  # that are named
_FIRST_FILES = (".html", ".c", ".h")  # what people open first


@dataclass(frozen=True)
class SummaryRow:
    label: str
    text: str
    mark: Mark | None = None


@dataclass(frozen=True)
class OnCpu:
    """A layer that the processor computes."""

    name: str
    kind: str
    milliseconds: float


def summary_lines(rows: Iterable[SummaryRow | None]) -> list[str]:
    """Rows that there are; a blank line sets them apart from the details."""
    found = [row for row in rows if row is not None]
    if len(found) > MOST:
        raise AssertionError(f"a summary of {len(found)} rows")
    return ["", *(_line(row) for row in found)]


def _line(row: SummaryRow) -> Marked:
    return Marked.of((f"{row.label:{_LABEL}}", Mark.HEAD), (row.text, row.mark), hang=_LABEL)


def latency_row(ms: float, how: str, clocks: str) -> SummaryRow:
    """`how`: predicted, with its band, or by whom it was estimated."""
    return SummaryRow("latency", f"{ms_text(ms)} {how} at {clocks}")


def ram_row(memory: MemoryUse) -> SummaryRow:
    from atonc.compiler.place.usage import RAM_FOR, Use

    parts = [f"{RAM_FOR[use]} {size_text(size)}" for use, size in memory.ram_by_use.items()]
    if list(memory.ram_by_use) == [Use.ACTIVATIONS]:
        parts = ["all of it activations"]
    if memory.spilled_bytes:
        parts.append(f"{size_text(memory.spilled_bytes)} of activations outside the chip, where they cost most")
    text = ": ".join((size_text(memory.ram_bytes), ", ".join(parts))) if parts else size_text(memory.ram_bytes)
    return SummaryRow("RAM", text, Mark.ALARM if memory.spilled_bytes else None)


def flash_row(memory: MemoryUse) -> SummaryRow:
    in_code = memory.code_constants_bytes
    of_cpu = f", {size_text(in_code)} of them for CPU layers in the C file" if in_code else ""
    weights = f"{size_text(memory.flash_bytes)} of weights{of_cpu}"
    return SummaryRow("flash", weights if memory.flash_bytes else "nothing")


def cpu_row(layers: Sequence[OnCpu], total_ms: float) -> SummaryRow:
    if not layers:
        return SummaryRow("CPU", "nothing: every layer runs on the NPU", Mark.GOOD)
    took = sum(layer.milliseconds for layer in layers)
    worst = max(layers, key=lambda layer: layer.milliseconds)
    share = took / total_ms if total_ms else 0.0
    costliest = f"costliest {worst.kind} {elided(worst.name, NAME // 2)} {ms_text(worst.milliseconds)}"
    text = f"{count(len(layers), 'layer')}, {ms_text(took)} ({100 * share:.0f} %); {costliest}"
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


def next_row(step: str) -> SummaryRow:
    """`step`: the command or option, and what it brings."""
    return SummaryRow("next", step, Mark.REMEDY)


def resident_step(outlook: tuple[float, int] | None, latency_ms: float) -> str:
    """What the commonest lever would bring, where it is a lot: milliseconds with it, and bytes of weights."""
    if outlook is None or outlook[0] > WORTH * latency_ms:
        return ""
    return f"--resident: about {ms_text(outlook[0])}, {size_text(outlook[1])} of weights in RAM"
