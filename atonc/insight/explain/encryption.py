"""What users must know of encrypted weights before they rely on them."""

from __future__ import annotations

from atonc.compiler.compile.compile_view import CompileView
from atonc.compiler.emit.encryption import ACC_CONFS, IN_PLAIN, UNSEEN
from atonc.machine.hw.safety.evidence.unit_features import DECIPHERS


def notes(view: CompileView) -> list[str]:
    """Nothing without `--encrypt-weights`."""
    if view.compiled.written.encrypted is None:
        return []
    known = [] if not view.options.encrypt_acc_confs else [f"{ACC_CONFS} (--no-encrypt-acc-confs takes note of it)"]
    return [f"encrypted weights: {evidence(view)}; {UNSEEN}", *known]


def evidence(view: CompileView) -> str:
    """What stands behind it: nothing but the emulator, or a board that answered the probes as well."""
    probed = DECIPHERS in view.compiled.target.trust.board.confirmed
    return f"{IN_PLAIN}{', but your board reads back what it enciphers' if probed else ''}"
