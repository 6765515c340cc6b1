"""Damages planted into quantised files of ours and of onnxruntime's: which line of `explain --accuracy` finds each?

The models and samples are those of `quantize`; the report gets the float model and four samples that no quantiser saw.
Every file is looked at as it is first: nothing is wrong with it, and the report must say so.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from atonc.compiler.compile.pipeline import compile_graph
from atonc.compiler.frontends.onnx_qdq import read_onnx
from atonc.compiler.frontends.read import read
from atonc.compiler.ir import Graph, Op, layer_name
from atonc.compiler.request.options import Options
from atonc.insight.accuracy import edits
from atonc.insight.accuracy.explain import examine
from atonc.insight.accuracy.twin import SUMMED, is_format
from atonc.insight.explain.types import AccuracyReport
from atonc.insight.quantizing.graph import FloatGraph
from atonc.insight.quantizing.loading import load
from atonc.machine.base.frozen import dataclass
from benchmarks.quantize import by_onnxruntime
from benchmarks.shared.corpus import asked_for
from benchmarks.shared.declare import FLOATS, KEEP, ONLY, WRITE, Report, argument
from benchmarks.shared.kept import Kept
from benchmarks.shared.quantize_models import MODELS
from benchmarks.shared.quantize_samples import samples
from benchmarks.shared.tables import table

GROUP = "quantising"
ARGUMENTS = (
    FLOATS,
    argument("--made", type=Path, metavar="DIR", help="what `quantize --save` wrote; none: the records alone"),
    ONLY,
    KEEP.but(required=True),
    WRITE,
)

SEEN = 4  # samples that the report gets
OPTIONS = Options(verify=False, allow_float=True)
MATTERS_DB = 3.0  # of the outputs: a damage that costs no more is less than all that 8 bits cost anyway
TURNED = 8  # every so many channels
MAKERS = ("ours", "onnxruntime's")
CLOSING = """onnxruntime's file of resnet8 is not as good as it could be, and the report says so: its average pooling
keeps the scale of its input, whose values are several times larger, and a range of its own is worth 7 dB. That is how
this tool writes every average pooling; nobody damaged the file.

Moving the zero point of a layer of onnxruntime's takes its ReLU away where that was written as a range that begins at
zero. The line says so, with the range that brings it back.

Models whose files are not in the tables were left out for want of processor time. On 2026-11-17 the records were made
within an hour in which the report was mended; what it had missed was looked at again with the last state, the rest was
not."""


@dataclass(frozen=True)
class Damage:
    title: str
    plant: Callable[[Graph, Op], Graph]


# ------------------------------------------------------------------------------------------------------------- damages


def spanning(shares: tuple[float, float], moved: int = 0) -> Callable[[Graph, Op], Graph]:
    """The range of the layer's result becomes so much of what it is, and goes down or up by so many codes."""

    def plant(graph: Graph, op: Op) -> Graph:
        name = written(graph, op)
        old = graph.tensors[name]
        first, last = old.code_range
        codes = moved if old.zero_point + moved <= last else -moved
        low, high = ((code - old.zero_point - codes) * old.scale for code in (first, last))
        return edits.refit(graph, name, low * shares[0], high * shares[1])

    return plant


def turned(graph: Graph, op: Op) -> Graph:
    """Some channels have the other sign."""
    codes = np.asarray(graph.tensors[op.inputs[1]].data).copy()
    codes[::TURNED] = -np.maximum(codes[::TURNED], -127)
    return with_data(graph, op.inputs[1], codes)


def clipped(graph: Graph, op: Op) -> Graph:
    """Scales of an eighth: most weights are at the end of their range."""
    old = graph.tensors[op.inputs[1]]
    assert old.quant is not None
    codes = np.clip(np.asarray(old.data).astype(int) * 8, -127, 127).astype(np.int8)
    quant = replace(old.quant, scales=np.asarray(old.quant.scales) / 8)
    bias = graph.tensors[op.inputs[2]]
    changed = replace(graph, tensors={**graph.tensors, old.name: replace(old, data=codes, quant=quant)})
    if bias.quant is None and not bias.is_float:  # it counts in units of what is multiplied
        return with_data(changed, bias.name, np.asarray(bias.data) * 8)
    return changed


def without_bias(graph: Graph, op: Op) -> Graph:
    return with_data(graph, op.inputs[2], np.zeros_like(graph.tensors[op.inputs[2]].data))


def with_data(graph: Graph, name: str, data: Any) -> Graph:
    return replace(graph, tensors={**graph.tensors, name: replace(graph.tensors[name], data=data)})


DAMAGES = (
    Damage("range an eighth as wide", spanning((1 / 8, 1 / 8))),
    Damage("range 40 times as wide", spanning((40, 40))),
    Damage("zero point moved by 90 codes", spanning((1, 1), 90)),
    Damage(f"every {TURNED}th channel of the other sign", turned),
    Damage("weights clipped at an eighth", clipped),
    Damage("biases lost", without_bias),
)


def places(graph: Graph) -> list[Op]:
    """Layers with weights and biases in codes, whose result has a format and is not an output."""
    return [op for op in graph.ops if op.kind in SUMMED and len(op.inputs) > 2 and op.inputs[2]
            and graph.tensors[op.inputs[1]].quant is not None and graph.tensors[op.inputs[1]].is_constant
            and written(graph, op) not in ("", *graph.outputs)]  # fmt: skip


def written(graph: Graph, op: Op) -> str:
    """The first tensor with a format that the layer's values become; empty if there is none."""
    name = op.outputs[0]
    while not is_format(graph.tensors[name]):
        readers = graph.consumers.get(name, [])
        if len(readers) != 1 or name in graph.outputs:
            return ""
        name = readers[0].outputs[0]
    return name


# ------------------------------------------------------------------------------------------------------------- reports


def looked_at(key: str, maker: str, arguments: argparse.Namespace, kept: Kept) -> Iterator[dict[str, Any]]:
    """The sound file, then every damage at a layer of its own, from the first to the last."""
    wanted = [f"{key}, {maker}, {title}" for title in ("", *(damage.title for damage in DAMAGES))]
    if all(name in kept for name in wanted):
        yield from (kept[name] for name in wanted)
        return
    graph, original, given = files(key, maker, arguments)
    sound = kept.of(wanted[0], lambda: sound_row(key, maker, report(graph, original, given)))
    yield sound
    found = places(graph)
    for number, damage in enumerate(DAMAGES):
        op = found[len(found) * (2 * number + 1) // (2 * len(DAMAGES))]
        yield kept.of(
            wanted[number + 1],
            lambda damage=damage, op=op: damaged_row(sound, damage, op, damage.plant(graph, op), (original, given)),
        )


def files(key: str, maker: str, arguments: argparse.Namespace) -> tuple[Graph, Graph, list[dict[str, Any]]]:
    """The quantised file, the float one as its owner has it, and samples."""
    model, path = MODELS[key], arguments.floats / MODELS[key].file
    tidy = load(path, model.shapes)
    graph = FloatGraph(tidy)
    (name,) = graph.inputs
    if maker == "ours":
        data = (arguments.made / f"{key}.onnx").read_bytes()
    else:
        data = by_onnxruntime(tidy, name, samples(model, arguments.floats, graph.shapes[name], "learn"), "MinMax")
    original = read(path) if path.suffix == ".tflite" else read_onnx(tidy.SerializeToString())
    given = samples(model, arguments.floats, graph.shapes[name], "dev")[:SEEN]
    quantised = read_onnx(data)
    return quantised, original, [{quantised.inputs[0]: value} for value in given]


def report(graph: Graph, original: Graph, given: list[dict[str, Any]]) -> AccuracyReport:
    return examine(compile_graph(graph, OPTIONS), original, given, OPTIONS)


def outputs_db(found: AccuracyReport) -> float:
    return round(fmean(exact for _, exact, _ in found.outputs), 1)


def sound_row(key: str, maker: str, found: AccuracyReport) -> dict[str, Any]:
    return {"model": key, "maker": maker, "db": outputs_db(found), "verdict": found.verdict.partition(":")[0],
            "first": _line(found, 0)}  # fmt: skip


def damaged_row(
    sound: dict[str, Any], damage: Damage, op: Op, graph: Graph, reference: tuple[Graph, list[dict[str, Any]]]
) -> dict[str, Any]:
    compiled = compile_graph(graph, OPTIONS)
    found = examine(compiled, reference[0], reference[1], OPTIONS)
    tensor = written(graph, op)
    names = {op.name} | {layer_name(one) for one in compiled.graph.ops
                         if tensor in one.outputs or op.name in (one.name, *one.origin)}  # fmt: skip
    line = next((number for number, one in enumerate(found.findings, 1)
                 if one.layer in names or one.tensor == tensor), 0)  # fmt: skip
    return {**sound, "damage": damage.title, "layer": op.name, "line": line, "sound_db": sound["db"],
            "db": outputs_db(found), "verdict": found.verdict.partition(":")[0],
            "symptom": found.findings[line - 1].symptom if line else "", "first": _line(found, 0)}  # fmt: skip


def _line(found: AccuracyReport, number: int) -> str:
    if number >= len(found.findings):
        return ""
    one = found.findings[number]
    best = max((remedy.gain_db for remedy in one.remedies if not remedy.more_bits), default=0.0)
    return f"{one.layer[:40]}, {one.part}, {one.symptom}, mended by {best:.1f} dB"


# --------------------------------------------------------------------------------------------------------------- table


def run(arguments: argparse.Namespace) -> Report:
    kept = Kept(arguments.keep)
    made = {path.stem for path in arguments.made.glob("*.onnx")} if arguments.made else set()
    keys = [key for key in MODELS if key in made and asked_for(arguments.only, key)]
    rows = [row for key in keys for maker in MAKERS for row in looked_at(key, maker, arguments, kept)]
    rows = rows or list(kept.values())
    sound, hurt = ([row for row in rows if ("damage" in row) == wanted] for wanted in (False, True))
    large = [row for row in hurt if round(row["sound_db"] - row["db"], 1) > MATTERS_DB]
    said = [row for row in sound if row["verdict"] == "nothing is wrong"]
    found = [row for row in large if row["line"] in (1, 2)]
    page = [
        "# Damaged files of ours and of onnxruntime's",
        "",
        *(__doc__ or "").splitlines()[2:],
        "",
        f'{len(said)} of {len(sound)} sound files: "nothing is wrong". {len(found)} of {len(large)} damages that cost '
        f"the outputs more than {MATTERS_DB:.0f} dB (more than all else together) are the first or second line; "
        f"{len(hurt) - len(large)} cost less.",
        "",
        *table(("model", "file", ">outputs, dB", "verdict", "first line"),
               [(r["model"], r["maker"], r["db"], r["verdict"], r["first"]) for r in sound]),
        "",
        *table(("model", "file", "damage", "layer", ">outputs, dB", ">line", "symptom", "verdict"),
               [(r["model"], r["maker"], r["damage"], r["layer"][:40], f"{r['sound_db']} to {r['db']}", r["line"],
                 r["symptom"], r["verdict"]) for r in hurt]),
        "",
        CLOSING,
    ]  # fmt: skip
    accused = [row for row in sound if row not in said and row["maker"] == "ours"]
    return Report("\n".join(page) + "\n", failed=bool(accused) or len(found) < len(large))
