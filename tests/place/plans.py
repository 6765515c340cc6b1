"""Small programs for the tests: epochs that copy whole buffers, and CPU steps."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from itertools import pairwise

from atonc.compiler.plan import streams
from atonc.compiler.plan.task import EngineUse
from atonc.compiler.plan.types import Buffer, BufferKind, CpuPlan, EpochPlan, Planned, StepPlan


@dataclass
class Steps:
    """Collects steps and the buffers that they use."""

    plans: list[StepPlan] = field(default_factory=list)
    buffers: dict[str, Buffer] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)
    inputs: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)

    @property
    def planned(self) -> Planned:
        return Planned(self.plans, self.buffers, self.aliases, self.inputs, self.outputs)

    def buffer(self, name: str, size: int, kind: BufferKind = BufferKind.ACTIVATION) -> str:
        data = bytes(size) if kind == BufferKind.CONSTANT else b""
        self.buffers[name] = Buffer(name, size, kind, data=data)
        if kind == BufferKind.INPUT:
            self.inputs.append(name)
        if kind == BufferKind.OUTPUT:
            self.outputs.append(name)
        return name

    def epoch(self, reads: list[str], writes: list[str], offset: int = 0) -> None:
        engines = {}
        for number, (name, write) in enumerate([*((n, False) for n in reads), *((n, True) for n in writes)]):
            size = self.buffers[name].size_bytes - offset
            engines[f"STRENG{number}"] = EngineUse(name, streams.contiguous(size, write=write, offset=offset))
        self.plans.append(EpochPlan((f"layer{len(self.plans)}",), f"epoch {len(self.plans)}", {}, engines, ()))

    def cpu(self, reads: list[str], writes: list[str]) -> None:
        title = f"cpu {len(self.plans)}"
        self.plans.append(CpuPlan((f"layer{len(self.plans)}",), title, title, tuple(reads), tuple(writes)))


def random_steps(seed: int, count: int, largest: int = 40_000) -> Steps:
    """A chain with branches: every step writes a buffer and reads a few of those before it."""
    rng = random.Random(seed)
    steps = Steps()
    known = [steps.buffer("in", rng.randrange(1, largest), BufferKind.INPUT)]
    for number in range(count):
        kind = BufferKind.OUTPUT if number == count - 1 else BufferKind.ACTIVATION
        name = steps.buffer(f"t{number}", rng.randrange(1, largest), kind)
        reads = [known[-1], *rng.sample(known, min(len(known), rng.choice([0, 0, 0, 1, 2])))]
        weights = steps.buffer(f"w{number}", rng.randrange(1, 3000), BufferKind.CONSTANT)
        if rng.random() < 0.1:
            steps.cpu(list(dict.fromkeys(reads)), [name])
        else:
            steps.epoch([*dict.fromkeys(reads), weights], [name])
        known.append(name)
    return steps


def chain(*sizes: int) -> Steps:
    """Epochs that each read one buffer and write the next; the first is the input, the last the output."""
    steps = Steps()
    kinds = [BufferKind.INPUT, *[BufferKind.ACTIVATION] * (len(sizes) - 2), BufferKind.OUTPUT]
    names = [steps.buffer(f"t{n}", size, kind) for n, (size, kind) in enumerate(zip(sizes, kinds, strict=True))]
    for source, target in pairwise(names):
        steps.epoch([source], [target])
    return steps
