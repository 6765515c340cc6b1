"""`atonc quantize` against onnxruntime's quantize_static and ai-edge-quantizer on the same samples.

The folder holds the float models (see MODELS for where they are published) and the folders `pictures` and
`held_pictures`. 100 samples calibrate. Two other sets judge, which no quantiser sees: `dev`, printed, to work on the
quantiser with, and `held` (other pictures, other windows and mixtures), which is written to the file only and is what
the table shows.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from atonc.insight.quantizing.graph import FloatGraph
from atonc.insight.quantizing.judge import Signal
from atonc.insight.quantizing.loading import load
from atonc.insight.quantizing.observe import outputs, threads
from atonc.insight.quantizing.price import QuantizationPrice, price
from atonc.insight.quantizing.run import quantize
from atonc.insight.quantizing.types import QuantizedCandidate, QuantizeOptions
from benchmarks.shared.corpus import asked_for
from benchmarks.shared.declare import FLOATS, KEEP, ONLY, SAVE, WRITE, Report, argument
from benchmarks.shared.kept import read, write
from benchmarks.shared.quantize_models import MODELS
from benchmarks.shared.quantize_samples import SEEDS, samples
from benchmarks.shared.quantize_table import table

GROUP = "quantising"
ARGUMENTS = (
    FLOATS,
    ONLY,
    KEEP.but(required=True),
    SAVE.but(metavar="DIR", help="our quantised models go there"),
    argument("--made-before", type=Path, metavar="DIR", help="take them from there, if they are there"),
    WRITE,
)

ORT = {"ort_minmax": "MinMax", "ort_percentile": "Percentile", "ort_entropy": "Entropy"}
AT_ONCE, TOGETHER = 50_000, 10  # from so many values of an input on onnxruntime keeps so many samples in memory at once


# ---------------------------------------------------------------------------------------------------------- quantisers


class Reader:
    """What onnxruntime calls a calibration data reader; it may ask for a part of the samples at a time."""

    def __init__(self, name: str, values: np.ndarray) -> None:
        self.all = [{name: value} for value in values]
        self.set_range(0, len(self.all))

    def __len__(self) -> int:
        return len(self.all)

    def set_range(self, start_index: int, end_index: int) -> None:
        self.feeds = iter(self.all[start_index:end_index])

    def get_next(self) -> dict[str, np.ndarray] | None:
        return next(self.feeds, None)


def by_onnxruntime(tidy: Any, name: str, values: np.ndarray, method: str, pairs: bool = True) -> bytes:
    """`pairs`: nodes that quantise and dequantise around the others; else operators of codes."""
    import onnx
    from onnxruntime.quantization import CalibrationMethod, QuantFormat, QuantType, quantize_static

    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "float.onnx", Path(folder) / "int8.onnx"
        onnx.save(tidy, source)
        quantize_static(
            source, target, Reader(name, values), per_channel=True,
            quant_format=QuantFormat.QDQ if pairs else QuantFormat.QOperator,
            activation_type=QuantType.QInt8, weight_type=QuantType.QInt8,
            calibrate_method=getattr(CalibrationMethod, method), extra_options=_in_parts(values),
        )  # fmt: skip
        return target.read_bytes()


def _in_parts(values: np.ndarray) -> dict[str, int]:
    """The option is named after min-max; the other methods take it as well, and join the histograms of the parts."""
    large = values[0].size > AT_ONCE and len(values) % TOGETHER == 0
    return {"CalibStridedMinMax": TOGETHER} if large else {}


def by_ai_edge(path: Path, values: np.ndarray, target: Path) -> None:
    from ai_edge_quantizer import quantizer, recipe

    work = quantizer.Quantizer(all_float(path))
    work.load_quantization_recipe(recipe.static_wi8_ai8())
    statistics = work.calibrate({"serving_default": [{"x": value} for value in values]})
    work.quantize(statistics).export_model(str(target), overwrite=True)


def all_float(path: Path) -> bytes:
    """The file as ai-edge-quantizer 0.10 can take it.

    Of the two fields for the operator it reads the newer one only (in older files that is 0: every layer is taken for a
    sum and gets int8 biases); weights that are int8 already it leaves as they are; it calibrates through signatures.
    """
    import flatbuffers
    from ai_edge_litert import schema_py_generated as schema

    model = schema.ModelT.InitFromObj(schema.Model.GetRootAsModel(bytearray(path.read_bytes()), 0))
    graph, made = model.subgraphs[0], schema.SignatureDefT()
    for code in model.operatorCodes:
        code.builtinCode = max(code.builtinCode, code.deprecatedBuiltinCode)
    for tensor in graph.tensors:
        stored = model.buffers[tensor.buffer]
        if tensor.type == schema.TensorType.INT8 and stored.data is not None:
            found = tensor.quantization
            scales = np.array(found.scale).reshape([-1 if k == found.quantizedDimension and len(found.scale) > 1 else 1
                                                    for k in range(len(tensor.shape))])  # fmt: skip
            codes = np.frombuffer(bytes(stored.data), np.int8).reshape(tensor.shape)
            stored.data = np.frombuffer((codes * scales).astype(np.float32).tobytes(), np.uint8)
            tensor.type, tensor.quantization = schema.TensorType.FLOAT32, None
    made.signatureKey, made.subgraphIndex = b"serving_default", 0
    made.inputs, made.outputs = ([_entry(schema, f"{word}{k or ''}", index) for k, index in enumerate(indices)]
                                 for word, indices in (("x", graph.inputs), ("y", graph.outputs)))  # fmt: skip
    model.signatureDefs = [made]
    builder = flatbuffers.Builder(1 << 20)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def _entry(schema: Any, name: str, index: int) -> Any:
    entry = schema.TensorMapT()
    entry.name, entry.tensorIndex = name.encode(), int(index)
    return entry


def tflite_outputs(path: Path, feeds: list[dict[str, np.ndarray]]) -> list[list[np.ndarray]]:
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(str(path))
    interpreter.allocate_tensors()
    source, found = interpreter.get_input_details()[0], []
    for feed in feeds:
        (value,) = feed.values()
        interpreter.set_tensor(source["index"], _codes(value, source))
        interpreter.invoke()
        found.append([_real(interpreter.get_tensor(d["index"]), d) for d in interpreter.get_output_details()])
    return found


def like(reference: list[list[np.ndarray]], seen: list[list[np.ndarray]]) -> list[list[np.ndarray]]:
    return [[one.reshape(as_one.shape) for one, as_one in zip(*pair, strict=True)]
            for pair in zip(seen, reference, strict=True)]  # fmt: skip


def _codes(value: np.ndarray, details: Any) -> np.ndarray:
    if details["dtype"] == np.float32:
        return value.astype(np.float32)
    scale, zero = details["quantization"]
    return np.clip(np.rint(value / scale) + zero, -128, 127).astype(details["dtype"])


def _real(value: np.ndarray, details: Any) -> np.ndarray:
    scale, zero = details["quantization"]
    return value if details["dtype"] == np.float32 else ((value.astype(np.float64) - zero) * scale).astype(np.float32)


def tflite_price(path: Path) -> tuple[float | None, int | None, str]:
    from atonc.compiler.request.options import Options
    from atonc.delivery.generate.generating import analyze
    from atonc.machine.base.errors import AtoncError

    try:
        real = {"input_type": "float32", "output_type": "float32"}  # as the ONNX models have them
        cost = analyze(path, Options(verify=False, allow_float=True, **real)).cost
    except AtoncError as error:
        return None, None, error.one_line
    return round(cost.latency_ms, 4), cost.cycles, ""


# --------------------------------------------------------------------------------------------------------------- tables


def resized(path: Path, side: int, folder: Path) -> Path:
    """A copy of the model whose input is side x side; its shapes must allow it."""
    import onnx

    model = onnx.load(path)
    for dim in list(model.graph.input[0].type.tensor_type.shape.dim)[2:]:
        dim.dim_value = side
    onnx.save(model, folder / path.name)
    return folder / path.name


def measure(key: str, folder: Path, keep: Path | None = None, made_before: Path | None = None) -> dict[str, Any]:
    """`keep`: our models are written there. `made_before`: they are taken from there, if they are there."""
    model = MODELS[key]
    if model.side:
        with tempfile.TemporaryDirectory() as scratch:
            path = resized(folder / model.file, model.side, Path(scratch))
            return _measured(key, path, folder, keep, made_before)
    return _measured(key, folder / model.file, folder, keep, made_before)


def _measured(key: str, path: Path, folder: Path, keep: Path | None, made_before: Path | None) -> dict[str, Any]:
    model = MODELS[key]
    tidy = load(path, model.shapes)
    graph = FloatGraph(tidy)
    (name,) = graph.inputs
    shape = graph.shapes[name]
    learnt, *others = (samples(model, folder, shape, split) for split in SEEDS)
    feeds = {split: [{name: value} for value in values] for split, values in zip(("dev", "held"), others, strict=True)}
    reference = {split: outputs(tidy, some) for split, some in feeds.items()}
    row: dict[str, Any] = {"model": key, "what": model.what, "origin": model.origin, "held": len(feeds["held"])}

    held: dict[str, Signal] = {}

    def judged(label: str, run: Any, cost: tuple[Any, ...], started: float) -> None:
        seconds = round(time.process_time() - started, 1)
        found = {split: Signal.of(one, like(one, run(feeds[split]))) for split, one in reference.items()}
        row[label] = dict(zip(("ms", "cycles", "refusal"), cost, strict=True))
        row[label] |= {"dev_db": round(found["dev"].db, 2), "seconds": seconds}
        print(key, label, row[label], flush=True)
        row[label]["snr_db"] = round(found["held"].db, 2)
        held.setdefault("atonc", found["held"])
        if label != "atonc":  # by how much ours is better, and how sure that is
            row[label]["ours_gains_db"] = [round(end, 2) for end in held["atonc"].gain_over(found["held"])]

    def judged_onnx(
        label: str, data: bytes, started: float, cost: QuantizedCandidate | QuantizationPrice | None = None
    ) -> None:
        cost = cost or price(data)
        judged(label, lambda some: outputs(data, some), (cost.milliseconds, cost.cycles, cost.refusal), started)

    with tempfile.TemporaryDirectory() as scratch:
        data = Path(scratch) / "samples.npz"
        np.savez(data, **{name: learnt})
        started = time.process_time()
        if made_before and (made_before / f"{key}.onnx").exists():
            row["made_before"] = True
            judged_onnx("atonc", (made_before / f"{key}.onnx").read_bytes(), started)
        else:
            made = quantize(path, data, QuantizeOptions(fixed_shapes=model.shapes, threads=1))
            row["steps"] = [step.as_dict() for step in made.steps]
            row["front"] = [candidate.as_dict() for candidate in made.front]
            judged_onnx("atonc", made.model, started, made.chosen)
            if keep:
                made.save(keep / f"{key}.onnx")
        for label, method in ORT.items():
            started = time.process_time()
            try:
                judged_onnx(label, by_onnxruntime(tidy, name, learnt, method), started)
            except Exception as error:  # what it cannot do is a result, too
                row[label] = {"failed": f"{type(error).__name__}: {str(error)[:120]}"}
        if path.suffix == ".tflite" and find_spec("ai_edge_quantizer") is not None:
            target = Path(scratch) / "int8.tflite"
            started = time.process_time()
            try:
                by_ai_edge(path, learnt, target)
                judged("ai_edge", lambda some: tflite_outputs(target, some), tflite_price(target), started)
            except Exception as error:
                row["ai_edge"] = {"failed": f"{type(error).__name__}: {str(error)[:120]}"}
                print(key, row["ai_edge"])
    return row


def run(arguments: argparse.Namespace) -> Report:
    rows = read(arguments.keep)
    if arguments.floats:
        for key in (key for key in MODELS if asked_for(arguments.only, key)):
            with threads(1):  # other work runs beside it
                rows[key] = measure(key, arguments.floats, arguments.save, arguments.made_before)
            write(arguments.keep, rows)
    return Report(table(rows, MODELS), data=rows)
