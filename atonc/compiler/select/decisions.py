"""What was decided about a network. `search.build` makes a program of it and adds nothing; whatever could have been
otherwise and matters to the whole stands here, so that it can be compared, printed, saved and given back."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import field, replace
from fractions import Fraction
from typing import Any

from atonc.compiler.plan.policy import HUGE_SHARES
from atonc.compiler.select.form import RefusedForm
from atonc.machine.base.frozen import dataclass


@dataclass(frozen=True)
class Stripe:
    """Operators one behind the other, each the only reader of the one before, in so many bands of rows."""

    ops: tuple[str, ...]
    bands: int


@dataclass(frozen=True)
class Copy:
    """A part of a constant that one step copies beside its work (index from 0); by the DMA: in the list that begins in
    front of the step."""

    step: int
    offset: int
    size_bytes: int


@dataclass(frozen=True)
class Fetched:
    """A constant that is read from a copy; its RAM is taken from the first copy to the last reader."""

    constant: str
    address: int
    first: int
    last: int
    copies: tuple[Copy, ...]


@dataclass(frozen=True)
class MadeFor:
    """What decisions were made for: names of operators, forms and constants mean something there only."""

    model: str  # its name, for people
    graph: str  # digest of the graph that is lowered
    numerics: str
    npu: bool
    epoch_controller: bool


@dataclass(frozen=True)
class Decisions:
    """By default: what is tried first. Names are those of operators; of constants where it says so."""

    huge_share: Fraction = HUGE_SHARES[0]  # of the NPU's own RAM: from which size on tensors shall fit any memory
    compact: bool = False  # placement keeps to the smallest extent rather than spread over banks
    thrifty: bool = False  # no faster form makes the peak of activations higher
    fused: bool = True  # operators may share a chain
    on_cpu: Mapping[str, RefusedForm] = field(default_factory=dict)  # and why
    unfused: frozenset[str] = frozenset()  # share no chain
    alone: frozenset[str] = frozenset()  # every task of theirs gets an epoch of its own
    stripes: tuple[Stripe, ...] = ()  # rows of several operators in turn
    unstriped: frozenset[str] = frozenset()  # in no stripe
    reserved: frozenset[str] = frozenset()  # their epochs leave engines for a copy
    forms: Mapping[str, str] = field(default_factory=dict)  # operator -> label of another form with the same bits
    disproved: Mapping[str, tuple[float, ...]] = field(default_factory=dict)  # operator -> errors that forms declared
    cuts: Mapping[str, tuple[int, ...]] = field(default_factory=dict)  # constant -> bytes where another epoch begins
    near: frozenset[str] = frozenset()  # operators whose weights are read from RAM: forms are chosen for that
    ram_scarce: bool = False  # RAM has no room for all weights: kernels of these operators shall be short
    resident_bytes: int = 0  # RAM that weights may take for the whole run
    resident: Mapping[str, int] | None = None  # constant -> address of its copy in RAM; None: not decided yet
    fetched: tuple[Fetched, ...] | None = None  # constants that are copied ahead; None: not decided yet
    by_dma: bool = False  # the chip's DMA copies them, not idle engines
    made_for: MadeFor | None = field(default=None, compare=False)  # None: nobody has said, as in a file made by hand

    def __hash__(self) -> int:
        return hash((self.lowering, self.scheduling, self.resident_bytes, str(self.resident), self.fetched))

    @property
    def spends(self) -> bool:
        """Time counts more than RAM, which is there and for no weights."""
        return not (self.thrifty or self.compact or self.resident_bytes)

    @property
    def undecided(self) -> bool:
        """Whether weights may stay in RAM, and nobody has said which."""
        return self.resident_bytes > 0 and self.resident is None

    def but(self, **changes: Any) -> Decisions:
        """The same with some changes; where weights lie has to be decided anew then."""
        return replace(self, **{"resident": None, "fetched": None, "by_dma": False, **changes})

    def without_stripes_of(self, ops: Collection[str]) -> tuple[Stripe, ...]:
        return tuple(stripe for stripe in self.stripes if set(ops).isdisjoint(stripe.ops))

    @property
    def lowering(self) -> tuple[object, ...]:
        """What tasks depend on."""
        cuts, forms, disproved = (tuple(sorted(one.items())) for one in (self.cuts, self.forms, self.disproved))
        ram = self.huge_share, self.spends, self.ram_scarce
        return ram, tuple(self.on_cpu), self.stripes, cuts, forms, disproved, self.near

    @property
    def scheduling(self) -> tuple[object, ...]:
        """What steps and addresses depend on besides."""
        return self.compact, self.fused, self.unfused, self.alone, self.unstriped, self.reserved

    def adds_weights_to(self, other: Decisions) -> bool:
        """Whether tasks are scheduled and placed alike, and no weights have to be moved back."""
        kept = other.resident in (None, self.resident) and other.fetched in (None, self.fetched)
        return kept and self.scheduling == other.scheduling


FIRST = Decisions()  # what is tried first
