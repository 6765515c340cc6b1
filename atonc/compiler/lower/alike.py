"""Forms of layers that look alike, whatever they are called. Only for models whose weights are assumed: real weights
decide about forms, so a compilation never shares them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from atonc.compiler.ir import Op
from atonc.compiler.lower.context import Context
from atonc.compiler.lower.conv.lanes import POOLING
from atonc.compiler.plan.aliases import root
from atonc.compiler.plan.task import TaskGroup
from atonc.compiler.select.form import Alternative, Form
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.target import Target

if TYPE_CHECKING:
    from atonc.compiler.lower.map_ops import ReasonedCall

    Lower: TypeAlias = Callable[[Context], Form | ReasonedCall]

MOST_KNOWN = 1 << 12
WEIGHTED = ("conv", "dense", "transpose_conv")  # whose scales are assumed, too


@dataclass(frozen=True, eq=False)
class KnownForm:
    form: Form
    names: tuple[str, ...]  # of what it may touch, as `_neighbours` lists them


class AlikeForms:
    """What was lowered, kept for the next layer and the next graph."""

    def __init__(self) -> None:
        self.known: dict[Hashable, KnownForm] = {}

    def form(self, op: Op, context: Context, lower: Lower) -> Form | ReasonedCall:
        """What a layer like this one has, under the names of this one; if there was none, what `lower` makes. The first
        one gets its form as all others do, so that nothing depends on what was lowered before."""
        key, names = outline(op, context), _neighbours(op, context)
        known = self.known.get(key)
        if known is None:
            lowered = lower(context.copy())  # which keeps what it wrote
            if not isinstance(lowered, Form):
                return lower(context)
            known = self.known[key] = KnownForm(replace(lowered, refused=()), names)
            if len(self.known) > MOST_KNOWN:
                del self.known[next(iter(self.known))]
        found = _renamed(known.form, op, dict(zip(known.names, names, strict=True)), context)
        if found is None:
            return lower(context)
        context.take(found)
        return found


def outline(op: Op, context: Context) -> Hashable:
    """All that its form follows from, but names and values."""
    facts = context.facts
    tensors = tuple(_looks(name, op, context) for name in (*op.inputs, *op.outputs))
    same = tuple(op.inputs.index(name) for name in op.inputs)
    copied = tuple(root(name, context.aliases) in context.shifted_copies for name in op.inputs if name)
    free = facts.free_bytes.get(op.name, 0) if _may_have_border(op, context) else 0
    return op.kind, repr(sorted(op.attrs.items())), tensors, same, copied, free, facts.room, _target(facts.target)


def _looks(name: str, op: Op, context: Context) -> Hashable:
    """What counts of a tensor; nothing of an absent operand."""
    if not name:
        return None
    facts, graph = context.facts, context.graph
    tensor = graph.tensors[name]
    scale = None if op.kind in WEIGHTED else tensor.scale
    readers = (reader for reader in graph.consumers.get(name, ()) if name in op.outputs and _counts(reader))
    edges = name in graph.inputs, name in graph.outputs, tuple(repr(sorted(reader.attrs.items())) for reader in readers)
    memory = name in facts.shifted, name in context.shifted_copies, name in context.aliases
    outside = facts.written_outside(name)
    return tensor.shape, tensor.dtype, tensor.is_constant, tensor.zero_point, scale, edges, memory, outside


def _counts(reader: Op) -> bool:
    """Whether a layer is cut with a look at who reads its results."""
    return reader.kind in POOLING or bool(reader.attrs.get("in_place"))


def _may_have_border(op: Op, context: Context) -> bool:
    """The only layers that ask how much memory is free beside them."""
    return op.kind == "conv" and context.tensor(op.inputs[1]).shape[1:3] == (3, 3)


def _target(target: Target) -> Hashable:
    return target.machine, target.programmed_by, target.trust, target.weights_near, target.ram_scarce


def _neighbours(op: Op, context: Context) -> tuple[str, ...]:
    """Tensors, the buffers that hold them, and copies of them."""
    names = [name for name in (*op.inputs, *op.outputs) if name]
    owners = [root(name, context.aliases) for name in names]
    return (*names, *owners, *(context.shifted_copies.get(name, "") for name in (*names, *owners)))


def _renamed(form: Form, op: Op, names: dict[str, str], context: Context) -> Form | None:
    """All that it touches gets the names of these; what only it has gets new ones, which are added to them."""
    for name in form.buffers:  # constants, and memory of its own
        names.setdefault(name, f"{op.name}#{next(context.names)}")
    touched = (*form.earlier, *form.aliases, *form.aliases.values(), *form.shifted_copies)
    if any(name not in names for name in touched):
        return None
    earlier = [names[name] for name in form.earlier]
    if not context.buffers.keys() >= set(earlier):
        return None
    groups = {id(group): _group(group, names) for group in form.groups}
    return replace(
        form,
        groups=tuple(groups[id(group)] for group in form.groups),
        buffers={
            names[name]: replace(buffer, name=names[name], tensor=names.get(buffer.tensor, ""))
            for name, buffer in form.buffers.items()
        },
        aliases={names[a]: names[b] for a, b in form.aliases.items()},
        shifted_copies={names[a]: names[b] for a, b in form.shifted_copies.items()},
        semantics=dict(zip([op.name], form.semantics.values(), strict=False)),
        earlier={name: context.buffers[name] for name in earlier},
        alternatives=tuple(
            replace(
                one,
                built=None,
                chosen_form=replace(one.chosen_form, groups=tuple(groups[id(g)] for g in one.chosen_form.groups)),
                later=partial(_alternative, one, op, names, context),
            )
            for one in form.alternatives
            if all(id(group) in groups for group in one.chosen_form.groups)
        ),
    )


def _alternative(one: Alternative, op: Op, names: dict[str, str], context: Context) -> Form | None:
    return _renamed(replace(one.form, alternatives=()), op, names, context) if one.form else None


def _group(group: TaskGroup, names: Mapping[str, str]) -> TaskGroup:
    tasks = []
    for task in group.tasks:
        engines = {unit: replace(use, buffer=names[use.buffer]) for unit, use in task.engines.items()}
        tasks.append(replace(task, engines=engines))
    return replace(group, tasks=tuple(tasks))
