"""Which rules shaped a layer: read off the operator and off the epochs that it became."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from atonc.compiler.ir import Op, Tensor
from atonc.compiler.ops import is_move
from atonc.compiler.ops.conv import pair
from atonc.compiler.plan.task import Purpose
from atonc.compiler.schedule.types import Schedule
from atonc.compiler.select.choices import Choices
from atonc.compiler.select.form import RefusedForm
from atonc.insight.explain import rules, wiring
from atonc.insight.explain.types import Decision, LayerView
from atonc.machine.base.reasons import Rule
from atonc.machine.base.words import count
from atonc.machine.hw.cycles import hardware
from atonc.machine.hw.epoch import Epoch
from atonc.machine.hw.machine import Machine, stm32n6
from atonc.machine.hw.units.convacc import ConvaccConfig

MEANS = ("mean", "average_pool", "sum")
MAXIMA = ("max_pool", "reduce_max", "reduce_min")
FUNCTIONS = ("table", "prelu")
CONVERSIONS = ("uint8_to_int8", "int8_to_uint8", "requantize", "affine")
# these say by themselves why a layer takes several epochs
SEVERAL = (rules.TRANSPOSED, rules.GROUPS, rules.STAGES, rules.PIECES, rules.RESIZE, rules.PARTIAL)
_HELPERS = {
    Purpose.FEATURES: (rules.EXTRA_STEPS, "subtract the zero point"),
    Purpose.PADDING: (rules.PADDED, "write a padded copy"),
    Purpose.BORDER: (rules.BORDERED, "write a copy as value + 128 or with the zero point around it"),
    Purpose.CONSTANTS: (rules.FAR_SUMS, "copy some channels, with a constant one beside them"),
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
            cause = next((one for one in refused if not one.inexact), None)
            if purpose == Purpose.PADDING and cause:
                seen += f", as units alone refuse {cause.seen} (they take {cause.limit})"
            found.append(decision(rule, seen))
    return found


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
    found += of_kind(op, tensors, epochs)
    found += of_purposes(purposes, refused)
    if op.kind not in WEIGHTED:
        found += [one for one in of_epochs(epochs) if one.rule is rules.WIDE_NUMBERS]
    if all(one.rule is not rules.TABLE for one in found) and any(epoch.of_kind("ACTIV") for epoch in epochs):
        found.append(decision(rules.TABLE, f"ACTIV takes part in this {op.kind}"))
    works = [purpose for purpose in purposes if purpose not in _HELPERS]  # the others only prepare something
    if len(works) > 1 and all(one.rule not in SEVERAL for one in found):
        each = f"{count(len(works), 'epoch')} for {_size(tensors[op.outputs[0]])} values"  # a part of the result
        found.append(decision(rules.SPLIT, each))
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
            how = "it lies around a copy of the image, so the bias makes up for it"
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
    return tuple(n for n in dict.fromkeys(counts) if n > 24 and all(n % prime for prime in _SMALL_PRIMES))


def has_no_epoch(op: str, schedule: Schedule) -> bool:
    """Whether some of its work runs behind another operator; for one without steps that is all of it."""
    return any(merge.consumer == op for merge in schedule.merges)


def prepared(op: str, schedule: Schedule) -> bool:
    """Whether another operator writes its features as its units want them."""
    own = (merge for merge in schedule.merges if merge.consumer == op)
    return any(task.purpose == Purpose.FEATURES for merge in own for task in merge.group.tasks)


def of_stripes(op: str, choices: Choices) -> Iterator[Decision]:
    for stripe in choices.stripes:
        if op in stripe.ops:
            first, last = stripe.ops[0], stripe.ops[-1]
            seen = f"{stripe.bands} row tiles, {len(stripe.ops)} layers in turn, {first} to {last}"
            yield decision(rules.STRIPED, seen)
    if op in choices.unstriped:
        yield decision(rules.UNSTRIPED, choices.unstriped[op].seen)


def of_schedule(op: str, schedule: Schedule) -> Iterator[Decision]:
    for merge in schedule.merges:
        kept = f"; {merge.through[-60:]} is written all the same, for others" if merge.kept else ""
        if merge.consumer == op:
            yield decision(rules.CHAINED, f"behind {merge.producer}: {merge.saved_cycles:,} cycles less{kept}")
        elif merge.producer == op:
            yield decision(rules.CARRIES, f"{merge.consumer}: {merge.saved_cycles:,} cycles less{kept}")
    for apart in schedule.apart:
        if apart.consumer == op:
            yield decision(rules.APART, f"not behind {apart.producer} ({apart.rule}): {apart.seen}")
    for one in schedule.co_scheduled:
        for mine, others in ((one.ops, one.others), (one.others, one.ops)):
            if op in mine:
                names = ", ".join(other for other in others if other != op) or "another part of itself"
                yield decision(rules.BESIDE, f"beside {names[-200:]}: {one.saved_cycles:,} cycles less")
                break


def at_clocks(
    layers: Iterable[LayerView], machine: Machine, programmed_by: str = hardware.CONTROLLER
) -> tuple[LayerView, ...]:
    found = tuple(layers)
    usual = machine.clocks == stm32n6().clocks and not machine.measured
    limits = {} if usual else _limits(machine)
    limits |= _programming(machine) if programmed_by == hardware.CPU else {}
    if not limits:
        return found
    return tuple(
        replace(layer, decisions=tuple(replace(d, limit=limits.get(d.rule.id, d.limit)) for d in layer.decisions))
        for layer in found
    )


def _limits(machine: Machine) -> dict[str, str]:
    """Says by rule what the machine at hand does, in the words of the rule."""
    clocks, timing = machine.clocks, machine.timing
    bank = f"one 8-byte beat per {timing.read_beat:.3g} cycles (read) or {timing.write_beat:.3g} (write) on an NPU RAM"
    return {
        rules.BOUNDS["flash"].id: _rate(clocks.flash_mb_per_s, machine.flash_byte_cycles),
        rules.BOUNDS["hyperram"].id: _rate(clocks.hyperram_mb_per_s, machine.hyperram_byte_cycles),
        rules.BOUNDS["cpu"].id: f"{clocks.cpu_mhz:g} MHz",
        rules.BOUNDS["bank"].id: f"{bank}, per {timing.noc_beat:.3g} on a CPU RAM",
    }


def _programming(machine: Machine) -> dict[str, str]:
    by_word, behind = machine.timing.cpu_before_word, machine.timing.cpu_after_constant
    said = f"{by_word:g} CPU cycles per word of the command stream, and {behind:g} or more behind the epoch"
    return {rules.BOUNDS["programming"].id: said}


def _rate(mb_per_s: float, byte_cycles: float) -> str:
    return f"{mb_per_s:g} MB/s: {byte_cycles:.3g} cycles per byte"
