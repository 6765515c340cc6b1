"""Buffers in which engines start between aligned addresses need the NPU's own RAM. Where that is too small for all of
them, smaller and smaller layers start their engines at aligned addresses only, which is slower."""

from __future__ import annotations

from collections.abc import Iterator

from atonc.compiler.place.explain import NPU_RAM
from atonc.compiler.plan.policy import HUGE_SHARES
from atonc.compiler.search.candidate import Candidate
from atonc.compiler.search.log import Proposal


def propose(candidate: Candidate) -> Iterator[Proposal]:
    decisions, shortage = candidate.decisions, candidate.shortage
    if not candidate.mapped.context.room.other_ram:
        return
    tighter = [share for share in HUGE_SHARES if share < decisions.huge_share]
    if candidate.chained or shortage is None or shortage.shortage.memory != NPU_RAM or not tighter:
        return
    reason = f"no room in the NPU's own RAM: layers above {float(tighter[0]):.0%} of it use any memory"
    yield Proposal(decisions.but(huge_share=tighter[0], fused=True), reason, candidate)
