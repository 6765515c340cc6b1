"""What a quantised model gives in the chip's own arithmetic, on samples."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from atonc.compiler.compile.pipeline import Compiled
from atonc.compiler.inputs.inputs import as_input, program_inputs, real
from atonc.compiler.ir import Array
from atonc.insight.evaluating.engine import Engine
from atonc.insight.quantizing.samples import Feed
from atonc.machine.base import progress

AT_ONCE = 4  # samples that are held in memory


def chip_outputs(compiled: Compiled, feeds: Sequence[Feed]) -> list[list[Array]]:
    """Real values of the outputs, sample by sample, in the shapes of the model."""
    engine, graph, source = Engine(compiled), compiled.graph, compiled.source
    found: list[list[Array]] = []
    for start in range(0, len(feeds), AT_ONCE):
        progress.stage("judging in the chip's arithmetic", start, len(feeds))
        given = []
        for feed in feeds[start : start + AT_ONCE]:
            tensors = {name: source.tensors[name] for name in source.inputs}
            codes = {n: feed[n] if t.quant is None else as_input(t, feed[n]) for n, t in tensors.items()}
            given.append(program_inputs(compiled, codes))
        got = engine.run({name: np.stack([one[name] for one in given]) for name in graph.inputs})
        for index in range(len(given)):
            values = [(graph.tensors[name], got[name][index]) for name in graph.outputs]
            found.append([value if tensor.quant is None else real(tensor, value) for tensor, value in values])
    return found
