"""Samples of another range than the model was trained with (0..1 where 0..255 was meant) are told before the work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from atonc.compiler.ir import Array
from atonc.insight.quantizing.observe import run, session
from atonc.insight.quantizing.samples import Feed
from atonc.insight.quantizing.signal import POOR_DB
from atonc.machine.base.errors import InputError
from atonc.machine.base.frozen import dataclass

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
    from onnx import helper, numpy_helper

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
        output = helper.ValueInfoProto(name=norm.input[0])
        graph = helper.make_graph(chain, "first", inputs, [output], list({p.name: p for p in used}.values()))
        made = helper.make_model(graph, opset_imports=list(model.opset_import), ir_version=min(model.ir_version, 10))
        return FirstNorm(made, numpy_helper.to_array(constants[norm.input[4]]))
    return None


def require_trained_range(found: FirstNorm | None, feeds: Sequence[Feed], where: str) -> None:
    """What the first convolution gives must vary as it did in training, within a wide margin."""
    if found is None:
        return
    running = session(found.before)
    names = [value.name for value in found.before.graph.input]
    seen = [run(running, {name: feed[name] for name in names})[0] for feed in feeds[:SOME]]
    spread = np.concatenate([value.reshape(value.shape[1], -1) for value in seen], axis=1).var(1)
    usable = found.variance > np.median(found.variance) * 1e-3
    factor = float(np.sqrt(np.median(spread[usable] / found.variance[usable])))
    if 1 / FACTOR < factor < FACTOR:
        return
    low, high = (float(pick(feeds[0][names[0]])) for pick in (np.min, np.max))
    times = f"{factor:.0f} times more" if factor > 1 else f"{1 / max(factor, 1e-9):.0f} times less"
    raise InputError(
        f"the samples ({low:g} to {high:g}) make the first layer vary about {times} than it did in training",
        where=where,
        rule="samples come as the network takes them; its first BatchNorm remembers how they varied",
        remedy="scale them as in training (0..255 or 0..1? --mean and --std for pictures)",
    )


def still_outputs(names: Sequence[str], outputs: Sequence[Sequence[Array]]) -> list[str]:
    """Notes on outputs that hardly change from sample to sample, though the samples do."""
    notes = []
    for name, values in zip(names, zip(*outputs, strict=True), strict=True):
        stacked = np.stack([value.reshape(-1) for value in values]).astype(np.float64)
        size, change = float(np.abs(stacked).max()), float(np.ptp(stacked, axis=0).max())
        if 0 < change < STILL * size:
            notes.append(f"output {name} hardly changes over the samples: are they scaled as in training?")
    return notes


def poor_outputs(figures: Mapping[str, float]) -> list[str]:
    """Notes on outputs that are mostly noise, by their signal to noise in dB."""
    return [
        f"output {name} has {db:.1f} dB: the noise is a third of its signal or more; are the samples what the network "
        "takes? --wide gives some activations 16 bits"
        for name, db in figures.items()
        if db < POOR_DB
    ]
