"""What was chosen for every operator and why, as reports tell it: figures and sentences, no tasks and no functions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from math import inf

from atonc.compiler.select.decisions import Stripe
from atonc.compiler.select.form import Alternative, Form, RefusedForm
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
class Choices:
    reason_of: Mapping[str, CpuReason]  # why an operator is a call of the CPU, one for each that is
    refused: Mapping[str, tuple[RefusedForm, ...]]  # by operator on the NPU: forms that were tried first
    contests: Mapping[str, tuple[str, ...]]  # what was chosen for its cost, and what it was preferred to
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


def contests_of(form: Form) -> tuple[str, ...]:
    """What was taken for its cost, and what else was possible at which; an order of preference is no contest."""
    rivals: dict[Variant, list[Alternative]] = {}
    for one in form.alternatives:
        if not one.because:
            rivals.setdefault(one.chosen, []).append(one)
    dearer = {chosen: (f"{one.variant.label} {_cycles(one)}" for one in others) for chosen, others in rivals.items()}
    return tuple(
        f"{chosen.label}: {others[0].chosen_form.cycles:,} cycles; {', '.join(dearer[chosen])}"
        for chosen, others in rivals.items()
    )


def _cycles(one: Alternative) -> str:
    """What a form that could not win takes at least."""
    return f"{one.built.cycles:,}" if one.built else f"at least {one.least_cycles:,.0f}"
