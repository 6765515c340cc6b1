"""The operator table: where each kind of operator runs, and which rules may send it to the CPU."""

from __future__ import annotations

from dataclasses import dataclass

from atonc.lower import rules
from atonc.lower.registry import recipe_for
from atonc.ops import kinds
from atonc.passes.make_tables import UNARY
from atonc.reasons import Rule

NPU, TABLE, FOLDED, CPU = "NPU", "NPU (function table)", "folded", "CPU"
_FREE = ("reshape", "squeeze", "expand_dims", "flatten", "identity")
_FOLDED = ("batch_norm", "shape", "range", "fill")


@dataclass(frozen=True)
class OperatorInfo:
    kind: str
    where: str
    rules: tuple[Rule, ...]  # that may send it to the CPU, or that always do
    note: str = ""


def operator_table() -> tuple[OperatorInfo, ...]:
    return tuple(operator_info(kind) for kind in sorted(kinds()))


def operator_info(kind: str) -> OperatorInfo:
    recipe = recipe_for(kind)
    if kind in _FREE:
        return OperatorInfo(kind, NPU, (), "costs nothing: the bytes stay where they are")
    if recipe is not None:
        module = recipe.__module__.rsplit(".", 1)[-1]
        return OperatorInfo(kind, NPU, tuple(rules.rule_of(key) for key in rules.MAY_REFUSE[module]))
    if kind in _FOLDED:
        return OperatorInfo(kind, FOLDED, (rules.NO_RECIPE,), "folded into its neighbours or into constants")
    if kind in rules.BY_NATURE:
        return OperatorInfo(kind, CPU, (rules.BY_NATURE[kind],))
    if kind in UNARY:
        found = tuple(rules.rule_of(key) for key in rules.MAY_REFUSE["function"])
        return OperatorInfo(kind, TABLE, found, "int8 in, int8 out; ReLU and clip are free behind a convolution")
    return OperatorInfo(kind, CPU, (rules.NO_RECIPE,))
