"""Does the time of a compilation grow with the operators of the network, or faster?

Inverted residual blocks (1x1, depthwise 3x3, 1x1, sum) on 16 x 16 pictures, as many as it takes; each size in a process
of its own. `--write` also draws docs/images/compile_growth.svg.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from atonc.compiler.compile.pipeline import compile_graph
from atonc.compiler.ir import Graph
from atonc.compiler.request.options import STAGES, Options
from atonc.compiler.verify.verify import verify
from benchmarks.shared.children import run_again
from benchmarks.shared.declare import FRESH, KEEP, WRITE, Report, argument, hidden
from benchmarks.shared.kept import Kept
from tests.compiler.golden_graphs import Sketch

SIZES = (100, 300, 1000, 3000)
GROUP = "tools"
ARGUMENTS = (
    argument("--sizes", nargs="+", type=int, default=SIZES, help="operators"),
    KEEP,
    FRESH,
    WRITE,
    hidden("--one", type=int),
)
PICTURE = Path(__file__).parents[1] / "docs" / "images" / "compile_growth.svg"
WIDTH, HEIGHT, MARGIN = 640, 400, 60
CHECKS, VERIFY = "checks", "verify"
PARTS = (*STAGES, CHECKS, VERIFY)
HEAD = """# Time of a compilation against operators

Inverted residual blocks on 16 x 16 pictures; seconds of processor time from the graph to the verified program by stage,
default options, each size in a process of its own that has compiled a small network before. Picture:
docs/images/compile_growth.svg.

"""

Row = dict[str, float]


def network(operators: int) -> Graph:
    sketch = Sketch().start(1, 16, 16, 16)
    while len(sketch.ops) < operators:
        start = sketch.last
        sketch.conv(32)
        sketch.conv(32, (3, 3), depthwise=True)
        sketch.conv(16)
        sketch.op("add", (1, 16, 16, 16), start)
    return sketch.graph()


def measure(operators: int) -> Row:
    """Processor seconds by stage, in this process."""
    compile_graph(network(8))
    graph, spent = network(operators), Row()
    last = time.process_time()

    def note(stage: str, result: object = None) -> None:
        nonlocal last
        now = time.process_time()
        spent[stage] = spent.get(stage, 0.0) + now - last
        last = now

    compiled = compile_graph(graph, Options(verify=False), note)
    note(CHECKS)
    verify(compiled.program, compiled.graph, compiled.mapped)
    note(VERIFY)
    return spent | {"operators": len(graph.ops), "epochs": len(compiled.program.epochs)}


def total(row: Row) -> float:
    return sum(row.get(part, 0.0) for part in PARTS)


def table(rows: Sequence[Row]) -> str:
    parts = [part for part in PARTS if any(part in row for row in rows)]
    lines = [f"| operators | epochs | s | ms an operator | {' | '.join(parts)} |", "|---:" * (4 + len(parts)) + "|"]
    for row in rows:
        spent = total(row)
        own = " | ".join(f"{row.get(part, 0.0):.2f}" for part in parts)
        each = 1000 * spent / row["operators"]
        lines.append(f"| {row['operators']:,.0f} | {row['epochs']:,.0f} | {spent:.2f} | {each:.1f} | {own} |")
    return "\n".join(lines) + "\n"


def picture(rows: Sequence[Row]) -> str:
    """Seconds over operators, and the straight line from zero through the smallest network."""
    most, longest = max(row["operators"] for row in rows), max(map(total, rows))
    slope = total(rows[0]) / rows[0]["operators"]
    scale = max(longest, slope * most)

    def at(operators: float, seconds: float) -> str:
        x = MARGIN + (WIDTH - 2 * MARGIN) * operators / most
        return f"{x:.0f},{HEIGHT - MARGIN - (HEIGHT - 2 * MARGIN) * seconds / scale:.0f}"

    def label(operators: float, seconds: float, text: str, dx: int = 0, dy: int = 0) -> str:
        x, y = map(int, at(operators, seconds).split(","))
        return f'<text x="{x + dx}" y="{y + dy}" font-size="12">{text}</text>'

    points = " ".join(at(row["operators"], total(row)) for row in rows)
    straight = f"{at(0, 0)} {at(most, slope * most)}"
    body = [
        f'<polyline points="{at(0, scale)} {at(0, 0)} {at(most, 0)}" fill="none" stroke="black"/>',
        f'<polyline points="{straight}" fill="none" stroke="gray" stroke-dasharray="4"/>',
        f'<polyline points="{points}" fill="none" stroke="steelblue" stroke-width="2"/>',
        label(0, scale, "seconds of processor time", -MARGIN + 8, -12),
        label(most, 0, "operators", -MARGIN, 36),
        label(most / 2, slope * most / 2, "the smallest one, times its operators", -90, -70),
    ]
    for row in rows:
        x, y = at(row["operators"], total(row)).split(",")
        body.append(f'<circle cx="{x}" cy="{y}" r="3" fill="steelblue"/>')
        body.append(label(row["operators"], 0, f"{row['operators']:,.0f}", -12, 18))
        body.append(label(row["operators"], total(row), f"{total(row):.1f}", 6, 16))
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif">'
    return "\n".join([head, '<rect width="100%" height="100%" fill="white"/>', *body, "</svg>", ""])


def run(arguments: argparse.Namespace) -> Report:
    if arguments.one:
        print(json.dumps(measure(arguments.one)))
        return Report()
    known = Kept(arguments.keep, arguments.fresh)
    for size in arguments.sizes:
        known.of(str(size), partial(in_a_process, size))
    rows = sorted(known.values(), key=lambda row: row["operators"])
    if arguments.write:
        PICTURE.write_text(picture(rows))
    return Report(HEAD + table(rows))


def in_a_process(size: int) -> Row:
    done = run_again("compile_growth", "--one", size, check=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))
