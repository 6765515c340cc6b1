"""Models that few samples put outside the bounds of `atonc validate`: what many samples say, which layers bring it.

The models are those of results/public_models.md that are called *differs* there or have an output below the cosine of
`validate`, on the two inputs of that table, and ALSO. They are looked for by their fingerprint in the folders; nothing
is downloaded. The program is run in its integer semantics, which the emulator equals bit for bit (every compilation
and the tests see to that).
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np

from atonc.compiler.compile.pipeline import Compiled, compile_file
from atonc.compiler.inputs.inputs import program_inputs, real
from atonc.compiler.ir import Array, Op
from atonc.compiler.lower.semantics.run import mapped_op, run_mapped
from atonc.compiler.ops import run_op
from atonc.compiler.ops.run import start_values
from atonc.compiler.request.options import Options
from atonc.insight.validating import judging, validating
from atonc.insight.validating.judging import OutputResult, distance, unit_of
from atonc.insight.validating.references import References
from benchmarks.public_models import fingerprint
from benchmarks.shared import tables
from benchmarks.shared.corpus import asked_for, models_in
from benchmarks.shared.declare import FOLDERS, FRESH, KEEP, ONLY, WRITE, Report
from benchmarks.shared.kept import Kept
from benchmarks.shared.pages import result

GROUP = "truth"
ARGUMENTS = (FOLDERS, ONLY, KEEP, FRESH, WRITE)

SURVEY = result("public_models")
ALSO = {
    "STMicroelectronics/stm32ai-modelzoo@ea27f2e:food-101/mobilenet_v1_0.5_224_tl_int8.tflite": "af8ca69ff4ee",
}
SURVEYED = 2  # inputs
LOOKED_AT, LARGE_BYTES = (6, 2), 500_000  # layer by layer: of the inputs those that are furthest, few of large models
MUCH, MANY = 0.25, 5  # of the whole distance by one layer; so many such layers are no fault of one
Record = dict[str, Any]
Values = dict[str, Array]
Change = Callable[[Op, list[Array], Mapping[str, Array]], list[Array]]


# ------------------------------------------------------------------------------------------------------- the models


def surveyed() -> dict[str, str]:
    """By fingerprint: the model's name in the table."""
    found = {mark: name for name, mark in ALSO.items()}
    for line in SURVEY.read_text().splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) <= 9 or cells[3] not in ("verified", "differs"):
            continue
        if cells[3] == "differs" or float(cells[8]) < judging.MIN_COSINE:
            found[cells[2]] = cells[1].split(";")[0]
    return found


def files(folders: list[Path]) -> dict[str, Path]:
    paths = (path for folder in folders for path in models_in(folder))
    return {fingerprint(path): path for path in paths if path.stat().st_size}


# ------------------------------------------------------------------------------------------------------- one model


@dataclass(frozen=True)
class Network:
    """A compiled network and some inputs of it."""

    compiled: Compiled
    inputs: list[Mapping[str, Array]]

    def on_npu(self, op: Op) -> bool:
        return op.name not in self.compiled.mapped.on_cpu

    def npu(self, op: Op, exact: list[Array], values: Mapping[str, Array]) -> list[Array]:
        """As the program computes it."""
        return mapped_op(self.compiled.mapped.context, op, values) if self.on_npu(op) else exact

    def run(self, sample: int, change: Change, known: Values | None = None) -> Values:
        """All values; `known` those of exact arithmetic, taken over where nothing before was changed."""
        graph = self.compiled.graph
        values = start_values(graph, self.inputs[sample])
        for op in graph.ops:
            same = known is not None and all(values[name] is known.get(name) for name in op.inputs if name)
            exact = [known[name] for name in op.outputs] if known is not None and same else self._exact(op, values)
            changed = change(op, exact, values)
            kept = [old if np.array_equal(old, new) else new for old, new in zip(exact, changed, strict=True)]
            values |= zip(op.outputs, kept, strict=True)
        return values

    def _exact(self, op: Op, values: Mapping[str, Array]) -> list[Array]:
        return [result.codes for result in run_op(self.compiled.graph, op, values)]

    def outputs(self, values: Mapping[str, Array]) -> list[Array]:
        graph = self.compiled.graph
        return [real(graph.tensors[name], values[name]).astype(np.float32) for name in graph.outputs]


def measure(model: Path) -> Record:
    started = time.perf_counter()
    with References(model) as references:
        compiled = compile_file(model, Options(verify=False))
        samples = validating.synthetic_samples(compiled.source, validating.most_samples(compiled.graph))
        network = Network(compiled, [program_inputs(compiled, sample) for sample in samples])
        kernels: dict[str, list[list[Array]]] = {}
        for sample in samples:
            for title, values in references.outputs(compiled, sample).items():
                kernels.setdefault(title, []).append(values)
    program = [network.outputs(run_mapped(compiled.graph, compiled.mapped, inputs)) for inputs in network.inputs]
    found = [_result(compiled, k, program, kernels) for k in range(len(compiled.graph.outputs))]
    worst = min(range(len(found)), key=lambda k: found[k].metrics.cos)
    yardstick = next(iter(kernels.values()))
    count = LOOKED_AT[model.stat().st_size > LARGE_BYTES]
    furthest = sorted(range(len(samples)), key=lambda k: -found[worst].squares[k])[:count]
    looked_at = Network(compiled, [network.inputs[k] for k in furthest])
    record = _verdict(found[worst]) | _layers(looked_at, worst, [yardstick[k][worst] for k in furthest])
    return record | {"seconds": round(time.perf_counter() - started)}


def _result(
    compiled: Compiled, k: int, program: list[list[Array]], kernels: dict[str, list[list[Array]]]
) -> OutputResult:
    sides = {title: np.stack([values[k] for values in ran]) for title, ran in kernels.items()}
    expected = next(iter(sides.values()))
    name = compiled.graph.outputs[k]
    unit = unit_of(compiled.graph, name, expected)
    mine = distance("program", expected, np.stack([values[k] for values in program]), unit)
    spread = tuple(distance(title, expected, side, unit) for title, side in list(sides.items())[1:])
    return OutputResult(name, mine.metrics, mine.max_lsb, spread, mine.squares)


def _verdict(output: OutputResult) -> Record:
    times = judging.ratio(output)
    few = [sum(side.squares[:SURVEYED]) for side in (output, *output.spread)]
    return {
        "output": output.name,
        "cos": output.metrics.cos,
        "kernels": min((sibling.metrics.cos for sibling in output.spread), default=1.0),
        "few": sqrt(few[0] / max(few[1:])) if max(few[1:], default=0.0) else None,
        "ratio": None if times is None else [times.value, times.low, times.high],
        "verdict": judging.judge(output),
    }


def _layers(network: Network, k: int, expected: list[Array]) -> Record:
    """Distances of the output with one layer after the other as the NPU computes it, and with as many codes off at
    random places; each over the distance of the whole program."""
    graph, count = network.compiled.graph, len(network.inputs)
    exact = [network.run(sample, lambda op, codes, values: codes) for sample in range(count)]
    differ = {op.name: [_differing(network, op, exact[sample]) for sample in range(count)] for op in graph.ops}

    def far(change: Change) -> float:
        runs = [network.outputs(network.run(sample, change, exact[sample]))[k] for sample in range(count)]
        return sqrt(float(np.mean([np.mean(np.square(run - want)) for run, want in zip(runs, expected, strict=True)])))

    whole = far(network.npu)
    alone = {}
    for op in graph.ops:
        if any(differ[op.name]):
            alone[op.name] = far(partial(_only, network, op))
    noise = far(_noise(graph, {name: sum(counts) / count for name, counts in differ.items()}))
    reading = far(lambda op, codes, values: codes)
    ordered = sorted(alone.items(), key=lambda item: -item[1])
    return {
        "whole": whole,
        "alone": [[name, found / whole if whole else 0.0] for name, found in ordered],
        "layers": sum(network.on_npu(op) for op in graph.ops),
        "noise": noise / whole if whole else 0.0,
        "reading": reading / whole if whole else 0.0,
    }


def _only(network: Network, one: Op, op: Op, codes: list[Array], values: Mapping[str, Array]) -> list[Array]:
    """One layer as on the NPU."""
    return network.npu(op, codes, values) if op is one else codes


def _differing(network: Network, op: Op, values: Values) -> int:
    if not network.on_npu(op):
        return 0
    got = mapped_op(network.compiled.mapped.context, op, values)
    return int(sum(np.count_nonzero(new != values[name]) for name, new in zip(op.outputs, got, strict=True)))


def _noise(graph: Any, rates: Mapping[str, float]) -> Change:
    rng = np.random.default_rng(3)

    def change(op: Op, codes: list[Array], values: Mapping[str, Array]) -> list[Array]:
        number = rng.poisson(rates[op.name])
        if not number or codes[0].dtype != np.int8:
            return codes
        moved = codes[0].astype(np.int64).reshape(-1).copy()
        places = rng.integers(0, moved.size, number)
        moved[places] += rng.choice((-1, 1), number)
        low, high = op.attrs.get("clip") or (-128, 127)
        return [np.clip(moved, low, high).astype(np.int8).reshape(codes[0].shape), *codes[1:]]

    return change


# --------------------------------------------------------------------------------------------------------- the table


def cause(model: str, record: Record) -> str:
    much = [name for name, share in record["alone"] if share >= MUCH]
    if record["reading"] > 0.1:
        why = ": onnxruntime adds floats in its own order, each operator is within a code" * model.endswith(".onnx")
        return f"the graph in exact arithmetic is itself {record['reading']:.2f} of it away from the reference{why}"
    if len(much) >= MANY:
        return (
            f"chaos: each of {len(much)} of {record['layers']} layers alone brings a quarter of it or more; as many "
            f"codes off at random places bring {record['noise']:.2f} of it"
        )
    if not record["alone"]:
        return "nothing on these samples"
    return f"few values near a half: rounding of {', '.join(much[:2]) or record['alone'][0][0]} (16 bits of its sums)"


def row(name: str, record: Record) -> str:
    ratio = record["ratio"]
    times = "kernels equal" if ratio is None else f"{ratio[0]:.2f} ({ratio[1]:.2f} to {ratio[2]:.2f})"
    few = "kernels equal" if record["few"] is None else f"{record['few']:.2f}"
    most = ", ".join(f"{layer} {share:.2f}" for layer, share in record["alone"][:3])
    cosines = f"{record['cos']:.5f}", f"{record['kernels']:.5f}"
    return tables.row((name, few, *cosines, times, record["verdict"], most, cause(name, record)))


def report(records: dict[str, Record], missing: list[str]) -> str:
    verdicts = [record["verdict"] for record in records.values()]
    ratios = [record["ratio"][0] for record in records.values() if record["ratio"]]
    lines = [
        "# Models that few samples put outside the bounds of `atonc validate`",
        "",
        "All models of `public_models.md` that are called",
        f"*differs* there or have an output below cosine {judging.MIN_COSINE} on its {SURVEYED} inputs (13 of them",
        "were outside by that), and a classifier found later. Here as many inputs as `validate` takes where its",
        f"verdict is open: {validating.MOST_SAMPLES}, fewer where outputs are pictures; worst output. *ratio*: root",
        "mean square distance of the program from the reference over that of its furthest sibling (TFLite's optimised",
        f"or XNNPACK kernels, onnxruntime with optimisation), with two standard errors; {judging.MARGIN} passes.",
        f"*of {SURVEYED}*: the same ratio on the inputs of the survey. *layers*: the three that bring most when they",
        "alone are as on the NPU and all others exact, as parts of the whole distance. That is on the",
        f"{LOOKED_AT[0]} inputs that are the program's worst ({LOOKED_AT[1]} of large models): codes off at random",
        "places, as many in each layer as on the NPU, have other worst inputs.",
        "The 21 smallest models were measured before the addends of means were chosen by looking at all sums",
        "(`lower/pool/means.py`), which moves single codes in front of a classifier.",
        "",
        f"{len(records)} models: {verdicts.count(judging.CLOSE)} close by themselves, {verdicts.count(judging.SPREAD)} "
        f"within the kernels' spread, {verdicts.count(judging.FAR)} too far. The median of the ratio is "
        f"{np.median(ratios):.2f}: these networks were chosen because two inputs put them far, and many inputs put "
        "them where the reference's own kernels are. Not measured: " + (", ".join(missing) or "none") + ".",
        "",
        f"| model | of {SURVEYED} | cosine | kernels | ratio | verdict | layers | cause |",
        "|---|---|---|---|---|---|---|---|",
    ]
    return "\n".join([*lines, *(row(name, record) for name, record in sorted(records.items())), ""])


Found = Iterator[tuple[str, Record]]


def results(arguments: argparse.Namespace, wanted: dict[str, str], found: dict[str, Path]) -> Found:
    kept = Kept(arguments.keep, arguments.fresh)
    for mark in sorted(wanted.keys() & found.keys(), key=lambda mark: found[mark].stat().st_size):
        if asked_for(arguments.only, wanted[mark]):
            kept.of(mark, partial(measure, found[mark]))
            print(row(wanted[mark], kept[mark]), kept[mark]["seconds"], "s", file=sys.stderr, flush=True)
        if mark in kept:
            yield wanted[mark], kept[mark]


def run(arguments: argparse.Namespace) -> Report:
    wanted, found = surveyed(), files(arguments.folders)
    records = dict(results(arguments, wanted, found))
    text = report(records, sorted(set(wanted.values()) - records.keys()))
    return Report(text)
