"""Modes: settings of single units, inside what public networks use."""

from __future__ import annotations

from collections.abc import Iterator

from atonc.machine.base.reasons import Evidence, Severity
from atonc.machine.hw.limits import MOST_OUT_SHIFT, POOL_CHANNELS, POOL_LINE, convacc_sizes
from atonc.machine.hw.safety import mode_keys
from atonc.machine.hw.safety.evidence.grades import Grade
from atonc.machine.hw.safety.evidence.table import words
from atonc.machine.hw.safety.evidence.trust import mode_seen
from atonc.machine.hw.safety.evidence.unit_features import NARROW, NARROW_DEEP
from atonc.machine.hw.safety.view import EpochView, SafetyFinding, proven, rule
from atonc.machine.hw.units import arith, pool
from atonc.machine.hw.units.activ import FUNCTION, THRESHOLD_RELU
from atonc.machine.hw.units.convacc import ConvaccConfig
from atonc.machine.hw.units.stream_engine import (
    FARTHEST_LINE,
    FARTHEST_PIXEL,
    LARGEST_RASTER,
    StrengConfig,
    is_narrow_form,
)

_LINE = "W x B"

# kernel width x height -> strides, as seen
KERNELS = {
    (1, 1): (1,),
    (2, 2): (1,),
    (3, 1): (1,),
    (3, 3): (1, 2),
    (4, 1): (1,),
    (4, 3): (1,),
    (5, 2): (1, 2),
    (5, 3): (1, 2),
    (6, 1): (1,),
    (6, 3): (1, 2),
    (7, 1): (2,),
    (7, 3): (2,),
}
_RARE_CHANNELS, _RARE_FRAME = (16, 24), 16  # of 1x1 with stride 2: channels, lines and columns at least
_RARE_LINE = (8, 37_800)  # of 1x1 with one kernel: most channels, most W x B
_ARITH_OPS = (arith.AFFINE, arith.MULTIPLY, arith.CLIP)
_POOL_TYPES = (pool.MAX, pool.AVERAGE, pool.GLOBAL_AVERAGE)
_BIT_SIZES = {(8, 0, 0), (8, 8, 0), (8, 8, 8)}
_CONVACC, _ARITH = ConvaccConfig(), arith.ArithConfig()  # as after reset
_COMBINATIONS = ", ".join(
    f"{len(words(f'{kind} mode'))} {kind}" for kind in ("CONVACC", "ARITH", "ACTIV", "POOL", "STRENG")
)


@rule(
    "U01",
    "registers whose effect has not been observed keep their reset value",
    proven(81019, "units"),
    remedy="leave NOBLK, NOINC, gaps, ciphering, KT1, FC, ITER and the like alone",
)
def known_registers(view: EpochView) -> Iterator[SafetyFinding]:
    for unit, config in view.units.items():
        for name, value in config.unmodelled:
            yield SafetyFinding(unit, f"{config.KIND}.{name} = {value:#x}", "reset value")
    for unit, engine in view.engines.items():
        if engine.gap_cycles:
            yield SafetyFinding(unit, f"POS.GAPCYCLES = {engine.gap_cycles}", "0")


@rule(
    "U02",
    "DECUN and RECBUF are not used",
    proven(114, "networks"),
    remedy="store weights uncompressed; what these units do on the chip is unknown",
)
def no_unknown_units(view: EpochView) -> Iterator[SafetyFinding]:
    for unit, config in view.units.items():
        if config.KIND in ("DECUN", "RECBUF"):
            yield SafetyFinding(unit, "enabled")


@rule(
    "U03",
    "a CONVACC uses a kernel size and stride that is known to work",
    Evidence(
        19062,
        19072,
        "units",
        "10 have 1x1 with stride 2: 16 or 24 channels, frames of 16x16 or more, no padding (ST 4.0.0, st_yolo_d_256 of "
        "Foahh/fyp-firmware 46391825, which ran on a board)",
    ),
    limit=", ".join(f"{w}x{h} stride {'/'.join(map(str, strides))}" for (w, h), strides in KERNELS.items()),
    remedy="split the kernel into parts of at most 5 x 3 and sum them",
)
def known_kernels(view: EpochView) -> Iterator[SafetyFinding]:
    for unit, c in view.convaccs.items():
        if c.stride_x not in KERNELS.get((c.kernel_width, c.kernel_height), ()):
            rare = Severity.NOTE if _is_rare_stride(c) else None
            found = f"kernel {c.kernel_width}x{c.kernel_height} with stride {c.stride_x}"
            yield SafetyFinding(unit, found, severity=rare)


def _is_rare_stride(c: ConvaccConfig) -> bool:
    form = c.kernel_width, c.kernel_height, c.stride_x, c.stride_y
    plain = not (c.deep or c.pad_left or c.pad_right or c.pad_top or c.pad_bottom)
    sizes = c.batch in _RARE_CHANNELS and min(c.width, c.height) >= _RARE_FRAME
    return form == (1, 1, 2, 2) and plain and sizes


@rule(
    "U04",
    "kernels, channels and lines of a CONVACC fit its buffers",
    Evidence(
        19070,
        19072,
        "units",
        f"2 of 1x1 with one kernel over 8 channels have W x B = {_RARE_LINE[1]} (ST 2.2.0, "
        "minchoCoin/stm32n6-pothole-detection 7730c79)",
    ),
    limit="NR, B, NR x B x KW x KH and W x B by mode; see the message",
    remedy="cut the layer into smaller groups of kernels, channels or columns",
)
def buffers_hold(view: EpochView) -> Iterator[SafetyFinding]:
    for unit, config in view.convaccs.items():
        for name, value, most in _capacities(config):
            if value > most:
                rare = Severity.NOTE if name == _LINE and _is_rare_line(config) else None
                yield SafetyFinding(unit, f"{name} = {value}", f"<= {most}", rare)


def _is_rare_line(c: ConvaccConfig) -> bool:
    """A kernel of one line and one column keeps no line."""
    most_channels, most = _RARE_LINE
    form = c.kernel_width, c.kernel_height, c.kernels, c.simd, c.deep
    return form == (1, 1, 1, 1, 0) and c.batch <= most_channels and c.line_elements <= most


def _capacities(c: ConvaccConfig) -> Iterator[tuple[str, int, int]]:
    """What was seen at most, by mode."""
    sizes = convacc_sizes(c.kernel_height, c.kernel_width, c.simd, bool(c.deep), bool(c.dss2))
    names = ("NR", "B", "NR x B x KW x KH", _LINE)
    yield from zip(names, (c.kernels, c.batch, mode_keys.kernel_buffer(c), c.line_elements), sizes, strict=True)
    yield "OUTSHIFT", c.out_shift, MOST_OUT_SHIFT


@rule(
    "U05",
    "a CONVACC rounds and saturates: ROUND = 1, SAT = 1, ORNDMODE = 1, FSHIFT = 0",
    proven(11988, "units"),
    remedy="set these fields so; other roundings were never observed",
)
def convacc_rounds(view: EpochView) -> Iterator[SafetyFinding]:
    for unit, c in view.convaccs.items():
        state = (c.rounded, c.saturated, c.round_mode, c.feature_shift - _CONVACC.feature_shift)
        if state != (1, 1, 1, 0):
            yield SafetyFinding(unit, f"ROUND, SAT, ORNDMODE, FSHIFT = {state}", "1, 1, 1, 0")


@rule(
    "U06",
    "DEEPMODE goes with KSETEN = 3 and kernels of 1 x 1 only",
    proven(11988, "units"),
    remedy="use deep mode for 1 x 1 convolutions only, with KSETEN = 3; else KSETEN = 0",
)
def deep_mode(view: EpochView) -> Iterator[SafetyFinding]:
    for unit, c in view.convaccs.items():
        size = (c.kernel_width, c.kernel_height)
        if c.kernel_set_enable != (3 if c.deep else 0) or (c.deep and size != (1, 1)):
            yield SafetyFinding(
                unit, f"DEEPMODE = {c.deep}, KSETEN = {c.kernel_set_enable}, kernel {size[0]}x{size[1]}"
            )


@rule(
    "U07",
    "DSS2MODE goes with kernels of 3 x 3 and stride 2 only",
    proven(11988, "units"),
    remedy="use DSS2MODE for 3 x 3 stride 2 only",
)
def dss2_mode(view: EpochView) -> Iterator[SafetyFinding]:
    for unit, c in view.convaccs.items():
        form = (c.kernel_width, c.kernel_height, c.stride_x, c.stride_y)
        if c.dss2 and form != (3, 3, 2, 2):
            yield SafetyFinding(unit, f"kernel {form[0]}x{form[1]}, stride {form[2]}", "3x3, stride 2")


@rule(
    "U08",
    "unsigned kernels go with unsigned features",
    proven(4, "units"),
    remedy="use signed kernels",
)
def unsigned_kernels(view: EpochView) -> Iterator[SafetyFinding]:
    for unit, c in view.convaccs.items():
        if c.kernels_unsigned and not c.features_unsigned:
            yield SafetyFinding(unit, "KUNSIGNED = 1, FUNSIGNED = 0")


@rule(
    "U09",
    "an ARITH computes AFFINE, MUL or CLIP",
    proven(20560, "units", "ABS was reported to give wrong sums"),
    remedy="express minimum, maximum and absolute value with AFFINE, CLIP and ACTIV",
)
def arith_operations(view: EpochView) -> Iterator[SafetyFinding]:
    for unit, c in view.ariths.items():
        if c.operation not in _ARITH_OPS or c.logical:
            name = arith.OP_NAMES.get(c.operation, f"{c.operation:#x}")
            yield SafetyFinding(unit, f"operation {name}, LOGICALOP = {c.logical}", "AFFINE, MUL, CLIP")


@rule(
    "U10",
    "an ARITH takes and gives 1 or 2 bytes and shifts its inputs by nothing",
    proven(20560, "units"),
    remedy="set FBYTES = FOBYTES = 1 or 2, OBYTES = 1 or 2, FSHIFT = 0",
)
def arith_widths(view: EpochView) -> Iterator[SafetyFinding]:
    for unit, c in view.ariths.items():
        sides = ((c.bytes_x, c.out_bytes_x, c.shift_x), (c.bytes_y, c.out_bytes_y, c.shift_y))
        good = all(taken in (1, 2) and taken == kept and shift == _ARITH.shift_x for taken, kept, shift in sides)
        if not good or c.out_bytes not in (1, 2):
            yield SafetyFinding(unit, f"FBYTES, FOBYTES, FSHIFT of X and Y = {sides}, OBYTES = {c.out_bytes}")


@rule(
    "U11",
    "an ACTIV computes a function table or a thresholded ReLU, bytes to bytes",
    proven(1730, "units"),
    remedy="use TYPE 3 (function) with one byte in and out",
)
def activ_modes(view: EpochView) -> Iterator[SafetyFinding]:
    for unit, c in view.activs.items():
        widths = (c.feature_bytes, c.feature_out_bytes, c.out_bytes)
        if c.type not in (FUNCTION, THRESHOLD_RELU) or widths != (1, 1, 1):
            yield SafetyFinding(unit, f"TYPE = {c.type}, FBYTES, FOBYTES, OBYTES = {widths}", "2 or 3; 1, 1, 1")


@rule(
    "U12",
    "a thresholded ReLU cuts at -128",
    Evidence(209, 209, "units", "releases 2.0 and 2.1 only"),
    severity=Severity.UNPROVEN,
    remedy="use a function table for other thresholds",
)
def relu_threshold(view: EpochView) -> Iterator[SafetyFinding]:
    for unit, c in view.activs.items():
        if c.type == THRESHOLD_RELU and (c.parameter, c.parameter2) != (-128, -128):
            yield SafetyFinding(unit, f"PARAM = {c.parameter}, PARAM2 = {c.parameter2}", "-128, -128")


@rule(
    "U13",
    "a POOL computes a maximum, an average or a global average, without padding, with DUALLINE = 1",
    proven(482, "units"),
    remedy="pad with a 1 x 1 CONVACC in front of the POOL",
)
def pool_modes(view: EpochView) -> Iterator[SafetyFinding]:
    for unit, c in view.poolings.items():
        if c.type not in _POOL_TYPES:
            yield SafetyFinding(unit, f"TYPE = {c.type}", "MAX, AVG or global AVG")
        pads = (c.pad_top, c.pad_bottom, c.pad_left, c.pad_right)
        if any(pads):
            yield SafetyFinding(unit, f"padding top, bottom, left, right = {pads}", "0")
        if not c.dual_line:
            yield SafetyFinding(unit, "DUALLINE = 0", "1")


@rule(
    "U14",
    f"lines of a POOL fit its buffer: batch <= {POOL_CHANNELS}, width x batch <= {POOL_LINE}",
    proven(482, "units"),
    remedy="cut the tensor into fewer channels or columns",
)
def pool_lines(view: EpochView) -> Iterator[SafetyFinding]:
    for unit, c in view.poolings.items():
        if c.batch > POOL_CHANNELS or c.line_elements > POOL_LINE:
            yield SafetyFinding(
                unit, f"batch {c.batch}, width x batch {c.line_elements}", f"{POOL_CHANNELS}, {POOL_LINE}"
            )


@rule(
    "U15",
    "engines move elements of 8, 16 or 24 bits",
    proven(46259, "engines"),
    remedy="store elements in whole bytes",
)
def element_sizes(view: EpochView) -> Iterator[SafetyFinding]:
    for unit, c in view.engines.items():
        if (c.size0, c.size1, c.size2) not in _BIT_SIZES and not _reads_narrow_kernels(view, unit, c):
            yield SafetyFinding(unit, f"SIZE0..2 = {c.size0}, {c.size1}, {c.size2}", "8,0,0; 8,8,0 or 8,8,8")


@rule(
    "U16",
    "LSBMODE goes with SIGNEXT, in readers of CONVACC ports and of copies only",
    proven(11959, "readers"),
    remedy="clear LSBMODE, or set SIGNEXT as well",
)
def right_alignment(view: EpochView) -> Iterator[SafetyFinding]:
    for unit, c in view.engines.items():
        if not c.align_right:
            continue
        role = view.role(unit)
        if not c.sign_extend:
            yield SafetyFinding(unit, "LSBMODE = 1, SIGNEXT = 0", "both")
        elif not role.startswith(("to CONVACC:", "to STRENG:")):
            yield SafetyFinding(unit, f"LSBMODE = 1 in an engine {role}", "to CONVACC or a copy")


@rule(
    "U17",
    "the combination of settings of a unit occurs in an ST program",
    Evidence(report=f"{_COMBINATIONS} combinations"),
    severity=Severity.UNPROVEN,
    remedy="choose settings that occur, or test on a board",
)
def known_modes(view: EpochView) -> Iterator[SafetyFinding]:
    for unit, config in view.units.items():
        known, key = mode_keys.proven_modes(config.KIND), view.modes[unit]
        if known and key not in known and not mode_seen(config.KIND, key):
            yield SafetyFinding(unit, f"never seen: {_difference(config.KIND, key)}")


def _difference(kind: str, key: mode_keys.Key) -> str:
    """What sets a mode apart from the most similar known one."""
    nearest = max(mode_keys.proven_modes(kind), key=lambda other: sum(a == b for a, b in zip(key, other, strict=True)))
    triples = zip(mode_keys.field_names(kind), key, nearest, strict=True)
    return ", ".join(f"{name} = {mine} (seen with {other})" for name, mine, other in triples if mine != other)


@rule(
    "U18",
    "kernels are read in elements of whole bytes",
    proven(6728, "kernel streams"),
    severity=Severity.UNPROVEN,
    remedy="store kernels in bytes, or test it on a board (the probes narrow-*) and compile with its --evidence file",
)
def kernels_in_bytes(view: EpochView) -> Iterator[SafetyFinding]:
    trust = view.context.trust
    for unit, c in view.engines.items():
        form = NARROW if c.element_bytes == 1 else NARROW_DEEP
        if _reads_narrow_kernels(view, unit, c) and (trust is None or trust.grade(form).grade == Grade.UNSEEN):
            yield SafetyFinding(unit, str(form))


def _reads_narrow_kernels(view: EpochView, unit: str, c: StrengConfig) -> bool:
    return is_narrow_form(c) and view.role(unit) == "to CONVACC:1"


@rule(
    "U19",
    "rasters count no more lines, pixels and elements and step no farther than those of ST programs",
    proven(
        14635,
        "rasters",
        "two writers of a further program count 4 x 4725 x 1 and 4725 x 2 x 8, 151200 bytes a pixel (ST 2.2.0, "
        "minchoCoin/stm32n6-pothole-detection 7730c79)",
    ),
    limit=f"{' x '.join(map(str, LARGEST_RASTER))}; lines {FARTHEST_LINE} bytes apart, pixels {FARTHEST_PIXEL[0]} "
    f"(read) or {FARTHEST_PIXEL[1]} (written)",
    severity=Severity.UNPROVEN,
    remedy="count the same bytes with more lines of fewer pixels, or with more pixels of fewer elements",
)
def known_rasters(view: EpochView) -> Iterator[SafetyFinding]:
    for unit, c in view.engines.items():
        if not c.raster_seen:
            steps = f"{c.line_offset} bytes a line, {c.pixel_offset} a pixel"
            yield SafetyFinding(unit, f"{c.shape[0]} x {c.shape[1]} x {c.shape[2]}, {steps}")
