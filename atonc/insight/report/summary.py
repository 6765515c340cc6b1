"""The last lines of a verb: the figures that people look for, what was checked, where the files are, what to do next.

A row says what it is worth as a mark; who prints it picks the colour. At most `MOST` rows, so that the last screen of a
terminal has all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from atonc.insight.report.marks import Mark, Marked
from atonc.machine.base.frozen import dataclass
from atonc.machine.base.words import count, elided, ms_text, size_text

if TYPE_CHECKING:  # with it come arrays, and verbs that only have a summary would load them for their help
    from atonc.compiler.place.usage import MemoryUse

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
