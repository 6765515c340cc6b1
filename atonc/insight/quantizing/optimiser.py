"""onnxruntime's basic optimiser in a process of its own: where it crashes, only that process is lost."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from atonc.machine.base import child
from atonc.machine.base.about import package_folder
from atonc.machine.base.child import Child, ChildDiedError
from atonc.machine.base.errors import ModelError

LIMIT_SECONDS = 600.0
_SERVER = "from atonc.insight.quantizing.optimiser import main; main()"


def optimised(model: Any, name: str) -> Any:
    """The model with its constants folded and BatchNorm merged into weights, and with shapes."""
    from onnx import shape_inference

    paths = [str(package_folder().parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    process = Child(_SERVER, {"PYTHONPATH": os.pathsep.join(paths)})
    try:
        answer, content = process.ask({}, model.SerializeToString(), seconds=LIMIT_SECONDS)
    except ChildDiedError as death:
        how = f"did not end within {LIMIT_SECONDS:g} s" if death.late else death.how
        raise ModelError(
            f"onnxruntime {how} while it folded the constants of the model",
            where=name,
            rule="its optimiser crashes at some models; it ran in a process of its own",
            remedy="fold them in the source (onnx-simplifier, or export with fixed shapes), and quantise that file",
        ) from None
    finally:
        process.close()
    if "error" in answer:
        raise RuntimeError(answer["error"])
    made = type(model)()
    made.ParseFromString(content)
    return shape_inference.infer_shapes(made)


def main() -> None:
    """In the child: one model."""
    import onnxruntime as ort

    answers = child.answers()
    _, content = child.receive(sys.stdin.buffer)
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "tidy.onnx"
        settings = ort.SessionOptions()
        settings.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
        settings.optimized_model_filepath = str(target)
        settings.log_severity_level = 4
        settings.intra_op_num_threads = 1
        try:
            ort.InferenceSession(content, settings, providers=["CPUExecutionProvider"])
        except Exception as error:  # whatever its C++ side says
            child.send(answers, {"error": str(error)})
            return
        child.send(answers, {}, target.read_bytes())
