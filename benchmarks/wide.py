"""What do activations of 16 bits cost on the NPU? Networks in 16x8 beside the same networks in 8 bits.

Twenty random networks, written as TFLite files in both formats, and files of others (single layers of a 16x8 network in
tensorflow/tflite-micro, for one): how many multiplications run on the NPU, how far layers are from exact arithmetic,
how long it takes against 8 bits and against the CPU, and whether the engine of data sets and the virtual board give the
emulator's bytes.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from atonc.compiler.compare.inputs import make_inputs
from atonc.compiler.compile import analyzing
from atonc.compiler.compile.compile_view import CompileView
from atonc.compiler.ops.macs import macs
from atonc.compiler.request.options import Options
from atonc.compiler.verify.emulation import Emulation
from atonc.delivery.trials import boarding
from atonc.insight.evaluating.engine import Engine
from atonc.insight.validating import validating
from benchmarks.shared.corpus import asked_for
from benchmarks.shared.declare import ONLY, WRITE, Report, argument
from tests.compiler.wide_networks import random_network

GROUP = "quantising"
ARGUMENTS = (
    argument("--wide-files", type=Path, default=None, metavar="DIR", help="16x8 files of others"),
    argument("--virtual-board", action="store_true", help="every network there as well"),
    ONLY,
    WRITE,
)
SMALL, LARGE = 12, 8  # networks made here
SAMPLES = 2


@dataclass(frozen=True)
class Row:
    name: str
    layers: int
    share: float  # of the multiplications on the NPU
    worst: float  # codes
    milliseconds: float
    narrow: float  # the same in 8 bits; 0: there is no such file
    on_cpu: float
    unseen: int
    same: str

    def text(self) -> str:
        ratio = f"{self.milliseconds / self.narrow:.2f}" if self.narrow else "-"
        narrow = f"{self.narrow:.3f}" if self.narrow else "-"
        faster = f"{self.on_cpu / self.milliseconds:.0f}" if self.milliseconds else "-"
        return (
            f"| {self.name} | {self.layers} | {100 * self.share:.0f} % | {self.worst:.0f} | {self.unseen} | "
            f"{self.milliseconds:.3f} | {narrow} | {ratio} | {faster} | {self.same} |"
        )


def run(arguments: argparse.Namespace) -> Report:
    rows = []
    with tempfile.TemporaryDirectory() as temporary:
        for name, wide, narrow in _files(Path(temporary), arguments.wide_files):
            if asked_for(arguments.only, name):
                rows.append(_row(name, wide, narrow, arguments.virtual_board))
                print(rows[-1].text(), flush=True)
    return Report(_page(rows), failed=any("NO" in row.same or row.unseen for row in rows))


def _files(work: Path, others: Path | None) -> Iterator[tuple[str, Path, Path | None]]:
    for number in range(SMALL + LARGE):
        network = random_network(number, large=number >= SMALL)
        paths = []
        for dtype in ("int16", "int8"):
            paths.append(work / f"{number}_{dtype}.tflite")
            paths[-1].write_bytes(network.tflite(dtype))
        side = network.size[0]
        yield f"random {number}, {side}x{side}", paths[0], paths[1]
    for path in sorted(others.glob("*.tflite")) if others else ():
        yield path.stem, path, None


def _row(name: str, wide: Path, narrow: Path | None, board: bool) -> Row:
    view = analyzing.analyze(wide, Options())
    everywhere = analyzing.analyze(wide, Options(verify=False, on_cpu=_all_nodes(view)))
    compiled, graph = view.compiled, view.compiled.graph
    counts = {op.name: macs(op, graph.tensors) for op in graph.ops}
    on_npu = sum(count for op, count in counts.items() if op not in compiled.mapped.on_cpu)
    total = sum(counts.values())
    narrow_ms = analyzing.analyze(narrow, Options(verify=False)).compiled.cost.latency_ms if narrow else 0.0
    report = compiled.report
    return Row(
        name,
        len(graph.ops),
        on_npu / total if total else float(not compiled.mapped.on_cpu),
        report.worst_layer if report else float("nan"),
        compiled.cost.latency_ms,
        narrow_ms,
        everywhere.compiled.cost.latency_ms,
        sum(one.rule.id == "E01" for one in compiled.findings),
        _same(view, board),
    )


def _all_nodes(view: CompileView) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for op in view.compiled.graph.ops for name in (op.origin or (op.name,))))


def _same(view: CompileView, board: bool) -> str:
    """Whether others give the emulator's codes: the engine of data sets, the virtual board."""
    compiled = view.compiled
    inputs = [make_inputs(compiled.graph, k) for k in range(SAMPLES)]
    found = Engine(compiled).run({n: np.stack([one[n] for one in inputs]) for n in compiled.graph.inputs})
    emulation = Emulation(compiled.program, compiled.graph)
    same = all(
        np.array_equal(found[name][k].reshape(value.shape), value)
        for k, one in enumerate(inputs)
        for name, value in emulation.run(one).items()
    )
    if not board:
        return "engine" if same else "NO"
    run = boarding.validate_on_board(view, validating.synthetic_samples(compiled.source, 1))
    return "engine, board" if same and not run.bytes_different else "NO"


def _page(rows: Sequence[Row]) -> str:
    pairs = [row.milliseconds / row.narrow for row in rows if row.narrow]
    mean = float(np.exp(np.mean(np.log(pairs)))) if pairs else 0.0
    table = "\n".join(row.text() for row in rows)
    full = sum(row.share >= 0.9 for row in rows)
    return f"""# Activations of 16 bits

{__doc__.strip()}

{full} of {len(rows)} networks have at least 90 % of their multiplications on the NPU. In 16x8 they take {mean:.2f}
times as long as in 8 bits (geometric mean of {len(pairs)} pairs, predicted by the calibrated model). Codes off: of
65,536, the worst value of any layer against exact arithmetic. Faster: times, against the same network on the CPU.

| network | layers | products on the NPU | codes off | unseen epochs | ms | ms in 8 bits | ratio | faster | same bytes |
|---|---:|---:|---:|---:|---:|---:|---:|---:|---|
{table}
"""
