"""Parts of epochs as ST's driver programs them, and ways to change one thing in an epoch."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from atonc.machine.hw import regs
from atonc.machine.hw.epoch import Epoch, Event
from atonc.machine.hw.fields import UnitConfig
from atonc.machine.hw.units.arith import AFFINE, ArithConfig
from atonc.machine.hw.units.convacc import ConvaccConfig
from atonc.machine.hw.units.stream_engine import StrengConfig
from atonc.machine.hw.units.switch import Link

NPU_RAM3, NPU_RAM4, NPU_RAM5 = 0x3420_0000, 0x3427_0000, 0x342E_0000
CPU_RAM1, CPU_RAM2 = 0x3400_0000, 0x3410_0000
FLASH = 0x7038_0000


def engine(address: int, elements: int, frames: int = 1, **settings: Any) -> StrengConfig:
    """A contiguous engine as ST's driver programs it; `settings` name fields of the configuration."""
    size = settings.pop("element_bytes", 1)
    base = StrengConfig(
        single=int(frames == 1),
        raw=1,
        size0=8,
        size1=8 if size > 1 else 0,
        size2=8 if size > 2 else 0,
        address=address,
        fsize_low=elements & 0xFFFF,
        fsize_high=elements >> 16,
        frame_offset=elements * size,
        frames=frames,
        address_limit_enabled=1,
        stop_prefetch=1,
        frame_limit_enabled=1,
        illegal_config_event=1,
        gap_cycles=0,
    )
    config = replace(base, **settings)
    if "address_limit" in settings:
        return config
    return replace(config, address_limit=config.span()[1] + 63)


def reader(address: int, elements: int, frames: int = 1, **settings: Any) -> StrengConfig:
    return engine(address, elements, frames, to_memory=0, **settings)


def writer(address: int, elements: int, frames: int = 1, **settings: Any) -> StrengConfig:
    return engine(address, elements, frames, to_memory=1, **settings)


def features(address: int, elements: int, frames: int, **settings: Any) -> StrengConfig:
    """A reader of feature frames, which counts them in a loop of one."""
    step = elements * settings.get("element_bytes", 1)
    return reader(address, elements, frames, frame_repeat=1, repeat_offset=step, **settings)


def kernels(size_bytes: int, address: int = FLASH, **settings: Any) -> StrengConfig:
    size = settings.get("element_bytes", 1)
    return reader(address, size_bytes // size, continuous=1, cacheable=1, **settings)


def convacc(width: int, height: int, batch: int, count: int, size: tuple[int, int], **settings: Any) -> ConvaccConfig:
    """8 x 8 bit, unsigned features, 16-bit result; `size` is kernel width and height."""
    base = ConvaccConfig(
        no_sum=1,
        no_first_sum=1,
        simd=1,
        features_unsigned=1,
        kernel_width=size[0],
        kernel_height=size[1],
        batch=batch,
        kernels=count,
        stride_x=1,
        stride_y=1,
        out_shift=2,
        in_shift=2,
        rounded=1,
        saturated=1,
        round_mode=1,
        out_bytes=2,
        feature_bytes=1,
        line_elements=width * batch,
        height=height,
        crop_left=0,
        crop_right=width * batch - 1,
        crop_top=0,
        crop_bottom=height - 1,
        kernels_per_round=1,
    )
    if size[1] > 1:
        base = replace(base, pad_left=1, pad_right=1, pad_top=1, pad_bottom=1)
    return replace(base, **settings)


def affine(**settings: Any) -> ArithConfig:
    """One input, bytes to bytes, scalar coefficients."""
    base = ArithConfig(
        operation=AFFINE,
        a=1 << 14,
        combine_bc=1,
        rounded=1,
        saturated=1,
        round_mode=1,
        out_bytes=1,
        shift_out=14,
        bytes_x=1,
        out_bytes_x=1,
        bytes_y=1,
        out_bytes_y=1,
    )
    return replace(base, **settings)


def per_channel(pixels: int, channels: int, batch: int, **settings: Any) -> ArithConfig:
    """One coefficient row per channel, 16-bit input."""
    vector = affine(
        vector_a=1,
        vector_b=1,
        vector_c=1,
        count1=1,
        count2=1,
        count3=1,
        step=1,
        reset1_every=batch - 1,
        reset2_every=pixels * batch - 1,
        reset3_every=pixels * channels - 1,
        offset1=1 - batch,
        offset2=1,
        offset3=1 - channels,
        translate=1,
        bytes_x=2,
        out_bytes_x=2,
        bytes_y=2,
        out_bytes_y=2,
    )
    return replace(vector, **settings)


def scale(pixels: int, channels: int, batch: int) -> ArithConfig:
    return per_channel(pixels, channels, batch, combine_bc=0, out_bytes=2, shift_out=14)


def bias(pixels: int, channels: int, batch: int) -> ArithConfig:
    return per_channel(pixels, channels, batch, shift_out=20)


def gated(source: str, destination: str, port: int, drop: int, keep: int) -> Link:
    return Link(source, destination, port, False, drop, True, keep, regs.SOURCES[source])


def limited(source: str, destination: str, keep: int) -> Link:
    return Link(source, destination, 0, True, keep, False, 255, regs.SOURCES[source])


def link(text: str) -> Link:
    """`STRENG0 > CONVACC0:1`; port 0 when none is named."""
    source, destination = text.split(" > ")
    unit, _, port = destination.partition(":")
    return Link(source, unit, int(port or 0))


def build(units: dict[str, UnitConfig], links: Iterable[Link | str], number: int = 7, style: int = 1) -> Epoch:
    """An epoch with the events that a program of ST's tool would have."""
    wired = tuple(link(k) if isinstance(k, str) else k for k in links)
    writers = sorted(name for name, c in units.items() if isinstance(c, StrengConfig) and c.to_memory)
    return with_events(Epoch(number, units, wired, tuple(writers)), style)


def with_events(epoch: Epoch, style: int = 1) -> Epoch:
    writers, readers = sorted(epoch.writers()), sorted(epoch.readers())
    processing = sorted(name for name in epoch.units if name not in epoch.engines())
    first = ("switch clear", "switch enable", "link")
    switch = first if style == 1 else ("link", "switch enable")
    everything = [*writers, *processing, *readers]
    events = [
        *(Event("configure", unit) for unit in [*processing, *readers, *writers]),
        *(Event(what, "STRSWITCH0") for what in switch),
        *(Event("enable", unit) for unit in everything),
        *(Event("wait", unit, (0, 100)) for unit in epoch.waits),
        Event("unlink", "STRSWITCH0"),
        *(Event("disable", unit) for unit in everything),
    ]
    return replace(epoch, events=tuple(events))


def change(epoch: Epoch, unit: str, **settings: Any) -> Epoch:
    """The epoch with other settings of one unit."""
    return replace(epoch, units={**epoch.units, unit: replace(epoch.units[unit], **settings)})


def exchange(epoch: Epoch, old: Link | str, new: Link | str | None) -> Epoch:
    """The epoch with a link replaced; None removes it."""
    gone = link(old) if isinstance(old, str) else old
    places = [(k.source, k.destination, k.port) for k in epoch.links]
    index = places.index((gone.source, gone.destination, gone.port))
    added = () if new is None else (link(new) if isinstance(new, str) else new,)
    return replace(epoch, links=(*epoch.links[:index], *added, *epoch.links[index + 1 :]))


def add(epoch: Epoch, *links: Link | str, **units: UnitConfig) -> Epoch:
    """The epoch with more units and links, and the events that go with them."""
    wired = tuple(link(k) if isinstance(k, str) else k for k in links)
    grown = replace(epoch, units={**epoch.units, **units}, links=(*epoch.links, *wired))
    return with_events(replace(grown, waits=tuple(sorted(grown.writers()))))
