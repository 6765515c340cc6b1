"""Forms: links, multicasts, contexts and whole chains that public networks were seen to use."""

from __future__ import annotations

from collections.abc import Iterator

from atonc.machine.base.reasons import Evidence, Severity
from atonc.machine.hw import links
from atonc.machine.hw.limits import MOST_READERS, MOST_WRITERS
from atonc.machine.hw.links import Level
from atonc.machine.hw.memoise import memoise
from atonc.machine.hw.safety.evidence import EpochGrade, Grade, grade_view
from atonc.machine.hw.safety.evidence.table import behind, evidence, words
from atonc.machine.hw.safety.evidence.trust import chain_seen, multicast_seen
from atonc.machine.hw.safety.view import EpochView, SafetyFinding, kind_of_name, rule

_MULTICASTS = sum(len(words("multicast", kind)) for kind in evidence()["multicast"])
_CHAINS = (len(words("chain")), sum(found.shipped > 0 for found in words("chain").values()))


@rule(
    "P01",
    "a link joins kinds of units that ST programs join",
    Evidence(75617, 75617, "links", "27 kinds of links occur, 64 never do"),
    severity=Severity.UNPROVEN,
    remedy="send the stream through memory, or through an ARITH",
)
def known_links(view: EpochView) -> Iterator[SafetyFinding]:
    for link in view.links:
        kind = view.link_kind(link)
        if links.evidence(kind).level == Level.NEVER:
            yield SafetyFinding(link.destination, f"{link}: {kind} was never seen")


@rule(
    "P02",
    "a link occurs in a program that ST ships as a working demo",
    Evidence(report="26 of the 27 kinds of links that occur"),
    severity=Severity.NOTE,
    remedy="prefer a link that ST ships; the others were compiled by ST's tool, but no run on a board is known",
)
def shipped_links(view: EpochView) -> Iterator[SafetyFinding]:
    for link in view.links:
        kind = view.link_kind(link)
        found = links.evidence(kind)
        if found.level == Level.SEEN:
            yield SafetyFinding(link.destination, f"{link}: {kind} was {found}")


@rule(
    "P03",
    "a chain is one that ST programs use",
    Evidence(report="{} kinds occur, {} of them in programs that ST ships".format(*_CHAINS)),
    severity=Severity.UNPROVEN,
    remedy="cut the chain at a link and go through memory",
)
def known_chains(view: EpochView) -> Iterator[SafetyFinding]:
    for units, text in view.chains.items():
        if not chain_seen(text):
            yield SafetyFinding(units[0], f"chain {text or ', '.join(units)}")


@rule(
    "P05",
    "a source feeds several ports in a pattern that ST programs use",
    Evidence(report=f"{_MULTICASTS} patterns occur, with up to 4 destinations"),
    severity=Severity.UNPROVEN,
    remedy="write the stream to memory and read it once for each destination",
)
def known_multicasts(view: EpochView) -> Iterator[SafetyFinding]:
    for unit in view.units:
        fan = [f"{kind_of_name(link.destination)}:{link.port}" for link in view.destinations(unit)]
        if len(fan) > 1 and not multicast_seen(kind_of_name(unit), fan):
            yield SafetyFinding(unit, f"feeds {', '.join(sorted(fan))}")


@rule(
    "P06",
    "a link gates frames in a way and number that ST programs have for this kind of link",
    Evidence(75617, 75617, "links", "drop 1..127 keep 1; drop 2..192 keep 2..64; keep 1..128 drop 255"),
    severity=Severity.UNPROVEN,
    remedy="gate only CONVACC outputs and CONVACC feature ports, with counts that occur",
)
def known_gates(view: EpochView) -> Iterator[SafetyFinding]:
    for link in view.links:
        name = links.context_form(link)
        if name is None or name == links.PERMANENT:
            continue
        form, kind = links.contexts()[name], view.link_kind(link)
        if f"{kind.source}->{kind.destination}:{kind.port}" not in form.links:
            yield SafetyFinding(link.destination, f"{link} is gated", f"{name}: {', '.join(form.links)}")
        elif not (_inside(link.frames0, form.frames0) and _inside(link.frames1, form.frames1)):
            yield SafetyFinding(link.destination, str(link), f"n in {form.frames0}, m in {form.frames1}")


def _inside(value: int, limits: tuple[int, int]) -> bool:
    return limits[0] <= value <= limits[1]


@rule(
    "P07",
    f"an epoch has at most {MOST_READERS} readers and {MOST_WRITERS} writers",
    Evidence(9526, 9526, "epochs"),
    severity=Severity.UNPROVEN,
    remedy="split the epoch",
)
def engine_counts(view: EpochView) -> Iterator[SafetyFinding]:
    if len(view.readers) > MOST_READERS or len(view.writers) > MOST_WRITERS:
        yield SafetyFinding(
            "", f"{len(view.readers)} readers, {len(view.writers)} writers", f"{MOST_READERS}, {MOST_WRITERS}"
        )


@memoise
def grade_of(view: EpochView) -> EpochGrade:
    return grade_view(view)


@rule(
    "E01",
    "every value of a unit in its role, and every combination of units, is in an ST program or between such",
    Evidence(report=behind()),
    severity=Severity.UNPROVEN,
    remedy="choose a configuration of ST programs, or test it on a board (docs/silicon.md)",
)
def unseen_forms(view: EpochView) -> Iterator[SafetyFinding]:
    yield from _forms(view, Grade.UNSEEN)


@rule(
    "E02",
    "a configuration is in ST programs as a whole, not only its parts",
    Evidence(report="each combination of seen parts is allowed by one of the arguments in docs/silicon.md"),
    severity=Severity.NOTE,
    remedy="nothing, unless results differ; --silicon seen avoids these configurations",
)
def composed_forms(view: EpochView) -> Iterator[SafetyFinding]:
    yield from _forms(view, Grade.COMPOSED)


def _forms(view: EpochView, grade: Grade) -> Iterator[SafetyFinding]:
    for form in grade_of(view).forms:
        found = form.graded
        if found.grade == grade:
            by = f" ({found.argument})" if found.argument else ""
            yield SafetyFinding(form.unit, f"{found.feature}{by}", found.seen)
