"""`NAME_front_end.c` and `.h` of a front end of pictures: pieces of `machine/runtime/pictures` with their numbers."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numpy as np

from atonc.compiler.emit.c.names import macro
from atonc.delivery.front_end.c_text import C_TYPES, values_text
from atonc.delivery.front_end.picture import PicturePipeline
from atonc.delivery.front_end.picture_twin import YUV, Axis, PictureTables, code_table, picture_tables
from atonc.delivery.front_end.tables import Array
from atonc.machine.base.about import __version__, package_folder
from atonc.machine.base.templates import render

_KINDS = {**C_TYPES, "uint16": "uint16_t", "int32": "int32_t"}


def files(p: PicturePipeline, name: str, planes: bool = False) -> dict[str, bytes]:
    """File name -> contents. `planes`: the input has one colour after the other."""
    t = _tables(p)
    words = {
        "name": name, "prefix": macro(name), "sense": _sense(p), "tool": f"atonc {__version__}",
        "format": p.picture.format, "frame_width": p.picture.width, "frame_height": p.picture.height,
        "stride": p.row_bytes, "width": p.resize.width, "height": p.resize.height, "colours": p.channels,
        "order": p.colour.order, "type": C_TYPES[p.codes.type], "between": f"{t.row_type}_t", "lines": t.y.taps,
        "line": t.x.count * p.rows, "axes": "colour, row, column" if planes else "row, column, colour",
        "reals": f"real = (code - {p.codes.zero_point}) * {p.codes.scale!r}",
    }  # fmt: skip
    source = {
        "numbers": [{"key": key, "value": value} for key, value in _numbers(p, t, planes)],
        "constants": [
            {"key": key, "kind": _KINDS[str(a.dtype)], "values": values_text(a)} for key, a in _constants(p, t)
        ],
        "parts": "\n".join(_part(part) for part in parts_of(p)).rstrip(),
    }
    return {
        f"{name}_front_end.h": render("front_end/picture.h", words).encode(),
        f"{name}_front_end.c": render("front_end/picture.c", {**words, **source}).encode(),
    }


def _tables(p: PicturePipeline) -> PictureTables:
    return picture_tables(p, p.size)


def state_bytes(p: PicturePipeline) -> int:
    """RAM: what `NAME_front_end_state` takes."""
    t = _tables(p)
    return t.y.taps * t.x.count * p.rows * np.dtype(t.row_type).itemsize


def constant_bytes(p: PicturePipeline) -> int:
    """Flash: the tables, without the code."""
    return sum(one.nbytes for _, one in _constants(p, _tables(p)))


def _sense(p: PicturePipeline) -> str:
    w, h = p.size
    return f"front end {p.name}: frames of {w} x {h} {p.picture.format} to {p.said}"


@cache
def _part(name: str) -> str:
    return package_folder().joinpath("machine", "runtime", "pictures", name).read_text(encoding="utf-8")


def parts_of(p: PicturePipeline) -> list[str]:
    name = p.picture.format
    if name == "grey8":
        pixels = ["grey8.h"]
    elif p.rows == 1:
        pixels = [f"{name}.h", "yuyv_grey.h" if name == "yuyv" else "grey.h"]
    else:
        pixels = [f"{name}.h", "colours.h"]
    return [*pixels, "picture.c"]


def _numbers(p: PicturePipeline, t: PictureTables, planes: bool) -> Iterator[tuple[str, str]]:
    width, height, pixels = p.resize.width, p.resize.height, p.resize.width * p.resize.height
    found = {
        "FE_WIDTH": width, "FE_HEIGHT": height, "FE_COLOURS": p.channels, "FE_CHANNELS": p.rows,
        "FE_STRIDE": p.row_bytes, "FE_INNER_WIDTH": t.x.count, "FE_INNER_HEIGHT": t.y.count,
        "FE_LEFT": t.x.first, "FE_TOP": t.y.first, "FE_X_TAPS": t.x.taps, "FE_Y_TAPS": t.y.taps,
        "FE_X_SHIFT": t.shifts[0], "FE_Y_SHIFT": t.shifts[1], "FE_STEP": 1 if planes else p.channels,
        "FE_PLANE": pixels if planes else 1, "FE_PADDED": int(t.x.count * t.y.count < pixels), "FE_PAD": p.resize.pad,
    }  # fmt: skip
    yield from ((key, f"{value}u" if key not in _SIGNED else str(value)) for key, value in found.items())
    yield "FE_TABLE(c)", "(256u * (c))" if len(_codes(p)) > 1 else "0u"
    yield "FE_FROM(c)", "0u" if p.rows == 1 else "(2u - (c))" if p.colour.order == "bgr" else "(c)"
    if p.picture.format == "yuyv":
        keys = ("BLACK", "LIGHT", "U_BLUE", "U_GREEN", "V_GREEN", "V_RED")
        yield from ((f"FE_{key}", f"({value})") for key, value in zip(keys, YUV[p.picture.range], strict=True))


_SIGNED = ("FE_X_SHIFT", "FE_Y_SHIFT")


def _codes(p: PicturePipeline) -> Array:
    """One table for all colours where they are the same."""
    table = code_table(p)
    return table[:1] if (table == table[0]).all() else table


def _constants(p: PicturePipeline, t: PictureTables) -> Iterator[tuple[str, Array]]:
    for name, axis in (("x", t.x), ("y", t.y)):
        yield f"fe_{name}_starts", axis.starts.astype(np.uint16)
        if axis.taps > 1:
            yield f"fe_{name}_weights", _narrow(axis)
    yield "fe_codes", _codes(p)


def _narrow(axis: Axis) -> Array:
    return axis.weights.astype(np.int16 if axis.weights.max() < 1 << 15 else np.int32)
