"""Memory: addresses, limits, alignment and cache flags of the stream engines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations

from atonc.machine.base.reasons import Evidence, Severity
from atonc.machine.hw.footprint import share_word
from atonc.machine.hw.limits import BUS_BYTES, FLASH_ALIGNMENT, PREFETCH_BYTES, READ_ALIGNMENT, WRITE_ALIGNMENT
from atonc.machine.hw.machine import CPU_RAM, HYPERRAM, secure, stm32n6
from atonc.machine.hw.safety.balance import overshoots
from atonc.machine.hw.safety.view import EpochView, PoolKind, SafetyFinding, proven, rule
from atonc.machine.hw.units.stream_engine import StrengConfig


@rule(
    "M01",
    "address limit, frame limit and the end of prefetch are enabled on every engine (LIMITEN = 7)",
    proven(46259, "engines"),
    remedy="set ADDRLIMIT, STOPPREFTC and FRAMELIMIT",
)
def limits_enabled(view: EpochView) -> Iterator[SafetyFinding]:
    for unit, c in view.engines.items():
        flags = c.address_limit_enabled, c.stop_prefetch, c.frame_limit_enabled
        if flags != (1, 1, 1):
            yield SafetyFinding(unit, f"ADDRLIMIT, STOPPREFTC, FRAMELIMIT = {flags}", "1, 1, 1")


@rule(
    "M02",
    "engines raise only the illegal-configuration event; writers that the CPU drives also the frame overflow",
    proven(41655, "engines"),
    remedy="set EVENT to ILLCFG only",
)
def events_enabled(view: EpochView) -> Iterator[SafetyFinding]:
    for unit, c in view.engines.items():
        if not c.illegal_config_event or (c.overflow_event and not c.to_memory):
            yield SafetyFinding(
                unit, f"EN_ILLCFG = {c.illegal_config_event}, EN_OFLOW_FRM = {c.overflow_event}", "1, 0"
            )


@rule(
    "M03",
    "the address limit lies at or behind the last byte that the engine touches",
    Evidence(46236, 46259, "engines", "23 broadcast readers of ARITH port Y are done before they reach it"),
    remedy=f"set LIMITADDR to the last byte + {PREFETCH_BYTES}; an engine that reaches its limit never ends",
)
def limit_behind_data(view: EpochView) -> Iterator[SafetyFinding]:
    for unit, config in view.engines.items():
        last = view.spans[unit][1] - 1
        if config.address_limit < last:
            mild = Severity.NOTE if _enough_for_y(view, unit, config) else None
            yield SafetyFinding(
                unit, f"limit {config.address_limit:#010x}, last byte {last:#010x}", "limit >= last byte", mild
            )


def _enough_for_y(view: EpochView, unit: str, config: StrengConfig) -> bool:
    """A broadcast reader that has delivered all that X needs before it meets its limit."""
    users = view.destinations(unit)
    if not users or any(link.port != 1 or not overshoots(view, link.destination) for link in users):
        return False
    return replace(config, frames=config.frame_repeat).span()[1] - 1 <= config.address_limit


@rule(
    "M04",
    f"the address limit leaves {PREFETCH_BYTES} bytes behind the last byte for prefetch",
    Evidence(57521, 58124, "engines", "the others are mostly packed 24-bit readers whose last word runs over"),
    severity=Severity.NOTE,
    limit=f"{PREFETCH_BYTES} bytes",
    remedy=f"set LIMITADDR to the last byte + {PREFETCH_BYTES}",
)
def prefetch_margin(view: EpochView) -> Iterator[SafetyFinding]:
    for unit, config in view.engines.items():
        margin = config.address_limit - (view.spans[unit][1] - 1)
        if 0 <= margin < PREFETCH_BYTES:
            yield SafetyFinding(unit, f"{margin} bytes", f"{PREFETCH_BYTES}")


@rule(
    "M05",
    "no engine touches an address below the one at which it starts",
    proven(46259, "engines"),
    remedy="start at the lowest address and step upwards",
)
def nothing_below_start(view: EpochView) -> Iterator[SafetyFinding]:
    for unit, config in view.engines.items():
        first = view.spans[unit][0]
        if first < config.address:
            yield SafetyFinding(unit, f"reaches down to {first:#010x}", f"{config.address:#010x}")


@rule(
    "M06",
    "pixels of a raster do not overlap: pixel step >= depth x element bytes",
    proven(12996, "rasters"),
    remedy="raise DEPTH.OFFSET",
)
def pixels_apart(view: EpochView) -> Iterator[SafetyFinding]:
    for unit, config in view.engines.items():
        need = config.depth * config.element_bytes
        if not config.raw and config.pixel_offset < need:
            yield SafetyFinding(unit, f"pixel step {config.pixel_offset}", f">= {need}")


@rule(
    "M07",
    "lines of a raster do not overlap: line step >= width x pixel step; a writer may store transposed",
    proven(12996, "rasters", "109 writers store transposed"),
    remedy="raise the line step",
)
def lines_apart(view: EpochView) -> Iterator[SafetyFinding]:
    for unit, config in view.engines.items():
        lines, pixels, _ = config.shape
        need = pixels * config.pixel_offset
        if config.raw or config.line_offset >= need:
            continue
        transposed = config.to_memory and 0 < config.line_offset < config.pixel_offset
        if not transposed:
            yield SafetyFinding(unit, f"line step {config.line_offset} for {lines} lines", f">= {need}")


@rule(
    "M08",
    f"addresses in flash are multiples of {FLASH_ALIGNMENT}",
    proven(7017, "readers"),
    remedy=f"align weights to {FLASH_ALIGNMENT} bytes",
)
def flash_aligned(view: EpochView) -> Iterator[SafetyFinding]:
    for unit, config in view.engines.items():
        if _kind(view, unit) == PoolKind.FLASH and config.address % FLASH_ALIGNMENT:
            yield SafetyFinding(unit, f"starts at {config.address:#010x}", f"a multiple of {FLASH_ALIGNMENT}")


@rule(
    "M09",
    f"addresses in cpuRAM and hyperRAM are multiples of {READ_ALIGNMENT} for reading, {WRITE_ALIGNMENT} for writing",
    proven(1102, "engines"),
    remedy="align the buffer",
)
def slow_memory_aligned(view: EpochView) -> Iterator[SafetyFinding]:
    for unit, config in view.engines.items():
        bank = stm32n6().memory_at(config.address)
        step = WRITE_ALIGNMENT if config.to_memory else READ_ALIGNMENT
        if bank is not None and bank.kind in (CPU_RAM, HYPERRAM) and config.address % step:
            yield SafetyFinding(unit, f"starts at {config.address:#010x} in {bank.name}", f"a multiple of {step}")


@rule(
    "M10",
    "on-chip memory and user buffers are not cached: CACHEABLE = 0, ALLOC = 0",
    proven(38799, "engines"),
    remedy="clear CACHEABLE and ALLOC: only external memory lies behind the NPU cache",
)
def on_chip_uncached(view: EpochView) -> Iterator[SafetyFinding]:
    for unit, config in view.engines.items():
        inside = _kind(view, unit) in (PoolKind.ON_CHIP, PoolKind.USER)
        if inside and (config.cacheable or config.cache_allocate):
            yield SafetyFinding(unit, f"CACHEABLE = {config.cacheable}, ALLOC = {config.cache_allocate}", "0, 0")


@rule(
    "M11",
    "flash is read through the cache: CACHEABLE = 1",
    Evidence(8960, 9001, "readers", "41 readers of 4 programs go past the cache"),
    severity=Severity.NOTE,
    remedy="set CACHEABLE",
)
def flash_cached(view: EpochView) -> Iterator[SafetyFinding]:
    for unit, config in view.engines.items():
        if _kind(view, unit) == PoolKind.FLASH and not config.cacheable:
            yield SafetyFinding(unit, "reads flash with CACHEABLE = 0", "1")


@rule(
    "M12",
    "lines of flash are kept in the cache (ALLOC = 1) only for streams into ARITH port Y and for kernels",
    proven(780, "readers", "770 into ARITH port Y, 10 kernel readers"),
    remedy="clear ALLOC: streams read once would evict what is read again",
)
def allocation_is_rare(view: EpochView) -> Iterator[SafetyFinding]:
    for unit, config in view.engines.items():
        if not config.cache_allocate or _kind(view, unit) != PoolKind.FLASH:
            continue
        role = view.role(unit)
        if role not in ("to ARITH:1", "to CONVACC:1") or not config.cacheable:
            yield SafetyFinding(unit, f"ALLOC = 1 for a stream {role}", "to ARITH:1 or to CONVACC:1")


@rule(
    "M13",
    "nothing is written to flash",
    proven(15491, "writers"),
    remedy="place the buffer in RAM; dirty cache lines towards flash hang the system",
)
def flash_not_written(view: EpochView) -> Iterator[SafetyFinding]:
    for unit, config in view.writers.items():
        pool = view.memory_of[unit]
        if pool is not None and (pool.kind == PoolKind.FLASH or not pool.writable):
            yield SafetyFinding(unit, f"writes {config.address:#010x} in {pool.name}")


@rule(
    "M14",
    "an engine touches only memory that exists",
    proven(47582, "engines", "115 programs with their own pools"),
    remedy="place the buffer inside the pools",
)
def inside_memory(view: EpochView) -> Iterator[SafetyFinding]:
    given = bool(view.context.pools)
    for unit, config in view.engines.items():
        first, end = view.spans[unit]
        outside_user = not given and stm32n6().memory_at(config.address) is None  # a buffer of the application
        if outside_user or config.address_limit < end - 1 or view.context.covers(first, end - 1):
            continue  # what the limit cuts off is reported there
        yield SafetyFinding(unit, f"touches {first:#010x}..{end - 1:#010x}", "inside the memory pools")


@rule(
    "M15",
    "a writer stays inside the buffer in which it starts",
    Evidence(report="holds by construction where the caller names the buffers that live in the epoch"),
    remedy="correct the writer's frames, or the buffer's size",
)
def writers_inside_buffers(view: EpochView) -> Iterator[SafetyFinding]:
    for unit, config in view.writers.items():
        buffer = view.context.buffer_at(config.address)
        end = secure(view.spans[unit][1] - 1) + 1
        if buffer is not None and end > buffer.end:
            yield SafetyFinding(unit, f"writes up to {end - 1:#010x}", f"{buffer.name} ends at {buffer.end - 1:#010x}")


@rule(
    "M16",
    f"the writers of an epoch do not meet in a word of {BUS_BYTES} bytes",
    Evidence(
        10739, 10830, "pairs of writers", "the others are in 13 programs of eight owners, 2 of them shipped by ST"
    ),
    severity=Severity.UNPROVEN,
    remedy="cut tensors between words, or write the parts one after the other",
)
def writers_apart(view: EpochView) -> Iterator[SafetyFinding]:
    for (name, one), (unit, other) in combinations(view.writers.items(), 2):
        if share_word(one, other):
            yield SafetyFinding(unit, f"writes into words that {name} writes", f"words of {BUS_BYTES} bytes for each")


@rule(
    "M17",
    "a reader stays inside the buffer in which it starts; the last of its words may be filled up behind it",
    Evidence(report="holds by construction where the caller names the buffers that live in the epoch"),
    remedy="correct the reader's frames: it reads beyond the buffer",
)
def readers_inside_buffers(view: EpochView) -> Iterator[SafetyFinding]:
    for unit, config in view.readers.items():
        buffer = view.context.buffer_at(config.address)
        end = secure(view.spans[unit][1] - config.stored_bytes) + 1  # the last word begins inside
        if buffer is not None and end > buffer.end:
            yield SafetyFinding(unit, f"reads up to {end - 1:#010x}", f"{buffer.name} ends at {buffer.end - 1:#010x}")


@rule(
    "M18",
    "packed words of a raster are read from even addresses",
    proven(1271, "rasters of 24 bits"),
    severity=Severity.UNPROVEN,
    remedy="begin pixels, lines and frames at even places",
)
def packed_words_even(view: EpochView) -> Iterator[SafetyFinding]:
    for unit, config in view.readers.items():
        loops = (*config.frame_loops(), *zip(config.shape, config.steps, strict=True))
        places = (config.address, *(step for count, step in loops[:-1] if count > 1))
        if config.element_bytes == 3 and not config.raw and any(place % 2 for place in places):
            yield SafetyFinding(
                unit, f"starts at {config.address:#010x}, steps {', '.join(map(str, places[1:]))}", "even"
            )


def _kind(view: EpochView, unit: str) -> PoolKind | None:
    pool = view.memory_of[unit]
    return None if pool is None else pool.kind
