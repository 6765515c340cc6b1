"""What do activations of 16 bits cost on the NPU? Networks in 16x8 beside the same networks in 8 bits.

Twenty random networks, written as TFLite files in both formats, and files of others (single layers of a 16x8 network in
tensorflow/tflite-micro, for one): how many multiplications run on the NPU, how far layers are from exact arithmetic,
how long it takes against 8 bits and against the CPU, and whether the engine of data sets and the virtual board give the
emulator's bytes. Of the random ones also how far outputs are from the network in real numbers: in 8 bits, in 16x8
with exact arithmetic, in two passes, and as compiled by default.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from atonc.compiler.compare.inputs import make_inputs
from atonc.compiler.compile import compile_view
from atonc.compiler.compile.compile_view import CompileView
from atonc.compiler.compile.pipeline import Compiled
from atonc.compiler.ops import run_graph
from atonc.compiler.ops.shapes import macs
from atonc.compiler.request.options import Options
from atonc.compiler.schedule.passes import ONE_PASS
from atonc.compiler.verify.emulation import Emulation
from atonc.delivery.trials import boarding
from atonc.insight.evaluating.engine import Engine
from atonc.insight.validating import validating
from benchmarks.shared.corpus import asked_for
from benchmarks.shared.declare import ONLY, WRITE, Report, argument
from tests.compiler.wide_networks import NetworkBuilder, Real, random_network

GROUP = "quantising"
ARGUMENTS = (
    argument("--wide-files", type=Path, default=None, metavar="DIR", help="16x8 files of others"),
    argument("--virtual-board", action="store_true", help="every network there as well"),
    ONLY,
    WRITE,
)
SMALL, LARGE = 12, 8  # networks made here
SAMPLES = 2
GOAL = 2.2  # times the time of 8 bits
NAMES = ("8 bits", "exact 16x8", "two passes", "as compiled")


@dataclass(frozen=True)
class Losses:
    """How far outputs are from those in real numbers: the root of the mean square, in percent of theirs."""

    narrow: float
    exact: float
    two_passes: float
    compiled: float

    def text(self) -> str:
        return " | ".join(f"{one:.3f}" for one in (self.narrow, self.exact, self.two_passes, self.compiled))


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
    dropped: tuple[int, ...]  # bits, of tensors that layers read in one pass
    slower: float = 0.0  # milliseconds in two passes; 0: not asked
    losses: Losses | None = None

    def text(self) -> str:
        ratio = f"{self.milliseconds / self.narrow:.2f}" if self.narrow else "-"
        narrow = f"{self.narrow:.3f}" if self.narrow else "-"
        faster = f"{self.on_cpu / self.milliseconds:.0f}" if self.milliseconds else "-"
        return (
            f"| {self.name} | {self.layers} | {100 * self.share:.0f} % | {self.worst:.0f} | {self.unseen} | "
            f"{self.milliseconds:.3f} | {narrow} | {ratio} | {faster} | {self.same} | {self.bits} |"
        )

    @property
    def bits(self) -> str:
        kept = sorted({16 - dropped for dropped in self.dropped})
        return "-" if not kept else f"{kept[0]}" if len(kept) == 1 else f"{kept[0]} to {kept[-1]}"

    def against_real(self) -> str:
        assert self.losses is not None
        ratio = self.slower / self.narrow
        return f"| {self.name} | {self.losses.text()} | {self.slower:.3f} | {ratio:.2f} | {self.milliseconds:.3f} |"


def run(arguments: argparse.Namespace) -> Report:
    rows = []
    with tempfile.TemporaryDirectory() as temporary:
        for name, wide, pair in _files(Path(temporary), arguments.wide_files):
            if asked_for(arguments.only, name):
                rows.append(_row(name, wide, pair, arguments.virtual_board))
                print(rows[-1].text(), flush=True)
    return Report(_page(rows), failed=any("NO" in row.same or row.unseen for row in rows))


Pair = tuple[NetworkBuilder, Path]  # in real numbers and in 8 bits


def _files(work: Path, others: Path | None) -> Iterator[tuple[str, Path, Pair | None]]:
    for number in range(SMALL + LARGE):
        network = random_network(number, large=number >= SMALL)
        paths = []
        for dtype in ("int16", "int8"):
            paths.append(work / f"{number}_{dtype}.tflite")
            paths[-1].write_bytes(network.tflite(dtype))
        side = network.size[0]
        yield f"random {number}, {side}x{side}", paths[0], (network, paths[1])
    for path in sorted(others.glob("*.tflite")) if others else ():
        yield path.stem, path, None


def _row(name: str, wide: Path, pair: Pair | None, board: bool) -> Row:
    view = compile_view.analyze(wide, Options())
    everywhere = compile_view.analyze(wide, Options(verify=False, on_cpu=_all_nodes(view)))
    compiled, graph = view.compiled, view.compiled.graph
    counts = {op.name: macs(op, graph.tensors) for op in graph.ops}
    on_npu = sum(count for op, count in counts.items() if op not in compiled.mapped.on_cpu)
    total = sum(counts.values())
    report = compiled.report
    row = Row(
        name,
        len(graph.ops),
        on_npu / total if total else float(not compiled.mapped.on_cpu),
        report.worst_layer if report else float("nan"),
        compiled.cost.latency_ms,
        0.0,
        everywhere.compiled.cost.latency_ms,
        sum(one.rule.id == "E01" for one in compiled.findings),
        _same(view, board),
        tuple(codes.dropped for codes in compiled.mapped.context.coarse.values()),
    )
    return row if pair is None else _compared(row, view, wide, *pair)


def _compared(row: Row, view: CompileView, wide: Path, network: NetworkBuilder, narrow: Path) -> Row:
    """With the same network in 8 bits, in two passes and in real numbers."""
    bytes_only = compile_view.analyze(narrow, Options(verify=False)).compiled
    two = compile_view.analyze(wide, Options(verify=False, schedule_without=(ONE_PASS,))).compiled
    inputs, real = network.values["x"], np.stack(network.values[network.steps[-1][1]])
    compiled = view.compiled
    losses = Losses(
        *(_loss(_outputs(one, inputs, exact), real) for one, exact in
          ((bytes_only, False), (compiled, True), (two, False), (compiled, False)))
    )  # fmt: skip
    return replace(row, narrow=bytes_only.cost.latency_ms, slower=two.cost.latency_ms, losses=losses)


def _outputs(compiled: Compiled, inputs: Sequence[Real], exact: bool) -> Real:
    """As real numbers: of the program, or of its graph in exact arithmetic."""
    graph = compiled.graph
    (source,), (target,) = ([graph.tensors[n] for n in names] for names in (graph.inputs, graph.outputs))
    low, high = source.code_range
    codes = [np.clip(np.rint(x / source.scale) + source.zero_point, low, high).astype(source.dtype) for x in inputs]
    if exact:
        found = np.stack([run_graph(graph, {source.name: one})[target.name] for one in codes])
    else:
        found = Engine(compiled).run({source.name: np.stack(codes)})[target.name]
    return (found.astype(np.float64) - target.zero_point) * target.scale


def _loss(found: Real, real: Real) -> float:
    return 100 * float(np.sqrt(np.mean(np.square(found.reshape(real.shape) - real)) / np.mean(np.square(real))))


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


OTHERS = """
Files without a figure in 8 bits are single layers of a 16x8 network in tensorflow/tflite-micro
(integration_tests/seanet). They stand alone, with inputs over the whole range of 16 bits, so most of them take two
passes. Of its 22 convolutions six stay on the CPU because such inputs would take their sums too far for 16-bit
roundings (COARSE). "engine, board" means that both were compared; "engine" only that one.
"""
COLUMNS = (
    *("network", "layers", "products on the NPU", "codes off", "unseen epochs", "ms", "ms in 8 bits", "ratio"),
    *("faster", "same bytes", "bits"),
)


def _head(columns: Sequence[str]) -> str:
    """Names are on the left, numbers on the right."""
    rules = ("---" if name in ("network", "same bytes") else "---:" for name in columns)
    return f"| {' | '.join(columns)} |\n|{'|'.join(rules)}|"


def _page(rows: Sequence[Row]) -> str:
    pairs = [row.milliseconds / row.narrow for row in rows if row.narrow]
    mean = float(np.exp(np.mean(np.log(pairs)))) if pairs else 0.0
    table = "\n".join(row.text() for row in rows)
    full = sum(row.share >= 0.9 for row in rows)
    below = sum(ratio <= GOAL for ratio in pairs)
    two = [row.slower / row.narrow for row in rows if row.narrow]
    before = float(np.exp(np.mean(np.log(two)))) if two else 0.0
    real = [row for row in rows if row.losses]
    losses = "\n".join(row.against_real() for row in real)
    means = [float(np.mean(one)) for one in zip(*(_values(row.losses) for row in real if row.losses), strict=True)]
    average = ", ".join(f"{name} {mean:.3f} %" for name, mean in zip(NAMES, means, strict=True)) if means else "none"
    return f"""# Activations of 16 bits

{__doc__.strip()}

{full} of {len(rows)} networks have at least 90 % of their multiplications on the NPU. In 16x8 they take {mean:.2f}
times as long as in 8 bits (geometric mean of {len(pairs)} pairs, predicted by the calibrated model; {below} of them at
most {GOAL} times), in two passes {before:.2f} times. Codes off: of 65,536, the worst value of any layer against exact
arithmetic. Faster: times, against the same network on the CPU. Bits: that tensors between layers of one pass hold.

{_head(COLUMNS)}
{table}
{OTHERS if any(not row.narrow for row in rows) else ""}
## Against real numbers

How far outputs are from the network in real numbers, with real weights (root of the mean square on the
inputs that scales were chosen from, in percent). Means of all networks: {average}.
Times: in two passes (`--schedule-without {ONE_PASS}`), and as compiled by default.

| network | 8 bits | exact 16x8 | two passes | as compiled | ms in two passes | ratio | ms |
|---|---:|---:|---:|---:|---:|---:|---:|
{losses}
"""


def _values(losses: Losses) -> tuple[float, ...]:
    return losses.narrow, losses.exact, losses.two_passes, losses.compiled
