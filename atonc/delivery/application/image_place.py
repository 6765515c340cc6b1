"""What the firmware of an application grants a relocatable network, in C and in app.json.

Everything that the firmware knows of such a network is here; its next version is compiled from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from atonc.compiler.compile.pipeline import Compiled
from atonc.compiler.place.pools import outside_chip
from atonc.delivery.application.memory import inside
from atonc.delivery.application.plan_types import ApplicationPlan, PlannedNetwork
from atonc.delivery.application.planning import granted
from atonc.delivery.application.types import FlashSlot, LoadMode
from atonc.machine.base.frozen import dataclass
from atonc.machine.base.spans import Span


@dataclass(frozen=True)
class ImageEdge:
    """An input or output as the application knows it."""

    size_bytes: int
    dtype: str
    scale: float
    zero_point: int
    kept: Span | None = None  # its place, where it must survive the runs of others


@dataclass(frozen=True)
class ImagePlace:
    network: str
    mode: LoadMode
    slot: FlashSlot
    exec_ram: Span  # data of the image, and code that is copied
    ram: tuple[Span, ...]  # in which it works
    resident: tuple[Span, ...] = ()  # of that: for weights that stay there
    external: Span = (0, 0)  # what its loader is given of the RAM outside the chip
    inputs: tuple[ImageEdge, ...] = field(default=())
    outputs: tuple[ImageEdge, ...] = field(default=())

    def as_dict(self) -> dict[str, Any]:
        return {
            "network": self.network,
            "mode": self.mode.value,
            "slot": _span(self.slot.start, self.slot.end),
            "exec_ram": _span(*self.exec_ram),
            "ram": [_span(*span) for span in self.ram],
            "resident": [_span(*span) for span in self.resident],
            "external": _span(*self.external),
            "inputs": [_edge(one) for one in self.inputs],
            "outputs": [_edge(one) for one in self.outputs],
        }


def places(found: ApplicationPlan) -> list[ImagePlace]:
    return [place_of(found, one) for one in found.networks if one.network.relocatable is not None]


def place_of(found: ApplicationPlan, one: PlannedNetwork) -> ImagePlace:
    assert one.network.relocatable is not None
    graph, ram = one.compiled.graph, found.application.exec_ram(one.name)
    kept = {place.tensor: place.span for place in found.kept if place.network == one.name}
    inputs, outputs = (
        tuple(edge_of(one.compiled, name, kept.get(name)) for name in edges) for edges in (graph.inputs, graph.outputs)
    )
    works_in, own = granted(found, one.name), found.private.get(one.name, ())
    return ImagePlace(
        *(one.name, one.network.relocatable, one.slot, (ram.start, ram.end)),
        ram=tuple(works_in),
        resident=tuple(piece for span in works_in for piece in inside(span, own)),
        external=_external(found, one),
        inputs=inputs,
        outputs=outputs,
    )


def edge_of(made: Compiled, name: str, kept: Span | None = None) -> ImageEdge:
    tensor = made.graph.tensors[name]
    return ImageEdge(made.program.placed[name].size_bytes, tensor.dtype, tensor.scale, tensor.zero_point, kept)


def _external(found: ApplicationPlan, one: PlannedNetwork) -> Span:
    """From the start of the pool, as the program counts, to the end of what any network has there."""
    for pool in one.compiled.memory.pools:
        if pool.writable and outside_chip(pool.base):
            ends = [end for start, end in found.ram if pool.base <= start < pool.base + pool.size_bytes]
            if ends:
                return pool.base, max(ends)
    return 0, 0


# ---------------------------------------------------------------------------------------------------------------- JSON


def _span(start: int, end: int) -> dict[str, int]:
    return {"start": start, "end": end}


def _edge(one: ImageEdge) -> dict[str, Any]:
    return {
        "bytes": one.size_bytes,
        "type": one.dtype,
        "scale": one.scale,
        "zero_point": one.zero_point,
        "kept": _span(*one.kept) if one.kept else None,
    }


def read_place(row: Mapping[str, Any]) -> ImagePlace:
    """What is not as `as_dict` gives it raises one of LookupError, TypeError, ValueError."""
    name = str(row["network"])
    inputs, outputs = (tuple(_read_edge(one) for one in row[side]) for side in ("inputs", "outputs"))
    return ImagePlace(
        *(name, LoadMode(row["mode"]), FlashSlot(name, *_read_span(row["slot"])), _read_span(row["exec_ram"])),
        ram=tuple(_read_span(one) for one in row["ram"]),
        resident=tuple(_read_span(one) for one in row["resident"]),
        external=_read_span(row["external"]),
        inputs=inputs,
        outputs=outputs,
    )


def _read_span(row: Mapping[str, Any]) -> Span:
    start, end = row["start"], row["end"]
    if not (isinstance(start, int) and isinstance(end, int) and 0 <= start <= end < 1 << 32):
        raise ValueError("span")
    return start, end


def _read_edge(row: Mapping[str, Any]) -> ImageEdge:
    kept = _read_span(row["kept"]) if row["kept"] is not None else None
    return ImageEdge(int(row["bytes"]), str(row["type"]), float(row["scale"]), int(row["zero_point"]), kept)
