"""`NAME_front_end.c` and `.h` of a front end of images: pieces of `machine/runtime/images` with their numbers."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numpy as np

from atonc.compiler.emit.c.names import macro
from atonc.delivery.front_end.c_text import C_TYPES, values_text
from atonc.delivery.front_end.image import ImagePipeline
from atonc.delivery.front_end.image_twin import YUV, ImageTables, TapTable, code_table, image_tables
from atonc.delivery.front_end.tables import Array
from atonc.machine.base.about import __version__, package_folder
from atonc.machine.base.templates import render

_KINDS = {**C_TYPES, "uint16": "uint16_t", "int32": "int32_t"}


def files(p: ImagePipeline, name: str, planes: bool = False) -> dict[str, bytes]:
    """File name -> contents. `planes`: the input has one colour after the other."""
    t = _tables(p)
    words = {
        "name": name, "prefix": macro(name), "sense": _sense(p), "tool": f"atonc {__version__}",
        "format": p.image.format, "frame_width": p.image.width, "frame_height": p.image.height,
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
        f"{name}_front_end.h": render("front_end/image.h", words).encode(),
        f"{name}_front_end.c": render("front_end/image.c", {**words, **source}).encode(),
    }


def _tables(p: ImagePipeline) -> ImageTables:
    return image_tables(p, p.size)


def state_bytes(p: ImagePipeline) -> int:
    """RAM: what `NAME_front_end_state` takes."""
    t = _tables(p)
    return t.y.taps * t.x.count * p.rows * np.dtype(t.row_type).itemsize


def constant_bytes(p: ImagePipeline) -> int:
    """Flash: the tables, without the code."""
    return sum(one.nbytes for _, one in _constants(p, _tables(p)))


def _sense(p: ImagePipeline) -> str:
    w, h = p.size
    return f"front end {p.name}: frames of {w} x {h} {p.image.format} to {p.said}"


@cache
def _part(name: str) -> str:
    return package_folder().joinpath("machine", "runtime", "images", name).read_text(encoding="utf-8")


def parts_of(p: ImagePipeline) -> list[str]:
    name = p.image.format
    if name == "grey8":
        pixels = ["grey8.h"]
    elif name == "yuyv":
        pixels = ["yuyv.h", *(["yuyv_grey.h"] if p.rows == 1 else ["yuyv_colours.h", "colours.h"])]
    else:
        pixels = [f"{name}.h", "grey.h" if p.rows == 1 else "colours.h"]
    return ["lanes.h", *pixels, "image.c"]


def _numbers(p: ImagePipeline, t: ImageTables, planes: bool) -> Iterator[tuple[str, str]]:
    width, height, pixels = p.resize.width, p.resize.height, p.resize.width * p.resize.height
    found = {
        "FE_WIDTH": width, "FE_HEIGHT": height, "FE_COLOURS": p.channels, "FE_CHANNELS": p.rows,
        "FE_STRIDE": p.row_bytes, "FE_INNER_WIDTH": t.x.count, "FE_INNER_HEIGHT": t.y.count,
        "FE_LINE": t.x.count * p.rows,
        "FE_LEFT": t.x.first, "FE_TOP": t.y.first, "FE_X_TAPS": t.x.taps, "FE_Y_TAPS": t.y.taps,
        "FE_X_SHIFT": t.shifts[0], "FE_Y_SHIFT": t.shifts[1], "FE_STEP": 1 if planes else p.channels,
        "FE_PLANE": pixels if planes else 1, "FE_PADDED": int(t.x.count * t.y.count < pixels), "FE_PAD": p.resize.pad,
    }  # fmt: skip
    yield from ((key, f"{value}u" if key not in _SIGNED else str(value)) for key, value in found.items())
    tables, backwards = len(_codes(p)), p.rows == 3 and p.colour.order == "bgr"
    yield "FE_TABLES", str(tables)
    yield "FE_TABLE(c)", "(256u * (c))" if tables > 1 else "0u"
    yield "FE_FROM(c)", "(2u - (c))" if backwards else "(c)"
    yield "FE_WIDE", str(int(t.row_type == "uint16"))
    yield "FE_DIRECT", str(_direct(p, backwards))
    yield "FE_FLAT", str(int(is_flat(p, planes)))
    if p.image.format == "yuyv":
        keys = ("BLACK", "LIGHT", "U_BLUE", "U_GREEN", "V_GREEN", "V_RED")
        yield from ((f"FE_{key}", f"({value})") for key, value in zip(keys, YUV[p.image.range], strict=True))


def is_flat(p: ImagePipeline, planes: bool) -> bool:
    """Whether codes are bytes in the order of what was resized: vectors write them."""
    return p.rows == p.channels and not planes and p.codes.type in ("int8", "uint8")


def _direct(p: ImagePipeline, backwards: bool) -> int:
    """1 where pixels of a frame are three bytes in the order of the result, -1 where they are in the other one."""
    if p.rows == 1 or p.image.format not in ("rgb888", "bgr888"):
        return 0
    return 1 if (p.image.format == "bgr888") == backwards else -1


_SIGNED = ("FE_X_SHIFT", "FE_Y_SHIFT")


def _codes(p: ImagePipeline) -> Array:
    """One table for all colours where they are the same."""
    table = code_table(p)
    return table[:1] if (table == table[0]).all() else table


def _constants(p: ImagePipeline, t: ImageTables) -> Iterator[tuple[str, Array]]:
    for name, axis in (("x", t.x), ("y", t.y)):
        yield f"fe_{name}_starts", axis.starts.astype(np.uint16)
        if axis.taps > 1:
            yield f"fe_{name}_weights", _narrow(axis)
    yield "fe_codes", _codes(p)


def _narrow(axis: TapTable) -> Array:
    return axis.weights.astype(np.int16 if axis.weights.max() < 1 << 15 else np.int32)
