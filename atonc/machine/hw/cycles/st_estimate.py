"""ST's own estimate, as its compiler prints it: the slowest of the units and of every memory pool.

Compute: each unit moves one word per cycle; a convolution takes the largest of feature words, output elements and
kernel words. Memory: each pool takes (bytes read + bytes written) * freqRatio / byteWidth. How the compiler counts
was read from its `c_info.json`; where that count is odd, so is this one:

* A feature frame below `SMALL_FRAME` elements counts once, however often the program reads it.
* A stream that allocates cache lines counts the span of its buffer once, however often it is read.
* A sum that passes through memory writes, besides itself, one byte for each finished element.
* What a convolution writes straight to memory counts one byte per element, of whatever size.
* Bytes that only fill up words (deep and DSS2 modes) do not count.
* Tools from 3.0.0 on (`count_runs`) also charge pixels that lie apart in memory one transfer each.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from atonc.machine.hw.cycles import traffic
from atonc.machine.hw.cycles.flow import FEATURES, KERNELS, SUMS, StreamFlow, UnitFlow, element_counts
from atonc.machine.hw.cycles.hardware import Bound, EpochCycles, slowest
from atonc.machine.hw.epoch import Epoch
from atonc.machine.hw.machine import PoolTiming, secure
from atonc.machine.hw.memoise import memoise
from atonc.machine.hw.units.convacc import ConvaccConfig
from atonc.machine.hw.units.stream_engine import StrengConfig

SMALL_FRAME = 3072  # elements; frames of 2,744 are counted once, frames of 3,072 each time


def epoch_cycles(epoch: Epoch, pools: Iterable[PoolTiming], count_runs: bool = False) -> EpochCycles:
    return _epoch_cycles(epoch, physical(pools), count_runs)


@memoise
def _epoch_cycles(epoch: Epoch, pools: tuple[PoolTiming, ...], count_runs: bool) -> EpochCycles:
    flow = element_counts(epoch)
    compute = slowest(_unit_bounds(epoch, flow))
    streams = _streams(epoch, pools)
    memory = _pool_bounds(streams, pools)
    if count_runs:
        memory += _run_bounds(epoch, streams)
    bound = slowest([compute, *memory])
    detail = {"compute": compute.cycles}
    for pool in memory:
        detail[pool.label] = max(pool.cycles, detail.get(pool.label, 0.0))
    return EpochCycles(round(bound.cycles), round(compute.cycles), bound.label, detail)


def counts_runs(atonn_version: str) -> bool:
    """Whether the tool that compiled a network estimates with `count_runs`."""
    from atonc.machine.hw.ll import FIRST, generation_of  # all of the driver comes with it

    return generation_of(atonn_version) is not FIRST


def fast_library(atonn_version: str) -> bool:
    """Whether the library of ST that comes with the tool is that of 4.0."""
    from atonc.machine.hw.ll import THIRD, generation_of

    return generation_of(atonn_version) is THIRD


def physical(pools: Iterable[PoolTiming]) -> tuple[PoolTiming, ...]:
    """Without the virtual pools, which are several neighbouring ones seen as one."""
    return _physical(tuple(pools))


@lru_cache(maxsize=16)
def _physical(pools: tuple[PoolTiming, ...]) -> tuple[PoolTiming, ...]:
    real = [pool for pool in pools if pool.size_bytes > 0]
    return tuple(pool for pool in real if not any(_inside(other, pool) for other in real))


def pool_bytes(epoch: Epoch, pools: Iterable[PoolTiming]) -> dict[str, tuple[float, float]]:
    """Bytes read and written in each pool, as the compiler counts them."""
    return _pool_bytes(_streams(epoch, physical(pools)))


class _StreamBytes(NamedTuple):
    """What one engine moves, and which part of it each pool gets."""

    name: str
    engine: StrengConfig
    amount: int
    shares: list[tuple[PoolTiming, float]]

    @property
    def home(self) -> PoolTiming | None:
        """The pool where the stream begins."""
        return self.shares[0][0] if self.shares else None


@memoise
def _streams(epoch: Epoch, pools: tuple[PoolTiming, ...]) -> tuple[_StreamBytes, ...]:
    spans, flow = traffic.secure_spans(pools), element_counts(epoch)
    return tuple(
        _StreamBytes(name, engine, counted_bytes(epoch, name, engine, flow), traffic.shares(engine, spans))
        for name, engine in epoch.engines().items()
    )


def _pool_bytes(streams: Iterable[_StreamBytes]) -> dict[str, tuple[float, float]]:
    counts: dict[str, tuple[float, float]] = {}
    for stream in streams:
        for pool, share in stream.shares:
            read, written = counts.get(pool.name, (0.0, 0.0))
            part = stream.amount * share
            counts[pool.name] = (read, written + part) if stream.engine.to_memory else (read + part, written)
    return counts


def counted_bytes(epoch: Epoch, name: str, engine: StrengConfig, flow: StreamFlow) -> int:
    """Bytes that the compiler charges for an engine."""
    if engine.to_memory:
        return _written_bytes(epoch, name, engine)
    amount = math.ceil(flow.delivered(epoch, name) * engine.bytes_per_element)
    if engine.cacheable and engine.cache_allocate:
        return min(amount, _buffer_span(epoch, engine))
    for link in epoch.destinations(name):
        config = epoch.units.get(link.destination)
        if isinstance(config, ConvaccConfig) and link.destination in flow.units:
            amount = min(amount, _convolution_bytes(config, link.port, engine, flow[link.destination]))
    return amount


def _unit_bounds(epoch: Epoch, flow: StreamFlow) -> list[Bound]:
    bounds = []
    for name, config in epoch.units.items():
        unit = flow[name]
        if isinstance(config, ConvaccConfig):
            bounds.append(Bound(_feature_words(epoch, name, config, unit), "feature"))
            bounds.append(Bound(unit.output.total, "output"))
            bounds.append(Bound(unit.input(KERNELS).total, "weights"))
        elif not isinstance(config, StrengConfig):
            bounds.append(Bound(max(unit.output.total, *unit.taken.values(), 0), "compute"))
    return bounds


def _feature_words(epoch: Epoch, name: str, config: ConvaccConfig, unit: UnitFlow) -> int:
    frames = unit.input(FEATURES).total // max(1, config.feature_words)
    source = epoch.sources(name).get(FEATURES)
    engine = epoch.units.get(source.source) if source is not None else None
    if isinstance(engine, StrengConfig) and _counts_once(config):
        words = traffic.distinct_frames(engine) * engine.frame_elements
        frames = min(frames, -(-words // max(1, config.feature_words)))
    return -(-frames * config.height * config.width * config.batch // config.packing)


def _counts_once(config: ConvaccConfig) -> bool:
    return not config.deep and config.height * config.width * config.batch < SMALL_FRAME


def _convolution_bytes(config: ConvaccConfig, port: int, engine: StrengConfig, unit: UnitFlow) -> int:
    """What a convolution's reader counts, without words' padding and, for small frames, without repeats."""
    if port == KERNELS and config.deep:
        sets = unit.input(KERNELS).total * unit.input(KERNELS).word_bytes // max(1, config.set_bytes)
        return sets * config.set_kernels * config.batch
    if port != FEATURES:
        return traffic.total_bytes(engine)
    if _counts_once(config):
        return traffic.distinct_bytes(engine)
    if config.packing > 1:
        return unit.input(FEATURES).total // max(1, config.feature_words) * config.height * config.width * config.batch
    return traffic.total_bytes(engine)


def _written_bytes(epoch: Epoch, name: str, engine: StrengConfig) -> int:
    source = epoch.sources(name).get(0)
    config = epoch.units.get(source.source) if source is not None else None
    if not isinstance(config, ConvaccConfig):
        return traffic.total_bytes(engine)
    period = _sum_period(epoch, engine)
    if period is None:
        return engine.elements
    return traffic.total_bytes(engine) + engine.elements // period


def _sum_period(epoch: Epoch, writer: StrengConfig) -> int | None:
    """How many frames one sum takes when this writer carries it through memory; None when it does not."""
    for name, reader in epoch.readers().items():
        for link in epoch.destinations(name):
            head = epoch.units.get(link.destination)
            if link.port == SUMS and reader.address == writer.address and isinstance(head, ConvaccConfig):
                return max(1, head.frames_per_sum)
    return None


def _buffer_span(epoch: Epoch, engine: StrengConfig) -> int:
    """Size of the buffer as far as the epoch shows it: together with all readers whose range overlaps."""
    low, high = engine.span()
    for _ in epoch.units:
        spans = [s for s in (r.span() for r in epoch.readers().values()) if s[0] < high and low < s[1]]
        wider = min([low, *(s[0] for s in spans)]), max([high, *(s[1] for s in spans)])
        if wider == (low, high):
            break
        low, high = wider
    return high - low


def _pool_bounds(streams: Iterable[_StreamBytes], pools: tuple[PoolTiming, ...]) -> list[Bound]:
    totals = _pool_bytes(streams)
    bounds = {pool.name: sum(totals.get(pool.name, (0, 0))) * pool.cycles_per_byte for pool in pools}
    for stream in streams:
        home = stream.home
        if home is not None and stream.engine.element_bytes < 3:
            # one stream is never faster than in the pool where it begins, even when it reaches into the next
            bounds[home.name] = max(bounds[home.name], stream.amount * home.cycles_per_byte)
    return [Bound(cycles, name) for name, cycles in bounds.items() if cycles]


def _run_bounds(epoch: Epoch, streams: Iterable[_StreamBytes]) -> list[Bound]:
    """Transfers of scattered pixels, reads and writes apart, all in the pool where the stream begins."""
    totals: dict[tuple[str, int], float] = {}
    for stream in streams:
        home, engine = stream.home, stream.engine
        if home is None:
            continue
        run = _run_bytes(epoch, stream.name, engine)
        if run == 0:
            cycles = stream.amount / max(1, engine.element_bytes) * home.cycles_per_byte
        else:
            cycles = stream.amount // run * -(-run // home.byte_width) * home.freq_ratio
        key = home.name, engine.to_memory
        totals[key] = totals.get(key, 0.0) + cycles
    return [Bound(cycles, name) for (name, _), cycles in totals.items()]


def _run_bytes(epoch: Epoch, name: str, engine: StrengConfig) -> int:
    """Bytes of a pixel that lies apart from its neighbours (DSS2 takes two at a time); 0 when all lie together."""
    lines, pixels, depth = engine.shape
    size = depth * engine.element_bytes
    apart = engine.pixel_offset != size if pixels > 1 else lines > 1 and engine.line_offset != size
    if engine.raw or not apart:
        return 0
    consumers = [epoch.units.get(link.destination) for link in epoch.destinations(name) if link.port == FEATURES]
    dss2 = any(isinstance(config, ConvaccConfig) and config.dss2 for config in consumers)
    return 2 if dss2 else size


def _inside(inner: PoolTiming, outer: PoolTiming) -> bool:
    offset = secure(inner.base) - secure(outer.base)
    return inner.size_bytes < outer.size_bytes and 0 <= offset <= outer.size_bytes - inner.size_bytes
