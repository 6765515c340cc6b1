"""What a deployment file may say, and what is answered where it says something else."""

from __future__ import annotations

from pathlib import Path

import pytest

from atonc.delivery.deploy.config import class_names, read_config
from atonc.machine.base.errors import InputError
from tests.deploy.samples import SAMPLES

_BASE = """general:
  model_path: model.tflite
  model_type: st_yolo_x
operation_mode: deployment
dataset:
  class_names: [person]
preprocessing:
  resizing:
    aspect_ratio: crop
  color_mode: rgb
postprocessing:
  confidence_thresh: 0.6
deployment:
  c_project_path: ../app
  hardware_setup:
    serie: STM32N6
    board: STM32N6570-DK
"""


def _read(folder: Path, *changes: tuple[str, str]) -> object:
    text = _BASE
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path = folder / "c.yaml"
    path.write_text(text)
    return read_config(path)


def test_every_sample_is_known_by_its_use_case(tmp_path: Path) -> None:
    found = {read_config(sample.write(tmp_path)).use_case for sample in SAMPLES}
    assert len(found) == 12


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("crop", "stretch", "c.yaml:9: preprocessing.resizing.aspect_ratio: 'stretch' is not allowed"),
        ("0.6", "60", "c.yaml:12: postprocessing.confidence_thresh: '60' is not allowed"),
        ("[person]", "person", "c.yaml:6: dataset.class_names"),
        ("confidence_thresh", "confidence_tresh", "c.yaml:12: postprocessing.confidence_tresh: is unknown"),
        ("deployment:\n", "deploymnt:\n", "deploymnt: is unknown; deployment is meant?"),
        (
            "operation_mode: deployment",
            "operation_mode: training",
            "c.yaml:4: operation_mode: 'training' does not deploy",
        ),
        ("    serie: STM32N6\n", "", "deployment.hardware_setup.serie: is missing"),
        ("../app", "${oc.env:HOME}/app", "refers to another value"),
    ],
)
def test_refusals_name_file_line_and_key(tmp_path: Path, old: str, new: str, said: str) -> None:
    with pytest.raises(InputError) as error:
        _read(tmp_path, (old, new))
    assert said in str(error.value)


def test_unknown_keys_are_named_once(tmp_path: Path) -> None:
    config = _read(tmp_path, ("  color_mode: rgb\n", "  color_mode: rgb\n  sharpness: 3\n"))
    assert len(config.notes) == 1 and "c.yaml:11: preprocessing.sharpness" in config.notes[0]  # type: ignore[attr-defined]


def test_keys_of_training_are_none_of_our_business(tmp_path: Path) -> None:
    config = _read(tmp_path, ("dataset:\n", "dataset:\n  training_csv_path: x\n  quantization_audio_path: y\n"))
    assert config.notes == ()  # type: ignore[attr-defined]


def test_paths_count_from_the_file_or_its_parent(tmp_path: Path) -> None:
    (tmp_path / "app").mkdir()
    (tmp_path / "src").mkdir()
    config = _read(tmp_path / "src")
    assert config.project().resolve() == tmp_path / "app"  # type: ignore[attr-defined]
    with pytest.raises(InputError, match="there is nothing at this path"):
        config.model_file()  # type: ignore[attr-defined]


def test_a_model_on_a_server_is_not_fetched(tmp_path: Path) -> None:
    config = _read(tmp_path, ("model.tflite", "https://example.org/model.tflite"))
    with pytest.raises(InputError, match="is not on this machine"):
        config.model_file()  # type: ignore[attr-defined]


def test_classes_come_from_the_file_that_is_named(tmp_path: Path) -> None:
    (tmp_path / "names.txt").write_text("cat\r\ndog\r\n\r\n")
    config = _read(tmp_path, ("class_names: [person]", "classes_file_path: names.txt"))
    assert class_names(config) == ("cat", "dog")  # type: ignore[arg-type]


def test_names_are_sorted_where_training_sorted_them(tmp_path: Path) -> None:
    samples = {sample.name: sample for sample in SAMPLES}
    assert class_names(read_config(samples["classification"].write(tmp_path))) == ("daisy", "roses")
    assert class_names(read_config(samples["audio"].write(tmp_path))) == ("chainsaw", "dog")
