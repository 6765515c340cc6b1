"""`atonc yolo`: from a network of Ultralytics and its data set to C with boxes (docs/yolo.md)."""

from __future__ import annotations

import argparse
from pathlib import Path

from atonc.compiler.request.options import MODEL
from atonc.delivery.yolo.options import YoloOptions
from atonc.doors.verbs.parser import OUTPUT, SHOWN, Command, arg, declared_values, flags
from atonc.doors.verbs.reply import CommandReply, file_hash, note
from atonc.insight.evaluating.options import DATA
from atonc.machine.base.disk import missing
from atonc.machine.base.errors import InputError


def _yolo(options: argparse.Namespace) -> CommandReply:
    from atonc.delivery.generate import preflight
    from atonc.delivery.yolo.export import require_package

    model: Path = options.model
    wanted = declared_values(YoloOptions, options)
    if not model.is_file():
        raise missing(model)
    if model.suffix.lower() not in (".onnx", ".pt"):
        raise InputError(
            "is no ONNX file", where=str(model), rule="the model is best.pt, or what yolo export format=onnx gives",
            remedy=f"yolo export model={'best.pt' if model.suffix.lower() == '.tflite' else model.name} format=onnx",
        )  # fmt: skip
    if model.suffix.lower() == ".pt":
        require_package(model)
    preflight.check_packages("onnx", "onnxruntime", "yaml", "PIL", extra="yolo")
    preflight.check_folder(options.output, model)
    from atonc.delivery.texts import yolo_text
    from atonc.delivery.yolo.run import build

    found = build(model, options.data, wanted, options.output)
    for line in found.notes:
        note(line, options)
    return CommandReply("yolo", yolo_text.document(found, str(options.output), options.verbose), file_hash(model))


COMMANDS = (
    Command(
        "yolo",
        "a network of Ultralytics and its data.yaml: int8, accuracy, C with boxes",
        _yolo,
        (
            arg("model", title=MODEL, type=Path, metavar="MODEL", help="best.pt, or float .onnx of `yolo export`"),
            arg(
                "--data", title=DATA, type=Path, required=True, metavar="data.yaml",
                help="the data set of the training; for classes the folder with train and val",
            ),
            arg(
                "-o", "--output", title=OUTPUT, type=Path, default=Path("yolo_out"), metavar="DIR",
                help="int8 model, accuracy, and the C files in c",
            ),
            flags(YoloOptions),
            SHOWN,
        ),
        (
            "atonc yolo best.onnx --data data.yaml  # detection, key points, masks, classes",
            "atonc yolo best.pt --data data.yaml --imgsz 256 --conf 0.4 --limit 200",
        ),
        "Cuts the network where the NPU ends, quantises it on its data set, measures accuracy in float and in the "
        "chip's arithmetic, and writes C for the network and for its boxes (docs/yolo.md).",
    ),
)  # fmt: skip
