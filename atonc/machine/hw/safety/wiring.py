"""Wiring: which links an epoch must have and must not have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from atonc.machine.hw import regs
from atonc.machine.hw.links import context_form
from atonc.machine.hw.safety.view import EpochView, SafetyFinding, kind_of_name, proven, rule

_HANGS = "link the port or remove the unit; on the chip the epoch would wait for ever"


@rule(
    "W01",
    "every configured unit has at least one link",
    proven(9526, "epochs"),
    remedy="link the unit, or do not enable it in this epoch",
)
def every_unit_linked(view: EpochView) -> Iterator[SafetyFinding]:
    linked = {end for link in view.links for end in (link.source, link.destination)}
    for unit in view.units:
        if unit not in linked:
            yield SafetyFinding(unit, "enabled, but no link touches it")


@rule(
    "W02",
    "a link joins only units that are configured and enabled",
    proven(9526, "epochs"),
    remedy="configure and enable the unit, or remove the link",
)
def links_between_configured_units(view: EpochView) -> Iterator[SafetyFinding]:
    for link in view.links:
        for end in {link.source.partition(":")[0], link.destination}:
            if end not in view.units:
                yield SafetyFinding(end, f"{link} ends at a unit that is not enabled")


@rule(
    "W03",
    "each input port is linked at most once",
    proven(9526, "epochs"),
    remedy="give each source its own port, or join the streams in an ARITH",
)
def one_link_per_port(view: EpochView) -> Iterator[SafetyFinding]:
    for (unit, port), count in Counter((link.destination, link.port) for link in view.links).items():
        if count > 1:
            sources = ", ".join(k.source for k in view.links if (k.destination, k.port) == (unit, port))
            yield SafetyFinding(unit, f"port {port} is fed by {sources}", "one source")


@rule(
    "W04",
    "both contexts of a link name the same source",
    proven(75617, "links"),
    remedy="let the link gate frames of one source; join two sources through memory",
)
def one_source_per_link(view: EpochView) -> Iterator[SafetyFinding]:
    for link in view.links:
        if link.permanent and not link.enabled1:
            continue
        other = regs.SOURCE_NAMES.get(link.other_source, str(link.other_source))
        if regs.SOURCES.get(link.source) != link.other_source:
            yield SafetyFinding(
                link.destination, f"port {link.port} takes turns between {link.source} and {other}", "one source"
            )


@rule(
    "W05",
    "a reading engine has no input and feeds at least one port",
    proven(30768, "readers"),
    remedy="remove the link into the reader, and link its output",
)
def readers_only_feed(view: EpochView) -> Iterator[SafetyFinding]:
    for reader in view.readers:
        for port in view.ports(reader):
            yield SafetyFinding(reader, f"reads memory, yet {view.source(reader, port)} feeds it")
        if not view.destinations(reader):
            yield SafetyFinding(reader, "reads memory, but feeds nothing")


@rule(
    "W06",
    "a writing engine has exactly one source and feeds nothing",
    proven(15491, "writers"),
    remedy="link one unit to the writer; use a second engine to read the buffer back",
)
def writers_only_take(view: EpochView) -> Iterator[SafetyFinding]:
    for writer in view.writers:
        count = len(view.ports(writer))
        if count != 1:
            yield SafetyFinding(writer, f"writes memory with {count} sources", "1")
        for link in view.destinations(writer):
            yield SafetyFinding(writer, f"writes memory, yet feeds {link.destination}")


@rule(
    "W07",
    "an epoch has at least one reading and one writing engine",
    proven(9526, "epochs"),
    remedy="let the epoch read its input from memory and write its result to memory",
)
def reads_and_writes(view: EpochView) -> Iterator[SafetyFinding]:
    if not view.readers or not view.writers:
        yield SafetyFinding("", f"{len(view.readers)} readers and {len(view.writers)} writers", "at least 1 each")


@rule("W08", "the feature and kernel ports of a CONVACC are linked", proven(11988, "units"), remedy=_HANGS)
def convacc_ports_linked(view: EpochView) -> Iterator[SafetyFinding]:
    for unit in view.convaccs:
        for port, name in ((0, "feature"), (1, "kernel")):
            if view.source(unit, port) is None:
                yield SafetyFinding(unit, f"nothing feeds the {name} port")


@rule(
    "W09",
    "the kernel port of a CONVACC is fed by a reading engine",
    proven(11988, "units"),
    remedy="store the kernels in memory and let a STRENG read them",
)
def kernels_from_memory(view: EpochView) -> Iterator[SafetyFinding]:
    for unit in view.convaccs:
        link = view.source(unit, 1)
        if link is not None and kind_of_name(link.source) != "STRENG":
            yield SafetyFinding(unit, f"kernels come from {link.source}", "a STRENG")


@rule(
    "W10",
    "the accumulator port of a CONVACC is linked exactly when the unit accumulates (NOSUM = 0)",
    proven(11988, "units"),
    remedy="clear NOSUM and link port 2, or set NOSUM and leave port 2 open",
)
def accumulator_port(view: EpochView) -> Iterator[SafetyFinding]:
    for unit, config in view.convaccs.items():
        linked = view.source(unit, 2) is not None
        if linked and config.no_sum:
            yield SafetyFinding(unit, "port 2 is linked, but NOSUM = 1")
        if not linked and not config.no_sum:
            yield SafetyFinding(unit, "NOSUM = 0, but nothing feeds port 2")


@rule("W11", "port X of an ARITH is linked; port Y exactly when DUALIN = 1", proven(20560, "units"), remedy=_HANGS)
def arith_ports(view: EpochView) -> Iterator[SafetyFinding]:
    for unit, config in view.ariths.items():
        if view.source(unit, 0) is None:
            yield SafetyFinding(unit, "nothing feeds port X")
        linked = view.source(unit, 1) is not None
        if linked != bool(config.dual_input):
            state = "linked" if linked else "open"
            yield SafetyFinding(unit, f"port Y is {state} and DUALIN = {config.dual_input}")


@rule("W12", "the input of an ACTIV and of a POOL is linked", proven(2212, "units"), remedy=_HANGS)
def single_inputs(view: EpochView) -> Iterator[SafetyFinding]:
    for unit in (*view.activs, *view.poolings):
        if view.source(unit, 0) is None:
            yield SafetyFinding(unit, "nothing feeds its input")


@rule(
    "W13",
    "the output of every processing unit is used",
    proven(34760, "units"),
    remedy="link the output, or remove the unit: a full output stops its sources",
)
def outputs_used(view: EpochView) -> Iterator[SafetyFinding]:
    for unit in view.processing:
        if not view.destinations(unit) and view.units[unit].KIND in ("CONVACC", "ARITH", "ACTIV", "POOL"):
            yield SafetyFinding(unit, "its output feeds nothing")


@rule(
    "W14",
    "only the accumulator port of a CONVACC closes a loop",
    proven(75617, "links"),
    remedy="send the stream through memory and a second epoch",
)
def loops_only_through_accumulators(view: EpochView) -> Iterator[SafetyFinding]:
    forward: dict[str, list[str]] = {}
    for link in view.links:
        if not (kind_of_name(link.destination) == "CONVACC" and link.port == 2):
            forward.setdefault(link.source, []).append(link.destination)
    unit = _on_loop(forward)
    if unit:
        yield SafetyFinding(unit, "its output returns to its own input")


def _on_loop(forward: dict[str, list[str]]) -> str:
    """A unit on a loop; empty when there is none. Removes units without open successors until nothing changes."""
    left = dict(forward)
    while True:
        done = [unit for unit, after in left.items() if not any(a in left for a in after)]
        if not done:
            return min(left, default="")
        for unit in done:
            del left[unit]


@rule(
    "W15",
    "of two chained POOL units, POOL0 feeds POOL1",
    proven(60, "links"),
    remedy="exchange the two POOL units",
)
def pool_order(view: EpochView) -> Iterator[SafetyFinding]:
    for link in view.links:
        if kind_of_name(link.source) == kind_of_name(link.destination) == "POOL" and link.source >= link.destination:
            yield SafetyFinding(link.destination, f"{link.source} feeds {link.destination}", "POOL0 -> POOL1")


@rule(
    "W16",
    "links switch by frames, never by ticks (TICKTYPE = 0)",
    proven(136372, "link words"),
    remedy="clear TICKTYPE",
)
def frames_not_ticks(view: EpochView) -> Iterator[SafetyFinding]:
    for link in view.links:
        if link.tick_type:
            yield SafetyFinding(link.destination, f"port {link.port} has TICKTYPE = {link.tick_type}", "0")


@rule(
    "W17",
    "a link is permanent, drops n frames and keeps m, or keeps n frames and drops 255",
    proven(75617, "links"),
    remedy="use one of these three kinds of contexts",
)
def known_contexts(view: EpochView) -> Iterator[SafetyFinding]:
    for link in view.links:
        if context_form(link) is None:
            state = (
                f"EN0 = {int(link.enabled0)}, FNR0 = {link.frames0}, EN1 = {int(link.enabled1)}, FNR1 = {link.frames1}"
            )
            yield SafetyFinding(link.destination, f"port {link.port}: {state}")
