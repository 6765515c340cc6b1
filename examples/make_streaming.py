"""Makes examples/streaming: a small network with a state, and a sequence for it.

    python examples/make_streaming.py [FOLDER]

    features 1x1x1x8 of a frame, behind those of two frames before (a variable) -> convolution over three -> 2 scores

The file has the form that TensorFlow gives a streaming model: READ_VARIABLE, CONCATENATION, ASSIGN_VARIABLE, CONV_2D.
Weights are drawn at random: it shows how sequences are run, and hears nothing.
"""

from __future__ import annotations

import io
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.frontends.tflite_models import O, T, build

FEATURES, KEPT, SCORES, FRAMES = 8, 2, 2, 40
FRAME = {"scale": 0.05, "zero": -3}


def model() -> bytes:
    rng = np.random.default_rng(46)
    weights = rng.integers(-127, 128, (SCORES, KEPT + 1, 1, FEATURES))
    tensors = [
        T("features", (1, 1, 1, FEATURES), **FRAME),
        T("line", (), "resource"),
        T("before", (1, KEPT, 1, FEATURES), **FRAME),
        T("all", (1, KEPT + 1, 1, FEATURES), **FRAME),
        T("next", (1, KEPT, 1, FEATURES), **FRAME),
        T("begin", (4,), "int32", data=[0, 1, 0, 0]),
        T("end", (4,), "int32", data=[1, KEPT + 1, 1, FEATURES]),
        T("strides", (4,), "int32", data=[1, 1, 1, 1]),
        T("w", weights.shape, scale=0.004, data=weights),
        T("b", (SCORES,), "int32", scale=0.0002, data=rng.integers(-900, 900, SCORES)),
        T("score", (1, 1, 1, SCORES), scale=0.05, zero=0),
    ]
    ops = [
        O("CALL_ONCE", [], [], "CallOnceOptions", {0: ("i", 1)}),
        handle("line"),
        O("READ_VARIABLE", ["line"], ["before"]),
        O("CONCATENATION", ["before", "features"], ["all"], "ConcatenationOptions", {0: ("i", 1)}),
        O("STRIDED_SLICE", ["all", "begin", "end", "strides"], ["next"], "StridedSliceOptions", {1: ("i", 15)}),
        O("ASSIGN_VARIABLE", ["line", "next"], []),
        O("CONV_2D", ["all", "w", "b"], ["score"], "Conv2DOptions", {0: ("b", 1), 1: ("i", 1), 2: ("i", 1)}),
    ]
    start = np.full((1, KEPT, 1, FEATURES), FRAME["zero"])
    inner = [T("line", (), "resource"), T("start", start.shape, data=start, **FRAME)]
    begin = [handle("line"), O("ASSIGN_VARIABLE", ["line", "start"], [])]
    return build(tensors, ops, ["features"], ["score"], (inner, begin))


def handle(name: str) -> O:
    return O("VAR_HANDLE", [], [name], "VarHandleOptions", {0: ("s", ""), 1: ("s", name)})


def frames() -> np.ndarray:
    """Codes [frame, 1, 1, 1, feature]: noise, and a rising tone from the fifteenth frame on."""
    rng = np.random.default_rng(7)
    values = rng.normal(0, 12, (FRAMES, FEATURES))
    for number in range(15, 30):
        values[number, (number - 15) // 2] += 90
    return np.clip(np.rint(values), -128, 127).astype(np.int8).reshape(FRAMES, 1, 1, 1, FEATURES)


def files() -> dict[str, bytes]:
    content = io.BytesIO()
    np.save(content, frames())
    return {"stream.tflite": model(), "frames.npy": content.getvalue()}


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files().items():
        (folder / name).write_bytes(content)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent / "streaming")
