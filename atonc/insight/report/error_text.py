"""The expected error of every layer, and what the outputs may deviate by."""

from __future__ import annotations

from typing import Any

from atonc.compiler.compile.pipeline import Compiled
from atonc.compiler.lower.semantics.error_model import ExpectedError, expected_errors
from atonc.machine.base.words import count

MANY = 20  # codes: a worst case beyond says little
SMALL = 0.5  # codes: below, a layer differs from exact arithmetic by one code now and then


def error_lines(compiled: Compiled) -> list[str]:
    layers = expected_errors(compiled.graph, compiled.mapped)
    exact, small = sum(e.local == 0 for e in layers), sum(0 < e.local <= SMALL for e in layers)
    lines = [
        "expected error before the last rounding, in codes, each layer on the inputs that it really has: "
        f"{exact} exact, {small} up to {SMALL:g}, {len(layers) - exact - small} above",
        *(f"  {e.local:8.3f} {e.kind:14} {e.node}" for e in sorted(layers, key=lambda e: -e.local)),
    ]
    saturating = [e for e in layers if e.saturates]
    if saturating:
        lines.append(
            f"  sums of {count(len(saturating), 'layer')} have room for {min(e.room for e in saturating):.3g} times "
            f"those of typical inputs or more, not for all: {', '.join(e.node for e in saturating)}"
        )
    for name, peak in output_peaks(compiled, layers).items():
        if peak <= MANY:  # beyond, the worst case of deep networks says nothing; the verification measures it
            lines.append(f"  output {name}, all layers together: within {count(peak, 'code')}")
    return lines


def output_peaks(compiled: Compiled, layers: tuple[ExpectedError, ...]) -> dict[str, float]:
    by_op = {e.op: e for e in layers}
    producers = compiled.graph.producers
    return {n: float(by_op[producers[n].name].deviation.peak) for n in compiled.graph.outputs if n in producers}


def error_data(compiled: Compiled) -> dict[str, Any]:
    layers = expected_errors(compiled.graph, compiled.mapped)
    return {
        "layers": [
            {
                "node": e.node,
                "op": e.kind,
                "error": e.local,
                "may_saturate": e.saturates,
                "room": e.room if e.saturates else None,
                "peak": float(e.deviation.peak),
            }
            for e in layers
        ],
        "outputs": output_peaks(compiled, layers),
    }
