"""What a board answered to `board try`, in plain words."""

from __future__ import annotations

from collections import Counter

from atonc.delivery.probes.log import BOARD_CLOCKS, HANG, PASS, SKIPPED, SLOW, VERDICTS, WRONG, Settled
from atonc.delivery.texts import probe_text
from atonc.delivery.trying.asking import LOG
from atonc.delivery.trying.try_board import EVIDENCE, SUMMARY, Tried
from atonc.insight.report.document import Chapter, Document, Mark, SummaryRow, at_most, lines, next_row
from atonc.machine.base.errors import plain
from atonc.machine.base.words import count, shell
from atonc.machine.hw.board import find_board

EMULATED = "emulated: proves nothing about silicon"
_AFTER_FIX = "correct what the self-test names, then atonc board try --fresh"
_FOLLOWS = {
    PASS: "the bytes are those of the emulator",
    WRONG: "other bytes than the emulator's: those configurations are refused with --evidence",
    HANG: "the probe did not end: those configurations are refused with --evidence",
    SKIPPED: "not asked",
}


def document(tried: Tried, verbose: bool = False) -> Document:
    settled, options = tried.settled, tried.options
    told = probe_text.document(settled, options.folder / EVIDENCE, verbose)
    sections = [Chapter("", _first(tried)), Chapter("", _findings(tried)), Chapter("", _counted(settled))]
    for one in settled.outcomes:
        if one.reply and one.reply.verdict in (WRONG, HANG):
            follows = (f"  {text}" for text in probe_text.follows(one))
            sections.append(Chapter("", [f"{one.probe.name}: {one.reply.verdict}", *follows], close=True))
    sections += told.sections if verbose else []
    return Document(sections=sections, summary=_summary(tried), data=lambda: _data(tried))


def summary_text(tried: Tried) -> str:
    """The same for a file: everything."""
    return "\n".join(map(str, lines(document(tried, verbose=True)))) + "\n"


def _first(tried: Tried) -> list[str]:
    head = tried.settled.log.head
    clocks = f"CPU {head.cpu_hz / 1e6:g}, NPU {head.npu_hz / 1e6:g}, NPU RAM {head.ram_hz / 1e6:g} MHz"
    out = [f"{head.board} through {tried.server}; {clocks}; no fuse was read or written"]
    if head.emulated:
        out.append(EMULATED)
    if head.clocks != BOARD_CLOCKS:
        why = plain(head.clocks).replace("_", " ")
        out.append(f"not at the board's clocks ({why}): cycles are not used")
    if head.external == SLOW:
        out.append("flash and external RAM were mapped by the firmware at a low speed: their speeds are not used")
    return out


def _findings(tried: Tried) -> list[str]:
    """`<code> <name> detail=.. register=.. | <cause> | <fix>`"""
    out = []
    for finding in tried.findings:
        values, cause, fix = [*map(plain, finding.split(" | ")), "", ""][:3]
        out += [f"self-test: {cause or values}", *([f"  cause: {values}", f"  fix: {fix}"] if cause else [])]
    return out or ["self-test: the set-up is sound (clocks, power, rights, caches, memories, a sum on the NPU)"]


def _counted(settled: Settled) -> list[str]:
    replies = settled.log.replies.values()
    found = Counter(reply.verdict for reply in replies)
    out = [f"{found[verdict]:4} {verdict}: {_FOLLOWS[verdict]}" for verdict in VERDICTS if found[verdict]]
    why = Counter(plain(reply.why).replace("_", " ") for reply in replies if reply.verdict == SKIPPED)
    return [*out, *(f"       {number} of them: {text}" for text, number in why.most_common())]


def _summary(tried: Tried) -> list[SummaryRow | None]:
    settled, options = tried.settled, tried.options
    replies, evidence = settled.log.replies, settled.evidence
    bad = [name for name, reply in replies.items() if reply.verdict in (WRONG, HANG)]
    unprogrammed = any(reply.why == "flash_image_not_programmed" for reply in replies.values())
    confirmed = f"{len(evidence.confirmed)} configurations confirmed, {len(evidence.refuted)} refuted"
    return [
        SummaryRow("answered", f"{len(replies)} of {count(settled.log.head.probes, 'probe')}", Mark.GOOD),
        SummaryRow("not as emulated", ", ".join(at_most(5, bad, "{} more")), Mark.ALARM) if bad else None,
        _evidence_row(tried, confirmed),
        None if tried.recording else SummaryRow("recording", "none: no probe passed", Mark.DOUBT),
        SummaryRow("flash", _program(tried), Mark.DOUBT) if unprogrammed else None,
        SummaryRow("written", ", ".join(map(str, (*tried.files, options.folder / SUMMARY)))),
        _next(tried),
    ]


def _evidence_row(tried: Tried, confirmed: str) -> SummaryRow:
    if tried.findings:
        read = shell("probe", "read", tried.options.folder / LOG)
        return SummaryRow("evidence", f"no file: {probe_text.NOT_SOUND} ({read} writes one all the same)", Mark.ALARM)
    if tried.settled.log.head.emulated:
        return SummaryRow("evidence", f"{EMULATED} ({confirmed})", Mark.DOUBT)
    return SummaryRow("evidence", confirmed, Mark.GOOD)


def _next(tried: Tried) -> SummaryRow:
    options = tried.options
    if tried.findings:
        return next_row(_AFTER_FIX)
    if tried.settled.log.head.emulated:
        return next_row("with a board on USB", shell("board", "try", "--board", options.board))
    return next_row(shell("generate", "MODEL", "--board", options.board, "--evidence", options.folder / EVIDENCE))


def _program(tried: Tried) -> str:
    loader = find_board(tried.options.board).flash_loader
    image = tried.image.flash_image
    name = image.with_suffix(".hex") if image else "probes_flash.hex"
    return f"its probes were not asked: program {name} ({loader}), then --fresh"


def _data(tried: Tried) -> dict[str, object]:
    settled = tried.settled
    return {
        "board": settled.log.head.board,
        "server": tried.server,
        "emulated": settled.log.head.emulated,
        "clocks": settled.log.head.clocks,
        "complete": settled.log.complete,
        "findings": list(tried.findings),
        "answers": [reply.as_dict() for reply in settled.log.replies.values()],
        "recording": tried.recording.ran_with.firmware if tried.recording else "",
        "files": list(map(str, (*tried.files, tried.options.folder / SUMMARY))),
    }
