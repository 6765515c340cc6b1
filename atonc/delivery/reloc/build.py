"""From a folder with a compiled network, ours or ST's, to a relocatable image.

The network, its CPU layers, the drivers it calls and the image's own part are compiled and linked; what the C side must
know goes into a header and into lines of the linker script.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from pathlib import Path

from atonc.delivery.firmware import building
from atonc.delivery.firmware.building import CompileUnit, Toolchain, runtime_folder
from atonc.delivery.firmware.image import custom_sources, reset_function
from atonc.delivery.reloc.elf import file_bytes, read_linked
from atonc.delivery.reloc.format import CPUS, DEFAULT, HASH_BYTES, Abi, Flags, abi_named, abi_of, dev_of
from atonc.delivery.reloc.image import Image, read_image
from atonc.delivery.reloc.options import RelocOptions
from atonc.delivery.reloc.pools import PoolTable, check_modes, pool_table, pool_uses
from atonc.machine.base.about import __version__
from atonc.machine.base.errors import InputError
from atonc.machine.base.frozen import dataclass
from atonc.machine.base.templates import render
from atonc.machine.emu.files.initialisers import InitialBytes
from atonc.machine.emu.files.network_c import find_networks
from atonc.machine.emu.files.types import CompiledNetwork, EpochFlags
from atonc.machine.emu.network import read_contents


@dataclass(frozen=True)
class ImageFacts:
    """Everything that `image_conf.h` says; sizes and checksums of the finished file follow after linking."""

    name: str  # that the application sees
    suffix: str  # of the network's C functions
    abi: Abi
    dev: int  # build of the runtime
    flags: Flags
    runtime: str  # description of compiler and runtime
    pools: PoolTable
    model_hash: bytes
    blobs_in_params: bool = False
    cleans: bool = False  # the processor's cache over itself, before the NPU first reads it
    reset: str = ""  # the function that gives states their first values, where the network keeps some


def conf_h(facts: ImageFacts) -> str:
    abi, pools = facts.abi, facts.pools
    words = [int.from_bytes(facts.model_hash[k : k + 4], "little") for k in range(0, len(facts.model_hash), 4)]
    rows = [
        f'{{"{e.name}", 0x{e.flags:08x}u, {e.file_offset}u, 0x{e.destination:08x}u, {e.size_bytes}u}},'
        for e in pools.entries
    ]
    values = {
        "NETWORK": facts.suffix,
        "NAME": f'"{facts.name}"',
        "FLAGS": f"0x{facts.flags.word:08x}u",
        "ENTRIES": str(len(abi.entries) - 1),
        "CONTEXT_WORDS": str(abi.context_words),
        "EPOCH_ARGUMENTS": f"{abi.epoch_arguments}u",
        "HASH": ", ".join(f"0x{word:08x}u" for word in words),
        "ACTIVATIONS": f"{pools.activations_bytes}u",
        "PARAMS": f"{pools.params_bytes}u",
        "EXT_RAM": f"{pools.ext_ram_bytes}u",
        "RUNTIME": f'"{facts.runtime}"',
        "CLEANS": str(int(facts.cleans)),
        "POOLS": " ".join(rows),
        **({"RESET": facts.reset} if facts.reset else {}),
    }
    return "".join(f"#define ATONC_IMAGE_{name} {value}\n" for name, value in values.items())


def linker_script(facts: ImageFacts) -> str:
    """Each pool without a fixed base is a symbol: behind the programs in the parameters, or the external RAM."""
    pools = [{"postfix": postfix, "suffix": facts.suffix, "k": k} for postfix, k in facts.pools.symbols]
    return render("image.ld", pools=pools)


# r9 points to the data of the image; neither data nor constants are at a known distance from the code
_OPTIONS = (
    *("-fpic", "-mno-pic-data-is-text-relative", "-msingle-pic-base", "-mpic-register=r9"),
    *("-fvisibility=hidden", "-fno-unwind-tables", "-fno-asynchronous-unwind-tables", "-fomit-frame-pointer"),
    *("-fno-math-errno", "-fno-tree-loop-distribute-patterns"),
)
# without vectors, but for the layers on the CPU, whose price is that of their vectors (_WITH_VECTORS)
_CORES = {"cortex-m33": "cortex-m33", "cortex-m55": "cortex-m55+nomve"}
_WITH_VECTORS = {"cortex-m33": (), "cortex-m55": ("-mcpu=cortex-m55", "-O2")}
_PARTS = ("atonc_unit*.c", "atonc_npu.c", "atonc_ec_loader.c", "atonc_lib*.c", "atonc_util.c", "atonc_watchdog.c")
_BLOBS_IN_PARAMS = '__attribute__((used, section(".const_ec_blob")))'


def link_image(
    toolchain: Toolchain, network: CompiledNetwork, facts: ImageFacts, folder: Path, cpu: str, more: Sequence[str] = ()
) -> Path:
    """The image as ELF, `folder/<name>.elf`, with all its relocations; `more` options for the linker."""
    (folder / "image_conf.h").write_text(conf_h(facts))
    script = folder / "image.ld"
    script.write_text(linker_script(facts))
    objects = building.compile_units(toolchain, _units(network, facts, folder, cpu), folder, _CORES[cpu], "-Os")
    output = folder / f"{facts.name}.elf"
    options = [*building.machine_options(_CORES[cpu]), "-nostartfiles", "-nodefaultlibs", f"-T{script}"]
    options += ["-Wl,--gc-sections,--emit-relocs,--no-warn-rwx-segments", f"-Wl,-Map={folder / facts.name}.map"]
    options += more
    libraries = ["-lc_nano", "-lm", "-lgcc"]
    toolchain.run([*options, *map(str, objects), *libraries, "-o", str(output)], f"link {output.name}", str(output))
    return output


def _units(network: CompiledNetwork, facts: ImageFacts, folder: Path, cpu: str) -> list[CompileUnit]:
    image, include, source = runtime_folder("image"), runtime_folder("include"), runtime_folder("src")
    includes = (folder, network.directory, image, include, source, runtime_folder("kernels"))
    options = (*_OPTIONS, *(("-mcmse",) if facts.flags.secure else ()))
    layers = (*options, *_WITH_VECTORS[cpu])
    defines = _defines(facts)
    blobs = {"ECBLOB_CONST_SECTION": _BLOBS_IN_PARAMS} if facts.blobs_in_params else {}
    parts = sorted({path for pattern in _PARTS for path in source.glob(pattern)}) if _calls_runtime(network) else []
    kernels = [path for path in (network.directory / "atonc_kernels.c",) if path.is_file()]
    return [
        CompileUnit((network.c_file,), includes, defines | blobs, options=layers),
        CompileUnit((*sorted(image.glob("*.c")), *parts), includes, defines, strict=True, options=options),
        CompileUnit((*kernels, *custom_sources(network.c_file)), includes, defines, options=layers),
    ]


def _calls_runtime(network: CompiledNetwork) -> bool:
    """True where the C file calls drivers, or library layers and the program loader of the vendor."""
    by_vendor = bool(network.atonn_version)
    return by_vendor or any(EpochFlags.PURE_HW in b.flags and b.blob is None for b in network.blocks)


def _defines(facts: ImageFacts) -> dict[str, str]:
    major, minor, micro = facts.abi.version
    return {
        "ATONC_RELOC_IMAGE": "",
        "LL_ATON_RT_RELOC": "",
        "LL_ATON_VERSION_MAJOR": str(major),
        "LL_ATON_VERSION_MINOR": str(minor),
        "LL_ATON_VERSION_MICRO": str(micro),
        "LL_ATON_VERSION_DEV": str(facts.dev),
        "LL_ATON_RT_MODE": "LL_ATON_RT_ASYNC",
        "LL_ATON_DBG_BUFFER_INFO_EXCLUDED": "1",
        **({"LL_ATON_EB_DBG_INFO": ""} if facts.flags.debug_info else {}),
    }


CPU_NUMBERS = {name.lower(): number for number, name in CPUS.items()}
_VERSION = re.compile(r"LL_ATON_VERSION_(MAJOR|MINOR|MICRO|DEV)\s*!=\s*(\d{1,6})")
_NAME = re.compile(r"[A-Za-z_]\w{0,95}")


@dataclass(frozen=True)
class Prepared:
    """What is known before anything is compiled."""

    network: CompiledNetwork
    pools: PoolTable
    abi: Abi
    dev: int
    model_hash: bytes


@dataclass(frozen=True)
class BuiltImage:
    image: Image
    params: bytes  # of the second file; empty when they are in the image
    name: str
    prepared: Prepared


def prepare(folder: Path, options: RelocOptions) -> Prepared:
    """Reads and checks the generated files."""
    network, contents = read_contents(folder, _chosen(folder, options.name), None)
    uses = pool_uses(network, contents)
    check_modes((use.mode for use in uses), str(network.c_file), not options.secure, written=True)
    abi, dev = _abi(network, options.runtime)
    table = pool_table(uses, str(network.c_file))
    return Prepared(network, table, abi, dev, model_hash(network, contents))


def build(toolchain: Toolchain, folder: Path, options: RelocOptions, work: Path) -> BuiltImage:
    """Compiles, links and lays out; intermediate files go to `work`."""
    if options.split and options.cleans:
        raise InputError(
            "--clean-cache does not go with --split",
            rule="an image knows where its own file lies, not where somebody put the other one",
            remedy="leave one of the two out",
        )
    ready = prepare(folder, options)
    name = image_name(options.name or ready.network.stem)
    elf = link_image(toolchain, ready.network, facts_of(ready, name, options), work, options.cpu)
    image, params = file_bytes(read_linked(elf, ready.abi.header_words), ready.pools, options.split)
    return BuiltImage(read_image(image, name), params, name, ready)


def image_name(text: str) -> str:
    if not _NAME.fullmatch(text):
        raise InputError(f"{text[:100]!r} cannot be a name", rule="names of networks are C identifiers", where="--name")
    return text.lower()


def model_hash(network: CompiledNetwork, contents: Sequence[InitialBytes]) -> bytes:
    """What tells compiled networks apart: the generated C, its programs and its constants."""
    digest = hashlib.sha256()
    for path in (network.c_file, network.blob_file):
        digest.update(path.read_bytes() if path is not None else b"")
    for segment in sorted(contents, key=lambda part: part.address):
        digest.update(segment.data)
    return digest.digest()[:HASH_BYTES]


def _chosen(folder: Path, name: str) -> str | None:
    """The network called so, or the only one (None): then the name is that of the image alone."""
    stems = [path.stem for path in find_networks(folder)]
    return name if name in stems or len(stems) > 1 else None


def _abi(network: CompiledNetwork, wanted: str) -> tuple[Abi, int]:
    """The release that the image is for: as asked, as the network insists, or the newest."""
    found = dict(_VERSION.findall(network.c_file.read_text(errors="replace")))
    own = None
    if {"MAJOR", "MINOR", "MICRO"} <= found.keys():
        version = int(found["MAJOR"]), int(found["MINOR"]), int(found["MICRO"])
        dev = int(found.get("DEV", 0))
        own = abi_of(version, dev)
        if own is not None and not wanted:
            return own, dev
    abi = abi_named(wanted) if wanted else DEFAULT
    if own is not None and own != abi:
        raise InputError(
            f"the network is for LL_ATON {own.number} (Core {own.core}), asked for is {abi.number} (Core {abi.core})",
            where=str(network.c_file),
            rule="networks of ST's compiler call the library of their own release",
            remedy="leave --runtime out, or compile the model with that release",
        )
    return abi, dev_of(wanted, abi)


def facts_of(ready: Prepared, name: str, options: RelocOptions) -> ImageFacts:
    """What the C side of the image must know."""
    network = ready.network
    flags = Flags(secure=options.secure, debug_info=options.debug_info, cpu=CPU_NUMBERS[options.cpu])
    runtime = f"{network.atonn_version or f'atonc {__version__}'} (RELOC.GCC)"
    return ImageFacts(
        *(name, network.name, ready.abi, ready.dev, flags, runtime),
        pools=ready.pools,
        model_hash=ready.model_hash,
        blobs_in_params=options.blobs_in_params,
        cleans=options.cleans,
        reset=reset_function(network.stem) if network.states else "",
    )
