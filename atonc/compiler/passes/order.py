"""The passes in their order. Each takes a graph and gives an equal one."""

from __future__ import annotations

from collections.abc import Callable

from atonc.compiler.ir import Graph
from atonc.compiler.ops.agreement import REPORT, RULE, require_agreement, said
from atonc.compiler.passes.absorb_transposes import absorb_transposes
from atonc.compiler.passes.cut_outputs import cut_outputs
from atonc.compiler.passes.drop_identities import drop_identities
from atonc.compiler.passes.fold_constants import fold_constants
from atonc.compiler.passes.fold_pads import fold_pads
from atonc.compiler.passes.fuse_activations import fuse_activations
from atonc.compiler.passes.fuse_affine import fuse_affine
from atonc.compiler.passes.fuse_formats import fuse_formats
from atonc.compiler.passes.join_batch import join_batch
from atonc.compiler.passes.lift_sequences import lift_sequences
from atonc.compiler.passes.lower_dense import lower_dense
from atonc.compiler.passes.lower_packs import lower_packs
from atonc.compiler.passes.make_channel_last import make_channel_last
from atonc.compiler.passes.make_integer_biases import make_integer_biases
from atonc.compiler.passes.make_tables import make_tables
from atonc.compiler.passes.merge_constants import merge_constants
from atonc.compiler.passes.merge_dilation import merge_dilation
from atonc.compiler.passes.merge_groups import merge_groups
from atonc.compiler.passes.merge_repeats import merge_repeats
from atonc.compiler.passes.move_reshapes import move_reshapes
from atonc.compiler.passes.move_transposes import move_transposes
from atonc.compiler.passes.name_conversions import name_conversions
from atonc.compiler.passes.name_reductions import name_reductions
from atonc.compiler.passes.name_uniquely import name_uniquely
from atonc.compiler.passes.note_divisors import note_divisors
from atonc.compiler.passes.options import PassOptions, PassOptionsLike
from atonc.compiler.passes.quantise_earlier import quantise_earlier
from atonc.compiler.passes.round_once import round_once
from atonc.compiler.passes.separate_formats import separate_formats
from atonc.compiler.passes.set_channel_positions import set_channel_positions
from atonc.compiler.passes.set_edge_types import set_edge_types
from atonc.compiler.passes.shift_uint8 import shift_uint8
from atonc.compiler.passes.sort_channels import sort_channels
from atonc.compiler.passes.split_formats import split_formats
from atonc.compiler.passes.split_leaky import split_leaky
from atonc.compiler.passes.still_channels import still_channels
from atonc.compiler.passes.widen_operands import widen_operands
from atonc.compiler.passes.write_constant_outputs import write_constant_outputs
from atonc.machine.base import progress
from atonc.machine.base.errors import AtoncError, ModelError

Pass = Callable[[Graph], Graph]
UNEXPECTED = (
    ValueError, IndexError, KeyError, TypeError, ZeroDivisionError, OverflowError, MemoryError, RecursionError,
)  # fmt: skip

PASSES: tuple[Pass, ...] = (
    fold_constants,
    name_conversions,
    shift_uint8,
    lower_packs,
    fuse_formats,
    quantise_earlier,
    separate_formats,
    fuse_formats,  # what a moving operator hid
    drop_identities,
    make_channel_last,
    lift_sequences,
    lower_dense,
    absorb_transposes,
    move_reshapes,
    merge_repeats,
    drop_identities,
    fuse_affine,
    fuse_activations,
    make_integer_biases,
    split_leaky,
    fold_pads,
    merge_dilation,
    join_batch,
    merge_groups,
    name_reductions,
    make_tables,
    split_formats,
    widen_operands,
    move_transposes,
    move_reshapes,
    merge_repeats,
    drop_identities,
    merge_constants,
    write_constant_outputs,
)


def run(graph: Graph, options: PassOptionsLike | None = None) -> Graph:
    """The canonical graph."""
    options = options or PassOptions()
    as_2x = getattr(options, "numerics", "best") == "2.x"
    source = graph = cut_outputs(graph, options.cut_outputs)
    steps = (round_once, *PASSES) if as_2x else (*PASSES, still_channels, sort_channels)
    for number, step in enumerate(steps):
        progress.stage("simplifying the graph", number, len(steps))
        graph = _guarded(step, graph)
    positions = [getattr(options, f"{edge}_channel_position", "") for edge in ("inputs", "outputs")]
    graph = set_channel_positions(graph, *positions) if any(positions) else graph
    graph = note_divisors(set_edge_types(graph, options.input_type, options.output_type))
    return require_agreement(source, name_uniquely(graph))


def _guarded(step: Pass, graph: Graph) -> Graph:
    """Graphs that no pass expects are the model's fault until shown otherwise: one clear error."""
    try:
        return step(graph)
    except AtoncError:
        raise
    except UNEXPECTED as error:
        what = f"the graph cannot be simplified in {step.__name__}{said(error)}"
        raise ModelError(what, where=graph.name, rule=RULE, remedy=REPORT) from error
