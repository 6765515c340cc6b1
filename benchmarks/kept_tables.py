"""What `--schedule-with tables` brings: words, time, and the same outputs from the words as a chip would read them.

Every program
of the epoch controller is decoded by itself, with empty coefficient memories, and run on the emulator.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

from atonc.compiler.compare.inputs import make_inputs
from atonc.compiler.compile.pipeline import Compiled, compile_file
from atonc.compiler.emit.program import Program
from atonc.compiler.emit.runs import npu_runs
from atonc.compiler.request.options import Options
from atonc.compiler.verify.emulation import Emulation
from atonc.machine.hw.decode import decode_epochs
from atonc.machine.hw.ec import ec_program, instructions
from benchmarks.shared.corpus import chosen
from benchmarks.shared.declare import MODEL_FILES, ONLY, WRITE, Report

GROUP = "speed"
ARGUMENTS = (MODEL_FILES, ONLY.but(default=("deeplab", "ssd_mobilenet_v3", "nano_192_0.33_0.25_int8")), WRITE)

PLAIN, TABLES = Options(verify=False), Options(verify=False, schedule_with=("tables",))
HEAD = """# Tables of coefficients that stay in their units

`--schedule-with tables`, which is off by
default: each of the 9,762 tables of ARITHs and 1,650 of ACTIVs in 132 published programs is loaded in the epoch that
uses it (feature *table* in [silicon](../../docs/silicon.md)), so that a released unit keeps its memory is likely, and
nobody has shown it. `atonc probe kept-table` asks a board.

Equal tables come back where rows of a layer are computed in turn (stripes) and in the phases of dilated convolutions;
in other networks each layer has its own. *Same outputs*: from the words, every program of the controller decoded by
itself with empty memories, against the words without the option.

| model | tables kept | words | ratio | predicted ms | ratio | same outputs |
|---|---:|---:|---:|---:|---:|---|
"""


def as_read(program: Program) -> Program:
    """The epochs as a chip makes them of the words."""
    epochs = {}
    for run in npu_runs(program):
        words = ec_program.words(step.epoch for step in run if step.epoch is not None)
        decoded = [epoch for epoch in decode_epochs(instructions.decode(words)) if not epoch.empty]
        epochs |= {step.number: epoch for step, epoch in zip(run, decoded, strict=True)}
    return replace(program, steps=tuple(replace(s, epoch=epochs.get(s.number)) for s in program.steps))


def words(compiled: Compiled) -> int:
    return len(ec_program.words(compiled.program.epochs))


def row(model: Path) -> str:
    both = [compile_file(model, options) for options in (PLAIN, TABLES)]
    inputs = make_inputs(both[0].graph, 1)
    outputs = [Emulation(as_read(one.program), one.graph).run(inputs) for one in both]
    same = all(np.array_equal(outputs[0][name], outputs[1][name]) for name in both[0].graph.outputs)
    old, new = map(words, both)
    before, after = (one.cost.latency_ms for one in both)
    kept = sum(len(epoch.kept) for epoch in both[1].program.epochs)
    times = f"{before:.3f} > {after:.3f} | {after / before:.3f}"
    return f"| {model.name} | {kept} | {old:,} > {new:,} | {new / old:.3f} | {times} | {'yes' if same else 'NO'} |\n"


def run(arguments: argparse.Namespace) -> Report:
    text = HEAD
    for model in chosen(arguments):
        text += row(model)
        print(text.splitlines()[-1], file=sys.stderr, flush=True)
    return Report(text)
