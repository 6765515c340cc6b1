"""Operators that move values: copies in nested loops, picks by tables, gathers by data."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product

import numpy as np

from atonc.compiler.emit.c.calls import ConstantTable, CpuCall
from atonc.compiler.emit.c.cpu.site import (
    Site,
    around,
    kernel_for,
    limited,
    merged,
    packed,
    size_bytes,
    stored_type,
    table,
)
from atonc.compiler.emit.c.cpu.windows import split_shape, two_axes
from atonc.compiler.ir import Array, Tensor
from atonc.compiler.lower.sizes import item_bytes
from atonc.compiler.ops import evaluate
from atonc.compiler.ops.movement import border, nearest_index, source_positions
from atonc.compiler.ops.values import same_codes
from atonc.machine.base.frozen import dataclass

BYTES = ("int8", "uint8")


def change(site: Site, source: Tensor, target: Tensor) -> ConstantTable | int:
    """The table that turns codes of the source into those of the target; 0 where they are the same."""
    if same_codes(source, target) and source.dtype == target.dtype and "clip" not in site.attrs:
        return 0
    if source.dtype not in BYTES or target.dtype not in BYTES:
        raise site.refuse(f"from {source.dtype} to {target.dtype} with another scale while values move")
    small = {
        "from": replace(source, name="from", shape=(256,), data=None),
        "to": replace(target, name="to", shape=(256,)),
    }
    codes = np.arange(256, dtype=np.uint8).view(source.dtype)
    op = replace(site.op, kind="identity", inputs=("from",), outputs=("to",))
    result = evaluate(replace(site.graph, tensors=small), op, [codes])[0].codes
    return table("uint8_t", result.view(np.uint8))


@dataclass(frozen=True)
class View:
    """Part of a tensor: its shape and steps in bytes, from a first byte on."""

    shape: tuple[int, ...]
    steps: tuple[int, ...]
    first: int = 0

    @staticmethod
    def of(tensor: Tensor, shape: Sequence[int] | None = None) -> View:
        shape = tuple(tensor.shape if shape is None else shape)
        return View(shape, tuple(step * item_bytes(tensor) for step in packed(shape)))

    def cut(self, axis: int, start: int, count: int, step: int = 1) -> View:
        shape, steps = list(self.shape), list(self.steps)
        first = self.first + start * steps[axis]
        shape[axis], steps[axis] = count, steps[axis] * step
        return View(tuple(shape), tuple(steps), first)

    def permuted(self, order: Sequence[int]) -> View:
        return View(tuple(self.shape[k] for k in order), tuple(self.steps[k] for k in order), self.first)

    def without(self, axis: int) -> View:
        return View(self.shape[:axis] + self.shape[axis + 1 :], self.steps[:axis] + self.steps[axis + 1 :], self.first)


def moved(site: Site, source: Tensor, target: Tensor, view_in: View, view_out: View) -> tuple[CpuCall, ...]:
    if 0 in view_out.shape:
        return ()
    item = item_bytes(target)
    codes = change(site, source, target)
    loops = merged(view_out.shape, view_out.steps, view_in.steps)
    run = item
    if loops and loops[-1][1:] == (item, item):
        run *= loops.pop()[0]
    return site.call(
        "atonc_move",
        site.target(target, "uint8_t", view_out.first),
        site.source(source, "uint8_t", view_in.first) if source.data is None else _from_start(site, source, view_in),
        run,
        *limited(site, loops, 2),
        codes,
    )


def _from_start(site: Site, source: Tensor, view: View) -> ConstantTable:
    """A constant in the order in which the view reads it needs no offset: a table has no address to count from."""
    if view.first:
        raise site.refuse("part of a constant")
    found = site.source(source, "uint8_t")
    assert isinstance(found, ConstantTable)
    return found


@kernel_for("reshape", "squeeze", "expand_dims", "flatten")
def reshape(site: Site) -> tuple[CpuCall, ...]:
    source, target = site.input(), site.output()
    if change(site, source, target) == 0:
        inputs = (site.source(source, "uint8_t"), size_bytes(target))
        return site.call("atonc_copy", site.target(target, "uint8_t"), *inputs)
    return moved(site, source, target, View.of(source, target.shape), View.of(target))


@kernel_for("transpose")
def transpose(site: Site) -> tuple[CpuCall, ...]:
    source, target = site.input(), site.output()
    return moved(site, source, target, View.of(source).permuted(site.attrs["perm"]), View.of(target))


def _as_stored(source: Tensor, target: Tensor) -> Tensor:
    """A float constant in the precision of the memory that it goes to."""
    if source.data is None or not (source.is_float and target.is_float):
        return source
    return replace(source, dtype=target.dtype, data=source.data.astype(target.dtype))


@kernel_for("concat", "pack")
def concat(site: Site) -> tuple[CpuCall, ...]:
    target = site.output()
    axis, start = site.attrs["axis"] % len(target.shape), 0
    calls: list[CpuCall] = []
    for index in range(len(site.op.inputs)):
        source = _as_stored(site.input(index), target)
        size = 1 if site.op.kind == "pack" else source.shape[axis]
        part = View.of(target).cut(axis, start, size)
        calls += moved(site, source, target, View.of(source, part.shape), part)
        start += size
    return tuple(calls)


@kernel_for("split", "unpack")
def split(site: Site) -> tuple[CpuCall, ...]:
    source = site.input()
    axis, start = site.attrs["axis"] % len(source.shape), 0
    calls: list[CpuCall] = []
    for index in range(len(site.op.outputs)):
        target = site.output(index)
        size = 1 if site.op.kind == "unpack" else target.shape[axis]
        part = View.of(source).cut(axis, start, size)
        calls += moved(site, source, target, part, View.of(target, part.shape))
        start += size
    return tuple(calls)


@kernel_for("slice")
def slice_values(site: Site) -> tuple[CpuCall, ...]:
    source, target, attrs = site.input(), site.output(), site.attrs
    view = View.of(source)
    for axis, part in enumerate(zip(attrs["starts"], attrs["stops"], attrs["steps"], strict=True)):
        start, stop, step = slice(*part).indices(source.shape[axis])
        view = view.cut(axis, start, len(range(start, stop, step)), step)
    return moved(site, source, target, view, View.of(target, view.shape))


@kernel_for("reverse")
def reverse(site: Site) -> tuple[CpuCall, ...]:
    source, target = site.input(), site.output()
    view = View.of(source)
    for axis in site.attrs["axes"]:
        axis %= len(source.shape)
        view = view.cut(axis, source.shape[axis] - 1, source.shape[axis], -1)
    return moved(site, source, target, view, View.of(target))


@kernel_for("tile", "expand")
def tile(site: Site) -> tuple[CpuCall, ...]:
    """Repetitions are loops that do not step through the input."""
    source, target = site.input(), site.output()
    shape = (1,) * (len(target.shape) - len(source.shape)) + source.shape
    steps = View.of(source, shape).steps
    doubled = [part for size, full in zip(shape, target.shape, strict=True) for part in (full // max(1, size), size)]
    view_in = View(tuple(doubled), tuple(part for step in steps for part in (0, step)))
    return moved(site, source, target, view_in, View.of(target, doubled))


# --- blocks --------------------------------------------------------------------------------------------------------


@kernel_for("space_to_depth")
def space_to_depth(site: Site) -> tuple[CpuCall, ...]:
    block, source = site.attrs["block"], site.input()
    fastest = site.attrs.get("order", "DCR") == "CRD"  # blocks in the channels
    if site.attrs["layout"] == "NCHW":
        n, c, h, w = source.shape
        view = View.of(source, (n, c, h // block, block, w // block, block))
        view = view.permuted((0, 1, 3, 5, 2, 4) if fastest else (0, 3, 5, 1, 2, 4))
    else:
        n, h, w, c = source.shape
        view = View.of(source, (n, h // block, block, w // block, block, c))
        view = view.permuted((0, 1, 3, 5, 2, 4) if fastest else (0, 1, 3, 2, 4, 5))
    return moved(site, source, site.output(), view, View.of(site.output(), view.shape))


@kernel_for("depth_to_space")
def depth_to_space(site: Site) -> tuple[CpuCall, ...]:
    block, source = site.attrs["block"], site.input()
    fastest, last = site.attrs.get("order", "DCR") == "CRD", site.attrs["layout"] == "NHWC"
    n, h, w, c = source.shape if last else (source.shape[0], *source.shape[2:], source.shape[1])
    deep = (c // block**2, block, block) if fastest else (block, block, c // block**2)
    view = View.of(source, (n, h, w, *deep) if last else (n, *deep, h, w))
    if last:
        view = view.permuted((0, 1, 4, 2, 5, 3) if fastest else (0, 1, 3, 2, 4, 5))
    else:
        view = view.permuted((0, 1, 4, 2, 5, 3) if fastest else (0, 3, 4, 1, 5, 2))
    return moved(site, source, site.output(), view, View.of(site.output(), view.shape))


def _blocks(blocks: Sequence[int], batch: int) -> Iterator[tuple[int, tuple[int, ...]]]:
    """First batch of every position inside a block, and that position."""
    for number, place in enumerate(product(*map(range, blocks))):
        yield number * batch, place


def _met(place: int, before: int, block: int, size: int, count: int) -> tuple[int, int, int]:
    """Block positions k < count with 0 <= k * block + place - before < size: the first one, how many, where it is."""
    first = max(0, -((place - before) // block))
    last = min(count, (size - 1 - place + before) // block + 1)
    return first, max(0, last - first), first * block + place - before


@kernel_for("space_to_batch")
def space_to_batch(site: Site) -> tuple[CpuCall, ...]:
    source, target = site.input(), site.output()
    calls = list(_filled(site, target))
    for start, places in _blocks(site.attrs["blocks"], source.shape[0]):
        view_in, view_out = View.of(source), View.of(target).cut(0, start, source.shape[0])
        for axis, (place, block, (before, _)) in enumerate(
            zip(places, site.attrs["blocks"], site.attrs["pads"], strict=True), start=1
        ):
            first, count, position = _met(place, before, block, source.shape[axis], target.shape[axis])
            view_in = view_in.cut(axis, position, count, block)
            view_out = view_out.cut(axis, first, count)
        calls += moved(site, source, target, view_in, view_out)
    return tuple(calls)


@kernel_for("batch_to_space")
def batch_to_space(site: Site) -> tuple[CpuCall, ...]:
    source, target = site.input(), site.output()
    calls: list[CpuCall] = []
    for start, places in _blocks(site.attrs["blocks"], target.shape[0]):
        view_in, view_out = View.of(source).cut(0, start, target.shape[0]), View.of(target)
        for axis, (place, block, (before, _)) in enumerate(
            zip(places, site.attrs["blocks"], site.attrs["crops"], strict=True), start=1
        ):
            first, count, position = _met(place, before, block, target.shape[axis], source.shape[axis])
            view_in = view_in.cut(axis, first, count)
            view_out = view_out.cut(axis, position, count, block)
        calls += moved(site, source, target, view_in, view_out)
    return tuple(calls)


# --- padding -------------------------------------------------------------------------------------------------------


@kernel_for("pad")
def pad(site: Site) -> tuple[CpuCall, ...]:
    source, target, pads = site.input(), site.output(), site.attrs["pads"]
    mode = site.attrs.get("mode", "constant")
    if mode != "constant":
        return _reflected(site, source, target, pads, mode)
    view_in, view_out = View.of(source), View.of(target)
    for axis, (before, after) in enumerate(pads):
        kept = source.shape[axis] + min(0, before) + min(0, after)
        view_in = view_in.cut(axis, max(0, -before), kept)
        view_out = view_out.cut(axis, max(0, before), kept)
    return (*_filled(site, target), *moved(site, source, target, view_in, view_out))


def _filled(site: Site, target: Tensor) -> tuple[CpuCall, ...]:
    site.scale_zero(target)  # one for all channels
    code = border(site.attrs.get("value", 0.0), target)
    if site.clip:
        code = min(max(code, site.clip[0]), site.clip[1])
    item = np.asarray(code).astype(stored_type(target)).reshape(1).view(np.uint8)
    return site.call("atonc_fill", site.target(target, "uint8_t"), table("uint8_t", item), item.size, target.elements)


def _reflected(
    site: Site, source: Tensor, target: Tensor, pads: Sequence[Sequence[int]], mode: str
) -> tuple[CpuCall, ...]:
    axes = [axis for axis, both in enumerate(pads) if any(both)]
    indices = {axis: np.pad(np.arange(source.shape[axis]), tuple(pads[axis]), mode=mode) for axis in axes}  # type: ignore[call-overload]
    return taken(site, source, target, indices)


def taken(site: Site, source: Tensor, target: Tensor, indices: dict[int, Array]) -> tuple[CpuCall, ...]:
    """Picks along one or two axes."""
    if change(site, source, target) != 0:
        raise site.refuse("another number format while values move")
    a, b = two_axes(site, sorted(indices) or [0])
    outer, a_in, middle, b_in, inner = split_shape(source.shape, a, b)
    a_index = indices.get(a, np.arange(a_in))
    b_index = indices.get(b, np.arange(b_in))
    return site.call(
        "atonc_take",
        site.target(target, "uint8_t"),
        site.source(source, "uint8_t"),
        *(outer, a_in, a_index.size, middle, b_in, b_index.size, inner * item_bytes(target)),
        table("int32_t", a_index.astype(np.int64)),
        table("int32_t", b_index.astype(np.int64)),
    )


@kernel_for("resize_nearest")
def resize_nearest(site: Site) -> tuple[CpuCall, ...]:
    source, target, scales = site.input(), site.output(), site.attrs.get("scales")
    indices: dict[int, Array] = {}
    for axis, (size_in, size_out) in enumerate(zip(source.shape, target.shape, strict=True)):
        if size_in == size_out and not (scales and scales[axis] != 1.0):
            continue
        scale = float(scales[axis]) if scales else size_out / size_in
        positions = source_positions(size_in, size_out, scale, site.attrs["coordinates"])
        indices[axis] = np.clip(nearest_index(positions, site.attrs["rounding"]), 0, size_in - 1).astype(np.int64)
    return taken(site, source, target, indices)


# --- positions that are data ---------------------------------------------------------------------------------------


@kernel_for("gather")
def gather(site: Site) -> tuple[CpuCall, ...]:
    source, indices, target = site.input(0), site.input(1), site.output()
    if change(site, source, target) != 0:
        raise site.refuse("another number format while values move")
    outer, size, inner = around(source.shape, site.attrs["axis"])
    return site.call(
        "atonc_gather",
        site.target(target, "uint8_t"),
        site.source(source, "uint8_t"),
        *(outer, size, inner * item_bytes(target)),
        site.source(indices),
        site.type_of(indices),
        indices.elements,
    )


@kernel_for("gather_nd")
def gather_nd(site: Site) -> tuple[CpuCall, ...]:
    source, indices, target = site.input(0), site.input(1), site.output()
    if change(site, source, target) != 0:
        raise site.refuse("another number format while values move")
    depth = indices.shape[-1]
    view = View.of(source)
    axes = [number for row in zip(view.shape[:depth], view.steps[:depth], strict=True) for number in row]
    return site.call(
        "atonc_gather_nd",
        site.target(target, "uint8_t"),
        site.source(source, "uint8_t"),
        math.prod(source.shape[depth:]) * item_bytes(target),
        site.source(indices),
        site.type_of(indices),
        indices.elements // max(1, depth),
        depth,
        table("int32_t", axes),
    )


@kernel_for("shape", "fill")
def constant(site: Site) -> tuple[CpuCall, ...]:
    """Outputs that are known before the network runs."""
    source, target = site.input(), site.output()
    if site.op.kind == "fill" and source.data is None:
        raise site.refuse("a value that is computed by the network")
    value = np.zeros(source.shape, np.int8) if source.data is None else source.data
    rest = [site.graph.tensors[name].data for name in site.op.inputs[1:]]
    codes = evaluate(site.graph, site.op, [value, *rest])[0].codes.astype(stored_type(target))
    data = np.ascontiguousarray(codes).reshape(-1).view(np.uint8)
    return site.call("atonc_copy", site.target(target, "uint8_t"), table("uint8_t", data), data.size)
