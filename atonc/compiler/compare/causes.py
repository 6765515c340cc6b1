"""Why is a convolution more than one code away from exact arithmetic?

The compiler's int8 lowering has known losses, and all of them are properties of the compiled program:
- the accumulator leaves the unit as 16 bits after a shift that is chosen from the signed sum of the weights: filters
  of mixed sign can saturate it; older compilers also saturate a 16-bit intermediate before the bias is added;
- each part of an accumulation over many input channels is rounded to that shift, so that channels with small weights
  lose up to half an accumulator step per part;
- the multipliers of all channels share one shift: a channel with a small scale has few bits left in its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from atonc.compiler.ir import Array, Graph, Op
from atonc.compiler.ops.conv import accumulate
from atonc.compiler.ops.values import Arg, Real
from atonc.compiler.ops.windows import channel_last
from atonc.machine.base.frozen import dataclass

LIMIT = 32767
PART_CHANNELS = 8  # input channels that the smallest usual part of an accumulation has


@dataclass(frozen=True)
class Lowering:
    """What the 16-bit stages see, per output value in channel-last order; above 32767 they saturate."""

    accumulator: Real  # magnitude after the output shift
    one_sided: Real  # positive or negative products alone: an upper bound of partial sums
    intermediate: Real  # magnitude at the power-of-two scale before the bias
    rounding: Real  # the loss in codes that rounding alone can reach
    step_codes: Real  # output codes per accumulator step, per channel
    multiplier: Real  # the integer multiplier, per channel


def lowering(graph: Graph, op: Op, values: Mapping[str, Array]) -> Lowering | None:
    """None for operators that are not lowered to a convolution."""
    if op.kind not in ("conv", "dense"):
        return None
    x, weights = (Arg(graph.tensors[name], values[name]) for name in op.inputs[:2])
    target = graph.tensors[op.outputs[0]]
    if x.tensor.is_float or weights.tensor.is_float or target.quant is None:
        return None
    run = _runner(op)
    outputs, reach = weights.codes.shape[0], weights.codes.shape[1:]
    scale = np.broadcast_to(x.scales * weights.scales, (outputs,))
    sums = weights.centred.reshape(outputs, -1).sum(axis=1)
    shift = max(0, int(np.abs(sums).max(initial=0)).bit_length() - 7)
    total = np.abs(run(weights.centred, x.centred))
    positive, negative = (
        run(bound(weights.centred, 0), np.maximum(x.centred, 0)) for bound in (np.maximum, np.minimum)
    )
    multiplier = np.rint(scale * 2.0 ** (14 - np.floor(np.log2(scale.max()))))
    step = scale * 2.0**shift / target.scale
    parts = -(-reach[-1] // PART_CHANNELS) * int(np.prod([-(-size // 3) for size in reach[:-1]]))
    return Lowering(
        accumulator=total / 2**shift,
        one_sided=np.maximum(positive, -negative) / 2**shift,
        intermediate=total * scale / 2.0 ** np.ceil(np.log2(target.scale) - 6),
        rounding=0.5 * parts * step + total * scale / target.scale * 0.5 / np.maximum(multiplier, 1) + 0.1,
        step_codes=step,
        multiplier=multiplier,
    )


def explain(graph: Graph, op: Op, values: Mapping[str, Array], difference: Array) -> str:
    """One sentence on the values that differ by more than 1; empty if there is nothing to say."""
    found = lowering(graph, op, values)
    if found is None:
        return ""
    error = np.abs(_last(op, difference))
    bad = error > 1
    saturated = (found.accumulator > LIMIT) | (found.intermediate > LIMIT)
    partial = ~saturated & (found.one_sided > LIMIT)
    rounded = ~saturated & ~partial & (error <= 1 + found.rounding)
    cases = {
        "saturate a 16-bit stage": saturated,
        "may saturate in a partial sum": partial,
        _loss(found, bad & rounded): rounded,
        "unexplained": ~(saturated | partial | rounded),
    }
    counts = {what: int((bad & mask).sum()) for what, mask in cases.items()}
    return "; ".join(f"{number} of {int(bad.sum())} {what}" for what, number in counts.items() if number)


def saturation(graph: Graph, op: Op, values: Mapping[str, Array]) -> str:
    """How many values of a layer leave 16 bits, in the end or perhaps on the way; empty if none does."""
    found = lowering(graph, op, values)
    if found is None:
        return ""
    saturated = (found.accumulator > LIMIT) | (found.intermediate > LIMIT)
    partial = ~saturated & (found.one_sided > LIMIT)
    counts = {"saturate a 16-bit stage": int(saturated.sum()), "may saturate in a partial sum": int(partial.sum())}
    said = [f"{number} of {saturated.size} values of {op.name} {what}" for what, number in counts.items() if number]
    return ", ".join(said)


def _loss(found: Lowering, mask: Array) -> str:
    channels = np.unique(np.nonzero(mask)[-1])
    if not channels.size:
        return "rounded"
    coarsest, smallest = found.step_codes[channels].max(), found.multiplier[channels].min()
    return f"rounded in the lowering (accumulator steps up to {coarsest:.2f} codes, multipliers from {smallest:.0f})"


def _last(op: Op, values: Array) -> Array:
    return channel_last(values, op.attrs["layout"]) if op.kind == "conv" else values.reshape(-1, values.shape[-1])


def _runner(op: Op) -> Callable[[Real, Real], Real]:
    """Sums of products in channel-last order."""
    if op.kind == "dense":
        return lambda w, v: v.reshape(-1, w.shape[1]) @ w.T
    return lambda w, v: accumulate(channel_last(v, op.attrs["layout"]), w, op.attrs)
