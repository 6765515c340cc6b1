"""Kernels whose parts cannot all be in one chain: partial results of 16 bits in memory, summed by ARITH.

A partial result is stored in the order in which it leaves the units: [group of kernels][pixel][kernel]. The last chain
adds what is in memory to its own sums where a chain of that kind was seen, so that nothing is read once more for that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np

from atonc.compiler.lower.context import Context
from atonc.compiler.lower.conv.engines import output_engine, requantise
from atonc.compiler.lower.conv.kernel_parts import Part
from atonc.compiler.lower.conv.layer import ConvLayer
from atonc.compiler.lower.conv.requantise import Requantisation, TwoSteps
from atonc.compiler.lower.conv.wide_windows import SUM
from atonc.compiler.lower.registry import Refusal
from atonc.compiler.plan.build import TaskBuilder
from atonc.compiler.plan.policy import MAX_CHAINS
from atonc.compiler.plan.streams import Area, engine
from atonc.compiler.plan.task import Purpose, TaskGroup
from atonc.compiler.schedule.check import forms
from atonc.compiler.select.rules import CONV_MODE
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.limits import MAX_CHAIN, UNITS, WRITE_ALIGNMENT
from atonc.machine.hw.safety.evidence.seen import chain_seen
from atonc.machine.hw.units.arith import ArithConfig

T = TypeVar("T")

MOST_UNITS = 3  # ARITHs in a row, as seen


def chunks(
    parts: tuple[Part, ...], attempt: Callable[[tuple[Part, ...]], T | None]
) -> list[tuple[tuple[Part, ...], T]]:
    """Cuts the parts into chains for which `attempt` finds settings; an empty list when it finds none.

    A single unit without padding was never seen, so such a part gets a partner that adds nothing.
    """
    found: list[tuple[tuple[Part, ...], T]] = []
    rest = tuple(sorted(parts, key=lambda part: part.group))
    while rest:
        together = sum(1 for part in rest[:MAX_CHAIN] if part.group == rest[0].group)
        for count in range(together, 0, -1):
            for chain in (rest[:count], (*rest[:count], silent(rest[0]))[:MAX_CHAIN]):
                settings = attempt(chain)
                if settings is not None:
                    break
            if settings is not None:
                found.append((chain, settings))
                rest = rest[count:]
                break
        else:
            return []
    return found


@dataclass(frozen=True)
class PartialSum:
    """A chain of units that leaves a partial result: `add` wires it for some output channels and returns its tail."""

    add: Callable[[TaskBuilder, Context, int, int], str]
    units: int
    passes: int = 1

    @property
    def gate(self) -> dict[str, int]:
        return {"drop": self.passes - 1, "keep": 1} if self.passes > 1 else {}

    def lanes(self, groups: int) -> int:
        """How many of them an epoch holds, each for some groups of kernels."""
        most = min(MAX_CHAINS, UNITS["CONVACC"] // self.units, UNITS["STRENG"] // (self.units + 2))
        return max(1, min(most, groups)) if self.passes == 1 else 1


@dataclass(frozen=True)
class Results:
    """Output channels first..first+count of a layer, in groups of so many kernels."""

    layer: ConvLayer
    target: Area
    rule: Requantisation | TwoSteps
    first: int
    count: int
    kernels: int

    @property
    def pixels(self) -> int:
        return self.target.height * self.target.width

    def units(self) -> list[ArithConfig]:
        return self.layer.code_units(self.rule.units(0, self.count, self.kernels, self.pixels))

    def write(self, b: TaskBuilder, codes: str) -> None:
        groups = self.count // self.kernels
        b.write(codes, self.layer.target, output_engine(self.target, self.kernels, self.first, groups))


def with_the_last(pieces: Sequence[PartialSum], results: Results, context: Context) -> list[TaskGroup]:
    """Partial results in memory, which the last chain adds to its own."""
    sums: list[str] = []
    groups = [partial_sum(context, piece, results, sums) for piece in pieces[:-1]]
    b = TaskBuilder(results.layer.origin, f"conv {results.layer.op.name}")
    total, units = pieces[-1].add(b, context, results.first, results.count), results.units()
    ariths, gate = UNITS["ARITH"], pieces[-1].gate
    if len(sums) + len(units) > ariths:
        raise Refusal(CONV_MODE, f"{len(sums)} partial results", f"{ariths} ARITHs", "add them up before")
    for buffer in sums:
        total, gate = b.unit(SUM, total, b.read(buffer, engine(flat(results.pixels * results.count))), **gate), {}
    results.write(b, requantise(b, units, total, gate))
    task = b.done()
    (text,) = forms(task)
    if not chain_seen(text):
        raise Refusal(CONV_MODE, f"a chain {text}", "chains of public networks", "add up the parts by themselves")
    return [*groups, TaskGroup.of(task)]


def partial_sum(context: Context, piece: PartialSum, results: Results, sums: list[str]) -> TaskGroup:
    """One partial result, the groups of kernels spread over chains side by side; its buffer is added to `sums`."""
    pixels, groups = results.pixels, results.count // results.kernels
    sums.append(context.scratch(2 * pixels * results.count, "parts of a kernel"))
    share = -(-groups // piece.lanes(groups)) * results.kernels
    while 2 * pixels * share % WRITE_ALIGNMENT:
        share += results.kernels  # lanes write into words of their own; published ones begin at whole pairs of them
    tasks = []
    for start in range(0, results.count, share):
        some = min(share, results.count - start)
        b = TaskBuilder(results.layer.origin, f"part of conv {results.layer.op.name}", Purpose.PART)
        tail = piece.add(b, context, results.first + start, some)
        area = replace(flat(pixels * some), offset=2 * pixels * start)
        b.write(tail, sums[-1], engine(area, write=True), **piece.gate)
        tasks.append(b.done(pixels * some))
    return TaskGroup(tuple(tasks))


def silent(part: Part) -> Part:
    return replace(part, weights=np.zeros_like(part.weights))


def flat(elements: int) -> Area:
    """16-bit numbers in a row."""
    return Area(1, 1, elements, 2 * elements, 2 * elements, 0, 2)


def add_up(context: Context, sums: list[str], results: Results) -> list[TaskGroup]:
    """The sum of the partial results, requantised into output channels."""
    layer, elements = results.layer, results.pixels * results.count
    units = results.units()
    together = 2 if len(units) < MOST_UNITS else 1  # how many the last epoch takes
    groups: list[TaskGroup] = []
    while len(sums) > together:
        total = context.scratch(2 * elements, "sum of parts")
        groups.append(_add(layer, sums[0], sums[1], total, elements))
        sums = [total, *sums[2:]]
    b = TaskBuilder(layer.origin, f"conv {layer.op.name} from its parts")
    streams = [b.read(buffer, engine(flat(elements))) for buffer in sums]
    results.write(b, requantise(b, units, b.unit(SUM, *streams) if len(streams) > 1 else streams[0], {}))
    return [*groups, b.alone()]


def _add(layer: ConvLayer, left: str, right: str, total: str, elements: int) -> TaskGroup:
    b = TaskBuilder(layer.origin, f"sum of parts of conv {layer.op.name}", Purpose.PART)
    both = [b.read(buffer, engine(flat(elements))) for buffer in (left, right)]
    b.write(b.unit(SUM, *both), total, engine(flat(elements), write=True))
    return b.alone()
