"""Operators that move values: pairs of views for the copies, an alias where nothing moves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from typing import Any, cast

import numpy as np

from atonc.compiler.ir import Array, Op, Tensor
from atonc.compiler.lower.context import Context, item_bytes
from atonc.compiler.lower.move.copies import (
    CopyWalk,
    Move,
    NestedMove,
    Pads,
    Units,
    WalkJudge,
    borders,
    constant_move,
    copy,
    inside,
    pad_view,
    requantising_line,
    wirings,
)
from atonc.compiler.lower.registry import Refusal, recipe, recipe_for
from atonc.compiler.lower.units.arith import affine_unit, clip_unit
from atonc.compiler.lower.units.views import StridedView
from atonc.compiler.lower.units.wiring import Wiring, pack, placed_recipe
from atonc.compiler.ops.movement import border
from atonc.compiler.ops.values import to_codes
from atonc.compiler.plan.aliases import root
from atonc.compiler.plan.task import TaskGroup
from atonc.compiler.plan.types import Buffer, BufferKind
from atonc.compiler.select.enumerate import attempt
from atonc.compiler.select.form import RefusedForm
from atonc.compiler.select.rules import CPU_GATHER, LAYOUT, MOVE_CONSTANT, MOVE_TYPES, NO_EVIDENCE, PAD_TYPE
from atonc.machine.hw.safety.evidence.epochs import ONE_CHAIN, of_copy, reader_and_writer, relation


def view_of(context: Context, name: str, shape: tuple[int, ...] | None = None) -> StridedView:
    tensor = context.tensor(name)
    return StridedView.whole(context.buffer(name), tensor.shape if shape is None else shape, item_bytes(tensor))


def change_between(op: Op, source: Tensor, target: Tensor) -> Units:
    """From one tensor's codes to another's: requantisation and the clip of a fused activation, where needed."""
    clip = (clip_unit(*op.attrs["clip"]),) if "clip" in op.attrs else ()
    if source.quant is None or source.quant.same_as(target.quant):
        if source.dtype != target.dtype or (source.quant is None) != (target.quant is None):
            raise Refusal(MOVE_TYPES, f"{source.dtype} to {target.dtype}", "equal types", "add a conversion")
        return clip
    if source.dtype != "int8" or target.dtype != "int8" or target.quant is None:
        raise Refusal(MOVE_TYPES, f"{source.dtype} to {target.dtype}", "int8 to int8", "quantise both to int8")
    return (affine_unit(requantising_line(source, target), 0), *clip)


def _moved(op: Op, context: Context, pairs: list[tuple[StridedView, StridedView]]) -> list[TaskGroup]:
    """Copies from the first input to the first output."""
    change = change_between(op, context.tensor(op.inputs[0]), context.tensor(op.outputs[0]))
    return copy(context, [Move(a, b, change) for a, b in pairs], op.origin, f"{op.kind} {op.name}")


@placed_recipe("reshape", "squeeze", "expand_dims", "flatten", "identity")
def lower_reshape(op: Op, context: Context) -> list[TaskGroup]:
    """Memory holds the flat order, so the shape may change without a move."""
    source, target = context.tensor(op.inputs[0]), context.tensor(op.outputs[0])
    if source.is_constant:
        codes, whole = _constant_codes(source, target), view_of(context, op.outputs[0])
        return pack(constant_move(context, codes, whole, f"{op.name} constant"), op.origin, f"{op.kind} {op.name}")
    change = change_between(op, source, target)
    if not change and not op.attrs.get("copy") and context.may_share(op.outputs[0], op.inputs[0]):
        context.alias(op.outputs[0], op.inputs[0])
        return []
    return _moved(op, context, [(view_of(context, op.inputs[0], target.shape), view_of(context, op.outputs[0]))])


def _pieces(op: Op, whole: StridedView, rank: int, tensors: Iterable[Tensor]) -> Iterator[StridedView]:
    """Where tensors lie in the one that holds them all along an axis; packed ones are an index of it each."""
    axis, start = op.attrs["axis"] % rank, 0
    for tensor in tensors:
        size = 1 if op.kind in ("pack", "unpack") else tensor.shape[axis]
        yield whole.pick(axis, start) if op.kind in ("pack", "unpack") else whole.cut(axis, start, size)
        start += size


@placed_recipe("concat", "pack")
def lower_concat(op: Op, context: Context) -> list[TaskGroup]:
    target, sources = context.tensor(op.outputs[0]), [context.tensor(name) for name in op.inputs]
    for move in context.graph.consumers.get(op.outputs[0], ()):
        if move.attrs.get("in_place") and _may_move_down(move, context):
            context.alias(op.outputs[0], op.inputs[0])
            _take_frame(op, context)
    owner = root(op.outputs[0], context.aliases)
    there = {name for name in (op.inputs[0], *op.inputs[-1:]) if root(name, context.aliases) == owner}
    moves: list[Move] = []
    fixed: list[Wiring] = []
    pieces = _pieces(op, view_of(context, op.outputs[0]), len(target.shape), sources)
    for source, part in zip(sources, pieces, strict=True):
        if source.is_constant:
            fixed += constant_move(context, _constant_codes(source, target), part, f"{op.name} constant")
        elif source.name not in there:
            moves.append(Move(view_of(context, source.name), part, change_between(op, source, target)))
    if not fixed:
        return copy(context, moves, op.origin, f"{op.kind} {op.name}", joins=True) if moves else []
    return pack([*wirings(context, moves), *fixed], op.origin, f"{op.kind} {op.name}")


def _take_frame(join: Op, context: Context) -> None:
    """The application writes its frame where the window has it. Lines of the CPU cache with a frame hold nothing else:
    what is in front of it in memory may be newer than in the cache."""
    (window, state), (frame, lead) = (join.outputs[0], join.inputs[0]), join.attrs.get("frame", ("", 0))
    if not frame or frame in context.facts.user_allocated:
        return
    size, before = context.tensor(window).elements, context.tensor(state).elements
    memory = Buffer(f"{state} and {frame}", lead + size, BufferKind.STATE)
    context.share_parts(memory, {state: lead, frame: lead + before})


def _constant_codes(source: Tensor, target: Tensor) -> Array:
    if source.data is None or target.dtype != "int8":
        raise Refusal(MOVE_CONSTANT, f"{source.name} of type {target.dtype}", "int8", "fold the constant")
    if source.quant is None or source.quant.same_as(target.quant):
        return source.data.astype(np.int8)
    return to_codes((source.data.astype(np.float64) - source.zero_point) * source.scale / target.scale, target)


def _may_move_down(move: Op, context: Context) -> bool:
    """Whether a window may be kept whole: one copy moves its rows down to where the next state is. A join on the CPU
    wants its operands beside its result."""
    (*rest, found), trust, port = _down(move, context), context.facts.target.trust, "to STRENG:0"
    how = of_copy(found.reader, found.writer, relation(found.reader, found.writer), port)
    allowed = trust.allows(trust.grade(reader_and_writer(how, ONE_CHAIN, port)))
    readers = (reader.name for reader in context.graph.consumers.get(move.outputs[0], ()))
    return allowed and not rest and found.in_a_row and context.facts.on_cpu.isdisjoint((move.name, *readers))


def _down(move: Op, context: Context) -> list[CopyWalk]:
    """From where its rows begin; they end with the window."""
    window, state = context.tensor(move.inputs[0]), context.tensor(move.outputs[0])
    rows = [(state.elements, 1, 1)]
    copied = NestedMove(window.name, state.name, window.elements - state.elements, 0, rows, ())
    return copied.walks(WalkJudge(context.facts.target))


@placed_recipe("split", "unpack")
def lower_split(op: Op, context: Context) -> list[TaskGroup]:
    source, targets = context.tensor(op.inputs[0]), [context.tensor(name) for name in op.outputs]
    parts = _pieces(op, view_of(context, op.inputs[0]), len(source.shape), targets)
    moves = [
        Move(part, view_of(context, target.name), change_between(op, source, target))
        for part, target in zip(parts, targets, strict=True)
    ]
    return copy(context, moves, op.origin, f"{op.kind} {op.name}")


@placed_recipe("slice")
def lower_slice(op: Op, context: Context) -> list[TaskGroup]:
    if op.attrs.get("in_place") and op.outputs[0] not in context.aliases and _may_move_down(op, context):
        context.alias(op.outputs[0], op.inputs[0])
    if root(op.inputs[0], context.aliases) == root(op.outputs[0], context.aliases):  # a window that is kept whole
        return pack([one.wiring() for one in _down(op, context)], op.origin, f"{op.kind} {op.name}")
    part = view_of(context, op.inputs[0])
    shape = context.tensor(op.inputs[0]).shape
    for axis, bounds in enumerate(zip(op.attrs["starts"], op.attrs["stops"], op.attrs["steps"], strict=True)):
        kept = range(*slice(*bounds).indices(shape[axis]))
        part = part.cut(axis, kept.start, len(kept), kept.step)
    return _moved(op, context, [(part, view_of(context, op.outputs[0], part.shape[: len(shape)]))])


@placed_recipe("transpose")
def lower_transpose(op: Op, context: Context) -> list[TaskGroup]:
    source = view_of(context, op.inputs[0])
    return _moved(op, context, [(source.transpose(tuple(op.attrs["perm"])), view_of(context, op.outputs[0]))])


@placed_recipe("reverse")
def lower_reverse(op: Op, context: Context) -> list[TaskGroup]:
    source = view_of(context, op.inputs[0])
    shape = context.tensor(op.inputs[0]).shape
    for axis in op.attrs["axes"]:
        source = source.cut(axis % len(shape), shape[axis] - 1, shape[axis], -1)
    return _moved(op, context, [(source, view_of(context, op.outputs[0]))])


@placed_recipe("tile", "expand")
def lower_tile(op: Op, context: Context) -> list[TaskGroup]:
    shape, wanted = context.tensor(op.inputs[0]).shape, context.tensor(op.outputs[0]).shape
    padded = (1,) * (len(wanted) - len(shape)) + shape
    source, target = view_of(context, op.inputs[0], padded), view_of(context, op.outputs[0])
    for axis in range(len(wanted) - 1, -1, -1):
        times = wanted[axis] // padded[axis]
        target = target.split(axis, times, padded[axis])
        source = source.repeat(axis, times)
    return _moved(op, context, [(source, target)])


@placed_recipe("gather")
def lower_gather(op: Op, context: Context) -> list[TaskGroup]:
    """Constant indices in runs of even steps become slices."""
    indices = context.tensor(op.inputs[1])
    if indices.data is None:
        raise Refusal(CPU_GATHER, "indices that are computed", "constant indices", "the CPU gathers")
    shape = context.tensor(op.inputs[0]).shape
    axis = op.attrs["axis"] % len(shape)
    wanted = (indices.data.reshape(-1).astype(np.int64) % shape[axis]).tolist()
    source = view_of(context, op.inputs[0])
    target = view_of(context, op.outputs[0], (*shape[:axis], len(wanted), *shape[axis + 1 :]))
    pairs = [
        (source.cut(axis, wanted[at], count, step), target.cut(axis, at, count)) for at, count, step in runs(wanted)
    ]
    return _moved(op, context, pairs)


def runs(indices: list[int]) -> Iterator[tuple[int, int, int]]:
    """(position, count, step) of stretches that step evenly."""
    at = 0
    while at < len(indices):
        step = indices[at + 1] - indices[at] if at + 1 < len(indices) else 1
        count = 1
        while at + count < len(indices) and indices[at + count] - indices[at + count - 1] == step:
            count += 1
        yield at, count, step
        at += count


@placed_recipe("space_to_depth", "depth_to_space")
def lower_blocks(op: Op, context: Context) -> list[TaskGroup]:
    """Blocks of pixels become channels, or the other way round."""
    if op.attrs.get("layout", "NHWC") != "NHWC":
        raise Refusal(LAYOUT, f"{op.kind} with channels first", "channel last", "let the passes transpose it")
    deeper = op.kind == "space_to_depth"
    flat, deep = (op.inputs[0], op.outputs[0]) if deeper else (op.outputs[0], op.inputs[0])
    block, (n, h, w, c) = op.attrs["block"], context.tensor(flat).shape
    inner, order = (block, block, c), (0, 1, 3, 2, 4, 5)
    if op.attrs.get("order", "DCR") == "CRD":
        inner, order = (c, block, block), (0, 1, 3, 5, 2, 4)
    pixels = view_of(context, flat).split(2, w // block, block).split(1, h // block, block).transpose(order)
    channels = view_of(context, deep, (n, h // block, w // block, *inner))
    return _moved(op, context, [(pixels, channels) if deeper else (channels, pixels)])


def _blocks(
    op: Op, margins: Sequence[tuple[int, int]], small: Tensor, large: Tensor
) -> Iterator[list[tuple[int, int, int]]]:
    """For every place in a block, along each axis: the first pixel of the small picture that is one of the large one,
    how many are, and the first pixel there; `margins` surround the large one."""
    blocks = op.attrs["blocks"]
    for place in product(*(range(b) for b in blocks)):
        found = []
        for axis, (at, block, (before, _)) in enumerate(zip(place, blocks, margins, strict=True), 1):
            first = max(0, -(-(before - at) // block))
            start = first * block + at - before
            count = max(0, min(small.shape[axis] - first, -(-(large.shape[axis] - start) // block)))
            found.append((first, count, start))
        yield found


@placed_recipe("batch_to_space")
def lower_batch_to_space(op: Op, context: Context) -> list[TaskGroup]:
    """For every place in a block, one batch goes to every block-th pixel."""
    small, large = context.tensor(op.inputs[0]), context.tensor(op.outputs[0])
    source, target, batches = view_of(context, small.name), view_of(context, large.name), large.shape[0]
    pairs = []
    for number, places in enumerate(_blocks(op, op.attrs["crops"], small, large)):
        part = _inside(source.cut(0, number * batches, batches), [place[:2] for place in places])
        whole = target
        for axis, (_, count, start) in enumerate(places, 1):
            whole = whole.cut(axis, start, count, op.attrs["blocks"][axis - 1])
        if min(part.shape) > 0:
            pairs.append((part, whole))
    return _moved(op, context, pairs)


@placed_recipe("space_to_batch")
def lower_space_to_batch(op: Op, context: Context) -> list[TaskGroup]:
    """For every place in a block, every block-th pixel goes to one batch; padding is filled first."""
    large, small = context.tensor(op.inputs[0]), context.tensor(op.outputs[0])
    whole, result = view_of(context, large.name), view_of(context, small.name)
    change, batches = change_between(op, large, small), large.shape[0]
    moves: list[Move] = []
    fills: list[StridedView] = []
    for number, places in enumerate(_blocks(op, op.attrs["pads"], small, large)):
        part, goal = whole, result.cut(0, number * batches, batches)
        for axis, (_, count, start) in enumerate(places, 1):
            part = part.cut(axis, start, count, op.attrs["blocks"][axis - 1])
        inside = [place[:2] for place in places]
        moves += [Move(part, _inside(goal, inside), change)] if min(part.shape) > 0 else []
        fills += _around(goal, inside)
    filled = pad_view(context, fills, small.zero_point, large.name, large.elements) if fills else []
    return pack([*wirings(context, moves), *filled], op.origin, f"{op.kind} {op.name}")


def _inside(goal: StridedView, inside: list[tuple[int, int]]) -> StridedView:
    for axis, (first, count) in enumerate(inside, 1):
        goal = goal.cut(axis, first, count)
    return goal


def _around(goal: StridedView, inside: list[tuple[int, int]]) -> Iterator[StridedView]:
    """The rest of a view, in pieces that do not overlap."""
    for axis, (first, count) in enumerate(inside, 1):
        after = goal.shape[axis] - first - count
        if first:
            yield goal.cut(axis, 0, first)
        if after > 0:
            yield goal.cut(axis, first + count, after)
        if count < 1:
            return
        goal = goal.cut(axis, first, count)


@placed_recipe("pad")
def lower_pad(op: Op, context: Context) -> list[TaskGroup]:
    """The inside is copied; constant borders are filled beside it, others copied from it axis by axis."""
    source, target = context.tensor(op.inputs[0]), context.tensor(op.outputs[0])
    change = change_between(op, source, target)
    inner, pads = _cropped(view_of(context, op.inputs[0]), op.attrs["pads"])
    whole, mode = view_of(context, op.outputs[0]), op.attrs.get("mode", "constant")
    title = f"{op.kind} {op.name}"
    if mode == "constant":
        code = int(border(op.attrs.get("value", 0.0), target)) if target.quant is not None else 0
        if target.dtype != "int8" and not (target.dtype == "int16" and code == 0):  # all of its bytes are 0 then
            seen = f"constant borders of {target.dtype}"
            raise Refusal(PAD_TYPE, seen, "int8, or zeros of int16", "pad after the quantisation")
        around = pad_view(context, borders(whole, pads), code, inner.buffer, source.elements)
        moves = [Move(inner, inside(whole, pads), change)]
        return pack([*wirings(context, moves), *around], op.origin, title)
    steps = _mirrored(inner, whole, pads, mode, change)
    form = attempt(context, lambda draft: [g for moves in steps for g in copy(draft, moves, op.origin, title)])
    if isinstance(form, RefusedForm) and form.rule == NO_EVIDENCE:
        return copy(context, _from_source(inner, whole, pads, mode, change), op.origin, title)
    return context.take(form)


def _cropped(source: StridedView, pads: Pads) -> tuple[StridedView, Pads]:
    """Negative padding cuts off."""
    for axis, (before, after) in enumerate(pads):
        first, last = max(0, -before), max(0, -after)
        source = source.cut(axis, first, source.shape[axis] - first - last)
    return source, tuple((max(0, a), max(0, b)) for a, b in pads)


def _mirrored(inner: StridedView, whole: StridedView, pads: Pads, mode: str, change: Units) -> Iterator[list[Move]]:
    """Axis by axis: the first borders from the source, others from the result, where the axes before are complete."""
    moves = [Move(inner, inside(whole, pads), change)]
    for axis, both in enumerate(pads):
        if not any(both):
            continue
        part = inside(whole, tuple((0, 0) if i <= axis else later for i, later in enumerate(pads)))
        size = part.shape[axis] - sum(both)
        near, units = (inner, change) if moves else (part.cut(axis, both[0], size), ())
        for first, length, start, step in _border_runs(size, both, mode):
            moves.append(Move(near.cut(axis, start, length, step), part.cut(axis, first, length), units))
        yield moves
        moves = []
    if moves:
        yield moves


def _from_source(inner: StridedView, whole: StridedView, pads: Pads, mode: str, change: Units) -> Iterator[Move]:
    """Every piece of the result, corners too, from the source: no chain reads what it writes beside."""
    sizes = zip(inner.shape, pads, strict=False)
    runs_by_axis = [[(both[0], size, 0, 1), *_border_runs(size, both, mode)] for size, both in sizes]
    for place in product(*runs_by_axis):
        near, far = inner, whole
        for axis, (first, length, start, step) in enumerate(place):
            near, far = near.cut(axis, start, length, step), far.cut(axis, first, length)
        yield Move(near, far, change)


def _border_runs(size: int, both: tuple[int, int], mode: str) -> Iterator[tuple[int, int, int, int]]:
    """Lists the border of one axis in runs: place and length in the result, place and step in the source."""
    index = np.pad(np.arange(size), both, mode=cast(Any, mode)).tolist()
    for first, count in ((0, both[0]), (both[0] + size, both[1])):
        for at, length, step in runs(index[first : first + count]):
            yield first + at, length, index[first + at], step


_WIDE_MOVES = (
    "concat", "pack", "split", "unpack", "slice", "transpose", "reverse", "tile", "expand", "gather", "space_to_depth",
    "depth_to_space", "batch_to_space", "space_to_batch", "pad", "resize_nearest",
)  # fmt: skip


@recipe(*_WIDE_MOVES, wide=True)
def lower_wide_move(op: Op, context: Context) -> list[TaskGroup]:
    """Codes of 16 bits: byte by byte, as long as nothing changes on the way."""
    tensors = [context.tensor(name) for name in (*op.inputs, *op.outputs) if name]
    moved = [tensor for tensor in tensors if tensor.dtype == "int16"]
    first = moved[0].quant
    same = all(t.quant is first or (t.quant is not None and t.quant.same_as(first)) for t in moved)
    if not same or "clip" in op.attrs or any(t.is_constant for t in moved):
        seen = f"{op.kind} that changes codes of 16 bits, or takes constants"
        raise Refusal(MOVE_TYPES, seen, "one format on both sides", "give inputs and outputs one scale")
    plain = recipe_for(op.kind)
    assert plain is not None
    return plain(op, context)
