"""Whether a program that deciphers is sound, from its registers: the program as the chip would read it.

Knows nothing of how the region was chosen. A word of the region is ciphertext to everybody; so whoever reads one must
decipher, and whoever deciphers must read nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from atonc.compiler.emit.program import EncryptedRegion, Program
from atonc.compiler.plan.types import BufferKind, CpuPlan
from atonc.machine.base.errors import InternalError
from atonc.machine.hw.decode import decode_epochs
from atonc.machine.hw.ec import ec_program
from atonc.machine.hw.epoch import Epoch
from atonc.machine.hw.units.stream_engine import CIPHER_WORD, StrengConfig


def require_sound(program: Program) -> None:
    found = check(program)
    if found:
        raise InternalError(
            f"{len(found)} findings about encrypted weights, first: {found[0]}",
            rule="every reader of the encrypted region deciphers, and no other engine",
            remedy="report the model: the compiler must not produce this",
        )


def check(program: Program) -> list[str]:
    """A sentence for each finding."""
    region = program.encrypted
    epochs = [epoch for epoch in decode_epochs(ec_program.program(program.epochs)) if not epoch.empty]
    if region is None:
        return [f"epoch {number}: {name} deciphers, but nothing is encrypted" for number, name, _ in _ciphering(epochs)]
    engines, processor = _of_engines(epochs, region), _of_processor(program, region)
    return [*_of_region(region), *engines, *processor, *_unread(epochs, program, region)]


def _of_region(region: EncryptedRegion) -> Iterator[str]:
    whole = region.start % CIPHER_WORD == region.end % CIPHER_WORD == 0
    if not whole or not region.base <= region.start < region.end:
        yield f"the region {region.start:#010x} to {region.end:#010x} is not one of whole words in its pool"


def _engines(epochs: Iterable[Epoch]) -> Iterator[tuple[int, str, StrengConfig]]:
    for epoch in epochs:
        for name, unit in epoch.units.items():
            if isinstance(unit, StrengConfig):
                yield epoch.number, name, unit


def _ciphering(epochs: Iterable[Epoch]) -> Iterator[tuple[int, str, StrengConfig]]:
    return ((number, name, engine) for number, name, engine in _engines(epochs) if engine.ciphers)


def _of_engines(epochs: Iterable[Epoch], region: EncryptedRegion) -> Iterator[str]:
    for number, name, engine in _engines(epochs):
        low, high = engine.span()
        low, high = low // CIPHER_WORD * CIPHER_WORD, -(-high // CIPHER_WORD) * CIPHER_WORD
        where = f"epoch {number}: {name} at {low:#010x} to {high:#010x}"
        if engine.ciphers and engine.to_memory:
            yield f"{where} enciphers what it writes"
        elif engine.ciphers and not region.holds(low, high):
            yield f"{where} deciphers bytes outside the region"
        elif not engine.ciphers and region.meets(low, high):
            yield f"{where} {'writes' if engine.to_memory else 'reads'} encrypted bytes without deciphering"


def _of_processor(program: Program, region: EncryptedRegion) -> Iterator[str]:
    for step in program.steps:
        for name in sorted(step.plan.reads() | step.plan.writes()) if isinstance(step.plan, CpuPlan) else ():
            if name and region.meets(program.placed[name].address, program.placed[name].end):
                yield f"step {step.number}: the CPU uses {name!r}, which is encrypted"
    for home in program.placed.values():
        source = program.placed.get(home.copy_of)
        if source is not None and region.meets(source.address, source.end):
            yield f"the CPU copies {home.copy_of!r}, which is encrypted"


def _unread(epochs: Iterable[Epoch], program: Program, region: EncryptedRegion) -> Iterator[str]:
    """Constants of the region that nobody deciphers: the region would be larger than what it protects."""
    spans = [engine.span() for _, _, engine in _ciphering(epochs)]
    for name, home in program.placed.items():
        inside = home.buffer.kind == BufferKind.CONSTANT and region.meets(home.address, home.end)
        if inside and not any(low < home.end and home.address < high for low, high in spans):
            yield f"{name!r} is encrypted, and no engine deciphers it"
