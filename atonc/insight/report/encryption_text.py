"""Which weights are to be encrypted and which are not, in lines and as data."""

from __future__ import annotations

from typing import Any

from atonc.compiler.compile.compile_view import CompileView
from atonc.compiler.emit.encryption import count
from atonc.insight.explain.encryption import evidence
from atonc.machine.base import words


def lines(view: CompileView) -> list[str]:
    """For the section on memory; nothing without `--encrypt-weights`."""
    region = view.compiled.written.encrypted
    if region is None:
        return []
    found = count(view.compiled.written, view.compiled.graph)
    return [
        f"  to be encrypted: {found.encrypted_bytes:,} bytes of weights, {region.size_bytes:,} bytes of the image of "
        f"{region.pool} from offset {region.offset:,} on ({region.start:#010x}); "
        f"{words.count(found.engines, 'reader')} in {words.count(found.epochs, 'epoch')} decipher them",
        f"  in plain: {found.plain_bytes:,} bytes of weights, of layers on the CPU, in {view.name}.c",
    ]


def as_json(view: CompileView) -> dict[str, Any] | None:
    region = view.compiled.written.encrypted
    if region is None:
        return None
    found = count(view.compiled.written, view.compiled.graph)
    return {
        "pool": region.pool,
        "address": region.start,
        "offset": region.offset,
        "size_bytes": region.size_bytes,
        "encrypted_bytes": found.encrypted_bytes,
        "plain_bytes": found.plain_bytes,
        "engines": found.engines,
        "epochs": found.epochs,
        "evidence": evidence(view),
    }
