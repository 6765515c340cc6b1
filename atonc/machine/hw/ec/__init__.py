"""Epoch-controller programs: instructions, blobs and containers, generated headers, assembly text, write merging."""

from __future__ import annotations

from atonc.machine.hw.ec.blob import (
    Blob,
    Container,
    apply_patches,
    build_container,
    read_blobs,
    read_container,
    relocate,
)
from atonc.machine.hw.ec.header import Binding, BlobHeader, HeaderBlob, read_header, read_header_file
from atonc.machine.hw.ec.instructions import (
    BurstWrite,
    BurstWriteInc,
    Instruction,
    Irq,
    Label,
    Poll,
    Write,
    WriteField,
    WriteFieldLong,
    decode,
    encode,
)
from atonc.machine.hw.ec.merge import Barrier, merge_writes
from atonc.machine.hw.ec.symbols import SymbolOffset, bind_symbols, collect_relocations, container_of, instructions_of
from atonc.machine.hw.ec.tables import Patch, Relocation
from atonc.machine.hw.ec.text import assemble, disassemble, format_program, parse_program, parse_trace

__all__ = [
    "Barrier",
    "Binding",
    "Blob",
    "BlobHeader",
    "BurstWrite",
    "BurstWriteInc",
    "Container",
    "HeaderBlob",
    "Instruction",
    "Irq",
    "Label",
    "Patch",
    "Poll",
    "Relocation",
    "SymbolOffset",
    "Write",
    "WriteField",
    "WriteFieldLong",
    "apply_patches",
    "assemble",
    "bind_symbols",
    "build_container",
    "collect_relocations",
    "container_of",
    "decode",
    "disassemble",
    "encode",
    "format_program",
    "instructions_of",
    "merge_writes",
    "parse_program",
    "parse_trace",
    "read_blobs",
    "read_container",
    "read_header",
    "read_header_file",
    "relocate",
]
