"""Two operands in streams: where they lie, what their codes mean, how they repeat against the output; and the output in
parts side by side, each by the same units, clipped if need be.

A vector that repeats along the output, such as the gates of squeeze and excite, costs an engine a turn-round for each
of its short frames: it may be written several times in a row first, and read in longer frames.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field, replace
from functools import partial
from math import gcd

import numpy as np

from atonc.compiler.ir import Op, Tensor
from atonc.compiler.lower.context import Context
from atonc.compiler.lower.conv.ones import LEAST_SIDE, spread
from atonc.compiler.lower.elementwise.function import fitted
from atonc.compiler.lower.move.copies import Move, copy
from atonc.compiler.lower.registry import Refusal
from atonc.compiler.lower.semantics.arithmetic import looked_up
from atonc.compiler.lower.units.arith import FULL_RANGE, Array, clip_unit
from atonc.compiler.lower.units.views import StridedView, row
from atonc.compiler.lower.units.wiring import Wiring, origin_of, pack, parts, passed
from atonc.compiler.ops.values import Arg
from atonc.compiler.plan.build import TaskBuilder
from atonc.compiler.plan.evidence import untrusted_unit
from atonc.compiler.plan.flow import EACH_ELEMENT
from atonc.compiler.plan.policy import MAX_CHAINS
from atonc.compiler.plan.streams import Area, Frames, engine
from atonc.compiler.plan.task import TaskGroup
from atonc.compiler.plan.types import BufferKind
from atonc.compiler.select.enumerate import Drawing, cheapest, chosen
from atonc.compiler.select.rules import BROADCAST
from atonc.compiler.select.variants import Variant
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.fields import UnitConfig
from atonc.machine.hw.limits import MOST_READERS, READ_ALIGNMENT, UNITS
from atonc.machine.hw.safety.evidence import Trust
from atonc.machine.hw.units.stream_engine import StrengConfig


@dataclass(frozen=True)
class Repeats:
    """`outer` blocks, each `times` over, of `run` elements: how an input covers the output."""

    outer: int
    times: int
    run: int

    @property
    def plain(self) -> bool:
        return self.times == 1

    @property
    def block(self) -> int:
        """Elements of the output between which the input may be cut."""
        if self.plain:
            return 1
        if self.outer == 1:
            return self.run
        return self.times * self.run * (READ_ALIGNMENT // gcd(READ_ALIGNMENT, self.run))


@dataclass(frozen=True)
class Operand:
    buffer: str
    scale: float
    zero_point: int
    repeats: Repeats
    element_bytes: int = 1
    source: str = ""  # the tensor whose codes `table` turns into those of the buffer
    table: Array | None = field(default=None, compare=False)

    def reader(self, start: int, count: int) -> StrengConfig:
        """The engine for a part of the output."""
        if self.repeats.plain:
            return row(count, start, self.element_bytes)
        run, times = self.repeats.run, self.repeats.times
        once = self.repeats.outer == 1
        offset = 0 if once else start // (times * run) * run
        frames = Frames(count // run, 0, 1, run) if once else Frames(times, 0, count // (times * run), run)
        return engine(Area(1, 1, run, run, run, offset), frames, looped=True)


def repeats(shape: tuple[int, ...], out: tuple[int, ...]) -> Repeats | None:
    """How a tensor repeats along the output; None when it takes more loops than an engine has."""
    dims = (1,) * (len(out) - len(shape)) + shape
    groups: list[tuple[bool, int]] = []  # (varies, size)
    for own, whole in zip(dims, out, strict=True):
        if whole == 1:
            continue
        varies = own == whole
        if groups and groups[-1][0] == varies:
            groups[-1] = (varies, groups[-1][1] * whole)
        else:
            groups.append((varies, whole))
    if not any(not varies for varies, _ in groups):
        return Repeats(1, 1, groups[0][1] if groups else 1)
    if not groups[0][0]:
        groups.insert(0, (True, 1))
    if not groups[-1][0]:
        groups.append((True, 1))
    return Repeats(*(size for _, size in groups)) if len(groups) == 3 else None


def operand_of(op: Op, context: Context, name: str, bytes_only: bool = False) -> Operand:
    """An activation as it is; a constant in full, as bytes if it is int8, else in 16 bits."""
    tensor, out = context.tensor(name), context.tensor(op.outputs[0])
    if tensor.data is not None and is_of_bytes(tensor):
        return code_operand(context, np.broadcast_to(tensor.data, out.shape), tensor, tensor.name)
    if tensor.data is not None:
        real = np.broadcast_to(Arg(tensor, tensor.data).real, out.shape)
        scale = float(np.abs(real).max(initial=0.0)) / (127 if bytes_only else 32767) or 1.0
        codes: Array = np.rint(real / scale).astype(np.int8 if bytes_only else "<i2")
        constant = context.constant(np.ascontiguousarray(codes).tobytes(), tensor.name)
        return Operand(constant, scale, 0, Repeats(1, 1, codes.size), codes.dtype.itemsize)
    found = repeats(tensor.shape, out.shape)
    if found is None:
        seen = f"{op.kind} repeats {tensor.shape} to {out.shape}"
        raise Refusal(BROADCAST, seen, "one repeated group of dimensions", "expand the smaller tensor before")
    return Operand(context.buffer(name), tensor.scale, tensor.zero_point, found)


def is_of_bytes(tensor: Tensor) -> bool:
    """int8 with one scale and one zero point, written down once or for every channel."""
    if tensor.dtype != "int8" or tensor.quant is None:
        return False
    return all(np.ptp(values) == 0 for values in (tensor.quant.scales, tensor.quant.zero_points))


def code_operand(context: Context, codes: Array, like: Tensor, label: str) -> Operand:
    """A constant of bytes, one for every element of the output, in the format of a tensor."""
    name = context.constant(np.ascontiguousarray(codes).tobytes(), label)
    return Operand(name, like.scale, like.zero_point, Repeats(1, 1, codes.size))


def swapped(op: Op, x: Operand, y: Operand) -> bool:
    """Whether the operands must change places: only port Y takes a repeating one."""
    if x.repeats.plain:
        return y.element_bytes > x.element_bytes
    if not y.repeats.plain:
        seen = f"both inputs of {op.kind} repeat"
        raise Refusal(BROADCAST, seen, "one input covers the output", "expand one of the two before")
    return True


def operand_codes(operand: Operand, op: Op, context: Context, values: Mapping[str, Array]) -> Array:
    """The numbers of an operand, one for every element of the output, given the values of the inputs."""
    shape = context.tensor(op.outputs[0]).shape
    buffer = context.buffers[operand.buffer]
    if buffer.kind == BufferKind.CONSTANT:
        return np.frombuffer(buffer.data, "<i2" if operand.element_bytes == 2 else np.int8).reshape(shape)
    found = values[operand.source or operand.buffer]
    return np.broadcast_to(found if operand.table is None else looked_up(operand.table, found), shape)


AS_STORED, IN_A_ROW, SPREAD = Variant("stored vector"), Variant("repeated vector"), Variant("spread vector")


def turns_in_a_row(operand: Operand, context: Context) -> int:
    """How often the vector must stand in a row so that a frame takes as long as its elements; 1: it does already."""
    timing, shape = context.facts.target.machine.timing, operand.repeats
    if shape.plain or shape.outer > 1 or operand.element_bytes > 1:
        return 1
    least = -(-(timing.frame_turn + timing.frame_turn_words) // shape.run)
    return next((k for k in range(int(least), shape.times) if shape.times % k == 0), 1)


def in_a_row(op: Op, context: Context, operand: Operand) -> tuple[list[TaskGroup], Operand]:
    """Epochs that write the vector as often as it takes, and the operand that reads it there."""
    turns, run, times = turns_in_a_row(operand, context), operand.repeats.run, operand.repeats.times
    if turns == 1:
        return [], operand
    longer = context.scratch(turns * run, f"{op.name}:repeated")
    move = Move(StridedView.whole(operand.buffer, (run,)).repeat(0, turns), StridedView.whole(longer, (turns, run)))
    groups = copy(context, [move], origin_of(op), f"repeated operand of {op.name}")
    source = operand.source or operand.buffer
    return groups, replace(operand, buffer=longer, repeats=Repeats(1, times // turns, turns * run), source=source)


def _of_single_values(operand: Operand, context: Context) -> bool:
    """Whether an engine would take a turn for every value."""
    one, many = operand.repeats.run == operand.element_bytes == 1, operand.repeats.outer >= LEAST_SIDE**2
    return one and many and not operand.repeats.plain and context.numerics != "2.x"


def spread_out(op: Op, context: Context, operand: Operand) -> tuple[list[TaskGroup], Operand]:
    """Epochs that write every value as often as it repeats, and the operand that reads all of them."""
    if not _of_single_values(operand, context):
        return [], operand
    values, times = operand.repeats.outer, operand.repeats.times
    groups, target = spread(op, context, operand.buffer, values, times)
    return groups, replace(
        operand, buffer=target, repeats=Repeats(1, 1, values * times), source=operand.source or operand.buffer
    )


Change = Callable[[Op, Context, Operand], tuple[list[TaskGroup], Operand]]
Wire = Callable[[TaskBuilder, Callable[[int], str]], str]  # puts the units down, given who reads the n-th operand


def in_parts(
    op: Op, context: Context, operands: tuple[Operand, Operand], wire: Wire, wide: str = ""
) -> list[TaskGroup]:
    """As the operands lie, or with short vectors in a row or single values spread first, whichever takes less. `wide`:
    the buffer of 16 bits that is written in place of the output."""

    def drawn(change: Change, context: Context) -> list[TaskGroup]:
        found = [change(op, context, operand) for operand in operands]
        before = [group for groups, _ in found for group in groups]
        return [*before, *_parts(op, context, (found[0][1], found[1][1]), wire, wide)]

    rows: list[tuple[Variant, Change]] = [(AS_STORED, lambda op, context, operand: ([], operand))]
    rows += [(IN_A_ROW, in_a_row)] if any(turns_in_a_row(operand, context) > 1 for operand in operands) else []
    rows += [(SPREAD, spread_out)] if any(_of_single_values(operand, context) for operand in operands) else []
    if len(rows) == 1:
        return _parts(op, context, operands, wire, wide)
    return chosen(context, cheapest((variant, (Drawing(partial(drawn, change)),)) for variant, change in rows))


def _parts(op: Op, context: Context, operands: tuple[Operand, Operand], wire: Wire, wide: str) -> list[TaskGroup]:
    """The output in parallel parts, each by the units that `wire` puts down, then clipped if need be."""
    target, elements = wide or context.buffer(op.outputs[0]), context.tensor(op.outputs[0]).elements

    def wired(cut: tuple[int, int], epoch: TaskBuilder) -> str:
        return wire(epoch, lambda n: epoch.read(operands[n].buffer, operands[n].reader(*cut)))

    def build(cut: tuple[int, int], epoch: TaskBuilder) -> None:
        stream = passed(epoch, wired(cut, epoch), after)
        epoch.write(stream, target, row(cut[1], cut[0], 2 if wide else 1, write=True))

    whole = TaskBuilder((), "")  # what one part takes
    wired((0, elements), whole)
    after = [] if wide else _clip_units(op, len(whole.units), context.facts.target.trust)
    ariths = len(whole.units) + sum(unit.KIND == "ARITH" for unit in after)
    ways = min(UNITS["ARITH"] // ariths, MOST_READERS // len(whole.engines), MAX_CHAINS)
    block = max(operand.repeats.block for operand in operands)

    cuts = parts(elements, ways, block)
    wirings = [Wiring(partial(build, cut), cost=cut[1]) for cut in cuts]
    same_places = not wide and all(operand.repeats.plain and operand.element_bytes == 1 for operand in operands)
    return pack(wirings, origin_of(op), op.kind, flow=EACH_ELEMENT if same_places else None)


def _clip_units(op: Op, ariths: int, trust: Trust) -> list[UnitConfig]:
    """Behind three ARITH units only an ACTIV was seen, and at most limits no ARITH that clips."""
    low, high = op.attrs.get("clip", FULL_RANGE)
    if (low, high) == FULL_RANGE:
        return []
    clip = int(low), int(high)
    if ariths < 3 and not untrusted_unit(clip_unit(*clip), "", trust):
        return [clip_unit(*clip)]
    return [fitted(np.clip(np.arange(-128, 128), *clip), trust).config]
