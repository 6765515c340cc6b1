"""The passes in their order. Each takes a graph and gives an equal one."""

from __future__ import annotations

from collections.abc import Callable

from atonc.ir import Graph
from atonc.passes.drop_identities import drop_identities
from atonc.passes.fold_constants import fold_constants
from atonc.passes.fold_pads import fold_pads
from atonc.passes.fuse_activations import fuse_activations
from atonc.passes.make_channel_last import make_channel_last
from atonc.passes.name_conversions import name_conversions
from atonc.passes.options import Options, PassOptions
from atonc.passes.shift_uint8 import shift_uint8

Pass = Callable[[Graph], Graph]

PASSES: tuple[Pass, ...] = (
    fold_constants,
    name_conversions,
    shift_uint8,
    drop_identities,
    fuse_activations,
    make_channel_last,
    fold_pads,
    drop_identities,
)


def run(graph: Graph, options: Options | None = None) -> Graph:
    """The canonical graph."""
    options = options or PassOptions()
    for step in PASSES:
        graph = step(graph)
    return graph
