"""Operators in front of the first quantisation as a declared front end: the codes of onnxruntime, or a refusal."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import atonc
from atonc.delivery.front_end.image import load
from atonc.delivery.front_end.image_twin import ImageFrontEnd
from atonc.delivery.front_end.of_model import declared
from atonc.delivery.front_end.own import as_toml
from atonc.doors.cli.cli import main
from atonc.machine.base.errors import InputError, UnsupportedError

onnx = pytest.importorskip("onnx")
Array = np.ndarray[Any, Any]
NUMBERS = {"k": np.float32(255), "mean": np.float32([0.485, 0.456, 0.406]).reshape(1, 3, 1, 1),
           "std": np.float32([0.229, 0.224, 0.225]).reshape(1, 3, 1, 1)}  # fmt: skip
CAST, TURN = ("Cast", [], {"to": 1}), ("Transpose", [], {"perm": [0, 3, 1, 2]})
UNIT, MEAN, STD = ("Div", ["k"], {}), ("Sub", ["mean"], {}), ("Div", ["std"], {})
Step = tuple[str, Sequence[Any], Mapping[str, Any]]


def resize(height: int, width: int, mode: str = "linear", **words: Any) -> Step:
    return "Resize", ["", "", np.array([1, 3, height, width])], {"mode": mode, **words}


def cut(axes: Sequence[int], starts: Sequence[int], ends: Sequence[int], steps: Sequence[int] = ()) -> Step:
    steps = steps or [1] * len(axes)
    return "Slice", [np.array(starts), np.array(ends), np.array(axes), np.array(steps)], {}


def written(
    folder: Path, steps: Sequence[Step], shape: Sequence[int] = (1, 48, 64, 3), code: Any = np.int8,
    scale: float = 0.0186, zero: int = -14, kind: int = 2,
) -> Path:  # fmt: skip
    """The steps one behind the other, a quantisation and a convolution."""
    from onnx import helper, numpy_helper, shape_inference

    nodes, constants, name = [], dict[str, Array](NUMBERS), "image"
    for number, (op, inputs, words) in enumerate(steps):
        names = []
        for k, one in enumerate(inputs):
            if not isinstance(one, str):
                constants[f"c{number}_{k}"] = one
            names.append(one if isinstance(one, str) else f"c{number}_{k}")
        nodes.append(helper.make_node(op, [name, *names], [f"t{number}"], f"{op}{number}", **words))
        name = f"t{number}"
    constants |= {"s": np.float32(scale), "z": code(zero), "ws": np.float32(0.01), "wz": np.int8(0)}
    pair = [("QuantizeLinear", name, "codes"), ("DequantizeLinear", "codes", "reals")]
    nodes += [helper.make_node(op, [x, "s", "z"], [y], y) for op, x, y in pair]
    head = helper.make_model(
        helper.make_graph(
            nodes, "head", [helper.make_tensor_value_info("image", kind, shape)],
            [helper.make_tensor_value_info("reals", 1, None)],
            [numpy_helper.from_array(np.asarray(v), k) for k, v in constants.items()],
        ), opset_imports=[helper.make_opsetid("", 17)], ir_version=8,
    )  # fmt: skip
    inferred = shape_inference.infer_shapes(head, strict_mode=True).graph.output[0].type.tensor_type.shape
    sizes = [dim.dim_value for dim in inferred.dim]
    weights = np.random.default_rng(0).integers(-127, 128, (4, sizes[1], 3, 3)).astype(np.int8)
    more = [helper.make_node("DequantizeLinear", ["w", "ws", "wz"], ["wf"], "w"),
            helper.make_node("Conv", ["reals", "wf"], ["y"], "conv"),
            helper.make_node("QuantizeLinear", ["y", "s", "wz"], ["yq"], "yq"),
            helper.make_node("DequantizeLinear", ["yq", "s", "wz"], ["out"], "out")]  # fmt: skip
    head.graph.node.extend(more)
    head.graph.initializer.append(numpy_helper.from_array(weights, "w"))
    del head.graph.output[:]
    head.graph.output.extend([helper.make_tensor_value_info("out", 1, [1, 4, sizes[2] - 2, sizes[3] - 2])])
    path = folder / "model.onnx"
    onnx.save(head, path)
    return path


def codes_of(path: Path, image: Array) -> Array:
    """What onnxruntime quantises; height x width x colours."""
    ort = pytest.importorskip("onnxruntime")
    model = onnx.load(path)
    del model.graph.output[:]
    model.graph.output.extend([onnx.helper.ValueInfoProto(name="codes")])
    settings = ort.SessionOptions()
    settings.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    found = ort.InferenceSession(model.SerializeToString(), settings, ["CPUExecutionProvider"])
    given: Array = found.run(None, {"image": image})[0]
    return given[0].transpose(1, 2, 0)


BATCH_NORM: Step = ("BatchNormalization", [np.float32([1, 2, 3]), np.float32([0, 1, 2]), np.float32([100, 110, 120]),
                                           np.float32([2000, 3000, 4000])], {"epsilon": 1e-3})  # fmt: skip
PAD: Step = ("Pad", [np.array([0, 0, 4, 0, 0, 0, 4, 0]), np.float32(114)], {})
# name -> the steps, the most codes that differ, keys of the declaration that must come out
CASES: dict[str, tuple[Sequence[Step], int, dict[str, Any]]] = {
    "normalise": ((CAST, TURN, UNIT, MEAN, STD), 0, {"resize.width": 64, "resize.fit": "stretch"}),
    "batch norm": ((CAST, TURN, BATCH_NORM), 0, {"colour.order": "rgb"}),
    "linear": ((CAST, TURN, resize(32, 40), UNIT, MEAN, STD), 1, {"resize.at": "half_pixel"}),
    "corners": ((CAST, TURN, UNIT, resize(33, 40, coordinate_transformation_mode="align_corners")), 1,
                {"resize.at": "align_corners", "resize.how": "bilinear"}),
    "pytorch": ((TURN, CAST, resize(33, 40, coordinate_transformation_mode="pytorch_half_pixel"), UNIT), 1,
                {"resize.at": "half_pixel"}),
    "asymmetric": ((CAST, TURN, resize(100, 40, coordinate_transformation_mode="asymmetric"), UNIT), 1,
                   {"resize.at": "asymmetric"}),
    "nearest": ((CAST, TURN, resize(20, 40, "nearest", coordinate_transformation_mode="asymmetric",
                                    nearest_mode="floor"), UNIT), 0, {"resize.at": "asymmetric"}),
    "nearest without ties": ((TURN, resize(32, 64, "nearest"), CAST, UNIT), 0, {"resize.at": "half_pixel"}),
    "cut first": ((CAST, cut([1, 2], [4, 10], [44, 60]), TURN, resize(20, 25), UNIT), 1,
                  {"crop.to": "box", "crop.box": (10, 4, 50, 40)}),
    "middle of the resized": ((CAST, TURN, resize(36, 48), cut([2, 3], [2, 8], [34, 40]), UNIT, MEAN, STD), 1,
                              {"resize.fit": "cover", "resize.short_side": 36}),
    "blue first": ((("Gather", [np.array([2, 1, 0])], {"axis": 3}), CAST, TURN, MEAN), 0, {"colour.order": "bgr"}),
    "blue first, a slice": ((CAST, TURN, cut([1], [-1], [-4], [-1]), resize(24, 32), UNIT), 1,
                            {"colour.order": "bgr"}),
    "letterbox": ((CAST, TURN, resize(48, 64), PAD, UNIT), 0, {"resize.fit": "letterbox", "resize.pad": 114}),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_the_codes_are_those_of_onnxruntime(name: str, tmp_path: Path) -> None:
    steps, most, keys = CASES[name]
    path = written(tmp_path, steps)
    own = declared(path)
    for key, value in keys.items():
        section, _, field = key.partition(".")
        assert getattr(getattr(own.pipeline, section), field) == value, key
    assert own.worst <= most and (own.differ == 0) == (own.worst == 0)
    assert ("on photographs it may be twice as many" in own.said) == (own.differ > 0)
    twin, differ, total = ImageFrontEnd(own.pipeline), 0, 0
    rng = np.random.default_rng(3)
    for image in (rng.integers(0, 256, (48, 64, 3)), np.arange(48 * 64 * 3).reshape(48, 64, 3) // 37 % 256):
        found = twin(image.astype(np.uint8)).astype(int)
        apart = np.abs(found - codes_of(path, image.astype(np.uint8)[None]))
        assert apart.max() <= most
        differ, total = differ + int((apart > 0).sum()), total + apart.size
    assert differ <= 0.35 * total  # a code is about a byte here, and bytes are rounded
    (tmp_path / "own.toml").write_text(as_toml(own.pipeline))
    assert load(tmp_path / "own.toml") == own.pipeline


RESHAPE: Step = ("Reshape", [np.array([1, 1, 48, 64])], {})
GREY = (CAST, RESHAPE, ("Resize", ["", "", np.array([1, 1, 24, 40])], {"mode": "linear"}), UNIT)


@pytest.mark.parametrize(("shape", "steps"), [((1, 48, 64, 1), GREY), ((48, 64), GREY), ((1, 1, 48, 64), GREY)])
def test_grey_images(shape: Sequence[int], steps: Sequence[Step], tmp_path: Path) -> None:
    path = written(tmp_path, steps, shape, np.uint8, 1 / 255, 0)
    own = declared(path)
    assert (own.pipeline.image.format, own.pipeline.colour.order) == ("grey8", "grey")
    image = np.random.default_rng(1).integers(0, 256, (48, 64)).astype(np.uint8)
    assert np.abs(ImageFrontEnd(own.pipeline)(image).astype(int) - codes_of(path, image.reshape(shape))).max() <= 1


def test_planes_of_colours(tmp_path: Path) -> None:
    path = written(tmp_path, (CAST, resize(24, 40), UNIT, MEAN, STD), (1, 3, 48, 64))
    image = np.random.default_rng(1).integers(0, 256, (48, 64, 3)).astype(np.uint8)
    found = ImageFrontEnd(declared(path).pipeline)(image)
    assert np.abs(found.astype(int) - codes_of(path, image.transpose(2, 0, 1)[None])).max() <= 1


PICTURE = np.random.default_rng(5).random((1, 3, 48, 64)).astype(np.float32)
REFUSED: dict[str, tuple[Sequence[Step], dict[str, Any], str]] = {
    "ties": ((TURN, resize(24, 40, "nearest"), CAST, UNIT), {}, "codes from the model's operators"),
    "single precision": ((CAST, TURN, cut([2, 3], [4, 10], [36, 50]),
                          resize(24, 24, "nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor"),
                          UNIT), {}, "Resize3.* of 40 to 24 takes pixel 14 at place 9, a front end 15"),
    "cubic": ((CAST, TURN, resize(24, 32, "cubic"), UNIT), {}, r"Resize \(cubic\) 'Resize2' is no part of a front end"),
    "cubic of rows first": ((CAST, resize(24, 32, "cubic"), UNIT), {"shape": (1, 3, 48, 64)}, r"Resize \(cubic\)"),
    "symmetric": ((CAST, TURN, resize(25, 32, coordinate_transformation_mode="half_pixel_symmetric"), UNIT), {},
                  r"Resize \(linear at half_pixel_symmetric or"),
    "twice": ((CAST, TURN, resize(25, 32), UNIT, resize(20, 32)), {}, "the second resize"),
    "not the middle": ((CAST, TURN, resize(36, 48), cut([2, 3], [0, 8], [32, 40]), UNIT), {}, "not in its middle"),
    "mirrored": ((CAST, TURN, cut([3], [-1], [-65], [-1]), UNIT), {}, "mirrors"),
    "every other pixel": ((CAST, TURN, cut([3], [0], [64], [2]), UNIT), {}, "leaves pixels out"),
    "one mean for each pixel": ((CAST, TURN, UNIT, ("Sub", [PICTURE], {})), {}, "codes from the model's operators"),
    "negative": ((CAST, TURN, ("Mul", [np.float32(-0.01)], {})), {}, "negative"),
    "colours mixed": ((CAST, TURN, ("Conv", [np.ones((3, 3, 1, 1), np.float32)], {})), {}, "no part of a front end"),
    "green first": ((CAST, ("Gather", [np.array([1, 0, 2])], {"axis": 3}), TURN, UNIT), {}, "colours of the image"),
    "a curve": ((CAST, TURN, UNIT, ("Sqrt", [], {})), {}, "no part of a front end"),
    "bytes are too few": ((CAST, TURN, resize(32, 40), UNIT), {"code": np.int16, "scale": 1e-4, "zero": 0}, "20 codes"),
    "more axes": ((CAST, ("Gather", [np.zeros((1, 48), np.int64)], {"axis": 1}),
                   ("Reshape", [np.array([1, 48, 64, 3])], {}), TURN, UNIT), {}, "no part of a front end"),
    "floats": ((TURN, UNIT), {"kind": 1}, "0 inputs of bytes"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_front_end_stays_operators(name: str, tmp_path: Path) -> None:
    steps, words, what = REFUSED[name]
    with pytest.raises(UnsupportedError, match=what) as refused:
        declared(written(tmp_path, steps, **words))
    assert refused.value.rule and refused.value.remedy


def test_generate_begins_the_network_at_its_first_quantisation(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, build = written(tmp_path, CASES["linear"][0]), tmp_path / "build"
    assert main(["generate", str(path), "-o", str(tmp_path / "plain"), "--json"]) == 0
    offered = json.loads(capsys.readouterr().out)
    assert main(["generate", str(path), "-o", str(build), "--front-end", str(path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert offered["front_end"]["worst_step"] == found["front_end"]["worst_step"] == 1
    assert found["front_end"]["shape"] == [32, 40, 3] and found["front_end"]["begins_at"] == "codes"
    assert load(build / "network_front_end.toml") == declared(path).pipeline
    assert (build / "network_front_end.c").exists() and not (tmp_path / "plain/network_front_end.c").exists()
    image = np.random.default_rng(2).integers(0, 256, (48, 64, 3)).astype(np.uint8)
    with pytest.raises(InputError, match="cut_inputs='codes'"):
        atonc.compile(path).save(tmp_path / "saved", front_end=path)
    whole, behind = atonc.compile(path), atonc.compile(path, cut_inputs="codes")
    codes = atonc.front_end(path)(image).transpose(2, 0, 1)[None]
    first, second = whole.run({"image": image[None]})["out"], behind.run({"codes": codes})["out"]
    exact = behind.run({"codes": codes_of(path, image[None]).transpose(2, 0, 1)[None]})["out"]
    assert (first != exact).mean() < 0.02  # the operators give onnxruntime's codes, but for halves in single precision
    assert np.corrcoef(first.reshape(-1), second.reshape(-1))[0, 1] > 0.999


def test_what_stays_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, REFUSED["mirrored"][0])
    assert main(["generate", str(path), "-o", str(tmp_path / "build")]) == 0
    assert "operators in front of the first quantisation stay: slice 'Slice2'" in capsys.readouterr().out
    assert main(["generate", str(path), "-o", str(tmp_path / "b"), "--front-end", str(path)]) == 2
    assert "mirrors the image" in capsys.readouterr().err and not (tmp_path / "b").exists()


def test_another_model_says_what_it_takes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "other").mkdir()
    path, other = written(tmp_path, CASES["linear"][0]), written(tmp_path / "other", CASES["normalise"][0])
    assert main(["generate", str(path), "-o", str(tmp_path / "b"), "--front-end", str(other)]) == 2
    assert "[codes] says int8" in capsys.readouterr().err
