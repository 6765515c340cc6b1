"""A network with states over a sequence of frames: the program against the integer functions that it was mapped to,
each with the states that its own frame before has left.

Every layer output, every output and every state must be equal, byte for byte, in every frame: a difference of one code
would be in all frames that follow. Where the CPU computes with real numbers, which exact arithmetic rounds otherwise,
layers are compared within the limits of every validation instead. How far both drift from the model's own kernels is
another question, which the outputs answer (`judging.py`) and `Drift` shows frame by frame.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import field

import numpy as np

from atonc.compiler.compile.pipeline import Compiled
from atonc.compiler.inputs.inputs import Sample, frame_inputs
from atonc.compiler.ir import Array, Graph
from atonc.compiler.lower.semantics.run import run_mapped
from atonc.compiler.ops import run_graph
from atonc.compiler.verify.emulation import Emulation
from atonc.compiler.verify.verify import Layers
from atonc.insight.validating.judging import unit_of
from atonc.insight.validating.references import EXACT, Edges, References, as_program, exact_values
from atonc.machine.base.frozen import dataclass
from atonc.machine.cost.band import PredictionBand

FRAMES = 20  # of a made sequence


@dataclass(frozen=True)
class Drift:
    """How far an output of the program is from the yardstick's, frame by frame."""

    output: str
    against: str
    codes: tuple[float, ...]  # root mean square distance in codes by frame of a sequence; of several the mean

    @property
    def worst(self) -> int:
        """The frame that is furthest, from 0 on."""
        return int(np.argmax(self.codes)) if self.codes else 0

    @property
    def ends(self) -> tuple[float, float]:
        """The mean of the first quarter of the frames, and that of the last one."""
        part = max(1, len(self.codes) // 4)
        return float(np.mean(self.codes[:part])), float(np.mean(self.codes[-part:]))


@dataclass(frozen=True)
class SequenceResult:
    frames: int  # of all sequences together
    sequences: int  # each from first states
    tensors: int  # that were compared in every frame
    states: int
    states_bytes: int
    compared: int  # bytes
    different: int
    first: str  # where the first of them is
    real: int  # frames whose real numbers of the CPU were compared within their limits, and so all behind them
    latency_ms: float  # predicted
    band: PredictionBand = field(repr=False)  # its error bounds
    hop_ms: float = 0.0  # from frame to frame, where the user says so
    drift: tuple[Drift, ...] = field(default=(), repr=False)


@dataclass
class CarriedStates:
    """The states of one side, in the formats of its graph."""

    graph: Graph
    values: dict[str, Array] = field(default_factory=dict)

    def reset(self) -> None:
        self.values = {one.input: one.first for one in self.graph.states if one.kept}

    def take(self, found: Mapping[str, Array]) -> None:
        """What one run leaves for the next."""
        pairs = [(one, np.asarray(found[one.output])) for one in self.graph.states if one.kept]
        self.values = {one.input: left.reshape(one.first.shape).astype(one.first.dtype) for one, left in pairs}

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """A frame in exact arithmetic."""
        found = run_graph(self.graph, {**inputs, **self.values})
        self.take(found)
        return found


def _bytes(value: Array, like: Array) -> bytes:
    return np.ascontiguousarray(value.astype(like.dtype)).tobytes()


class Chain:
    """The program on the emulator, its states in its memory, beside what its layers mean, frame by frame."""

    def __init__(self, compiled: Compiled, emulation: Emulation, starts: Sequence[int]) -> None:
        """`starts`: the numbers of frames where sequences begin."""
        self.compiled, self.emulation, self.starts = compiled, emulation, frozenset(starts)
        self.states = CarriedStates(compiled.graph)
        self.frames = self.compared = self.different = self.real = 0
        self.first = ""
        self.tensors: frozenset[str] = frozenset()
        self.last: dict[str, Array] = {}  # inputs of the last frame, with its states

    @property
    def begins(self) -> bool:
        """Whether the next frame is the first of a sequence."""
        return self.frames in self.starts

    def frame(self, sample: Sample) -> dict[str, Array]:
        """What the program makes of the next frame. Its states are those that the frame before was seen to leave, and
        all that it left was equal: so it is the whole chain that is equal."""
        if self.begins:
            self.emulation.reset()
            self.states.reset()
        for name, value in self.states.values.items():
            self._compare(f"{name} before it", self.emulation.load(name), value)
        given = frame_inputs(self.compiled, sample)
        self.last = {**given, **self.states.values}
        found = self.emulation.run(given, observe=True)
        self._layers(found)
        self.states.take(found)
        self.frames += 1
        return found

    def _layers(self, found: Mapping[str, Array]) -> None:
        graph = self.compiled.graph
        right = run_mapped(graph, self.compiled.mapped, self.last)
        names = [name for name in found if name in right and graph.tensors[name].data is None]
        self.tensors |= frozenset(names)
        real = (name for name in names if graph.tensors[name].is_float)
        if any(_bytes(found[name], found[name]) != _bytes(right[name], found[name]) for name in real):
            self.real += 1
            bad = next((one for one in Layers.of(self.compiled).check(self.last, found) if one.bad), None)
            if bad is not None:
                self._differs(bad.tensor, 1, found[bad.tensor].size)
            return
        for name in names:
            self._compare(name, found[name], right[name])

    def _compare(self, name: str, found: Array, right: Array) -> None:
        one, other = (np.frombuffer(_bytes(value, found), np.uint8) for value in (found, right))
        self.compared += one.size
        if wrong := int((one != other).sum()):
            self._differs(name, wrong, one.size)

    def _differs(self, name: str, wrong: int, size: int) -> None:
        self.different += wrong
        if not self.first:
            self.first = f"frame {self.frames}, {name!r}: {wrong} of {size} bytes"
            self.first += unreset(self.frames, self.starts)

    def result(self, hop_ms: float, drift: Sequence[Drift] = ()) -> SequenceResult:
        kept = self.compiled.program.states
        return SequenceResult(
            frames=self.frames,
            sequences=len(self.starts),
            tensors=len(self.tensors),
            states=len(kept),
            states_bytes=sum(one.size_bytes for one in kept),
            compared=self.compared,
            different=self.different,
            first=self.first,
            real=self.real,
            latency_ms=self.compiled.cost.latency_ms,
            band=self.compiled.cost.band,
            hop_ms=hop_ms,
            drift=tuple(drift),
        )


def unreset(number: int, starts: Collection[int]) -> str:
    """What to look at first where the first frame of a later sequence differs."""
    return "; a sequence begins there: its states were not reset (NAME_reset)" if number and number in starts else ""


def reference_outputs(
    references: References, edges: Edges, samples: Sequence[Sample], starts: Collection[int]
) -> list[list[Array]]:
    """Real values of the yardstick's outputs; of a network with states along its own chain of frames."""
    exact, found = CarriedStates(edges.source), list[list[Array]]()
    for number, sample in enumerate(samples):
        if not any(one.kept for one in edges.source.states):
            found.append(references.outputs(edges, sample)[references.yardstick])
            continue
        if number in starts:
            exact.reset()
        given = {**sample, **exact.values}
        values = exact_values(edges, given)
        exact.take(values)
        kernels = references.outputs(edges, sample, number not in starts)
        found.append({EXACT: as_program(edges, values), **kernels}[references.yardstick])
    return found


def _by_frame(values: Array, starts: Sequence[int]) -> tuple[float, ...]:
    """The mean of all sequences, frame by frame; some may be shorter."""
    parts = np.split(values, starts[1:])
    longest = max(map(len, parts), default=0)
    return tuple(float(np.mean([part[k] for part in parts if k < len(part)])) for k in range(longest))


def drift_of(
    graph: Graph,
    program: Sequence[Sequence[Array]],
    kernels: Mapping[str, Sequence[Sequence[Array]]],
    yardstick: str,
    starts: Collection[int],
) -> list[Drift]:
    """A row for every output; none where nobody ran all frames. `starts`: where sequences begin."""
    if yardstick not in kernels:
        return []
    found = []
    for k, name in enumerate(graph.frame_outputs):
        theirs = np.stack(kernels[yardstick][k]).astype(np.float64)
        apart = np.where(np.isfinite(theirs), np.stack(program[k]) - theirs, 0.0).reshape(len(theirs), -1)
        unit = unit_of(graph, name, np.nan_to_num(theirs))
        rms = np.sqrt(np.square(apart).mean(axis=1)) / unit if apart.size else np.zeros(len(theirs))
        found.append(Drift(name, yardstick, _by_frame(rms, sorted(starts))))
    return found
