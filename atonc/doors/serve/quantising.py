"""A float model and samples become an int8 model, which can be compiled as if it had been sent."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from atonc.doors.serve import form
from atonc.doors.serve.uploads import Upload

INT8, PAGE = "model_int8.onnx", "quantize.html"
MOST_NOTES = 40


def run(folder: Path, request: Mapping[str, Any], out: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Writes the model and its page; gives what `atonc quantize --json` prints, and the figures of the lists."""
    from atonc.delivery.generate import preflight
    from atonc.doors.verbs.quantize import pages_of, settings_of
    from atonc.insight.report import quantize_text
    from atonc.machine.base.disk import write_files

    preflight.check_packages("onnx", "onnxruntime", extra="quantize")
    from atonc.insight.quantizing.run import quantize

    settings = settings_of(form.parsed(request["options"], form.QUANTIZE))
    model, samples = folder / request["model"], folder / request["samples"][0]
    found = replace(quantize(model, samples, settings), source=request["title"])
    write_files(out, {INT8: found.model})
    write_files(out, pages_of(found, (model, samples, out / INT8), settings, PAGE))
    document = quantize_text.as_json(found)
    kept = {key: document[key] for key in ("samples", "held_samples", "outputs")}
    return document, {**kept, "chosen": found.chosen.as_dict(), "notes": document["notes"][:MOST_NOTES]}


def put(title: str, out: Path, folder: Path, options: dict[str, Any]) -> Upload:
    """Copies the int8 model that a job has written to `out` into the folder of the next one."""
    name, model = f"{Path(title).stem}_int8.onnx", "model.onnx"
    shutil.copyfile(out / INT8, folder / model)
    content = (folder / model).read_bytes()
    return Upload(name, model, hashlib.sha256(content).hexdigest(), len(content), (), options)
