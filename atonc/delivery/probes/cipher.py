"""Encrypted weights: does an engine read back what another enciphered, and does the cipher change anything at all?

The cipher is not public, so nobody knows the ciphertext; but it must undo itself at the same address, and it must not
leave bytes as they are. The firmware makes up a key when it runs, writes it into both bus interfaces and shows it to
nobody.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from atonc.compiler.plan.streams import contiguous
from atonc.delivery.probes.bench import ProbeBuilder
from atonc.delivery.probes.types import INPUT, OUTPUT, Answer, Probe, ProbeEpochs
from atonc.machine.hw.fields import changed
from atonc.machine.hw.units.stream_engine import CIPHER, StrengConfig

_COUNT = 512  # bytes
# engines, reader and writer: one on each bus interface, as published copies have them
_INTO_MEMORY, _SAME_INTERFACE, _OTHER_INTERFACE = (0, 5), (6, 1), (1, 6)


def _with_cipher(engine: StrengConfig, on: bool) -> StrengConfig:
    return changed(engine, unmodelled=(CIPHER,)) if on else engine


def _through_memory(
    write: bool, read: bool, answer: str = "", back: tuple[int, int] = _SAME_INTERFACE
) -> ProbeEpochs:
    """The input into memory and from there into the output, with the cipher on the way in, on the way out, or both."""
    bench = ProbeBuilder(_COUNT, _COUNT)
    between = bench.scratch(_COUNT)
    b = bench.epoch("into memory")
    b.write(b.read(INPUT, contiguous(_COUNT)), between, _with_cipher(contiguous(_COUNT, write=True), write))
    bench.add(b, _INTO_MEMORY)
    b = bench.epoch("from memory")
    b.write(b.read(between, _with_cipher(contiguous(_COUNT), read)), OUTPUT, contiguous(_COUNT, write=True))
    bench.add(b, back)
    bench.answers = [Answer(answer, bench.stimulus.tobytes())] if answer else []
    return replace(bench.done(), must_differ=write != read)


_KNOWN = "ST's encryption firmware enciphers so (LL_DmaCypherInit); no program with the cipher on is published"

PROBES = (
    Probe(
        "control-cipher-off",
        "512 bytes into the NPU's RAM and back, two epochs",
        "published",
        partial(_through_memory, False, False),
    ),
    Probe(
        "cipher-read-back",
        "the same, enciphered on the way in and deciphered on the way out: the bytes must come back",
        _KNOWN,
        partial(_through_memory, True, True, "reads_back"),
        "control-cipher-off",
    ),
    Probe(
        "cipher-changes-bytes",
        "the same, deciphered on the way out only: the bytes must not come back",
        _KNOWN,
        partial(_through_memory, False, True, "unchanged"),
        "cipher-read-back",
    ),
    Probe(
        "cipher-other-interface",
        "enciphered by an engine of the second bus interface, deciphered by one of the first, same key",
        _KNOWN,
        partial(_through_memory, True, True, "reads_back", _OTHER_INTERFACE),
        "cipher-read-back",
    ),
)
