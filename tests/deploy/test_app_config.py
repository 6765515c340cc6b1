"""Headers: golden files, what C makes of them, and what does not fit the model."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from atonc.delivery.deploy.app_config import CURRENT, DIALECTS, ZOO, header_of, output_type_of, text_of
from atonc.delivery.deploy.app_config.header import c_string, dialect_of, meaning, read_facts
from atonc.delivery.deploy.config import read_config
from atonc.machine.base.errors import AtoncError, InputError
from tests.deploy.samples import SAMPLES, Sample

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "deploy"
BY_NAME = {sample.name: sample for sample in SAMPLES}
DETECTION = "use_case: object_detection\n"
CASES = [(sample, dialect) for sample in SAMPLES for dialect in DIALECTS]


def header(sample: Sample, dialect: str, folder: Path) -> str:
    config = read_config(sample.write(folder))
    return text_of(header_of(config, read_facts(config.model_file()), dialect))


@pytest.mark.parametrize(("sample", "dialect"), CASES, ids=[f"{s.name}-{d}" for s, d in CASES])
def test_golden(sample: Sample, dialect: str, tmp_path: Path) -> None:
    """Lines behind the first, which names our version."""
    written = header(sample, dialect, tmp_path).splitlines()[1:]
    assert written == (GOLDEN / f"{sample.name}.{dialect}.h").read_text().splitlines()[1:]


def test_movenet_as_in_the_published_deployment(tmp_path: Path) -> None:
    found = meaning(header(BY_NAME["movenet"], ZOO, tmp_path))
    assert found["POSTPROCESS_TYPE"] == "POSTPROCESS_SPE_MOVENET_UF"
    assert (found["NN_HEIGHT"], found["NN_WIDTH"]) == ("( 192 )", "( 192 )")
    assert found["AI_POSE_PP_CONF_THRESHOLD"] == "( 0.4 )"
    assert found["AI_POSE_PP_POSE_KEYPOINTS_NB"] == "( 13 )"
    assert found["AI_SPE_MOVENET_POSTPROC_HEATMAP_WIDTH"] == "( NN_WIDTH / 4 )"


@pytest.mark.parametrize(("name", "prefix"), [("yolo_v2", "YOLOV2"), ("yolo_x", "YOLOVX")])
def test_an_stm32h7_header_has_one_prefix(name: str, prefix: str, tmp_path: Path) -> None:
    """Both dialects give the names that its published applications read, and none that nobody defines."""
    sample = replace(BY_NAME[name], board=("STM32H7", "STM32H747I-DISCO"))
    old, today = (meaning(header(sample, dialect, tmp_path)) for dialect in (ZOO, CURRENT))
    assert old == today
    numbers = {key for key in today if key.startswith("AI_")}
    assert numbers and all(key.startswith(f"AI_OBJDETECT_{prefix}_PP_") for key in numbers)
    assert set(re.findall(r"AI_\w+", " ".join(today.values()))) <= numbers


@pytest.mark.skipif(shutil.which("arm-none-eabi-gcc") is None, reason="needs arm-none-eabi-gcc")
def test_headers_are_c(tmp_path: Path) -> None:
    """All at once, each a unit that uses its table of names."""
    (tmp_path / "arm_math.h").write_text("typedef float float32_t;\n")
    (tmp_path / "app_od.h").write_text("")
    units = []
    for sample, dialect in CASES:
        unit = tmp_path / f"{sample.name}_{dialect}.c"
        text = header(sample, dialect, tmp_path)
        use = "CLASSES_TABLE;\n" if "CLASSES_TABLE" in text else ""
        unit.write_text(text + use + "int unused;\n")
        units.append(str(unit))
    command = ["arm-none-eabi-gcc", "-fsyntax-only", "-Wall", "-Werror", "-Wno-unused-const-variable", *units]
    done = subprocess.run([*command, "-Wno-unused-variable"], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        ("classification", {"given": ((1, 3),)}, "lists 2 classes, the model has 3"),
        ("yolo_v8", {"given": ((1, 7, 84),)}, "lists 2 classes, the model has 3"),
        ("yolo_x", {"given": ((1, 8, 8, 7), (1, 4, 4, 7), (1, 2, 2, 7))}, "1 class and 1 anchor need outputs of"),
        ("yolo_v2", {"given": ((1, 2, 4, 35),)}, "240 outputs, the model has 280"),
        ("movenet", {"given": ((1, 48, 48, 17),)}, "is 13, the model has 17"),
        ("movenet", {"given": ((1, 24, 24, 13),)}, "not a quarter of the image"),
        ("semantic", {"given": ((1, 8, 8, 2),)}, "are not the output, 1x8x8x2"),
        ("instance", {"given": ((1, 39, 84), (1, 16, 16, 32))}, "lists 2 classes, the model has 3"),
        ("ssd", {"given": ((1, 96, 3), (1, 96, 4), (1, 96, 4))}, "lists 1 class,"),
        ("blazeface", {"given": ((1, 512, 16),)}, "not two grids"),
        ("audio", {"taken": (1, 64, 50, 1)}, "a patch has 6,144 values, the model takes 3,200"),
        ("classification", {"taken": (1, 32, 32, 1)}, "the model takes 1 channels"),
        ("depth", {"given": ((1, 8, 8, 1),)}, "no map of the image"),
        ("yolo_v8", {"model_type": "v99", "text": DETECTION + BY_NAME["yolo_v8"].text}, "write st_ssd_mobilenet_v1"),
        ("hand", {"text": BY_NAME["hand"].text.replace("Like", "Wave")}, "unknown postures: Wave"),
        ("audio", {"text": BY_NAME["audio"].text.replace("n_fft: 512", "n_fft: 500")}, "500 is no power of two"),
        ("yolo_x", {"text": BY_NAME["yolo_x"].text.replace("crop", "padding")}, "write crop, fit, full_screen"),
        ("yolo_x", {"text": BY_NAME["yolo_x"].text.replace("rgb", "grayscale")}, "write rgb, bgr"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_with_its_line(
    name: str, change: dict[str, object], said: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError) as error:
        header(replace(BY_NAME[name], **change), ZOO, tmp_path)  # type: ignore[arg-type]
    assert said in str(error.value) and ".yaml:" in str(error.value)


def test_an_input_that_is_no_picture(tmp_path: Path) -> None:
    config = read_config(BY_NAME["classification"].write(tmp_path))
    facts = read_facts(config.model_file())
    flat = replace(facts, inputs=(replace(facts.inputs[0], shape=(1, 100)),))
    with pytest.raises(AtoncError, match="no image"):
        header_of(config, flat, ZOO)


def test_outputs_are_compiled_as_the_header_says(tmp_path: Path) -> None:
    """A post-processing that takes int8 only gets int8, also from a model that ends with numbers."""
    config = read_config(BY_NAME["blazeface"].write(tmp_path))
    assert output_type_of(config, read_facts(config.model_file()), CURRENT) == "int8"
    config = read_config(BY_NAME["yolo_x"].write(tmp_path))
    assert output_type_of(config, read_facts(config.model_file()), CURRENT) == ""


def test_names_cannot_end_their_string() -> None:
    assert c_string('a"b\\c') == '"a\\042b\\134c"'
    assert c_string("é1") == '"\\303\\2511"'


def test_the_dialect_is_what_the_sources_use(tmp_path: Path) -> None:
    assert dialect_of(tmp_path) == CURRENT
    (tmp_path / "Lib").mkdir()
    source = tmp_path / "Lib" / "app_postprocess.c"
    source.write_text("x = AI_OD_YOLOV2_PP_NB_CLASSES;\n")
    assert dialect_of(tmp_path) == CURRENT
    source.write_text("x = AI_OBJDETECT_YOLOV2_PP_NB_CLASSES;\n")
    assert dialect_of(tmp_path) == ZOO


def test_meaning_ignores_layout_and_comments() -> None:
    text = '#define A  (1) /* one\n two */\n#define T x = {\\\n  "a" , "b"}\\\n\n'
    text += "static const float32_t B[2*N] ={1.0, 2.0};\r\n"
    assert meaning(text) == {"A": "( 1 )", "T": 'x = { "a" , "b" }', "B": "1.0 , 2.0"}
