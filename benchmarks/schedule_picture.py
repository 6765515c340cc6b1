"""One network drawn before and after the passes of the schedule: which unit is busy when.

Writes docs/images/schedule.svg. Every bar is a unit in an epoch, as wide as the epoch takes by the calibrated model.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from xml.sax.saxutils import escape

from atonc.compiler.compile.pipeline import Compiled, compile_file
from atonc.compiler.request.options import Options
from atonc.compiler.schedule import PASSES
from benchmarks.shared.corpus import ROOT, model
from benchmarks.shared.declare import ONE_MODEL, Report

MODEL = "cifar10__resnet_v1_8_32_tfs_int8.tflite"
GROUP = "speed"
ARGUMENTS = (ONE_MODEL.but(default=MODEL),)

PICTURE = ROOT / "docs" / "images" / "schedule.svg"
COLOURS = {"CONVACC": "#2c6fbb", "ARITH": "#d9822b", "ACTIV": "#8e5ea2", "POOL": "#3a9d5d", "STRENG": "#999999"}
ROWS = [f"CONVACC{k}" for k in range(4)] + [f"ARITH{k}" for k in range(4)] + ["ACTIV0", "ACTIV1", "POOL0", "POOL1"]
ROWS += [f"STRENG{k}" for k in range(10)]
WIDTH, LEFT, ROW, GAP, HEAD = 900, 80, 9, 26, 22


def panel(compiled: Compiled, title: str, top: int, cycles_wide: int) -> Iterator[str]:
    cost = compiled.cost
    npu = [(s.epoch, c.cycles) for s, c in zip(compiled.program.steps, cost.steps, strict=True) if s.epoch is not None]
    scale = (WIDTH - LEFT - 10) / cycles_wide
    total = sum(cycles for _, cycles in npu)
    said = f"{title}: {len(npu)} epochs, {total:,} cycles of the NPU"
    yield f'<text x="{LEFT}" y="{top - 6}" font-size="13">{escape(said)}</text>'
    for k, name in enumerate(ROWS):
        yield f'<text x="{LEFT - 6}" y="{top + k * ROW + 7}" font-size="7" text-anchor="end">{name}</text>'
    at = 0
    for epoch, cycles in npu:
        for name in epoch.units:
            colour = COLOURS.get(name.rstrip("0123456789"), "#cccccc")
            x, wide = LEFT + at * scale, max(cycles * scale - 0.6, 0.4)
            y = top + ROWS.index(name) * ROW
            yield f'<rect x="{x:.1f}" y="{y}" width="{wide:.1f}" height="{ROW - 2}" fill="{colour}"/>'
        at += cycles


def run(arguments: argparse.Namespace) -> Report:
    path = model(arguments.model)
    plain = compile_file(path, Options(verify=False, schedule_without=tuple(PASSES)))
    passed = compile_file(path, Options(verify=False))
    cost = plain.cost
    wide = sum(c.cycles for s, c in zip(plain.program.steps, cost.steps, strict=True) if s.epoch is not None)
    high = len(ROWS) * ROW + GAP + HEAD
    body = [*panel(plain, "without lanes, chains and packing", HEAD, wide), *panel(passed, "as by default", high, wide)]
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {2 * high}" font-family="sans-serif">'
    PICTURE.write_text("\n".join([head, '<rect width="100%" height="100%" fill="white"/>', *body, "</svg>", ""]))
    return Report()
