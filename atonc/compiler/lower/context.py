"""What a recipe may ask for and what it writes down: buffers, constants, scratch memory, what its epochs compute."""

from __future__ import annotations

import hashlib
from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import replace
from itertools import count
from math import ceil, inf
from typing import Any

from atonc.compiler.ir import Graph, Op, Tensor
from atonc.compiler.lower.facts import Facts
from atonc.compiler.lower.sizes import item_bytes
from atonc.compiler.plan.aliases import root
from atonc.compiler.plan.coarse import CoarseCodes
from atonc.compiler.plan.evidence import untrusted
from atonc.compiler.plan.policy import WIDE_STEP, NpuRamBudget
from atonc.compiler.plan.task import TaskGroup, tasks_of
from atonc.compiler.plan.types import Buffer, BufferKind, taller_buffer
from atonc.compiler.schedule.spacers import spaced
from atonc.compiler.select.form import Alternative, Form, Refusal, RefusedForm, Semantics, without_evidence
from atonc.compiler.select.rules import COARSE

WHOLE_RANGE, WIDE_RANGE = 255.0, 65535.0  # codes of 8 and 16 bits: no two are further apart


def whole_range(tensor: Tensor) -> float:
    return WIDE_RANGE if tensor.dtype == "int16" else WHOLE_RANGE


def error_step(tensor: Tensor) -> int:
    """Codes that weigh as much as one of 8 bits."""
    return WIDE_STEP if tensor.dtype == "int16" else 1


class Context:
    """The network as far as it is lowered, or a draft of what comes next.

    A recipe writes into a draft of its own (`draft`) and may look through it at all that was decided before. What it
    wrote becomes a value, `done`, which the context below takes over or never hears of.
    """

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.names = count(1)  # of scratch memories: each is used once, by forms that are refused too
        self.buffers: MutableMapping[str, Buffer] = {}
        self.aliases: MutableMapping[str, str] = {}  # tensor -> tensor in whose memory it lies
        self.shifted_copies: MutableMapping[str, str] = {}  # buffer -> its copy as code + 128
        self.coarse: Mapping[str, CoarseCodes] = {}  # tensors of 16 bits that are stored on a coarser scale
        self.semantics: MutableMapping[str, Semantics] = {}  # by operator
        self.refused: list[RefusedForm] = []  # forms that were tried
        self.alternatives: list[Alternative] = []  # forms that cost more than the chosen one
        self.before: list[TaskGroup] = []  # what a variant does before its chains
        self.behind: list[TaskGroup] = []  # and behind them, the last first

    def draft(self) -> Context:
        """An empty one above this context."""
        return self._another(_above, lambda known: [])

    def branch(self) -> Context:
        """A draft with the same in it, which goes another way from here."""
        return self._another(_beside, list)

    def copy(self) -> Context:
        """The same, and what is written into it stays there."""
        return self._another(dict, list)

    def _another(self, mapping: Callable[[Any], Any], known: Callable[[list[Any]], list[Any]]) -> Context:
        """With what these make of mappings and of lists."""
        other = object.__new__(Context)
        other.facts, other.names, other.coarse = self.facts, self.names, self.coarse
        other.buffers, other.aliases = mapping(self.buffers), mapping(self.aliases)
        other.shifted_copies, other.semantics = mapping(self.shifted_copies), mapping(self.semantics)
        other.refused, other.alternatives = known(self.refused), known(self.alternatives)
        other.before, other.behind = known(self.before), known(self.behind)
        return other

    def done(self, groups: Iterable[TaskGroup]) -> Form:
        """What was written into a draft, if the forms of its units may be relied on."""
        groups, buffers = tuple(spaced(group, self.facts.target.trust) for group in groups), _own(self.buffers)
        self._require_trusted(groups)
        touched = dict.fromkeys(use.buffer for task in tasks_of(groups) for use in task.engines.values())
        return Form(
            groups,
            self.facts.target,
            buffers,
            aliases=_own(self.aliases),
            shifted_copies=_own(self.shifted_copies),
            semantics=_own(self.semantics),
            refused=tuple(self.refused),
            earlier={name: self.buffers[name] for name in touched if name not in buffers},
            alternatives=tuple(self.alternatives),
        )

    def take(self, form: Form | RefusedForm) -> list[TaskGroup]:
        """The form is chosen: its tasks, and all that belongs to it."""
        if isinstance(form, RefusedForm):
            raise Refusal.of(form)
        self.buffers.update(form.buffers)
        self.aliases.update(form.aliases)
        self.shifted_copies.update(form.shifted_copies)
        self.semantics.update(form.semantics)
        self.refused += form.refused
        self.alternatives += form.alternatives
        return list(form.groups)

    @property
    def graph(self) -> Graph:
        return self.facts.graph

    @property
    def numerics(self) -> str:
        return self.facts.numerics

    @property
    def room(self) -> NpuRamBudget:
        return self.facts.room

    def tensor(self, name: str) -> Tensor:
        return self.graph.tensors[name]

    def buffer(self, name: str) -> str:
        """Names the buffer of a tensor: codes, channel last, without gaps; of a constant if its user was not folded."""
        tensor = self.tensor(name)
        if tensor.data is not None and name not in self.graph.outputs:
            return self.constant(tensor.data.tobytes(), name)
        if name not in self.buffers:
            kind = BufferKind.ACTIVATION
            if name in self.facts.states:
                kind = BufferKind.STATE
            elif name in self.graph.inputs:
                kind = BufferKind.INPUT
            elif name in self.graph.outputs:
                kind = BufferKind.OUTPUT
            size = tensor.elements * item_bytes(tensor)
            offset = 128 if kind == BufferKind.ACTIVATION and name in self.facts.shifted else 0
            self.buffers[name] = Buffer(name, size, kind, name, offset, coarse=self.coarse.get(name))
        return name

    def may_share(self, output: str, source: str) -> bool:
        """Whether two tensors may lie in one memory: not if the application brings two for them, and not if it would
        get the memory of a state, to which the next value is written."""
        if output in self.graph.outputs and self.buffers[root(source, self.aliases)].kind == BufferKind.STATE:
            return False
        edges = {*self.graph.inputs, *self.graph.outputs}
        user_allocated = self.facts.user_allocated
        if not user_allocated or output not in edges:
            return True
        owner = root(source, self.aliases)
        sharing = {name for name in edges if name != output and root(name, self.aliases) == owner}
        return not sharing or not user_allocated & {output, *sharing}

    def alias(self, output: str, source: str) -> None:
        """The output is the same bytes as the source: no movement, one memory."""
        self.buffer(source)
        self.buffer(output)
        self.aliases[output] = source

    def explain(
        self, op: Op, codes: Callable[[Sequence[Any]], Sequence[Any]], error: float = 0.0, room: float = inf
    ) -> None:
        """Says what the epochs of an operator compute (see atonc.compiler.lower.semantics); too far from it is no
        form."""
        self.require_fine(op, error)
        self.semantics[op.name] = Semantics(codes, error, room, error_step(self.tensor(op.outputs[0])))

    def require_fine(self, op: Op, error: float) -> None:
        """`error`: how far an operator may be from exact arithmetic, in codes. ST's numbers are as they are."""
        out = self.tensor(op.outputs[0])
        error, step = min(error, whole_range(out)), error_step(out)
        if error in self.facts.disproved.get(op.name, ()):
            seen = f"{op.kind}: verified to be more than the declared {error:.3g} LSB off"
            raise Refusal(COARSE, seen, f"{error:.3g} LSB", "report the model: the declared error is too small")
        if error <= self.facts.coarse * step or self.numerics == "2.x":
            return
        codes = "LSB (int16)" if step > 1 else "LSB"
        raise Refusal(
            COARSE,
            f"{op.kind}: would be {error:,.3g} {codes} off",
            f"{self.facts.coarse * step:g} {codes}",
            f"check the scales of the layer and of its channels, or accept it: --allow-coarse {ceil(error / step)}",
            ceil(error / step),
        )

    def _require_trusted(self, groups: Iterable[TaskGroup]) -> None:
        """What the finished program is judged by, as far as it is known by now: another form may do without."""
        trust = self.facts.target.trust
        for task in tasks_of(groups):
            found = untrusted(task, trust)
            if found is not None:
                raise Refusal.of(without_evidence(found))

    def constant(self, data: bytes, label: str) -> str:
        """A constant buffer; equal contents share one."""
        return self.keep(constant_buffer(data, label))

    def keep(self, constant: Buffer) -> str:
        if self.facts.target.weights_near and constant.kind == BufferKind.CONSTANT:
            constant = replace(constant, near=True)
        return self.buffers.setdefault(constant.name, constant).name

    def scratch(self, size_bytes: int, label: str) -> str:
        """Memory between the epochs of one operator; it lives from its first to its last use."""
        name = f"{label}#{next(self.names)}"
        self.buffers[name] = Buffer(name, size_bytes, BufferKind.SCRATCH)
        return name

    def taller(self, name: str, more_bytes: int) -> str:
        """The memory of a buffer and some more behind it, for results that nobody reads."""
        taller = taller_buffer(self.buffers[name], more_bytes)
        self.share(taller, name)
        return taller.name

    def share_parts(self, memory: Buffer, parts: Mapping[str, int]) -> None:
        """Buffers in one memory, each from a byte of it on."""
        self.buffers[memory.name] = memory
        for name, start in parts.items():
            self.buffers[name] = replace(self.buffers[name], begins=start)
            self.aliases[name] = memory.name

    def share(self, buffer: Buffer, name: str) -> None:
        """A buffer in the memory of another one, which grows if need be."""
        self.buffers[buffer.name] = buffer
        self.aliases[buffer.name] = name


def constant_buffer(data: bytes, label: str) -> Buffer:
    return Buffer(constant_name(data, label), len(data), BufferKind.CONSTANT, data=data)


def constant_name(data: bytes, label: str) -> str:
    return f"{label}:{hashlib.sha256(data).hexdigest()[:16]}"


def _above(below: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Shows what is below, and takes what is written."""
    return ChainMap({}, *(below.maps if isinstance(below, ChainMap) else (below,)))


def _beside(mapping: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """The same with what was written so far."""
    assert isinstance(mapping, ChainMap), "only drafts branch"
    return ChainMap(dict(mapping.maps[0]), *mapping.maps[1:])


def _own(mapping: MutableMapping[str, Any]) -> Mapping[str, Any]:
    """What was written into it."""
    return dict(mapping.maps[0] if isinstance(mapping, ChainMap) else mapping)
