"""Rust: a `no_std` crate with the programs of the epoch controller and the weights, for embassy's NPU driver.

That driver runs programs of the epoch controller and nothing else: networks with layers on the CPU are refused. The
crate itself depends on nothing and compiles on any machine; a second one in `embassy/` runs it on the driver. They are
two, since cargo asks for the sources of every dependency, also of one that is switched off.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping

import numpy as np

from atonc.compiler.emit.c.buffers_info import Info
from atonc.compiler.emit.c.names import word
from atonc.delivery.layouts import layout as ways
from atonc.delivery.layouts.layout import FolderLayout, LayoutNetwork, LayoutRefusal
from atonc.machine.base.templates import Words, render_folder
from atonc.machine.base.words import listed
from atonc.machine.hw.limits import CPU_CACHE_LINE, NPU_CACHE_LINE

# the revision of embassy whose driver was read, and the version of the crate there
EMBASSY_REVISION = "66f5f6e8f737ad577076ae6779209edafbdeee9f"
EMBASSY_URL = "https://github.com/embassy-rs/embassy"
BLOBS_SECTION, WEIGHTS_SECTION = ".npu_blobs", ".npu_weights"
_TYPES = {
    "INT8": "i8", "UINT8": "u8", "BOOL": "u8", "INT16": "i16", "UINT16": "u16", "INT32": "i32", "UINT32": "u32",
    "INT64": "i64", "UINT64": "u64", "FLOAT": "f32", "DOUBLE": "f64",
}  # fmt: skip


def crate_name(network: str) -> str:
    return f"{word(network).lower()}_npu"


def _files(given: LayoutNetwork) -> Mapping[str, bytes]:
    programs = [(one, np.array(one.container.words(), "<u4").tobytes()) for one in given.programs]
    blobs = {f"blobs/epochs_{one.block.first}_to_{one.block.last}.bin": data for one, data in programs}
    weights = [
        (f"{word(file.rpartition('.')[0])}.bin", given.base_of(file), data)
        for file, data in given.memory_images.items()
    ]
    kept = [(f"states/state_{k}.bin", one) for k, one in enumerate(given.network.program.states)]
    used = [pool.name for pool in given.network.pools if given.network.memory.by_pool.get(pool.name, 0)]
    inputs = [_edge(given, "input", index, info) for index, info in enumerate(given.inputs)]
    outputs = [_edge(given, "output", index, info) for index, info in enumerate(given.outputs)]
    words = {
        **ways.words_of(given),
        **{"crate": crate_name(given.name), "url": EMBASSY_URL, "revision": EMBASSY_REVISION},
        "folder": LAYOUT.folder(given.name),
        "programs_text": f"{len(programs)} programs" if len(programs) > 1 else "One program",
        "programs": [
            {"first": one.block.first, "file": file, "size": len(data)}
            for (one, data), file in zip(programs, blobs, strict=True)
        ],
        "memories": listed([word(name) for name in used]),
        "line": NPU_CACHE_LINE,
        **{"blobs": BLOBS_SECTION, "section": WEIGHTS_SECTION},
        "count": len(programs),
        "calls": ", ".join(f"words(&BLOB_{one.block.first}.0)" for one, _ in programs),
        "weights_count": len(weights),
        "weights": [
            {"k": k, "file": file, "size": len(data), "address": f"{base:#010x}"}
            for k, (file, base, data) in enumerate(weights)
        ],
        "weights_text": "".join(
            f'\n    Weights {{ file: "{file}", address: {base:#010x}, len: {len(data)}, '
            f"crc32: {zlib.crc32(data):#010x} }},\n"
            for file, base, data in weights
        ),
        **{"has_states": bool(kept), "states_count": len(kept), "cpu_line": CPU_CACHE_LINE},
        "states": [
            {"file": file, "label": given.network.labels[one.name], "address": f"{one.address:#010x}"}
            for file, one in kept
        ],
        **{"inputs": inputs, "outputs": outputs, "edges": [*inputs, *outputs]},
    }
    images = {f"weights/{file}": data for file, _, data in weights} | {file: one.first for file, one in kept}
    return {**render_folder("layouts/rust", words), **blobs, **images}


def _edge(given: LayoutNetwork, what: str, index: int, info: Info) -> Words:
    """`lines_bytes`: whole lines of the cache, which hold nothing else; a part of one would be written back over the
    NPU's results."""
    scale = np.float32(info.scales[0] if info.scales else 1.0)
    return {
        **{"what": what, "label": info.label, "module": f"{what}_{index}"},
        **{"rust": _TYPES[info.type], "rank": len(info.mem_shape), "shape": ", ".join(map(str, info.mem_shape))},
        "elements": info.size_bytes * 8 // info.bits,
        "address": f"{given.address(info):#010x}",
        "size": info.size_bytes,
        "lines_bytes": -(-info.size_bytes // CPU_CACHE_LINE) * CPU_CACHE_LINE,
        "scale": np.format_float_scientific(scale, unique=True, trim="0", exp_digits=1).replace("e+", "e"),
        "zero": info.offsets[0] if info.offsets else 0,
    }


def _refuses(given: LayoutNetwork) -> Iterator[LayoutRefusal]:
    driver = "embassy's driver runs programs of the epoch controller, and nothing else"
    if not given.network.epoch_controller:
        yield LayoutRefusal("epochs are started by the CPU", driver, "leave --no-epoch-controller out")
    yield from ways.refuse_cpu_layers(given, driver)
    yield from ways.refuse_movable(given, "programs of the crate are linked as they are, with every address in them")
    yield from ways.refuse_ram_constants(given, "the crate keeps weights in flash and does not copy them")
    if given.network.program.encrypted:
        yield LayoutRefusal("weights are encrypted", "embassy's driver sets no keys", "leave --encrypt-weights out")
    odd = [info.label for info in (*given.inputs, *given.outputs) if info.type not in _TYPES]
    if odd:
        yield LayoutRefusal(f"{listed(odd)} has a type that Rust has not", "types of Rust's core", "--output-data-type")


LAYOUT = FolderLayout(
    name="rust",
    title="a no_std crate for embassy's NPU driver",
    page="rust.md",
    files=_files,
    refuses=_refuses,
    forgets="the crate does not write weights to RAM before the first inference",
    carries=False,
    leavings=("Cargo.lock", "target/*", "embassy/Cargo.lock", "embassy/target/*"),
)
