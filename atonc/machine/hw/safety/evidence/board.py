"""What one board answered to the probes: forms that ran there as emulated, others, constants that it measured."""

from __future__ import annotations

from typing import Any

from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.four_bits import FourBits
from atonc.machine.hw.safety.evidence.grades import Feature


@dataclass(frozen=True)
class BoardEvidence:
    confirmed: frozenset[Feature] = frozenset()
    refuted: frozenset[Feature] = frozenset()
    distrusted: frozenset[str] = frozenset()  # arguments that a refuted form disproves
    constants: tuple[tuple[str, float], ...] = ()  # of `[timing]` and `[clocks]`, at the clocks of `stm32n6.toml`
    supported: frozenset[str] = frozenset()  # arguments whose probes all passed; forms by them stay composed
    board: str = ""  # the name of the board
    four_bits: FourBits | None = None  # how engines read kernels of 4 bits, where the board has shown it

    def as_dict(self) -> dict[str, Any]:
        """In numbers."""
        return {
            "name": self.board,
            "confirmed_forms": len(self.confirmed),
            "refuted_forms": len(self.refuted),
            "disproved": sorted(self.distrusted),
            "confirmed_arguments": sorted(self.supported),
            "measured": dict(self.constants),
            **({"four_bits": self.four_bits.order} if self.four_bits else {}),
        }


NO_ANSWERS = BoardEvidence()
