"""What a piece of a layer computes goes into the books, if its sums have room."""

from __future__ import annotations

from dataclasses import replace
from math import inf

from atonc.compiler.lower.context import Context
from atonc.compiler.lower.conv.layer import ConvLayer
from atonc.compiler.lower.conv.requantise import Requantisation
from atonc.compiler.lower.conv.weight_sums import ends
from atonc.compiler.lower.registry import Refusal
from atonc.compiler.lower.semantics.room import possible, room_seen
from atonc.compiler.lower.semantics.sums import Layered, LoweredSums
from atonc.compiler.plan.policy import LEAST_ROOM
from atonc.compiler.select.rules import SUM_ROOM
from atonc.machine.hw.limits import SUM_LIMIT


def record(context: Context, layer: ConvLayer, piece: LoweredSums) -> None:
    """One more piece of a layer."""
    known, rule = context.semantics.get(layer.op.name), piece.rule
    if layer.ring is not None:
        piece = replace(piece, target=layer.ring.out, kept=layer.ring.kept)
    if layer.skipped_bytes:
        piece = replace(piece, target=replace(piece.target, offset=piece.target.offset + layer.skipped_bytes))
    pieces = known.codes.pieces if known and isinstance(known.codes, Layered) else []
    # a new list: what a recipe tried before it was refused must not stay
    layered = Layered(context.tensor(layer.op.outputs[0]).shape, [*pieces, piece])
    error = rule.error if isinstance(rule, Requantisation) else 1.0
    room = _room(context, layer, piece)
    if known:
        error, room = max(error, known.error), min(room, known.room)
    context.explain(layer.op, layered, error, room)


def _room(context: Context, layer: ConvLayer, piece: LoweredSums) -> float:
    """Without end where no input saturates a sum; else that of typical inputs. Too little of it is no form."""
    shift = piece.rule.out_shift
    most = possible(piece, *ends(layer))
    if most.room(shift) >= 1:
        return inf
    if layer.numerics == "2.x":
        return 0.0  # as the vendor has it, and nobody promises more
    if most.whole > SUM_LIMIT:  # what the chip does then is not known, so typical inputs do not count
        seen = f"some input takes sums of {layer.op.name} to {most.whole:,}"
        raise Refusal(SUM_ROOM, seen, f"{SUM_LIMIT:,}: 24 bits", "fewer inputs a sum: cut the layer in two")
    found = _seen(context, layer, piece)
    if found < LEAST_ROOM:
        raise Refusal(
            SUM_ROOM,
            f"typical inputs take sums of {layer.op.name} to {1 / max(found, 1e-9):.2g} times what units hand on",
            f"{1 / LEAST_ROOM:g} times",
            "fewer inputs a sum: cut the layer in two and add the results",
        )
    return found


def _seen(context: Context, layer: ConvLayer, piece: LoweredSums) -> float:
    """Asked for by every way to cut the same chain into lanes."""
    terms = tuple((t.first, t.count, id(t.part)) for chain in piece.chains for p in chain.passes for t in p)
    key = ("room", (piece.first, piece.count, piece.rule.out_shift, terms))
    if key not in layer.known:
        codes = context.facts.typical_codes(layer.op.inputs[0])
        found = room_seen(Layered((), [piece]), codes) if codes else 0.0
        layer.known[key] = found, piece  # the piece keeps its parts alive
    return float(layer.known[key][0])
