"""Rust: a `no_std` crate with the programs of the epoch controller and the weights, for embassy's NPU driver.

That driver runs programs of the epoch controller and nothing else: networks with layers on the CPU are refused. The
crate itself depends on nothing and compiles on any machine; a second one in `embassy/` runs it on the driver. They are
two, since cargo asks for the sources of every dependency, also of one that is switched off.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from atonc.compiler.emit.c.blobs_h import StoredProgram
from atonc.compiler.emit.c.buffers_info import Info
from atonc.compiler.emit.c.names import word
from atonc.delivery.layouts import layout as ways
from atonc.delivery.layouts.layout import LICENCE, TOOL, FolderLayout, LayoutNetwork, LayoutRefusal
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

_CARGO = """# {licence}
# Written by {tool}. Do not edit.
[package]
name = "{crate}"
version = "0.1.0"
edition = "2021"
rust-version = "1.77"
license = "Apache-2.0"
description = "The network {name} for the NPU of the STM32N6"
publish = false

[features]
default = ["weights"]
# the weights are part of the firmware, at their address (npu.x); without it flash weights/*.bin yourself
weights = []
"""

_EMBASSY_CARGO = """# {licence}
# Written by {tool}. Do not edit.
[package]
name = "{crate}_embassy"
version = "0.1.0"
edition = "2021"
rust-version = "1.77"
license = "Apache-2.0"
description = "The network {name} on embassy's NPU driver"
publish = false

[dependencies]
{crate} = {{ path = ".." }}
embassy-stm32 = {{ git = "{url}", rev = "{revision}", features = ["stm32n657x0"] }}
"""

_BUILD = """// {licence}
//! Puts npu.x where the linker finds it: add "-C", "link-arg=-Tnpu.x" to the rustflags of the firmware.
use std::{{env, fs, path::Path}};

fn main() {{
    let out = env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    fs::write(Path::new(&out).join("npu.x"), include_bytes!("npu.x")).expect("OUT_DIR can be written");
    println!("cargo:rustc-link-search={{out}}");
    println!("cargo:rerun-if-changed=npu.x");
}}
"""

_LINKER = """/* {licence}
 * Where the weights of {name} lie, written by {tool}. Do not edit. Programs follow the constants of the firmware,
 * in the region FLASH of its memory.x. Give this script behind link.x. */
MEMORY
{{
{regions}}}
SECTIONS
{{
  {blobs} : ALIGN({line}) {{ KEEP(*({blobs})) }} > FLASH
{sections}}}
INSERT AFTER .rodata;
"""

_HEAD = """// {licence}
//! The network {name}, compiled for the NPU of the STM32N6 by {tool}. Do not edit.
//!
//! {programs} of the epoch controller, run in order; nothing is left for the processor. Before the first inference the
//! firmware switches on {memories}. Inputs and outputs lie at the
//! addresses below: write an input, clean the data cache over it, run, invalidate the cache over an output, read it.
#![no_std]

#[repr(C, align({line}))]
struct Aligned<T>(T);

/// A program as the driver takes it.
fn words(bytes: &'static [u8]) -> &'static [u64] {{
    // SAFETY: every program is a whole number of 64-bit words, and `Aligned` puts it at a multiple of {line} bytes.
    unsafe {{ core::slice::from_raw_parts(bytes.as_ptr().cast(), bytes.len() / 8) }}
}}

{statics}
/// The programs in the order in which they run.
pub fn blobs() -> [&'static [u64]; {count}] {{
    [{calls}]
}}

/// Constants that must be in memory before the first inference.
pub struct Weights {{
    /// The file in `weights/`.
    pub file: &'static str,
    pub address: usize,
    pub len: usize,
    pub crc32: u32,
}}

pub const WEIGHTS: [Weights; {weights_count}] = [{weights}];

{weight_statics}impl Weights {{
    /// Whether they are there: reads all of them once.
    ///
    /// # Safety
    /// The memory at `address` is switched on and mapped.
    pub unsafe fn are_there(&self) -> bool {{
        let mut crc = !0u32;
        for k in 0..self.len {{
            crc ^= u32::from(core::ptr::read_volatile((self.address + k) as *const u8));
            for _ in 0..8 {{
                crc = if crc & 1 == 1 {{ crc >> 1 ^ 0xEDB8_8320 }} else {{ crc >> 1 }};
            }}
        }}
        !crc == self.crc32
    }}
}}

{edges}"""

_EDGE = """/// The {what} `{label}` of the model: real value = (code - ZERO_POINT) * SCALE.
pub mod {module} {{
    pub type Element = {rust};
    pub const NAME: &str = "{label}";
    pub const SHAPE: [usize; {rank}] = [{shape}];
    pub const LEN: usize = {elements};
    pub const ADDRESS: usize = {address:#010x};
    pub const BYTES: usize = {size};
    pub const SCALE: f32 = {scale};
    pub const ZERO_POINT: i32 = {zero};

    /// The memory of the {what}.
    ///
    /// # Safety
    /// The memory is switched on, no inference runs, and nobody else has this reference.
    pub unsafe fn buffer() -> &'static mut [Element; LEN] {{
        &mut *(ADDRESS as *mut [Element; LEN])
    }}
}}
"""

_EMBASSY = """// {licence}
//! The network {name} on embassy's NPU driver, written by {tool}. Do not edit.
#![no_std]

use embassy_stm32::npu::{{cache, EpochBlock, Error, Instance, Npu}};

/// What `Npu::run_network` takes.
pub fn epochs() -> [EpochBlock<'static>; {count}] {{
    {crate}::blobs().map(EpochBlock::hw)
}}

/// One inference: the inputs are in their memory, then the outputs are in theirs.
pub async fn run<T: Instance>(npu: &mut Npu<'_, T>) -> Result<(), Error> {{
{cleans}    npu.run_network(&epochs()).await?;
{invalidates}    Ok(())
}}
"""

_README = """# {crate}

The network {name} for the NPU of the STM32N6, written by {tool}. A `no_std` crate; docs: `docs/rust.md` of atonc.

    [dependencies]
    {crate} = {{ path = "{folder}" }}
    {crate}_embassy = {{ path = "{folder}/embassy" }}

Add `-C link-arg=-Tnpu.x` to the rustflags of the firmware, so that the weights get their addresses. Then:

    {crate}_embassy::run(&mut npu).await
"""


def crate_name(network: str) -> str:
    return f"{word(network).lower()}_npu"


def _files(given: LayoutNetwork) -> Mapping[str, bytes]:
    words = {"name": given.name, "tool": TOOL, "licence": LICENCE, "crate": crate_name(given.name)}
    programs = {_blob_file(one): _bytes(one) for one in given.programs}
    weights = {f"weights/{_weight_file(file)}": data for file, data in given.memory_images.items()}
    count = len(given.programs)
    embassy = _EMBASSY.format(
        **words,
        count=count,
        cleans=_cache_calls("mcu_clean_range", f"{words['crate']}::input", given.inputs),
        invalidates=_cache_calls("mcu_invalidate_range", f"{words['crate']}::output", given.outputs),
    )
    texts = {
        "Cargo.toml": _CARGO.format(**words),
        "embassy/Cargo.toml": _EMBASSY_CARGO.format(**words, url=EMBASSY_URL, revision=EMBASSY_REVISION),
        "build.rs": _BUILD.format(**words),
        "npu.x": _LINKER.format(**words, **_places(given), blobs=BLOBS_SECTION, line=NPU_CACHE_LINE),
        "src/lib.rs": _library(given, words),
        "embassy/src/lib.rs": embassy,
        "README.md": _README.format(**words, folder=LAYOUT.folder(given.name)),
    }
    return {**{path: text.encode() for path, text in texts.items()}, **programs, **weights}


def _blob_file(program: StoredProgram) -> str:
    return f"blobs/epochs_{program.block.first}_to_{program.block.last}.bin"


def _bytes(program: StoredProgram) -> bytes:
    """As the array in NAME_ecblobs.h has them."""
    return np.array(program.container.words(), "<u4").tobytes()


def _weight_file(file: str) -> str:
    return f"{word(file.rpartition('.')[0])}.bin"


def _library(given: LayoutNetwork, words: Mapping[str, str]) -> str:
    programs = given.programs
    used = [pool.name for pool in given.network.pools if given.network.memory.by_pool.get(pool.name, 0)]
    statics = "".join(
        _static(f"BLOB_{one.block.first}", f"../{_blob_file(one)}", len(_bytes(one)), BLOBS_SECTION) for one in programs
    )
    return _HEAD.format(
        **words,
        programs=f"{len(programs)} programs" if len(programs) > 1 else "One program",
        memories=listed([word(name) for name in used]),
        line=NPU_CACHE_LINE,
        statics=statics,
        count=len(programs),
        calls=", ".join(f"words(&BLOB_{one.block.first}.0)" for one in programs),
        weights_count=len(given.memory_images),
        weights="".join(_weights(given)),
        weight_statics="".join(_weight_statics(given)),
        edges="\n".join(
            _edge(given, what, index, info)
            for what, side in (("input", given.inputs), ("output", given.outputs))
            for index, info in enumerate(side)
        ),
    )


def _static(name: str, file: str, size: int, section: str, feature: str = "") -> str:
    """Sections exist on the target only: other systems name theirs in another way."""
    condition = f'#[cfg(feature = "{feature}")]\n#[used]\n' if feature else ""
    return (
        f'{condition}#[cfg_attr(target_os = "none", link_section = "{section}")]\n'
        f'static {name}: Aligned<[u8; {size}]> = Aligned(*include_bytes!("{file}"));\n'
    )


def _weights(given: LayoutNetwork) -> Iterator[str]:
    for file, data in given.memory_images.items():
        yield (
            f'\n    Weights {{ file: "{_weight_file(file)}", address: {given.base_of(file):#010x}, '
            f"len: {len(data)}, crc32: {zlib.crc32(data):#010x} }},\n"
        )


def _weight_statics(given: LayoutNetwork) -> Iterator[str]:
    for k, (file, data) in enumerate(given.memory_images.items()):
        path = f"../weights/{_weight_file(file)}"
        yield _static(f"WEIGHTS_{k}", path, len(data), f"{WEIGHTS_SECTION}_{k}", feature="weights") + "\n"


def _places(given: LayoutNetwork) -> dict[str, str]:
    """A region of its own for each image: linkers of Rust want one for every section."""
    found = [(k, given.base_of(file), len(data)) for k, (file, data) in enumerate(given.memory_images.items())]
    return {
        "regions": "".join(f"  NPU_WEIGHTS_{k} (r) : ORIGIN = {at:#010x}, LENGTH = {size}\n" for k, at, size in found),
        "sections": "".join(
            f"  {WEIGHTS_SECTION}_{k} : {{ KEEP(*({WEIGHTS_SECTION}_{k})) }} > NPU_WEIGHTS_{k}\n" for k, _, _ in found
        ),
    }


def _edge(given: LayoutNetwork, what: str, index: int, info: Info) -> str:
    return _EDGE.format(
        what=what,
        label=info.label,
        module=f"{what}_{index}",
        rust=_TYPES[info.type],
        rank=len(info.mem_shape),
        shape=", ".join(map(str, info.mem_shape)),
        elements=info.size_bytes * 8 // info.bits,
        address=given.address(info),
        size=info.size_bytes,
        scale=_float(info.scales[0] if info.scales else 1.0),
        zero=info.offsets[0] if info.offsets else 0,
    )


def _float(value: float) -> str:
    """The nearest float, in digits that read back as exactly that float."""
    text = np.format_float_scientific(np.float32(value), unique=True, trim="0", exp_digits=1)
    return text.replace("e+", "e")


def _cache_calls(function: str, what: str, infos: Sequence[Info]) -> str:
    """Whole lines of the cache, which hold nothing else: a part of one would be written back over the NPU's results."""
    sizes = (-(-info.size_bytes // CPU_CACHE_LINE) * CPU_CACHE_LINE for info in infos)
    return "".join(f"    cache::{function}({what}_{k}::ADDRESS as u32, {n});\n" for k, n in enumerate(sizes))


def _refuses(given: LayoutNetwork) -> Iterator[LayoutRefusal]:
    driver = "embassy's driver runs programs of the epoch controller, and nothing else"
    if not given.network.epoch_controller:
        yield LayoutRefusal("epochs are started by the processor", driver, "leave --no-epoch-controller out")
    yield from ways.refuse_cpu_layers(given, driver)
    yield from ways.refuse_movable(given, "programs of the crate are linked as they are, with every address in them")
    yield from ways.refuse_ram_constants(given, "the crate puts weights into flash, and nobody copies them from there")
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
    forgets="nobody in the crate copies weights before the first inference",
    leavings=("Cargo.lock", "target/*", "embassy/Cargo.lock", "embassy/target/*"),
)
