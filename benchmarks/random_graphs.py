"""Many random networks, judged at three levels: emulator, mapped semantics, exact arithmetic. Each is also compiled
without any pass of the schedule, and with weights in RAM: the outputs have the same bytes.

`--seed` with `--keep-as NAME` makes the network that fails as small as it goes and writes it as text to
tests/golden/regress, where tests find it.
Networks follow from their seeds (tests/compiler/random_graphs.py). Every verdict is one line of the kept file; a run
that was interrupted goes on behind the last one, as long as the code is the same.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import subprocess
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from atonc.compiler.ir import text
from benchmarks.shared.corpus import ROOT
from benchmarks.shared.declare import COUNT, FIRST, KEEP, SECONDS, SEED, WRITE, Report, argument
from benchmarks.shared.kept import append, read_lines
from tests.compiler.cases import Verdict, describe, judge
from tests.compiler.layer_checks import WITHIN, Layer, Output
from tests.compiler.other_schedules import Other
from tests.compiler.random_graphs import random_graph
from tests.compiler.shrink import shrink

GROUP = "truth"
ARGUMENTS = (
    COUNT.but(default=300, help="plain networks"),
    argument("--steep-count", type=int, default=60),
    FIRST,
    SECONDS,
    KEEP,
    argument("--accept", nargs="*", default=[], metavar="CODE", help="earlier states of the code that count"),
    WRITE,
    SEED.but(help="of the one network to keep"),
    argument("--steep", action="store_true", help="the class of --seed"),
    argument("--keep-as", metavar="NAME"),
)

REGRESS = ROOT / "tests" / "golden" / "regress"
EXAMPLES = 16
CLASSES = ("plain", "steep")

MANY = 64  # elements that a tensor must have for its span to say something

Line = Mapping[str, Any]


# -------------------------------------------------------------------------------------------------------------- running


def verdicts(wanted: list[tuple[str, int]], seconds: float, keep: Path | None, accepted: list[str]) -> list[Line]:
    """Verdicts of networks by class and seed; those without a problem of accepted earlier states count too."""
    code, started = digest(), time.perf_counter()
    before = [line for line in read_lines(keep) if line["code"] in accepted and not line["problem"]]
    now = [line for line in read_lines(keep) if line["code"] == code]
    known = {(line["class"], line["seed"]): line for line in (*before, *now)}
    lines = []
    gc.disable()  # one collection for many networks: a tenth of the time
    for key in wanted:
        if key not in known:
            if time.perf_counter() - started > seconds:
                break
            known[key] = {"code": code, "commit": commit(), **verdict_line(*key)}
            append(keep, known[key])
        lines.append(known[key])
        if len(lines) % 100 == 0:
            gc.collect()
            print(f"{len(lines)} networks, problems: {sum(bool(line['problem']) for line in lines)}", flush=True)
    return lines


@cache
def commit() -> str:
    shown = subprocess.run(["git", "log", "-1", "--format=%h"], cwd=ROOT, capture_output=True, text=True, check=False)
    return shown.stdout.strip() or "unknown"


def digest() -> str:
    """Hashes all that decides about a verdict."""
    files = sorted([*(ROOT / "atonc").rglob("*.py"), *(ROOT / "tests" / "compiler").glob("*.py")])
    total = hashlib.sha256()
    for path in files:
        total.update(path.relative_to(ROOT).as_posix().encode() + path.read_bytes())
    return total.hexdigest()[:12]


def verdict_line(kind: str, seed: int) -> dict[str, Any]:
    started = time.process_time()
    graph = random_graph(seed, plain=kind == "plain")
    verdict = judge(graph, seed, schedules=True)
    return {
        "class": kind,
        "seed": seed,
        "operators": len(graph.ops),
        "epochs": verdict.epochs,
        "problem": verdict.problem,
        "layers": Counter(layer_kind(layer) for layer in verdict.layers),
        "kinds": Counter(layer.op.kind for layer in verdict.layers if not layer.on_cpu),
        "values": sum(layer.elements for layer in verdict.layers),
        "different": sum(layer.different for layer in verdict.layers),
        "spans": Counter(span_of(layer) for layer in verdict.layers if layer.elements >= MANY),
        "beyond": Counter(f"{layer.op.kind} {layer.most}" for layer in verdict.layers if layer_kind(layer) == "coarse"),
        "outputs": Counter(output_kind(output) for output in verdict.outputs),
        "growth": growths(verdict),
        "promised": sum(output.expected <= WITHIN for output in verdict.outputs),
        "saturated": [describe(layer) for layer in verdict.saturated],
        "on_cpu": Counter(verdict.on_cpu),
        "schedules": {other.name: schedule_line(other) for other in verdict.schedules},
        "seconds": round(time.process_time() - started, 2),
    }


def schedule_line(other: Other) -> dict[str, Any]:
    return {"epochs": other.epochs, "copies": other.copies, "forms": other.forms}


def span_of(layer: Layer) -> str:
    return str(32 * (layer.span // 32))


def growths(verdict: Verdict) -> Counter[str]:
    """Counts, for outputs that are far, where the difference grows most and whether a layer of ours was coarse too."""
    coarse = any(layer_kind(layer) == "coarse" for layer in verdict.layers)
    far = [output.growth for output in verdict.outputs if output.far and output.growth]
    return Counter(f"{'coarse layer, then ' if coarse else ''}{growth.kind or 'own error'}" for growth in far)


def layer_kind(layer: Layer) -> str:
    if layer.most <= layer.limit:
        return "exact" if layer.most == 0 else "within"
    return "coarse" if layer.most <= layer.allowed else "saturated" if layer.saturated else "bad"


def output_kind(output: Output) -> str:
    if output.most <= WITHIN:
        return str(output.most)
    return "saturated" if output.saturated else "unexplained" if output.unexplained else "expected"


def keep_case(seed: int, plain: bool, name: str) -> str:
    """Smaller, operator by operator, as long as it fails in the same way."""
    graph = random_graph(seed, plain)
    kind = judge(graph, seed, schedules=True).kind
    if not kind:
        return "nothing fails"
    small = shrink(graph, lambda smaller: judge(smaller, seed, schedules=True).kind == kind)
    path = REGRESS / f"{name}.txt"
    path.write_text(f"# inputs {seed}\n{text.dump(small, complete=True)}")
    return f"{path.relative_to(ROOT)}: {judge(small, seed, schedules=True).problem}"


# ---------------------------------------------------------------------------------------------------------------- table


def total(lines: Iterable[Line], name: str) -> Counter[str]:
    found: Counter[str] = Counter()
    for line in lines:
        found.update(line[name])
    return found


def table(lines: list[Line]) -> str:
    columns = [[line for line in lines if line["class"] == kind] for kind in CLASSES]
    rows = zip(*(_figures(column) for column in columns), strict=True)
    page = ["# Random networks", "", state(lines), "", ABOUT, ""]
    page += ["| | plain | steep |", "|---|---|---|"]
    page += [f"| {left[0]} | {left[1]} | {right[1]} |" for left, right in rows]
    for kind, column in zip(CLASSES, columns, strict=True):
        page += ["", f"## {kind.capitalize()}", ""]
        page += ["Layers beyond 1 (2) with a reported error that large: " + _list(total(column, "beyond")), ""]
        page += ["Outputs beyond 2 by the operator that enlarges most: " + _list(total(column, "growth")), ""]
        page += ["Codes that the values of a tensor span: " + _list(total(column, "spans")), ""]
        page += ["Layers on the NPU by kind (two inputs each): " + _list(total(column, "kinds")), ""]
        page += ["Operators on the CPU: " + _list(total(column, "on_cpu")), *_remarks(column)]
    return "\n".join([*page, "", "## Mended", "", MENDED]) + "\n"


ABOUT = """Plain networks have formats that are calibrated on four example inputs, and no output has finer steps than
its inputs can tell apart (tests/compiler/random_formats.py): a code of one input is worth at most a code of the output,
and sums of many enlarge independent roundings by at most 0.75. Their outputs have to stay within 2 codes of the
source's. Steep networks have formats that fit one example, too tight or too wide, rough tables and uniform weights: one
code may become a hundred. Their outputs have to stay within what the compiler reports, and within 2 codes plus twice
what as many roundings elsewhere do to the source interpreter. All else is asked of both. Half of each class rounds as
TFLite does. Operators whose single code decides everything (states, whole numbers) read inputs of the network in the
plain class; elsewhere they may stand anywhere. Silent layers, which never answered while they were calibrated, read
inputs in both: one rounding before them moves a value over the whole range, as the compiler reports (255 codes), and no
number of trials says how often. 150 networks of a convolution, a silent layer and a mean had 9 outputs beyond 2 codes;
the silent layers were exact on what they got and the means within a code: it is the rounding before them."""


MENDED = """Found by these networks and mended since: the error of PReLU's negative branch was not reported (steep, by
hypothesis); sums beyond the 24 bits between units were not reported (plain 1263, kept as `chain_beyond_24_bits`); lines
too long for the units under windows of stride 2, refused by the compiler's own check at 5f891b1 (plain 626, kept as
`stride_2_long_lines`); ordinary channels beside a degenerate one lost their bits, with a declared error of the whole
range (plain 2, 12, 20 and 26 with the operators of random_more_ops.py; now refused by name)."""


def _figures(lines: list[Line]) -> list[tuple[str, object]]:
    problems = Counter(line["problem"].split(":")[0] for line in lines if line["problem"])
    layers, outputs = total(lines, "layers"), total(lines, "outputs")
    seeds = [line["seed"] for line in lines] or [0]
    values = sum(line["values"] for line in lines)
    return [
        ("networks", len(lines)),
        ("seeds", f"{min(seeds)} to {max(seeds)}"),
        ("operators", sum(line["operators"] for line in lines)),
        ("epochs", sum(line["epochs"] for line in lines)),
        ("**networks with any problem**", sum(problems.values())),
        ("- that crash, are refused or break a rule", _others(problems)),
        ("- where the emulator differs from the mapped integer semantics", problems["meaning"]),
        ("- with a layer further from exact arithmetic than 1 (tables 2) or the reported error", problems["layer"]),
        ("- with a layer further from it than reported", problems["report"]),
        ("- with an output that is too far from the source", problems["output"]),
        ("- with another byte in an output under another schedule", problems["schedule"]),
        ("values compared bit for bit with the mapped semantics", values),
        ("- that differ from exact arithmetic on the same inputs", sum(line["different"] for line in lines)),
        ("layers compared with exact arithmetic (two inputs each)", sum(layers.values())),
        ("- exact", layers["exact"]),
        ("- within 1 code (tables 2)", layers["within"]),
        ("- further, and the compiler reports an error that large (16-bit partial sums)", layers["coarse"]),
        ("- further, and the compiler reports that a sum may saturate, and one did", layers["saturated"]),
        ("- further, not explained", layers["bad"]),
        ("outputs compared with the source, free-running", sum(outputs.values())),
        ("- exact, 1, 2 codes", ", ".join(str(outputs[k]) for k in "012")),
        ("- further, behind a reported sum that saturated", outputs["saturated"]),
        ("- further, as far as the compiler and roundings elsewhere allow", outputs["expected"]),
        ("- further, not explained", outputs["unexplained"]),
        ("outputs for which the compiler promises 2 codes at most", sum(line["promised"] for line in lines)),
        *_schedules(lines),
        ("CPU seconds", round(sum(line["seconds"] for line in lines))),
    ]


def _schedules(lines: list[Line]) -> list[tuple[str, object]]:
    """Networks of earlier states were compiled under the usual schedule only."""
    done = [(line["epochs"], line["schedules"]) for line in lines if line.get("schedules")]
    plain, moved = ([others[name] for _, others in done] for name in ("without passes", "weights in RAM"))
    return [
        ("networks compiled under three schedules, outputs compared byte for byte", len(done)),
        ("- epochs as usual (fuse, lanes, pack)", sum(epochs for epochs, _ in done)),
        ("- epochs without any pass", sum(other["epochs"] for other in plain)),
        ("- of them with lanes, since other forms would be chosen without", sum(bool(o.get("forms")) for o in plain)),
        ("- copies of weights in RAM, kept there or fetched ahead", sum(other["copies"] for other in moved)),
    ]


def state(lines: list[Line]) -> str:
    """Which code, and when."""
    found = Counter((line["commit"], line["code"]) for line in lines)
    codes = ", ".join(f"{number} at commit {name} (code {code})" for (name, code), number in found.items())
    return f"{datetime.now(UTC).strftime('%Y-%m-%d %H:%M UTC')}; networks: {codes}."


def _others(problems: Counter[str]) -> int:
    return sum(n for kind, n in problems.items() if kind not in ("meaning", "layer", "report", "output", "schedule"))


CAUSES: dict[tuple[str, int], str] = {}  # of problems that were looked into, by class and seed


def _remarks(lines: list[Line]) -> list[str]:
    found = [f"seed {line['seed']}: {line['problem']}{_cause(line)}" for line in lines if line["problem"]]
    found += [f"seed {line['seed']}: saturated: {what}" for line in lines for what in line["saturated"]]
    if not found:
        return []
    return ["", f"First of {len(found)} remarks:", "", *(f"- {remark[:480]}" for remark in found[:EXAMPLES])]


def _cause(line: Line) -> str:
    cause = CAUSES.get((line["class"], line["seed"]))
    return f". Cause: {cause}" if cause else ""


def _list(counter: Counter[str]) -> str:
    def order(item: tuple[str, int]) -> tuple[int, str, int]:
        name, _, last = item[0].rpartition(" ")
        return (1, name, int(last)) if last.isdigit() else (0, item[0], 0)

    return ", ".join(f"{key}: {number}" for key, number in sorted(counter.items(), key=order)) or "none"


def run(arguments: argparse.Namespace) -> Report:
    if arguments.keep_as:
        print(keep_case(arguments.seed, not arguments.steep, arguments.keep_as))
        return Report()
    seeds = [("plain", k) for k in range(arguments.count)] + [("steep", k) for k in range(arguments.steep_count)]
    wanted = [(kind, arguments.first + k) for kind, k in seeds]
    lines = verdicts(wanted, arguments.seconds, arguments.keep, arguments.accept)
    return Report(table(lines), failed=any(line["problem"] for line in lines))
