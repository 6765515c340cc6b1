"""Convolutions and dense layers: the decisions about them, from the first to the last, and the rows of each.

`DECISIONS` is the table. What a row does to a layer is a step of `prepare` or `cuts`; chains are the matter of `dense`
and `depthwise`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import numpy as np

from atonc.compiler.ir import Op
from atonc.compiler.lower.context import Context
from atonc.compiler.lower.conv import dense, depthwise
from atonc.compiler.lower.conv.chains import LOWEST, subtractable
from atonc.compiler.lower.conv.cuts import (
    Band,
    Bands,
    ChannelGroups,
    HalfRows,
    LastColumns,
    OfBand,
    Strips,
    WhatItSees,
)
from atonc.compiler.lower.conv.dense_chain import BETWEEN_PASSES
from atonc.compiler.lower.conv.kernel_parts import MAX_PADDING, WINDOW
from atonc.compiler.lower.conv.layer import ConvLayer, With, layer_of
from atonc.compiler.lower.conv.near_sums import near_sums
from atonc.compiler.lower.conv.passes_2x import needs_unsigned
from atonc.compiler.lower.conv.prepare import (
    ALL_PICTURE,
    WITH_A_RING,
    WITH_A_STRIDE,
    CopiedRows,
    EverySecond,
    OneMoreRow,
    OneMoreRowCopied,
    OnePixel,
    PaddedCopy,
    Pairs,
    Ringed,
    ShiftedCopy,
    SignedCopy,
    is_one_pixel,
)
from atonc.compiler.lower.registry import Refusal, recipe
from atonc.compiler.lower.semantics.sums import agree
from atonc.compiler.plan.policy import (
    MANY_CHANNELS,
    WINDOW_CHANNELS,
    WINDOW_OUTPUTS,
    WORTH_BORDER,
    affordable,
)
from atonc.compiler.plan.task import Purpose, TaskGroup
from atonc.compiler.select.enumerate import AS_IT_IS, Deciding, Found, Steps, best, cheapest, enumerated, first, only
from atonc.compiler.select.form import Form, RefusedForm
from atonc.compiler.select.rules import CONV_LINES, CONV_MODE, CONV_PADDING
from atonc.compiler.select.variants import Variant
from atonc.machine.base.reasons import Rule
from atonc.machine.hw.limits import MAX_CHAIN, READ_ALIGNMENT

WIDE = 256  # pixels: narrower pictures fit, whatever else is refused
STRIPS = (2, 3, 4, 6, 8, 12, 16, 24, 32)
ABOUT_LINES = (CONV_PADDING, CONV_LINES)
MANY_TAPS = 16
ON_A_COPY, AS_STORED = Variant("copied without zero"), Variant("stored")
SUBTRACTED, STORED = Variant("zero by units"), Variant("zero in memory")


@recipe("conv", "dense")
def lower_conv(op: Op, context: Context) -> list[TaskGroup]:
    return lower_layer(layer_of(op, context), context)


@recipe("transpose_conv")
def lower_transpose_conv(op: Op, context: Context) -> list[TaskGroup]:
    return lower_layer(as_plain(layer_of(op, context)), context)


def lower_layer(layer: ConvLayer, context: Context) -> list[TaskGroup]:
    """A convolution, or some rows of one."""
    found = enumerated(layer, context, DECISIONS)
    return context.take(found if isinstance(found, RefusedForm) else found.whole)


def as_plain(layer: ConvLayer) -> ConvLayer:
    """Without stride a transposed convolution is a plain one with the kernel turned round; what is cut off from the
    full result is padding that it does not have."""
    reach = [(k - 1) * d for k, d in zip(layer.weights.shape[1:3], layer.dilation, strict=True)]
    top, left = (r - cut for r, cut in zip(reach, layer.padding[:2], strict=True))
    bottom, right = (
        out + r - size - before
        for out, r, size, before in zip(
            (layer.out.height, layer.out.width), reach, (layer.area.height, layer.area.width), (top, left), strict=True
        )
    )
    padding = (top, left, bottom, right)
    if layer.stride != (1, 1) or min(padding) < 0:
        if layer.dilation != (1, 1):
            seen = f"stride {layer.stride} and dilation {layer.dilation}"
            raise Refusal(CONV_MODE, seen, "one of them", "use the CPU")
        return layer
    attrs = {**layer.op.attrs, "padding": padding}
    turned = np.ascontiguousarray(layer.weights[:, ::-1, ::-1])
    return replace(layer, op=replace(layer.op, kind="conv", attrs=attrs), weights=turned, padding=padding)


# ------------------------------------------------------------------------------------------------ sums and features


def room_for_sums(layer: ConvLayer, draft: Context) -> Deciding | None:
    """Where typical inputs would take the sums of every form too far, sums get room for all inputs: the larger shift
    rounds more."""
    if layer.numerics == "2.x" or layer.rounds_as is not None:
        return None
    return first([AS_IT_IS, (With("all_inputs", True),)], blame_last=True)


def signed_features(layer: ConvLayer, draft: Context) -> Deciding | None:
    """Where shifted features have no proven form, a copy with signed ones comes first: an epoch and memory."""
    return first([AS_IT_IS, (SignedCopy(),)], blame_last=True) if layer.features_shifted else None


def last_columns(layer: ConvLayer, draft: Context) -> Deciding | None:
    whole = layer.out.width - layer.out.width % layer.stride[1]
    odd = layer.op.kind == "transpose_conv" and 0 < whole < layer.out.width
    return only((LastColumns(whole),)) if odd else None


def channel_groups(layer: ConvLayer, draft: Context) -> Deciding | None:
    groups = int(layer.op.attrs.get("groups", 1)) if layer.op.kind != "dense" else 1
    return only((ChannelGroups(groups),)) if groups > 1 and not depthwise.is_depthwise(layer) else None


# ---------------------------------------------------------------------------------------------------------- picture


def picture(layer: ConvLayer, draft: Context) -> Deciding | None:
    return _picture(layer, draft) if layer.op.kind == "conv" else None


def _picture(layer: ConvLayer, draft: Context) -> Deciding:
    """As it is; a wide picture in as few strips as it takes, since every strip reads the columns at its edges once
    more; where sums need much memory between passes, in bands of rows if they cost less, and where no memory would do,
    in any case. Engines that must read whole lines come last, on copies."""
    rows: list[Steps | Deciding] = [AS_IT_IS]
    rows += [(Strips(count),) for count in (STRIPS if layer.area.width >= WIDE else ())]
    if layer.numerics == "2.x":
        return (yield from first(rows))
    rows += [(HalfRows(),), (EverySecond(), CopiedRows()), (WhatItSees(), CopiedRows()), _ringed(layer)]
    whole = yield from first(rows)
    if isinstance(whole, RefusedForm) or draft.room.band_bytes <= 0:
        return whole
    if _has_no_place(whole.form, draft) and layer.area.contiguous:
        banded = yield (Bands(-(-layer.area.height * layer.area.line // draft.room.band_bytes), copied=True),)
        return banded if isinstance(banded, Found) else whole
    count = _bands(whole.form, draft)
    banded = (yield (Bands(count, either=_lies_outside(layer, draft)),)) if count > 1 else whole
    if banded is whole or isinstance(banded, RefusedForm):
        return whole
    return best([(Variant("bands"), banded), (Variant("all rows"), whole)])[1]


def _ringed(layer: ConvLayer) -> Deciding:
    if layer.weights.shape[1:3] == (1, 1):
        raise Refusal(CONV_MODE, "a kernel of 1x1", "larger ones", "read it as it is")
    lines = [WITH_A_RING, *([WITH_A_STRIDE] if layer.stride == (2, 2) and layer.dilation == (1, 1) else [])]
    shifts = (False,) if layer.features_shifted else (False, True)
    rows = (Ringed(one, shifted) for one, shifted in product(lines, shifts))
    return (yield from cheapest((row.variant, (row,)) for row in rows))


def _bands(form: Form, draft: Context) -> int:
    """How many keep the sums between passes small enough to lie in the NPU's own RAM beside all else."""
    sums = [b.size_bytes for name, b in form.buffers.items() if name.startswith(BETWEEN_PASSES)]
    return -(-max(sums, default=0) // draft.room.band_bytes)


def _has_no_place(form: Form, draft: Context) -> bool:
    """An engine reads between aligned addresses, which only the NPU's own RAM allows, and that is too small."""
    uses = [use for group in form.groups for task in group.tasks for use in task.engines.values()]
    odd = {use.buffer for use in uses if not use.config.to_memory and use.config.address % READ_ALIGNMENT}
    known = [(form.buffers if name in form.buffers else form.earlier)[name] for name in odd]
    return any(buffer.size_bytes > draft.room.npu_ram_bytes for buffer in known)


def _lies_outside(layer: ConvLayer, draft: Context) -> bool:
    """Features that the NPU's own RAM cannot hold are read once, into a copy, where chains read them several times."""
    return layer.area.height * layer.area.line > draft.room.npu_ram_bytes and layer.area.contiguous


def features_of_bands(subject: ConvLayer | Band, draft: Context) -> Deciding | None:
    if not isinstance(subject, Band):
        return None
    return cheapest([(Variant("stored features"), (OfBand(),)), (Variant("copied rows"), (OfBand(), CopiedRows()))])


# --------------------------------------------------------------------------------------------------------- features


def one_pixel(layer: ConvLayer, draft: Context) -> Deciding | None:
    return only((OnePixel(),)) if is_one_pixel(layer) and not depthwise.is_depthwise(layer) else None


def features(layer: ConvLayer, draft: Context) -> Deciding | None:
    """On a copy without zero point: where it must be, where it pays by tilings and their errors, or where forms tell
    that it does. Some forms were seen with signed features only."""
    needed = _needs_shifting(layer)
    if depthwise.is_depthwise(layer):
        return only((ShiftedCopy(),)) if needed else None
    faster = needed or dense.faster_shifted(layer)
    if faster is True or _worth_shifting(layer) or dense.closer_shifted(layer):
        return first([(ShiftedCopy(),), AS_IT_IS], blame_last=True)
    if faster is None:
        return cheapest([(ON_A_COPY, (ShiftedCopy(),)), (AS_STORED, AS_IT_IS)], blame_last=True)
    return None


def _needs_shifting(layer: ConvLayer) -> bool:
    """Where units may not take the zero point off signed features, and padding leaves nothing to the bias."""
    signed = layer.zero == LOWEST and not layer.features_shifted
    exactly = any(layer.padding) or layer.op.kind == "transpose_conv"
    return signed and exactly and not subtractable(LOWEST, layer.made_for.trust)


def _worth_shifting(layer: ConvLayer) -> bool:
    """A window over many channels is twice as fast without zero point; many channels need fewer, rounded passes."""
    if layer.zero != -128 or layer.features_shifted or not layer.area.contiguous or layer.whole_bytes:
        return False
    if layer.numerics == "2.x":
        return needs_unsigned(layer.form_2x)
    channels, window = layer.area.channels, max(layer.weights.shape[1:3])
    if window > 1 and layer.stride != (1, 1):
        return False  # chains of windows with stride 2 were seen with signed features only
    if window > 1:
        return channels >= WINDOW_CHANNELS and layer.outputs >= WINDOW_OUTPUTS
    return channels > MANY_CHANNELS


# ---------------------------------------------------------------------------------------------------------- padding


def padding(layer: ConvLayer, draft: Context) -> Deciding | None:
    if layer.numerics == "2.x":
        return first(_rows_2x(layer))
    return _padded(layer) if depthwise.is_depthwise(layer) else _bordered(layer, draft)


def _rows_2x(layer: ConvLayer) -> Iterator[Steps]:
    """Ways to compute a convolution with the numbers of ST's releases 2.x. All of them add up the same products before
    they round; they differ in what the units must be able to do: windows of up to six columns or chains of narrower
    ones, padding by the unit or in memory. The first that was seen to work."""
    alone = (layer.out.height, layer.out.width) == (1, 1)
    stride: Steps = (With("stride", (1, 1)),) if alone else ()  # there is no second window
    for cut in (WINDOW, 0):  # in the end what the units can do even if some sums are rounded once more
        some = (*stride, With("cut", cut))
        yield some
        if layer.op.kind == "transpose_conv":
            continue
        if any(layer.padding):
            yield (*some, PaddedCopy(MAX_PADDING))
            yield (*some, PaddedCopy())
            yield (*some, PaddedCopy(), OneMoreRowCopied())
        else:
            yield (*some, OneMoreRowCopied())
            yield (*some, PaddedCopy())  # without padding, lines may still be too short
        if layer.op.kind == "conv":  # published windows of one byte are padded on all sides
            yield (*some, Ringed(WITH_A_RING, False))
            yield (*some, Pairs())


def _padded(layer: ConvLayer) -> Deciding:
    """As it is; where the padding or the lines are refused, tap by tap or on a padded copy: in the order of how much
    more each writes to memory."""
    plain = yield AS_IT_IS
    if isinstance(plain, Found) or not (any(layer.padding) or plain.rule in ABOUT_LINES):
        return plain
    found = yield from first(_other_rows(layer, plain.rule), refused=plain)
    return found.after([plain]) if isinstance(found, Found) else found


def _other_rows(layer: ConvLayer, rule: Rule) -> Iterator[Steps | Deciding]:
    by_taps, taps = (With("by_taps", True),), _most_taps(layer)
    few = taps <= MAX_CHAIN and layer.op.kind != "transpose_conv"  # which has a phase for every remainder and edge
    if few:
        yield by_taps
    yield _better_copy()
    if not few and taps <= MANY_TAPS and rule in ABOUT_LINES:  # other rules may allow a better form of other features
        yield by_taps


def _most_taps(layer: ConvLayer) -> int:
    """Counts the taps of the output that has most; more than any limit where taps cannot go by themselves."""
    try:
        return layer.most_taps()
    except Refusal:
        return MANY_TAPS + 1


def _better_copy() -> Deciding:
    """With the zero point taken off by the units, unless all of the copy as picture is much faster."""
    exact = yield (PaddedCopy(),)
    other = yield (PaddedCopy(), *ALL_PICTURE)
    if isinstance(exact, RefusedForm):
        return other.after([exact]) if isinstance(other, Found) else exact
    if isinstance(other, RefusedForm) or affordable(exact.form.cycles, other.form.cycles):
        return exact
    return other


def _bordered(layer: ConvLayer, draft: Context) -> Deciding:
    """As `_padded` does it, or on a copy with a border where that costs less. A window that nothing is padded for needs
    no border, only the copy as code + 128: chains of signed bytes were not seen."""
    rows = list(_with_a_border(layer))
    if layer.features_shifted and layer.zero and any(layer.padding):  # units pad with zeros
        return (yield from first(rows))
    plain = yield from _padded(layer)
    if "borders" in draft.facts.without:
        return plain
    if layer.rounds_as is not None:  # some rows: with a border where the whole layer has one, since it rounds otherwise
        found = [plain, *([(yield from first(rows))] if _may_have_border(layer) else [])]
        alike = (one for one in found if isinstance(one, Found) and rounds_as_all(one.form, layer))
        return next(alike, plain)
    if isinstance(plain, RefusedForm) or not _may_pay(layer, plain.form):
        return plain
    other = yield from first(rows)
    if isinstance(other, RefusedForm):
        return plain.after([other])
    fits = other.form.scratch_bytes <= draft.facts.free_bytes.get(layer.op.name, 0)
    return best([(SUBTRACTED, plain), (STORED, other)])[1] if fits else plain


def _with_a_border(layer: ConvLayer) -> Iterator[Steps]:
    """With stride 2 a further row and column of padding meet no output. With stride 1 there is one row of results more,
    or, as published units have it, a ring of them: a copy leaves it out."""
    # chains of windows with stride 2 were seen with signed features only, and none whose sums return
    shifted = layer.stride == (1, 1) and not layer.features_shifted
    bordered: Steps = (PaddedCopy(shifted=shifted, purpose=Purpose.BORDER), *ALL_PICTURE)
    if layer.stride == (1, 1):
        yield from ((*bordered, OneMoreRow()), (Ringed(WITH_A_RING, shifted),))
    else:
        yield (*bordered, *([With("sliced", True)] if layer.area.channels > MAX_CHAIN * WINDOW_CHANNELS else []))


def rounds_as_all(form: Form, layer: ConvLayer) -> bool:
    """Some rows are rounded as all are."""
    return layer.rounds_as is not None and agree(form.semantics[layer.op.name], layer.rounds_as)


def _may_pay(layer: ConvLayer, plain: Form) -> bool:
    """Whether half of the cycles could be saved: not where the kernels come from the flash no faster."""
    if layer.whole_bytes or not _may_have_border(layer):
        return False
    return plain.cycles > WORTH_BORDER * layer.made_for.weight_byte_cycles * layer.weights.size


def _may_have_border(layer: ConvLayer) -> bool:
    if layer.op.kind != "conv" or layer.ring is not None or layer.features_shifted or layer.coarse:
        return False
    if layer.weights.shape[1:3] != (3, 3) or layer.dilation != (1, 1) or layer.stride not in ((1, 1), (2, 2)):
        return False
    if layer.zero == 0 if any(layer.padding) else layer.stride == (2, 2):
        return False  # units do it on bytes already
    return layer.outputs >= WINDOW_OUTPUTS


DECISIONS = (
    room_for_sums, signed_features, last_columns, channel_groups, near_sums, picture, features_of_bands, one_pixel,
    features, padding, *depthwise.DECISIONS, *dense.DECISIONS,
)  # fmt: skip
