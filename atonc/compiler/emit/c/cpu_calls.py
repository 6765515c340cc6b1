"""CPU steps as calls of the kernels in atonc_kernels.c.

Everything that is known before the network runs is worked out here: sizes, steps, scales, tables. Constants of CPU
operators have no place in the memory pools; they become `static const` tables of network.c, in flash with the code.
"""

from __future__ import annotations

from collections.abc import Mapping

from atonc.compiler.emit.c.calls import CpuCall
from atonc.compiler.emit.c.cpu import custom, elementwise, movement, numbers, windows
from atonc.compiler.emit.c.cpu.site import MAKERS, Site
from atonc.compiler.ir import Graph, Op
from atonc.compiler.ops.run import impossible
from atonc.machine.base.errors import AtoncError

_FAMILIES = (custom, elementwise, movement, numbers, windows)  # importing a family registers its kernels
_UNEXPECTED = (ValueError, IndexError, KeyError, TypeError, ZeroDivisionError, OverflowError)


def cpu_calls(op: Op, graph: Graph, offsets: Mapping[str, int] | None = None) -> tuple[CpuCall, ...]:
    """The calls that compute one operator; `offsets` of tensors that are stored as code + 128 (`Buffer.offset`).

    Pointers name tensors: each is the buffer of that name in the placement.
    """
    site = Site(op, graph, offsets or {})
    maker = MAKERS.get(op.kind)
    if maker is None:
        raise site.refuse("there is no kernel for this operator")
    try:
        return maker(site)
    except AtoncError:
        raise
    except _UNEXPECTED as error:
        raise impossible(graph, op, "cannot be written as a call", error) from error
