"""What an image and the firmware under it must agree on, by release of the LL_ATON runtime.

An image calls the firmware through a table of functions and hands it structs; neither is described in the image, and
ST's loader compares only three digits of the release. The table changed between 1.1.3-8 and 1.1.3-262. Images of ours
call nothing but the first seven functions, which all published releases have at the same place.
"""

from __future__ import annotations

from atonc.compiler.emit.c.network import NEWEST_RUNTIME
from atonc.machine.base.errors import InputError
from atonc.machine.base.frozen import dataclass

ENTRIES_10 = (
    "ec_network_init",
    "ec_inference_init",
    "input_setter",
    "input_getter",
    "output_setter",
    "output_getter",
    "get_epoch_items",
    "get_output_buffers",
    "get_input_buffers",
    "get_internal_buffers",
    "ctx",
)
# the headers of 1.1.3 declare these three in one order for images and in another for loaders: ours suit the loaders
ENTRIES_12 = (*ENTRIES_10[:-1], "weight_encryption_info", "blob_encryption_info", "ctx")
ENTRIES_12_OURS = (*ENTRIES_10[:-2], "weight_encryption_info", "blob_encryption_info", "get_internal_buffers", "ctx")

SERVICES = (
    "assert_func",
    "ll_lib_error",
    "cache_mcu_clean_range",
    "cache_mcu_invalidate_range",
    "cache_mcu_clean_invalidate_range",
    "cache_npu_clean_range",
    "cache_npu_clean_invalidate_range",
)
_LIB_21 = (
    *("lib_concat", "lib_cast", "lib_softmax", "lib_dma_imagetorow", "lib_dma_spacetodepth", "lib_dma_rowtoimage"),
    *("lib_dma_depthtospace", "lib_dma_outputs_flat_copy", "lib_dma_outputs_slice_splitlike"),
    *("lib_dma_outputs_channel_split_aton", "lib_dma_outputs_channel_split_batched", "lib_dma_pad_memset"),
    *("lib_dma_pad_filling", "lib_dma_transpose"),
)
_LIB_23 = (*_LIB_21, "lib_async_memcpy", "lib_dma_pad_4loop_filling")
_LIB_NEW = (
    *("lib_concat", "lib_cast", "lib_dma_transpose", "lib_softmax", "lib_dma_imagetorow", "lib_dma_spacetodepth"),
    *("lib_dma_rowtoimage", "lib_dma_depthtospace", "lib_dma_outputs_slice_splitlike", "lib_pad_std", "lib_pad_4loop"),
    *("lib_dma_outputs_flat_copy", "lib_dma_outputs_channel_split_aton", "lib_dma_outputs_channel_split_batched"),
)


@dataclass(frozen=True)
class Abi:
    """One published release: of a runtime, and of the images that suit it."""

    core: str  # release of ST Edge AI Core
    version: tuple[int, int, int]
    first_dev: int  # builds from this number on
    entries: tuple[str, ...]
    context_words: int
    callbacks: tuple[str, ...]
    epoch_arguments: int  # of start and end functions
    evidence: str  # the build whose sources were read

    @property
    def header_words(self) -> int:
        return 13 + len(self.entries)

    @property
    def number(self) -> str:
        return ".".join(map(str, self.version))

    @property
    def dev(self) -> int:
        """The build that images of ours name."""
        return int(self.evidence.rpartition("-")[2])


ABIS = (
    Abi("2.1", (1, 1, 0), 0, ENTRIES_10, 16, SERVICES + _LIB_21, 1, "1.1.0-31"),
    Abi("2.2", (1, 1, 1), 0, ENTRIES_10, 17, SERVICES + _LIB_21, 1, "1.1.1-14"),
    Abi("3.0", (1, 1, 3), 0, ENTRIES_12, 17, SERVICES + _LIB_23, 1, "1.1.3-8"),
    Abi("4.0", (1, 1, 3), 100, ENTRIES_12, 17, SERVICES + _LIB_NEW, 2, NEWEST_RUNTIME),
)
DEFAULT = ABIS[-1]


def abi_of(version: tuple[int, int, int], dev: int = 0) -> Abi | None:
    """The release that a version number belongs to; None if no such release was published."""
    fitting = [abi for abi in ABIS if abi.version == version and dev >= abi.first_dev]
    return fitting[-1] if fitting else None


def abi_named(text: str) -> Abi:
    """From what a user writes: `1.1.1`, `1.1.3-8`, or the release of Core, `2.2`."""
    for abi in ABIS:
        if text == abi.core:
            return abi
    number, _, dev = text.partition("-")
    parts = number.split(".")
    if len(parts) == 3 and all(part.isdecimal() for part in parts) and (not dev or dev.isdecimal()):
        version = int(parts[0]), int(parts[1]), int(parts[2])
        found = abi_of(version, int(dev) if dev else 1 << 30)
        if found is not None:
            return found
    known = ", ".join(f"{abi.evidence} (Core {abi.core})" for abi in ABIS)
    raise InputError(f"no runtime {text[:40]!r} is known", rule=f"known releases of LL_ATON: {known}")


def dev_of(text: str, abi: Abi) -> int:
    """The build that a user named, or the one whose sources were read."""
    _, _, dev = text.partition("-")
    return int(dev) if dev.isdecimal() else abi.dev


def release_for(core: str) -> str:
    """The runtime that a release of ST's tool brings (`4.0.1-20581`, `2.2`); of older ones the oldest that is known."""
    wanted = tuple(map(int, core.partition("-")[0].split(".")[:2]))
    fitting = [abi for abi in ABIS if tuple(map(int, abi.core.split("."))) <= wanted]
    return release_named((fitting or ABIS)[-1 if fitting else 0].core)


def release_named(text: str) -> str:
    """The same in full: `2.2` is `1.1.1-14`."""
    abi = abi_named(text)
    return f"{abi.number}-{dev_of(text, abi)}"
