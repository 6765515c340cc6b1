"""Which rules shaped a layer: read off the operator and off the epochs that it became."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from atonc.compiler.ir import Op, Tensor
from atonc.compiler.ops.conv import pair
from atonc.compiler.plan.task import Purpose
from atonc.compiler.select.form import RefusedForm
from atonc.insight.explain import forms, rules, wiring
from atonc.insight.explain.forms import avoided, decision
from atonc.insight.explain.types import Decision
from atonc.machine.base.words import count
from atonc.machine.hw.epoch import Epoch
from atonc.machine.hw.units.convacc import ConvaccConfig

SUMS = 2  # port of CONVACC at which partial sums arrive
SIMD_8X8, SIMD_16X8 = 1, 2
FEW_PIXELS, MANY_WEIGHTS = 4, 4096
WEIGHTED = ("conv", "dense", "transpose_conv")
_SMALL_PRIMES = (2, 3, 5, 7, 11, 13)


def bound(shares: Mapping[str, float], cycles: int) -> Decision:
    """What the layer waits for most of the time."""
    label, share = max(shares.items(), key=lambda item: item[1])
    return decision(rules.bound_rule(label), f"{label}: {100 * share:.0f} % of {cycles:,} cycles")


def of_operator(
    op: Op,
    tensors: Mapping[str, Tensor],
    epochs: Sequence[Epoch],
    purposes: Sequence[Purpose],
    shifted: Collection[str] = (),
    refused: Sequence[RefusedForm] = (),
) -> list[Decision]:
    """All rules that gave the operator its form. `purposes`: what its recipe made each epoch for; `shifted`: tensors
    that are stored as code + 128; `refused`: forms that its recipe tried before."""
    found = _of_weights(op, tensors, epochs, purposes, shifted) if op.kind in WEIGHTED else []
    found += forms.of_kind(op, tensors, epochs)
    found += forms.of_purposes(purposes, refused)
    if op.kind not in WEIGHTED:
        found += [one for one in of_epochs(epochs) if one.rule is rules.WIDE_NUMBERS]
    if all(one.rule is not rules.TABLE for one in found) and any(epoch.of_kind("ACTIV") for epoch in epochs):
        found.append(decision(rules.TABLE, f"ACTIV takes part in this {op.kind}"))
    computing = forms.computing(epochs, purposes)
    if len(computing) > 1 and all(one.rule not in forms.SEVERAL for one in found):
        found.append(forms.split(computing, tensors[op.outputs[0]]))
    return found


def merged(found: Iterable[Decision]) -> list[Decision]:
    """One decision a rule, with everything that was seen."""
    kept: dict[str, Decision] = {}
    for one in found:
        first = kept.get(one.rule.id)
        kept[one.rule.id] = replace(first, seen=f"{first.seen}; {one.seen}") if first else one
    return list(kept.values())


def of_epochs(epochs: Iterable[Epoch]) -> list[Decision]:
    """What only the registers show; all that is known of networks that others compiled."""
    epochs = list(epochs)
    configs = [c for epoch in epochs for c in epoch.units.values() if isinstance(c, ConvaccConfig)]
    found = []
    offsets = sorted({c.feature_offset for c in configs if c.simd == SIMD_16X8 and c.feature_offset})
    if offsets:
        shown = ", ".join(map(str, offsets[:4]))
        found.append(decision(rules.ZERO_POINT, f"the convolvers subtract {shown} and run as 16x8 SIMD"))
    wide = [c for c in configs if not c.deep and c.simd != SIMD_8X8 and not (c.simd == SIMD_16X8 and c.feature_offset)]
    if wide:
        found.append(
            decision(rules.WIDE_NUMBERS, f"{len(wide)} of {len(configs)} convolvers run as {wiring.mode(wide[0])}")
        )
    still = [c for c in configs if c.feature_stationary]
    if still:
        found.append(decision(rules.STATIONARY, f"{len(still)} of {len(configs)} convolvers hold their features"))
    loops = [link for epoch in epochs for link in epoch.links if _loop(epoch, link.source, link.destination, link.port)]
    if loops:
        found.append(decision(rules.CHANNEL_PASSES, f"partial sums return through {loops[0].source}"))
    return found


def _loop(epoch: Epoch, source: str, destination: str, port: int) -> bool:
    """Whether a link brings sums of earlier frames back to a convolver."""
    if port != SUMS or not isinstance(epoch.units.get(destination), ConvaccConfig):
        return False
    return not isinstance(epoch.units.get(source), ConvaccConfig) or source == destination


def _of_weights(
    op: Op,
    tensors: Mapping[str, Tensor],
    epochs: Sequence[Epoch],
    purposes: Sequence[Purpose],
    shifted: Collection[str],
) -> list[Decision]:
    source, weights = tensors[op.inputs[0]], tensors[op.inputs[1]]
    found = of_epochs(epochs)
    zero = source.zero_point if source.quant is not None else 0
    if zero and all(d.rule is not rules.ZERO_POINT for d in found):
        how = "nothing is padded, so the bias makes up for it"
        if Purpose.FEATURES in purposes:
            how = "an epoch before subtracts it"
        elif Purpose.BORDER in purposes:
            how = "it lies around a copy of the picture, so the bias makes up for it"
        elif source.name in shifted:
            how = "it is stored shifted by 128"
        seen = f"zero point {zero} at the input, avoided here: {how}. ST's compiler subtracts it in the unit"
        found.append(avoided(rules.ZERO_POINT, seen))
    found += _of_channels(source.shape[-1], weights.shape[0]) + _of_reuse(op, tensors)
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
    elif groups > 1:
        found.append(decision(rules.GROUPS, f"{count(groups, 'group')} of {count(weights.shape[-1], 'channel')}"))
    return found


def _of_channels(inputs: int, outputs: int) -> list[Decision]:
    found = awkward((inputs, outputs))
    if not found:
        return []
    seen = f"{' and '.join(map(str, found))} channels: the last group is filled up, where ST's compiler gives up"
    return [avoided(rules.AWKWARD_CHANNELS, seen)]


def _of_reuse(op: Op, tensors: Mapping[str, Tensor]) -> list[Decision]:
    """Weights that serve few pixels: then the kernel port decides, wherever the weights come from."""
    weights, target = tensors[op.inputs[1]], tensors[op.outputs[0]]
    pixels = target.elements // max(1, weights.shape[0])
    if op.kind == "transpose_conv" or pixels > FEW_PIXELS or weights.elements < MANY_WEIGHTS:
        return []
    times = "once" if pixels == 1 else f"{pixels} times"
    return [decision(rules.BOUNDS["weights"], f"each of the {weights.elements:,} weights is used {times}: no reuse")]


def awkward(counts: Iterable[int]) -> tuple[int, ...]:
    """Counts that ST's splitter cannot cut."""
    return tuple(count for count in dict.fromkeys(counts) if count > 24 and _has_no_small_factor(count))


def _has_no_small_factor(count: int) -> bool:
    return all(count % prime for prime in _SMALL_PRIMES)
