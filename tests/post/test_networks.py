"""Networks compiled with `--post`: the command, Python, and detectors of the corpus on the emulator."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from atonc import compile
from atonc.delivery.firmware import building
from atonc.delivery.generate import post
from atonc.doors.cli import cli
from atonc.doors.python.compilation import Compilation
from atonc.insight.evaluating.boxes import PIXELS, SHARES
from atonc.insight.evaluating.options import PostOptions
from atonc.machine.base.errors import InputError
from tests.errors_said import unwrapped
from tests.post.detectors import as_words, found_in_c, library
from tests.real_networks import usual

PAGE = Path(__file__).parents[2] / "docs" / "post_processing.md"
CORPUS = {
    "coco_2017_person__st_ssd_mobilenet_v1_025_192_int8.tflite": "st_ssd",
    "blazeface_front_128_quant_pc_ff_od_wider_face.tflite": "blazeface",
}


def model(path: Path, shape: list[int], scale: float = 0.05) -> Path:
    """Patches of 8 x 8 pixels of a picture of 32 x 32, seven values each."""
    random, tensors, nodes = np.random.default_rng(2), [], []

    def quantised(name: str, scale: float, zero: int) -> str:
        for suffix, value in (("s", np.float32(scale)), ("z", np.int8(zero))):
            tensors.append(numpy_helper.from_array(np.array(value), f"{name}_{suffix}"))
        edges = [f"{name}_s", f"{name}_z"]
        if name != "w":
            nodes.append(helper.make_node("QuantizeLinear", [name, *edges], [f"{name}_q"]))
        nodes.append(helper.make_node("DequantizeLinear", [f"{name}_q", *edges], [f"{name}_d"]))
        return f"{name}_d"

    tensors.append(numpy_helper.from_array(random.integers(-127, 128, (7, 3, 8, 8), np.int8), "w_q"))
    tensors.append(numpy_helper.from_array(np.array(shape, np.int64), "shape"))
    x, w = quantised("x", 1 / 255, -128), quantised("w", 0.004, 0)
    nodes.append(helper.make_node("Conv", [x, w], ["y"], kernel_shape=[8, 8], strides=[8, 8]))
    nodes.append(helper.make_node("Reshape", [quantised("y", scale, 0), "shape"], ["boxes"]))
    edges = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 32, 32]),
             helper.make_tensor_value_info("boxes", TensorProto.FLOAT, shape)]  # fmt: skip
    graph = helper.make_graph(nodes, "detector", edges[:1], edges[1:], tensors)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), str(path))
    return path


def same(network: Compilation, family: str, folder: Path, score: float) -> int:
    """How many boxes C and Python find alike in what the emulator gives for a picture of noise."""
    options = {"post_score": score}
    given = post.post_processing(network.view, PostOptions(post=family, post_score=score))
    random = np.random.default_rng(1)
    wanted = {
        t.name: random.integers(0, 256, t.shape).astype(np.uint8) if t.dtype == "uint8" else random.random(t.shape)
        for t in network.inputs
    }
    outputs = network.run(wanted)
    found = as_words(network.post(outputs, family, **options))
    folder.mkdir(exist_ok=True)
    values = [outputs[name] for name in network.graph.outputs]
    np.testing.assert_array_equal(found_in_c(library(given, folder), given, values, 20), found)
    return len(found)


@pytest.mark.parametrize("type_", ["", "int8"])
@pytest.mark.parametrize(("family", "shape"), [("yolov8", [1, 7, 16]), ("st_yolox", [1, 7, 4, 4])])
def test_a_network_of_ones_own(family: str, shape: list[int], type_: str, tmp_path: Path) -> None:
    network = compile(model(tmp_path / "m.onnx", shape), verify=False, output_data_type=type_)
    assert {tensor.dtype for tensor in network.outputs} == {type_ or "float32"}
    assert same(network, family, tmp_path, 0.1) > 1


@pytest.mark.parametrize("name", CORPUS)
def test_detectors_of_the_corpus(name: str, tmp_path: Path) -> None:
    assert same(Compilation(usual(name)), "auto", tmp_path, 0.05) > 0
    assert post.post_processing(usual(name), PostOptions(post="auto")).decoder.family.name == CORPUS[name]


def test_the_command_writes_and_reports(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = model(tmp_path / "m.onnx", [1, 7, 16])
    arguments = ["generate", str(file), "-n", "eye", "--no-verify", "-o", str(tmp_path / "build"), "--post", "yolov8"]
    assert cli.main([*arguments, "--post-boxes", "7", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)["post"]
    assert (said["family"], said["candidates"], said["classes"]) == ("yolov8", 16, 3)
    header, source = ((tmp_path / "build" / f"eye_post.{end}").read_text() for end in ("h", "c"))
    assert "EYE_POST_BOXES 7U" in header and "uint32_t eye_post(" in header and "MAX" not in header
    assert cli.main(arguments) == 0
    text = capsys.readouterr().out
    assert "post-processing: YOLOv8, 16 boxes of 3 classes" in text
    assert re.search(r"flash: \d+ bytes of constants and at most 2,560 of code; RAM: 6,148 bytes of scratch", text)
    network = compile(file, name="eye", verify=False)
    network.save(tmp_path / "saved", post="yolov8", post_boxes=7)
    assert (tmp_path / "saved" / "eye_post.c").read_text() == source
    assert (tmp_path / "saved" / "eye_post.h").read_text() == header
    assert cli.main([*arguments[:-2]]) == 0  # and goes when it is not wanted any more
    assert not (tmp_path / "build" / "eye_post.c").exists()


def test_another_family_is_refused_before_anything_is_compiled(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = model(tmp_path / "m.onnx", [1, 7, 4, 4])
    monkeypatch.setattr("atonc.delivery.generate.generating.analyze", None)
    assert cli.main(["generate", str(file), "-o", str(tmp_path / "build"), "--post", "yolov8"]) == 2
    said = unwrapped(capsys.readouterr().err)
    assert re.search(r"output boxes\S*: outputs \[\(1, 7, 4, 4\)\] are not those of YOLOv8", said)
    assert "name another family: they fit st_yolox" in said
    assert not (tmp_path / "build").exists()


def test_the_unit_of_coordinates_is_concluded_and_said(tmp_path: Path) -> None:
    for scale, unit in ((0.01, SHARES), (0.3, PIXELS)):
        network = compile(model(tmp_path / "m.onnx", [1, 7, 16], scale), verify=False)
        found = post.post_processing(network.view, PostOptions(post="yolov8"))
        assert found.decoder.unit == unit and unit in found.notes[0]
        assert ("share a scale" in " ".join(found.notes)) == (unit == PIXELS)
    zeros = np.zeros((1, 7, 16), np.float32)
    assert network.post({network.graph.outputs[0]: zeros}).scores.size == 0
    with pytest.raises(InputError, match="no output 'boxes"):
        network.post({})


@pytest.mark.skipif(shutil.which(building.GCC) is None, reason="no arm-none-eabi-gcc")
def test_the_code_of_the_page_compiles(tmp_path: Path) -> None:
    file = model(tmp_path / "m.onnx", [1, 7, 16])
    compile(file, verify=False).save(tmp_path, post="yolov8")
    code = PAGE.read_text().split("```c\n")[1].split("```")[0]
    (tmp_path / "use.c").write_text(code)
    include = building.runtime_folder("include")
    flags = ["-mcpu=cortex-m55", "-mfloat-abi=hard", "-mthumb", "-Wall", "-Wextra", "-Werror", f"-I{include}"]
    subprocess.run([building.GCC, *flags, "-c", str(tmp_path / "use.c"), "-o", str(tmp_path / "use.o")], check=True)
