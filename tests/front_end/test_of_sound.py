"""Sound operators in front of the first quantisation as a declared front end: onnxruntime's codes, or a refusal."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import atonc
from atonc.delivery.front_end.of_model import declared
from atonc.delivery.front_end.of_sound import made_sounds
from atonc.delivery.front_end.own import as_toml
from atonc.delivery.front_end.pipeline import Pipeline, load
from atonc.delivery.front_end.tables import mel_weights, window
from atonc.delivery.front_end.twin import FrontEnd
from atonc.doors.cli.cli import main
from atonc.machine.base.errors import UnsupportedError

onnx = pytest.importorskip("onnx")
Array = np.ndarray[Any, Any]
SAMPLES, FRAMES, MELS = 160 * 23 + 512, 24, 40
F, I = np.float32, np.int64  # noqa: E741
Step = tuple[str, Sequence[Any], Mapping[str, Any]]
PLAIN = load({"frame": {"length": 480}, "mel": {"count": MELS, "fmin": 60.0}, "log": {"guard": 1e-6}})


def filters(**words: Any) -> Array:
    return mel_weights(replace(PLAIN, mel=replace(PLAIN.mel, **words))).T.astype(F)


def table(name: str, length: int = 480) -> Array:
    shaped = window(replace(PLAIN, frame=replace(PLAIN.frame, window=name, length=length)))
    return np.pad(shaped, ((512 - length) // 2, 512 - length - (512 - length) // 2)).astype(F)


def stft(shaped: Any, step: int = 160, **words: Any) -> Step:
    return "STFT", [np.array(step), shaped, np.array(512)], words


COLUMN: Step = ("Unsqueeze", [np.array([2])], {})
POWER: tuple[Step, ...] = (("Mul", ["="], {}), ("ReduceSum", [np.array([-1])], {"keepdims": 0}))
MEL: Step = ("MatMul", [filters()], {})
LN: tuple[Step, ...] = (("Add", [F(1e-6)], {}), ("Log", [], {}))
TAIL: Step = ("Unsqueeze", [np.array([1])], {})
HEAD = (COLUMN, stft(table("hann")), *POWER)
PLACES = np.arange(FRAMES)[:, None] * 160 + np.arange(512)
WRITTEN = [("HannWindow", [np.array(512)]), ("MelWeightMatrix", [np.array(MELS), np.array(512), np.array(16000),
                                                                 F(60), F(7600)])]  # fmt: skip


def written(folder: Path, steps: Sequence[Step], kind: int = 1, code: Any = np.int8, scale: float = 0.09,
            zero: int = 20, size: int = SAMPLES, more: Sequence[str] = ()) -> Path:  # fmt: skip
    """The steps one behind the other, a quantisation and a convolution. `=`: the value itself again."""
    from onnx import helper, numpy_helper

    nodes, constants, name = [], dict[str, Array](), "samples"
    for op, given in WRITTEN:
        constants |= {f"{op}{k}": np.asarray(one) for k, one in enumerate(given)}
        nodes.append(helper.make_node(op, [f"{op}{k}" for k in range(len(given))], [op], op))
    for number, (op, inputs, words) in enumerate(steps):
        names = [name]
        for k, one in enumerate(inputs):
            if not isinstance(one, str):
                constants[f"c{number}_{k}"] = np.asarray(one)
            names.append((name if one == "=" else one) if isinstance(one, str) else f"c{number}_{k}")
        first = words.get("first")  # the constant is the left factor
        names = names[::-1] if first else names
        nodes.append(helper.make_node(op, names, [f"t{number}"], f"{op}{number}",
                                      **{key: value for key, value in words.items() if key != "first"}))  # fmt: skip
        name = f"t{number}"
    weights = np.random.default_rng(0).integers(-127, 128, (4, 1, 3, 3)).astype(np.int8)
    constants |= {"s": F(scale), "z": code(zero), "os": F(4), "oz": np.int8(0), "ws": F(0.01), "w": weights}
    for op, reads, writes in (
        ("QuantizeLinear", [name, "s", "z"], "codes"), ("DequantizeLinear", ["codes", "s", "z"], "reals"),
        ("DequantizeLinear", ["w", "ws", "oz"], "wf"), ("Conv", ["reals", "wf"], "y"),
        ("QuantizeLinear", ["y", "os", "oz"], "yq"), ("DequantizeLinear", ["yq", "os", "oz"], "out"),
    ):  # fmt: skip
        around = {"pads": [1, 1, 1, 1]} if op == "Conv" else {}
        nodes.append(helper.make_node(op, reads, [writes], writes, **around))
    outputs = [helper.make_tensor_value_info("out", 1, None)]
    outputs += [helper.make_tensor_value_info(one, 1, None) for one in more]
    model = helper.make_model(
        helper.make_graph(nodes, "head", [helper.make_tensor_value_info("samples", kind, [1, size])], outputs,
                          [numpy_helper.from_array(value, key) for key, value in constants.items()]),
        opset_imports=[helper.make_opsetid("", 17)], ir_version=8,
    )  # fmt: skip
    path = folder / "model.onnx"
    onnx.save(model, path)
    return path


def codes_of(path: Path, samples: Array) -> Array:
    """What onnxruntime quantises."""
    ort = pytest.importorskip("onnxruntime")
    model = onnx.load(path)
    del model.graph.output[:]
    model.graph.output.extend([onnx.helper.ValueInfoProto(name="codes")])
    found: Array = ort.InferenceSession(model.SerializeToString(), None, ["CPUExecutionProvider"]).run(
        None, {"samples": samples[None]}
    )[0]
    return found


DB = (("Max", [F(1e-10)], {}), ("Log", [], {}), ("Mul", [F(10 / np.log(10))], {}))
BANDS = np.linspace(-9, -3, MELS).astype(F)
# name -> the steps, arguments, keys of the declaration that must come out
CASES: dict[str, tuple[Sequence[Step], dict[str, Any], dict[str, Any]]] = {
    "power": ((*HEAD, MEL, *LN, TAIL), {}, {"log.guard": 1e-6, "frame.first": 16, "frame.length": 480,
                                            "mel.fmin": 60.0, "mel.scale": "slaney", "rate": 16000}),
    "magnitude": ((COLUMN, stft(table("hamming_symmetric", 512)), ("ReduceL2", [], {"axes": [-1], "keepdims": 0}),
                   ("MatMul", [filters(scale="htk", norm="none", triangles="mel", fmax=7600.0)], {}), *LN, TAIL), {},
                  {"spectrum.of": "magnitude", "mel.triangles": "mel", "frame.window": "hamming_symmetric"}),
    "dB of 16 bits": ((("Cast", [], {"to": 1}), ("Div", [F(32768)], {}), *HEAD, MEL, *DB, TAIL),
                      {"kind": 5, "scale": 0.5}, {"log.of": "dB", "log.floor": 1e-10, "spectrum.samples": "unit"}),
    "integers": ((("Cast", [], {"to": 1}), *HEAD, MEL, ("Clip", [F(1.0)], {}), ("Log", [], {}), TAIL),
                 {"kind": 5, "scale": 0.2, "zero": -100},
                 {"spectrum.samples": "integer", "log.floor": 1.0}),
    "operators of ONNX": ((COLUMN, stft("HannWindow"), *POWER, ("MatMul", ["MelWeightMatrix"], {}), *LN, TAIL), {},
                          {"mel.triangles": "bins", "frame.window": "hann", "frame.length": 512, "mel.fmax": 7600.0}),
    "bands": ((*HEAD, MEL, *LN, ("Sub", [BANDS], {}), ("Div", [np.linspace(2, 4, MELS).astype(F)], {}), TAIL),
              {"scale": 0.03, "code": np.uint8, "zero": 120, "size": SAMPLES - 1}, {"codes.type": "uint8"}),
    "frames last": ((*HEAD, ("Transpose", [], {"perm": [0, 2, 1]}), ("MatMul", [filters().T], {"first": 1}), *LN,
                     TAIL), {}, {"log.of": "ln"}),
    "flat": ((*HEAD, MEL, *LN, ("Reshape", [np.array([1, 1, 1, FRAMES * MELS])], {})), {}, {"mel.count": MELS}),
    "one frame": ((*HEAD, MEL, *LN, TAIL), {"size": 512}, {"frame.hop": 160}),
    "framed": ((("Gather", [PLACES], {"axis": 1}), ("Mul", [table("hann", 512)], {}),
                ("Unsqueeze", [np.array([3])], {}), ("DFT", [], {"axis": 2, "onesided": 1}), *POWER, MEL, *LN, TAIL),
               {}, {"frame.hop": 160, "frame.first": 0}),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_the_codes_are_those_of_onnxruntime(name: str, tmp_path: Path) -> None:
    steps, words, keys = CASES[name]
    path = written(tmp_path, steps, **words)
    own = declared(path)
    assert isinstance(own.pipeline, Pipeline) and own.tensor == "codes"
    for key, value in keys.items():
        section, _, field = key.rpartition(".")
        assert getattr(getattr(own.pipeline, section) if section else own.pipeline, field) == value, key
    (tmp_path / "own.toml").write_text(as_toml(own.pipeline))
    assert load(tmp_path / "own.toml") == own.pipeline
    twin, differ, total = FrontEnd(own.pipeline), 0, 0
    rng, size = np.random.default_rng(3), words.get("size", SAMPLES)
    for samples in (*made_sounds(size), np.rint(rng.normal(size=size) * 3000).astype(np.int16)):
        given = samples if words.get("kind") == 5 else samples.astype(F) / 32768
        theirs, ours = codes_of(path, given)[0, 0].astype(int), twin(samples).astype(int)
        ours = ours.T if name == "frames last" else ours[: theirs.size // MELS]
        apart = np.abs(theirs - ours.reshape(theirs.shape))
        assert apart.max() <= 1
        assert len(np.unique(theirs)) > 10 or not samples.any() or name == "one frame"
        differ, total = differ + int((apart > 0).sum()), total + apart.size
    assert differ <= 1e-3 * total


TWO = (*LN, ("ReduceMax", [], {"axes": [2], "keepdims": 1}))
REFUSED: dict[str, tuple[Sequence[Step], dict[str, Any], str]] = {
    "centred": ((("Pad", [np.array([0, 256, 0, 256])], {"mode": "reflect"}), *HEAD, MEL, *LN, TAIL), {}, "Pad 'Pad0'"),
    "top_db": ((*HEAD, MEL, *TWO, TAIL), {}, "ReduceMax 'ReduceMax7' is no part of a front end"),
    "a window of its own": ((COLUMN, stft(np.linspace(0, 1, 512).astype(F)), *POWER, MEL, *LN, TAIL), {},
                            "window of the transform has no name"),
    "filters of its own": ((*HEAD, ("MatMul", [filters() + F(1e-2)], {}), *LN, TAIL), {}, "40 filters have no name"),
    "MFCC": ((*HEAD, MEL, *LN, ("MatMul", [np.eye(MELS, dtype=F)], {}), TAIL), {}, "2 products and 1 logarithm"),
    "no logarithm": ((*HEAD, MEL, TAIL), {}, "1 product and 0 logarithms"),
    "both halves": ((COLUMN, stft(table("hann"), onesided=0), *POWER, MEL, *LN, TAIL), {}, "onesided = 1"),
    "a cube": ((*HEAD[:2], ("Pow", [F(3)], {}), *HEAD[3:], MEL, *LN, TAIL), {}, "power or magnitude"),
    "numbers of each frame": ((*HEAD, MEL, *LN, ("Sub", [np.arange(FRAMES).reshape(1, -1, 1).astype(F)], {}), TAIL), {},
                              "frames have different numbers"),
    "flat, frames last": ((*HEAD, MEL, *LN, ("Transpose", [], {"perm": [0, 2, 1]}),
                           ("Reshape", [np.array([1, 1, 1, FRAMES * MELS])], {})), {}, "features in 1x1x1x960"),
    "as many frames as features": ((*HEAD, MEL, *LN, TAIL), {"size": 160 * 39 + 512}, "40 frames of 40 features"),
    "log of nothing": ((*HEAD, MEL, ("Log", [], {}), TAIL), {}, "log\\(0\\)"),
    "other axes": ((("Unsqueeze", [np.array([0])], {}), ("DFT", [], {"axis": 1}), *POWER, MEL, *LN, TAIL), {},
                   "sound|part"),
    "a negative": ((*HEAD, MEL, *LN, ("Mul", [F(-1)], {}), TAIL), {}, "does not grow"),
    "a bound above": ((*HEAD, MEL, ("Clip", [F(1e-6), F(1e-3)], {}), ("Log", [], {}), TAIL), {}, "does not grow"),
    "a step in between": ((*HEAD, MEL, ("Max", [F(1e-3)], {}), ("Add", [F(5e-4)], {}), ("Log", [], {}), TAIL), {},
                          "0.00391 of a filter becomes something else"),
    "samples changed": ((("Mul", [F(0.5)], {}), *HEAD, MEL, *LN, TAIL), {}, "window of the transform has no name"),
    "read twice": ((*HEAD, MEL, *LN, TAIL), {"more": ["t4"]}, "'t4' is also read"),
    "no power of two": ((COLUMN, ("STFT", [np.array(160), np.ones(400, F), np.array(400)], {}), *POWER,
                         ("MatMul", [np.ones((201, 40), F)], {}), *LN, TAIL), {}, "have no name|n_fft"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_declared_is_refused(name: str, tmp_path: Path) -> None:
    steps, words, what = REFUSED[name]
    with pytest.raises(UnsupportedError, match=what) as refused:
        declared(written(tmp_path, steps, **words))
    assert refused.value.rule and refused.value.remedy


def test_generate_begins_behind_the_features(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, build = written(tmp_path, CASES["power"][0]), tmp_path / "build"
    assert main(["generate", str(path), "-o", str(tmp_path / "plain")]) == 2
    assert "--front-end MODEL makes C of it" in capsys.readouterr().err
    assert main(["generate", str(path), "-o", str(build), "--front-end", str(path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["front_end"]
    assert (found["frames"], found["features"], found["hop"], found["begins_at"]) == (FRAMES, MELS, 160, "codes")
    assert load(build / "network_front_end.toml") == declared(path).pipeline
    assert (build / "network_front_end.c").exists()
    samples = np.rint(np.random.default_rng(2).normal(size=SAMPLES) * 2000).astype(np.int16)
    behind = atonc.compile(path, cut_inputs="codes")
    ours, theirs = atonc.front_end(path)(samples)[None, None], codes_of(path, samples.astype(F) / 32768)
    assert np.abs(ours.astype(int) - theirs).max() <= 1
    assert np.abs(behind.run({"codes": ours})["out"] - behind.run({"codes": theirs})["out"]).max() <= 4
    assert np.unique(behind.run({"codes": ours})["out"]).size > 10


def test_a_damaged_head_is_refused(tmp_path: Path) -> None:
    """Sizes that a file claims, and constants in other files."""
    path = written(tmp_path, CASES["operators of ONNX"][0])
    model = onnx.load(path)
    for name, value in (("HannWindow0", np.array(1 << 40)), ("c1_0", np.array(0)), ("c1_2", np.array(1 << 40)),
                        ("MelWeightMatrix1", np.array(-5)), ("c1_0", np.zeros(0, I))):  # fmt: skip
        broken = onnx.ModelProto()
        broken.CopyFrom(model)
        for one in broken.graph.initializer:
            if one.name == name:
                one.CopyFrom(onnx.numpy_helper.from_array(np.asarray(value), name))
        onnx.save(broken, path)
        with pytest.raises(UnsupportedError, match="no part of a front end"):
            declared(path)
