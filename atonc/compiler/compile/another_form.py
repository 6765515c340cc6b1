"""What is decided after a verification that failed because a form is coarser than it declares: another form, and in the
end the CPU. A program that does not do what it means is no such case: it stays an error."""

from __future__ import annotations

from atonc.compiler.select.decisions import Decisions
from atonc.compiler.select.form import RefusedForm
from atonc.compiler.select.rules import COARSE
from atonc.compiler.verify.coarser import CoarserThanDeclared
from atonc.machine.base.errors import VerificationError


def after_failure(decisions: Decisions, error: VerificationError) -> Decisions:
    """Raises the error where no other form would help. Forms of an operator are told apart by what they declare: each
    is disproved once, then there is none left."""
    if not isinstance(error, CoarserThanDeclared):
        raise error
    layer = error.layer
    known, stripes = decisions.disproved.get(layer.op, ()), decisions.without_stripes_of({layer.op})
    if layer.declared not in known:
        return decisions.but(disproved={**decisions.disproved, layer.op: (*known, layer.declared)}, stripes=stripes)
    seen = f"{layer.kind}: {layer.max_diff:g} codes from exact arithmetic when it was verified"
    why = RefusedForm(COARSE, seen, f"{layer.limit:g} codes", "report the model: the form declares too little")
    return decisions.but(on_cpu={**decisions.on_cpu, layer.op: why}, stripes=stripes)
