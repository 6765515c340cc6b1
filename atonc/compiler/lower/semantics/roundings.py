"""Where the sums of a layer are rounded, and by which numbers: layers that agree in this compute the same codes."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping

from atonc.compiler.lower.conv.kernel_parts import Part
from atonc.compiler.lower.conv.requantise import Requantisation
from atonc.compiler.lower.semantics.sums import Layered, LoweredSums, SumChain
from atonc.compiler.select.form import Semantics
from atonc.machine.hw.memoise import memoise

Roundings = Mapping[int, frozenset[Hashable]]  # by output channel


@memoise
def roundings(semantics: Semantics) -> Roundings | None:
    """Whatever the pixels; None where that is not known of it."""
    if not isinstance(semantics.codes, Layered):
        return None
    found: dict[int, set[Hashable]] = defaultdict(set)
    for piece in semantics.codes.pieces:
        if not isinstance(piece.rule, Requantisation):
            return None
        chains = tuple(_of_chain(chain, len(piece.chains) == 1, semantics.saturates) for chain in piece.chains)
        for channel, rule in _of_rule(piece, piece.rule):
            found[channel].add((chains, rule))
    return {channel: frozenset(seen) for channel, seen in found.items()}


def agree(semantics: Semantics, wanted: Roundings) -> bool:
    """Whether all that is known of some channels is as wanted."""
    found = roundings(semantics)
    return found is not None and all(seen <= wanted.get(channel, frozenset()) for channel, seen in found.items())


def _of_rule(piece: LoweredSums, rule: Requantisation) -> Iterator[tuple[int, Hashable]]:
    numbers = zip(rule.factors.tolist(), rule.addends.tolist(), strict=True)
    for channel, (factor, addend) in enumerate(numbers, piece.first):
        yield channel, (rule.out_shift, factor, addend, rule.shift, rule.clip)


def _of_chain(chain: SumChain, alone: bool, saturates: bool) -> Hashable:
    """Exact sums are the same in any order: who adds what matters where they are cut on the way."""
    if alone and len(chain.passes) == 1 and not saturates:
        return chain.subtracted
    passes = (tuple((t.first, t.count, t.part.window, _weights(t.part)) for t in p) for p in chain.passes)
    return chain.subtracted, tuple(passes)


@memoise
def _weights(part: Part) -> bytes:
    """Stands for its weights, which would be compared once for every channel."""
    return hashlib.sha256(part.weights.tobytes()).digest()
