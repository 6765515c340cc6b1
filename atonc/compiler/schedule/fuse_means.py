"""Means of whole pictures behind the tasks that write the pictures: conv > ARITH > POOL > ARITH in one epoch."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import product

from atonc.compiler.plan.flow import EachChannel
from atonc.compiler.plan.longer import IDENTITY, MOST_SPACERS, follow, inserted, on_frames, sender
from atonc.compiler.plan.streams import contiguous
from atonc.compiler.plan.task import EngineUse, Task
from atonc.compiler.schedule.fuse_consumer import Follower, after_frames
from atonc.compiler.schedule.merging import (
    TOO_MANY,
    MergeCandidate,
    MergeNetwork,
    MergeState,
    Place,
    fits,
    missing_evidence,
    only_writer,
)
from atonc.compiler.schedule.types import Apart


def after_means(state: MergeState, place: Place, flow: EachChannel) -> Iterator[MergeCandidate | Apart]:
    return after_frames(state, place, Follower(partial(_chain, state.network, flow), tiny=True))


def _chain(network: MergeNetwork, flow: EachChannel, work: Task, task: Task, keep: bool) -> Task | str:
    """The longer task, or what of it has no evidence."""
    (source,), (target,) = work.readers(), work.writers()
    last = next(name for name, use in work.engines.items() if use.writes)
    writer = only_writer(task, network.root(source.buffer), network)
    if not writer:
        return "several writers or a gate in front of one"
    lines = task.engines[writer].scan.line_frames(flow.picture)
    if lines is None or not flow.takes(lines):
        return "frames that are not whole images"
    streams = {source.buffer: sender(task, writer)}
    result = EngineUse(target.buffer, contiguous(lines.frames * lines.depth, write=True, offset=lines.channel))
    frames = dict.fromkeys((flow.frame, (flow.picture.height, flow.picture.width)))
    seen = ""
    for before, after, (height, width) in product(range(MOST_SPACERS + 1), (0, 1), frames):
        sized = on_frames(inserted(work, last, [IDENTITY] * after), height, width, lines.depth)
        chained = follow(task, writer, [IDENTITY] * before, sized, streams, result, keep)
        seen = missing_evidence(chained, network.trust) if fits(chained) else TOO_MANY
        if not seen:
            return chained
    return seen
