"""Layers in bands of rows, side by side: chains with areas of their own, however few channels there are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import gcd, lcm

from atonc.compiler.ir import Graph
from atonc.compiler.lower.conv.kernel_parts import Part, padded_as_seen
from atonc.compiler.lower.conv.layer import ConvLayer
from atonc.compiler.ops.conv import pair
from atonc.compiler.plan.policy import EPOCH_CYCLES, FEWEST_ROWS
from atonc.compiler.plan.streams import Area
from atonc.compiler.plan.task import Task, TaskGroup
from atonc.compiler.schedule.pack import packed
from atonc.machine.hw.machine import Machine
from atonc.machine.hw.safety.evidence import PUBLISHED, Trust
from atonc.machine.hw.target import Target

KERNELS = 1  # port of a CONVACC


def rows_together(layer: ConvLayer, graph: Graph) -> int:
    """Rows that a pooling behind the layer takes at a time, if it could follow in the same epoch; or 1."""
    pools = (op for op in graph.consumers.get(layer.op.outputs[0], ()) if op.kind in ("max_pool", "average_pool"))
    return max((pair(op.attrs["stride"])[0] for op in pools if op.attrs["stride"] == op.attrs["window"]), default=1)


def row_tiles(
    parts: tuple[Part, ...],
    target: Area,
    count: int,
    writes: int,
    reads: int,
    together: int = 1,
    trust: Trust = PUBLISHED,
) -> list[tuple[tuple[Part, ...], Area]]:
    """At most so many bands, with the rows that each of them sees, that write and read from multiples of so many bytes
    on; none where they would be too low. `together`: rows that stay in one band."""
    unit = lcm(writes // gcd(writes, target.line), together)
    size = -(-target.height // count // unit) * unit
    if count < 2 or size < FEWEST_ROWS:
        return []
    found = []
    for row in range(0, target.height, size):
        rows = min(size, target.height - row)
        some = tuple(padded_as_seen(_rows(part, row, rows), trust) for part in parts)
        found.append((some, target.rows(row, rows)))
    seen = [part.area for some, _ in found for part in some]
    return [] if any(area.height < 2 or area.offset % reads for area in seen) else found


def _rows(part: Part, row: int, count: int) -> Part:
    """What some rows of the output see."""
    top, left, _, right = part.padding
    start = row * part.stride - top
    end = start + (count - 1) * part.stride + part.window[0]
    first, last = max(0, start), min(end, part.area.height)
    area = part.area.rows(first, last - first)
    return replace(part, area=area, padding=(max(0, -start), left, max(0, end - part.area.height), right))


def least_cycles(groups: Sequence[TaskGroup], target: Target) -> float:
    """A bound that knows no banks: the longest stream of every epoch or its constants from flash, and a usual epoch.
    It ranks slices and bands (`preferences.SHORTER_STREAMS`); what a form takes is `Form.cycles`."""
    return sum(_epoch_cycles(tasks, target.machine) for tasks in packed(groups, target.trust))


def _epoch_cycles(tasks: Sequence[Task], machine: Machine) -> float:
    longest, flash = 0, 0.0
    for task in tasks:
        kernels = {wire.source for wire in task.wires if wire.port == KERNELS}
        for name, use in task.engines.items():
            if name in kernels:
                flash += machine.flash_byte_cycles * use.config.elements
            else:
                longest = max(longest, use.config.elements)
    return EPOCH_CYCLES + max(longest, flash)
