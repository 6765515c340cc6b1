"""Epoch-controller programs: instructions, blobs and containers, generated headers."""

from __future__ import annotations

from atonc.hw.ec.blob import Blob, Container, apply_patches, build_container, read_blobs, read_container, relocate
from atonc.hw.ec.header import Binding, BlobHeader, HeaderBlob, read_header, read_header_file
from atonc.hw.ec.instructions import (
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
from atonc.hw.ec.tables import Patch, Relocation

__all__ = [
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
    "Write",
    "WriteField",
    "WriteFieldLong",
    "apply_patches",
    "build_container",
    "decode",
    "encode",
    "read_blobs",
    "read_container",
    "read_header",
    "read_header_file",
    "relocate",
]
