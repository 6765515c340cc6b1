"""Front ends of images: the C code and the Python twin give the same codes, those of the packages that they name."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import atonc
from atonc.delivery.firmware import building
from atonc.delivery.front_end import image_text
from atonc.delivery.front_end.image import CHECKS, FORMATS, IMAGE, ImagePipeline, presets
from atonc.delivery.front_end.image_twin import ImageFrontEnd, image_front_end
from atonc.doors.cli.cli import main
from atonc.machine.base.about import package_folder
from atonc.machine.base.errors import InputError
from tests.front_end.images import ImageOnBoard, ImageOnHost, frames, images, write_image

DIGITS = str(Path(__file__).parents[2] / "examples" / "digits" / "digits.tflite")
Sections = Mapping[str, Any]
CAMERA: Sections = {"format": "rgb888", "width": 160, "height": 120, "stride": 500}
INT8 = ("int8", 1 / 255, -128)
CASES: Mapping[str, tuple[Sections, tuple[str, float, int]]] = {
    **{name: ({"based_on": name, "image": CAMERA}, ("int8", 0.0185, -13)) for name in presets()},
    **{
        f"{name} {order}": (
            {"image": {"format": name, "width": 54, "height": 37}, "resize": {"width": 41, "height": 23},
             "colour": {"order": order}}, INT8,
        )
        for name in FORMATS for order in ("rgb", "grey")
    },
    **{
        f"{how} {at}": (
            {"image": {**CAMERA, "format": "grey8"}, "resize": {"width": 97, "height": 61, "how": how, "at": at},
             "colour": {"order": "grey"}}, ("uint8", 1 / 255, 0),
        )
        for how in ("nearest", "bilinear") for at in ("half_pixel", "align_corners", "asymmetric")
    },
    "full range, BGR, three tables": (
        {"image": {"format": "yuyv", "width": 62, "height": 41, "stride": 130, "range": "full"},
         "crop": {"to": "box", "box": [7, 3, 33, 21]}, "resize": {"width": 50, "height": 64},
         "colour": {"order": "bgr"}, "normalise": {"mean": [0.1, 0.2, 0.3], "deviation": [1.0, 2.0, 0.5]}},
        ("int16", 0.0001, -77),
    ),
    "BGR camera, antialias, odd": (
        {"image": {"format": "bgr888", "width": 41, "height": 30, "stride": 130},
         "resize": {"width": 13, "height": 9, "antialias": True}, "normalise": {"mean": [0.1, 0.2, 0.3]}}, INT8,
    ),
    "floats": ({"image": CAMERA, "resize": {"width": 31, "height": 9, "antialias": True}}, ("float32", 1.0, 0)),
    "one pixel": ({"image": {"width": 1, "height": 1}, "resize": {"width": 3, "height": 2}}, INT8),
    "to one pixel": ({"image": CAMERA, "resize": {"width": 1, "height": 1, "at": "align_corners"}}, INT8),
    "letterbox, antialias, grey around": (
        {"image": CAMERA, "resize": {"width": 33, "height": 70, "fit": "letterbox", "antialias": True, "pad": 9},
         "colour": {"order": "grey"}}, INT8,
    ),
}  # fmt: skip


def case(name: str) -> ImageFrontEnd:
    sections, codes = CASES[name]
    if sections.get("based_on") == "yolo_letterbox":
        sections = {**sections, "resize": {"width": 192, "height": 192}}
    if sections.get("based_on") == "tflite_uint8":
        codes = ("uint8", 1 / 128, 128)
    return image_front_end(sections).for_input(*codes)


@pytest.mark.parametrize("name", CASES)
def test_c_and_python_give_the_same_codes(name: str, tmp_path: Path) -> None:
    made = case(name)
    host = ImageOnHost(made, tmp_path)
    for frame in frames(made.pipeline):
        expected = made.of_frame(frame)
        assert np.array_equal(host(frame), expected)
    if expected.size > 100:
        assert len(np.unique(expected)) > 15


def test_planes_are_the_same_codes(tmp_path: Path) -> None:
    made = case("yolo_letterbox")
    host = ImageOnHost(made, tmp_path, True, "-O3")
    for frame in frames(made.pipeline):
        assert np.array_equal(host(frame), made.of_frame(frame))


@pytest.mark.parametrize(
    ("compiler", "flags"),
    [("g++", ("-std=c++17", "-x", "c++")), ("clang", ("-std=c11",)),
     ("arm-none-eabi-gcc", ("-mcpu=cortex-m55", "-mfloat-abi=hard", "-std=c99", "-O2"))],
)  # fmt: skip
def test_compilers_take_it_without_a_warning(compiler: str, flags: tuple[str, ...], tmp_path: Path) -> None:
    found = shutil.which(compiler)
    if found is None:
        pytest.skip(f"no {compiler}")
    grey = image_front_end({"image": {**CAMERA, "format": "grey8"}, "colour": {"order": "grey"}}).for_input(*INT8)
    named = ("imagenet_torchvision", "yuyv grey", "full range, BGR, three tables", "nearest asymmetric")
    for made in (grey, *map(case, named)):
        source = write_image(made.pipeline, tmp_path)
        options = ["-Wall", "-Wextra", "-Werror", "-Wshadow", "-c", str(source), "-o", str(tmp_path / "x.o")]
        subprocess.run([found, *flags, *options], check=True)


@pytest.mark.skipif(shutil.which(building.GCC) is None, reason="no arm-none-eabi-gcc")
@pytest.mark.parametrize("cpu", ["cortex-m55", "cortex-m33"])
@pytest.mark.parametrize(
    "name", ["imagenet_torchvision", "full range, BGR, three tables", "rgb565 grey", "BGR camera, antialias, odd"]
)
def test_the_virtual_board_gives_the_same_codes(name: str, cpu: str, tmp_path: Path) -> None:
    pytest.importorskip("unicorn", reason="unicorn is not installed: pip install 'atonc[board]'")
    made = case(name)
    if name == "imagenet_torchvision":
        small = {"width": 24, "height": 24, "short_side": 27}
        sections = {"based_on": name, "image": {"width": 64, "height": 48}, "resize": small}
        made = image_front_end(sections).for_input(*INT8)
    board = ImageOnBoard(made, tmp_path, cpu)
    for frame in list(frames(made.pipeline))[:2]:
        assert np.array_equal(board(frame), made.of_frame(frame))


def test_sizes_are_those_of_the_compiler(tmp_path: Path) -> None:
    gcc = shutil.which("gcc")
    if gcc is None:
        pytest.skip("no gcc")
    for name in CASES:
        p = case(name).pipeline
        write_image(p, tmp_path)
        check = f'_Static_assert(sizeof(x_front_end_state) == {image_text.state_bytes(p)}, "{name}");\n'
        (tmp_path / "size.c").write_text(f'#include "x_front_end.h"\n{check}')
        subprocess.run([gcc, "-fsyntax-only", str(tmp_path / "size.c")], check=True)


def test_pillow_gives_the_same_bytes() -> None:
    pillow = pytest.importorskip("PIL.Image", reason="Pillow is not installed: pip install 'atonc[images]'")
    bilinear, nearest = pillow.Resampling.BILINEAR, pillow.Resampling.NEAREST
    torchvision, keras = image_front_end("imagenet_torchvision"), image_front_end("keras_mobilenet")
    grey = image_front_end({"resize": {"width": 64, "height": 48, "antialias": True}, "colour": {"order": "grey"}})
    for width, height in ((320, 240), (333, 517), (100, 80), (256, 256)):
        short = min(width, height)
        size = 256 * width // short, 256 * height // short
        left, top = (round((side - 224) / 2) for side in size)
        for made in images(width, height):
            given = pillow.fromarray(made)
            expected = given.resize(size, bilinear).crop((left, top, left + 224, top + 224))
            assert np.array_equal(torchvision.resized(made), np.asarray(expected))
            assert np.array_equal(keras.resized(made), np.asarray(given.resize((224, 224), nearest)))
            if (width, height) == (320, 240):
                expected = given.convert("L").resize((64, 48), bilinear)
                assert np.array_equal(grey.resized(made)[..., 0], np.asarray(expected))


def test_a_frame_and_its_image_are_the_same() -> None:
    made = image_front_end({"based_on": "imagenet_torchvision", "image": {"width": 90, "height": 70}})
    for image in images(90, 70):
        assert np.array_equal(made(image), made.of_frame(image))
        assert np.array_equal(made(image), made.of_frame(image.tobytes()))
        codes = made.for_input("int8", 0.02, -5)(image)
        assert np.abs((codes + 5.0) * 0.02 - np.clip(made.features(image), -2.46, 2.64)).max() <= 0.0101


# ------------------------------------------------------------------------------------------------------- declared


def test_every_key_of_every_section_is_checked() -> None:
    plain = ImagePipeline()
    declared = {f"{name}.{field.name}" for name in IMAGE.sections for field in fields(getattr(plain, name))}
    assert declared | {"name"} == set(CHECKS)
    page = (Path(__file__).parents[2] / "docs" / "front_ends.md").read_text()
    assert [name for name in (*presets(), *CHECKS) if f"`{name}`" not in page] == []


def test_every_piece_of_c_is_used() -> None:
    used = {part for name in CASES for part in image_text.parts_of(case(name).pipeline)}
    assert {path.name for path in (package_folder() / "machine" / "runtime" / "images").iterdir()} == used


FRAME = "[image]\nwidth = 64\nheight = 48\n"


@pytest.mark.parametrize(
    ("text", "where", "says"),
    [
        ("[image]\nformat = 'rgb'\n", "front_end.toml:2: image.format", "one of rgb565"),
        ("[image]\nwidth = 64\n", "image.height", "say both"),
        (f"{FRAME}stride = 100\n", "front_end.toml:4: image.stride", "stride = 192"),
        ("[image]\nformat = 'yuyv'\nwidth = 63\nheight = 4\n", "image.width", "an even one"),
        (f"{FRAME}[crop]\nbox = [0, 0, 3, 3]\n", "front_end.toml:5: crop.box", 'to = "box"'),
        (f"{FRAME}[crop]\nto = 'box'\nbox = [0, 0, 3]\n", "crop.box", "four whole numbers"),
        (f"{FRAME}[crop]\nto = 'box'\nbox = [40, 0, 30, 30]\n", "crop.box", "the box ends at 70, 30"),
        (f"{FRAME}[crop]\nto = 'box'\nbox = [40, 0, 0, 30]\n", "crop.box", "above 0"),
        (f"{FRAME}[resize]\nhow = 'nearest'\nantialias = true\n", "resize.antialias", 'how = "bilinear"'),
        (f"{FRAME}[resize]\nshort_side = 256\n", "resize.short_side", 'fit = "cover"'),
        (f"{FRAME}[resize]\nfit = 'cover'\nshort_side = 200\n", "resize.short_side", "short_side = 224"),
        (f"{FRAME}[normalise]\nmean = [1, 2]\n", "normalise.mean", "2 for 3 colours"),
        (f"{FRAME}[normalise]\ndeviation = 0\n", "normalise.deviation", "not above zero"),
        (f"{FRAME}[normalise]\npixels = 'codes'\nmean = 1\n", "normalise.pixels", "leave mean"),
        ("based_on = 'yolo_leterbox'\n[resize]\nwidth = 3\n", "based_on", "yolo_letterbox"),
        (f"{FRAME}[mel]\ncount = 3\n", "front_end.toml:4: mel", "known: image"),
        ("[imag]\nwidth = 64\n", "front_end.toml:1: imag", "known: "),
        ("based_on = 'nope'\n", "front_end.toml:1: based_on", "yolo_letterbox"),
    ],
)
def test_mistakes_are_said_with_their_place(text: str, where: str, says: str, tmp_path: Path) -> None:
    file = tmp_path / "front_end.toml"
    file.write_text(text)
    with pytest.raises(InputError) as caught:
        atonc.front_end(file)
    assert where in str(caught.value) and says in str(caught.value)


def test_what_is_no_image_is_refused() -> None:
    made = atonc.front_end("imagenet_torchvision")
    for wrong in (np.zeros((9, 9, 3)), np.zeros((2, 9, 9, 3), np.uint8), np.zeros((3, 9, 9), np.uint8)):
        with pytest.raises(InputError, match="an image of shape"):
            made(wrong)
    assert isinstance(made, ImageFrontEnd)
    with pytest.raises(InputError, match="no width and height"):
        made.of_frame(np.zeros(9, np.uint8))
    with pytest.raises(InputError, match="take 57,600 bytes"):
        image_front_end({"image": {"width": 160, "height": 120}}).of_frame(np.zeros(57_599, np.uint8))


def test_constants_are_measured_and_normalise() -> None:
    made = list(images(60, 50))
    found = image_front_end({"image": {}, "resize": {"width": 20, "height": 20}}).measured(made)
    again = image_front_end({"resize": {"width": 20, "height": 20}, "normalise": found})
    features = np.stack([again.features(one) for one in made]).reshape(-1, 3)
    assert np.abs(features.mean(0)).max() < 1e-5 and np.abs(features.std(0) - 1).max() < 1e-5


# ------------------------------------------------------------------------------------------------------- generate

TOML = (
    "[image]\nformat = 'rgb565'\nwidth = 64\nheight = 48\n[resize]\nwidth = 8\nheight = 8\n[colour]\norder = 'grey'\n"
)


def test_generate_writes_a_front_end_for_the_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, folder = tmp_path / "front_end.toml", tmp_path / "build"
    file.write_text(TOML)
    command = ["generate", DIGITS, "-n", "digits", "-o", str(folder), "--no-verify", "--front-end", str(file)]
    assert main(command) == 0
    assert "64 x 48 rgb565 to 8 x 8 x 1 for image" in " ".join(capsys.readouterr().out.split())
    header = (folder / "digits_front_end.h").read_text()
    assert "void digits_front_end_image(" in header and "int8_t digits_front_end_code" in header
    assert main([*command, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)["front_end"]
    assert said["shape"] == [8, 8, 1] and said["frame"] == [64, 48]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("st_modelzoo", "[image] has no width and height"),
        (TOML.replace("= 8", "= 16"), '[resize] width = 8, height = 8, and [colour] order = "grey"'),
        (TOML.replace("grey", "rgb"), "images of 8 x 8 x 3 fit no input"),
        (f"{TOML}[codes]\ntype = 'int8'\nscale = 0.01\nzero_point = -128\n", "[codes] says int8 scale 0.01"),
    ],
)
def test_what_does_not_fit_is_said_before_anything_is_compiled(
    given: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def compiled(*_: Any, **__: Any) -> None:
        raise AssertionError("it was compiled first")

    monkeypatch.setattr("atonc.doors.verbs.generate.analyzed", compiled)
    if "\n" in given:
        (tmp_path / "front_end.toml").write_text(given)
        given = str(tmp_path / "front_end.toml")
    assert main(["generate", DIGITS, "-o", str(tmp_path / "build"), "--no-verify", "--front-end", given]) == 2
    assert told in " ".join(capsys.readouterr().err.split())


def test_saved_from_python(tmp_path: Path) -> None:
    (tmp_path / "front_end.toml").write_text(TOML)
    saved = atonc.compile(DIGITS, verify=False).save(tmp_path / "build", front_end=tmp_path / "front_end.toml")
    assert any(file.name.endswith("_front_end.c") for file in saved)
