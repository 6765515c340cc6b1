"""The program on the emulator, layer by layer, against exact arithmetic: a wrong one is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

from atonc.machine.base.errors import VerificationError

if TYPE_CHECKING:
    from atonc.compiler.verify.verify import LayerCheck


class CoarserThanDeclared(VerificationError):
    """A layer computes what its form means, and that is further from exact arithmetic than the form declares: another
    form may be nearer."""

    def __init__(self, layer: LayerCheck, what: str, **words: str) -> None:
        super().__init__(what, **words)
        self.layer = layer
