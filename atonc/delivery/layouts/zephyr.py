"""Zephyr: a module with the network, the runtime on Zephyr's threads and interrupts, a devicetree overlay, a sample.

Zephyr's own NPU driver switches clocks and resets on where the node `npu` is enabled, and the driver of AXISRAM3 to 6
where those nodes are; the overlay enables what the network uses.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from atonc.compiler.emit.c.names import word
from atonc.delivery.layouts import layout as ways
from atonc.delivery.layouts.layout import FolderLayout, LayoutNetwork, LayoutRefusal
from atonc.machine.base.templates import Words, render_folder
from atonc.machine.base.words import listed
from atonc.machine.hw.machine import secure
from atonc.machine.hw.mpool import MemoryPool

BOARD = "zephyr@stm32n6570-dk"
# what Zephyr's devicetree of the STM32N6 calls the NPU's memories, by address
NODES = {0x3420_0000: "axisram3", 0x3427_0000: "axisram4", 0x342E_0000: "axisram5", 0x3435_0000: "axisram6"}
_APPLICATION = (0x3400_0000, 0x3420_0000)  # AXISRAM1 and 2
_FLASH, _PARTITIONS_END = 0x7000_0000, 0x7042_0000  # where Zephyr's partitions of the discovery kit end
_DISCOVERY_KIT = "stm32n6570-dk"


def _files(given: LayoutNetwork) -> Mapping[str, bytes]:
    name = word(given.name)
    runtime = ways.runtime_files("runtime")
    sources = {f"network/{file}": data for file, data in given.sources.items()}
    weights = {f"weights/{_stem(file)}.bin": data for file, data in given.memory_images.items()}
    words = {
        **ways.words_of(given),
        "module": f"{name.lower()}_npu",
        "macro": name.upper(),
        "only": " ATONC_EC_ONLY" if given.network.epoch_controller else "",
        "runtime": [{"path": path} for path in runtime if path.endswith(".c")],
        "sources": [{"path": path} for path in sources if path.endswith(".c")],
        "nodes": list(_nodes(given)),
        "partitions": list(_partitions(given)),
        "maths": bool(given.network.cpu_blocks),  # layers on the CPU include math.h
        "folder": LAYOUT.folder(given.name),
        "flash": [{"file": _stem(file), "address": f"{given.base_of(file):#x}"} for file in given.memory_images],
    }
    clock = "(unsigned)k_cyc_to_us_floor32(k_cycle_get_32())"
    main = ways.sample_main(given, "#include <zephyr/kernel.h>\n", "printk", clock).encode()
    return {**render_folder("layouts/zephyr", words), "sample/src/main.c": main, **sources, **runtime, **weights}


def _stem(file: str) -> str:
    return word(file.rpartition(".")[0])


def _used(given: LayoutNetwork) -> list[MemoryPool]:
    return [pool for pool in given.network.pools if given.network.memory.by_pool.get(pool.name, 0)]


def _nodes(given: LayoutNetwork) -> Iterator[Words]:
    for pool in _used(given):
        for base, node in NODES.items():
            if pool.base <= base < pool.base + pool.size_bytes or base == secure(pool.base):
                yield {"node": node}


def _partitions(given: LayoutNetwork) -> Iterator[Words]:
    """The discovery kit's flash has a node with partitions; on other boards the application says where weights lie."""
    if given.view.board.name.rpartition("@")[2] != _DISCOVERY_KIT:
        return
    for file, data in given.memory_images.items():
        offset, size = given.base_of(file) - _FLASH, -(-len(data) // 4096) * 4096
        label = _stem(file).lower()
        numbers = {"hex_offset": f"{offset:x}", "offset": f"{offset:#x}", "size": f"{size:#x}"}
        yield {"file": _stem(file), "label": label, **numbers}


def _refuses(given: LayoutNetwork) -> Iterator[LayoutRefusal]:
    first, end = _APPLICATION
    taken = [pool.name for pool in _used(given) if pool.absolute and first <= secure(pool.base) < end]
    if taken:
        rule = "Zephyr's boards give AXISRAM1 and 2 to the application"
        yield LayoutRefusal(f"it uses {listed(taken)}", rule, f"--board {BOARD}, or pools without them")
    low = [file for file in given.memory_images if _FLASH <= given.base_of(file) < _PARTITIONS_END]
    if low:
        rule = f"Zephyr's partitions of the discovery kit end at {_PARTITIONS_END:#x}"
        yield LayoutRefusal(f"{listed(low)} would lie in them", rule, f"--board {BOARD}, or weights behind them")
    yield from ways.refuse_ram_constants(given, "the sample copies no constants to RAM")
    yield from ways.refuse_open_places(given, "the devicetree says where memories are before anything is built")


LAYOUT = FolderLayout(
    name="zephyr",
    title="a Zephyr module with a devicetree overlay and a sample",
    page="zephyr.md",
    files=_files,
    refuses=_refuses,
    board=BOARD,
)
