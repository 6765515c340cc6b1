"""Convolutions of 5x5 over few channels, mostly the first one of a network: two units side by side."""

from __future__ import annotations

from dataclasses import replace
from math import ceil, lcm

import numpy as np

from atonc.compiler.lower.context import Context
from atonc.compiler.lower.conv.chains import FeatureMode, no_setting
from atonc.compiler.lower.conv.channel_groups import ShiftGroups, ranges
from atonc.compiler.lower.conv.engines import feature_engine, kernel_buffer, kernel_reader, output_engine, requantise
from atonc.compiler.lower.conv.kernel_parts import Part
from atonc.compiler.lower.conv.layer import ConvLayer
from atonc.compiler.lower.conv.wide_windows import MOST_KERNELS, frame, joined, side_by_side, wide_parts
from atonc.compiler.lower.registry import Refusal
from atonc.compiler.lower.semantics.sums import LoweredSums, SumChain, SumTerm, record
from atonc.compiler.plan.build import TaskBuilder
from atonc.compiler.plan.streams import Frames
from atonc.compiler.plan.task import Task, TaskGroup
from atonc.compiler.select.enumerate import Steps
from atonc.compiler.select.rules import CONV_MODE
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.limits import BUS_BYTES, UNITS
from atonc.machine.hw.safety.evidence.seen import units_trusted
from atonc.machine.hw.units.arith import ROWS
from atonc.machine.hw.units.convacc import ConvaccConfig

LANES = 2  # in an epoch, two units each
ROUNDINGS = 3  # of both parts and of their sum


@dataclass(frozen=True)
class Units:
    mode: FeatureMode
    kernels: int  # outputs of a frame
    configs: tuple[ConvaccConfig, ...]


_Plan = list[tuple[Units, list[tuple[int, int]]]]  # units, and output channels of each job: the first and how many


@dataclass(frozen=True)
class SideBySide:
    """Two units instead of a chain of windows: a wide kernel then goes through the picture once instead of twice."""

    def prepare(self, layer: ConvLayer, draft: Context) -> WideWindows:
        parts = wide_parts(layer)
        if not parts:
            raise Refusal(CONV_MODE, f"a kernel of {layer.weights.shape[1:3]}", "5x5", "cut it into windows of 3x3")
        return WideWindows(layer, parts)


@dataclass(frozen=True, eq=False)
class WideWindows:
    """A layer whose shifts are not decided yet."""

    layer: ConvLayer
    parts: tuple[Part, ...]

    def rows(self) -> dict[ShiftGroups, Steps]:
        plans: dict[ShiftGroups, _Plan] = {}
        for shifts in ShiftGroups:
            if (plan := _planned(self.layer, self.parts, shifts)) not in plans.values():
                plans[shifts] = plan
        return {shifts: (WideChains(self.layer, self.parts, plan),) for shifts, plan in plans.items()}


@dataclass(frozen=True, eq=False)
class WideChains:
    layer: ConvLayer
    parts: tuple[Part, ...]
    plan: _Plan

    def prepare(self, subject: WideWindows, draft: Context) -> WideChains:
        return self

    def build(self, draft: Context) -> list[TaskGroup]:
        epochs = (_epochs(self.layer, draft, self.parts, units, jobs) for units, jobs in self.plan)
        return [group for groups in epochs for group in groups]


def _planned(layer: ConvLayer, parts: tuple[Part, ...], shifts: ShiftGroups) -> _Plan:
    found: _Plan = []
    for first, count in layer.runs(ROWS, shifts.step(layer)):
        while count:
            units = _units(layer, parts, count)
            whole = count // units.kernels * units.kernels
            step = lcm(units.kernels, shifts.step(layer))
            found.append((units, ranges(layer, units.mode.offset, ROUNDINGS, first, whole, step, shifts)))
            first, count = first + whole, count - whole
    return found


def side_by_side_cycles(layer: ConvLayer) -> int | None:
    """Roughly, with two chains in an epoch; None where there is no such form."""
    parts = wide_parts(layer)
    try:
        units = _units(layer, parts, layer.outputs)
    except Refusal:
        return None
    read = layer.area.height * layer.area.width * layer.area.channels
    written = layer.out.height * layer.out.width * units.kernels
    multiplying = max(ceil(units.mode.multiplying(written, part.window, layer.area.channels)) for part in parts)
    return max(read, written, multiplying) * -(-layer.outputs // (LANES * units.kernels))


def _units(layer: ConvLayer, parts: tuple[Part, ...], outputs: int) -> Units:
    """Makes units with as many kernels as fit, in groups of one size if possible."""
    for mode in (mode for mode in layer.modes() if not mode.deep):
        most = min(MOST_KERNELS[mode.simd], outputs)
        kernels = next((k for k in range(most, most // 2, -1) if outputs % k == 0), most)
        configs = side_by_side(parts, mode, layer.area.channels, kernels)
        if configs is not None and units_trusted(configs, layer.trust):
            return Units(mode, kernels, configs)
    raise no_setting(parts[0], layer.area.channels, layer.op.name)


def _epochs(
    layer: ConvLayer, context: Context, parts: tuple[Part, ...], units: Units, jobs: list[tuple[int, int]]
) -> list[TaskGroup]:
    """Two chains at a time where their results do not share words of memory."""
    first, count = jobs[0][0], sum(some for _, some in jobs)
    ariths = 1 + layer.code_units_behind(units.mode.offset, ROUNDINGS, count)
    apart = lcm(units.kernels, BUS_BYTES)
    lanes = LANES if LANES * ariths <= UNITS["ARITH"] and layer.outputs % BUS_BYTES == 0 else 1
    if lanes > 1 and len(jobs) == 1 and count > apart:
        half = -(-count // 2 // apart) * apart
        jobs = [(first, half), (first + half, count - half)]
    if any(start % BUS_BYTES for start, _ in jobs):
        lanes = 1
    groups: list[TaskGroup] = []
    for k in range(0, len(jobs), lanes):
        tasks = [_chain(layer, context, parts, units, *job) for job in jobs[k : k + lanes]]
        groups.append(TaskGroup(tuple(tasks)))
    return groups


def _chain(layer: ConvLayer, context: Context, parts: tuple[Part, ...], units: Units, first: int, count: int) -> Task:
    b = TaskBuilder(layer.origin, f"conv {layer.op.name}")
    rule = layer.requantisation_of(units.mode.offset, ROUNDINGS, first, count)
    groups, sums = count // units.kernels, []
    for part, config in zip(parts, units.configs, strict=True):
        data = np.ascontiguousarray(part.weights[first : first + count].astype(np.int8)).tobytes()
        stream = kernel_buffer(data, units.mode)
        kernels = b.read(context.keep(stream), kernel_reader(stream, units.mode))
        features = b.read(layer.source, feature_engine(frame(part), Frames(1, 0, groups, 0), units.mode))
        sums.append(b.unit(replace(config, out_shift=rule.out_shift), features, kernels))
    pixels = layer.out.height * layer.out.width
    codes = requantise(b, layer.code_units(rule.units(0, count, units.kernels, pixels)), joined(b, sums), {})
    b.write(codes, layer.target, output_engine(layer.out, units.kernels, first, groups))
    channels = layer.area.channels
    chains = tuple(SumChain(((SumTerm(part, 0, channels),),), units.mode.offset) for part in parts)
    record(context, layer, LoweredSums(layer.stored, chains, rule, layer.out, first, count))
    return b.done()
