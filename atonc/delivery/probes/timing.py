"""Cycles of the constants that the cycle model fits on whole networks: words, epochs, turns of frames, memories."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from atonc.compiler.lower.units.arith import Affine, affine_unit
from atonc.compiler.plan.streams import Area, Frames, contiguous, engine
from atonc.delivery.probes.bench import INPUT, OUTPUT, Probe, ProbeBuilder, ProbeEpochs, same_codes
from atonc.delivery.probes.build import FLASH, HYPERRAM
from atonc.delivery.probes.engines import WORD, copies
from atonc.machine.hw.fields import changed

_BYTES = 4096
_EPOCHS = 8
_EPOCH_ROWS = 335  # of a table: one epoch with it has the words of eight without, but for one
_EPOCH_BYTES = _EPOCHS * _EPOCH_ROWS
_FEW_ROWS, _MANY_ROWS = 128, 512
_MORE_WORDS = 771  # that the longer table has in a program


def _table(rows: int, size: int = _BYTES) -> ProbeEpochs:
    """One epoch whose program is as long as the table of its ARITH makes it."""
    bench = ProbeBuilder(size, size)
    factors, addends = bench.rng.integers(16384, 32768, rows), bench.rng.integers(-20, 20, rows) << 15
    unit = affine_unit(Affine(factors, addends, 15), size)
    return bench.chain("table", contiguous(size), contiguous(size, write=True), unit).done()


def _epochs(count: int) -> ProbeEpochs:
    """The same bytes in so many epochs."""
    bench = ProbeBuilder(_EPOCH_BYTES, _EPOCH_BYTES)
    size = _EPOCH_BYTES // count
    for part in range(count):
        reader, writer = contiguous(size, offset=part * size), contiguous(size, write=True, offset=part * size)
        bench.chain("part", reader, writer, same_codes())
    return bench.done()


def _frames(elements: int, step: int, count: int) -> ProbeEpochs:
    """Short frames in the NPU's RAM, `step` bytes from one to the next."""
    reader = engine(Area(1, 1, elements, elements, elements), Frames(count, step))
    bench = ProbeBuilder(step * count, elements * count)
    return bench.chain("frames", reader, contiguous(elements * count, write=True), same_codes()).done()


def _scattered(lines: int) -> ProbeEpochs:
    """A word of three bytes from every beat, 128 beats a line."""
    pixels = 128
    reader = engine(Area(lines, pixels, WORD, pixels * 8, 8), word_bytes=WORD, depth=1)
    writer = contiguous(lines * pixels * WORD, write=True, word_bytes=WORD)
    bench = ProbeBuilder(lines * pixels * 8, lines * pixels * WORD)
    return bench.chain("scattered words", replace(reader, raw_out=1), writer).done()


def _rereads(times: int) -> ProbeEpochs:
    """A byte of every beat of some flash, again and again through the NPU's cache."""
    lines, pixels = 32, 128
    bench = ProbeBuilder(16, times * lines * pixels)
    source = bench.constant(bench.codes(lines * pixels * 8).tobytes(), FLASH)
    reader = engine(Area(lines, pixels, 1, pixels * 8, 8), Frames(times, 0), looped=True)
    writer = contiguous(times * lines * pixels, write=True)
    return bench.chain("cached", changed(reader, cache_allocate=1), writer, same_codes(), source=source).done()


def _stream(words: int, memory: str) -> ProbeEpochs:
    """One copy from a memory."""
    made = copies(words, ("",), ("",))
    constant = ProbeBuilder(WORD * words, 0)
    name = constant.constant(constant.stimulus.tobytes(), memory)
    plan = made.plans[0]
    engines = {key: replace(use, buffer=name) if use.buffer == INPUT else use for key, use in plan.engines.items()}
    return replace(
        made,
        plans=(replace(plan, engines=engines),),
        buffers=(*made.buffers, *constant.constants),
        homes=constant.homes,
    )


def _into(words: int, memory: str) -> ProbeEpochs:
    return replace(copies(words, ("",), ("",)), homes={OUTPUT: memory})


_WORDS, _FEW = 8192, 2048
_TURNS = 512
_SPEEDS = (
    ("flash", "from flash", _stream, FLASH, "flash_mb_per_s", "397 MB/s measured on one network, 99 on another board"),
    ("hyperram", "from hyperRAM", _stream, HYPERRAM, "hyperram_mb_per_s", "no measured network depends on it"),
    ("hyperram-write", "into hyperRAM", _into, HYPERRAM, "", "no measured network depends on it"),
)


def _speeds() -> tuple[Probe, ...]:
    found = []
    for name, words, make, memory, constant, known in _SPEEDS:
        few, many = (f"a copy of {WORD * count:,} bytes {words}" for count in (_FEW, _WORDS))
        found += [
            Probe(f"{name}-speed-short", few, known, partial(make, _FEW, memory), "control-raster"),
            Probe(
                f"{name}-speed",
                many,
                known,
                partial(make, _WORDS, memory),
                "control-raster",
                measures=constant,
                units=WORD * (_WORDS - _FEW) if constant else 0,
                baseline=f"{name}-speed-short",
            ),
        ]
    return tuple(found)


def _turns(elements: int) -> tuple[Probe, ...]:
    known = "36 cycles a turn, from three programs of one network with frames of 1 and of 4"
    size = f"{_TURNS} frames of {elements} bytes"
    measured = elements == 4  # longer frames say how much of the turn they hide, single bytes are no bursts
    return (
        Probe(
            f"frames-of-{elements}-in-a-row",
            f"{size}, one behind the other",
            known,
            partial(_frames, elements, elements, _TURNS),
            "control-raster",
        ),
        Probe(
            f"frames-of-{elements}-apart",
            f"{size}, with gaps between them",
            known,
            partial(_frames, elements, 2 * elements + 8, _TURNS),
            "control-raster",
            measures="frame_turn" if measured else "",
            units=_TURNS if measured else 0,
            baseline=f"frames-of-{elements}-in-a-row",
        ),
    )


TIMING = (
    Probe(
        "few-words",
        f"an ARITH with a table of {_FEW_ROWS} rows",
        "published",
        partial(_table, _FEW_ROWS),
        "control-table",
    ),
    Probe(
        "many-words",
        f"an ARITH with a table of {_MANY_ROWS} rows",
        "6.8 to 8.6 cycles a word, from networks with and without epoch controller",
        partial(_table, _MANY_ROWS),
        "control-table",
        measures="controller_word",
        units=_MORE_WORDS,
        baseline="few-words",
    ),
    Probe(
        "one-epoch",
        f"{_EPOCH_BYTES:,} bytes through an ARITH in one epoch, with a table that makes its program as long as that of "
        "eight-epochs",
        "published",
        partial(_table, _EPOCH_ROWS, _EPOCH_BYTES),
        "control-table",
    ),
    Probe(
        "eight-epochs",
        f"{_EPOCH_BYTES:,} bytes through an ARITH in {_EPOCHS} epochs",
        "950 cycles an epoch, from 36 of a MobileNetV2",
        partial(_epochs, _EPOCHS),
        "control-affine",
        measures="epoch",
        units=_EPOCHS - 1,
        baseline="one-epoch",
    ),
    *(probe for elements in (1, 4, 8, 16, 64) for probe in _turns(elements)),
    Probe(
        "scattered-reads-short",
        "2,048 reads of three bytes, each from another beat",
        "1.30 cycles a beat, from one profiler log",
        partial(_scattered, 16),
        "control-raster",
    ),
    Probe(
        "scattered-reads",
        "8,192 reads of three bytes, each from another beat",
        "1.30 cycles a beat, from one profiler log",
        partial(_scattered, 64),
        "control-raster",
        measures="single_read_beat",
        units=6144,
        baseline="scattered-reads-short",
    ),
    *_speeds(),
    Probe(
        "cached-reads",
        "a byte of each of 4,096 beats of flash through the NPU's cache (ALLOC), once",
        "2.24 cycles a beat, from five epochs of a MobileNetV2",
        partial(_rereads, 1),
        "control-raster",
    ),
    Probe(
        "cached-rereads",
        "the same three times",
        "2.24 cycles a beat, from five epochs of a MobileNetV2",
        partial(_rereads, 3),
        "control-raster",
        measures="cache_beat",
        units=8192,
        baseline="cached-reads",
    ),
)
