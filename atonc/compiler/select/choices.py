"""What was chosen for every operator and why, as reports tell it: figures and sentences, no tasks and no functions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from math import inf

from atonc.compiler.select.decisions import Stripe
from atonc.compiler.select.form import Form, RefusedForm
from atonc.compiler.select.variants import Variant
from atonc.machine.base.frozen import dataclass
from atonc.machine.base.reasons import Rule


@dataclass(frozen=True)
class CpuReason:
    """Why an operator runs on the CPU."""

    node: str  # as all views call the layer
    op: str
    rule: Rule
    seen: str
    limit: str
    remedy: str
    needs: float = 0.0  # LSB that --allow-coarse would have to allow


@dataclass(frozen=True)
class Deviation:
    """How far a tensor is from the same tensor in exact arithmetic, in codes."""

    square: float = 0.0  # mean
    peak: float = 0.0


@dataclass(frozen=True)
class ExpectedError:
    """One operator: its own error on the inputs that it really has, and the deviation of its outputs with all that
    comes from before."""

    node: str
    op: str
    kind: str
    local: float
    room: float  # as declared
    gain: float  # what one code of one input element is worth, at most
    deviation: Deviation

    @property
    def saturates(self) -> bool:
        return self.room < inf


@dataclass(frozen=True)
class Rival:
    """A form that would have cost more than the chosen one; not `built`: it takes at least these cycles."""

    variant: Variant
    cycles: float
    built: bool


@dataclass(frozen=True)
class Contest:
    """A form that was chosen by its cost."""

    variant: Variant
    cycles: int
    rivals: tuple[Rival, ...]


@dataclass(frozen=True)
class Choices:
    reason_of: Mapping[str, CpuReason]  # why an operator is a call of the CPU, one for each that is
    refused: Mapping[str, tuple[RefusedForm, ...]]  # by operator on the NPU: forms that were tried first
    contests: Mapping[str, tuple[Contest, ...]]
    error: float  # expected of the worst form, in codes of 8 bits
    expected: tuple[ExpectedError, ...]  # in the order of the operators
    stripes: tuple[Stripe, ...] = ()  # whose bands are computed in turn
    unstriped: Mapping[str, RefusedForm] = field(default_factory=dict)  # why others are not, by first operator

    @property
    def on_cpu(self) -> frozenset[str]:
        return frozenset(self.reason_of)

    @property
    def reasons(self) -> tuple[CpuReason, ...]:
        """In the order of the graph."""
        return tuple(self.reason_of.values())


def contests_of(form: Form) -> tuple[Contest, ...]:
    """What else was possible at which cost; forms that came later in an order of preference took part in none."""
    found: dict[Variant, list[Rival]] = {}
    chosen: dict[Variant, int] = {}
    for one in form.alternatives:
        if not one.because:
            chosen.setdefault(one.chosen, one.chosen_form.cycles)
            cycles = one.least_cycles if one.built is None else one.built.cycles
            found.setdefault(one.chosen, []).append(Rival(one.variant, cycles, one.built is not None))
    return tuple(Contest(variant, chosen[variant], tuple(rivals)) for variant, rivals in found.items())
