"""From a folder with a compiled network, ours or ST's, to a relocatable image."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from pathlib import Path

from atonc.delivery.firmware.building import Toolchain
from atonc.delivery.reloc.elf import file_bytes, read_linked
from atonc.delivery.reloc.format import CPUS, DEFAULT, HASH_BYTES, Abi, Flags, abi_named, abi_of, dev_of
from atonc.delivery.reloc.image import Image, read_image
from atonc.delivery.reloc.link import ImageFacts, link_image
from atonc.delivery.reloc.options import RelocOptions
from atonc.delivery.reloc.pools import PoolTable, check_modes, pool_table, pool_uses
from atonc.machine.base.about import __version__
from atonc.machine.base.errors import InputError
from atonc.machine.base.frozen import dataclass
from atonc.machine.emu.files.initialisers import InitialBytes
from atonc.machine.emu.files.network_c import find_networks
from atonc.machine.emu.files.types import CompiledNetwork
from atonc.machine.emu.network import read_contents

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
    check_modes((use.mode for use in uses), str(network.c_file), no_secure=not options.secure)
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
    )
