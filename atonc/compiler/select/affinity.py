"""Where the user wants nodes to run, in terms of the operators that are left after simplification."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from atonc.compiler.ir import Graph, Op
from atonc.compiler.select.form import RefusedForm
from atonc.compiler.select.rules import ASKED
from atonc.machine.base.errors import InputError
from atonc.machine.base.frozen import dataclass
from atonc.machine.base.words import instead


@dataclass(frozen=True)
class Affinity:
    """Names of operators of the canonical graph."""

    on_cpu: frozenset[str] = field(default_factory=frozenset)
    on_npu: frozenset[str] = field(default_factory=frozenset)


NO_AFFINITY = Affinity()


def resolve(source: Graph, graph: Graph, on_cpu: Sequence[str], on_npu: Sequence[str]) -> Affinity:
    """Resolves names of nodes, or of tensors that they write, as the model has them."""
    cpu = {name: operators(name, source, graph) for name in on_cpu}
    npu = {name: operators(name, source, graph) for name in on_npu}
    affinity = Affinity(frozenset().union(*cpu.values()), frozenset().union(*npu.values()))
    if both := sorted(affinity.on_cpu & affinity.on_npu):
        raise InputError("wanted on the CPU and on the NPU", where=both[0], remedy="name it once with --on")
    return affinity


def cpu_alone(graph: Graph, on_npu: Sequence[str]) -> Affinity:
    """Everything that runs, runs on the processor."""
    if on_npu:
        raise InputError("wanted on the NPU, which --no-npu leaves out", where=on_npu[0], remedy="leave out one")
    return Affinity(frozenset(op.name for op in graph.ops))


def operators(name: str, source: Graph, graph: Graph) -> frozenset[str]:
    """The operators that a node became; those made only to serve it (transposes) stay free."""
    for chosen in (
        [op for op in graph.ops if op.name == name],
        [op for op in graph.ops if name in op.origin],
        [op for op in graph.ops if name in op.outputs],
    ):
        if chosen:
            return frozenset(op.name for op in chosen)
    origin = [op for op in source.ops if name in (op.name, *op.origin, *op.outputs)]
    if origin:
        raise InputError(
            "nothing is left of the node after simplification, so it runs nowhere",
            where=name,
            remedy="leave out --on for it; the report lists what runs",
        )
    raise _unknown(name, [*graph.ops, *source.ops])


def _unknown(name: str, ops: Sequence[Op]) -> InputError:
    known = [n for op in ops for n in (op.name, *op.origin, *op.outputs)]
    return InputError(f"the model has no node {name[:100]!r}", where="--on", remedy=instead(name, known))


def chosen_by_user() -> RefusedForm:
    return RefusedForm(ASKED, "asked for with --on cpu", "what the user wants", "leave out --on cpu for this node")
