"""`atonc run`: a compiled network, its inputs (from files, or from a seed, which means the same as for the model), what
it computed, and comparisons with another run or with the model.

Here the witnesses meet: the emulator (emu), the cycle models and the safety rules (hw), the model side (compare)."""

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

from atonc.compiler.compare.layers import LayerReport, ObservedBuffer, check_layers
from atonc.compiler.compare.metrics import cosine, lsb_histogram
from atonc.compiler.frontends.custom_file import read_custom
from atonc.compiler.frontends.read import read
from atonc.compiler.inputs.arrays import is_arrays, is_csv, read_arrays
from atonc.compiler.ir import Graph
from atonc.insight.runs.run_options import RunOptions as RunOptions
from atonc.machine.base.disk import read_start, write_file, write_files
from atonc.machine.base.errors import InputError
from atonc.machine.base.frozen import dataclass
from atonc.machine.base.words import count
from atonc.machine.emu import network as emulated
from atonc.machine.emu import tensors
from atonc.machine.emu.batches import frames_of, joined, refuse_states
from atonc.machine.emu.files.types import BufferInfo
from atonc.machine.emu.network import EmulatedNetwork, NetworkStep
from atonc.machine.emu.states import table_rows
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
    frames: int = 0  # of a network with states: that ran in order, from its first states on


def run(options: RunOptions, progress: Callable[[int, int], None] | None = None) -> RunResult:
    """Loads and executes a network; `progress(done, total)` is called after every epoch."""
    net = load(options)
    inputs = choose_inputs(net, options)
    return execute(net, inputs, options, progress)


def load(options: RunOptions) -> EmulatedNetwork:
    net = emulated.load(options.directory, options.name, list(options.weights) or None, options.blobs)
    net.custom = {one.function: one for one in read_custom(options.custom).values()}
    return net


def execute(
    net: EmulatedNetwork,
    inputs: Mapping[str, Array],
    options: RunOptions,
    progress: Callable[[int, int], None] | None = None,
) -> RunResult:
    last = net.steps[-1].number if net.steps else 0
    frames = sequence_of(net, inputs, options)
    if options.until is not None and not 1 <= options.until <= last:
        raise InputError(f"there is no epoch {options.until}", where="--until", remedy=f"say an epoch from 1 to {last}")
    start = time.perf_counter()
    watch = _Watcher(net) if options.observe else None
    found = []
    net.reset()
    for number, frame in enumerate(frames):
        for index, info in enumerate(net.inputs):
            net.write_input(index, frame[info.name])
        done = []
        for step in net.run(options.until, watch.after if watch else None, watch.stream if watch else None):
            done.append(step)
            if progress is not None:
                progress(number * len(net.steps) + len(done), len(frames) * len(net.steps))
        if len(done) == len(net.steps):
            found.append({info.name: net.read_output(k) for k, info in enumerate(net.outputs)})
    outputs = joined(found) if len(found) > 1 else found[0] if found else {}
    seconds = time.perf_counter() - start
    buffers, streams = (tuple(watch.snapshots), tuple(watch.streams)) if watch else ((), ())
    count = len(frames) if net.network.states else 0
    whole = bool(found)
    return RunResult(net, inputs, outputs, tuple(done), buffers, streams, seconds, complete=whole, frames=count)


def sequence_of(net: EmulatedNetwork, inputs: Mapping[str, Array], options: RunOptions) -> list[Mapping[str, Array]]:
    """The frames of a network with states; of any other network the one sample."""
    if not net.network.states:
        if options.frames:
            raise InputError("--frames for a network without states", rule="frames are those of a sequence",
                             remedy="leave it out")  # fmt: skip
        return [inputs]
    frames = [*frames_of({info.name: tensors.io_shape(info) for info in net.inputs}, inputs)]
    wrong = "--frames" if options.inputs and options.frames not in (0, len(frames)) else ""
    if wrong:
        raise InputError(f"{options.frames} for {count(len(frames), 'frame')} of data", where=wrong,
                         rule="a run is one sequence", remedy="leave it out, or give so many frames")  # fmt: skip
    if len(frames) > 1 and (options.observe or options.until is not None):
        raise InputError("layers and epochs of a sequence", rule="--dump, --layers, --compare and --until look at one "
                         "frame", remedy="give the first frame alone, or use atonc validate --frames")  # fmt: skip
    return list(frames)


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
    edges = edges_of(net)
    if not options.frames or options.inputs:
        found = choose_from(edges, options.inputs, options.seed, [one.name for one in net.states])
        rows = table_rows(net.network) if options.inputs else {}
        for name, value in found.items():
            tensors.require_rows(name, value, rows, ", ".join(map(str, options.inputs)))
        return found
    made_ones = [made(edges, options.seed + k) for k in range(options.frames)]
    return {name: np.stack([one[name] for one in made_ones]) for name in made_ones[0]}


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


@dataclass(frozen=True)
class EdgeBuffers:
    """What a network says of its inputs; of what it keeps inside, quantised copies of float inputs are looked for."""

    inputs: tuple[BufferInfo, ...]
    internals: tuple[BufferInfo, ...] = ()


def choose_from(edges: EdgeBuffers, files: Sequence[Path], seed: int, states: Sequence[str] = ()) -> dict[str, Array]:
    """What the files hold, or natural-looking data from the seed."""
    return from_files(edges, files, states) if files else made(edges, seed)


def made(edges: EdgeBuffers, seed: int) -> dict[str, Array]:
    from atonc.compiler.compare.inputs import NaturalInput, make_values

    wanted = []
    for info in edges.inputs:
        shape, dtype = tensors.io_shape(info), tensors.dtype_of(info)
        if not 0 < prod(shape) * dtype.itemsize <= info.size_bytes:
            raise InputError(f"input {info.name} of shape {shape} does not fit its {info.size_bytes:,} bytes")
        layout = "NCHW" if info.chpos == "First" else "NHWC"
        wanted.append(NaturalInput(shape, dtype.name, layout, float_range(edges, info)))
    return {info.name: value for info, value in zip(edges.inputs, make_values(wanted, seed), strict=True)}


def from_files(edges: EdgeBuffers, paths: Sequence[Path], states: Sequence[str] = ()) -> dict[str, Array]:
    infos = edges.inputs
    arrays: dict[str, Array] = {}
    positional: list[Array] = []
    for path in paths:
        if is_csv(path) or is_arrays(read_start(path)):
            named = read_arrays(path)
            refuse_states(named, states, str(path))
            known = {info.name for info in infos}
            arrays |= {name: value for name, value in named.items() if name in known}
            positional += [value for name, value in named.items() if name not in known]
        else:
            positional.append(image_input(edges, infos[len(positional) % len(infos)], path))
    missing = [info.name for info in infos if info.name not in arrays]
    if len(missing) != len(positional):
        raise InputError(
            f"the network has {count(len(infos), 'input')} ({', '.join(i.name for i in infos)}), "
            f"the files give {len(arrays) + len(positional)}",
            where=", ".join(map(str, paths)),
            remedy="name the arrays of an .npz after the inputs, or give one file per input in order",
        )
    return arrays | dict(zip(missing, positional, strict=True))


def samples_from(infos: Sequence[BufferInfo], paths: Sequence[Path], limit: int = 0) -> list[Mapping[str, Array]]:
    """Several inputs each: a first axis beyond the network's own counts them; also by ST's names (m_inputs_1, ...)."""
    found: list[Mapping[str, Array]] = []
    for path in paths:
        arrays = read_arrays(path)
        rows = []
        for k, info in enumerate(infos):
            value = arrays.get(info.name, arrays.get(f"m_inputs_{k + 1}"))
            if value is None and len(arrays) == len(infos):
                value = list(arrays.values())[k]
            shape = tensors.io_shape(info)
            if value is None or value.size % prod(shape):
                raise InputError(f"holds no inputs of shape {shape} for {info.name}", where=str(path))
            rows.append(list(value.reshape(-1, *shape)))
        names = [info.name for info in infos]
        found += [dict(zip(names, values, strict=True)) for values in zip(*rows, strict=True)]
    return found[:limit] if limit else found


def image_input(edges: EdgeBuffers, info: BufferInfo, path: Path) -> Array:
    """An image, resized to the input; floats span the range that the network quantises them with."""
    from atonc.compiler.inputs.images import pixel_codes, read_image

    pixels = read_image(path, tensors.io_shape(info))
    dtype = tensors.dtype_of(info)
    if dtype.kind == "f":
        low, high = float_range(edges, info)
        return (low + pixels / np.float32(255) * (high - low)).astype(dtype)
    return pixel_codes(pixels, dtype.name)


def float_range(edges: EdgeBuffers, info: BufferInfo) -> tuple[float, float]:
    """The real numbers that the codes of a float input's quantised copy stand for; 0..1 when there is none."""
    elements = prod(tensors.io_shape(info))
    for buffer in sorted(edges.internals, key=lambda b: b.epoch):
        if buffer.type in ("INT8", "UINT8", "INT16") and buffer.scales and prod(tensors.io_shape(buffer)) == elements:
            limits = np.iinfo(tensors.dtype_of(buffer))
            offset, scale = buffer.offsets[0], float(np.float32(buffer.scales[0]))  # text has fewer digits than numbers
            return (limits.min - offset) * scale, (limits.max - offset) * scale
    return 0.0, 1.0


@dataclass(frozen=True)
class BufferDifference:
    """How one buffer differs from the reference."""

    name: str
    epoch: int
    elements: int
    histogram: Mapping[int, int]  # difference in codes -> count; floats count as 0 or 1 for equal or not
    cosine: float

    @property
    def different(self) -> int:
        return sum(count for difference, count in self.histogram.items() if difference)


def compare_run(result: RunResult, reference: Mapping[str, Array]) -> list[BufferDifference]:
    """Every buffer and output that the reference names, in the order of the epochs."""
    found = [(s.info.name, s.epoch, s.data) for s in result.snapshots if s.info.name in reference]
    last = result.steps[-1].number if result.steps else 0
    seen = {name for name, _, _ in found}
    found += [(n, last, v) for n, v in result.outputs.items() if n in reference and n not in seen]
    if not found:
        raise InputError(
            "the reference names no buffer or output of this network",
            remedy="use a file written by --output or a folder written by --dump",
        )
    return [_difference(name, epoch, data, reference[name]) for name, epoch, data in found]


def _difference(name: str, epoch: int, data: Array, expected: Array) -> BufferDifference:
    if data.size != expected.size:
        raise InputError(
            f"{name} has {data.size} elements here and {expected.size} in the reference",
            remedy="compare runs of the same network",
        )
    expected = expected.reshape(data.shape)
    if data.dtype.kind == "f" or expected.dtype.kind == "f":
        unequal = int((data != expected).sum())
        histogram = {0: data.size - unequal, 1: unequal}
    else:
        histogram = lsb_histogram(data, expected)
    return BufferDifference(name, epoch, data.size, histogram, cosine(data, expected))


def read_reference(path: Path) -> dict[str, Array]:
    """An .npz, or all of them in a folder written by --dump."""
    files = sorted(path.glob("epoch_*.npz")) if path.is_dir() else [path]
    if not files:
        raise InputError("the folder holds no epoch_*.npz", where=str(path), remedy="write one with --dump")
    merged: dict[str, Array] = {}
    for file in files:
        merged |= read_arrays(file)
    return merged


# ------------------------------------------------------------------------------------------------------------ layers


def read_model(path: Path, custom: str = "") -> Graph:
    """The graph of a TFLite or ONNX file. `custom`: the file that declares C operators of the user."""
    if path.suffix not in (".tflite", ".onnx"):
        raise InputError("neither .tflite nor .onnx", where=str(path), remedy="give the model that was compiled")
    return read(path, custom=custom)


def layer_report(result: RunResult, graph: Graph) -> LayerReport:
    """Each layer on the inputs that it really had, against exact arithmetic."""
    buffers = [observed(s) for s in result.snapshots]
    streams = [ObservedBuffer(s.unit, s.epoch, None, 0, s.data.shape, s.data) for s in result.streams]
    return check_layers(graph, model_inputs(result, graph), [*buffers, *streams])


def observed(snapshot: Snapshot) -> ObservedBuffer:
    info = snapshot.info
    data = tensors.channel_last(info, snapshot.data)
    scale = info.scales[0] if len(info.scales) == 1 else None
    offset = info.offsets[0] if len(info.offsets) == 1 else 0
    return ObservedBuffer(info.name, snapshot.epoch, scale, offset, data.shape, data)


def model_inputs(result: RunResult, graph: Graph) -> dict[str, Array]:
    """The network's inputs in the types and layouts of the model's inputs, in order."""
    values: dict[str, Array] = {}
    if len(graph.frame_inputs) != len(result.net.inputs):
        inputs = count(len(graph.frame_inputs), "input")
        raise InputError(f"the model has {inputs}, the network {len(result.net.inputs)}")
    values |= {state.input: state.first for state in graph.states if state.kept}
    for name, info in zip(graph.frame_inputs, result.net.inputs, strict=True):
        values[name] = _as_model_input(result.inputs[info.name], info, graph, name)
    return values


def _as_model_input(value: Array, info: Any, graph: Graph, name: str) -> Array:
    tensor = graph.tensors[name]
    wanted = np.dtype(tensor.dtype)
    value = _arranged(value, tensor.shape, name)
    if value.dtype == wanted:
        return value
    scale, zero = (info.scales[0], info.offsets[0]) if info.scales else (1.0, 0)
    real = value.astype(np.float64) if value.dtype.kind == "f" else (value.astype(np.float64) - zero) * scale
    if wanted.kind == "f":
        return real.astype(wanted)
    quant = tensor.quant
    if quant is None:
        raise InputError(f"the model's input {name} has no quantisation to convert {value.dtype} data with")
    codes = np.rint(real / float(quant.scales[0])) + int(quant.zero_points[0])
    limits = np.iinfo(wanted)
    converted: Array = np.clip(codes, limits.min, limits.max).astype(wanted)
    return converted


def _arranged(value: Array, shape: tuple[int, ...], name: str) -> Array:
    """The same elements in the model's shape: equal up to axes of size one, or channel last against first."""
    plain = tuple(d for d in value.shape if d != 1)
    wanted = tuple(d for d in shape if d != 1)
    if plain == wanted:
        return value.reshape(shape)
    if value.ndim == 4 and len(shape) == 4:
        for axes in ((0, 3, 1, 2), (0, 2, 3, 1)):
            if tuple(value.shape[a] for a in axes) == shape:
                return np.ascontiguousarray(value.transpose(axes))
    raise InputError(f"the network's input has shape {value.shape}, the model's input {name} {shape}")
