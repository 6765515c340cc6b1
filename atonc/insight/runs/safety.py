"""The safety rules applied to runs and to program files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from atonc.insight.runs.programs import NamedProgram
from atonc.insight.runs.runs import RunResult
from atonc.machine.base.reasons import Violation
from atonc.machine.hw.limits import PREFETCH_BYTES

if TYPE_CHECKING:
    from atonc.machine.emu.files.types import CompiledNetwork
    from atonc.machine.hw.safety import SafetyContext


def check_run(result: RunResult) -> list[Violation]:
    """Checks the steps of a run, with the memories of its network."""
    from atonc.machine.hw import safety

    epochs = [step.epoch for step in result.steps if step.epoch is not None and not step.epoch.empty]
    return safety.check_program(epochs, network_context(result.net.network))


def network_context(network: CompiledNetwork) -> SafetyContext:
    """Pools only: the tables list parts of tensors as buffers, and writers of whole tensors start in them. A build of
    ours keeps what its board had answered."""
    from atonc.machine.hw.safety import CheckedPool, PoolKind, SafetyContext, pool
    from atonc.machine.hw.safety.evidence import Trust
    from atonc.machine.hw.safety.evidence.board_file import saved_evidence

    pools = [pool(p.name, p.base, p.size_bytes, p.writable) for p in network.pools if p.size_bytes]
    pools += [
        CheckedPool(u.symbol, u.address, u.size_bytes + PREFETCH_BYTES, PoolKind.USER) for u in network.user_buffers
    ]
    answers = saved_evidence(network.directory / f"{network.stem}_program.json")
    return SafetyContext(tuple(pools), trust=Trust(board=answers))


def check_programs(programs: Sequence[NamedProgram]) -> list[Violation]:
    from atonc.machine.hw import safety

    return [v for p in programs for v in safety.check_program([e for e in p.epochs() if not e.empty])]
