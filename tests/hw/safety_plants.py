"""Faults to plant in legal epochs, where one changed setting is not enough."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from atonc.machine.hw.epoch import Epoch
from atonc.machine.hw.fields import UnitConfig
from atonc.machine.hw.units.stream_engine import StrengConfig
from tests.hw import safety_epochs as legal
from tests.hw.safety_parts import (
    NPU_RAM3,
    NPU_RAM4,
    NPU_RAM5,
    add,
    change,
    convacc,
    exchange,
    features,
    kernels,
    limited,
    reader,
    with_events,
    writer,
)


@dataclass(frozen=True)
class Fault:
    rule: str
    what: str
    plant: Callable[[], Epoch]
    also: tuple[str, ...] = ()  # further violations that the same fault causes


def swap(epoch: Epoch, **units: UnitConfig) -> Epoch:
    """Replaces whole units."""
    return with_events(replace(epoch, units={**epoch.units, **units}))


def without(epoch: Epoch, *units: str) -> Epoch:
    kept = {name: config for name, config in epoch.units.items() if name not in units}
    links = tuple(k for k in epoch.links if k.source not in units and k.destination not in units)
    waits = tuple(unit for unit in epoch.waits if unit not in units)
    return with_events(replace(epoch, units=kept, links=links, waits=waits))


def moved(epoch: Epoch, what: str, unit: str, place: int) -> Epoch:
    """One event at another place among all events."""
    moved = next(event for event in epoch.events if (event.what, event.unit) == (what, unit))
    rest = [event for event in epoch.events if event is not moved]
    return replace(epoch, events=(*rest[:place], moved, *rest[place:]))


def activ_into_convacc() -> Epoch:
    epoch = exchange(legal.convolution(), "STRENG0 > CONVACC0:0", "STRENG0 > ACTIV0")
    activ = legal.activation().units["ACTIV0"]
    return add(epoch, limited("ACTIV0", "CONVACC0", 2), ACTIV0=activ)


def three_convaccs() -> Epoch:
    epoch = legal.chained_features()
    conv = epoch.units["CONVACC0"]
    return add(
        epoch,
        *(limited("ARITH2", unit, 2) for unit in ("CONVACC1", "CONVACC2")),
        *("STRENG5 > CONVACC1:1", "STRENG5 > CONVACC2:1", "CONVACC1 > STRENG2", "CONVACC2 > STRENG3"),
        CONVACC1=conv,
        CONVACC2=conv,
        STRENG2=writer(NPU_RAM4, 2048, 2, element_bytes=2),
        STRENG3=writer(NPU_RAM4 + 0x4000, 2048, 2, element_bytes=2),
    )


def flat(stride: int) -> Epoch:
    """A convolution of 3 x 1 on two frames of 16 x 1 x 8."""
    config = convacc(16, 1, 8, 8, (3, 1), pad_left=1, pad_right=1, stride_x=stride, stride_y=stride)
    units = {
        "CONVACC0": config,
        "STRENG0": features(NPU_RAM5, 128, 2),
        "STRENG5": kernels(2 * 8 * 8 * 3),
        "STRENG6": writer(NPU_RAM3, 128 // stride, 2),
    }
    return swap(legal.convolution(), **units)


def masked_line(line: int, columns: int = 16) -> Epoch:
    """A 1 x 1 convolution of one of the eight lines of two frames of 8 channels."""
    config = convacc(columns, 8, 8, 8, (1, 1), crop_top=line, crop_bottom=line)
    units = {
        "CONVACC0": config,
        "STRENG0": features(NPU_RAM5, 64 * columns, 2),
        "STRENG5": kernels(2 * 8 * 8),
        "STRENG6": writer(NPU_RAM3, 8 * columns, 2),
    }
    return swap(legal.convolution(), **units)


def common_source(**crop: int) -> Epoch:
    """A second convolution of the same features, of a part of them."""
    conv = replace(convacc(16, 16, 8, 8, (3, 3)), **crop)
    return add(
        legal.convolution(),
        *("STRENG0 > CONVACC1:0", "STRENG5 > CONVACC1:1", "CONVACC1 > STRENG7"),
        CONVACC1=conv,
        STRENG7=writer(NPU_RAM4, conv.out_elements, 2, element_bytes=2),
    )


def ring_of_two() -> Epoch:
    epoch = legal.chain()
    closing = {"no_sum": 0, "generate_first_sum": 1, "accumulator_filter": 3, "no_first_sum": 0, "in_shift": 2}
    return add(change(epoch, "CONVACC0", **closing), "CONVACC1 > CONVACC0:2")


def swapped_pools() -> Epoch:
    epoch = legal.pooling()
    names = {"POOL0": "POOL1", "POOL1": "POOL0"}
    units = {names.get(name, name): config for name, config in epoch.units.items()}
    links = [
        replace(k, source=names.get(k.source, k.source), destination=names.get(k.destination, k.destination))
        for k in epoch.links
    ]
    return with_events(replace(epoch, units=units, links=tuple(links)))


def raster(lines: int, pixels: int, depth: int, pixel: int = 0, offset: int = 0, word: int = 1) -> Epoch:
    """A copy of two frames of a raster in words of some bytes, with gaps between the pixels."""
    step = pixel or depth * word + 8
    shape = {"raw": 0, "fsize_high": lines, "fsize_low": pixels, "depth": depth, "element_bytes": word}
    line = step * pixels
    steps = {"pixel_offset_low": step, "line_offset_low": line & 0xFFFF, "frame_offset": line * lines}
    wide = {"align_right": 1, "sign_extend": 1} if word == 3 else {}
    near = reader(NPU_RAM5 + offset, 0, 2, frame_repeat=2, line_offset_high=line >> 16, **shape, **steps, **wide)
    return swap(legal.copy(), STRENG0=near, STRENG5=writer(NPU_RAM3, lines * pixels * depth, 2, element_bytes=word))


def interleaved(first: int) -> Epoch:
    """Two copies into slices of the same 16 channels: four channels from 4 on, and four from `first` on."""
    slices = {"raw": 0, "depth": 4, "pixel_offset_low": 16, "line_offset_low": 256, "fsize_low": 16, "fsize_high": 16}
    slices |= {"frame_repeat": 2, "frame_offset": 4096}
    return add(
        swap(legal.copy(), STRENG0=reader(NPU_RAM5, 1024, 2), STRENG5=writer(NPU_RAM3 + 4, 1024, 2, **slices)),
        "STRENG7 > STRENG8",
        STRENG7=reader(NPU_RAM5 + 0x4000, 1024, 2),
        STRENG8=writer(NPU_RAM3 + first, 1024, 2, **slices),
    )


def six_writers() -> Epoch:
    names = ("STRENG7", "STRENG8", "STRENG2", "STRENG3", "STRENG4")
    more = {name: writer(NPU_RAM4 + 0x4000 * index, 2048, 4) for index, name in enumerate(names)}
    return add(legal.copy(), *(f"STRENG0 > {name}" for name in names), **more)


def one_frame(frame_repeat: int) -> StrengConfig:
    """512 bytes into every second pixel of a picture of 8 x 8 x 16."""
    raster = {"raw": 0, "depth": 8, "pixel_offset_low": 16, "line_offset_low": 128, "fsize_low": 8, "fsize_high": 8}
    return writer(NPU_RAM3, 512, frame_repeat=frame_repeat, **raster)


def pool_into_convacc() -> Epoch:
    """A maximum of 3 x 3 over 18 x 18 gives the 16 x 16 that the convolution wants."""
    size = {"line_elements": 18 * 8, "batch": 8, "height": 18, "out_width": 16, "out_height": 16}
    pool = replace(legal.pooling().units["POOL0"], **size)
    epoch = exchange(legal.convolution(), "STRENG0 > CONVACC0:0", "STRENG0 > POOL0")
    return add(epoch, limited("POOL0", "CONVACC0", 2), POOL0=pool, STRENG0=reader(NPU_RAM5, 18 * 18 * 8, 2))


def one_channel() -> Epoch:
    """1 x 1 kernels over a single channel."""
    units = {
        "CONVACC0": convacc(16, 16, 1, 8, (1, 1)),
        "STRENG0": features(NPU_RAM5, 256, 2),
        "STRENG5": kernels(2 * 8),
    }
    return swap(legal.convolution(), **units)


def four_channels(side: int) -> UnitConfig:
    """The POOL of the legal epoch, which gets the same elements as one frame of four channels instead of four."""
    pool = legal.pooling().units["POOL0"]
    return replace(pool, batch=4, line_elements=4 * side, height=side, out_width=side - 2, out_height=side - 2)


def sided(width: int, height: int, pads: tuple[int, int, int, int]) -> Epoch:
    """3 x 3 on another frame, with other padding: top, left, bottom, right."""
    sides = dict(zip(("pad_top", "pad_left", "pad_bottom", "pad_right"), pads, strict=True))
    conv = convacc(width, height, 8, 8, (3, 3), **sides)
    units = {
        "CONVACC0": conv,
        "STRENG0": features(NPU_RAM5, 8 * width * height, 2),
        "STRENG6": writer(NPU_RAM3, conv.out_elements, 2),
    }
    return swap(legal.convolution(), **units)


def shallow(channels: int) -> Epoch:
    """Deep mode with other channels."""
    conv = replace(legal.deep().units["CONVACC0"], batch=channels, line_elements=6 * channels)
    packed = {"element_bytes": 3}
    units = {
        "CONVACC0": conv,
        "STRENG0": features(NPU_RAM5, 12 * channels, 2, raw_out=1, **packed),
        "STRENG5": kernels(2 * conv.set_bytes, **packed),
    }
    return swap(legal.deep(), **units)


def other_kernel(width: int, height: int, count: int = 8, **settings: int) -> Epoch:
    """A convolution of other kernels, padded to the same size and balanced."""
    pads = {"pad_left": width // 2, "pad_right": (width - 1) // 2, "pad_top": height // 2}
    conv = convacc(16, 16, 8, count, (width, height), pad_bottom=(height - 1) // 2, **pads, **settings)
    units = {"CONVACC0": conv, "STRENG5": kernels(2 * conv.set_bytes), "STRENG6": writer(NPU_RAM3, 256 * count, 2)}
    return swap(legal.convolution(), **units)
