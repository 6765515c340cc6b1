"""States of a network in a folder: where they lie, and what NAME_program.json tells of their names and formats.

That file may have been edited or belong to another build: everything in it is checked, and nothing of it is needed."""

from __future__ import annotations

import json
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atonc.machine.base.disk import read_file
from atonc.machine.base.errors import InputError, plain
from atonc.machine.base.frozen import dataclass
from atonc.machine.emu.bus import AddressSpace
from atonc.machine.emu.files.types import CompiledNetwork, KeptState

KEY = "states"
_MOST_BYTES, _MOST_STATES, _MOST_NAME = 1 << 26, 1000, 4096
_TYPES = ("int8", "uint8", "int16", "int32", "float32", "bool")


@dataclass(frozen=True)
class StateView:
    """A state of a network: its memory, and how the bytes there are values."""

    name: str
    memory: KeptState
    dtype: str = "uint8"
    shape: tuple[int, ...] = ()
    scale: float | None = None
    zero_point: int = 0
    turned: tuple[int, ...] = ()  # which axes of the model's tensor these are, where their order is another

    def read(self, memory: AddressSpace) -> NDArray[Any]:
        return self.values(memory.read(self.memory.address, len(self.memory.first)))

    def values(self, stored: NDArray[np.uint8]) -> NDArray[Any]:
        """Codes, or real numbers, of the bytes in memory."""
        return stored.copy().view(_stored(self.dtype)).reshape(self.shape)


def _stored(dtype: str) -> np.dtype[Any]:
    return np.dtype(np.uint8 if dtype == "bool" else dtype)


def named_states(network: CompiledNetwork) -> tuple[StateView, ...]:
    """In the order of the C file; without a name that is told they are numbered."""
    told = _told(network) if network.states else {}
    return tuple(
        told.get((one.address, len(one.first))) or StateView(f"state {k}", one, shape=(len(one.first),))
        for k, one in enumerate(network.states, 1)
    )


def table_rows(network: CompiledNetwork) -> dict[str, int]:
    """How many rows the table has, for inputs that are indices of one; as the build has told."""
    try:
        root = json.loads(read_file(network.directory / f"{network.stem}_program.json", _MOST_BYTES))
        rows = [root.get("table_rows", {}).get(name) for name in root["inputs"]]
        return {info.name: n for info, n in zip(network.inputs, rows, strict=True) if type(n) is int and n > 0}
    except (InputError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return {}


def _told(network: CompiledNetwork) -> dict[tuple[int, int], StateView]:
    try:
        root = json.loads(read_file(network.directory / f"{network.stem}_program.json", _MOST_BYTES))
        rows = root.get(KEY, []) if isinstance(root, dict) else []
        known = {(one.address, len(one.first)): one for one in network.states}
        if not isinstance(rows, list) or len(rows) > _MOST_STATES:
            return {}
        found = {key: _view(row, known[key]) for row in rows if (key := (row["address"], row["size_bytes"])) in known}
        return found if len({one.name for one in found.values()}) == len(found) else {}
    except (InputError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return {}


def _view(row: dict[str, Any], memory: KeptState) -> StateView:
    name, dtype, shape, zero = row["name"], row["dtype"], row["shape"], row.get("zero_point", 0)
    whole = isinstance(name, str) and len(name) <= _MOST_NAME and dtype in _TYPES and type(zero) is int
    sizes = isinstance(shape, list) and len(shape) <= 8 and all(type(size) is int and size > 0 for size in shape)
    turned = tuple(row.get("turned", ()))
    sizes = sizes and (not turned or sorted(turned) == list(range(len(shape))))
    if not whole or not sizes or prod(shape) * _stored(dtype).itemsize != len(memory.first):
        raise ValueError("no state of this build")
    scale = row.get("scale")
    scale = None if scale is None else float(scale)
    return StateView(plain(name), memory, dtype, tuple(shape), scale, zero, turned)
