"""States of a float model: outputs that are inputs of the next frame. Those that are packed into one tensor are taken
apart, so that each has a scale of its own; and samples are frames in order, each behind the states that it really has.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from atonc.compiler.ir import Array, Graph, Tensor
from atonc.compiler.passes.states import declare_states
from atonc.insight.quantizing.graph import FloatGraph, copied
from atonc.insight.quantizing.judge import joined_outputs, part_places
from atonc.insight.quantizing.loading import cut
from atonc.insight.quantizing.observe import part_of, run, session
from atonc.insight.quantizing.samples import Carried, Feed, Samples, check_samples, read_sequences, typed
from atonc.insight.quantizing.types import QuantizeOptions
from atonc.machine.base import progress
from atonc.machine.base.errors import InputError
from atonc.machine.base.frozen import dataclass
from atonc.machine.base.words import count

RULE = "a state is an output that the next frame gets as an input"


def declared(graph: FloatGraph, wanted: Sequence[str]) -> dict[str, str]:
    """Input -> output of each state that the user names, as the compiler's --state takes them."""
    edges = {name: Tensor(name, graph.shapes[name], "float32") for name in (*graph.inputs, *graph.outputs)}
    states = declare_states(Graph(edges, (), graph.inputs, graph.outputs), wanted).states
    if len(states) == len(graph.inputs):
        raise InputError("every input is a state: nothing is left for the samples", where="--state", rule=RULE,
                         remedy="leave out the pair whose input the application gives")  # fmt: skip
    return {one.input: one.output for one in states if one.kept}


# ------------------------------------------------------------------------------------------------------- taken apart

MOVING = ("Slice", "Split", "Squeeze", "Unsqueeze", "Reshape", "Transpose", "Identity", "Gather", "Flatten")


@dataclass(frozen=True)
class PackedState:
    """A state that is put together of parts, which are read one by one."""

    given: str
    output: str
    parts: tuple[str, ...]  # tensors that the output is put together of
    leaves: Mapping[str, int]  # tensor that is read -> its part


def unpack(model: Any, carried: Mapping[str, str]) -> tuple[Any, dict[str, str]]:
    """The model (tidy, with shapes) with a state for every part of those that are packed, and all states."""
    from onnx import shape_inference

    graph = FloatGraph(model)
    packed = [found for pair in carried.items() if (found := _packed(graph, *pair)) is not None]
    if not packed:
        return model, dict(carried)
    gone = {one.given for one in packed}
    states = {given: output for given, output in carried.items() if given not in gone}
    made, numbers = copied(model), iter(range(1 << 20))
    for one in packed:
        states |= _take_apart(made, graph, one, numbers)
    left = {one.output for one in packed}
    kept = [value.name for value in made.graph.output if value.name not in left]
    cut(made, [*dict.fromkeys([*kept, *states.values()])])
    read = {name for node in made.graph.node for name in node.input}
    inputs = [value for value in made.graph.input if value.name not in gone and value.name in read]
    del made.graph.input[:]
    made.graph.input.extend(inputs)
    there = {value.name for value in inputs}
    made = shape_inference.infer_shapes(made)
    return made, {given: output for given, output in states.items() if given in there}


def _packed(graph: FloatGraph, given: str, output: str) -> PackedState | None:
    joined = next((one for one in joined_outputs(graph) if one.output == output), None)
    nodes, leaves = _leaves(graph, given)
    if joined is None or not leaves or given in graph.outputs or graph.shapes[given] != graph.shapes[output]:
        return None
    places = part_places(graph, joined)  # of every value of the state, the parts behind each other
    seen, owners = _positions(graph, nodes, given, leaves), dict[str, int]()
    ends = np.cumsum([0, *(int(np.prod(graph.shapes[part])) for part in joined.parts)])
    for leaf, positions in seen.items():
        held = places[positions.reshape(-1)]
        part = int(np.searchsorted(ends, held[0], "right")) - 1
        if not np.array_equal(held, np.arange(ends[part], ends[part + 1])):
            return None  # it reads a piece of a part, several, or another order
        owners[leaf] = part
    return PackedState(given, output, joined.parts, owners)


def _leaves(graph: FloatGraph, given: str) -> tuple[list[Any], list[str]]:
    """Nodes that only move values of this input, and the tensors that others read of them."""
    moved, leaves, nodes = [given], dict[str, None](), dict[str, Any]()
    for name in moved:
        for node in graph.readers[name]:
            if node.op_type in MOVING and graph.activations(node) == [name] and node.input[0] == name:
                nodes[node.name] = node
                moved += [output for output in node.output if output and output not in moved]
            else:
                leaves[name] = None
    leaves |= dict.fromkeys(name for name in moved if name in graph.outputs)
    return [node for node in graph.nodes if node.name in nodes], list(leaves)


def _positions(graph: FloatGraph, nodes: Sequence[Any], given: str, leaves: Sequence[str]) -> dict[str, Array]:
    """Which values of the state each of them holds: the moving nodes themselves say it, run on numbers."""
    from onnx import TensorProto, helper, numpy_helper

    shape = graph.shapes[given]
    numbers = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    if not nodes:
        return dict.fromkeys(leaves, numbers.astype(np.int64))
    constants = {name for node in nodes for name in node.input if name in graph.constants}
    stored = [numpy_helper.from_array(graph.constants[name], name) for name in sorted(constants)]
    inputs = [helper.make_tensor_value_info(given, TensorProto.FLOAT, shape)]
    inside = [name for name in leaves if name != given]
    found = run(session(part_of(graph.model, nodes, inputs, inside, stored)), {given: numbers}, inside)
    named = dict(zip(inside, found, strict=True)) | {given: numbers}
    return {name: named[name].astype(np.int64) for name in leaves}


def _take_apart(model: Any, graph: FloatGraph, packed: PackedState, numbers: Iterator[int]) -> dict[str, str]:
    """Every part is an output, and an input that is read instead of what was moved out of the packed one."""
    from onnx import TensorProto, helper, numpy_helper

    made, states, taken = model.graph, dict[str, str](), {*graph.shapes, *graph.constants}
    for part, tensor in enumerate(packed.parts):
        leaves, shape = [leaf for leaf, owner in packed.leaves.items() if owner == part], graph.shapes[tensor]
        number = next(n for n in numbers if f"state_{n}_in" not in taken and f"state_{n}_out" not in taken)
        given, output = f"state_{number}_in", f"state_{number}_out"
        made.input.append(helper.make_tensor_value_info(given, TensorProto.FLOAT, shape))
        made.output.append(helper.make_tensor_value_info(output, TensorProto.FLOAT, shape))
        made.node.append(helper.make_node("Identity", [tensor], [output], f"{output} of {tensor}"))
        for leaf in leaves:
            again = f"{given}/{leaf}"
            made.initializer.append(numpy_helper.from_array(np.array(graph.shapes[leaf], np.int64), f"{again}/shape"))
            for node in made.node:
                for index in [k for k, name in enumerate(node.input) if name == leaf]:
                    node.input[index] = again
            node = helper.make_node("Reshape", [given, f"{again}/shape"], [again], again)
            made.node.insert(0, node)
        states[given] = output
    return states


# ------------------------------------------------------------------------------------------------- frames in order

RUN = 25  # frames in a row that judge: states are the quantised model's own from the second on
MOST_FRAMES = 100_000


@dataclass(frozen=True)
class ChosenFrames:
    """Numbers of frames, all sequences behind each other."""

    learn: tuple[int, ...]
    held: tuple[int, ...]
    starts: frozenset[int]  # places in `held` where a run begins


def read_frames(path: Path, graph: FloatGraph, carried: Mapping[str, str], settings: QuantizeOptions) -> Samples:
    """Samples whose states are those that the float model has there."""
    shapes = {name: graph.shapes[name] for name in graph.inputs if name not in carried}
    found = read_sequences(path, shapes)
    sequences = [[typed(frame, graph.types, str(path)) for frame in frames] for frames in found]
    frames = [frame for sequence in sequences for frame in sequence]
    if len(frames) > MOST_FRAMES:
        raise InputError(f"{len(frames):,} frames", where=str(path), rule=f"at most {MOST_FRAMES:,}",
                         remedy="give a part of them")  # fmt: skip
    notes = check_samples(frames, str(path))
    chosen = choose_frames([len(sequence) for sequence in sequences], settings.samples)
    wanted = {*chosen.learn, *chosen.held}
    feeds = {k: feed for k, feed in enumerate(_followed(graph, sequences, carried)) if k in wanted}
    if len(wanted) < len(frames):
        notes.append(f"{len(wanted)} of {len(frames)} frames are used (--samples); states are followed through all")
    pairs = ",".join(f"{output}={given}" for given, output in carried.items())
    notes.append(f"{count(len(carried), 'state')}, one scale for both ends: compile it with --state {pairs}")
    ordered = tuple(feeds[k] for k in (*chosen.learn, *chosen.held))
    return Samples(ordered, tuple(notes), len(chosen.learn), Carried(dict(carried), chosen.starts))


def choose_frames(lengths: Sequence[int], most: int) -> ChosenFrames:
    """Half of the sequences teach, the others judge; of a single one the first half teaches. Frames that teach are
    spread evenly, those that judge are runs of some in a row."""
    ends = np.cumsum([0, *lengths]).tolist()
    spans = list(pairwise(ends))
    if len(spans) == 1:
        middle = ends[-1] // 2
        spans = [(0, middle), (middle, ends[-1])]
    learn, held = (np.concatenate([np.arange(*span) for span in part]) for part in (spans[::2], spans[1::2]))
    budget = max(most // 2, 1)
    places = np.unique(np.linspace(0, len(learn) - 1, min(budget, len(learn))).astype(int))
    if len(held) > budget:
        runs = max(1, budget // RUN)
        length = budget // runs
        first = np.linspace(0, len(held) - length, runs).astype(int)
        judge = np.unique(np.concatenate([np.arange(start, start + length) for start in first]))
    else:
        judge = np.arange(len(held))
    frames, borders = held[judge], {start for start, _ in spans}
    follows = [k > 0 and frames[k] == frames[k - 1] + 1 and int(frames[k]) not in borders for k in range(len(frames))]
    starts = frozenset(k for k, one in enumerate(follows) if not one)
    return ChosenFrames(tuple(learn[places].tolist()), tuple(frames.tolist()), starts)


def _followed(graph: FloatGraph, sequences: Sequence[Sequence[Feed]], carried: Mapping[str, str]) -> Iterator[Feed]:
    """Every frame with the states that the float model has there; each sequence begins with zeros."""
    running, total, done = session(graph.model), sum(map(len, sequences)), 0
    for sequence in sequences:
        states: Feed = {name: np.zeros(graph.shapes[name], np.float32) for name in carried}
        for frame in sequence:
            if not done % 100:
                progress.stage("following the states", done, total)
            done += 1
            yield (feed := {**frame, **states})
            states = dict(zip(carried, run(running, feed, list(carried.values())), strict=True))
