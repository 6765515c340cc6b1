"""What a network computed on a board and how long it took. It names neither people, files nor folders: models and
programs are known by their hashes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atonc.machine.base.frozen import dataclass

FORMAT, VERSION = "atonc recording", 1
VIRTUAL = "virtual board"
# whoever gives something on needs to be allowed to: licences for data and code that let everybody use it
LICENCES = ("CC0-1.0", "CC-BY-4.0", "ODC-By-1.0", "Apache-2.0", "MIT", "BSD-3-Clause")
INPUTS, OUTPUTS, EXPECTED = "c_inputs", "c_outputs", "m_outputs"  # as ST's tool calls them: c_ the target, m_ the model
Array = NDArray[Any]


@dataclass(frozen=True)
class RecordedTensor:
    """An input or output, as one sample has it."""

    shape: tuple[int, ...]
    dtype: str
    scale: float
    zero_point: int


@dataclass(frozen=True)
class RecordedBlock:
    """Epochs that ran as one: cycles of the processor before, while and after the NPU worked; what was predicted."""

    first: int
    last: int
    before: int
    core: int
    after: int
    predicted_ms: float = 0.0

    @property
    def cycles(self) -> int:
        return self.before + self.core + self.after


@dataclass(frozen=True)
class Statement:
    """What only the giver knows."""

    board: str = ""  # VIRTUAL, or which one
    licence: str = ""  # its SPDX name


@dataclass(frozen=True)
class RanWith:
    """Versions and clocks, as the board told them, and what was asked of the compiler."""

    atonc: str
    firmware: str
    device: int
    cpu_hz: int
    npu_hz: int
    options: tuple[str, ...] = ()


@dataclass(frozen=True)
class Recording:
    stated: Statement
    ran_with: RanWith
    model_sha256: str  # of the model, or of the relocatable image; empty where nobody knew it
    program: str  # the firmware's hash of the network
    inputs: tuple[RecordedTensor, ...]
    outputs: tuple[RecordedTensor, ...]
    milliseconds: tuple[float, ...]  # of every sample
    blocks: tuple[RecordedBlock, ...]  # of the first sample
    arrays: Mapping[str, Array] = field(repr=False)  # INPUTS_1, ..., samples first

    @property
    def samples(self) -> int:
        return len(self.milliseconds)

    @property
    def virtual(self) -> bool:
        return self.stated.board == VIRTUAL

    @property
    def expects(self) -> bool:
        """Whether the outputs of the emulator are in it."""
        return f"{EXPECTED}_1" in self.arrays

    @property
    def different(self) -> int:
        """Bytes of the outputs that are not the emulator's."""
        pairs = ((self.array(OUTPUTS, k), self.array(EXPECTED, k)) for k in range(len(self.outputs)))
        return sum(different_bytes(mine, theirs) for mine, theirs in pairs) if self.expects else 0

    @property
    def blocks_ms(self) -> float:
        return 1e3 * sum(block.cycles for block in self.blocks) / self.ran_with.cpu_hz

    def array(self, side: str, index: int) -> Array:
        return self.arrays[f"{side}_{index + 1}"]

    def manifest(self) -> dict[str, Any]:
        """Everything but the arrays, with the hash of each, and one over all of it."""
        told: dict[str, Any] = {"format": FORMAT, "version": VERSION}
        told |= {key: value for key, value in asdict(self).items() if key != "arrays"}
        told["sha256"] = {name: digest(value) for name, value in sorted(self.arrays.items())}
        return {**told, "whole_sha256": whole_hash(told)}


def whole_hash(told: Mapping[str, Any]) -> str:
    words = {key: value for key, value in told.items() if key != "whole_sha256"}
    return hashlib.sha256(json.dumps(words, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def digest(value: Array) -> str:
    return hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()


def different_bytes(one: Array, other: Array) -> int:
    flat = (np.frombuffer(np.ascontiguousarray(value).tobytes(), np.uint8) for value in (one, other))
    return int((next(flat) != next(flat)).sum())
