"""Transformers in many spellings, by several quantisers: milliseconds, what is left on the CPU, how exact.

Look-alikes of published networks have random weights and are made here; public files are looked for in the folder of
`--fetched` (or $ATONC_FETCHED), copies of repositories as OWNER+NAME, and left out where they are not there; the first
digits of their SHA-256 say which ones were measured. Every layer is verified on the emulator; keys and values of a
decoder are states, and its frames are compared with the chain of the same codes. Decibels are signal to noise against
float, mean over samples that nobody learnt from: in the chip's arithmetic, and beside it the same file in onnxruntime.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from atonc.compiler.compile.compile_view import CompileView
from atonc.compiler.frontends.read import read as read_model
from atonc.compiler.request.options import ALL_FREE, Options
from atonc.delivery.generate.generating import analyze
from atonc.insight.quantizing.judge import Signal
from atonc.insight.quantizing.observe import outputs, threads, watch
from atonc.insight.quantizing.price import chip_outputs
from atonc.insight.quantizing.run import quantize
from atonc.insight.quantizing.types import QuantizeOptions
from atonc.machine.base.errors import AtoncError
from benchmarks.quantize import by_onnxruntime
from benchmarks.shared import transformer_models as models
from benchmarks.shared.corpus import asked_for
from benchmarks.shared.declare import FETCHED, KEEP, ONLY, WRITE, Report, argument
from benchmarks.shared.kept import read, write
from benchmarks.shared.tables import in_a_cell, table
from benchmarks.streaming import followed, pairs_of

GROUP = "quantising"
ARGUMENTS = (
    FETCHED.but(required=False, default=()),
    ONLY,
    KEEP.but(default=Path("transformers.json")),
    argument("--long", action="store_true", help="also the encoder of 1,500 tokens, which is only compiled"),
    WRITE,
)
LEARNT, HELD, FRAMES = 24, 6, 50
MINCHO = "minchoCoin+stm32n6-transformer/prebuilt_binary"
CALCULATOR = "packetqc+AI/models/npu_export"
PUBLIC = {
    "ViT-B v1 (minchoCoin)": (f"{MINCHO}/v1/custom_vit_ln_im160_attdim144_depth6_head4_ff576.tflite", "TFLite", 12.0),
    "ViT-B v2 (minchoCoin)": (
        f"{MINCHO}/v2/v2_custom_vit_ln_im160_attdim144_depth6_head4_ff576.tflite", "TFLite", 12.0),
    "tiny_bert 30x128 (TitoNicolaDrugman)": (
        "TitoNicolaDrugman+Transformer-NPU-STM32N6/st_modelzoo/src/experiments_outputs/2025_06_28_16_09_21/"
        "quantized_models/quantized_model.tflite", "TFLite", 7.0),
    "calculator, body (packetqc)": (f"{CALCULATOR}/model_npu_body_v17.onnx", "torch, onnxruntime; RMS in float", 0.0),
    "calculator, tokens (packetqc)": (
        f"{CALCULATOR}/model_npu_qdq_clean.onnx", "torch, onnxruntime; RMS in float", 0.0),
    "calculator, products only (packetqc)": (f"{CALCULATOR}/model_npu_qdq_matmul.onnx", "only MatMul quantised", 0.0),
}  # fmt: skip
LOOK_ALIKES = {
    "ViT 101x144, 6 layers": (partial(models.encoder, tokens=101, width=144, heads=4, depth=6), 12.0),
    "whisper encoder, 250 tokens": (partial(models.whisper, frames=500), 60.0),
    "conformer 128x144, 2 layers": (partial(models.conformer, tokens=128, width=144, heads=4, depth=2), 7.5),
    "GPT 128x6, one token": (partial(models.token_decoder, width=128, heads=4, depth=6, context=256), 5.0),
}
RESIDENT_TARGETS = {"GPT 128x6, one token": 3.0}
LONG = "whisper encoder, 1,500 tokens"
SMALL = {
    "encoder 64x96, norms in parts": partial(models.encoder, tokens=64, width=96, heads=3, depth=2),
    "encoder 64x96, norms by Pow and Div": partial(
        models.encoder, tokens=64, width=96, heads=3, depth=2, spelling="pow"),
    "encoder 64x96, norms as tf2onnx": partial(
        models.encoder, tokens=64, width=96, heads=3, depth=2, spelling="keras"),
    "encoder 64x96, LayerNormalization": partial(
        models.encoder, tokens=64, width=96, heads=3, depth=2, spelling="layer_norm"),
    "decoder 32x96, RMS, causal mask": partial(models.decoder, tokens=32, width=96, heads=3, depth=2),
    "conformer 64x96, LayerNormalization": partial(
        models.conformer, tokens=64, width=96, heads=4, depth=1, spelling="layer_norm"),
}  # fmt: skip
COLUMNS = (
    "network", "file", ">asked, ms", ">default, ms", ">weights in RAM, ms", "verified", ">dB, chip", ">dB, onnxruntime",
    ">compiled, s", "on the CPU: layers, ms, rule",
)  # fmt: skip
CPU_ENDS = ("CPU-QUANTIZE", "CPU-DEQUANTIZE")  # where float values enter and leave

Row = dict[str, Any]


@dataclass(frozen=True)
class Reference:
    """A float model, or none, and samples."""

    model: Any
    samples: list[dict[str, np.ndarray]]


def ranges(samples: list[dict[str, np.ndarray]], model: Any, names: list[str]) -> dict[str, tuple[float, float]]:
    found = {name: (0.0, 0.0) for name in names}
    for values in watch(model, samples, names, "ranges"):
        found = {n: (min(found[n][0], float(v.min())), max(found[n][1], float(v.max()))) for n, v in values.items()}
    return found


def on_cpu(view: CompileView) -> str:
    """Kinds of layers with the rule that sends them there; what they cost together."""
    rules = {reason.node: (reason.op, reason.rule.id) for reason in view.compiled.choices.reasons}
    spent, count = defaultdict[tuple[str, str], float](float), defaultdict[tuple[str, str], int](int)
    for step, cost in zip(view.compiled.program.steps, view.cost.steps, strict=True):
        if cost.bound_by == "cpu":
            key = rules[step.plan.op]  # type: ignore[union-attr]
            spent[key] += cost.milliseconds
            count[key] += 1
    listed = sorted((key for key in spent if key[1] not in CPU_ENDS), key=lambda key: -spent[key])
    return "; ".join(f"{count[key]} {key[0]} {spent[key]:.2f} {key[1]}" for key in listed) or "none"


def measured(path: Path, reference: Reference | None, verify: bool = True) -> Row:
    started = time.process_time()
    try:
        options = Options(verify=verify, allow_float=True, states=pairs_of(read_model(path)))
        view = analyze(path, options)
    except AtoncError as error:
        return {"refused": error.one_line}
    seconds, report = time.process_time() - started, view.compiled.report
    resident = analyze(path, replace(options, verify=False, resident=ALL_FREE)) if verify else None
    row: Row = {"ms": view.cost.latency_ms, "resident_ms": None, "seconds": seconds, "cpu": on_cpu(view)}
    row["verified"] = (
        "not asked" if report is None else f"{len(view.compiled.graph.ops)} layers, {report.worst_layer:g} LSB"
    )
    if resident is not None:
        row["resident_ms"] = resident.cost.latency_ms
    if options.states:  # both programs frame by frame; decibels are those of a single token
        bytes_different = [followed(one.compiled, FRAMES).different for one in (view, resident) if one is not None]
        row["verified"] += f"; {FRAMES} frames, {sum(bytes_different)} bytes different"
        view = analyze(path, replace(options, verify=False, states=()))
    if reference is not None:
        wanted = outputs(reference.model, reference.samples)
        chip = chip_outputs(view.compiled, reference.samples)
        shaped = [[v.reshape(w.shape) for v, w in zip(*pair, strict=True)] for pair in zip(chip, wanted, strict=True)]
        row["chip_db"] = Signal.of(wanted, shaped).db
        row["file_db"] = Signal.of(wanted, outputs(path.read_bytes(), reference.samples)).db
    return row


def cases(arguments: argparse.Namespace, folder: Path) -> Iterator[tuple[str, str, float, Path, Reference | None]]:
    """Network, what made the file, milliseconds that were asked for, the file, and what is judged against."""
    fetched = [*arguments.fetched, *([Path(os.environ["ATONC_FETCHED"])] if "ATONC_FETCHED" in os.environ else [])]
    for name, (place, made_by, asked) in PUBLIC.items():
        for path in (root / place for root in fetched if (root / place).exists()):
            digest = hashlib.sha256(path.read_bytes()).hexdigest()[:12]
            yield name, f"{made_by} ({digest})", asked, path, None
            break
    for name, (build, asked) in LOOK_ALIKES.items():
        if asked_for(arguments.only, name):
            network = build(name)
            yield name, "codes everywhere", asked, *_look_alike(network, folder)
    for name, small in SMALL.items():
        if asked_for(arguments.only, name):
            spelled = name == "encoder 64x96, norms by Pow and Div"
            yield from ((name, *rest) for rest in _quantised(small(name), folder, spelled))


def _look_alike(network: models.Network, folder: Path) -> tuple[Path, Reference]:
    path = folder / "codes.onnx"
    path.write_bytes(models.coded(network, partial(ranges, network.samples(4, 1))).SerializeToString())
    return path, Reference(network.model, network.samples(HELD, 2))


def _quantised(network: models.Network, folder: Path, spelled: bool) -> Iterator[tuple[str, float, Path, Reference]]:
    """`spelled`: also in the other forms that onnxruntime has for a model."""
    held, (name,) = Reference(network.model, network.samples(HELD, 2)), network.inputs
    learnt = np.stack([sample[name] for sample in network.samples(LEARNT, 1)])
    plain = type(network.model).FromString(network.model.SerializeToString())
    files = {"onnxruntime": (plain, True)}
    if spelled:
        files |= {"onnxruntime, operators of codes": (plain, False), "onnxruntime, optimised": (fused(plain), True)}
    for label, (model, pairs) in files.items():
        path = folder / "onnxruntime.onnx"
        path.write_bytes(by_onnxruntime(model, name, learnt, "MinMax", pairs))
        yield label, 0.0, path, held
    source, data, path = folder / "float.onnx", folder / "samples.npz", folder / "atonc.onnx"
    source.write_bytes(network.model.SerializeToString())
    np.savez(data, **{name: learnt})
    path.write_bytes(quantize(source, data, QuantizeOptions(threads=1)).model)
    yield "atonc quantize", 0.0, path, held


def fused(model: Any) -> Any:
    """With the operators that onnxruntime makes of several ones (SkipLayerNormalization, FusedMatMul, Gelu)."""
    import onnxruntime as ort

    with tempfile.TemporaryDirectory() as folder:
        options = ort.SessionOptions()
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
        options.optimized_model_filepath = str(Path(folder) / "fused.onnx")
        options.log_severity_level = 3  # it warns that the file is for this machine
        ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return type(model).FromString(Path(options.optimized_model_filepath).read_bytes())


def page(rows: dict[str, Row]) -> str:
    lines = ["# Transformers", "", *(__doc__ or "").split("\n\n")[1].split("\n"), ""]
    return "\n".join([*lines, *table(COLUMNS, (_cells(row) for row in rows.values())), ""])


def _cells(row: Row) -> Iterator[object]:
    asked = RESIDENT_TARGETS.get(row["network"])
    yield from (
        row["network"],
        row["file"],
        f"{row['asked']:g}" + (f" / {asked:g}" if asked else "") if row["asked"] else "",
    )
    if "refused" in row:
        yield from ("refused", "", in_a_cell(row["refused"]), "", "", "", "")
        return
    yield from (f"{row['ms']:.2f}", "" if row["resident_ms"] is None else f"{row['resident_ms']:.2f}", row["verified"])
    yield from (f"{row[key]:.1f}" if key in row else "" for key in ("chip_db", "file_db"))
    yield from (f"{row['seconds']:.0f}", row["cpu"])


def run(arguments: argparse.Namespace) -> Report:
    rows = read(arguments.keep)
    with threads(1), tempfile.TemporaryDirectory() as scratch:
        for name, made_by, asked, path, reference in cases(arguments, Path(scratch)):
            if asked_for(arguments.only, name):
                row = {"network": name, "file": made_by, "asked": asked, **measured(path, reference)}
                rows[f"{name}, {made_by}"] = row
                print(name, made_by, {k: v for k, v in row.items() if k not in ("network", "file")}, flush=True)
                write(arguments.keep, rows)
        if arguments.long:
            network = models.whisper(LONG, 3000)
            path, _ = _look_alike(network, Path(scratch))
            rows[LONG] = {
                "network": LONG,
                "file": "codes everywhere",
                "asked": 0.0,
                **measured(path, None, verify=False),
            }
            write(arguments.keep, rows)
            print(LONG, rows[LONG])
    return Report(page(rows), data=rows)
