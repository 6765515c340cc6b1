"""Which rules shaped a layer: read off the operator and off the epochs that it became."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from atonc.hw.epoch import Epoch
from atonc.hw.units.convacc import ConvaccConfig
from atonc.insight import rules
from atonc.insight.types import Decision
from atonc.ir import Op, Tensor
from atonc.ops import is_move
from atonc.ops.windows import pair
from atonc.reasons import Rule

SUMS = 2
WEIGHTED = ("conv", "dense", "transpose_conv")
_SMALL_PRIMES = (2, 3, 5, 7, 11, 13)


def decision(rule: Rule, seen: str, limit: str = "", remedy: str = "") -> Decision:
    return Decision(rule, seen, limit or rule.limit, remedy or rule.remedy)


def bound(shares: Mapping[str, float], cycles: int) -> Decision:
    """What the layer waits for most of the time."""
    label, share = max(shares.items(), key=lambda item: item[1])
    return decision(rules.bound_rule(label), f"{label}: {100 * share:.0f} % of {cycles:,} cycles")


def of_operator(op: Op, tensors: Mapping[str, Tensor], epochs: Sequence[Epoch]) -> list[Decision]:
    found = []
    if op.kind in WEIGHTED:
        found += _of_weights(op, tensors, epochs)
    if op.kind in ("table", "prelu") and any(epoch.of_kind("ACTIV") for epoch in epochs):
        found.append(decision(rules.TABLE, f"{op.kind} over {tensors[op.outputs[0]].elements:,} values"))
    if is_move(op.kind) and epochs:
        found.append(decision(rules.MOVE, f"{op.kind} of {tensors[op.outputs[0]].elements:,} values"))
    if len(epochs) > 1:
        found.append(_several(op, epochs))
    return found


def of_epochs(epochs: Iterable[Epoch]) -> list[Decision]:
    """What only the registers show; all that is known of networks that others compiled."""
    configs = [c for epoch in epochs for c in epoch.units.values() if isinstance(c, ConvaccConfig)]
    found = []
    offsets = sorted({c.feature_offset for c in configs if c.simd == 2 and c.feature_offset})
    if offsets:
        shown = ", ".join(map(str, offsets[:4]))
        found.append(decision(rules.ZERO_POINT, f"the convolvers subtract {shown} and run as 16x8 SIMD"))
    loops = [link for epoch in epochs for link in epoch.links if _loop(epoch, link.source, link.destination, link.port)]
    if loops:
        found.append(decision(rules.CHANNEL_PASSES, f"partial sums return through {loops[0].source}"))
    return found


def _loop(epoch: Epoch, source: str, destination: str, port: int) -> bool:
    """Whether a link brings sums of earlier frames back to a convolver."""
    if port != SUMS or not isinstance(epoch.units.get(destination), ConvaccConfig):
        return False
    return not isinstance(epoch.units.get(source), ConvaccConfig) or source == destination


def _of_weights(op: Op, tensors: Mapping[str, Tensor], epochs: Sequence[Epoch]) -> list[Decision]:
    source, weights = tensors[op.inputs[0]], tensors[op.inputs[1]]
    found = of_epochs(epochs)
    zero = source.zero_point if source.quant is not None else 0
    if zero and all(d.rule is not rules.ZERO_POINT for d in found):
        how = "it is stored shifted by 128" if zero == -128 else "nothing is padded, so the bias makes up for it"
        found.append(
            decision(
                rules.ZERO_POINT,
                f"zero point {zero} at the input, avoided here: {how}. ST's compiler subtracts it in the unit",
                remedy="nothing to do",
            )
        )
    found += _of_channels(source.shape[-1], weights.shape[0])
    if op.kind == "dense" or len(weights.shape) < 4:
        return found
    rows, columns = weights.shape[1:3]
    if max(rows, columns) > 3:
        found.append(decision(rules.WIDE_KERNEL, f"a {rows}x{columns} kernel"))
    dilation = pair(op.attrs.get("dilation", (1, 1)))
    if max(dilation) > 1:
        found.append(decision(rules.DILATED, f"dilation {dilation[0]}x{dilation[1]}"))
    groups = op.attrs.get("groups", 1)
    if groups > 1 and weights.shape[-1] == 1:
        found.append(decision(rules.DEPTHWISE, f"{groups} channels, each with its own {rows}x{columns} kernel"))
    return found


def _of_channels(inputs: int, outputs: int) -> list[Decision]:
    found = awkward((inputs, outputs))
    if not found:
        return []
    return [
        decision(rules.AWKWARD_CHANNELS, f"{' and '.join(map(str, found))} channels; here the last group is filled up")
    ]


def awkward(counts: Iterable[int]) -> tuple[int, ...]:
    """Counts that ST's splitter cannot cut."""
    return tuple(count for count in dict.fromkeys(counts) if count > 24 and _has_no_small_factor(count))


def _has_no_small_factor(count: int) -> bool:
    return all(count % prime for prime in _SMALL_PRIMES)


def _several(op: Op, epochs: Sequence[Epoch]) -> Decision:
    count = len(epochs)
    if op.kind in WEIGHTED:
        helpers = sum(not epoch.of_kind("CONVACC") for epoch in epochs)
        if helpers:
            return decision(rules.EXTRA_STEPS, f"{helpers} of {count} epochs copy, pad or scale for the convolvers")
    return decision(rules.SPLIT, f"{count} epochs")
