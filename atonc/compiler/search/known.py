"""The network that this process compiled last. Who compiles it again with other wishes, in Python, for a page or in a
sweep, gets the forms that do not depend on what changed. The result is the same; one network is kept, not more."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from copy import copy
from dataclasses import field, fields, replace
from typing import TYPE_CHECKING

from atonc.compiler.ir import Array, Graph
from atonc.compiler.ir.text import dump
from atonc.compiler.select.affinity import Affinity
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.target import Target

if TYPE_CHECKING:
    from atonc.compiler.lower.facts import Facts
    from atonc.compiler.lower.map_ops import Mapped

Key = tuple[object, ...]


@dataclass(frozen=True, eq=False)
class _Network:
    graph: Graph
    text: str
    lowered: list[tuple[Key, Mapped]] = field(default_factory=list)
    typical: list[Mapping[str, Array]] = field(default_factory=list)


_last: _Network | None = None


def known_graph(graph: Graph) -> Graph:
    """The graph of last time, if this one says the same."""
    global _last
    text = dump(graph) + repr((graph.aliases, graph.turned, graph.states, graph.notes, [op.origin for op in graph.ops]))
    if _last is None or _last.text != text:
        _last = _Network(graph, text)
    return _last.graph


def known_runs(graph: Graph, run: Callable[[], list[Mapping[str, Array]]]) -> list[Mapping[str, Array]]:
    """Values for typical inputs, worked out the first time: an option that changes forms asks for the same ones."""
    kept = _last.typical if _last is not None and _last.graph is graph else []
    kept.extend(() if kept else run())
    return kept


def known_forms(facts: Facts, affinity: Affinity, lower: Callable[[], Mapped]) -> Mapped:
    """Lowers the first time. What is kept is a copy, and scratch memories are counted from where they were then."""
    kept = _last.lowered if _last is not None and _last.graph is facts.graph else []
    key = (affinity, *_values(facts.target), *_values(facts, "graph", "calibrate", "target"))
    for other, mapped in kept:
        if other == key:
            return _own(mapped)
    mapped = lower()
    kept.append((key, _own(mapped)))
    return mapped


def _values(one: Facts | Target, *but: str) -> Iterator[object]:
    return (getattr(one, member.name) for member in fields(one) if member.name not in but)


def _own(mapped: Mapped) -> Mapped:
    context = mapped.context.copy()
    context.names = copy(context.names)
    return replace(mapped, context=context)
