"""Each operator on the NPU or the CPU, with the reason for everything that stays on the CPU."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property, partial

from atonc.compiler.ir import Op, layer_name
from atonc.compiler.lower import edge_advice
from atonc.compiler.lower.context import Context, error_step
from atonc.compiler.lower.facts import CONVOLUTIONS, Facts
from atonc.compiler.lower.registry import Recipe, recipe_for
from atonc.compiler.lower.same_bits import taking
from atonc.compiler.lower.semantics.error_model import expected_errors, local_error
from atonc.compiler.lower.semantics.run import farthest
from atonc.compiler.lower.sixteen.sums import coarse_tensors
from atonc.compiler.lower.stripes import lower_stripe
from atonc.compiler.ops import kinds
from atonc.compiler.ops.custom import OPERATOR, scratch_name
from atonc.compiler.ops.functions import FUNCTIONS
from atonc.compiler.ops.values import same_codes
from atonc.compiler.plan.policy import MOST_CODES, MOST_SHOWN
from atonc.compiler.plan.task import TaskGroup
from atonc.compiler.plan.types import Buffer, BufferKind, CpuPlan
from atonc.compiler.schedule.types import LoweredOperator
from atonc.compiler.select import rules
from atonc.compiler.select.affinity import NO_AFFINITY, Affinity, chosen_by_user
from atonc.compiler.select.choices import Choices, CpuReason, contests_of
from atonc.compiler.select.decisions import FIRST, Decisions, Stripe
from atonc.compiler.select.enumerate import attempt
from atonc.compiler.select.form import Form, Refusal, RefusedForm
from atonc.machine.base.errors import UnsupportedError
from atonc.machine.base.frozen import brief, dataclass
from atonc.machine.base.progress import stage

RENAMINGS = ("reshape", "squeeze", "expand_dims", "flatten", "identity")


class NeedsWholeCodes(Exception):
    """An operator cannot take or give tensors that are stored on a coarser scale."""

    def __init__(self, tensors: frozenset[str]) -> None:
        super().__init__(", ".join(sorted(tensors)))
        self.tensors = tensors


@dataclass(frozen=True)
class ReasonedCall:
    """An operator that the CPU computes; there is none without a reason."""

    call: CpuPlan
    reason: CpuReason


@dataclass(frozen=True)
class Mapped:
    works: tuple[LoweredOperator, ...]  # one of each operator, in the order of the graph
    context: Context
    reason_of: Mapping[str, CpuReason]  # why an operator is a call of the CPU, one for each that is
    forms: Mapping[str, Form] = field(default_factory=dict)  # of operators on the NPU
    stripes: tuple[Stripe, ...] = ()  # whose bands are computed in turn
    unstriped: Mapping[str, RefusedForm] = field(default_factory=dict)  # why others are not, by first operator
    __repr__ = brief

    @cached_property
    def choices(self) -> Choices:
        forms = self.forms
        return Choices(
            self.reason_of,
            {op: form.refused for op, form in forms.items() if form.refused},
            {op: contests for op, form in forms.items() if (contests := contests_of(form))},
            max((form.error for form in forms.values()), default=0.0),
            expected_errors(self.context.graph, self),
            self.stripes,
            self.unstriped,
        )


def map_ops(
    facts: Facts, decisions: Decisions = FIRST, affinity: Affinity = NO_AFFINITY, known: Mapped | None = None
) -> Mapped:
    """`decisions`: which operators run on the CPU for lack of evidence, and whose rows shall be computed in turn, where
    they can. `known`: the same network with other decisions, whose forms are taken over where nothing changed."""
    fine: frozenset[str] = frozenset()
    while True:
        try:
            return _mapped(facts, decisions, affinity, known, fine)
        except NeedsWholeCodes as needs:  # each time of fewer tensors
            fine |= needs.tensors


def _mapped(
    facts: Facts, decisions: Decisions, affinity: Affinity, known: Mapped | None, fine: frozenset[str]
) -> Mapped:
    """`fine`: tensors of 16 bits that must be stored as they are."""
    graph, context = facts.graph, Context(facts)
    context.coarse = coarse_tensors(context, fine)
    again = _Known(known, facts)
    if known is not None:
        context.names = known.context.names  # scratch memories of both have names of their own
    for name in graph.inputs:
        context.buffer(name)
    for state in graph.states:
        if state.kept:
            context.alias(state.output, state.input)  # written behind all that reads the input (`passes.own_states`)
    works: list[LoweredOperator] = []
    forms: dict[str, Form] = {}
    reasons: dict[str, CpuReason] = {}
    striped = _Striped(decisions.stripes, known)
    for number, op in enumerate(graph.ops):
        stage("mapping operators", number, len(graph.ops))
        context.facts = facts.of(op.name)
        if op.name in striped.begin(graph.ops[number:], context):
            forms[op.name] = striped.forms[op.name]
            works.append(striped.work(op.name))
            continue
        lower = partial(_where_wanted, op, affinity=affinity, avoided=decisions.on_cpu)
        form = again.form(op, context) or (facts.alike.form(op, context, lower) if facts.alike else lower(context))
        if isinstance(form, Form):
            forms[op.name] = form
            works.append(LoweredOperator(op.name, form.groups))
        else:
            reasons[op.name] = form.reason
            works.append(LoweredOperator(op.name, call=form.call))
    context.facts = facts
    for name in graph.outputs:
        context.buffer(name)
    return Mapped(tuple(works), context, reasons, forms, tuple(striped.kept), striped.refused)


class _Known:
    """Forms of the same network that was lowered with other decisions."""

    def __init__(self, known: Mapped | None, facts: Facts) -> None:
        before = known.context.facts if known else facts
        same = before.room == facts.room and before.on_cpu == facts.on_cpu
        self.forms = known.forms if known and same else {}
        self.wanted, self.had = facts.forms, before.forms
        self.near = facts.near_otherwise(before)
        self.disproved = {name for name, errors in facts.disproved.items() if errors != before.disproved.get(name)}
        self.cut = {name for name in (*facts.cuts, *before.cuts) if facts.cuts.get(name) != before.cuts.get(name)}
        if not self.cut.isdisjoint(before.cuts):
            self.forms = {}  # pieces do not tell what they were cut from

    def form(self, op: Op, context: Context) -> Form | None:
        """The form that it had, if all that it needs of earlier operators is there."""
        form, wanted, had = self.forms.get(op.name), self.wanted.get(op.name), self.had.get(op.name)
        if form is not None and wanted != had:
            form = None if had else taking(form, op.name, wanted)
        if op.name in self.disproved or op.name in self.near:
            return None
        if form is None or not context.buffers.keys() >= form.earlier.keys() or not self.cut.isdisjoint(form.buffers):
            return None
        context.take(form)
        return form


class _Striped:
    """The wanted stripes as far as they are lowered."""

    def __init__(self, wanted: Sequence[Stripe], known: Mapped | None) -> None:
        self.known = known
        self.wanted = {stripe.ops[0]: stripe for stripe in wanted}
        self.kept: list[Stripe] = []
        self.forms: dict[str, Form] = {}
        self.refused: dict[str, RefusedForm] = {}

    def begin(self, ops: Sequence[Op], context: Context) -> Collection[str]:
        """Lowers all operators of the stripe that begins with the first of these; all that were ever lowered so."""
        stripe = self.wanted.get(ops[0].name)
        if stripe is None:
            return self.forms
        found = self._again(stripe, context) or lower_stripe(ops[: len(stripe.ops)], stripe.bands, context)
        if isinstance(found, RefusedForm):
            self.refused[stripe.ops[0]] = found
            return self.forms
        for form in found:
            context.take(form)
        self.kept.append(stripe)
        self.forms |= dict(zip(stripe.ops, found, strict=True))
        return self.forms

    def _again(self, stripe: Stripe, context: Context) -> list[Form] | None:
        if self.known is None or stripe not in self.known.stripes:
            return None
        if not context.facts.near_otherwise(self.known.context.facts).isdisjoint(stripe.ops):
            return None
        forms = [self.known.forms[op] for op in stripe.ops]
        there = {*context.buffers, *(name for form in forms for name in form.buffers)}
        return forms if all(there >= form.earlier.keys() for form in forms) else None

    def work(self, op: str) -> LoweredOperator:
        number = next(k for k, stripe in enumerate(self.kept, 1) if op in stripe.ops)
        return LoweredOperator(op, self.forms[op].groups, stripe=number)


def _where_wanted(
    op: Op, context: Context, affinity: Affinity, avoided: Mapping[str, RefusedForm]
) -> Form | ReasonedCall:
    if op.name in affinity.on_cpu:
        return _on_cpu(op, context, chosen_by_user())
    refusal = avoided.get(op.name)
    form = _on_cpu(op, context, refusal) if refusal else _lower(op, context)
    if isinstance(form, ReasonedCall) and op.name in affinity.on_npu:
        reason = form.reason
        raise UnsupportedError(
            f"{op.kind} cannot run on the NPU: {reason.seen} (limit: {reason.limit})",
            where=reason.node,
            rule=reason.rule.id,
            remedy=f"{reason.remedy}, or leave out --on npu for this node",
        )
    return form


def _lower(op: Op, context: Context) -> Form | ReasonedCall:
    wide = _on_wide_codes(op, context)
    recipe = recipe_for(op.kind, wide)
    if recipe is None or not (wide or _on_codes(op, context) or _is_renaming(op, context)):
        return _on_cpu(op, context, _by_nature(op, context, recipe_for(op.kind) is not None, wide))
    form = attempt(context, partial(_fine, op, recipe))
    if isinstance(form, RefusedForm) and context.facts.target.trust.unproven:
        form = attempt(context, partial(_unproven, op, recipe))
    theory = op.kind in CONVOLUTIONS and context.numerics == "best" and op.name not in context.facts.disproved
    if isinstance(form, RefusedForm) and theory:
        shown = attempt(context, partial(_shown_fine, op, recipe, form))
        form = shown if isinstance(shown, Form) else form
    if isinstance(form, RefusedForm):
        return _on_cpu(op, context, form)
    form = taking(form, op.name, context.facts.forms.get(op.name))
    context.take(form)
    return form


def _fine(op: Op, recipe: Recipe, context: Context) -> list[TaskGroup]:
    """What a recipe makes of an operator; moves explain nothing, and the line that requantises them may be coarse."""
    groups = recipe(op, context)
    context.require_fine(op, local_error(op, context, context.semantics.get(op.name)))
    return groups


def _unproven(op: Op, recipe: Recipe, context: Context) -> list[TaskGroup]:
    context.facts = context.facts.any_evidence
    return _fine(op, recipe, context)


def _shown_fine(op: Op, recipe: Recipe, refused: RefusedForm, context: Context) -> list[TaskGroup]:
    """Channels whose scales are degenerate may be far off in theory and hardly ever are. A form that is right in many
    values, of typical inputs and of codes at random, is taken; verification holds it to that. Sums that need more than
    16 bits on their way may be one code of 8 bits off."""
    context.facts = context.facts.any_error
    groups = recipe(op, context)
    step = error_step(context.tensor(op.outputs[0]))
    meaning, most = context.semantics[op.name], float(MOST_SHOWN) if step > 1 else MOST_CODES
    if farthest(context, op) > most:
        raise Refusal.of(refused)
    context.semantics[op.name] = replace(meaning, error=min(meaning.error, most))
    context.refused.append(refused)
    return groups


def _by_nature(op: Op, context: Context, has_recipe: bool, wide: bool) -> RefusedForm:
    possible = has_recipe or op.kind in (*FUNCTIONS, "table")  # on codes of 8 bits they are tables
    other = rules.NO_WIDE_FORM if wide else rules.NOT_CODES
    rule = rules.BY_NATURE.get(op.kind) or (other if possible else rules.NO_RECIPE)
    seen = f"{op.kind}, {', '.join(_flowing(op, context))} values"
    return RefusedForm(rule, seen, rule.limit, edge_advice.remedy(op, context.graph, rule.remedy))


def _flowing(op: Op, context: Context) -> dict[str, None]:
    """The types of all values that are no constants, in their order."""
    tensors = (context.tensor(n) for n in (*op.inputs, *op.outputs) if n)
    return dict.fromkeys(tensor.dtype for tensor in tensors if not tensor.is_constant)


def _on_codes(op: Op, context: Context) -> bool:
    """Whether all values that flow are bytes."""
    return _flowing(op, context).keys() <= {"int8", "uint8"}


def _on_wide_codes(op: Op, context: Context) -> bool:
    """Whether codes of 16 bits flow, alone or beside bytes. Renamings need not know."""
    return "int16" in _flowing(op, context).keys() <= {"int8", "int16"} and not _is_renaming(op, context)


def _is_renaming(op: Op, context: Context) -> bool:
    """A reshape moves nothing, whatever its elements are: one memory under two names."""
    if op.kind not in RENAMINGS or "clip" in op.attrs:
        return False
    source, target = context.tensor(op.inputs[0]), context.tensor(op.outputs[0])
    return not source.is_constant and source.dtype == target.dtype and same_codes(source, target)


def _on_cpu(op: Op, context: Context, refusal: RefusedForm) -> ReasonedCall:
    node = layer_name(op)
    if coarse := context.coarse.keys() & {*op.inputs, *op.outputs}:
        raise NeedsWholeCodes(frozenset(coarse))
    if op.kind not in kinds():
        raise UnsupportedError(
            f"operator {op.kind} is not supported",
            where=node,
            rule=refusal.rule.id,
            remedy="remove or replace the node",
        )
    for name in (*op.inputs, *op.outputs):
        if name and not context.tensor(name).is_constant and context.tensor(name).dtype == "float16":
            raise UnsupportedError(
                f"{op.kind}: {name} has elements of type float16",
                where=node,
                rule="what runs on the CPU needs a kernel, and those know float32 and float64",
                remedy="export the model with float32 inputs and outputs, or quantise what is float16",
            )
    inputs = tuple(context.buffer(n) for n in op.inputs if n and not context.tensor(n).is_constant)
    outputs = tuple(context.buffer(n) for n in op.outputs)
    if op.kind == "custom" and (size := op.attrs[OPERATOR].scratch_bytes):
        scratch = context.keep(Buffer(scratch_name(op), size, BufferKind.SCRATCH))
        outputs += (scratch,)
    call = CpuPlan(op.origin or (op.name,), f"{op.kind} {op.name}", op.name, inputs, outputs)
    why = refusal.rule, refusal.seen, refusal.limit, refusal.remedy, refusal.needs
    return ReasonedCall(call, CpuReason(node, op.kind, *why))
