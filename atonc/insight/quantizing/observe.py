"""Runs a model, or parts of it, over samples and looks at what its tensors hold; tells samples of another range than
the model was trained with (0..1 where 0..255 was meant)."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

from atonc.compiler.ir import Array
from atonc.insight.quantizing.graph import copied
from atonc.insight.quantizing.ort_process import OrtSession, ort_process
from atonc.insight.quantizing.samples import STATELESS, Carried, Feed
from atonc.machine.base import progress
from atonc.machine.base.errors import InputError, ModelError
from atonc.machine.base.frozen import dataclass

_THREADS: ContextVar[int] = ContextVar("threads", default=0)


@contextmanager
def threads(count: int) -> Iterator[None]:
    """So many for one run of a model; 0: what OMP_NUM_THREADS says, else one per core."""
    before = _THREADS.set(count)
    try:
        yield
    finally:
        _THREADS.reset(before)


def thread_count() -> int:
    """Gives the number of threads as onnxruntime takes it: 0 is its own choice, one per core."""
    said = os.environ.get("OMP_NUM_THREADS", "")
    return _THREADS.get() or (int(said) if said.isdigit() else 0)


def session(model: Any, exact: bool = True) -> OrtSession:
    """`exact`: every node as it is written, nothing fused, so that what is measured is what the file says."""
    data, where = (model, "") if isinstance(model, bytes) else (model.SerializeToString(), _named(model.graph))
    try:
        return ort_process().opened(data, {"exact": exact, "threads": thread_count()}, where)
    except RuntimeError as error:
        raise ModelError(f"onnxruntime cannot load the model: {str(error)[:300]}") from None


def _named(graph: Any) -> str:
    """The first and the last node."""
    ends = [graph.node[k].name or graph.node[k].output[0] for k in (0, -1)] if graph.node else []
    return " to ".join(dict.fromkeys(ends))


def run(running: OrtSession, feed: Feed, names: Sequence[str] | None = None) -> list[Array]:
    try:
        return running.run(names, feed)
    except RuntimeError as error:
        raise ModelError(f"onnxruntime cannot run the model on the samples: {str(error)[:300]}") from None


def with_outputs(model: Any, names: Iterable[str]) -> Any:
    """A copy whose tensors of these names can be asked for."""
    from onnx import helper

    copy = copied(model)
    there = {value.name for value in copy.graph.output} | {value.name for value in copy.graph.input}
    copy.graph.output.extend(helper.ValueInfoProto(name=name) for name in names if name not in there)
    return copy


def part_of(model: Any, nodes: Sequence[Any], inputs: Sequence[Any], outputs: Iterable[str], stored: Any) -> Any:
    """Some nodes of a model as a model: `inputs` with their types, `stored` constants."""
    from onnx import helper

    ends = [helper.ValueInfoProto(name=name) for name in outputs]
    graph = helper.make_graph(list(nodes), "part", inputs, ends, stored)
    return helper.make_model(graph, opset_imports=list(model.opset_import), ir_version=model.ir_version)


def watch(model: Any, feeds: Sequence[Feed], names: Sequence[str], title: str) -> Iterator[dict[str, Array]]:
    """The tensors of these names, sample by sample, inputs first."""
    running = session(with_outputs(model, names))
    inside = [name for name in names if name not in feeds[0]]
    for index, feed in enumerate(feeds):
        progress.stage(title, index, len(feeds))
        found = dict(zip(inside, run(running, feed, inside), strict=True)) if inside else {}
        yield {**{name: feed[name] for name in names if name in feed}, **found}


def outputs(
    model: Any, feeds: Sequence[Feed], title: str = "running the model", names: Sequence[str] | None = None,
    carried: Carried = STATELESS,
) -> list[list[Array]]:  # fmt: skip
    """Runs the model and gives every sample's outputs, or the tensors of these names."""
    running = session(with_outputs(model, names) if names else model)
    asked = [*(names or running.outputs), *carried.states.values()]
    found, before = list[list[Array]](), dict[str, Array]()
    for index, feed in enumerate(feeds):
        progress.stage(title, index, len(feeds))
        got = run(running, carried.fed(index, feed, before), asked)
        before = dict(zip(carried.states, got[len(got) - len(carried.states) :], strict=True))
        found.append(got[: len(got) - len(carried.states)])
    return found


Values = dict[str, list[Array]]  # tensor -> its value for every sample


class SegmentRuns:
    """`advance` runs up to a node, without it; `apply` runs single nodes with other constants."""

    def __init__(self, model: Any, feeds: Sequence[Feed]) -> None:
        self.model = model
        self.nodes = list(model.graph.node)
        self.constants = {proto.name: proto for proto in model.graph.initializer}
        self.place = 0
        self.values: Values = {name: [feed[name] for feed in feeds] for name in feeds[0]}
        self.count = len(feeds)
        self.last_use = {name: index for index, node in enumerate(self.nodes) for name in node.input}

    def advance(self, name: str) -> Any:
        """Runs everything before the node of this name; gives the node."""
        end = next(index for index, node in enumerate(self.nodes) if node.name == name)
        if end > self.place:
            self.values |= self.apply(self.nodes[self.place : end])
            self.place = end
        return self.nodes[end]

    def finish(self, name: str, values: list[Array]) -> None:
        """The node at the current place is done; its result is given. What nobody reads any more is forgotten."""
        self.values[name] = values
        self.place += 1
        for old in [key for key in self.values if self.last_use.get(key, -1) < self.place]:
            del self.values[old]

    def apply(self, nodes: Sequence[Any], changed: dict[str, Array] | None = None) -> Values:
        """Results of these nodes that are read later."""
        from onnx import helper, numpy_helper

        made = {name for node in nodes for name in node.output if name}
        read = list(dict.fromkeys(name for node in nodes for name in node.input if name and name not in made))
        live = [name for name in read if name in self.values and not (changed and name in changed)]
        wanted = [name for name in dict.fromkeys(n for node in nodes for n in node.output if n)
                  if self.last_use.get(name, -1) >= self.place + len(nodes) or len(nodes) == 1]  # fmt: skip
        if not wanted:
            return {}
        stored = [numpy_helper.from_array(changed[name], name) if changed and name in changed else self.constants[name]
                  for name in read if name not in live]  # fmt: skip
        kinds = {name: helper.np_dtype_to_tensor_dtype(self.values[name][0].dtype) for name in live}
        inputs = [helper.make_tensor_value_info(n, kinds[n], self.values[n][0].shape) for n in live]
        running = session(part_of(self.model, nodes, inputs, wanted, stored))
        found: Values = {name: [] for name in wanted}
        for index in range(self.count):
            results = run(running, {name: self.values[name][index] for name in live}, wanted)
            for name, value in zip(wanted, results, strict=True):
                found[name].append(np.asarray(value))
        return found


FACTOR = 20.0  # between what was seen in training and now, from which on nothing but a mistake explains it
SOME = 16
STILL = 1e-4  # of an output's size: less change is none


@dataclass(frozen=True)
class FirstNorm:
    """The first BatchNorm of a model remembers how its input varied in training."""

    before: Any  # the model up to there
    variance: Array


def first_norm(model: Any) -> FirstNorm | None:
    """Finds the first BatchNorm of a model as exported; None where it is folded, or not right behind the input."""
    from onnx import numpy_helper

    constants = {proto.name: proto for proto in model.graph.initializer}
    producers = {name: node for node in model.graph.node for name in node.output}
    for norm in (node for node in model.graph.node if node.op_type == "BatchNormalization"):
        chain: list[Any] = []
        name = norm.input[0]
        while name in producers and len(chain) < 6:
            chain.insert(0, producers[name])
            name = producers[name].input[0]
        inputs = [value for value in model.graph.input if value.name == name]
        others = [n for node in chain for n in node.input[1:] if n and n not in constants]
        convolutions = [node.op_type for node in chain].count("Conv")
        if len(inputs) != 1 or others or convolutions != 1 or norm.input[4] not in constants:
            continue
        used = [constants[n] for node in chain for n in node.input[1:] if n]
        made = part_of(model, chain, inputs, [norm.input[0]], list({p.name: p for p in used}.values()))
        made.ir_version = min(model.ir_version, 10)
        return FirstNorm(made, numpy_helper.to_array(constants[norm.input[4]]))
    return None


def require_trained_range(found: FirstNorm | None, feeds: Sequence[Feed], where: str) -> None:
    """What the first convolution gives must vary as it did in training, within a wide margin."""
    if found is None or not (usable := found.variance > np.median(found.variance) * 1e-3).any():
        return
    running = session(found.before)
    names = [value.name for value in found.before.graph.input]
    seen = [run(running, {name: feed[name] for name in names})[0] for feed in feeds[:SOME]]
    spread = np.concatenate([value.reshape(value.shape[1], -1) for value in seen], axis=1).var(1)
    factor = float(np.sqrt(np.median(spread[usable] / found.variance[usable])))
    if 1 / FACTOR < factor < FACTOR:
        return
    low, high = (float(pick(feeds[0][names[0]])) for pick in (np.min, np.max))
    times = f"{factor:.0f} times more" if factor > 1 else f"{1 / max(factor, 1e-9):.0f} times less"
    raise InputError(
        f"the samples ({low:g} to {high:g}) make the first layer vary about {times} than it did in training",
        where=where,
        rule="samples come as the network takes them; its first BatchNorm remembers how they varied",
        remedy="scale them as in training (0..255 or 0..1? --mean and --std for images)",
    )


def still_outputs(names: Sequence[str], outputs: Sequence[Sequence[Array]]) -> list[str]:
    """Notes on outputs that hardly change from sample to sample, or not at all, though the samples do."""
    notes = []
    for name, values in zip(names, zip(*outputs, strict=True), strict=True):
        stacked = np.stack([value.reshape(-1) for value in values]).astype(np.float64)
        size, change = float(np.abs(stacked).max()), float(np.ptp(stacked, axis=0).max())
        if change <= STILL * size:
            how = "hardly changes over the" if change else "is the same for all"
            notes.append(f"output {name} {how} samples, its dB says little: are they scaled as in training?")
    return notes
