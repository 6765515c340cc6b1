"""Questions about the stream engines: who may write where at the same time, alignment, loops, sizes."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from atonc.compiler.plan.streams import Area, Frames, contiguous, engine
from atonc.delivery.probes.bench import ProbeBuilder, same_codes
from atonc.delivery.probes.types import INPUT, OUTPUT, Probe, ProbeEpochs

_PIXELS = 256
_SLICES = (16, 24, 32, 48, 64, 96, 128)  # bytes from one of two interleaved writers to the other


def _copy(repeat: int = 0) -> ProbeEpochs:
    """A picture with gaps, written as one raster; `repeat` is what FRAME_RPT says for that one frame."""
    bench = ProbeBuilder(_PIXELS * 16, _PIXELS * 32)
    b = bench.epoch("copy")
    target = Area(16, 16, 16, 16 * 32, 32)
    writer = replace(engine(target, write=True), frame_repeat=repeat)
    b.write(b.unit(same_codes(), b.read(INPUT, contiguous(_PIXELS * 16))), OUTPUT, writer)
    bench.add(b)
    return bench.done()


def _interleaved(slice_bytes: int, pixel_bytes: int, writers: int = 2, lines: int = 16, gap: int = 0) -> ProbeEpochs:
    """Several writers of one epoch, each with its slice of every pixel; `gap`: bytes between them."""
    part = lines * 16 * slice_bytes
    bench = ProbeBuilder(part * writers, lines * 16 * pixel_bytes)
    b = bench.epoch("interleaved writers")
    for writer in range(writers):
        target = Area(lines, 16, slice_bytes, 16 * pixel_bytes, pixel_bytes, writer * (slice_bytes + gap))
        stream = b.read(INPUT, contiguous(part, offset=writer * part))
        b.write(b.unit(same_codes(), stream), OUTPUT, engine(target, write=True))
    bench.add(b)
    return bench.done()


def _offset_write(offset: int, channels: int) -> ProbeEpochs:
    bench = ProbeBuilder(_PIXELS * channels, _PIXELS * 32)
    b = bench.epoch("unaligned raster")
    target = Area(16, 16, channels, 16 * 32, 32, offset)
    b.write(b.unit(same_codes(), b.read(INPUT, contiguous(_PIXELS * channels))), OUTPUT, engine(target, write=True))
    bench.add(b)
    return bench.done()


def _odd_words(offset: int) -> ProbeEpochs:
    """Words of three bytes that begin at an odd address, four of them in a pixel, in two frames of eight lines."""
    bench = ProbeBuilder(_PIXELS * 16 + 16, _PIXELS * 12)
    b = bench.epoch("words of three bytes")
    source = Area(8, 16, 12, 16 * 16, 16, offset)
    b.write(
        b.read(INPUT, replace(engine(source, Frames(2, 8 * 16 * 16), word_bytes=3, depth=4, looped=True), raw_out=1)),
        OUTPUT,
        contiguous(_PIXELS * 12, write=True, word_bytes=3),
    )
    bench.add(b)
    return bench.done()


def _deep_pixels(depth: int) -> ProbeEpochs:
    """A raster of few pixels with many channels, which the compiler would cut into more pixels."""
    bench = ProbeBuilder(4 * (depth + 16), 4 * depth)
    b = bench.epoch("deep pixels")
    pixel = depth + 16
    small = engine(Area(1, 2, 1, 2 * pixel, pixel), Frames(2, 2 * pixel), looped=True)
    b.write(b.read(INPUT, replace(small, depth=depth)), OUTPUT, contiguous(4 * depth, write=True))
    bench.add(b)
    return bench.done()


def _window() -> ProbeEpochs:
    """The middle of a picture: between its lines lie bytes that nobody wants."""
    bench = ProbeBuilder(_PIXELS * 32, 8 * 8 * 16)
    b = bench.epoch("window")
    source = engine(Area(4, 8, 16, 16 * 32, 32, 4 * 16 * 32 + 4 * 32), Frames(2, 4 * 16 * 32), looped=True)
    b.write(b.read(INPUT, source), OUTPUT, contiguous(8 * 8 * 16, write=True))
    bench.add(b)
    return bench.done()


def _beside() -> ProbeEpochs:
    """The left half of every pixel, then from there the right half, in one buffer."""
    bench = ProbeBuilder(_PIXELS * 16, _PIXELS * 32)
    halves = [Area(16, 16, 8, 16 * 32, 32, offset) for offset in (0, 16)]
    frames = Frames(2, 8)
    b = bench.epoch("left halves")
    left = engine(halves[0], frames, write=True, looped=True)
    b.write(b.read(INPUT, contiguous(_PIXELS * 16)), OUTPUT, left)
    bench.add(b)
    b = bench.epoch("right halves")
    source, target = engine(halves[0], frames, looped=True), engine(halves[1], frames, write=True, looped=True)
    b.write(b.read(OUTPUT, source), OUTPUT, target)
    bench.add(b)
    return bench.done()


PROBES = (
    Probe("control-raster", "a copy into a picture with gaps, one frame", "published", partial(_copy, 0)),
    Probe(
        "writer-repeat-1",
        "the same with FRAME_RPT = 1",
        "published writers of one frame have FRAME_RPT = 0",
        partial(_copy, 1),
        "control-raster",
    ),
    Probe(
        "writers-interleaved",
        "two writers of one epoch, 8 bytes of every 16-byte pixel each",
        "published twice, else writers of one epoch have areas of their own; single writers fill pixels by slices",
        partial(_interleaved, 8, 16),
        "control-raster",
    ),
    Probe(
        "writers-share-word",
        "two writers of one epoch, 4 bytes of every 8-byte word each",
        "five pairs of writers in three published programs; the compiler avoids it",
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
        partial(_offset_write, 8, 16),
        "control-raster",
    ),
    Probe(
        "raster-write-offset-3",
        "a raster of bytes written from 3 bytes behind a multiple of 16",
        "6 published rasters of bytes and 80 other writers of bytes begin at odd addresses",
        partial(_offset_write, 3, 13),
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
        "read-beside-write",
        "a reader and a writer of one epoch, each with half of every pixel of one buffer",
        "published readers and writers of one epoch share no memory, or the same bytes",
        _beside,
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
