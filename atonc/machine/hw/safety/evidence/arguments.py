"""Arguments: why a form whose parts were all seen may be used although the combination was not.

Each is one entry with what it allows, the evidence, and what would disprove it; `docs/silicon.md` is written from them.
There are at most eleven: whatever they do not cover is unseen.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.safety.evidence.epochs import (
    BETWEEN,
    BY_CPU,
    CPU_SIDE,
    INTERLEAVED,
    KERNELS_OF,
    MEMORY,
    NPU_SIDE,
    RUN,
    TOGETHER,
    WHOLE,
    Relation,
)
from atonc.machine.hw.safety.evidence.grades import Feature, Grade
from atonc.machine.hw.safety.evidence.table import SeenNumbers, SeenWords, evidence, grade, words


@dataclass(frozen=True)
class Argument:
    id: str
    title: str
    allows: str  # in words
    why: str
    evidence: str | Callable[[], str]  # in words, or counted in the data when asked
    disproof: str  # what a board would have to show
    probes: tuple[str, ...]  # programs of `atonc probe` that ask a board
    covers: Callable[[Feature], bool]

    @property
    def seen(self) -> str:
        return self.evidence if isinstance(self.evidence, str) else self.evidence()


def _values(name: str, of: Callable[[str], bool] = lambda role: True) -> tuple[int, int]:
    """Least and most value of a number over several roles."""
    found = [t.values for role, t in evidence().get(name, {}).items() if isinstance(t, SeenNumbers) and of(role)]
    return min(v[0] for v in found), max(v[-1] for v in found)


def _side_by_side(feature: Feature) -> bool:
    texts = str(feature.value).split(" || ")
    seen = evidence()["chain"][""]
    return feature.name == "chains side by side" and all(seen.grade(text) != Grade.UNSEEN for text in texts)


_PADS = "CONVACC pads left right top bottom"


def _axes(pads: str) -> tuple[tuple[str, str], tuple[str, str]]:
    """Left and right, top and bottom."""
    left, right, top, bottom = pads.split()
    return (left, right), (top, bottom)


def _sides_of_padding(feature: Feature) -> bool:
    """Both sides of the columns as some unit with this kernel and stride has them, and both sides of the rows; and some
    unit has a side alone."""
    known = evidence()[_PADS].get(feature.role) if feature.name == _PADS else None
    if not isinstance(known, SeenWords):
        return False
    columns, rows = _axes(str(feature.value))
    seen = [_axes(text) for text in known.seen]
    alone = any(before != behind for axes in seen for before, behind in axes)
    return alone and columns in {c for c, _ in seen} and rows in {r for _, r in seen}


_EXTENTS = ("CONVACC W", "CONVACC H", "CONVACC output width", "CONVACC output height")
_POOL_EXTENTS = ("POOL W", "POOL H")


def _counted(feature: Feature) -> bool:
    name, role, value = feature.name, feature.role, feature.value
    if name in _EXTENTS:
        known = evidence()[name].get(role)
        return isinstance(known, SeenNumbers) and known.values[-1] < int(value) <= _values(name)[1]
    if name in _POOL_EXTENTS and role in evidence()[name]:
        windowed = not role.startswith("global")
        least, most = _values(name, lambda other: other.startswith("global") != windowed)
        return least <= int(value) <= most
    if name != "STRENG read-back frame elements" or role != "no sync":
        return False
    longest = _values("STRENG elements of a raw frame")[1]
    return _values(name, lambda other: other == role)[1] < int(value) <= longest


def _walks(feature: Feature) -> bool:
    """Pixels, lines and frames of a raster step by registers of their own."""
    name, role, value = feature.name, feature.role, feature.value
    if name in ("STRENG pixels", "STRENG lines"):
        return value in ("packed", "gaps")
    if name == "STRENG frame after frame":
        return role.startswith(("read raster", "write raster")) and value in ("packed", "gaps")
    if name == "STRENG line step alignment":
        return grade(Feature("STRENG pixel step alignment", role, value)).grade != Grade.UNSEEN
    if name in ("STRENG line step", "STRENG frame offset", "STRENG repeat offset"):
        return 0 <= int(value) <= _values(name)[1]
    return name == "STRENG pixel step" and 0 < int(value) < _values(name, lambda other: other == role)[1]


_TABLES = (("ARITH", ""), ("ARITH", " of a table"), ("ACTIV", " of a table"))
_COEFFICIENTS = tuple(f"{unit} {letter}{of}" for unit, of in _TABLES for letter in "ABC")
_BYTES = ("CONVACC FSUB", "CONVACC ZFBIAS", "ARITH CLIPMIN", "ARITH CLIPMAX")


def _operands(feature: Feature) -> bool:
    name, value = feature.name, feature.value
    if name in _BYTES or (name in ("ARITH A", "ARITH C") and feature.role.startswith("CLIP")):
        return -128 <= int(value) <= 127
    if name in _COEFFICIENTS:
        return feature.role.startswith(("AFFINE", "table")) and -(1 << 15) <= int(value) < 1 << 15
    return name == "POOL MULVAL" and feature.role in ("global avg", "avg 2x2/2") and 16384 <= int(value) < 1 << 15


_RES = "ARITH SHIFT RES"


def _shifts(feature: Feature) -> bool:
    """Whether the shift of a sum was seen with the same inputs and results of another width."""
    inputs, _, _ = feature.role.rpartition(" ")
    if feature.name != _RES or not inputs.startswith("AFFINE"):
        return False
    alike = [role for role in evidence()[_RES] if role.rpartition(" ")[0] == inputs]
    if feature.role not in alike:
        return False
    least, most = _values(_RES, lambda role: role in alike)
    return least <= int(feature.value) <= most


_CHANNELS = ("CONVACC B", "CONVACC NR")


def _other_stride(feature: Feature) -> bool:
    """Channels and kernels of a window as seen with the other stride, all else equal."""
    name, role = feature.name, feature.role
    window, _, rest = role.partition(" ")
    size = window.partition("/")[0]
    alike = [r for r in evidence().get(name, {}) if r.startswith(f"{size}/") and r.partition(" ")[2] == rest]
    if name not in _CHANNELS or role not in alike:
        return False
    least, most = _values(name, lambda other: other in alike)
    return least <= int(feature.value) <= most


def _read_beside_write(feature: Feature) -> bool:
    return feature.name == "reader and writer" and str(feature.value).startswith(("interleaved", Relation.BEHIND))


def _interleaved(feature: Feature) -> bool:
    """Further apart than seen, in longer runs, or more of them. Runs that are shorter stay unseen."""
    if feature.name == BETWEEN:
        return feature.role in evidence()[BETWEEN] and int(feature.value) >= 0
    if feature.name == RUN:
        return int(feature.value) > _values(RUN)[0]
    return feature.name == TOGETHER


# ------------------------------------------------------------------------------------------- evidence, as it is counted


def _ranges(name: str, roles: Iterable[str]) -> str:
    found = [(role, evidence()[name][role]) for role in roles]
    return ", ".join(
        f"{role} {table.values[0]} to {table.values[-1]}" for role, table in found if isinstance(table, SeenNumbers)
    )


def _seen_sides() -> str:
    """Per kernel and stride that has a side alone, its combinations."""
    found = []
    for role, table in evidence()[_PADS].items():
        if isinstance(table, SeenWords) and any(a != b for text in table.seen for a, b in _axes(text)):
            common = sorted(table.seen.items(), key=lambda row: (-row[1].times, row[0]))
            found.append(f"{role}: " + ", ".join(f"{w.replace(' ', '')} ({s.times:,}x)" for w, s in common))
    return f"Kernel/stride: paddings left, right, top, bottom (times): {'; '.join(found)}."


def _seen_frames() -> str:
    widest, tallest = _values("CONVACC W")[1], _values("CONVACC H")[1]
    pools = _ranges("POOL W", ("max 2x2/2", "max 3x3/1", "max 3x3/2"))
    return f"CONVACC: width up to {widest:,}, height up to {tallest:,}. Width of POOL frames: {pools}."


def _seen_shifts() -> str:
    shifts = _ranges(_RES, (role for role in evidence()[_RES] if role.startswith("AFFINE")))
    return f"Result shifts by bytes of inputs X, Y and output O: {shifts}."


def _seen_writers() -> str:
    pairs = words("two writers")
    found = "; ".join(f"{relation}: {pairs[relation].times} pairs, {pairs[relation]}" for relation in INTERLEAVED)
    least, most = _values(RUN)
    gap = _values(BETWEEN)[1]
    return (
        f"Two writers in one epoch ({found}), with runs of {least} to {most} bytes and at most {gap} bytes between "
        "them. Three or more of one buffer: none."
    )


def _seen_kernels() -> str:
    places = words(MEMORY, KERNELS_OF)
    seen = "; ".join(f"{place}: {places[place]}" for place in (NPU_SIDE, CPU_SIDE))
    return (
        f"Kernels read from RAM ({seen}). For those in the NPU's RAM the application copies a matrix there, cleans "
        "the cache and starts the network; no result is recorded. Seven programs of another owner, compiled without "
        "external memory, so with kernels in RAM, agree with the host on a board (cosine 0.99998); these programs "
        "are not published."
    )


ARGUMENTS = (
    Argument(
        "S1",
        "Chains side by side",
        "two or more independent chains in one epoch, each of a kind that ST programs have",
        "Chains of one epoch share no unit and no link. They share the bus, as the engines of every epoch do, and the "
        "end of the epoch, when all writers are done.",
        f"{len(words('chains side by side'))} combinations occur, with up to five chains in an epoch; unit numbers do "
        "not matter.",
        "an epoch of two chains that hangs or gives other results although each of them runs alone",
        ("conv-3x3-three-side-by-side", "deep-1x1-three-side-by-side"),
        _side_by_side,
    ),
    Argument(
        "S2",
        "Padding side by side",
        "combining paddings left and right with paddings at top and bottom, both as in ST programs with this kernel "
        "and stride, where one of these pads one side alone. That leaves out 3x3 with stride 1",
        "The four sides are separate fields, each compared with its own counter; a tile at the border of a layer has "
        "padding on some sides only.",
        _seen_sides,
        "a padded 3x3 unit of stride 2 whose border differs for one combination of sides only",
        tuple(f"conv-3x3-stride-2-pads-{sides}" for sides in ("0001", "0010", "0100", "1000")),
        _sides_of_padding,
    ),
    Argument(
        "S3",
        "Larger frames",
        "CONVACC frames wider or taller than seen with this kernel, up to the widest and tallest seen with any; "
        "POOL frames of a size seen with another window; longer frames of sums read back without sync",
        "Width and height are 16-bit counters. Width is limited by the line buffer, which is judged separately "
        "(W x B); a kernel of one line needs none. The longer a frame of sums, the larger the distance between "
        "reader and writer.",
        _seen_frames,
        "a frame that is computed correctly up to some width or height and wrongly above it",
        ("conv-3x3-width-300",),
        _counted,
    ),
    Argument(
        "S4",
        "Steps through memory",
        "combinations of steps of a raster engine that ST programs do not have: lines with gaps (a window of a "
        "tensor), packed pixels, consecutive frames, lines with the alignment of pixels; steps up to the "
        "largest of ST programs, of readers or writers",
        "Lines, pixels and frames each have a step register; the address generator adds them and does not "
        "compare them. Readers and writers are the same engine with the direction bit changed.",
        "Line steps of writers lie at, above and below width x pixel step; frame offsets of readers lie below, "
        "at and above the size of a frame; line steps reach 82,944 (readers) and 600,000 (writers).",
        "a reader of a window of a tensor that delivers bytes other than those of the window",
        (
            "reader-window",
            "reader-columns-of-one-channel",
            "writer-frames-behind-arith",
            "writer-frames-behind-pool",
            "writer-frames-copied",
            "writer-frames-copied-in-turns",
        ),
        _walks,
    ),
    Argument(
        "S5",
        "Operands",
        "values of factors, terms and thresholds inside the number format of their register: coefficients of 16 "
        "bits, zero points and clip limits of one byte",
        "They are operands of multipliers, adders and comparators, not settings: no value changes the behaviour.",
        "ARITH: A up to 32,767, B from -32,768, C from -32,768 to 32,767, about 5,000 distinct factors. FSUB "
        "takes 167 values from -127 to 127 in a register of 24 bits, the limits of CLIP take 66.",
        "a layer that is right except for channels with one particular coefficient",
        ("conv-zero-point-128", "affine-lowest-factor"),
        _operands,
    ),
    Argument(
        "S6",
        "Shifts",
        "the result shift of an affine ARITH as seen with the same inputs and an output of another width",
        "The sum is shifted before it is saturated to the width of the output, which has no other effect. 16-bit "
        "additions, leaky ReLU and hard-swish need it.",
        _seen_shifts,
        "an affine unit with an output of 16 bits whose result is shifted wrongly by one amount",
        ("sum-16-bit-to-16-bit-shift-14",),
        _shifts,
    ),
    Argument(
        "S7",
        "Reading beside writing",
        "a reader and a writer of one epoch whose bytes interleave in one buffer, without a byte in common; a copy of "
        "bytes in a row to lower addresses of the same buffer, at least a word of the bus away (`--state`)",
        "Writes carry byte enables: a writer fills a pixel in several frames and the bytes of its neighbours "
        "survive. A byte that is not written reads the same at any time. A copy to lower addresses reads each byte "
        "before it is overwritten, since an engine can only write what was read.",
        "In-place operation, where reader and writer even have bytes in common, occurs 279 times in at least 47 "
        "programs; 106 of these writers follow a reader of features with another start address in those bytes. A plain "
        "copy onto part of itself: none.",
        "a copy inside one buffer that reads bytes other than those that were there",
        ("read-beside-write", "copy-moved-down"),
        _read_beside_write,
    ),
    Argument(
        "S8",
        "Windows with the other stride",
        "as many channels and kernels of a CONVACC as were seen with the same window and the other stride",
        "The stride selects which sums are output. Lines, channels and kernels in the unit are the same, and their "
        "use of its buffers is judged separately (W x B and NR x B x KW x KH).",
        "5x3 and 5x2 hold 1 or 3 channels with stride 2 and 1 with stride 1; 3x3 holds 1 to 8 with both.",
        "a window of 5x3 over three channels that is right with stride 2 and wrong with stride 1",
        ("conv-5x3-three-channels",),
        _other_stride,
    ),
    Argument(
        "S9",
        "Features of two whole bytes",
        "16-bit numbers from memory as features of a CONVACC with 16-bit features and 8-bit kernels (activations of 16 "
        "bits in one pass)",
        "A unit takes the configured number of low bytes of each word, whatever its source. Sign extension of a byte "
        "happens before, in the stream engine.",
        "The mode occurs in about 3,370 units, with features of 9 bits behind the zero point at most; engines send "
        "whole 16-bit numbers to the same port of units with 16-bit kernels.",
        "a convolution that is right where the high byte is a sign extension, and wrong elsewhere",
        (
            "conv-3x3-whole-features",
            "conv-1x1-whole-features",
            "conv-3x3-stride-2-whole-features",
            "conv-3x3-chain-whole-features",
        ),
        lambda feature: feature == WHOLE,
    ),
    Argument(
        "S10",
        "Interleaved writers",
        "interleaved writers of one epoch in one buffer with longer runs than in ST programs, gaps between runs, or "
        "two pairs in an epoch; three or more such writers with `--schedule-with many-writers`",
        "Every writer has addresses and bus transactions of its own, and writes carry byte enables. Memory "
        "handles one transaction after the other; words that two writers have in common are avoided. Longer runs and "
        "wider gaps are more like writers of two buffers, which nearly all epochs have.",
        _seen_writers,
        "a tensor whose pixels are right in the channels of one writer and wrong in those of another one",
        (
            "writers-interleaved-256",
            "writers-interleaved-gap",
            "writers-three-interleaved",
            "writers-four-interleaved",
            "writers-two-pairs",
            "writers-three-interleaved-8",
            "writers-five-interleaved-8",
            "writers-five-interleaved-16",
        ),
        _interleaved,
    ),
    Argument(
        "S11",
        "Kernels that the CPU has written",
        "kernels of a CONVACC in RAM that the CPU wrote for the same inference: the second factor of a product of two "
        "activations. Kernels that stream engines wrote stay unseen",
        "A stream engine reads the same bytes, whichever unit wrote them. In every network with layers on both, the "
        "CPU writes inputs of NPU layers and then cleans the cache in the same way. It also writes the weights of "
        "`--resident` to RAM, before the first inference.",
        _seen_kernels,
        "a product whose result changes when its kernels are written long before, or come from flash",
        ("deep-1x1-given-kernels", "deep-1x1-given-kernels-cpu-ram"),
        lambda feature: feature == BY_CPU,
    ),
)


def argument_for(feature: Feature, distrusted: Collection[str] = ()) -> Argument | None:
    return next((one for one in ARGUMENTS if one.id not in distrusted and one.covers(feature)), None)
