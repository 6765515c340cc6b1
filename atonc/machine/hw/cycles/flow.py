"""How many words flow through every unit of an epoch, from the configurations alone.

Readers say how much they deliver; geometry says what each unit makes of it; gates drop frames. Both cycle models and
the safety checker (does each writer get what it waits for?) start from these counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.epoch import Epoch
from atonc.machine.hw.fields import UnitConfig
from atonc.machine.hw.memoise import memoise
from atonc.machine.hw.units.arith import ArithConfig
from atonc.machine.hw.units.convacc import ConvaccConfig
from atonc.machine.hw.units.pool import PoolConfig
from atonc.machine.hw.units.stream_engine import StrengConfig
from atonc.machine.hw.units.switch import Link

FEATURES, KERNELS, SUMS = 0, 1, 2  # ports of CONVACC


class StreamWords(NamedTuple):
    """A stream seen from outside: how many words, in frames of which size, of how many bytes."""

    total: int
    frame: int
    word_bytes: int = 1

    @property
    def frames(self) -> int:
        return self.total // self.frame if self.frame > 0 else 0


NOTHING = StreamWords(0, 0)


class UnitFlow(NamedTuple):
    """What arrives at each port, what the unit takes of it, and what it sends on."""

    inputs: Mapping[int, StreamWords]
    taken: Mapping[int, int]  # words that the unit really consumes, by port
    output: StreamWords

    def input(self, port: int = 0) -> StreamWords:
        return self.inputs.get(port, NOTHING)


@dataclass(frozen=True)
class StreamFlow:
    units: Mapping[str, UnitFlow]

    def __getitem__(self, unit: str) -> UnitFlow:
        return self.units[unit]

    def delivered(self, epoch: Epoch, engine: str) -> int:
        """Words that a reader really delivers: compilers program overlong ones for the second input of ARITH."""
        total = self.units[engine].output.total
        taken = []
        for link in epoch.destinations(engine):
            if not isinstance(epoch.units.get(link.destination), ArithConfig):
                return total
            taken.append(self.units[link.destination].taken.get(link.port, total))
        return min(total, max(taken, default=total))


@memoise
def element_counts(epoch: Epoch) -> StreamFlow:
    """Words per unit and port. Missing sources and rings deliver nothing; nothing is raised here."""
    return _Counter(epoch).flow()


class _Counter:
    def __init__(self, epoch: Epoch) -> None:
        self.epoch = epoch
        self.outputs: dict[str, StreamWords] = {}
        self.active: set[str] = set()

    def flow(self) -> StreamFlow:
        flows = {}
        for name, config in self.epoch.units.items():
            inputs = {port: self._arriving(link) for port, link in self.epoch.sources(name).items()}
            flows[name] = UnitFlow(inputs, _taken(config, inputs, self._output(name)), self._output(name))
        return StreamFlow(flows)

    def _output(self, unit: str) -> StreamWords:
        if unit not in self.outputs:
            if unit in self.active:
                return NOTHING
            self.active.add(unit)
            self.outputs[unit] = self._produced(unit)
            self.active.discard(unit)
        return self.outputs[unit]

    def _produced(self, unit: str) -> StreamWords:
        config = self.epoch.units.get(unit)
        if isinstance(config, StrengConfig):
            return StreamWords(config.elements, config.frame_elements, config.element_bytes)
        sources = self.epoch.sources(unit)
        # the accumulator port closes rings and adds no words of its own
        inputs = {port: self._arriving(link) for port, link in sources.items() if port != SUMS}
        return NOTHING if config is None else _result(config, inputs)

    def _arriving(self, link: Link) -> StreamWords:
        stream = self._output(link.source)
        config = self.epoch.units.get(link.destination)
        if link.permanent or stream.frame <= 0:
            return stream
        if isinstance(config, ConvaccConfig) and link.port == FEATURES and config.feature_words > 0:
            # gates in front of CONVACC count its own feature frames
            stream = StreamWords(stream.total, config.feature_words, stream.word_bytes)
        return StreamWords(_kept(link, stream.frames) * stream.frame, stream.frame, stream.word_bytes)


def _kept(link: Link, frames: int) -> int:
    turns, rest = divmod(frames, link.frames0 + link.frames1)
    first = turns * link.frames0 + min(rest, link.frames0)
    return first * link.enabled0 + (frames - first) * link.enabled1


def _result(config: UnitConfig, inputs: Mapping[int, StreamWords]) -> StreamWords:
    features = inputs.get(FEATURES, NOTHING)
    if isinstance(config, ConvaccConfig):
        return StreamWords(
            convolved_frames(config, inputs) * config.out_elements, config.out_elements, config.out_bytes
        )
    if isinstance(config, PoolConfig):
        frames = features.total // config.frame_elements if config.frame_elements else 0
        return StreamWords(frames * config.out_elements, config.out_elements, config.out_bytes)
    if isinstance(config, ArithConfig):
        total = min(features.total, inputs.get(1, NOTHING).total) if config.dual_input else features.total
        return StreamWords(total, features.frame, config.out_bytes)
    return features


def convolved_frames(config: ConvaccConfig, inputs: Mapping[int, StreamWords]) -> int:
    """Output frames: one per feature frame and kernel set, several per feature frame when it is stationary."""
    features, kernels = inputs.get(FEATURES, NOTHING), inputs.get(KERNELS, NOTHING)
    if config.feature_words <= 0 or config.set_bytes <= 0:
        return 0
    sets = kernels.total * kernels.word_bytes // config.set_bytes
    return min(config.frames_out(features.total // config.feature_words), sets)


def _taken(config: UnitConfig, inputs: Mapping[int, StreamWords], output: StreamWords) -> dict[int, int]:
    if isinstance(config, StrengConfig):
        return {port: min(words.total, config.elements) for port, words in inputs.items()}
    if isinstance(config, ConvaccConfig):
        return _taken_by_convolution(config, inputs, output.frames)
    if isinstance(config, ArithConfig):
        return {port: min(words.total, output.total) for port, words in inputs.items()}
    return {port: words.total for port, words in inputs.items()}


def _taken_by_convolution(config: ConvaccConfig, inputs: Mapping[int, StreamWords], frames: int) -> dict[int, int]:
    loads = -(-frames // max(1, config.frames_out(1)))
    bytes_per_word = max(1, inputs.get(KERNELS, NOTHING).word_bytes)
    kernel_words = -(-frames * config.set_bytes // bytes_per_word)
    taken = {FEATURES: loads * config.feature_words, KERNELS: kernel_words, SUMS: frames * config.out_elements}
    return {port: min(taken[port], words.total) for port, words in inputs.items() if port in taken}
