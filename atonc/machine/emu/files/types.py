"""What a folder written by ST's compiler says, as frozen values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import IntFlag
from pathlib import Path

from atonc.machine.base.errors import InputError
from atonc.machine.base.frozen import brief, dataclass
from atonc.machine.hw.dma import DmaCopy
from atonc.machine.hw.ec.blob import Container, relocate


@dataclass(frozen=True)
class Symbol:
    """An identifier whose value the generated file does not tell: an enum constant, a parameter, a macro."""

    name: str


# int, float, str (a string literal), None (NULL), Symbol, list (array or pointer into it), dict (struct)
CValue = int | float | str | None | Symbol | list["CValue"] | dict[str, "CValue"]


@dataclass(frozen=True)
class FunctionCall:
    """One function call of an epoch function, its arguments evaluated."""

    name: str
    args: tuple[CValue, ...]
    where: str = ""


class EpochFlags(IntFlag):
    """What the runtime knows about an epoch block."""

    NONE = 0
    EPOCH_START = 1 << 0
    EPOCH_END = 1 << 1
    BLOB = 1 << 2
    LAST = 1 << 3
    PURE_HW = 1 << 4
    PURE_SW = 1 << 5
    HYBRID = 1 << 6
    INTERNAL = 1 << 7
    BLOB_ENCRYPTED = 1 << 8


@dataclass(frozen=True)
class EpochBlock:
    """One item of the list that the runtime walks."""

    index: int
    flags: EpochFlags
    start: str | None  # name of the start function
    end: str | None
    start_calls: tuple[FunctionCall, ...]
    end_calls: tuple[FunctionCall, ...]
    wait_mask: int  # stream engines to wait for (driver-controlled epochs)
    blob: str | None  # C name of the epoch-controller program
    epoch_num: int | None = None
    last_epoch_num: int | None = None
    in_streng_mask: int | None = None
    out_streng_mask: int | None = None
    estimated_npu_cycles: int | None = None
    estimated_tot_cycles: int | None = None


@dataclass(frozen=True)
class BufferInfo:
    """One line of a buffer table."""

    name: str
    address: int
    size_bytes: int
    limit_bytes: int  # how far reads may run past `address` (prefetch)
    shape: tuple[int, ...]
    mem_shape: tuple[int, ...]
    chpos: str  # First, Last or Mixed
    batch: int
    type: str  # INT8, UINT8, FLOAT, FXP, ...
    nbits: int
    scales: tuple[float, ...]
    offsets: tuple[int, ...]
    per_channel: bool
    epoch: int
    is_user_allocated: bool
    is_param: bool
    qm: int = 0
    qn: int = 0
    q_unsigned: bool = False
    __repr__ = brief


@dataclass(frozen=True)
class DeclaredPool:
    """A memory pool as the compiler was told about it."""

    index: int
    postfix: str  # in file names and symbols
    name: str
    base: int
    size_bytes: int
    absolute: bool
    virtual: bool  # several neighbouring pools seen as one
    writable: bool
    cacheable: bool
    byte_width: int
    freq_ratio: float
    throughput: str
    latency: str
    holds_initialisers: bool
    used: str  # as printed: "1.28 MB", "?"


@dataclass(frozen=True)
class ApplicationBuffer:
    """An input or output that the application allocates; the reader gives it an address."""

    symbol: str  # `_mem_pool__user_io_input_0_Default`
    reloc_id: str  # `_user_io_input_0`, as in relocation tables
    direction: str  # "input" or "output"
    index: int
    size_bytes: int
    address: int


@dataclass(frozen=True)
class Resident:
    """Weights that the network copies into RAM when it is initialised."""

    source: int
    address: int
    size_bytes: int
    bits: int = 8  # of a value in the source: of 4 there are two to a byte, the first in the low half


@dataclass(frozen=True)
class KeptState:
    """Memory that keeps its contents from one inference to the next."""

    address: int
    first: bytes  # what it holds before the first one


@dataclass(frozen=True)
class CompiledNetwork:
    """Everything that the generated C file says about one network."""

    name: str  # suffix of its symbols: Default, network, reid
    stem: str  # file name without .c
    c_file: Path
    atonn_version: str
    tool_branch: str
    options: Mapping[str, str]
    pools: tuple[DeclaredPool, ...]
    user_buffers: tuple[ApplicationBuffer, ...]
    blocks: tuple[EpochBlock, ...]
    inputs: tuple[BufferInfo, ...]
    params: tuple[BufferInfo, ...]
    outputs: tuple[BufferInfo, ...]
    internals: tuple[BufferInfo, ...]
    blobs: Mapping[str, Container] = field(default_factory=dict)  # by the name that `EpochBlock.blob` gives
    blob_file: Path | None = None
    weights_encrypted: bool = False
    residents: tuple[Resident, ...] = ()
    states: tuple[KeptState, ...] = ()
    copies: tuple[DmaCopy, ...] = ()  # that the DMA makes beside the program, in the order of its lists

    @property
    def directory(self) -> Path:
        return self.c_file.parent

    def pool(self, postfix: str) -> DeclaredPool | None:
        return next((p for p in self.pools if p.postfix == postfix), None)

    def block_program(self, block: EpochBlock) -> tuple[int, ...]:
        """The program words of a blob block (magic and length removed), every relocated word at its place."""
        if block.blob is None or block.blob not in self.blobs:
            raise InputError(f"epoch block {block.index} has no epoch-controller program", where=str(self.c_file))
        container = self.blobs[block.blob]
        known, needed = self.relocation_bases(), {r.symbol for r in container.relocations}
        missing = sorted(needed - known.keys())
        if missing:
            raise InputError(
                f"{block.blob} is relative to {', '.join(missing)}, which the C file does not know",
                where=str(self.blob_file or self.c_file),
                remedy="check that C file and blob header belong to the same compilation",
            )
        return relocate(container, {symbol: known[symbol] for symbol in needed}).program

    def relocation_bases(self) -> dict[str, int]:
        """Where each symbol of a relocation table lies: pools and user buffers."""
        bases = {p.postfix: p.base for p in self.pools}
        return bases | {u.reloc_id: u.address for u in self.user_buffers}
