"""Networks with states: are a thousand frames equal to the chain of the same codes, and what do states cost?

Each file with its states (its own variables; else outputs and inputs whose names match; else outputs behind the first
and the last inputs in their order) by default and with its weights in RAM. Every layer, output and state of
each frame is compared with the integer functions that the program was mapped to. Where floats of a frame differ in
their last bits, its layers are held to the limits of every validation instead, and only states are compared byte by
byte: such frames are counted. With --board the program by default also runs as Arm code on the virtual board, where
outputs and states are compared with the emulator's.

What states cost is given twice: the share of the layers that move a state or a window of it, where an epoch with other
work is shared by the elements that flow; and by how much the time falls without the tasks that only carry states.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from atonc.compiler.compile.compile_view import CompileView
from atonc.compiler.compile.pipeline import Compiled
from atonc.compiler.frontends.read import read
from atonc.compiler.ir import Graph
from atonc.compiler.request.options import ALL_FREE, Options
from atonc.compiler.verify.emulation import Emulation
from atonc.delivery.generate.generating import analyze
from atonc.delivery.trials.boarding import validate_on_board
from atonc.insight.explain.ours import network_view
from atonc.insight.explain.types import EpochShare
from atonc.insight.explain.wiring import restricted
from atonc.insight.validating.sequences import Chain, SequenceResult
from atonc.insight.validating.validating import synthetic_samples
from atonc.machine.base.errors import AtoncError
from atonc.machine.hw.cycles.hardware import epoch_cycles
from atonc.machine.hw.ec.ec_program import with_words
from benchmarks.shared.declare import WRITE, Report, argument
from benchmarks.shared.tables import table

GROUP = "truth"
ARGUMENTS = (
    argument("files", nargs="+", type=Path, metavar="FILE", help=".tflite or .onnx"),
    argument("--frames", type=int, default=1000, metavar="N", help="of each sequence"),
    argument("--board", type=int, default=0, metavar="N", help="frames on the virtual board"),
    WRITE,
)
SETTINGS = {"default": Options(verify=False), "weights in RAM": Options(verify=False, resident=ALL_FREE)}
COLUMNS = (
    "file", "setting", "states", "bytes", "ms a frame", "moves of states, % of the time", "time without them, % less",
    "layers on the CPU", "frames", "bytes compared", "different", "frames by limits",
    "frames on the virtual board", "different there",
)  # fmt: skip
MOVES = ("concat", "slice", "split", "identity", "transpose", "requantize")


def pairs_of(source: Graph) -> tuple[str, ...]:
    """What `--state` is given."""
    if source.states:
        return ()
    outputs = source.outputs[1:]
    last = source.inputs[max(1, len(source.inputs) - len(outputs)) :]  # more outputs than inputs: some are no states
    return tuple(f"{out}={into}" for out, into in zip(outputs, last, strict=False))


def compiled(file: Path, options: Options) -> CompileView:
    source = read(file)
    for states in ((), ("auto",), pairs_of(source)) if not source.states else ((),):
        try:
            view = analyze(file, replace(options, states=states))
        except AtoncError:
            if states == pairs_of(source):
                raise
            continue
        if view.compiled.program.states:
            return view
    raise AtoncError(f"{file.name} has no states")


def moving(view: CompileView) -> int:
    """Cycles of the layers that only move a state or a value to it."""
    graph = view.compiled.graph
    near = {one.input for one in graph.states} | {one.output for one in graph.states}
    names = set[str]()
    for _ in graph.ops:  # moves of moves too
        more = [op for op in graph.ops if op.kind in MOVES and op.name not in names]
        more = [op for op in more if near & {*op.inputs, *op.outputs}]
        if not more:
            break
        names |= {op.name for op in more}
        near |= {
            name
            for op in more
            for name in op.outputs
            if all(one.kind in MOVES for one in graph.consumers.get(name, ()))
        }
    listed = zip(graph.ops, network_view(view).layers, strict=True)
    return sum(layer.cycles for op, layer in listed if op.name in names)


def saved_without(view: CompileView) -> int:
    """Cycles that would go if what only carries states went: epochs of their own, and their engines in others. A layer
    that takes a part of a window for itself is no such layer."""
    compiled, carrying, cycles = view.compiled, only_carrying(view), 0
    for step, cost, shares in zip(compiled.program.steps, view.cost.steps, compiled.scheduled.shares, strict=True):
        kept = tuple(sorted(unit for one in shares if one.op not in carrying for unit in one.units))
        if carrying.isdisjoint(one.op for one in shares):
            continue
        if all(one.op in carrying for one in shares):
            cycles += cost.cycles
        elif step.epoch is not None:
            rest = with_words(restricted(step.epoch, EpochShare(step.number, 0, 1, 1, kept)))
            target = compiled.target
            cycles += cost.cycles - epoch_cycles(rest, target.machine, target.programmed_by).cycles
    return cycles


def only_carrying(view: CompileView) -> set[str]:
    """From states to the windows that begin with them, and from there back to states."""
    graph, found = view.compiled.graph, set[str]()
    waiting = [(one.input, True) for one in graph.states] + [(one.output, False) for one in graph.states]
    while waiting:
        name, forward = waiting.pop()
        near = graph.consumers.get(name, []) if forward else [graph.producers[name]]
        for op in (op for op in near if op.kind in MOVES and op.name not in found):
            alone = len(graph.consumers.get(name, [])) == 1 or not forward
            if forward and not alone and op.kind != "concat":
                continue
            if not forward and any(len(graph.consumers.get(out, [])) > 0 for out in op.outputs):
                continue
            found.add(op.name)
            if forward and op.kind != "concat":
                waiting += [(out, True) for out in op.outputs]
            elif not forward:
                waiting += [(into, False) for into in op.inputs if into in graph.producers]
    return found


def followed(found: Compiled, frames: int) -> SequenceResult:
    """Every byte of so many frames against the chain of the same codes."""
    chain = Chain(found, Emulation(found.program, found.graph, found.memory.pools), [0])
    for sample in synthetic_samples(found.source, frames, 1):
        chain.frame(sample)
    return chain.result(0.0)


def rows(file: Path, frames: int, on_board: int) -> Iterator[tuple[object, ...]]:
    for name, options in SETTINGS.items():
        view = compiled(file, options)
        found = view.compiled
        result = followed(found, frames)
        samples = synthetic_samples(found.source, on_board, 1) if name == "default" else []
        there = validate_on_board(view, samples).bytes_different if samples else 0
        share, gone = (100 * cycles / view.cost.cycles for cycles in (moving(view), saved_without(view)))
        cpu = len(found.mapped.reason_of)
        print(
            file.name,
            name,
            f"{result.latency_ms:.3f} ms, states {share:.1f} % ({gone:.1f} % without), {result.different} different",
            flush=True,
        )
        yield (
            file.name, name, result.states, f"{result.states_bytes:,}", f"{result.latency_ms:.3f}", f"{share:.1f}",
            f"{gone:.1f}", cpu,
            result.frames, f"{result.compared:,}", result.different, result.real, len(samples) or "",
            there if samples else "",
        )  # fmt: skip


def run(arguments: argparse.Namespace) -> Report:
    listed, refused = list[tuple[object, ...]](), list[str]()
    for file in arguments.files:
        try:
            listed += rows(file, arguments.frames, arguments.board)
        except AtoncError as error:
            refused.append(f"- {file.name}: {str(error).splitlines()[0]}")
            print(refused[-1], flush=True)
    lines = [
        "# Networks with states over long sequences",
        "",
        *(__doc__ or "").replace("\n\n", "\0").replace("\n", " ").strip().split("\0")[1:],
        "",
    ]
    lines += [*table(COLUMNS, listed), ""]
    lines += ["Refused:", "", *refused, ""] if refused else []
    return Report("\n".join(lines), failed=any(row[-4] or row[-1] for row in listed))
