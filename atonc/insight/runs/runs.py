"""`atonc run`: a compiled network, its inputs, what it computed and how long the chip would take.

Here the witnesses meet: the emulator (emu), the cycle models and the safety rules (hw), the model side (compare).
"""

from __future__ import annotations

import hashlib
import io
import re
import time
from collections.abc import Callable, Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atonc.compiler.inputs.arrays import is_arrays, is_csv, read_arrays
from atonc.insight.runs.run_options import RunOptions as RunOptions
from atonc.machine.base.disk import read_start, write_file, write_files
from atonc.machine.base.errors import InputError
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
    if options.inputs:
        return _from_files(net, options.inputs)
    return {info.name: synthetic_input(net, info, options.seed + k) for k, info in enumerate(net.inputs)}


def synthetic_input(net: EmulatedNetwork, info: BufferInfo, seed: int) -> Array:
    """A photo-like pattern over the codes (or the quantised range of floats) of an input."""
    from atonc.compiler.compare.inputs import unit_values

    shape, dtype = tensors.io_shape(info), tensors.dtype_of(info)
    if not 0 < prod(shape) * dtype.itemsize <= info.size_bytes:
        raise InputError(f"input {info.name} of shape {shape} does not fit its {info.size_bytes:,} bytes")
    values = unit_values(shape, seed, "NHWC")
    if dtype.kind == "f":
        low, high = float_range(net, info)
        return (low + values * (high - low)).astype(dtype)
    limits = np.iinfo(dtype)
    return np.rint(limits.min + values * (int(limits.max) - int(limits.min))).astype(dtype)


def _from_files(net: EmulatedNetwork, paths: Sequence[Path]) -> dict[str, Array]:
    infos = net.inputs
    arrays: dict[str, Array] = {}
    positional: list[Array] = []
    for path in paths:
        if is_csv(path) or is_arrays(read_start(path)):
            named = read_arrays(path)
            known = {info.name for info in infos}
            arrays |= {name: value for name, value in named.items() if name in known}
            positional += [value for name, value in named.items() if name not in known]
        else:
            positional.append(image_input(net, infos[len(positional) % len(infos)], path))
    missing = [info.name for info in infos if info.name not in arrays]
    if len(missing) != len(positional):
        raise InputError(
            f"the network has {len(infos)} inputs ({', '.join(i.name for i in infos)}), "
            f"the files give {len(arrays) + len(positional)}",
            where=", ".join(map(str, paths)),
            remedy="name the arrays of an .npz after the inputs, or give one file per input in order",
        )
    return arrays | dict(zip(missing, positional, strict=True))


def samples_from(net: EmulatedNetwork, paths: Sequence[Path], limit: int = 0) -> list[Mapping[str, Array]]:
    """Several inputs each: a first axis beyond the network's own counts them; also by ST's names (m_inputs_1, ...)."""
    found: list[Mapping[str, Array]] = []
    for path in paths:
        arrays = read_arrays(path)
        rows = []
        for k, info in enumerate(net.inputs):
            value = arrays.get(info.name, arrays.get(f"m_inputs_{k + 1}"))
            if value is None and len(arrays) == len(net.inputs):
                value = list(arrays.values())[k]
            shape = tensors.io_shape(info)
            if value is None or value.size % prod(shape):
                raise InputError(f"holds no inputs of shape {shape} for {info.name}", where=str(path))
            rows.append(list(value.reshape(-1, *shape)))
        names = [info.name for info in net.inputs]
        found += [dict(zip(names, values, strict=True)) for values in zip(*rows, strict=True)]
    return found[:limit] if limit else found


def image_input(net: EmulatedNetwork, info: BufferInfo, path: Path) -> Array:
    """An image, resized to the input; uint8 codes are pixels, int8 codes pixels - 128, floats span the range that the
    network quantises them with."""
    from atonc.compiler.inputs.images import read_image

    pixels = read_image(path, tensors.io_shape(info))
    dtype = tensors.dtype_of(info)
    if dtype.kind == "f":
        low, high = float_range(net, info)
        return (low + pixels / np.float32(255) * (high - low)).astype(dtype)
    return pixels if dtype == np.uint8 else (pixels.astype(np.int16) - 128).astype(dtype)


def float_range(net: EmulatedNetwork, info: BufferInfo) -> tuple[float, float]:
    """The real numbers that the codes of a float input's quantised copy stand for; 0..1 when there is none."""
    elements = prod(tensors.io_shape(info))
    for buffer in sorted(net.network.internals, key=lambda b: b.epoch):
        if buffer.type in ("INT8", "UINT8") and buffer.scales and prod(tensors.io_shape(buffer)) == elements:
            limits = np.iinfo(tensors.dtype_of(buffer))
            offset, scale = buffer.offsets[0], buffer.scales[0]
            return (limits.min - offset) * scale, (limits.max - offset) * scale
    return 0.0, 1.0


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
