"""Inputs for a network that nobody needs the model of: from files, or from a seed.

A seed means the same everywhere: what `atonc validate` makes for the model (`compiler.compare.inputs`), made here for
the buffers of the compiled network, which have the model's shapes and formats unless the user asked for others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atonc.compiler.inputs.arrays import is_arrays, is_csv, read_arrays
from atonc.machine.base.disk import read_start
from atonc.machine.base.errors import InputError
from atonc.machine.base.frozen import dataclass
from atonc.machine.base.words import count
from atonc.machine.emu import tensors
from atonc.machine.emu.files.types import BufferInfo

Array = NDArray[Any]


@dataclass(frozen=True)
class EdgeBuffers:
    """What a network says of its inputs; of what it keeps inside, quantised copies of float inputs are looked for."""

    inputs: tuple[BufferInfo, ...]
    internals: tuple[BufferInfo, ...] = ()


def choose(edges: EdgeBuffers, files: Sequence[Path], seed: int) -> dict[str, Array]:
    """What the files hold, or natural-looking data from the seed."""
    return from_files(edges, files) if files else made(edges, seed)


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


def from_files(edges: EdgeBuffers, paths: Sequence[Path]) -> dict[str, Array]:
    infos = edges.inputs
    arrays: dict[str, Array] = {}
    positional: list[Array] = []
    for path in paths:
        if is_csv(path) or is_arrays(read_start(path)):
            named = read_arrays(path)
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
