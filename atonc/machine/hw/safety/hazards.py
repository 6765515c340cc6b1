"""Hazards: configurations that were reported to hang or to misbehave, and what no program does next to them."""

from __future__ import annotations

from collections.abc import Iterator

from atonc.machine.base.reasons import Evidence, Severity
from atonc.machine.hw.limits import XSPI_TAIL
from atonc.machine.hw.links import FIRST_FRAMES, context_form
from atonc.machine.hw.machine import secure, stm32n6
from atonc.machine.hw.safety.evidence.epochs import Relation, of_copy
from atonc.machine.hw.safety.view import EpochView, SafetyFinding, kind_of_name, proven, rule
from atonc.machine.hw.units.convacc import ConvaccConfig

_UNGATED_FRAMES = 256  # does not fit the 8-bit counter of the gate
_MOST_CONVACCS = 2
_WIDE_KERNEL = 6
_WIDE_STRIDED = (7, 2, 2)  # columns and strides
_RARE_STRIDES = (1, 2)
_LOADER = range(0x3418_0000, 0x3420_0000)
_MOST_LEFT_OUT = 4  # lines or columns at the end of a frame
_MOST_APART = 2  # lines at which units of one source begin
# Reported with controls by LarocheC/eco8-neaixt (deploy/stm32n6/N6NET_POWER.md, b7417846): ST 4.0.1 computes an 8x1
# convolution over all 8 lines of a frame of one column as eight 1x1 convolutions of a line each, and adds them. That
# never ends, with and without the epoch controller; the same network without this kernel runs. The registers are not
# public: each of H11 to H13 is a shape that such a set of units needs and that no published program has.
_FULL_HEIGHT = (
    "a full-height 8x1 kernel cut into masked 1x1 kernels never ended on a board (4.0.1, LarocheC/eco8-neaixt b7417846)"
)
_PROCESSING = ("ARITH", "ACTIV", "POOL", "CONVACC")


@rule(
    "H1",
    "ACTIV does not feed a CONVACC",
    proven(75617, "links", "36 epochs with such links never ended on a board, 582 without them did (4.0.1)"),
    remedy="put an ARITH between them, or write the activation to memory",
)
def activ_into_convacc(view: EpochView) -> Iterator[SafetyFinding]:
    for link in view.links:
        if kind_of_name(link.source) == "ACTIV" and kind_of_name(link.destination) == "CONVACC":
            yield SafetyFinding(link.destination, str(link))


@rule(
    "H2",
    f"a processing unit feeds at most {_MOST_CONVACCS} CONVACC feature ports",
    proven(256, "links", "the hang of H1 had three"),
    limit=str(_MOST_CONVACCS),
    remedy="write the stream to memory and let engines feed the CONVACC units",
)
def broadcast_to_convaccs(view: EpochView) -> Iterator[SafetyFinding]:
    for unit in view.processing:
        fed = [
            k.destination for k in view.destinations(unit) if k.port == 0 and kind_of_name(k.destination) == "CONVACC"
        ]
        if len(fed) > _MOST_CONVACCS:
            yield SafetyFinding(unit, f"feeds {', '.join(fed)}", f"{_MOST_CONVACCS}")


@rule(
    "H3",
    "a processing unit feeds a CONVACC through a gate that stops after the frames which it needs",
    proven(256, "links", "189 gated; the 67 others need 256 frames, more than the gate can count"),
    remedy="keep as many frames as the CONVACC needs, then drop 255",
)
def gate_before_convacc(view: EpochView) -> Iterator[SafetyFinding]:
    for unit, config in view.convaccs.items():
        link = view.source(unit, 0)
        if link is None or kind_of_name(link.source) not in _PROCESSING:
            continue
        needed = _feature_frames(view, unit, config)
        if link.permanent and needed != _UNGATED_FRAMES:
            yield SafetyFinding(unit, f"{link} is not gated and {needed} frames are needed", f"keep {needed} drop 255")
        elif not link.permanent and (context_form(link) != FIRST_FRAMES or link.frames0 != needed):
            yield SafetyFinding(unit, f"{link}, {needed} frames are needed", f"keep {needed} drop 255")


def _feature_frames(view: EpochView, unit: str, config: ConvaccConfig) -> int:
    """Frames that the unit takes: as many as its kernels are for, or as arrive."""
    kernels = view.arriving(unit, 1)
    if kernels is not None and config.set_bytes > 0:
        return kernels.total * kernels.word_bytes // config.set_bytes // max(1, config.frames_out(1))
    features = view.arriving(unit, 0)
    return features.total // max(1, config.feature_words) if features is not None else 0


@rule(
    "H4",
    "stride 2 runs on frames of at least two lines and two columns only",
    proven(603, "units", "a 3x1 stride-2 depthwise convolution never ended on a board, stride 1 did (4.0.1)"),
    remedy="convolve with stride 1 and drop columns in the next 1 x 1 convolution or in the reading engine",
)
def stride_on_lines(view: EpochView) -> Iterator[SafetyFinding]:
    for unit, c in view.convaccs.items():
        if max(c.stride_x, c.stride_y) > 1 and (c.height < 2 or c.width < 2):
            yield SafetyFinding(unit, f"stride {max(c.stride_x, c.stride_y)} on a frame of {c.width}x{c.height}", "2x2")


@rule(
    "H5",
    "horizontal and vertical stride are equal and at most 2",
    Evidence(19071, 19072, "units", "one 3x3 of one program, not of ST, has 1 and 2"),
    remedy="use stride 1 and drop lines or columns in the reading engine",
)
def equal_strides(view: EpochView) -> Iterator[SafetyFinding]:
    for unit, c in view.convaccs.items():
        if c.stride_x != c.stride_y or c.stride_x > 2:
            rare = Severity.NOTE if (c.stride_x, c.stride_y) == _RARE_STRIDES else None
            yield SafetyFinding(unit, f"strides {c.stride_x} and {c.stride_y}", "equal, 1 or 2", rare)


@rule(
    "H6",
    "a kernel of one column has one line",
    proven(11988, "units"),
    remedy="transpose the layer, so that the kernel is one line",
)
def no_column_kernels(view: EpochView) -> Iterator[SafetyFinding]:
    for unit, c in view.convaccs.items():
        if c.kernel_width == 1 and c.kernel_height > 1:
            yield SafetyFinding(unit, f"kernel 1x{c.kernel_height}", "1x1")


@rule(
    "H7",
    f"kernels are narrower than {_WIDE_KERNEL} columns, or have 7 and stride 2",
    Evidence(
        19053,
        19072,
        "units",
        "19 of 6 columns, in releases 2.0 to 3.0 only; 14 of 7 columns, all with stride 2, 7 of them in ST 4.0.0 "
        "(st_yolo_d_256 of Foahh/fyp-firmware 46391825, which ran on a board); a 7x7 convolution with stride 1 of "
        "another program never answered in 4.0.0",
    ),
    severity=Severity.NOTE,
    remedy="split the kernel into parts of at most 5 columns",
)
def wide_kernels(view: EpochView) -> Iterator[SafetyFinding]:
    for unit, c in view.convaccs.items():
        if c.kernel_width >= _WIDE_KERNEL and (c.kernel_width, c.stride_x, c.stride_y) != _WIDE_STRIDED:
            yield SafetyFinding(unit, f"kernel {c.kernel_width}x{c.kernel_height}", f"< {_WIDE_KERNEL} columns")


@rule(
    "H8",
    f"the last {XSPI_TAIL} bytes of an external memory are not touched, not even by prefetch",
    Evidence(report="erratum of the memory-mapped xSPI controller"),
    remedy="keep the last 96 bytes of flash and hyperRAM free",
)
def end_of_external_memory(view: EpochView) -> Iterator[SafetyFinding]:
    for unit, config in view.engines.items():
        bank = stm32n6().memory_at(config.address)
        if bank is None or not bank.external:
            continue
        reach = max(secure(view.spans[unit][1] - 1), 0 if config.to_memory else config.address_limit)
        if reach >= bank.end - XSPI_TAIL:
            yield SafetyFinding(unit, f"reaches {reach:#010x}", f"below {bank.end - XSPI_TAIL:#010x}")


@rule(
    "H9",
    "the upper half of cpuRAM2 belongs to ST's first-stage loader until it has ended",
    Evidence(report="no failure proven; a program with 800 kB there ran"),
    severity=Severity.NOTE,
    remedy="prefer 0x34100000 to 0x3417ffff",
)
def loader_memory(view: EpochView) -> Iterator[SafetyFinding]:
    for unit in view.writers:
        first, end = (secure(address) for address in view.spans[unit])
        if first < _LOADER.stop and end > _LOADER.start:
            yield SafetyFinding(unit, f"writes {first:#010x}..{end - 1:#010x}", "outside 0x34180000..0x341fffff")


@rule(
    "H10",
    "an engine overwrites what another still reads only in place, in an accumulator loop, or moving it down",
    Evidence(
        report="104 elementwise chains work in place; 106 writers trail a CONVACC feature reader; a copy to lower "
        "addresses reads every byte before its place is written (S7)"
    ),
    severity=Severity.NOTE,
    remedy="check that the writer stays behind the reader, or use two buffers",
)
def overlapping_engines(view: EpochView) -> Iterator[SafetyFinding]:
    for writer, config in view.writers.items():
        first, end = view.spans[writer]
        for reader, other in view.readers.items():
            low, high = view.spans[reader]
            down = of_copy(other, config, Relation.OVERLAP, view.role(reader)) == Relation.BEHIND
            if first < high and low < end and config.address != other.address and not down:
                yield SafetyFinding(
                    writer, f"writes {first:#010x}..{end - 1:#010x}, {reader} reads {low:#010x}..{high - 1:#010x}"
                )


@rule(
    "H11",
    f"a CONVACC leaves out at most {_MOST_LEFT_OUT} lines or columns at the end of a frame, with 1x1 none at the start",
    proven(19072, "units", _FULL_HEIGHT),
    limit=str(_MOST_LEFT_OUT),
    remedy="let the reading engine fetch only the lines and columns that are used",
)
def early_crops(view: EpochView) -> Iterator[SafetyFinding]:
    for unit, c in view.convaccs.items():
        ahead = max(c.crop_rows[0], c.crop_columns[0]) if (c.kernel_width, c.kernel_height) == (1, 1) else 0
        behind = max(c.height - c.crop_rows[1], c.width - c.crop_columns[1])
        if ahead or behind > _MOST_LEFT_OUT:
            yield SafetyFinding(unit, _part(c), f"at most {_MOST_LEFT_OUT} lines and columns left out")


@rule(
    "H12",
    "a CONVACC uses all of a frame of one line or one column",
    proven(114, "units of such frames in 63 programs", f"units that crop have frames of 5x5 or more; {_FULL_HEIGHT}"),
    remedy="let the reading engine fetch only the pixels that are used",
)
def crops_of_lines(view: EpochView) -> Iterator[SafetyFinding]:
    for unit, c in view.convaccs.items():
        if min(c.width, c.height) == 1 and _crop(c) != ((0, c.height), (0, c.width)):
            yield SafetyFinding(unit, _part(c), "all of it")


@rule(
    "H13",
    "CONVACC units that take features from one source use its frames up to the same line and column, and begin at most "
    f"{_MOST_APART} lines apart",
    proven(
        26,
        "sources of several units in 63 programs",
        "23 feed 5x3 and 5x2 parts of windows, which begin one or two lines apart (palm detector, shipped by ST); "
        f"{_FULL_HEIGHT}",
    ),
    limit=str(_MOST_APART),
    remedy="give each unit a reading engine of its own, or an epoch of its own",
)
def crops_of_one_source(view: EpochView) -> Iterator[SafetyFinding]:
    first: dict[str, str] = {}
    for unit, c in view.convaccs.items():
        link = view.source(unit, 0)
        if link is None:
            continue
        other = first.setdefault(link.source, unit)
        if not _alike(view.convaccs[other], c):
            found = f"{_part(c)} from {link.source}; {other} {_part(view.convaccs[other])}"
            yield SafetyFinding(unit, found, f"equal ends, at most {_MOST_APART} lines apart")


def _alike(one: ConvaccConfig, other: ConvaccConfig) -> bool:
    (top, bottom), (left, right) = _crop(one)
    (top2, bottom2), (left2, right2) = _crop(other)
    return (bottom, left, right) == (bottom2, left2, right2) and abs(top - top2) <= _MOST_APART


def _crop(c: ConvaccConfig) -> tuple[tuple[int, int], tuple[int, int]]:
    return c.crop_rows, c.crop_columns


def _part(c: ConvaccConfig) -> str:
    (top, bottom), (left, right) = _crop(c)
    return f"uses lines {top} to {bottom - 1} of {c.height}, columns {left} to {right - 1} of {c.width}"
