"""The layout of a relocatable image as frozen types.

    | header | code, constants | data, GOT | relocation list | [programs] parameters |

Addresses in an image are offsets tagged with the part they count from (`ImageBase`, top four bits); the loader replaces
them by real addresses where the relocation list and the GOT say so.
"""

from __future__ import annotations

from enum import IntEnum

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
