"""Two operands in streams: the output in parts side by side, each by the same units, clipped if need be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from atonc.compiler.ir import Op
from atonc.compiler.lower.context import Context
from atonc.compiler.lower.elementwise.function import fitted
from atonc.compiler.lower.elementwise.operands import Operand
from atonc.compiler.lower.elementwise.repeated import AS_STORED, IN_A_ROW, in_a_row, turns_in_a_row
from atonc.compiler.lower.units.affine import FULL_RANGE
from atonc.compiler.lower.units.arith import clip_unit
from atonc.compiler.lower.units.parts import parts
from atonc.compiler.lower.units.wiring import Wiring, pack
from atonc.compiler.plan.build import TaskBuilder
from atonc.compiler.plan.evidence import untrusted_unit
from atonc.compiler.plan.flow import EACH_ELEMENT
from atonc.compiler.plan.policy import MAX_CHAINS
from atonc.compiler.plan.streams import contiguous
from atonc.compiler.plan.task import TaskGroup
from atonc.compiler.select.choose import Way, choose
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.fields import UnitConfig
from atonc.machine.hw.limits import MOST_READERS, UNITS
from atonc.machine.hw.safety.evidence import Trust

Wire = Callable[[TaskBuilder, Callable[[Operand], str]], str]  # puts the units down, given who reads an operand


@dataclass(frozen=True)
class UnitsOfPart:
    """What computes a part of the output, and how many ARITHs and readers that takes."""

    wire: Wire
    ariths: int
    readers: int


def in_parts(op: Op, context: Context, operands: tuple[Operand, Operand], units: UnitsOfPart) -> list[TaskGroup]:
    """As the operands lie, or with short vectors in a row first, whichever takes less."""

    def as_stored(context: Context) -> list[TaskGroup]:
        return _parts(op, context, operands, units)

    turns = [turns_in_a_row(operand, context) for operand in operands]
    if max(turns) == 1:
        return as_stored(context)

    def repeated(context: Context) -> list[TaskGroup]:
        found = [in_a_row(op, context, o, k) if k > 1 else ([], o) for o, k in zip(operands, turns, strict=True)]
        instead = dict(zip(operands, (operand for _, operand in found), strict=True))

        def wired(epoch: TaskBuilder, read: Callable[[Operand], str]) -> str:
            return units.wire(epoch, lambda operand: read(instead[operand]))

        before = [group for groups, _ in found for group in groups]
        return [*before, *_parts(op, context, (found[0][1], found[1][1]), replace(units, wire=wired))]

    return choose(context, [Way(as_stored, AS_STORED), Way(repeated, IN_A_ROW)])


def _parts(op: Op, context: Context, operands: tuple[Operand, Operand], units: UnitsOfPart) -> list[TaskGroup]:
    """The output in parallel parts, each by the units that `wire` puts down, then clipped if need be."""
    target, elements = context.buffer(op.outputs[0]), context.tensor(op.outputs[0]).elements
    after = _clip_units(op, units.ariths, context.facts.target.trust)
    ariths = units.ariths + sum(unit.KIND == "ARITH" for unit in after)
    ways = min(UNITS["ARITH"] // ariths, MOST_READERS // units.readers, MAX_CHAINS)
    block = max(operand.repeats.block for operand in operands)

    def build(cut: tuple[int, int], epoch: TaskBuilder) -> None:
        stream = units.wire(epoch, lambda operand: epoch.read(operand.buffer, operand.reader(*cut)))
        for unit in after:
            stream = epoch.unit(unit, stream)
        epoch.write(stream, target, contiguous(cut[1], offset=cut[0], write=True))

    cuts = parts(elements, ways, block)
    wirings = [Wiring(partial(build, cut), cost=cut[1]) for cut in cuts]
    same_places = all(operand.repeats.plain and operand.element_bytes == 1 for operand in operands)
    return pack(wirings, origin_of(op), op.kind, flow=EACH_ELEMENT if same_places else None)


def _clip_units(op: Op, ariths: int, trust: Trust) -> list[UnitConfig]:
    """Behind three ARITH units only an ACTIV was seen, and at most limits no ARITH that clips."""
    clip = _clip_of(op)
    if clip is None:
        return []
    if ariths < 3 and not untrusted_unit(clip_unit(*clip), "", trust):
        return [clip_unit(*clip)]
    return [fitted(np.clip(np.arange(-128, 128), *clip), trust).config]


def origin_of(op: Op) -> tuple[str, ...]:
    return op.origin or (op.name,)


def _clip_of(op: Op) -> tuple[int, int] | None:
    low, high = op.attrs.get("clip", FULL_RANGE)
    return None if (low, high) == FULL_RANGE else (int(low), int(high))
