"""What an inference takes from the supply, in words and as data: always an estimate, with its band and its source."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from atonc.insight.explain.rules import bound_in_short, bound_name
from atonc.insight.report.document import Chapter, Column, Mark, Marked, SummaryRow, Table, at_most, head
from atonc.machine.base.frozen import dataclass
from atonc.machine.base.words import count, elided, ms_text
from atonc.machine.cost.band import PredictionBand
from atonc.machine.cost.energy import BOARD, SOURCE, EnergyEstimate, amount, of_inference
from atonc.machine.cost.network import StepCost
from atonc.machine.hw.four_bits import ASSUMED, PROBABILITY
from atonc.machine.hw.safety.evidence.arguments import ARGUMENTS
from atonc.machine.hw.safety.evidence.board_file import NO_ANSWERS, BoardEvidence
from atonc.machine.hw.safety.evidence.grades import Grade
from atonc.machine.hw.safety.evidence.summary import FormCount, Summary, TimeShare
from atonc.machine.hw.safety.evidence.unit_features import NARROW


def energy_lines(energy: EnergyEstimate) -> list[str]:
    """Nothing where it is not known what the steps do."""
    if not energy.known:
        return []
    parts = ", ".join(f"{name} {amount(span.likely, energy.uj.likely)}" for name, span in energy.parts.items())
    return [
        head("energy ", f"{energy}; not measured"),
        f"  core and memories, {energy.milliwatts:.0f} mW while it runs: {parts}",
        f"  core rail alone: {of_inference(energy.core_uj)}",
        f"  whole {BOARD}: {of_inference(energy.board_uj)}; {energy.board_mw:.0f} mW while it runs, "
        f"{energy.idle_mw:.0f} mW idle with the CPU awake",
        Marked(Mark.DOUBT, f"  {SOURCE}"),
    ]


def energy_row(energy: EnergyEstimate) -> SummaryRow | None:
    return SummaryRow("energy", f"{energy.short}; estimated") if energy.known else None


def epochs_text(total: int, npu: int) -> str:
    """A step of the CPU is an epoch too, and no step of the NPU."""
    where = "NPU hardware steps" if npu == total else f"{npu} on the NPU, {total - npu} on the CPU"
    return f"{count(total, 'epoch')} ({where})"


def frames_row(
    latency_ms: float, band: PredictionBand, states_bytes: int, hop_ms: float, frames: int = 0
) -> SummaryRow | None:
    """What a frame takes of a network with states, and of the time until the next. `frames`: how many were run."""
    if not states_bytes:
        return None
    run = f"{count(frames, 'frame')} in order from initial states, " if frames else ""
    late = hop_ms > 0 and latency_ms > hop_ms
    factor = f"; real-time factor {latency_ms / hop_ms:.3g} of {hop_ms:g} ms" if hop_ms else ""
    time = f"{ms_text(latency_ms)} each predicted ({band.span(latency_ms)})"
    text = f"{run}{time}{factor}{': it does not keep up' if late else ''}"
    return SummaryRow("frames", text, Mark.ALARM if late else None)


def frames_data(latency_ms: float, hop_ms: float) -> dict[str, Any]:
    factor = {"hop_ms": hop_ms, "real_time_factor": latency_ms / hop_ms} if hop_ms else {}
    return {"ms_per_frame": latency_ms, **factor}


def energy_data(energy: EnergyEstimate) -> dict[str, Any]:
    """`energy_uj` is the likely figure; 0 where it is not known what the steps do."""
    return {"energy_uj": energy.uj.likely, "energy": energy.as_dict()}


def bounds_table(shares: Mapping[str, float], form: str) -> Table[tuple[str, float]]:
    """What a network waits for most of the time; `form`: of a percentage."""
    columns = (
        Column[tuple[str, float]]("share", lambda row: 100 * row[1], form),
        Column[tuple[str, float]]("bottleneck", lambda row: bound_name(row[0]), left=True),
        Column[tuple[str, float]]("because", lambda row: bound_in_short(row[0]), left=True),
    )
    return Table(columns, list(shares.items())[:_MOST_BOUNDS], "Bottlenecks")


_MOST_BOUNDS = 3
_MOST_FORMS = 5  # forms that are listed of each kind
_WORDS = {
    Grade.SEEN: "seen in ST programs",
    Grade.ONCE: "seen in one ST program",
    Grade.WITHIN: "within the range of ST programs",
    Grade.PART: "subset of an epoch in ST programs",
    Grade.UNSEEN: "not seen in ST programs",
}


_EMULATED = "--evidence is of the virtual board: it proves nothing about silicon"


@dataclass(frozen=True)
class Group:
    """Configurations that rest on the same thing."""

    title: str
    share: TimeShare
    forms: tuple[FormCount, ...]
    urgent: bool = False  # listed without being asked for


def silicon_lines(found: Summary | None, verbose: bool = False) -> list[str]:
    if found is None or not sum(found.epochs.values()):
        return []
    out = [f"hardware confidence: {grade_text(found)}", f"  {strength(found)}"]
    out += (f"  {said}" for said in interleaved(found))
    out += _answer_lines(found.answers)
    out += [f"  {said}" for said in assumed(found)]
    for group in groups(found):
        out.append(f"  {group.title}: {said_share(group.share)}")
        forms = [f"     {form_line(form)}" for form in group.forms]
        if verbose or group.urgent:
            out += at_most(len(forms) if verbose else _MOST_FORMS, forms, "     and {} more (-v shows all)")
    return out


def assumed(found: Summary) -> list[str]:
    """What the program rests on that nobody has seen, with how likely it is."""
    unseen = [form for form in found.forms if form.graded.feature == NARROW and form.graded.grade == Grade.UNSEEN]
    return [
        f"w4-stream: engines of {count(form.epochs, 'epoch')} read kernels of 4 bits, {ASSUMED.order}, as is assumed; "
        f"about {PROBABILITY:.0%} likely to work on silicon: ask a board with the probes narrow-* before you rely on it"
        for form in unseen
    ]


def _answer_lines(found: BoardEvidence) -> list[str]:
    """What the board said of itself."""
    if found == NO_ANSWERS:
        return []
    said = [f"{count(len(found.confirmed), 'configuration')} confirmed, {len(found.refuted)} refuted"]
    said += [f"{', '.join(sorted(found.distrusted))} disproved"] if found.distrusted else []
    said += [f"{', '.join(name for name, _ in found.constants)} measured"] if found.constants else []
    return [f"  {found.board} answered: {'; '.join(said)}"]


def grade_text(found: Summary) -> str:
    """`5 epochs: 2 within the range of ST programs, 3 new combinations of known parts, 0 not seen in ST programs`: the
    words of every view. Grades that no epoch has are left out, but for the last one. An epoch has the grade of its
    worst form, so the first words stand for epochs of which all was seen."""
    shown = {grade: found.epochs[grade] for grade in Grade if found.epochs[grade] or grade == Grade.UNSEEN}
    words = (
        f"{count(number, 'new combination')} of known parts" if grade == Grade.COMPOSED else f"{number} {_WORDS[grade]}"
        for grade, number in shown.items()
    )
    emulated = f" ({_EMULATED})" if found.answers.emulated else ""
    return f"{count(sum(shown.values()), 'epoch')}: {', '.join(words)}{emulated}"


def silicon_data(found: Summary) -> dict[str, Any]:
    """Grades, forms and arguments, and the same in the words of the other views."""
    return {**found.as_dict(), "text": grade_text(found) if sum(found.epochs.values()) else ""}


def strength(found: Summary) -> str:
    once = found.with_form.get(Grade.ONCE, 0)
    have = f"{count(once, 'epoch')} {'has' if once == 1 else 'have'}"
    return f"{have} a configuration seen in one program only; ST ships all configurations of {found.shipped}"


def interleaved(found: Summary) -> list[str]:
    """Epochs with several writers in turn in one buffer."""
    kinds = ", ".join(f"{kind} {said_share(share)}" for kind, share in found.interleaved.items())
    return [f"interleaved writers of one buffer: {kinds}"] if kinds else []


def said_share(share: TimeShare) -> str:
    """`12 epochs, 4.1 % of the time`."""
    of_time = "" if share.of_time is None else f", {100 * share.of_time:.1f} % of the time"
    return count(share.epochs, "epoch") + of_time


def groups(found: Summary) -> Iterator[Group]:
    """Groups forms from the worst on; the composed ones by the argument that allows them."""
    yield from _of_grade(found, Grade.UNSEEN, _WORDS[Grade.UNSEEN], urgent=True)
    for argument in ARGUMENTS:
        if share := found.by_argument.get(argument.id):
            forms = tuple(form for form in found.forms if form.graded.argument == argument.id)
            asked = ", confirmed by probes on the board" if argument.id in found.answers.supported else ""
            yield Group(f"{argument.id} {argument.title}{asked}", share, forms)
    yield from _of_grade(found, Grade.PART, _WORDS[Grade.PART])
    yield from _of_grade(found, Grade.ONCE, _WORDS[Grade.ONCE])


def _of_grade(found: Summary, grade: Grade, title: str, urgent: bool = False) -> Iterator[Group]:
    forms = tuple(form for form in found.forms if form.graded.grade == grade)
    if forms:
        yield Group(title, TimeShare(found.with_form[grade], None), forms, urgent)


def form_line(form: FormCount) -> str:
    """Describes a form with the evidence behind it, where there is any."""
    behind = f" [{form.graded.strength}]" if form.graded.strength.programs else ""
    return f"{form.graded}{behind}: {count(form.epochs, 'epoch')}, first {form.first}"


SLOWEST = 10
_EPOCH_LEGEND = ", cycles by ST's estimate and as predicted"
_WIDE_WORDS, _NARROW_WORDS = 200, 36  # characters of what an epoch is for


class EpochRow(NamedTuple):
    number: int
    where: str  # npu or cpu, or the kind of a step
    cost: StepCost


def cycles_column(title: str) -> Column[EpochRow]:
    """Guesses are marked."""
    return Column(title, lambda row: f"{'' if row.cost.known else '~'}{row.cost.cycles:,}")


def where_column(title: str) -> Column[EpochRow]:
    return Column(title, lambda row: row.where, left=True, mark=lambda row: Mark.ON_CPU if row.where == "cpu" else None)


def epoch_chapter(rows: Sequence[EpochRow], verbose: bool, where: str, what: str) -> Chapter:
    """`where`, `what`: titles of the second column and of the last one."""
    shown = rows if verbose else sorted(rows, key=lambda row: -row.cost.milliseconds)[:SLOWEST]
    legend = _EPOCH_LEGEND + ("; ~: rough estimate" if any(not row.cost.known for row in shown) else "")
    title: str = head("epochs", legend)
    if not verbose and len(rows) > SLOWEST:
        rows, title = shown, head(f"the {SLOWEST} slowest epochs", f" (-v: all){legend}")
    wide = _WIDE_WORDS if verbose else _NARROW_WORDS
    columns = (
        Column[EpochRow]("epoch", lambda row: row.number),
        where_column(where),
        Column[EpochRow]("ST cycles", lambda row: row.cost.st_cycles, "{:,}"),
        Column[EpochRow]("ST limit", lambda row: row.cost.st_bound_by, left=True),
        cycles_column("predicted"),
        Column[EpochRow]("bottleneck", lambda row: bound_name(row.cost.bound_by), left=True),
        Column[EpochRow](what, lambda row: elided(row.cost.origin, wide), left=True),
    )
    return Chapter(title, [Table(columns, rows, "Epochs", titles=True)])
