"""Questions about the stream engines: who may write where at the same time, alignment, loops, sizes; what either bus
interface (engines 0 to 4, 5 to 9) and a bank give to many of them; and the cipher between an engine and memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from atonc.compiler.lower.units.pool import windows_unit
from atonc.compiler.plan.streams import Area, Frames, contiguous, engine
from atonc.delivery.probes.bench import INPUT, OUTPUT, Answer, Probe, ProbeBuilder, ProbeEpochs, same_codes
from atonc.delivery.probes.build import CPU_RAM
from atonc.machine.hw.fields import UnitConfig, changed
from atonc.machine.hw.limits import UNITS
from atonc.machine.hw.units.pool import PoolConfig
from atonc.machine.hw.units.stream_engine import CIPHER, StrengConfig

_PIXELS = 256
_OF_FIVE = 3  # chains with an ARITH, beside two copies: a published set
_SLICES = (16, 24, 32, 48, 64, 96, 128)  # bytes from one of two interleaved writers to the other


def _raster(channels: int = 16, offset: int = 0, repeat: int = 0) -> ProbeEpochs:
    """A picture with gaps, written as one raster; `repeat` is what FRAME_RPT says for that one frame."""
    bench = ProbeBuilder(_PIXELS * channels, _PIXELS * 32)
    writer = replace(engine(Area(16, 16, channels, 16 * 32, 32, offset), write=True), frame_repeat=repeat)
    return bench.chain("raster", contiguous(_PIXELS * channels), writer, same_codes()).done()


def _interleaved(
    slice_bytes: int, pixel_bytes: int, writers: int = 2, lines: int = 16, gap: int = 0, images: int = 1
) -> ProbeEpochs:
    """Several writers of one epoch, each with its slice of every pixel; `gap`: bytes between them. `images`: so many
    sets of them, each with a tensor of its own."""
    part, image = lines * 16 * slice_bytes, lines * 16 * pixel_bytes
    bench = ProbeBuilder(part * writers * images, image * images)
    b = bench.epoch("interleaved writers")
    for number in range(writers * images):
        which, writer = divmod(number, writers)
        offset = which * image + writer * (slice_bytes + gap)
        stream = b.read(INPUT, contiguous(part, offset=number * part))
        target = Area(lines, 16, slice_bytes, 16 * pixel_bytes, pixel_bytes, offset)
        if number < (writers * images if writers * images <= UNITS["ARITH"] else _OF_FIVE):
            b.write(b.unit(same_codes(), stream), OUTPUT, engine(target, write=True))
        else:  # published copies into a raster have several frames: even pixels, then odd ones
            every_other = replace(target, width=8, pixel=2 * pixel_bytes)
            b.write(stream, OUTPUT, engine(every_other, Frames(2, pixel_bytes), write=True, looped=True))
    return bench.add(b).done()


def _odd_words(offset: int) -> ProbeEpochs:
    """Words of three bytes that begin at an odd address, four of them in a pixel, in two frames of eight lines."""
    source = Area(8, 16, 12, 16 * 16, 16, offset)
    reader = replace(engine(source, Frames(2, 8 * 16 * 16), word_bytes=3, depth=4, looped=True), raw_out=1)
    writer = contiguous(_PIXELS * 12, write=True, word_bytes=3)
    return ProbeBuilder(_PIXELS * 16 + 16, _PIXELS * 12).chain("words of three bytes", reader, writer).done()


def _deep_pixels(depth: int) -> ProbeEpochs:
    """A raster of few pixels with many channels, which the compiler would cut into more pixels."""
    pixel = depth + 16
    small = engine(Area(1, 2, 1, 2 * pixel, pixel), Frames(2, 2 * pixel), looped=True)
    reader, writer = replace(small, depth=depth), contiguous(4 * depth, write=True)
    return ProbeBuilder(4 * pixel, 4 * depth).chain("deep pixels", reader, writer).done()


def _window() -> ProbeEpochs:
    """The middle of a picture: between its lines lie bytes that nobody wants."""
    source = engine(Area(4, 8, 16, 16 * 32, 32, 4 * 16 * 32 + 4 * 32), Frames(2, 4 * 16 * 32), looped=True)
    bench = ProbeBuilder(_PIXELS * 32, 8 * 8 * 16)
    return bench.chain("window", source, contiguous(8 * 8 * 16, write=True)).done()


def _packed_window() -> ProbeEpochs:
    """Columns of one channel: pixels without gaps, lines with them."""
    source = engine(Area(8, 8, 1, 64, 1, 24), Frames(2, 8 * 64), depth=1, looped=True)
    return ProbeBuilder(16 * 64, 16 * 8).chain("columns", source, contiguous(16 * 8, write=True)).done()


def _frames_written(unit: UnitConfig | None, step: int) -> ProbeEpochs:
    """Two frames of 3x8 pixels of 4 bytes, the second `step` bytes behind the first, into pixels of 128 bytes."""
    target = engine(Area(3, 8, 4, 8 * 128, 128), Frames(2, step), write=True, looped=True)
    bench = ProbeBuilder(768 if isinstance(unit, PoolConfig) else 192, step + 3 * 8 * 128)
    return bench.chain("frames", contiguous(bench.stimulus.size), target, unit).done()


def _beside() -> ProbeEpochs:
    """The left half of every pixel, then from there the right half, in one buffer."""
    left, right = (Area(16, 16, 8, 16 * 32, 32, offset) for offset in (0, 16))
    frames = Frames(2, 8)
    bench = ProbeBuilder(_PIXELS * 16, _PIXELS * 32)
    bench.chain("left halves", contiguous(_PIXELS * 16), engine(left, frames, write=True, looped=True))
    source, target = engine(left, frames, looped=True), engine(right, frames, write=True, looped=True)
    return bench.chain("right halves", source, target, source=OUTPUT).done()


def _moved_down() -> ProbeEpochs:
    """Rows of 64 bytes, each in the place of the one before, as a window over time moves on."""
    size, row = 24 * 64, 64
    bench = ProbeBuilder(size, size)
    bench.chain("rows", contiguous(size), contiguous(size, write=True))
    source = contiguous(size - row, word_bytes=2, offset=row)
    return bench.chain("down", source, contiguous(size - row, write=True, word_bytes=2), source=OUTPUT).done()


# what stands in front of the writer, and bytes from a frame to the next
_WRITTEN = (
    ("behind-arith", "an ARITH", same_codes(), 3 * 8 * 128),
    ("behind-pool", "a POOL", windows_unit(6, 16, 4, 2, 2), 3 * 8 * 128),
    ("copied", "a reader", None, 3 * 8 * 128),
    ("copied-in-turns", "a reader", None, 96),
)
_FEW_LINES = 8
# interleaved writers with runs of 8 bytes: how many, and the probe with few lines
_RATES = (
    ("two", 2, 16, "writers-interleaved"),
    ("three", 3, _FEW_LINES, "writers-three-interleaved-8"),
    ("five", 5, _FEW_LINES, "writers-five-interleaved-8"),
)
_ALONE = "published twice, else writers of one epoch have areas of their own; single writers fill pixels by slices"

ENGINES = (
    Probe("control-raster", "a copy into an image with gaps, one frame", "published", _raster),
    Probe(
        "writer-repeat-1",
        "the same with FRAME_RPT = 1",
        "published writers of one frame have FRAME_RPT = 0",
        partial(_raster, repeat=1),
        "control-raster",
    ),
    Probe(
        "writers-interleaved",
        "two writers of one epoch, 8 bytes of every 16-byte pixel each",
        _ALONE,
        partial(_interleaved, 8, 16),
        "control-raster",
    ),
    Probe(
        "writers-share-word",
        "two writers of one epoch, 4 bytes of every 8-byte word each",
        "five pairs of writers in three ST programs; the compiler avoids it",
        partial(_interleaved, 4, 8),
        "control-raster",
    ),
    Probe(
        "writers-interleaved-256",
        "two writers of one epoch, 256 bytes of every 512-byte pixel each",
        "published with runs of up to 128 bytes",
        partial(_interleaved, 256, 512, 2, 4),
        "writers-interleaved",
        argument="S10",
    ),
    Probe(
        "writers-interleaved-gap",
        "two writers of one epoch, 16 bytes of every 64-byte pixel each, with 16 bytes between them",
        "published without a byte between them",
        partial(_interleaved, 16, 64, gap=16),
        "writers-interleaved",
        argument="S10",
    ),
    Probe(
        "writers-three-interleaved",
        "three writers of one epoch, 16 bytes of every 48-byte pixel each",
        "never published",
        partial(_interleaved, 16, 48, 3),
        "writers-interleaved",
        argument="S10",
    ),
    Probe(
        "writers-four-interleaved",
        "four writers of one epoch, 8 bytes of every 32-byte pixel each",
        "never published",
        partial(_interleaved, 8, 32, 4),
        "writers-interleaved",
        argument="S10",
    ),
    Probe(
        "writers-two-pairs",
        "two pairs of interleaved writers in one epoch, each pair with a tensor of its own, runs of 16 bytes",
        "published with one pair in an epoch",
        partial(_interleaved, 16, 32, images=2),
        "writers-interleaved",
        argument="S10",
    ),
    *(
        Probe(
            f"writers-{words}-interleaved-{slice_bytes}",
            f"{words} writers of one epoch, {slice_bytes} bytes of every {writers * slice_bytes}-byte pixel each",
            "never published",
            partial(_interleaved, slice_bytes, writers * slice_bytes, writers, _FEW_LINES),
            "writers-interleaved",
            argument="S10",
        )
        for words, writers, slice_bytes in (("three", 3, 8), ("five", 5, 8), ("five", 5, 16))
    ),
    *(
        Probe(
            f"writers-{words}-interleaved-rate",
            f"{words} writers of one epoch, 8 bytes a pixel each, 16 lines more",
            "no measured program depends on interleaved writers; the model has a byte a cycle for each of them",
            partial(_interleaved, 8, writers * 8, writers, lines + 16),
            baseline,
            units=16 * 16 * 8 * writers,
            baseline=baseline,
            rate="bytes",
            expects=writers,
        )
        for words, writers, lines, baseline in _RATES
    ),
    *(
        Probe(
            f"writers-interleaved-{slice_bytes}",
            f"two writers of one epoch, {slice_bytes} bytes of every {2 * slice_bytes}-byte pixel each",
            "published twice with other distances, else writers of one epoch have areas of their own",
            partial(_interleaved, slice_bytes, 2 * slice_bytes, 2, 4),
            "writers-interleaved",
        )
        for slice_bytes in _SLICES
    ),
    Probe(
        "raster-write-offset-8",
        "a raster of bytes written from 8 bytes behind a multiple of 16",
        "nearly all published writers begin at multiples of 16",
        partial(_raster, 16, 8),
        "control-raster",
    ),
    Probe(
        "raster-write-offset-3",
        "a raster of bytes written from 3 bytes behind a multiple of 16",
        "6 published rasters of bytes and 80 other writers of bytes begin at odd addresses",
        partial(_raster, 13, 3),
        "control-raster",
    ),
    Probe(
        "words-of-3-odd",
        "words of three bytes read from an odd address",
        "published readers of such words begin at even addresses",
        partial(_odd_words, 1),
        "control-raster",
    ),
    Probe(
        "reader-window",
        "a reader whose lines have gaps between them",
        "published readers take whole lines; writers leave gaps",
        _window,
        "control-raster",
        argument="S4",
    ),
    Probe(
        "reader-columns-of-one-channel",
        "a reader of some columns of one channel: a pixel step of 1, lines with gaps between them",
        "published readers have pixels with gaps between them, and steps from 2 on",
        _packed_window,
        "control-raster",
        argument="S4",
    ),
    *(
        Probe(
            f"writer-frames-{name}",
            f"two frames of a raster behind {words}, {step} bytes apart where a frame has 96",
            "published writers of several frames lie otherwise: their frames interleave, or come from other units",
            partial(_frames_written, unit, step),
            "control-raster",
            argument="S4",
        )
        for name, words, unit, step in _WRITTEN
    ),
    Probe(
        "read-beside-write",
        "a reader and a writer of one epoch, each with half of every pixel of one buffer",
        "published readers and writers of one epoch share no memory, or the same bytes",
        _beside,
        "control-raster",
        argument="S7",
    ),
    Probe(
        "copy-moved-down",
        "a copy of 23 rows in a row to where the row before each of them lies",
        "published readers and writers of one copy share no memory, or begin at the same byte",
        _moved_down,
        "control-raster",
        argument="S7",
    ),
    Probe(
        "raster-depth-512",
        "a raster of 512 channels a pixel",
        "published rasters have up to 256",
        partial(_deep_pixels, 512),
        "control-raster",
    ),
)

# ------------------------------- copies side by side, three bytes a word: they ask the most of banks and bus interfaces

WORD = 3  # bytes
BEAT = 8
_BESIDE = ("", "", "npuRAM5", "npuRAM6")  # "": parts of the input or output


def copies(
    words: int,
    sources: Sequence[str] = _BESIDE,
    targets: Sequence[str] = _BESIDE,
    engines: Sequence[int] = (),
    input_in: str = "",
) -> ProbeEpochs:
    """So many words from each source to its target: memories, or "" for the input and the output. `engines`: reader and
    writer of each copy in turn. All data are one stream of numbers, of which a firmware keeps the longest only."""
    size = WORD * words
    bench = ProbeBuilder(size * sources.count(""), size * targets.count(""))
    if input_in:
        bench.homes[INPUT] = input_in
    b = bench.epoch("copies")
    read = written = 0
    for source, target in zip(sources, targets, strict=True):
        found = b.read(
            bench.constant(bench.codes(size).tobytes(), source) if source else INPUT,
            contiguous(size, word_bytes=WORD, offset=0 if source else read),
        )
        b.write(
            found,
            bench.scratch(size, target) if target else OUTPUT,
            contiguous(size, write=True, word_bytes=WORD, offset=0 if target else written),
        )
        read += 0 if source else size
        written += 0 if target else size
    return bench.add(b, engines).done()


_LONG, _SHORT = 8192, 2048  # words
_MORE = 4 * (WORD * _LONG // BEAT - WORD * _SHORT // BEAT)  # beats of four copies
_SPREAD = (0, 2, 1, 3, 5, 7, 6, 8)  # reader and writer of each copy
_READERS = (0, 4, 1, 5, 2, 6, 3, 7)
_WRITERS = (4, 0, 5, 1, 6, 2, 7, 3)
_ONE_BANK = ("",) * 4
_BOTH = "1,477 of 1,477 published epochs with two to five engines use both interfaces"
_RATE = "rates of banks are fitted on whole networks"


def _measured(name: str, what: str, known: str, constant: str, **how: Any) -> tuple[Probe, Probe]:
    """Short and long copies: the cycles of what the long ones have more give the constant."""
    short, long = (partial(copies, words, **how) for words in (_SHORT, _LONG))
    return (
        Probe(f"{name}-short", f"four short copies{what}", known, short, "engines-spread"),
        Probe(
            name,
            f"four copies{what}",
            known,
            long,
            "engines-spread",
            measures=constant,
            units=_MORE,
            baseline=f"{name}-short",
        ),
    )


INTERFACES = (
    Probe(
        "engines-spread",
        "four copies, two readers and two writers on each bus interface",
        _BOTH,
        partial(copies, _LONG, engines=_SPREAD),
        "control-raster",
    ),
    *_measured(
        "engines-readers-together",
        ", all readers on the first bus interface",
        _BOTH,
        "interface_beat",
        engines=_READERS,
    ),
    Probe(
        "engines-writers-together",
        "four copies, all writers on the first bus interface",
        _BOTH,
        partial(copies, _LONG, engines=_WRITERS),
        "engines-spread",
    ),
    *_measured(
        "reads-of-one-bank",
        " that read one bank and write into three",
        _RATE,
        "read_beat",
        sources=_ONE_BANK,
        engines=_SPREAD,
    ),
    *_measured(
        "writes-to-one-bank",
        " that read three banks and write into one",
        _RATE,
        "write_beat",
        targets=_ONE_BANK,
        engines=_SPREAD,
    ),
    *_measured(
        "reads-of-cpu-ram",
        " that read the CPU's RAM",
        _RATE,
        "noc_beat",
        sources=_ONE_BANK,
        engines=_SPREAD,
        input_in=CPU_RAM,
    ),
)

# --------------------------------------------------- two and three copies: what sharing a bank or an interface costs

# Two copies ask three quarters of what a bank or an interface gives: the cycle model has them at full speed, whatever
# they share. Three ask more than all of it, so their cycles give a constant.
_APART, _TOGETHER = ("", "npuRAM5", "npuRAM6"), ("", "", "")  # memories: each its own bank, or one for all
_CROSSED = (0, 6, 5, 1, 2, 8)  # reader and writer of each copy: on both interfaces in turn
_PARALLEL = (0, 5, 1, 6, 2, 7)  # all readers on the first interface, all writers on the second
_TWO = (
    # what is shared, sources, targets, engines
    ("copies-apart", "with banks and interfaces of their own", _APART, _APART, _CROSSED),
    ("readers-one-interface", "whose readers are on one interface", _APART, _APART, _PARALLEL),
    ("readers-one-bank", "whose readers are in one bank", _TOGETHER, _APART, _CROSSED),
    ("readers-one-bank-one-interface", "whose readers share bank and interface", _TOGETHER, _APART, _PARALLEL),
    ("writers-one-bank", "whose writers are in one bank", _APART, _TOGETHER, _CROSSED),
    ("writers-one-bank-one-interface", "whose writers share bank and interface", _APART, _TOGETHER, _PARALLEL),
)
_THREE = {"readers-one-interface": "interface_beat", "readers-one-bank": "read_beat", "writers-one-bank": "write_beat"}
_ARBITRATED = "no measured program tells what engines cost each other"


def _shared(number: str, count: int) -> Iterator[Probe]:
    for name, what, sources, targets, engines in _TWO:
        constant = _THREE.get(name, "") if count > 2 else ""
        if count > 2 and not constant:
            continue
        how = (sources[:count], targets[:count], engines[: 2 * count])
        short, long = (partial(copies, words, *how) for words in (_SHORT, _LONG))
        title, first = f"{number}-{name}", f"two-{_TWO[0][0]}"
        control = "control-raster" if title == first else first
        yield Probe(f"{title}-short", f"{number} short copies {what}", _ARBITRATED, short, control)
        found = Probe(title, f"{number} copies {what}", _ARBITRATED, long, control, baseline=f"{title}-short")
        size = count * WORD * (_LONG - _SHORT)
        if constant:
            yield replace(found, measures=constant, units=size / BEAT)
        else:
            yield replace(found, rate="bytes", units=size, expects=count * WORD)


ARBITRATION = (*_shared("two", 2), *_shared("three", 3))

# -------------------------------------------------------------------------------------------------------- the cipher
# Does an engine read back what another enciphered, and does the cipher change anything at all? It is not public, so
# nobody knows the ciphertext; but it must undo itself at the same address, and it must not leave bytes as they are. The
# firmware makes up a key when it runs, writes it into both bus interfaces and shows it to nobody.

_COUNT = 512  # bytes
# engines, reader and writer: one on each bus interface, as published copies have them
_INTO_MEMORY, _SAME_INTERFACE, _OTHER_INTERFACE = (0, 5), (6, 1), (1, 6)


def _through_memory(write: bool, read: bool, answer: str = "", back: tuple[int, int] = _SAME_INTERFACE) -> ProbeEpochs:
    """The input into memory and from there into the output, with the cipher on the way in, on the way out, or both."""

    def with_cipher(config: StrengConfig, on: bool) -> StrengConfig:
        return changed(config, unmodelled=(CIPHER,)) if on else config

    bench = ProbeBuilder(_COUNT, _COUNT)
    between, reader, writer = bench.scratch(_COUNT), contiguous(_COUNT), contiguous(_COUNT, write=True)
    bench.chain("into memory", reader, with_cipher(writer, write), target=between, engines=_INTO_MEMORY)
    bench.chain("from memory", with_cipher(reader, read), writer, source=between, engines=back)
    bench.answers = [Answer(answer, bench.stimulus.tobytes())] if answer else []
    return replace(bench.done(), must_differ=write != read)


_ENCIPHERED = "ST's encryption firmware enciphers so (LL_DmaCypherInit); no program with the cipher on is published"

CIPHERS = (
    Probe(
        "control-cipher-off",
        "512 bytes into the NPU's RAM and back, two epochs",
        "published",
        partial(_through_memory, False, False),
    ),
    Probe(
        "cipher-read-back",
        "the same, enciphered on the way in and deciphered on the way out: the bytes must come back",
        _ENCIPHERED,
        partial(_through_memory, True, True, "reads_back"),
        "control-cipher-off",
    ),
    Probe(
        "cipher-changes-bytes",
        "the same, deciphered on the way out only: the bytes must not come back",
        _ENCIPHERED,
        partial(_through_memory, False, True, "unchanged"),
        "cipher-read-back",
    ),
    Probe(
        "cipher-other-interface",
        "enciphered by an engine of the second bus interface, deciphered by one of the first, same key",
        _ENCIPHERED,
        partial(_through_memory, True, True, "reads_back", _OTHER_INTERFACE),
        "cipher-read-back",
    ),
)
