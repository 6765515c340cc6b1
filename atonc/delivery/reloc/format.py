"""The layout of a relocatable image as frozen types.

    | header | code, constants | data, GOT | relocation list | [programs] parameters |

Addresses in an image are offsets tagged with the part they count from (`ImageBase`, top four bits); the loader replaces
them by real addresses where the relocation list and the GOT say so.

An image calls the firmware through a table of functions and hands it structs; neither is described in the image, and
ST's loader compares only three digits of the release (`Abi`). The table changed between 1.1.3-8 and 1.1.3-262. Images
of ours call nothing but the first seven functions, which all published releases have at the same place.
"""

from __future__ import annotations

from enum import IntEnum

from atonc.compiler.emit.c.network import NEWEST_RUNTIME
from atonc.machine.base.errors import InputError
from atonc.machine.base.frozen import dataclass

MAGIC = 0x4E49424E  # "NBIN"
SECTION_WORDS = 13  # of the header, in front of the entry points
SECTIONS = (
    *("magic", "flags", "data_start", "data_end", "data_data", "bss_start", "bss_end", "got_start", "got_end"),
    *("rel_start", "rel_end", "params_start", "params_offset"),
)
MAX_POOLS = 10
POOL_WORDS = 5
ALIGNMENT = 8
OFFSET_MASK = 0x0FFF_FFFF
MAX_IMAGE_BYTES = 1 << 28


class ImageBase(IntEnum):
    """What an offset counts from."""

    UNUSED = 0
    FLASH = 2
    RAM = 4
    PARAM_0 = 8
    PARAM_1 = 9
    PARAM_2 = 10

    @property
    def base(self) -> int:
        return int(self) << 28


def segment(value: int) -> ImageBase:
    number = value >> 28
    return ImageBase(number) if number in ImageBase._value2member_map_ else ImageBase.UNUSED


def offset(value: int) -> int:
    return value & OFFSET_MASK


def align(size: int, to: int = ALIGNMENT) -> int:
    return -(-size // to) * to


CPUS = {
    0xC60: "Cortex-M0+",
    0xC23: "Cortex-M3",
    0xC24: "Cortex-M4",
    0xC27: "Cortex-M7",
    0xD21: "Cortex-M33",
    0xD22: "Cortex-M55",
}
COMPILERS = {8: "GCC", 9: "LLVM", 10: "ST clang"}
FLOAT_ABIS = {0: "soft", 1: "softfp", 2: "hard"}
MAJOR, MINOR = 8, 0


@dataclass(frozen=True)
class Flags:
    """Second word of the header: what the image was built for."""

    major: int = MAJOR
    minor: int = MINOR
    secure: bool = True
    debug_info: bool = True
    asynchronous: bool = True
    reserved: int = 0  # bits 23 and 15
    compiler: int = 8
    float_abi: int = 2
    fpu: bool = True
    cpu: int = 0xD22

    @property
    def word(self) -> int:
        extra = int(self.secure) | int(self.debug_info) << 1 | int(self.asynchronous) << 2 | (self.reserved & 2) << 2
        low = self.compiler << 16 | (self.reserved & 1) << 15 | self.float_abi << 13 | int(self.fpu) << 12 | self.cpu
        return self.major << 28 | self.minor << 24 | extra << 20 | low

    @staticmethod
    def of(word: int) -> Flags:
        return Flags(
            major=word >> 28 & 15,
            minor=word >> 24 & 15,
            secure=bool(word >> 20 & 1),
            debug_info=bool(word >> 21 & 1),
            asynchronous=bool(word >> 22 & 1),
            reserved=(word >> 23 & 1) << 1 | word >> 15 & 1,
            compiler=word >> 16 & 15,
            float_abi=word >> 13 & 3,
            fpu=bool(word >> 12 & 1),
            cpu=word & 0xFFF,
        )


class PoolType(IntEnum):
    UNUSED = 0
    RELOC = 1  # the base is found at run time
    COPY = 2  # contents are copied to a fixed address when the image is installed
    RESET = 3  # working memory at a fixed address


class PoolData(IntEnum):
    UNDEF = 0
    PARAM = 1
    ACTIV = 2
    MIXED = 3


READ, WRITE, CACHED = 1, 2, 4
_ATTRIBUTES = {0: "UNDEF", 1: "READ", 2: "WRITE", 4: "CACHED", 5: "RCACHED", 6: "WCACHED"}


@dataclass(frozen=True)
class PoolEntry:
    """One memory pool as the loader treats it."""

    name: str
    flags: int
    file_offset: int  # of its contents, from the start of the parameters
    destination: int  # 0 where the base is found at run time
    size_bytes: int
    name_address: int = 0

    @property
    def type(self) -> int:
        return self.flags >> 24 & 0xFF

    @property
    def data(self) -> int:
        return self.flags >> 16 & 0xFF

    @property
    def attributes(self) -> int:
        return self.flags >> 8 & 0xFF

    @property
    def id(self) -> int:
        return self.flags & 0xFF

    def label(self) -> str:
        """`RELOC.PARAM.0.RCACHED`."""
        kind = PoolType(self.type).name if self.type in PoolType._value2member_map_ else f"TYPE{self.type}"
        if self.type == PoolType.UNUSED:
            return kind
        data = PoolData(self.data).name if self.data in PoolData._value2member_map_ else f"DATA{self.data}"
        number = f".{self.id}" if self.type == PoolType.RELOC else ""
        return f"{kind}.{data}{number}.{_ATTRIBUTES.get(self.attributes, f'ATTR{self.attributes}')}"


def pool_flags(kind: PoolType, data: PoolData, attributes: int, number: int = 0) -> int:
    return int(kind) << 24 | int(data) << 16 | attributes << 8 | number


@dataclass(frozen=True)
class ImageContext:
    """What the image says about itself, in its data section; the loader completes the first words in RAM."""

    c_name: str
    activations_bytes: int
    params_bytes: int
    ext_ram_bytes: int
    runtime: str  # description
    version: int  # major, minor, micro in the upper three bytes
    dev: int
    params_file_bytes: int
    params_crc32: int
    buffer_info_bytes: int  # sizes of the two structs that image and firmware share; 0: not said
    epoch_item_bytes: int
    c_name_address: int = 0
    runtime_address: int = 0

    @property
    def number(self) -> tuple[int, int, int]:
        return self.version >> 24 & 0xFF, self.version >> 16 & 0xFF, self.version >> 8 & 0xFF


NOTE_MAGIC = 0x434E5441  # "ATNC"
NOTE_VERSION = 1
NOTE_WORDS = 10
HASH_BYTES = 16


@dataclass(frozen=True)
class ImageNote:
    """What images of ours carry behind the header, for our loader; ST's never looks there."""

    version: int
    code_bytes: int  # of the file, up to the parameters
    code_crc32: int  # of these bytes, this word counted as zero
    callbacks: int  # how many functions of the table the image may call
    epoch_arguments: int
    model_hash: bytes
    offset: int  # of the note in the file


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
