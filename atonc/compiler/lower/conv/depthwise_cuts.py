"""How channels of a depthwise convolution are cut into blocks: as many at a time as the units, the memory and the
flash can follow best.

Every kernel of a block is stored with zeros for the other channels of its block, so large blocks read more from flash;
small blocks read fewer bytes at a time from the picture.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import lcm

from atonc.compiler.lower.conv.chains import FeatureMode, chain_configs, least_batch, limits, pictures_trusted
from atonc.compiler.lower.conv.kernel_parts import Part
from atonc.compiler.lower.conv.layer import ConvLayer
from atonc.compiler.lower.conv.wide_windows import frame, side_by_side
from atonc.compiler.plan.policy import EPOCH_CYCLES, MAX_CHAINS
from atonc.compiler.plan.streams import Area
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.limits import ALIGNED, BUS_BYTES, UNITS
from atonc.machine.hw.safety.evidence.trust import units_trusted
from atonc.machine.hw.units.arith import ROWS
from atonc.machine.hw.units.convacc import ConvaccConfig

Slice = tuple[int, int]  # output channels: the first and how many
Slices = list[Slice]


@dataclass(frozen=True)
class Cut:
    """`batch` channels a frame, `kernels` outputs a frame, `repeats` frames for the same channels."""

    mode: FeatureMode
    batch: int
    kernels: int
    repeats: int
    configs: tuple[ConvaccConfig, ...]
    joined: bool = False  # the units side by side and their rounded sums added, instead of one chain

    @property
    def outputs(self) -> int:
        return self.kernels * self.repeats

    @property
    def roundings(self) -> int:
        return 1 + len(self.configs) if self.joined else 1

    def lanes(self, ariths: int) -> int:
        """How many of them an epoch holds, each with so many ARITHs behind the sums."""
        units, kernel_streams = len(self.configs), len(self.configs) if self.joined else 1
        return min(
            MAX_CHAINS,
            UNITS["CONVACC"] // units,
            UNITS["ARITH"] // (ariths + self.joined),
            UNITS["STRENG"] // (units + kernel_streams + 1),
        )


def best_cut(layer: ConvLayer, parts: tuple[Part, ...], channels: int, joined: bool = False) -> Cut | None:
    """The proven block of at most so many channels that takes the fewest cycles."""
    ariths = layer.code_units_behind(layer.zero, 1, channels)
    for mode in layer.modes():
        cuts = list(_cuts(layer, parts, mode, range(channels, 0, -1), joined))
        ranked = sorted(cuts, key=lambda cut: _least_cycles(parts, cut, channels, ariths, layer))
        if best := next((cut for cut in ranked if units_trusted(cut.configs, layer.trust)), None):
            return best
    return None


def exact_cut(layer: ConvLayer, batch: int, subtracted: int, parts: tuple[Part, ...]) -> Cut | None:
    """A chain for blocks of so many channels."""
    modes = (mode for mode in layer.modes() if mode.offset == subtracted)
    cuts = (cut for mode in modes for cut in _cuts(layer, parts, mode, [batch], False, exactly=True))
    return next((cut for cut in cuts if units_trusted(cut.configs, layer.trust)), None)


def _cuts(
    layer: ConvLayer,
    parts: tuple[Part, ...],
    mode: FeatureMode,
    batches: range | list[int],
    joined: bool,
    exactly: bool = False,
) -> Iterator[Cut]:
    multiplier = layer.outputs // layer.area.channels
    rows, columns = parts[0].window
    most_kernels, most_batch, most_weights, most_line = limits(mode, rows, columns)
    most = min(most_kernels, most_batch, most_line // max(part.area.width for part in parts))
    for batch in batches if not mode.deep and (joined or pictures_trusted(parts, mode, layer.trust)) else ():
        if not least_batch(mode, rows) <= batch <= most or (not exactly and layer.large and ALIGNED % batch):
            continue  # parts of large buffers begin at aligned addresses
        if 0 < max(batches) % batch < least_batch(mode, rows):
            continue  # nothing would fit the channels that are left
        kernels, repeats = _kernels(batch, multiplier, most_kernels)
        if kernels * batch * rows * columns > most_weights:
            continue
        if joined:
            configs = side_by_side(parts, mode, batch, kernels)
        else:
            configs = chain_configs(parts, mode, batch, kernels, len(parts))
        if configs is not None:
            yield Cut(mode, batch, kernels, repeats, configs, joined)


def _kernels(batch: int, multiplier: int, most: int) -> tuple[int, int]:
    """Kernels a frame and frames for the same channels."""
    total = batch * multiplier
    kernels = max(k for k in range(1, min(total, most) + 1) if total % k == 0)
    return kernels, total // kernels


def _least_cycles(parts: tuple[Part, ...], cut: Cut, channels: int, ariths: int, layer: ConvLayer) -> float:
    """A bound for all channels, with as many chains as fit: the slowest of the units, the bank of the picture, the
    flash. So many bands that shall be cut alike are reckoned as one picture. There are up to a hundred cuts a layer and
    tasks of none of them yet, so `Form.cycles` cannot rank them."""
    timing, bands = layer.machine.timing, layer.bands
    blocks, rest = divmod(channels, cut.batch)
    pixels = bands * max(frame(part).height * part.area.width for part in parts)
    rows_out, columns_out = parts[0].out_size
    results = bands * rows_out * columns_out * cut.kernels
    multiplying = max(cut.mode.multiplying(results, part.window, cut.batch) for part in parts)
    unit = max(pixels * cut.batch, results, multiplying)
    if parts[0].window[0] > 1:
        area = parts[0].area
        unit += timing.fill_lines * area.width * cut.batch + timing.fill_per_line * bands * area.height
        unit += timing.fill_constant
    bank = timing.single_read_beat * len(parts) * pixels * -(-cut.batch // BUS_BYTES)
    taps = sum(part.window[0] * part.window[1] for part in parts)
    flash = layer.machine.flash_byte_cycles * taps * cut.kernels * cut.batch * cut.mode.kernel_bytes
    lanes = max(1, min(cut.lanes(ariths), blocks))
    left = EPOCH_CYCLES + unit * cut.repeats * rest / cut.batch if rest else 0.0
    return blocks * cut.repeats * max(unit / lanes, bank, flash) + left


def slices_of(layer: ConvLayer, target: Area, cut: Cut, job: Slice, pieces: int) -> Slices:
    """Output channels in at most so many pieces, which share no word of the bus."""
    first, count = job
    step = lcm(cut.outputs, ALIGNED if layer.large else BUS_BYTES)
    if (target.pixel | target.line) % BUS_BYTES:
        return [job]
    cuts = {(first + count * k // pieces) // step * step for k in range(1, pieces)}
    starts = [first, *sorted(start for start in cuts if first < start < first + count)]
    return [(a, b - a) for a, b in zip(starts, [*starts[1:], first + count], strict=True)]


def share_of(layer: ConvLayer, target: Area, cut: Cut, blocks: int, lanes: int) -> int:
    """Blocks that one chain takes: as few as there are chains for, in slices that share no word of the bus."""
    most = max(1, ROWS // cut.outputs)
    if (target.pixel | target.line) % BUS_BYTES:
        return min(blocks, most)  # slices of such pixels lie in the same words
    share = min(-(-blocks // lanes), most)
    aligned, words = (lcm(cut.outputs, step) // cut.outputs for step in (ALIGNED, BUS_BYTES))
    apart = blocks > aligned and (share >= aligned or layer.large)
    step = aligned if apart or layer.huge else words
    whole = -(-share // step) * step
    return whole if whole <= most else share
