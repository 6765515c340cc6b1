"""What there is to say of encrypted weights: what is, what is not, and that nobody has seen it run."""

from __future__ import annotations

from typing import Any

from atonc.compiler.compile.compile_view import CompileView
from atonc.compiler.emit.encryption import ACC_CONFS, IN_PLAIN, UNSEEN, count
from atonc.machine.base import words
from atonc.machine.hw.safety.evidence.streng import DECIPHERS


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


def notes(view: CompileView) -> list[str]:
    """What users must know before they rely on it."""
    if view.compiled.written.encrypted is None:
        return []
    known = [] if not view.options.encrypt_acc_confs else [f"{ACC_CONFS} (--no-encrypt-acc-confs takes note of it)"]
    return [f"encrypted weights: {evidence(view)}; {UNSEEN}", *known]


def evidence(view: CompileView) -> str:
    """What stands behind it: nothing but the emulator, or a board that answered the probes as well."""
    probed = DECIPHERS in view.compiled.target.trust.board.confirmed
    return f"{IN_PLAIN}{', but your board reads back what it enciphers' if probed else ''}"


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
