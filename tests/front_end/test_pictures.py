"""Front ends of pictures: the C code and the Python twin give the same codes, those of the packages that they name."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import atonc
from atonc.delivery.front_end import picture_text
from atonc.delivery.front_end.picture import CHECKS, FORMATS, PICTURE, PicturePipeline, presets
from atonc.delivery.front_end.picture_twin import PictureFrontEnd, picture_front_end
from atonc.doors.cli.cli import main
from atonc.machine.base.about import package_folder
from atonc.machine.base.errors import InputError
from tests.front_end.pictures import PictureOnHost, frames, pictures

DIGITS = str(Path(__file__).parents[2] / "examples" / "digits" / "digits.tflite")
Sections = Mapping[str, Any]
CAMERA: Sections = {"format": "rgb888", "width": 160, "height": 120, "stride": 500}
INT8 = ("int8", 1 / 255, -128)
CASES: Mapping[str, tuple[Sections, tuple[str, float, int]]] = {
    **{name: ({"based_on": name, "picture": CAMERA}, ("int8", 0.0185, -13)) for name in presets()},
    **{
        f"{name} {order}": (
            {"picture": {"format": name, "width": 54, "height": 37}, "resize": {"width": 41, "height": 23},
             "colour": {"order": order}}, INT8,
        )
        for name in FORMATS for order in ("rgb", "grey")
    },
    **{
        f"{how} {at}": (
            {"picture": {**CAMERA, "format": "grey8"}, "resize": {"width": 97, "height": 61, "how": how, "at": at},
             "colour": {"order": "grey"}}, ("uint8", 1 / 255, 0),
        )
        for how in ("nearest", "bilinear") for at in ("half_pixel", "align_corners", "asymmetric")
    },
    "full range, BGR, three tables": (
        {"picture": {"format": "yuyv", "width": 62, "height": 41, "stride": 130, "range": "full"},
         "crop": {"to": "box", "box": [7, 3, 33, 21]}, "resize": {"width": 50, "height": 64},
         "colour": {"order": "bgr"}, "normalise": {"mean": [0.1, 0.2, 0.3], "deviation": [1.0, 2.0, 0.5]}},
        ("int16", 0.0001, -77),
    ),
    "floats": ({"picture": CAMERA, "resize": {"width": 31, "height": 9, "antialias": True}}, ("float32", 1.0, 0)),
    "one pixel": ({"picture": {"width": 1, "height": 1}, "resize": {"width": 3, "height": 2}}, INT8),
    "to one pixel": ({"picture": CAMERA, "resize": {"width": 1, "height": 1, "at": "align_corners"}}, INT8),
    "letterbox, antialias, grey around": (
        {"picture": CAMERA, "resize": {"width": 33, "height": 70, "fit": "letterbox", "antialias": True, "pad": 9},
         "colour": {"order": "grey"}}, INT8,
    ),
}  # fmt: skip


def case(name: str) -> PictureFrontEnd:
    sections, codes = CASES[name]
    if sections.get("based_on") == "yolo_letterbox":
        sections = {**sections, "resize": {"width": 192, "height": 192}}
    if sections.get("based_on") == "tflite_uint8":
        codes = ("uint8", 1 / 128, 128)
    return picture_front_end(sections).for_input(*codes)


@pytest.mark.parametrize("name", CASES)
def test_c_and_python_give_the_same_codes(name: str, tmp_path: Path) -> None:
    made = case(name)
    host = PictureOnHost(made, tmp_path)
    for frame in frames(made.pipeline):
        expected = made.of_frame(frame)
        assert np.array_equal(host(frame), expected)
    if expected.size > 100:
        assert len(np.unique(expected)) > 15


def test_planes_are_the_same_codes(tmp_path: Path) -> None:
    made = case("yolo_letterbox")
    host = PictureOnHost(made, tmp_path, True, "-O3")
    for frame in frames(made.pipeline):
        assert np.array_equal(host(frame), made.of_frame(frame))


def test_a_frame_and_its_picture_are_the_same() -> None:
    made = picture_front_end({"based_on": "imagenet_torchvision", "picture": {"width": 90, "height": 70}})
    for picture in pictures(90, 70):
        assert np.array_equal(made(picture), made.of_frame(picture))
        codes = made.for_input("int8", 0.02, -5)(picture)
        assert np.abs((codes + 5.0) * 0.02 - np.clip(made.features(picture), -2.46, 2.64)).max() <= 0.0101


# ------------------------------------------------------------------------------------------------------- declared


def test_every_key_of_every_section_is_checked() -> None:
    plain = PicturePipeline()
    declared = {f"{name}.{field.name}" for name in PICTURE.sections for field in fields(getattr(plain, name))}
    assert declared | {"name"} == set(CHECKS)
    page = (Path(__file__).parents[2] / "docs" / "front_ends.md").read_text()
    assert [name for name in (*presets(), *CHECKS) if f"`{name}`" not in page] == []


def test_every_piece_of_c_is_used() -> None:
    used = {part for name in CASES for part in picture_text.parts_of(case(name).pipeline)}
    assert {path.name for path in (package_folder() / "machine" / "runtime" / "pictures").iterdir()} == used


FRAME = "[picture]\nwidth = 64\nheight = 48\n"


@pytest.mark.parametrize(
    ("text", "where", "says"),
    [
        ("[picture]\nformat = 'rgb'\n", "front_end.toml:2: picture.format", "one of rgb565"),
        ("[picture]\nwidth = 64\n", "picture.height", "say both"),
        (f"{FRAME}stride = 100\n", "front_end.toml:4: picture.stride", "stride = 192"),
        ("[picture]\nformat = 'yuyv'\nwidth = 63\nheight = 4\n", "picture.width", "an even one"),
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
        (f"{FRAME}[mel]\ncount = 3\n", "mel", "known: picture"),
    ],
)
def test_mistakes_are_said_with_their_place(text: str, where: str, says: str, tmp_path: Path) -> None:
    file = tmp_path / "front_end.toml"
    file.write_text(text)
    with pytest.raises(InputError) as caught:
        atonc.front_end(file)
    assert where in str(caught.value) and says in str(caught.value)


def test_what_is_no_picture_is_refused() -> None:
    made = atonc.front_end("imagenet_torchvision")
    for wrong in (np.zeros((9, 9, 3)), np.zeros((2, 9, 9, 3), np.uint8), np.zeros((3, 9, 9), np.uint8)):
        with pytest.raises(InputError, match="a picture of shape"):
            made(wrong)
    assert isinstance(made, PictureFrontEnd)
    with pytest.raises(InputError, match="no width and height"):
        made.of_frame(np.zeros(9, np.uint8))
    with pytest.raises(InputError, match="take 57,600 bytes"):
        picture_front_end({"picture": {"width": 160, "height": 120}}).of_frame(np.zeros(57_599, np.uint8))


def test_constants_are_measured_and_normalise() -> None:
    made = list(pictures(60, 50))
    found = picture_front_end({"picture": {}, "resize": {"width": 20, "height": 20}}).measured(made)
    again = picture_front_end({"resize": {"width": 20, "height": 20}, "normalise": found})
    features = np.stack([again.features(one) for one in made]).reshape(-1, 3)
    assert np.abs(features.mean(0)).max() < 1e-5 and np.abs(features.std(0) - 1).max() < 1e-5


# ------------------------------------------------------------------------------------------------------- generate

TOML = (
    "[picture]\nformat = 'rgb565'\nwidth = 64\nheight = 48\n[resize]\nwidth = 8\nheight = 8\n[colour]\norder = 'grey'\n"
)


def test_generate_writes_a_front_end_for_the_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, folder = tmp_path / "front_end.toml", tmp_path / "build"
    file.write_text(TOML)
    command = ["generate", DIGITS, "-n", "digits", "-o", str(folder), "--no-verify", "--front-end", str(file)]
    assert main(command) == 0
    assert "64 x 48 rgb565 to 8 x 8 x 1 for image" in " ".join(capsys.readouterr().out.split())
    header = (folder / "digits_front_end.h").read_text()
    assert "void digits_front_end_picture(" in header and "int8_t digits_front_end_code" in header
    assert main([*command, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)["result"]["front_end"]
    assert said["shape"] == [8, 8, 1] and said["frame"] == [64, 48]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("st_modelzoo", "[picture] has no width and height"),
        (TOML.replace("= 8", "= 16"), '[resize] width = 8, height = 8, and [colour] order = "grey"'),
        (TOML.replace("grey", "rgb"), "pictures of 8 x 8 x 3 fit no input"),
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
