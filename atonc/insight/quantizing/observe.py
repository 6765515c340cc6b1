"""Runs a model over samples and looks at what its tensors hold."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

from atonc.compiler.ir import Array
from atonc.insight.quantizing.samples import Feed
from atonc.insight.quantizing.signal import decibels, power
from atonc.machine.base import progress
from atonc.machine.base.errors import ModelError

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


def session(model: Any, exact: bool = True) -> Any:
    """`exact`: every node as it is written, nothing fused, so that what is measured is what the file says."""
    import onnxruntime as ort

    settings = ort.SessionOptions()
    settings.log_severity_level = 4
    settings.intra_op_num_threads = thread_count()
    if exact:
        settings.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    data = model if isinstance(model, bytes) else model.SerializeToString()
    try:
        return ort.InferenceSession(data, settings, providers=["CPUExecutionProvider"])
    except Exception as error:  # whatever its C++ side says
        raise ModelError(f"onnxruntime cannot load the model: {str(error)[:300]}") from None


def run(running: Any, feed: Feed, names: Sequence[str] | None = None) -> list[Array]:
    try:
        return [np.asarray(value) for value in running.run(names, feed)]
    except Exception as error:
        raise ModelError(f"onnxruntime cannot run the model on the samples: {str(error)[:300]}") from None


def with_outputs(model: Any, names: Iterable[str]) -> Any:
    """A copy whose tensors of these names can be asked for."""
    from onnx import ModelProto, helper

    copy = ModelProto()
    copy.CopyFrom(model)
    there = {value.name for value in copy.graph.output} | {value.name for value in copy.graph.input}
    copy.graph.output.extend(helper.ValueInfoProto(name=name) for name in names if name not in there)
    return copy


def watch(
    model: Any, feeds: Sequence[Feed], names: Sequence[str], see: Callable[[int, dict[str, Array]], None], title: str
) -> None:
    """Calls `see` with the tensors of these names, sample by sample."""
    running = session(with_outputs(model, names))
    inside = [name for name in names if name not in feeds[0]]
    for index, feed in enumerate(feeds):
        progress.stage(title, index, len(feeds))
        found = dict(zip(inside, run(running, feed, inside), strict=True)) if inside else {}
        see(index, {**{name: feed[name] for name in names if name in feed}, **found})


def outputs(
    model: Any, feeds: Sequence[Feed], title: str = "running the model", names: Sequence[str] | None = None
) -> list[list[Array]]:
    """Runs the model and gives every sample's outputs, or the tensors of these names."""
    running = session(with_outputs(model, names) if names else model)
    found = []
    for index, feed in enumerate(feeds):
        progress.stage(title, index, len(feeds))
        found.append(run(running, feed, names))
    return found


def snr_db(reference: Sequence[Sequence[Array]], seen: Sequence[Sequence[Array]]) -> list[float]:
    """Signal to noise of each output over all samples, in dB; 120 where they are equal."""
    figures = []
    for expected, got in zip(zip(*reference, strict=True), zip(*seen, strict=True), strict=True):
        signal = sum(power(one) for one in expected)
        noise = sum(power(a.astype(np.float64) - b) for a, b in zip(expected, got, strict=True))
        figures.append(float(decibels(np.array([signal]), np.array([noise]))))
    return figures
