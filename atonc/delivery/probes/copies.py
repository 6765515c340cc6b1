"""Copies side by side, three bytes a word: the way to ask the most of banks and bus interfaces."""

from __future__ import annotations

from collections.abc import Sequence

from atonc.compiler.plan.streams import contiguous
from atonc.delivery.probes.bench import ProbeBuilder
from atonc.delivery.probes.types import INPUT, OUTPUT, ProbeEpochs

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
    writer of each copy in turn."""
    size = WORD * words
    bench = ProbeBuilder(size * sources.count(""), size * targets.count(""))
    if input_in:
        bench.homes[INPUT] = input_in
    b = bench.epoch("copies")
    read = written = 0
    for source, target in zip(sources, targets, strict=True):
        data = bench.stimulus[:size].tobytes()
        found = b.read(
            bench.constant(data, source) if source else INPUT,
            contiguous(size, word_bytes=WORD, offset=0 if source else read),
        )
        b.write(
            found,
            bench.scratch(size, target) if target else OUTPUT,
            contiguous(size, write=True, word_bytes=WORD, offset=0 if target else written),
        )
        read += 0 if source else size
        written += 0 if target else size
    bench.add(b, engines)
    return bench.done()


def beats(words: int) -> int:
    """Counts the beats of one copy."""
    return WORD * words // BEAT
