"""Rewriting a graph operator by operator.

A rule sees every operator in order, with its inputs already redirected, and returns what takes its place: None keeps
it, a list replaces it; what the rule appends itself stands before that. What nobody reads any more is gone at the end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import wraps
from itertools import chain
from operator import is_
from typing import Any

from atonc.compiler.ir import Array, Graph, Op, Quantisation, Tensor, check
from atonc.compiler.ops.values import Arg, Real, same_codes
from atonc.machine.base.frozen import replace

Rule = Callable[[Op, "Editor"], Sequence[Op] | None]
Pass = Callable[[Graph], Graph]


class Editor:
    """The graph while it is being rewritten: operators so far, and where values moved to."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.tensors = dict(graph.tensors)
        self.ops: list[Op] = []
        self.outputs = set(graph.outputs)
        self.moved: dict[str, str] = {}
        self.readers = Counter(chain.from_iterable(op.inputs for op in graph.ops))
        self.readers.update(graph.outputs)
        self.readers.pop("", None)
        self._index: dict[str, int] = {}
        self._made: dict[tuple[str, str], str] = {}

    # --- looking -------------------------------------------------------------------------------------------------

    def tensor(self, name: str) -> Tensor:
        return self.tensors[name]

    def tensors_of(self, names: Sequence[str]) -> list[Tensor]:
        return [self.tensors[name] for name in names if name]

    def producer(self, name: str) -> Op | None:
        """The operator that writes this tensor, among those already passed."""
        index = self._index.get(name)
        return None if index is None else self.ops[index]

    def read_once(self, name: str) -> bool:
        """True if exactly one operator reads the tensor and it is no output of the graph."""
        return self.readers[name] == 1 and name not in self.outputs

    def current(self, op: Op) -> Op:
        if not self.moved:
            return op
        inputs = tuple(self.resolve(name) for name in op.inputs)
        return op if inputs == op.inputs else replace(op, inputs=inputs)

    def resolve(self, name: str) -> str:
        while name in self.moved:
            name = self.moved[name]
        return name

    # --- changing ------------------------------------------------------------------------------------------------

    def append(self, op: Op) -> None:
        for name in op.outputs:
            self._index[name] = len(self.ops)
        self.ops.append(op)

    def add(self, tensor: Tensor) -> str:
        """Adds a tensor under its name, or under the next free one."""
        name, number = tensor.name, 1
        while name in self.tensors:
            number += 1
            name = f"{tensor.name}.{number}"
        self.tensors[name] = tensor if name == tensor.name else replace(tensor, name=name)
        return name

    def like(self, name: str, suffix: str, **changes: Any) -> str:
        """A new tensor that differs from another in what is said."""
        return self.add(replace(self.tensors[name], name=f"{name}:{suffix}", data=None, **changes))

    def constant(self, name: str, data: Array, quant: Quantisation | None = None, dtype: str = "") -> str:
        return self.add(Tensor(name, tuple(data.shape), dtype or data.dtype.name, quant, data))

    def once(self, name: str, suffix: str, make: Callable[[], str]) -> str:
        """A tensor derived from another, made at the first request only."""
        if (name, suffix) not in self._made:
            self._made[name, suffix] = make()
        return self._made[name, suffix]

    def derived(self, source: str, tensor: Tensor, kind: str, name: str, origin: tuple[str, ...]) -> str:
        """A tensor that an operator makes of another, in front of what the rule returns; made once. An
        operator without a name has that of the tensor."""

        def make() -> str:
            made = self.add(replace(tensor, data=None))
            self.append(Op(kind, name or made, (source,), (made,), {}, origin))
            return made

        return self.once(source, f"{tensor.name} {tensor.shape}", make)

    def replace_op(self, old: Op, new: Op) -> None:
        """Puts an operator in the place of one that was already passed."""
        index = self._index[old.outputs[0]]
        self.ops[index] = new
        for name in new.outputs:
            self._index[name] = index

    def redirect(self, old: str, new: str) -> bool:
        """Readers of `old` read `new` from now on. False if a name of the outside world stands in the way."""
        if old in self.outputs:
            return self._rename(new, old)
        self.readers[new] += self.readers[old] - 1
        self.moved[old] = new
        return True

    def _rename(self, inner: str, output: str) -> bool:
        """The producer of `inner` writes the graph output itself; formats must be the same."""
        if inner not in self._index or inner in self.outputs or inner in self.graph.inputs:
            return False
        if self.tensors[inner].shape != self.tensors[output].shape:
            return False
        self.tensors[output] = replace(self.tensors[inner], name=output)
        self.ops = list(renamed(self.ops, {inner: output}))
        self._index[output] = self._index[inner]
        self.readers[output] += self.readers[inner] - 1
        self.moved[inner] = output
        return True

    def finish(self) -> Graph:
        before = self.graph
        if before.is_tidy and _same(self.ops, before.ops) and _same(self.tensors.values(), before.tensors.values()):
            return before
        needed, kept = set(self.graph.outputs), []
        for op in reversed(self.ops):
            if any(name in needed for name in op.outputs):
                kept.append(op)
                needed.update(name for name in op.inputs if name)
        kept.reverse()
        needed.update(name for op in kept for name in op.outputs)
        needed.update(self.graph.inputs)
        tensors = {name: tensor for name, tensor in self.tensors.items() if name in needed}
        return check(replace(self.graph, tensors=tensors, ops=tuple(kept)), self.graph.tensors)


def _same(some: Collection[object], others: Collection[object]) -> bool:
    return len(some) == len(others) and all(map(is_, some, others))


def renamed(ops: Iterable[Op], names: Mapping[str, str]) -> tuple[Op, ...]:
    """Operators that read and write the same tensors under other names."""

    def new(listed: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(names.get(name, name) for name in listed)

    return tuple(
        op if names.keys().isdisjoint((*op.inputs, *op.outputs))
        else replace(op, inputs=new(op.inputs), outputs=new(op.outputs))
        for op in ops
    )  # fmt: skip


def rewrite(graph: Graph, rule: Rule) -> Graph:
    editor = Editor(graph)
    for op in graph.ops:
        op = editor.current(op)
        made = rule(op, editor)
        for new in (op,) if made is None else made:
            editor.append(new)
    return editor.finish()


def rewrites(rule: Rule) -> Pass:
    """A pass of the rule for an operator."""

    @wraps(rule)
    def run(graph: Graph) -> Graph:
        return rewrite(graph, rule)

    return run


def with_attrs(op: Op, removed: Sequence[str] = (), **changed: Any) -> Op:
    attrs: Mapping[str, Any] = {k: v for k, v in op.attrs.items() if k not in removed} | changed
    return replace(op, attrs=attrs)


def is_int8(tensor: Tensor) -> bool:
    return tensor.dtype == "int8" and tensor.quant is not None and tensor.quant.is_per_tensor


def same_format(x: Tensor, y: Tensor) -> bool:
    """True if values move from one to the other as they are."""
    return x.dtype == y.dtype and same_codes(x, y)


def real_data(tensor: Tensor) -> Real:
    """The values of a constant as real numbers."""
    if tensor.data is None:
        raise ValueError(tensor.name)
    return Arg(tensor, tensor.data).real


def real_value(tensor: Tensor) -> float | None:
    """The real number in a constant of one element."""
    if tensor.data is None or tensor.elements != 1:
        return None
    return (float(tensor.data.reshape(-1)[0]) - tensor.zero_point) * tensor.scale
