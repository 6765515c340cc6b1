"""`generate --selftest`: the board's self-test with what one network uses, and one inference whose output is known.

The tests themselves are plain C in `machine/runtime/selftest`; here stand the ranges, the checksums of the constants in
pieces, and the emulator's output for bytes that firmware can make up again.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping

import numpy as np

from atonc.compiler.compile.compile_view import CompileView
from atonc.compiler.emit.c import buffers_info, memories, names
from atonc.compiler.emit.c.memories import PoolRange
from atonc.compiler.emit.c.network import CNetwork
from atonc.compiler.place.pools import is_external
from atonc.compiler.verify.emulation import Emulation
from atonc.delivery.generate.generating import c_network
from atonc.machine.base.about import package_folder
from atonc.machine.base.disk import together
from atonc.machine.base.errors import UnsupportedError
from atonc.machine.base.templates import Words, render
from atonc.machine.hw.limits import CPU_CACHE_LINE

PAGE = "docs/selftest.md"
WORK_BYTES = 2048  # ATONC_SELFTEST_WORK
_LEAST_PIECE, _MOST_PIECES = 4096, 64
_READS, _WRITES, _CACHED = (f"ATONC_SELFTEST_NPU_{use}" for use in ("READS", "WRITES", "CACHED"))
_KNOWN_TYPES = ("INT8", "UINT8", "INT16", "UINT16", "FLOAT")  # any bytes are values of them, or floats made of bytes


def with_selftest(view: CompileView, files: Mapping[str, bytes]) -> dict[str, bytes]:
    """The files of a network and those of its self-test."""
    return together([("the network", files), ("the self-test", selftest_files(view))])


def selftest_files(view: CompileView) -> dict[str, bytes]:
    """File name -> contents: the test, and what it is about."""
    network = c_network(view)
    if not network.program.epochs:
        raise UnsupportedError(
            "--selftest: no layer runs on the NPU",
            where=f"network {view.name}",
            rule="the self-test finds out whether a board is set up for the NPU",
            remedy="leave --selftest out",
        )
    if network.program.movable:
        raise UnsupportedError(
            f"--selftest: the place of {network.program.movable[0].symbol} is known at run time only",
            where=f"network {view.name}",
            rule="the self-test checks memories at fixed addresses",
            remedy="leave out -r, --no-inputs-allocation, --no-outputs-allocation; or generate --selftest without them "
            f"into another folder, take atonc_selftest.c and .h from there and give atonc_selftest() your map: {PAGE}",
        )
    sources = package_folder() / "machine" / "runtime" / "selftest"
    tests = {path.name: path.read_bytes() for path in sorted(sources.glob("atonc_selftest.[ch]"))}
    about = {
        f"{view.name}_selftest.h": render("network/selftest.h", network.words).encode(),
        f"{view.name}_selftest.c": _source(view, network).encode(),
    }
    return together([("the self-test", tests), (f"network {view.name}", about)])


def _source(view: CompileView, network: CNetwork) -> str:
    parts, clocks = memories.ranges(network), view.board.machine.clocks
    work, checked = _work(parts), [part for part in parts if part.crc and not part.pool.writable]
    outputs = known_outputs(view, network)
    return render(
        "network/selftest.c",
        network.words,
        memories=[_memory_row(network, part) for part in parts],
        weights=[_weights_row(k, part) for k, part in enumerate(checked)],
        has_weights=bool(checked),
        own_work=work is None,
        work="(uint32_t)(uintptr_t)work" if work is None else names.address(work),
        blobs=network.epoch_controller and any(not block.on_cpu for block in network.blocks),
        known=bool(outputs),
        outputs=", ".join(f"0x{zlib.crc32(data):08x}U" for data in outputs),
        **{f"{name}_hz": round(getattr(clocks, f"{name}_mhz") * 1e6) for name in ("cpu", "npu", "npu_ram")},
    )


def _memory_row(network: CNetwork, part: PoolRange) -> Words:
    uses = [_READS, *([] if part.data else [_WRITES]), *([_CACHED] if _is_cached(network, part) else [])]
    return {
        **{"start": names.address(part.start), "size": part.size_bytes, "pool": names.word(part.pool.name)},
        "uses": " | ".join(uses),
    }


def _is_cached(network: CNetwork, part: PoolRange) -> bool:
    """Whether an engine reads or writes there through the NPU's cache."""
    engines = (one for epoch in network.program.epochs for one in epoch.engines().values())
    return is_external(part.pool) and any(one.cacheable and part.start <= one.address < part.end for one in engines)


def _work(parts: list[PoolRange]) -> int | None:
    """Working memory on the chip that the test may overwrite."""
    for part in parts:
        start = -(-part.start // CPU_CACHE_LINE) * CPU_CACHE_LINE
        if not part.data and not is_external(part.pool) and start + WORK_BYTES <= part.end:
            return start
    return None


def _weights_row(k: int, part: PoolRange) -> Words:
    piece = max(_LEAST_PIECE, -(-part.size_bytes // _MOST_PIECES // _LEAST_PIECE) * _LEAST_PIECE)
    crcs = [zlib.crc32(part.data[at : at + piece]) for at in range(0, part.size_bytes, piece)]
    first = np.frombuffer(part.data[:16].ljust(16, b"\0"), "<u4")
    return {
        **{"k": k, "count": len(crcs), "crcs": names.lines_of((f"0x{crc:08x}U" for crc in crcs), 8), "piece": piece},
        **{"start": names.address(part.start), "size": part.size_bytes, "pool": names.word(part.pool.name)},
        **{"first": ", ".join(f"0x{word:08x}U" for word in first)},
        "end": names.address(part.pool.base + part.pool.size_bytes),
    }


def known_bytes(first: int, count: int) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    """What `known_byte` in the C file gives for so many numbers."""
    mixed = np.arange(first, first + count, dtype=np.uint32) * np.uint32(0x9E3779B1)
    mixed = (mixed ^ mixed >> np.uint32(15)) * np.uint32(0x85EBCA6B)
    return (mixed >> np.uint32(24)).astype(np.uint8)


def known_outputs(view: CompileView, network: CNetwork) -> list[bytes]:
    """The memory of each output after a run on the known input; none where the input has a type that bytes do not
    make values of."""
    inputs = buffers_info.inputs(network)
    if any(info.type not in _KNOWN_TYPES for info in inputs):
        return []
    emulation = Emulation(view.compiled.program, view.compiled.graph, view.board.pools)
    for info, data in zip(inputs, _known_inputs(inputs), strict=True):
        emulation.memory.write(network.home(info.buffer).address, np.frombuffer(data, np.uint8))
    emulation.run({})
    return [
        emulation.memory.read(network.home(info.buffer).address, info.size_bytes).tobytes()
        for info in buffers_info.outputs(network)
    ]


def _known_inputs(inputs: list[buffers_info.Info]) -> Iterator[bytes]:
    used = 0
    for info in inputs:
        count = info.size_bytes // 4 if info.type == "FLOAT" else info.size_bytes
        data = known_bytes(used, count)
        used += count
        yield (data.view(np.int8).astype("<f4") / 32 if info.type == "FLOAT" else data).tobytes()
