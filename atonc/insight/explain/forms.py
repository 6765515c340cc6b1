"""The form that an operator takes on the NPU: which kinds have one of their own, and what extra epochs are for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from atonc.compiler.ir import Op, Tensor
from atonc.compiler.ops import is_move
from atonc.compiler.ops.conv import pair
from atonc.compiler.plan.task import Purpose
from atonc.compiler.select.form import RefusedForm
from atonc.insight.explain import rules
from atonc.insight.explain.types import Decision
from atonc.machine.base.reasons import Rule
from atonc.machine.base.words import count
from atonc.machine.hw.epoch import Epoch

MEANS = ("mean", "average_pool", "sum")
MAXIMA = ("max_pool", "reduce_max", "reduce_min")
FUNCTIONS = ("table", "prelu")
CONVERSIONS = ("uint8_to_int8", "int8_to_uint8", "requantize", "affine")
# these say by themselves why a layer takes several epochs
SEVERAL = (rules.TRANSPOSED, rules.GROUPS, rules.STAGES, rules.PIECES, rules.RESIZE, rules.PARTIAL)
_HELPERS = {
    Purpose.FEATURES: (rules.EXTRA_STEPS, "subtract the zero point"),
    Purpose.PADDING: (rules.PADDED, "write a padded copy"),
    Purpose.BORDER: (rules.BORDERED, "write a copy as code + 128 or with the zero point around it"),
    Purpose.KERNELS: (rules.PACKED, "pack the factors"),
    Purpose.PART: (rules.PARTIAL, "compute or add parts"),
}


def decision(rule: Rule, seen: str) -> Decision:
    return Decision(rule, seen, rule.limit, rule.remedy)


def avoided(rule: Rule, seen: str) -> Decision:
    """A rule that costs nothing here, for who wonders why it does elsewhere."""
    return Decision(rule, seen, rule.limit, "", avoided=True)


def of_kind(op: Op, tensors: Mapping[str, Tensor], epochs: Sequence[Epoch]) -> list[Decision]:
    if not epochs:
        return []
    source, target = tensors[op.inputs[0]] if op.inputs else None, tensors[op.outputs[0]]
    several = count(len(epochs), "epoch")
    if op.kind in FUNCTIONS:
        return [decision(rules.TABLE, f"{op.kind} over {target.elements:,} values")]
    if op.kind in CONVERSIONS:
        return [decision(rules.CONVERSION, f"{op.kind} of {target.elements:,} values")]
    if op.kind.startswith("resize") and source is not None:
        return [decision(rules.RESIZE, f"{op.kind} {_size(source)} to {_size(target)}: {several}")]
    if op.kind == "transpose_conv":
        down, right = pair(op.attrs.get("stride", 1))
        return [decision(rules.TRANSPOSED, f"stride {down}x{right}: {down * right} positions, {several}")]
    if op.kind in MAXIMA and (len(epochs) > 1 or any(epoch.of_kind("CONVACC") for epoch in epochs)):
        return [decision(rules.STAGES, f"{_window(op)}: {several}")]
    if op.kind in MEANS and len(epochs) > 1:
        return [decision(rules.PIECES, f"{_window(op)} over {_size(source or target)}: {several}")]
    if is_move(op.kind):
        return [decision(rules.MOVE, f"{op.kind} of {target.elements:,} values")]
    return []


def _window(op: Op) -> str:
    if "window" not in op.attrs:
        return op.kind
    rows, columns = pair(op.attrs["window"])
    padded = ", padded" if any(op.attrs.get("padding") or ()) else ""
    return f"a {rows}x{columns} window{padded}"


def _size(tensor: Tensor) -> str:
    return "x".join(map(str, tensor.shape))


def of_purposes(purposes: Sequence[Purpose], refused: Sequence[RefusedForm] = ()) -> list[Decision]:
    """Epochs beside the computing ones, by what the recipe made them for; a padded copy with the reason why the units
    could not do without."""
    found = []
    for purpose, (rule, what) in _HELPERS.items():
        if count := purposes.count(purpose):
            seen = f"{count} of {len(purposes)} epochs {what}"
            if purpose == Purpose.PADDING and refused:
                seen += f", as units alone refuse {refused[0].seen} (they take {refused[0].limit})"
            found.append(decision(rule, seen))
    return found


def computing(epochs: Sequence[Epoch], purposes: Sequence[Purpose]) -> list[Epoch]:
    """Without those that only prepare something."""
    return [epoch for epoch, purpose in zip(epochs, purposes, strict=True) if purpose not in _HELPERS]


def split(epochs: Sequence[Epoch], target: Tensor) -> Decision:
    """Several epochs that each give a part of the result."""
    return decision(rules.SPLIT, f"{count(len(epochs), 'epoch')} for {_size(target)} values")
