"""One convolution in several epochs, some of its kernels each: so that those of the first can be fetched ahead, where
the time before or the RAM does not suffice for all. Every piece keeps the rule of the chain that it is cut from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from math import gcd

from atonc.compiler.lower.context import Context
from atonc.compiler.lower.conv.dense_chain import Sets, kernel_stream
from atonc.compiler.lower.conv.lanes import ChainJob, Drawn, LanePiece, build
from atonc.compiler.lower.conv.layer import ConvLayer
from atonc.compiler.plan.task import TaskGroup
from atonc.compiler.select.choose import attempt
from atonc.compiler.select.form import RefusedForm
from atonc.machine.hw.limits import ALIGNED, BUS_BYTES


def in_turn(layer: ConvLayer, context: Context, jobs: Sequence[ChainJob]) -> list[TaskGroup]:
    """The tasks of all jobs one after the other, kernels cut where the facts say; none where they say nothing."""
    if not context.facts.cuts:
        return []
    pieces = [piece for job in jobs for piece in _pieces(layer, context, job)]
    if len(pieces) == len(jobs):
        return []
    form = attempt(context, partial(build, layer, [[piece] for piece in pieces], Drawn()))
    return [] if isinstance(form, RefusedForm) else context.take(form)


def _pieces(layer: ConvLayer, context: Context, job: ChainJob) -> list[LanePiece]:
    """Cut at the last sets of kernels before these bytes whose channels begin at whole words."""
    stream = kernel_stream(Sets(job.parts, job.tiling, job.first, job.sets))
    cuts = context.facts.cuts.get(stream.name, ())
    aligned = ALIGNED if layer.large else BUS_BYTES
    step = aligned // gcd(aligned, job.tiling.kernels)
    before = {cut * job.sets // stream.size_bytes // step * step for cut in cuts}
    starts = [0, *sorted(start for start in before if 0 < start < job.sets)]
    ends = [*starts[1:], job.sets]
    return [replace(job.whole, first=a, sets=b - a) for a, b in zip(starts, ends, strict=True)]
