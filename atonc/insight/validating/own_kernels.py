"""Kernels that every installation has, because they are ours: what the verdict of `validate` rests on, so that it does
not depend on which packages of others there are. Those add a yardstick to look at, and say whether operators were read
as they are meant.

The yardstick is exact arithmetic of the model as it was read. Its sibling is the graph after folding and fusion, every
layer rounded once: another correct way to round the same network, as kernels of others are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from functools import cached_property

from atonc.compiler.compile.pipeline import Compiled
from atonc.compiler.inputs.inputs import program_inputs, real
from atonc.compiler.ir import Array, Graph, layer_name
from atonc.compiler.ops import run_graph
from atonc.compiler.ops.elementwise import DIVISION, zero_by_zero
from atonc.compiler.passes.formats import round_once
from atonc.insight.validating.references import EXACT, as_program, exact_values
from atonc.machine.base.frozen import dataclass
from atonc.machine.base.words import count

MET = (
    "divides zero by zero in {}: that has no value, and kernels differ there; outputs are judged against exact "
    "arithmetic alone"
)
ROUNDED_ONCE = "exact arithmetic, layers rounded once"


@dataclass(frozen=True)
class OwnKernels:
    compiled: Compiled
    undefined: dict[str, str] = field(default_factory=dict)  # divisions that met 0/0: what to say of them

    def exact(self, sample: Mapping[str, Array]) -> dict[str, list[Array]]:
        values = exact_values(self.compiled, sample)
        for op in self.compiled.source.ops:
            if op.kind == DIVISION and (times := int(zero_by_zero(self.compiled.source, op, values).sum())):
                self.undefined.setdefault(op.name, f"{layer_name(op)} {MET.format(count(times, 'value'))}")
        return {EXACT: as_program(self.compiled, values)}

    def sibling(self, sample: Mapping[str, Array]) -> dict[str, list[Array]]:
        values = run_graph(self._graph, program_inputs(self.compiled, sample))
        return {ROUNDED_ONCE: [real(self._graph.tensors[name], values[name]) for name in self._graph.outputs]}

    @cached_property
    def _graph(self) -> Graph:
        return round_once(self.compiled.graph)
