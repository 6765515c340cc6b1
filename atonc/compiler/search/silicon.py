"""The gate of safety rules and of `--silicon`: what breaks a rule, and operators whose epochs have a form without
enough evidence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from atonc.compiler.emit.contexts import safety_contexts
from atonc.compiler.emit.program import Program
from atonc.compiler.schedule.shares import Share
from atonc.compiler.select.form import RefusedForm, without_evidence
from atonc.compiler.select.rules import NO_EVIDENCE
from atonc.machine.base.errors import InputError, InternalError, ToolError
from atonc.machine.base.reasons import Severity, Violation
from atonc.machine.hw import safety
from atonc.machine.hw.decode import decode_epochs
from atonc.machine.hw.ec import ec_program
from atonc.machine.hw.mpool import MemoryPool
from atonc.machine.hw.safety.evidence import PUBLISHED, EpochGrade, GradedForm, Trust
from atonc.machine.hw.safety.evidence.unit_features import DECIPHERS
from atonc.machine.hw.units.stream_engine import CIPHER

_CIPHER_SEEN = (f"STRENG.{CIPHER[0]} = {CIPHER[1]:#x}", str(DECIPHERS))  # as the rules say it: U01, E01


def inspect(
    program: Program, pools: Iterable[MemoryPool], trust: Trust = PUBLISHED, by_controller: bool = True
) -> safety.Inspection:
    """The program as the chip would read it, against the safety rules and the evidence. Only what the epoch controller
    reads has words."""
    decoded = [e for e in decode_epochs(ec_program.program(program.epochs)) if not e.empty]
    decoded = decoded if by_controller else [ec_program.of_length(e, 0) for e in decoded]
    return safety.inspect(decoded, safety_contexts(program, pools, trust))


def require_safe(found: safety.Inspection, trust: Trust) -> tuple[Violation, ...]:
    """What breaks a rule is never given out; what is worth knowing of the rest."""
    serious = tuple(v for v in found.violations if v.severity != Severity.NOTE)
    unproven = () if trust.unproven else [v for v in serious if v.severity != Severity.VIOLATION]
    bad = [v for v in serious if v.severity == Severity.VIOLATION]
    bad += [v for v in unproven if v.seen not in map(str, trust.asked)]
    if bad:
        first = bad[0]
        raise InternalError(
            f"{len(bad)} findings of the safety rules, first {first.rule.id}: {first.seen}",
            where=first.where,
            rule=first.rule.sentence,
            remedy="report the model: the compiler must not produce this",
        )
    return serious


def require_only_cipher(
    plain: safety.Inspection, ciphered: Program, pools: Iterable[MemoryPool], trust: Trust
) -> None:
    """A program that deciphers breaks no rule but those that say that nobody has seen it."""
    if DECIPHERS in trust.board.refuted:
        raise InputError(
            "your board does not read back what it enciphered",
            where="--encrypt-weights",
            rule="a configuration that your board refuted is not used",
            remedy="leave out --encrypt-weights; or --evidence, if its answer was a mistake",
        )
    known = {(v.rule.id, v.where, v.seen) for v in plain.violations}
    for found in inspect(ciphered, pools, trust).violations:
        if found.seen not in _CIPHER_SEEN and (found.rule.id, found.where, found.seen) not in known:
            raise InternalError(
                f"with the cipher on, {found.rule.id}: {found.seen}", where=found.where, remedy="report the model"
            )


def refused(
    grades: Iterable[EpochGrade], program: Program, shares: Sequence[Sequence[Share]], trust: Trust
) -> dict[str, RefusedForm]:
    """By operator, the first form of its epochs that the user does not trust."""
    own = {step.number: some for step, some in zip(program.steps, shares, strict=True)}
    found: dict[str, RefusedForm] = {}
    for epoch in grades:
        for form in epoch.forms if not trust.unproven else ():
            if not trust.allows(form.graded):
                found.setdefault(_owner(form, own[epoch.number]), without_evidence(form.graded))
    return found


def _owner(form: GradedForm, shares: Sequence[Share]) -> str:
    """The operator whose unit has the form; the first of those that share the epoch, if it is about all of it."""
    return next((share.op for share in shares if form.unit in share.units), shares[0].op)


def no_end(refused: Mapping[str, RefusedForm]) -> ToolError:
    """Operators went to the CPU round by round, and there was always another one."""
    name, first = next(iter(refused.items()))
    return ToolError(
        f"some epochs stay outside of ST programs, first: {first.seen} ({first.limit})",
        where=name,
        rule=NO_EVIDENCE.sentence,
        remedy="report the model; --allow-unproven compiles it anyway",
    )
