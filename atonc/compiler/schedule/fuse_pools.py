"""Windows of a pooling behind the tasks that write the picture: conv > ARITH > ACTIV > POOL in one epoch."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import product

from atonc.compiler.plan.flow import EachWindow, Unfollowing
from atonc.compiler.plan.longer import IDENTITY, MOST_SPACERS, UNCHANGED, alike, follow, on_frames, sender
from atonc.compiler.plan.streams import Frames, engine
from atonc.compiler.plan.task import EngineUse, Task
from atonc.compiler.schedule.fuse_consumer import Follower, after_frames
from atonc.compiler.schedule.merging import (
    NO_CHAIN,
    TOO_MANY,
    MergeCandidate,
    MergeNetwork,
    MergeState,
    Place,
    fits,
    is_chainable,
    missing_evidence,
    only_writer,
)
from atonc.compiler.schedule.types import Apart


def after_pools(state: MergeState, place: Place, flow: EachWindow) -> Iterator[MergeCandidate | Apart]:
    return after_frames(state, place, Follower(partial(_chain, state.network, flow), ends=True))


def never_behind(state: MergeState, place: Place, flow: Unfollowing) -> Iterator[Apart]:
    """Said of the first group of an operator."""
    source = state.group(place).tasks[0].readers()[0].buffer
    producers = state.writers[state.network.root(source)]
    if not place[1] and is_chainable(state, source, producers, place):
        yield Apart(state.works[min(producers)[0]].op, state.works[place[0]].op, NO_CHAIN, flow.why)


def _chain(network: MergeNetwork, flow: EachWindow, work: Task, task: Task, keep: bool) -> Task | str:
    """The longer task, or what of it has no evidence. Nearly all published chains have an ACTIV in front of the POOL,
    so one that changes nothing stands there where the work has none."""
    (source,), (target,) = work.readers(), work.writers()
    writer = only_writer(task, network.root(source.buffer), network)
    if not writer:
        return "several writers or a gate in front of one"
    lines = task.engines[writer].scan.line_frames(flow.picture)
    if lines is None:
        return "pixels in another order than line by line"
    if not flow.takes(lines):
        return f"windows across the edge of {lines.lines} lines from {lines.first} on, or pixels that none sees"
    area, streams = flow.result_of(lines), {source.buffer: sender(task, writer)}
    looped = lines.frames > 1 and not area.contiguous  # as a convolution writes groups of channels
    result = EngineUse(target.buffer, engine(area, Frames(lines.frames, lines.step), write=True, looped=looped))
    sized = on_frames(work, lines.lines, flow.picture.width, lines.depth)
    seen = ""
    for ariths, activs, turns in product(range(MOST_SPACERS + 1), (1, 0), (False, True)):
        between = (*[IDENTITY] * ariths, *[UNCHANGED] * activs)
        chained = follow(task, writer, between, sized, streams, alike(result, target.buffer, turns), keep)
        if not fits(chained):
            continue
        missing = missing_evidence(chained, network.trust)
        if not missing:
            return chained
        seen = seen or missing
    return seen or TOO_MANY
