"""The passes in their order. Each takes a graph and gives an equal one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import Any, Protocol

from atonc.compiler.ir import Graph
from atonc.compiler.ops.run import REPORT, RULE, require_agreement, said
from atonc.compiler.passes.cuts import cut_outputs
from atonc.compiler.passes.formats import (
    fuse_formats,
    name_conversions,
    quantise_earlier,
    round_once,
    separate_formats,
    set_edge_types,
    shift_uint8,
    split_formats,
)
from atonc.compiler.passes.layers import (
    code_weights,
    fuse_activations,
    fuse_affine,
    make_integer_biases,
    split_leaky,
    still_channels,
)
from atonc.compiler.passes.layout import absorb_transposes, make_channel_last, move_transposes, set_channel_positions
from atonc.compiler.passes.make_tables import make_tables
from atonc.compiler.passes.reshapes import lower_packs, move_reshapes, widen_operands
from atonc.compiler.passes.sort_channels import sort_channels
from atonc.compiler.passes.spellings import name_spellings
from atonc.compiler.passes.states import carry_codes, keep_windows, own_states, turn_states
from atonc.compiler.passes.tidy import (
    drop_identities,
    fold_constants,
    merge_constants,
    merge_repeats,
    name_uniquely,
    write_constant_outputs,
)
from atonc.compiler.passes.windows import (
    fold_pads,
    join_batch,
    lift_sequences,
    lower_dense,
    merge_dilation,
    merge_groups,
    name_reductions,
)
from atonc.machine.base import progress
from atonc.machine.base.errors import AtoncError, ModelError
from atonc.machine.base.frozen import dataclass


class PassOptionsLike(Protocol):
    """Anything with these attributes will do."""

    @property
    def cut_outputs(self) -> tuple[str, ...]: ...
    @property
    def input_type(self) -> str: ...
    @property
    def output_type(self) -> str: ...


@dataclass(frozen=True)
class PassOptions:
    cut_outputs: tuple[str, ...] = ()  # tensors that become the outputs
    input_type: str = ""  # float32, int8, uint8 or int16; empty: as in the model
    output_type: str = ""
    inputs_channel_position: str = ""  # chfirst or chlast; empty: as in the model
    outputs_channel_position: str = ""
    fixed_shapes: dict[str, Any] = field(default_factory=dict)  # used by the front ends


Pass = Callable[[Graph], Graph]
UNEXPECTED = (
    ValueError, IndexError, KeyError, TypeError, ZeroDivisionError, OverflowError, MemoryError, RecursionError,
)  # fmt: skip

PASSES: tuple[Pass, ...] = (
    fold_constants,
    name_conversions,
    name_spellings,
    shift_uint8,
    lower_packs,
    fuse_formats,
    quantise_earlier,
    separate_formats,
    fuse_formats,  # what a moving operator hid
    drop_identities,
    carry_codes,
    make_channel_last,
    turn_states,
    lift_sequences,
    lower_dense,
    absorb_transposes,
    move_reshapes,
    merge_repeats,
    drop_identities,
    fuse_affine,
    fuse_activations,
    code_weights,
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


def run(graph: Graph, options: PassOptionsLike | None = None, own_weights: bool = True) -> Graph:
    """The canonical graph. `own_weights`: nobody puts others in their place, so they may decide about channels."""
    options = options or PassOptions()
    as_2x = getattr(options, "numerics", "best") == "2.x"
    source = graph = cut_outputs(graph, options.cut_outputs)
    by_weights = (still_channels, sort_channels) if own_weights else ()
    steps = (round_once, *PASSES) if as_2x else (*PASSES, *by_weights)
    for number, step in enumerate(steps):
        progress.stage("simplifying the graph", number, len(steps))
        graph = _guarded(step, graph)
    positions = [getattr(options, f"{edge}_channel_position", "") for edge in ("inputs", "outputs")]
    graph = set_channel_positions(graph, *positions) if any(positions) else graph
    graph = own_states(write_constant_outputs(set_edge_types(graph, options.input_type, options.output_type)))
    return require_agreement(source, name_uniquely(keep_windows(graph)))


def _guarded(step: Pass, graph: Graph) -> Graph:
    """Graphs that no pass expects are the model's fault until shown otherwise: one clear error."""
    try:
        return step(graph)
    except AtoncError:
        raise
    except UNEXPECTED as error:
        what = f"the graph cannot be simplified in {step.__name__}{said(error)}"
        raise ModelError(what, where=graph.name, rule=RULE, remedy=REPORT) from error
