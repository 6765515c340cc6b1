"""Does the time of a compilation grow with the operators of the network, or faster?

    OMP_NUM_THREADS=1 python benchmarks/compile_growth.py [--sizes 100,300,1000,3000] [--keep FILE] [--write]

Inverted residual blocks (1x1, depthwise 3x3, 1x1, sum) on 16 x 16 pictures, as many as it takes; each size in a process
of its own. `--keep`: sizes measured earlier are kept there. `--write`: results/compile_growth.md and
docs/images/compile_growth.svg.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from atonc.ir import Graph
from atonc.options import STAGES, Options
from atonc.pipeline import compile_graph
from atonc.verify import verify
from tests.compiler.golden_graphs import Sketch

SIZES = (100, 300, 1000, 3000)
RESULTS = Path(__file__).parent / "results" / "compile_growth.md"
PICTURE = Path(__file__).parents[1] / "docs" / "images" / "compile_growth.svg"
WIDTH, HEIGHT, MARGIN = 640, 400, 60
CHECKS, VERIFY = "checks", "verify"
PARTS = (*STAGES, CHECKS, VERIFY)
HEAD = """# Time of a compilation against operators

`python benchmarks/compile_growth.py --write`, 2026-11-16, 2-core aarch64 Linux that others used too. Inverted residual
blocks on 16 x 16 pictures; seconds of processor time from the graph to the verified program by stage, default options,
each size in a process of its own that has compiled a small network before. Picture: docs/images/compile_growth.svg.

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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)))
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        print(json.dumps(measure(args.one)))
        return
    known: dict[str, Row] = json.loads(args.keep.read_text()) if args.keep and args.keep.exists() else {}
    for size in args.sizes.split(","):
        if size not in known:
            done = subprocess.run([sys.executable, __file__, "--one", size], capture_output=True, text=True, check=True)
            known[size] = json.loads(done.stdout.splitlines()[-1])
        if args.keep:
            args.keep.write_text(json.dumps(known))
    rows = sorted(known.values(), key=lambda row: row["operators"])
    print(table(rows), flush=True)
    if args.write:
        RESULTS.write_text(HEAD + table(rows))
        PICTURE.write_text(picture(rows))


if __name__ == "__main__":
    main()
