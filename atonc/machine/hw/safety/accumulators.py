"""Accumulator chains and loops of CONVACC units, through the switch or through memory."""

from __future__ import annotations

from collections.abc import Iterator

from atonc.machine.base.reasons import Evidence, Severity
from atonc.machine.hw.limits import RING_LENGTHS, SYNC_BELOW, SYNC_UP_TO
from atonc.machine.hw.safety.view import EpochView, SafetyFinding, number_of_name, proven, rule
from atonc.machine.hw.units.convacc import FRAME_ZERO, ConvaccConfig
from atonc.machine.hw.units.stream_engine import StrengConfig
from atonc.machine.hw.units.switch import Link


def _sum_links(view: EpochView) -> Iterator[tuple[Link, ConvaccConfig, ConvaccConfig]]:
    """Links between CONVACC units at the accumulator port, with both configurations."""
    for unit, config in view.convaccs.items():
        link = view.source(unit, 2)
        if link is not None and link.source in view.convaccs:
            yield link, view.convaccs[link.source], config


def _ring(view: EpochView, unit: str) -> tuple[str, ...]:
    """The units of the feedback ring that a unit is in, empty when it is in none."""
    ring, at = [unit], view.source(unit, 2)
    while at is not None and at.source in view.convaccs and at.source not in ring:
        ring.append(at.source)
        at = view.source(at.source, 2)
    return tuple(ring) if at is not None and at.source == unit else ()


def _read_back(view: EpochView) -> Iterator[tuple[str, str, StrengConfig]]:
    """CONVACC units whose accumulator comes from memory: unit, reader, its configuration."""
    for unit in view.convaccs:
        link = view.source(unit, 2)
        if link is not None and link.source in view.readers:
            yield unit, link.source, view.readers[link.source]


@rule(
    "A01",
    "AFILT is FRAMEZERO exactly when port 2 closes a loop (GEN1SUM ring or read back from memory)",
    proven(11988, "units"),
    remedy="set AFILTMODE = 3 in the unit where the loop closes, and nowhere else",
)
def filter_closes_loops(view: EpochView) -> Iterator[SafetyFinding]:
    read_back = {unit for unit, _, _ in _read_back(view)}
    for unit, config in view.convaccs.items():
        closes = bool(config.generate_first_sum) or unit in read_back
        if closes != (config.accumulator_filter == FRAME_ZERO) or (not closes and config.accumulator_filter):
            state = "closes" if closes else "does not close"
            yield SafetyFinding(unit, f"AFILTMODE = {config.accumulator_filter} and port 2 {state} a loop")


@rule(
    "A02",
    "GEN1SUM is set in exactly one unit of each feedback ring, and only there",
    proven(11988, "units"),
    remedy="set GEN1SUM in the first unit of the ring",
)
def one_generator_per_ring(view: EpochView) -> Iterator[SafetyFinding]:
    for unit, config in view.convaccs.items():
        ring = _ring(view, unit)
        if config.generate_first_sum and not ring:
            yield SafetyFinding(unit, "GEN1SUM = 1 without a direct feedback")
        makers = [name for name in ring if view.convaccs[name].generate_first_sum]
        if ring and unit == min(ring) and len(makers) != 1:
            yield SafetyFinding(unit, f"{len(makers)} units of the ring {', '.join(ring)} have GEN1SUM = 1", "1")


@rule(
    "A03",
    "feedback rings have 1 or 4 units",
    Evidence(277, 277, "rings", "274 of one unit, 3 of four"),
    severity=Severity.UNPROVEN,
    remedy="use one or four units, or send the partial sums through memory",
)
def ring_lengths(view: EpochView) -> Iterator[SafetyFinding]:
    for unit in view.convaccs:
        ring = _ring(view, unit)
        if ring and unit == min(ring) and len(ring) not in RING_LENGTHS:
            yield SafetyFinding(unit, f"a ring of {len(ring)} units", "1 or 4")


@rule(
    "A04",
    "what returns to the GEN1SUM unit has 2 bytes, and INSHIFT there undoes OUTSHIFT of its source",
    proven(277, "links"),
    remedy="set OBYTES = 2 in the source and INSHIFT = OUTSHIFT",
)
def feedback_format(view: EpochView) -> Iterator[SafetyFinding]:
    for link, source, config in _sum_links(view):
        if config.generate_first_sum and (source.out_bytes != 2 or source.out_shift != config.in_shift):
            seen = f"{link.source} has OBYTES = {source.out_bytes}, OUTSHIFT = {source.out_shift}"
            yield SafetyFinding(
                link.destination, f"{seen}; INSHIFT = {config.in_shift}", "OBYTES = 2, INSHIFT = OUTSHIFT"
            )


@rule(
    "A05",
    "units of an accumulator chain agree in output size, kernels, stride, SIMD and FSTAT",
    proven(5925, "links"),
    remedy="give both units the same output geometry",
)
def chains_agree(view: EpochView) -> Iterator[SafetyFinding]:
    for link, source, config in _sum_links(view):
        for name, one, other in _shared(source, config):
            if one != other:
                yield SafetyFinding(link.destination, f"{name} {other}, but {one} in {link.source}", "equal")


def _shared(source: ConvaccConfig, config: ConvaccConfig) -> Iterator[tuple[str, object, object]]:
    yield "output size", source.out_size, config.out_size
    yield "NR", source.kernels, config.kernels
    yield "stride", (source.stride_y, source.stride_x), (config.stride_y, config.stride_x)
    yield "SIMD", source.simd, config.simd
    yield "FSTAT", source.feature_stationary, config.feature_stationary


@rule(
    "A06",
    "inside a chain sums travel as 24-bit words: OBYTES = 3, RAW = 1, OUTSHIFT = 0, INSHIFT = 0",
    Evidence(
        9692,
        9700,
        "links",
        "OUTSHIFT = INSHIFT is 1 in 6 links of two programs and 2 in 2 links, 3x3 with 16-bit features, of a third (ST "
        "4.0.0, yolo26_320 of Foahh/fyp-firmware 46391825, which ran on a board)",
    ),
    remedy="shift only in the last unit of the chain",
)
def chain_format(view: EpochView) -> Iterator[SafetyFinding]:
    for link, source, config in _sum_links(view):
        if config.generate_first_sum:
            continue
        shifts = source.out_shift, config.in_shift
        if (source.out_bytes, source.raw_out) == (3, 1) and shifts == (0, 0):
            continue
        mild = Severity.NOTE if (source.out_bytes, source.raw_out) == (3, 1) and _is_rare(shifts, config) else None
        seen = f"{link.source} has OBYTES = {source.out_bytes}, RAW = {source.raw_out}, OUTSHIFT = {shifts[0]}"
        yield SafetyFinding(link.destination, f"{seen}; INSHIFT = {shifts[1]}", "3, 1, 0; 0", mild)


def _is_rare(shifts: tuple[int, int], config: ConvaccConfig) -> bool:
    form = config.kernel_width, config.kernel_height, config.stride_x, config.feature_bytes
    return shifts == (1, 1) or (shifts == (2, 2) and form == (3, 3, 1, 2))


@rule(
    "A07",
    "the accumulator read back from memory is 16 bit, right aligned, sign extended, always the same frame",
    proven(1332, "readers"),
    remedy="set 16 bit, LSBMODE, SIGNEXT and frame offset 0",
)
def read_back_format(view: EpochView) -> Iterator[SafetyFinding]:
    for _, reader, engine in _read_back(view):
        flags = engine.element_bytes, engine.align_right, engine.sign_extend, engine.frame_offset
        if flags != (2, 1, 1, 0):
            seen = f"{8 * flags[0]} bit, LSBMODE = {flags[1]}, SIGNEXT = {flags[2]}, frame offset {flags[3]}"
            yield SafetyFinding(reader, seen, "16 bit, 1, 1, 0")


@rule(
    "A08",
    "the accumulator read back from memory is what one writer, fed by the last CONVACC of the chain, puts there",
    proven(1332, "readers"),
    remedy="let one writer behind the chain use the same address, frame size and frame count",
)
def read_back_partner(view: EpochView) -> Iterator[SafetyFinding]:
    for unit, reader, engine in _read_back(view):
        partners = _partners(view, unit, engine)
        if len(partners) != 1:
            where = f"{engine.address:#010x}, {engine.frames} frames of {engine.frame_elements}"
            yield SafetyFinding(reader, f"{len(partners)} writers match {where}", "1")


def _partners(view: EpochView, unit: str, engine: StrengConfig) -> list[str]:
    """Writers of the same frames, fed by the unit at which the chain ends."""
    links = view.destinations(_chain_end(view, unit))
    return [link.destination for link in links if _same_frames(view.writers.get(link.destination), engine)]


def _chain_end(view: EpochView, unit: str) -> str:
    """Follows the partial sum from unit to unit."""
    seen = [unit]
    while True:
        after = [k.destination for k in view.destinations(seen[-1]) if k.port == 2 and k.destination in view.convaccs]
        if not after or after[0] in seen:
            return seen[-1]
        seen.append(after[0])


def _same_frames(writer: StrengConfig | None, reader: StrengConfig) -> bool:
    return writer is not None and (writer.address, writer.frame_elements, writer.frames, writer.element_bytes) == (
        reader.address,
        reader.frame_elements,
        reader.frames,
        2,
    )


@rule(
    "A09",
    "frame synchronisation (FRMTRG) is used only by accumulator readers and names the writer of the sum",
    proven(726, "readers"),
    remedy="set FRMTRG_SRC to the number of the writing engine, or clear FRMTRG_EN",
)
def sync_names_writer(view: EpochView) -> Iterator[SafetyFinding]:
    units = {reader: unit for unit, reader, _ in _read_back(view)}
    for name, engine in view.engines.items():
        if not engine.sync:
            continue
        if name not in units:
            yield SafetyFinding(name, "FRMTRG_EN = 1, but it feeds no accumulator port")
            continue
        partners = [number_of_name(writer) for writer in _partners(view, units[name], engine)]
        if engine.sync_source not in partners:
            yield SafetyFinding(
                name, f"FRMTRG_SRC = {engine.sync_source}", f"{partners or 'a writer of the same frames'}"
            )


@rule(
    "A10",
    f"an accumulator frame below {SYNC_BELOW} elements is read back with frame synchronisation",
    proven(422, "readers", "304 of 362 readers of 768 to 1600 elements also use it"),
    limit=f"{SYNC_BELOW} elements",
    remedy="set FRMTRG_EN and FRMTRG_SRC on the reader: without it the frame may be read before it is written",
)
def short_frames_synchronised(view: EpochView) -> Iterator[SafetyFinding]:
    for _, reader, engine in _read_back(view):
        if not engine.sync and engine.frame_elements < SYNC_BELOW:
            yield SafetyFinding(
                reader, f"frames of {engine.frame_elements} elements without FRMTRG_EN", f">= {SYNC_BELOW}"
            )


@rule(
    "A11",
    f"an accumulator frame above {SYNC_UP_TO} elements is read back without frame synchronisation",
    proven(548, "readers"),
    limit=f"{SYNC_UP_TO} elements",
    severity=Severity.UNPROVEN,
    remedy="clear FRMTRG_EN for long frames",
)
def long_frames_free(view: EpochView) -> Iterator[SafetyFinding]:
    for _, reader, engine in _read_back(view):
        if engine.sync and engine.frame_elements > SYNC_UP_TO:
            yield SafetyFinding(
                reader, f"frames of {engine.frame_elements} elements with FRMTRG_EN", f"<= {SYNC_UP_TO}"
            )
