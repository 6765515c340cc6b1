"""What a board answered, as a table: the question, the answer, what follows for grades and prices."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from shlex import quote
from typing import Any

from atonc.delivery.probes.bench import Probe
from atonc.delivery.probes.log import BOARD_CLOCKS, PASS, Outcome, Settled
from atonc.delivery.probes.log import document as settled_data
from atonc.insight.report.document import Chapter, Document, Mark, SummaryRow, fields_of, next_row
from atonc.machine.base.errors import plain
from atonc.machine.base.words import count, shell
from atonc.machine.hw.four_bits import FourBits
from atonc.machine.hw.machine import stm32n6
from atonc.machine.hw.safety.evidence import Feature, Grade, grade_feature

_MOST = 3  # forms that a line names
_LONG = 90  # characters of one
_SAME_RATE = 0.05  # as far as a rate may be off: probes differ in starts and ends of lines
_VERDICTS = {"pass": "pass", "wrong": "WRONG", "hang": "HANG", "skipped": "skipped"}


def listing(probes: Sequence[Probe]) -> Document:
    """All probes with their question."""
    out: list[str] = []
    for probe in probes:
        out += [probe.name, f"  configuration: {probe.form}", f"  published: {probe.known}"]
        also = (("control", probe.control), ("argument", probe.argument), ("measures", probe.measures))
        out += [f"  {what}: {value}" for what, value in also if value]
    measuring = sum(bool(probe.measures) for probe in probes)
    rows = (
        SummaryRow("in all", f"{count(len(probes), 'probe')}; {measuring} measure a constant of the cycle model"),
        next_row("atonc probe NAME, or all: a firmware that asks the board"),
    )
    names = ("name", "form", "published=known", "control", "argument", "measures", "units", "baseline", "rate")
    data = {"probes": [fields_of(probe, *names) for probe in probes]}
    return Document(sections=[Chapter("", out)], summary=rows, data=lambda: data)


def written(built: Sequence[str], absent: Sequence[str], board: str, folder: Path, files: Sequence[Path]) -> Document:
    """What the firmware in the folder asks."""
    lacks = f"{board} lacks their memory: {', '.join(absent)}"
    rows = (
        SummaryRow("probes", f"{len(built)}; none has run on a board yet"),
        SummaryRow("left out", lacks, Mark.DOUBT) if absent else None,
        SummaryRow("written", str(folder)),
        next_row(f"make -C {quote(str(folder))}, then {folder / 'README.md'}"),
    )
    data = {"probes": built, "files": list(map(str, files))}
    return Document(sections=[Chapter("", [f"probes: {', '.join(built)}"])], summary=rows, data=lambda: data)


NOT_SOUND = "the set-up is not sound, and probes cannot be told from it"


def document(settled: Settled, file: Path, verbose: bool = False) -> Document:
    """Probes that were not in the firmware are not worth a line each."""
    head = settled.log.head
    clocks = ", ".join(f"{n} {hz / 1e6:g} MHz" for n, hz in (("CPU", head.cpu_hz), ("NPU", head.npu_hz)))
    first = f"{head.board}, firmware of atonc {head.version}, {clocks}, NPU RAM {head.ram_hz / 1e6:g} MHz"
    shown = [one for one in settled.outcomes if verbose or one.reply is not None]
    told = {key: value for key, value in settled_data(settled).items() if key != "format"}
    return Document(
        sections=[
            Chapter("", [first, *_state_of_log(settled)]),
            Chapter("", [line for one in shown for line in _rows(one)]),
        ],
        summary=_summary(settled, file),
        data=lambda: told | {"outcomes": [_outcome_data(one) for one in settled.outcomes], "file": str(file)},
    )


def _state_of_log(settled: Settled) -> Iterator[str]:
    log = settled.log
    if log.head.emulated:
        yield "emulated: proves nothing about silicon"
    for finding in log.findings:
        yield f"self-test: {plain(finding)}"
    if log.head.clocks not in ("", "as_found", BOARD_CLOCKS):
        yield f"not at the board's clocks ({plain(log.head.clocks).replace('_', ' ')}): cycles are not used"
    if log.damaged:
        where = ", ".join(map(str, log.damaged_lines))
        yield f"{log.damaged} damaged lines, what they said is not used; the first: {where}"
    if not log.complete:
        yield f"the log is cut off: {len(log.replies)} of {log.head.probes} probes answered, and no last line came"
    elif log.lost:
        yield f"{log.lost} answers are missing that the firmware gave"
    for name in settled.unknown:
        yield f"unknown probe {plain(name)}: this version of atonc does not have it, its answer is not used"


def _rows(one: Outcome) -> Iterator[str]:
    yield f"{one.probe.name}: {_verdict(one)}"
    yield f"  tested: {one.probe.form}"
    yield from (f"  {line}" for line in follows(one))


def _verdict(one: Outcome) -> str:
    reply = one.reply
    if reply is None:
        return "no answer"
    said = [_VERDICTS[reply.verdict]]
    if reply.first is not None:
        said.append(f"byte {reply.first} is {reply.got or '?'}, not {reply.want or '?'}")
    if reply.cycles:
        said.append(f"{reply.cycles:,} cycles, the fewest of {reply.runs or 1} runs")
    return ", ".join([*said, *([plain(reply.why).replace("_", " ")] if reply.why else [])])


def follows(one: Outcome) -> list[str]:
    """Sentences without their probe."""
    if one.silent:
        return [one.silent]
    found = []
    if one.probe.is_control:
        passed = one.reply is not None and one.reply.verdict == PASS
        found.append("the bench works" if passed else "its bench does not work: probes that rest on it say nothing")
    if one.confirmed:
        found.append(f"seen on this board: {_named(one.confirmed)}")
    if one.refuted:
        found.append(f"refused from now on: {_named(one.refuted)}")
        known = any(grade_feature(feature).grade.rank < Grade.COMPOSED.rank for feature in one.refuted)
        found += ["ST programs have it: send the log to the project"] * known
    if one.distrusted:
        found.append(f"disproved: {', '.join(sorted(one.distrusted))}; nothing may rest on it")
    if one.supported:
        found.append(f"confirmed by a probe: {', '.join(sorted(one.supported))}; new combinations by it stay new")
    if one.constant:
        name, value = one.constant
        found.append(f"{name} = {value:.4g} ({stm32n6().constant(name):g} so far)")
    if one.rate is not None:
        found.append(_rate(one.probe, one.rate))
    if one.refused:
        found.append(f"not taken: {one.refused}")
    if not found and one.reply is not None and one.reply.verdict != PASS:
        return ["nothing of it is new, so nothing can be refused: send the log to the project"]
    return found or ["ST programs show it already: nothing changes"]


def _rate(probe: Probe, found: float) -> str:
    """No constant of a board can say it, so a difference is a matter for the project."""
    if abs(found / probe.expects - 1) <= _SAME_RATE:
        return f"{found:.3g} {probe.rate} a cycle, as the cycle model has it"
    return f"{found:.3g} {probe.rate} a cycle, and the cycle model has {probe.expects:g}: send the log to the project"


def _named(features: Iterable[Feature]) -> str:
    texts = sorted(map(str, features))
    shown = [text if len(text) <= _LONG else f"{text[:_LONG]}..." for text in texts[:_MOST]]
    return "; ".join([*shown, *([f"and {len(texts) - _MOST} more"] if len(texts) > _MOST else [])])


def _summary(settled: Settled, file: Path) -> list[SummaryRow | None]:
    found = settled.evidence
    new = [f"{name}: {value:g} instead of {stm32n6().constant(name):g}" for name, value in found.constants]
    arguments = (("disproved", found.distrusted, Mark.ALARM), ("supported", found.supported, Mark.GOOD))
    return [
        SummaryRow("self-test", NOT_SOUND, Mark.ALARM) if settled.log.findings else None,
        SummaryRow("tested", f"{len(found.confirmed)} confirmed, {len(found.refuted)} refuted"),
        *(SummaryRow(w, f"arguments {', '.join(sorted(names))}", m) for w, names, m in arguments if names),
        _four_bits(found.four_bits),
        SummaryRow("wide sums", f"beyond 24 bits a CONVACC has them {found.wide_sums}") if found.wide_sums else None,
        SummaryRow("constants", f"{'; '.join(new)} (at the usual clocks)") if new else None,
        SummaryRow("written", str(file)),
        next_row(shell("generate", "MODEL", "--evidence", file)),
    ]


def _four_bits(found: FourBits | None) -> SummaryRow | None:
    if found is None:
        return None
    return SummaryRow("4 bits", f"{found.order}; three to a word (DEEPMODE): {'too' if found.deep else 'not shown'}")


def _outcome_data(one: Outcome) -> dict[str, Any]:
    verdict = one.reply.verdict if one.reply else ""
    return {"probe": one.probe.name, "form": one.probe.form, "verdict": verdict, "follows": follows(one)}
