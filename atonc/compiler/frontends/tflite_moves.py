"""TFLite operators that move, reduce or resize: the second half of the translation table."""

from __future__ import annotations

from typing import Any

from atonc.compiler.frontends.tflite_ops import Source, Translated, axis_of, names, translates
from atonc.machine.base.errors import ModelError, UnsupportedError

REDUCTIONS = {"MEAN": "mean", "SUM": "sum", "REDUCE_MAX": "reduce_max", "REDUCE_MIN": "reduce_min",
              "REDUCE_PROD": "reduce_prod"}  # fmt: skip


@translates("RESHAPE", "SQUEEZE", "EXPAND_DIMS")
def reshape(source: Source) -> Translated:
    """The shape of the output tensor says it all."""
    if source.input(0).elements != source.output().elements:
        raise ModelError(f"{source.input(0).shape} cannot become {source.output().shape}", where=source.name)
    return Translated("reshape", [source.input(0).name], {})


@translates("TRANSPOSE")
def transpose(source: Source) -> Translated:
    perm = tuple(source.integers(1, "permutation"))
    if sorted(perm) != list(range(len(source.input(0).shape))):
        raise ModelError(f"{perm} is not a permutation", where=source.name)
    return Translated("transpose", [source.input(0).name], {"perm": perm})


@translates("CONCATENATION")
def concat(source: Source) -> Translated:
    if source.activation(1) != "none":
        raise UnsupportedError("CONCATENATION with a fused activation", where=source.name)
    axis = axis_of(source.options.int32(0), len(source.output().shape), source.name)
    return Translated("concat", names(source.inputs), {"axis": axis})


@translates("PACK")
def pack(source: Source) -> Translated:
    axis = axis_of(source.options.int32(1), len(source.output().shape), source.name)
    return Translated("pack", names(source.inputs), {"axis": axis})


@translates("UNPACK")
def unpack(source: Source) -> Translated:
    axis = axis_of(source.options.int32(1), len(source.input(0).shape), source.name)
    return Translated("unpack", [source.input(0).name], {"axis": axis})


@translates("SPLIT")
def split(source: Source) -> Translated:
    axis = axis_of(source.integers(0, "axis")[0], len(source.input(1).shape), source.name)
    return Translated("split", [source.input(1).name], {"axis": axis})


@translates("SPLIT_V")
def split_v(source: Source) -> Translated:
    """The sizes are an operand; files may give the outputs other shapes."""
    shape = source.input(0).shape
    axis = axis_of(source.integers(2, "axis")[0], len(shape), source.name)
    sizes = source.integers(1, "sizes")
    rest = shape[axis] - sum(size for size in sizes if size != -1)
    sizes = [rest if size == -1 else size for size in sizes]
    if sum(sizes) != shape[axis] or len(sizes) != len(source.outputs) or min(sizes) < 0:
        raise ModelError(f"{shape} cannot be cut into {sizes} along axis {axis}", where=source.name)
    shapes = tuple((*shape[:axis], size, *shape[axis + 1 :]) for size in sizes)
    return Translated("split", [source.input(0).name], {"axis": axis}, shapes)


@translates("PAD", "PADV2", "MIRROR_PAD")
def pad(source: Source) -> Translated:
    flat = source.integers(1, "paddings")
    pads = tuple(zip(flat[::2], flat[1::2], strict=True)) if len(flat) % 2 == 0 else ()
    if len(pads) != len(source.input(0).shape) or min(flat, default=0) < 0:
        raise ModelError(f"{flat} are no paddings for shape {source.input(0).shape}", where=source.name)
    attrs: dict[str, Any] = {"pads": pads, "mode": "constant"}
    if source.code == "MIRROR_PAD":
        attrs["mode"] = "symmetric" if source.options.int8(0) == 1 else "reflect"
    if source.code == "PADV2":
        code, x = float(source.constant(2, "pad value").reshape(-1)[0]), source.input(0)
        value, y = source.input(2).quant, source.output().quant
        if value is not None and y is not None and not value.same_as(y):
            raise UnsupportedError("PADV2 with a value of another scale than its result", where=source.name)
        attrs["value"] = (code - x.zero_point) * x.scale  # the kernel copies the code, whatever scale its input has
    return Translated("pad", [source.input(0).name], attrs)


@translates("SLICE")
def slice_values(source: Source) -> Translated:
    begins, sizes = source.integers(1, "begin"), source.integers(2, "size")
    stops = [None if size == -1 else begin + size for begin, size in zip(begins, sizes, strict=False)]
    return _slice(source, begins, stops, [1] * len(begins))


@translates("STRIDED_SLICE")
def strided_slice(source: Source) -> Translated:
    """Masks are resolved to plain Python slices; new axes are not supported."""
    if any(source.input(i).data is None for i in (1, 2, 3)):
        raise UnsupportedError("STRIDED_SLICE with bounds computed at run time", where=source.name)
    begins, stops, steps = (source.integers(i, "bounds") for i in (1, 2, 3))
    begin_mask, end_mask, shrink = (source.options.int32(i) for i in (0, 1, 4))
    if source.options.int32(2) or source.options.int32(3):
        raise UnsupportedError("STRIDED_SLICE with ellipsis or new axes", where=source.name)
    if source.options.uint8(5):  # ends count from the begins
        stops = [begin + stop for begin, stop in zip(begins, stops, strict=False)]
    resolved: list[int | None] = list(stops)
    starts: list[int | None] = list(begins)
    for i in range(min(len(begins), len(stops), len(steps))):
        starts[i] = None if begin_mask >> i & 1 else begins[i]
        resolved[i] = None if end_mask >> i & 1 else stops[i]
        if shrink >> i & 1:
            first = 0 if begin_mask >> i & 1 else begins[i]
            starts[i], resolved[i], steps[i] = first, first + 1 or None, 1
    return _slice(source, starts, resolved, steps, shrink)


def _slice(source: Source, starts: list[Any], stops: list[Any], steps: list[int], shrink: int = 0) -> Translated:
    """`shrink`: bits of the axes that vanish."""
    shape = source.input(0).shape
    rank = len(shape)
    if not len(starts) == len(stops) == len(steps) <= rank or 0 in steps:
        raise ModelError("slice bounds do not fit the input", where=source.name)
    missing = rank - len(starts)
    attrs = {
        "starts": tuple(starts) + (None,) * missing,
        "stops": tuple(stops) + (None,) * missing,
        "steps": tuple(steps) + (1,) * missing,
    }
    parts = zip(*attrs.values(), shape, strict=True)
    sizes = [len(range(*slice(start, stop, step).indices(size))) for start, stop, step, size in parts]
    if any(shrink >> i & 1 and size != 1 for i, size in enumerate(sizes)):
        raise ModelError(f"index outside {shape}", where=source.name)
    kept = tuple(size for i, size in enumerate(sizes) if not shrink >> i & 1)
    return Translated("slice", [source.input(0).name], attrs, (kept,))


@translates("TILE", "BROADCAST_TO")
def tile(source: Source) -> Translated:
    kind = "tile" if source.code == "TILE" else "expand"
    return Translated(kind, [source.input(0).name], {})


@translates("GATHER")
def gather(source: Source) -> Translated:
    if source.options.int32(1):
        raise UnsupportedError("GATHER with batch dimensions", where=source.name)
    axis = axis_of(source.options.int32(0), len(source.input(0).shape), source.name)
    indices, size = source.input(1).data, source.input(0).shape[axis]
    if indices is not None and indices.size and not 0 <= indices.min() <= indices.max() < size:
        raise UnsupportedError(
            f"GATHER with index {indices.min() if indices.min() < 0 else indices.max()} of {size} values",
            where=source.name,
            rule="TFLite's kernel wants indices from 0 to one below the size",
        )
    return Translated("gather", names(source.inputs[:2]), {"axis": axis})


@translates("REVERSE_V2")
def reverse(source: Source) -> Translated:
    rank = len(source.input(0).shape)
    axes = tuple(axis_of(a, rank, source.name) for a in source.integers(1, "axes"))
    return Translated("reverse", [source.input(0).name], {"axes": axes})


@translates("FILL")
def fill(source: Source) -> Translated:
    return Translated("fill", [source.input(1).name], {})


@translates(*REDUCTIONS)
def reduce(source: Source) -> Translated:
    rank = len(source.input(0).shape)
    axes = tuple(sorted({axis_of(a, rank, source.name) for a in source.integers(1, "axes")}))
    attrs = {"axes": axes, "keepdims": bool(source.options.uint8(0))}
    return Translated(REDUCTIONS[source.code], [source.input(0).name], attrs)


@translates("ARG_MAX", "ARG_MIN")
def arg_extreme(source: Source) -> Translated:
    shape = source.input(0).shape
    axis = axis_of(source.integers(1, "axis")[0], len(shape), source.name)
    found = shape[:axis] + shape[axis + 1 :]  # whatever the file says: TFLite works it out too
    return Translated(source.code.lower(), [source.input(0).name], {"axis": axis}, (found,))


@translates("RESIZE_BILINEAR")
def resize_bilinear(source: Source) -> Translated:
    return Translated("resize_linear", [source.input(0).name], {"coordinates": _coordinates(source, 2)})


@translates("RESIZE_NEAREST_NEIGHBOR")
def resize_nearest(source: Source) -> Translated:
    coordinates = _coordinates(source, 0)
    attrs: dict[str, Any] = {"coordinates": coordinates, "rounding": "floor"}
    if coordinates == "align_corners":
        attrs["rounding"] = "round_prefer_ceil"
    if coordinates == "half_pixel":
        attrs["coordinates"] = "tf_half_pixel_for_nn"
    return Translated("resize_nearest", [source.input(0).name], attrs)


def _coordinates(source: Source, first: int) -> str:
    if source.options.uint8(first):
        return "align_corners"
    return "half_pixel" if source.options.uint8(first + 1) else "asymmetric"


@translates("SPACE_TO_DEPTH", "DEPTH_TO_SPACE")
def space_depth(source: Source) -> Translated:
    block = source.options.int32(0)
    if block < 1:
        raise ModelError(f"block size {block}", where=source.name)
    return Translated(source.code.lower(), [source.input(0).name], {"block": block, "layout": "NHWC"})


@translates("SPACE_TO_BATCH_ND", "BATCH_TO_SPACE_ND")
def space_batch(source: Source) -> Translated:
    blocks, flat = tuple(source.integers(1, "blocks")), source.integers(2, "paddings")
    if min(blocks, default=0) < 1 or len(flat) != 2 * len(blocks) or min(flat) < 0:
        raise ModelError(f"blocks {blocks} with borders {flat}", where=source.name)
    borders = tuple(zip(flat[::2], flat[1::2], strict=True))
    if source.code == "SPACE_TO_BATCH_ND":
        return Translated("space_to_batch", [source.input(0).name], {"blocks": blocks, "pads": borders})
    return Translated("batch_to_space", [source.input(0).name], {"blocks": blocks, "crops": borders})
