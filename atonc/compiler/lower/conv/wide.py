"""Convolutions of 5x5 over few channels, mostly the first one of a network: two units side by side.

Kernels of 5x5 as public networks compute them: three rows in one unit, two in another, each rounded by itself. Five
columns need no cutting, and padding of two pixels was seen with such windows only. The lower unit reads the whole
picture as well and leaves out the lines that none of its windows sees.
"""

from __future__ import annotations

from dataclasses import replace
from math import ceil, lcm

import numpy as np

from atonc.compiler.lower.context import Context
from atonc.compiler.lower.conv.chains import FeatureMode, as_seen, no_setting, unit_config
from atonc.compiler.lower.conv.channel_groups import ShiftGroups, ranges
from atonc.compiler.lower.conv.engines import feature_engine, kernel_buffer, kernel_reader, output_engine, requantise
from atonc.compiler.lower.conv.kernel_parts import WIDEST, WINDOW, Part, axis_of, part_of
from atonc.compiler.lower.conv.layer import ConvLayer
from atonc.compiler.lower.registry import Refusal
from atonc.compiler.lower.semantics.sums import LoweredSums, SumChain, SumTerm, record
from atonc.compiler.plan.build import TaskBuilder
from atonc.compiler.plan.streams import Area, Frames
from atonc.compiler.plan.task import Task, TaskGroup
from atonc.compiler.select.enumerate import Steps
from atonc.compiler.select.rules import CONV_MODE
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.limits import BUS_BYTES, UNITS, WINDOWS
from atonc.machine.hw.safety.evidence.trust import units_trusted
from atonc.machine.hw.units.arith import ROWS, ArithConfig
from atonc.machine.hw.units.convacc import ConvaccConfig

MOST_BATCH = 3  # channels of a frame
MOST_KERNELS = {simd: sizes.kernels for simd, sizes in WINDOWS.items()}

SUM = ArithConfig(
    dual_input=1, a=1, b=1, bytes_x=2, out_bytes_x=2, bytes_y=2, out_bytes_y=2, out_bytes=2, rounded=1, saturated=1,
    round_mode=1,
)  # fmt: skip


def wide_parts(layer: ConvLayer) -> tuple[Part, ...]:
    """The two parts, or none where the kernel is not of that kind."""
    size, stride = layer.weights.shape[1:3], layer.stride[0]
    if size != (WIDEST, WIDEST) or layer.stride not in ((1, 1), (2, 2)) or layer.dilation != (1, 1):
        return ()
    if layer.op.kind != "conv" or layer.ring is not None or layer.weights.min() < -128 or layer.weights.max() > 127:
        return ()
    parts = []
    for taps in (slice(0, WINDOW), slice(WINDOW, WIDEST)):
        high = taps.stop - taps.start
        rows = axis_of(layer.area.height, taps.start - layer.padding[0], 1, high, stride, layer.out.height)
        columns = axis_of(layer.area.width, -layer.padding[1], 1, WIDEST, stride, layer.out.width)
        if rows is None or columns is None:
            return ()
        part = part_of(layer.area, layer.weights[:, taps], rows, columns, stride)
        below = layer.area.height - rows.first - rows.count
        parts.append(replace(part, cropped=(rows.first, below), group=(taps.start // WINDOW, 0)))
    whole = [(WINDOW, WIDEST), (WIDEST - WINDOW, WIDEST)]
    return tuple(parts) if [part.window for part in parts] == whole else ()


def frame(part: Part) -> Area:
    """What the unit reads: the area and the lines around it that it leaves out."""
    above, below = part.cropped
    if not (above or below):
        return part.area
    taller = replace(part.area, height=part.area.height + above + below)
    return replace(taller, offset=part.area.offset - above * part.area.line)


def side_by_side(
    parts: tuple[Part, ...], mode: FeatureMode, batch: int, kernels: int
) -> tuple[ConvaccConfig, ...] | None:
    """The units, if both were seen with these settings."""
    if mode.deep or batch > MOST_BATCH or kernels > MOST_KERNELS[mode.simd]:
        return None
    found = tuple(as_seen(_config(part, mode, batch, kernels)) for part in parts)
    return tuple(config for config in found if config is not None) if None not in found else None


def _config(part: Part, mode: FeatureMode, batch: int, kernels: int) -> ConvaccConfig:
    """Padding beyond what a window can hold at its edge is a frame around the picture, as drivers set it up."""
    rows, columns = part.window
    top, left, bottom, right = (min(p, k - 1) for p, k in zip(part.padding, (rows, columns) * 2, strict=True))
    above, below = part.cropped
    height = part.area.height + above + below
    return replace(
        unit_config(part, mode, batch, kernels),
        pad_top=top,
        pad_left=left,
        pad_bottom=bottom,
        pad_right=right,
        frame_top=part.padding[0] - top,
        frame_left=(part.padding[1] - left) * batch,
        frame_bottom=part.padding[2] - bottom,
        frame_right=(part.padding[3] - right) * batch,
        height=height,
        crop_top=above,
        crop_bottom=height - below - 1,
    )


def joined(b: TaskBuilder, sums: list[str]) -> str:
    """The sum of what both units give, in 16 bits."""
    return b.unit(SUM, *sums)


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
