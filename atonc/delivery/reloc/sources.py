"""What the C side of an image must know, as a header and as lines of its linker script."""

from __future__ import annotations

from atonc.delivery.reloc.abi import Abi
from atonc.delivery.reloc.format import Flags
from atonc.delivery.reloc.pools import PoolTable
from atonc.machine.base.frozen import dataclass
from atonc.machine.base.templates import render


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
    }
    return "".join(f"#define ATONC_IMAGE_{name} {value}\n" for name, value in values.items())


def linker_script(facts: ImageFacts) -> str:
    """Each pool without a fixed base is a symbol: behind the programs in the parameters, or the external RAM."""
    pools = [{"postfix": postfix, "suffix": facts.suffix, "k": k} for postfix, k in facts.pools.symbols]
    return render("image.ld", pools=pools)
