"""`atonc run`: a compiled network, its inputs, what it computed and how long the chip would take.

Here the witnesses meet: the emulator (emu), the cycle models and the safety rules (hw), the model side (compare).
"""

from __future__ import annotations

import hashlib
import io
import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atonc.insight.runs import edge_inputs
from atonc.insight.runs.edge_inputs import EdgeBuffers
from atonc.insight.runs.run_options import RunOptions as RunOptions
from atonc.machine.base.disk import write_file, write_files
from atonc.machine.base.frozen import dataclass
from atonc.machine.emu import network as emulated
from atonc.machine.emu import tensors
from atonc.machine.emu.files.types import BufferInfo
from atonc.machine.emu.network import EmulatedNetwork, NetworkStep
from atonc.machine.hw.stream import Stream

Array = NDArray[Any]


@dataclass(frozen=True)
class Snapshot:
    """A buffer right after the epoch that wrote it."""

    info: BufferInfo
    epoch: int
    data: Array  # in memory order


@dataclass(frozen=True)
class StreamSnapshot:
    """The bytes that a processing unit sent through the stream switch."""

    unit: str
    epoch: int
    data: Array


@dataclass(frozen=True)
class RunResult:
    net: EmulatedNetwork
    inputs: Mapping[str, Array]
    outputs: Mapping[str, Array]
    steps: tuple[NetworkStep, ...]
    snapshots: tuple[Snapshot, ...] = ()
    streams: tuple[StreamSnapshot, ...] = ()
    seconds: float = 0.0
    complete: bool = True


def run(options: RunOptions, progress: Callable[[int, int], None] | None = None) -> RunResult:
    """Loads and executes a network; `progress(done, total)` is called after every epoch."""
    net = load(options)
    inputs = choose_inputs(net, options)
    return execute(net, inputs, options, progress)


def load(options: RunOptions) -> EmulatedNetwork:
    return emulated.load(options.directory, options.name, list(options.weights) or None, options.blobs)


def execute(
    net: EmulatedNetwork,
    inputs: Mapping[str, Array],
    options: RunOptions,
    progress: Callable[[int, int], None] | None = None,
) -> RunResult:
    start = time.perf_counter()
    for index, info in enumerate(net.inputs):
        net.write_input(index, inputs[info.name])
    watch = _Watcher(net) if options.observe else None
    done = []
    for step in net.run(options.until, watch.after if watch else None, watch.stream if watch else None):
        done.append(step)
        if progress is not None:
            progress(len(done), len(net.steps))
    complete = len(done) == len(net.steps)
    outputs = {info.name: net.read_output(k) for k, info in enumerate(net.outputs)} if complete else {}
    seconds = time.perf_counter() - start
    buffers, streams = (tuple(watch.snapshots), tuple(watch.streams)) if watch else ((), ())
    return RunResult(net, inputs, outputs, tuple(done), buffers, streams, seconds, complete)


class _Watcher:
    """Copies the buffers that each epoch wrote, and what went between its units."""

    def __init__(self, net: EmulatedNetwork) -> None:
        self.net, self.snapshots = net, list[Snapshot]()
        self.streams, self._pending = list[StreamSnapshot](), list[tuple[str, Array]]()
        self.by_epoch: dict[int, list[BufferInfo]] = {}
        unique = {(b.name, b.address, b.epoch): b for b in (*net.network.internals, *net.outputs) if not b.is_param}
        # a scratch buffer holds one frame of a tensor at a time: its table entry is larger than its memory
        for info in filter(tensors.is_whole, unique.values()):
            self.by_epoch.setdefault(info.epoch, []).append(info)

    def stream(self, unit: str, stream: Stream) -> None:
        values = stream.flat()
        if values.dtype.itemsize == 1:  # wider ones are partial results, not tensors of the model
            self._pending.append((unit, values))

    def after(self, step: NetworkStep) -> None:
        self.streams += [StreamSnapshot(unit, step.number, data) for unit, data in self._pending]
        self._pending.clear()
        for info in self.by_epoch.get(step.number, []):
            self.snapshots.append(Snapshot(info, step.number, tensors.read_memory_order(info, self.net.memory)))


# ------------------------------------------------------------------------------------------------------------ inputs


def choose_inputs(net: EmulatedNetwork, options: RunOptions) -> dict[str, Array]:
    """What the files hold, or natural-looking data from the seed."""
    return edge_inputs.choose(edges_of(net), options.inputs, options.seed)


def edges_of(net: EmulatedNetwork) -> EdgeBuffers:
    return EdgeBuffers(net.inputs, net.network.internals)


def digest(value: Array) -> str:
    return hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()


# ----------------------------------------------------------------------------------------------------------- writing


def save_arrays(path: Path, arrays: Mapping[str, Array]) -> None:
    """An .npz, complete or not there at all."""
    write_file(path, npz(arrays))


def npz(arrays: Mapping[str, Array]) -> bytes:
    file = io.BytesIO()
    np.savez(file, **{_safe(name): value for name, value in arrays.items()})  # type: ignore[arg-type]
    return file.getvalue()


def dump(folder: Path, result: RunResult) -> None:
    """One .npz per epoch with the buffers that it wrote, all together."""
    by_epoch: dict[int, dict[str, Array]] = {}
    for snapshot in result.snapshots:
        by_epoch.setdefault(snapshot.epoch, {})[snapshot.info.name] = snapshot.data
    write_files(folder, {f"epoch_{number:04d}.npz": npz(arrays) for number, arrays in by_epoch.items()})


def _safe(name: str) -> str:
    """Names come from the network: nothing in them may act as a path."""
    return re.sub(r"[^\w.:-]", "_", name)
