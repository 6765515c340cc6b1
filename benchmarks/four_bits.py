"""`atonc quantize --bits` against onnxruntime's own weights of 4 bits at the same flash, on held samples.

The folder is that of `quantize`, with two networks more. For each: the files that `--bits 8`, `--bits 4` and `--bits 4
--max-loss none` write, learnt from all samples, on held samples, as nodes and in the chip's arithmetic; every choice of
layers that was measured on the way; onnxruntime's quantiser with 4 bits in the same layers; and with 4 bits in the
largest layers until the flash is no more, as the model zoo of ST chooses them. The files with 4 bits are compiled with
their weights in RAM, and flash is counted.
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from atonc.compiler.compile.pipeline import compile_graph
from atonc.compiler.frontends.onnx_qdq import read_onnx
from atonc.compiler.request.options import ALL_FREE, Options
from atonc.insight.quantizing.graph import WEIGHTED, FloatGraph, own_constants
from atonc.insight.quantizing.judge import QuantizationJudge, Signal
from atonc.insight.quantizing.loading import load, raised
from atonc.insight.quantizing.narrow import EIGHT_ONLY, PrecisionSearch
from atonc.insight.quantizing.observe import outputs, threads
from atonc.insight.quantizing.price import chip_outputs, compiled_model
from atonc.insight.quantizing.run import QuantizationWork
from atonc.insight.quantizing.types import FOUR_BITS, QuantizeOptions
from atonc.machine.base.errors import AtoncError
from benchmarks.quantize import Reader, like
from benchmarks.shared.corpus import asked_for
from benchmarks.shared.declare import FLOATS, KEEP, ONLY, WRITE, Report
from benchmarks.shared.four_bits_table import table
from benchmarks.shared.kept import read, write
from benchmarks.shared.quantize_models import MODELS as PUBLISHED
from benchmarks.shared.quantize_models import Model
from benchmarks.shared.quantize_samples import TINY, samples

GROUP = "quantising"
ARGUMENTS = (
    FLOATS,
    ONLY,
    KEEP.but(required=True),
    WRITE,
)

CHIP_SAMPLES, CHIP_TINY_SAMPLES = 32, 250  # held ones that run in the chip's arithmetic; tiny ones run quickly
LARGE = "ResNet, the larger one, 32x32", "mlcommons/tiny image_classification"
MODELS = {
    "anomaly": PUBLISHED["anomaly"],
    "keyword": PUBLISHED["keyword"],
    "resnet8": PUBLISHED["resnet8"],
    "resnet_large": Model("resnet_large_cifar.tflite", *LARGE),
    "age": PUBLISHED["age"],
    "mobilenet_v2": PUBLISHED["mobilenet_v2"],
    "mobilenet_v3": PUBLISHED["mobilenet_v3"],
    "pose": PUBLISHED["pose"],
    "face": PUBLISHED["face"],
}


CLASSIFIERS = ("keyword", "resnet8", "resnet_large", "mobilenet_v2", "mobilenet_v3")  # whose largest value is an answer


class Rivals:
    """Models of onnxruntime's quantiser, 4 bits in given layers: nearest rounding by its own ranges."""

    def __init__(self, graph: FloatGraph, name: str, values: np.ndarray) -> None:
        self.graph, self.name, self.values = graph, name, values

    def model(self, tensors: list[str]) -> bytes:
        import onnx
        from onnxruntime.quantization import QuantFormat, QuantType, quantize_static

        with tempfile.TemporaryDirectory() as folder:
            source, target = Path(folder) / "float.onnx", Path(folder) / "codes.onnx"
            onnx.save(self.graph.model, source)
            overrides = {tensor: [{"quant_type": QuantType.QInt4, "axis": 0, "symmetric": True}] for tensor in tensors}
            quantize_static(
                source, target, Reader(self.name, self.values), quant_format=QuantFormat.QDQ, per_channel=True,
                activation_type=QuantType.QInt8, weight_type=QuantType.QInt8,
                extra_options={"TensorQuantOverrides": overrides},
            )  # fmt: skip
            return target.read_bytes()


def packed_flash(model: Any) -> int | None:
    """Bytes of constants with the weights in RAM, where those of 4 bits lie in flash two to a byte."""
    options = Options(verify=False, allow_float=True, resident=ALL_FREE)
    try:
        compiled = compile_graph(read_onnx(model.SerializeToString(), "quantised"), options)
    except AtoncError:
        return None
    rows = compiled.layout.memory.rows
    return sum(row.size_bytes for row in rows if row.use.name == "WEIGHTS" and not row.ram)


def measure(key: str, folder: Path) -> dict[str, Any]:
    model = MODELS[key]
    graph = FloatGraph(own_constants(raised(load(folder / model.file, model.shapes), model.file), WEIGHTED))
    (name,) = graph.inputs
    learnt, held = (samples(model, folder, graph.shapes[name], split) for split in ("learn", "held"))
    feeds, judged = ([{name: value} for value in values] for values in (learnt, held))
    settings = QuantizeOptions(bits=FOUR_BITS, objective="accuracy", threads=1)
    work = QuantizationWork(graph, settings, feeds[::2], QuantizationJudge.of(graph, feeds[1::2]))
    work.mend()
    (tried,) = work.tune()
    narrowing = PrecisionSearch(work, tried)
    found = narrowing.run()
    reference = outputs(graph.model, judged)
    every = narrowing.made[frozenset(narrowing.order)]
    files = {"eight": work.learnt_again(tried, feeds)[1]}
    for label, made in {"all": every, "mixed": found.chosen}.items():
        work.walked = found.wishes if made.tuning.four else tried.state.walked
        files[label] = work.learnt_again(work.narrowed(replace(found, chosen=made)), feeds)[1]
    eight = Signal.of(reference, outputs(files["eight"], judged))
    chip = {label: on_chip(file, reference, judged) for label, file in files.items()}
    rivals = Rivals(graph, name, learnt)
    row: dict[str, Any] = {"model": key, "what": model.what, "origin": model.origin, "held": len(judged)}
    row |= {"eight_db": round(eight.db, 2), "learnt_eight_db": round(narrowing.made[EIGHT_ONLY].point.snr_db, 2),
            "chip_eight_db": None if chip["eight"] is None else round(chip["eight"].db, 2),
            "flash_8": narrowing.whole_bytes, "layers": len(narrowing.order), "points": []}  # fmt: skip
    for names, made in narrowing.made.items():
        row["points"].append({**made.point.as_dict(), "chosen": names == found.chosen.tuning.four})
    for label, made in {"all": every, "mixed": found.chosen}.items():
        ours = Signal.of(reference, outputs(files[label], judged))
        row[label] = {**made.point.as_dict(), **_figures((key, reference, judged), files[label], eight)}
        row[label] |= _chip_figures(chip[label], chip["eight"])
        largest = _largest_first(narrowing, made.point.flash_bytes)
        for rival, layers in {"ort": sorted(made.tuning.four), "zoo": largest}.items():
            tensors = [made.layers[one][0].weights for one in layers]
            row[label][rival] = _rival(rivals, tensors, (key, reference, judged), ours)
        row[label]["compiled_flash"] = packed_flash(files[label])
        print(key, label, row[label], flush=True)
    return row


def _largest_first(narrowing: PrecisionSearch, flash: int) -> list[str]:
    by_size = sorted(narrowing.saved, key=lambda one: -narrowing.saved[one])
    count = next(n for n in range(len(by_size) + 1) if narrowing.flash(by_size[:n]) <= flash)
    return by_size[:count]


def on_chip(model: Any, reference: Any, feeds: Any) -> Signal | None:
    """Some held samples in the chip's arithmetic; nothing where the compiler refuses the file."""
    try:
        compiled = compiled_model(model, QuantizeOptions().board)
    except AtoncError:
        return None
    values = sum(value.size for value in feeds[0].values())
    count = CHIP_TINY_SAMPLES if values < TINY else CHIP_SAMPLES
    return Signal.of(reference[:count], like(reference[:count], chip_outputs(compiled, feeds[:count])))


def _figures(held: tuple[str, Any, Any], model: Any, eight: Signal) -> dict[str, Any]:
    key, reference, feeds = held
    seen = outputs(model, feeds)
    signal = Signal.of(reference, seen)
    gain = [round(end, 2) for end in signal.gain_over(eight)]
    changed = _changed(reference, seen) if key in CLASSIFIERS else None
    return {"held_db": round(signal.db, 2), "held_gain_db": gain, "held_changed": changed}


def _chip_figures(found: Signal | None, eight: Signal | None) -> dict[str, Any]:
    if found is None or eight is None:
        return {"chip_db": None, "chip_gain_db": None}
    return {"chip_db": round(found.db, 2), "chip_gain_db": [round(end, 2) for end in found.gain_over(eight)]}


def _rival(rivals: Rivals, tensors: list[str], held: tuple[str, Any, Any], ours: Signal) -> dict[str, Any]:
    key, reference, feeds = held
    try:
        seen = outputs(rivals.model(tensors), feeds)
    except Exception as error:  # what it cannot do is a result, too
        return {"failed": f"{type(error).__name__}: {str(error)[:120]}"}
    signal = Signal.of(reference, seen)
    gain = [round(end, 2) for end in ours.gain_over(signal)]
    changed = _changed(reference, seen) if key in CLASSIFIERS else None
    return {"held_db": round(signal.db, 2), "ours_gains_db": gain, "held_changed": changed}


def _changed(reference: Any, seen: Any) -> float:
    """The share of the samples whose largest value is another one."""
    return float(np.mean([one[0].argmax() != other[0].argmax() for one, other in zip(reference, seen, strict=True)]))


def run(arguments: argparse.Namespace) -> Report:
    rows = read(arguments.keep)
    if arguments.floats:
        for key in (key for key in MODELS if asked_for(arguments.only, key)):
            with threads(1):  # other work runs beside it
                rows[key] = measure(key, arguments.floats)
            write(arguments.keep, rows)
    return Report(table([rows[key] for key in MODELS if key in rows]))
