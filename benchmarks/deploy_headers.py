"""Every deployment file of ST's model zoo: is it read, and is our header what ST's generator writes?

DIR holds `STMicroelectronics+stm32ai-modelzoo-services` and `stm32-hotspot+ultralytics` (as `owner+name/path`);
other models come from the corpus. ST's `gen_h_file.py` runs as published, its TensorFlow replaced by the LiteRT
interpreter and its configuration library by a plain tree; what its `parse_config.py` adds to a file is added here.
Models that are only published as large-file pointers have a stand-in of the same inputs and outputs.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
import tempfile
import types
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from atonc.delivery.deploy.app_config import CURRENT, ZOO, header_of, text_of
from atonc.delivery.deploy.app_config.header import ModelFacts, meaning, read_facts
from atonc.delivery.deploy.config import class_names, read_config
from atonc.machine.base.errors import AtoncError
from benchmarks.shared import tables
from benchmarks.shared.corpus import corpus_dir
from benchmarks.shared.declare import ONE_FETCHED, WRITE, Report
from tests.deploy.stand_ins import stand_in

GROUP = "deployment"
ARGUMENTS = (ONE_FETCHED, WRITE)

SERVICES = "STMicroelectronics+stm32ai-modelzoo-services"
YOLO = "stm32-hotspot+ultralytics/examples/YOLOv8-STEdgeAI/stedgeai_models"
# model of a file -> where it lies here (the corpus, or FETCHED)
STORED = {
    "st_ssd_mobilenet_v1_025_256_int8.tflite": "corpus:coco_2017_person__st_ssd_mobilenet_v1_025_256_int8.tflite",
    "ssd_mobilenet_v2_fpnlite_035_192_int8.tflite": "corpus:ssd_mobilenet_v2_fpnlite_035_192_int8.tflite",
    "st_yolo_x_nano_320_0.33_0.25_int8.tflite": "corpus:coco_2017_person__st_yolo_x_nano_320_0.33_0.25_int8.tflite",
    "st_movenet_lightning_heatmaps_192_int8_pc.tflite": "corpus:st_movenet_lightning_heatmaps_192_int8_pc.tflite",
    "model.onnx": "corpus:stft_tcnn_medium_sigmoid_nonorm_qdq_pc_ff_257x40_int8.onnx",
    "yolov8n_256_quant_pc_uf_od_coco-person-st.tflite": f"{YOLO}/object_detection/{{}}",
    "yolov8n_256_quant_pt_uf_pose_coco-st.tflite": f"{YOLO}/pose_estimation/{{}}",
    "yolov8n_256_quant_pc_uf_seg_coco-st.tflite": f"{YOLO}/segmentation/yolov8n_256_quant_pc_ii_seg_coco-st.tflite",
}
# inputs and outputs of models that nobody stores here: shape of the picture, shape of the output
STAND_INS = {
    "mobilenet_v2_0.35_128_fft_int8.tflite": ((1, 128, 128, 3), (1, 5)),
    "movenet_lightning_heatmaps_224_int8_pc.tflite": ((1, 224, 224, 3), (1, 56, 56, 17)),
    "tiny_yolo_v2_416_int8.tflite": ((1, 416, 416, 3), (1, 13, 13, 30)),
    "deeplab_v3_mobilenetv2_05_16_320_asppv2_qdq_int8.onnx": ((1, 3, 320, 320), (1, 2, 320, 320)),
    "yamnet_256_64x96_tl_int8.tflite": ((1, 64, 96, 1), (1, 10)),
    "CNN2D_ST_HandPosture_8classes.h5": ((1, 8, 8, 2), (1, 8)),
    "ign_wl_24.h5": ((1, 24, 3, 1), (1, 4)),
}
# application, board, model in the corpus, what its app_config.h says as a deployment file
TODAY = (
    (
        "ObjectDetection",
        "STM32N6570-DK",
        "st_yolo_x_nano_480_1.0_0.25_3_st_int8.tflite",
        "model_type: st_yolo_x",
        "class_names: [person]",
        "confidence_thresh: 0.6, NMS_thresh: 0.5, max_detection_boxes: 100, yolo_anchors: [.5, .5, .07, .25, .23, .7]",
    ),
    (
        "PoseEstimation",
        "STM32N6570-DK",
        "st_movenet_lightning_heatmaps_192_int8_pc.tflite",
        "model_type: heatmaps_spe",
        "keypoints: 13",
        "confidence_thresh: 0.5",
    ),
    (
        "SemanticSegmentation",
        "STM32N6570-DK",
        "deeplab_v3_mobilenetv2_05_16_320_fft_qdq_int8.onnx",
        "model_type: deeplab_v3",
        "class_names: [not_person, person]",
        "",
    ),
    (
        "FaceDetection",
        "STM32N6570-DK",
        "blazeface_front_128_quant_pc_ff_od_wider_face.tflite",
        "model_type: blazeface",
        "",
        "confidence_thresh: 0.8, NMS_thresh: 0.5, max_detection_boxes: 3",
    ),
    (
        "ImageClassification",
        "NUCLEO-N657X0-Q",
        "mobilenet_v1_0.25_96_tfs_int8.tflite",
        "model_type: mobilenet",
        "class_names: [daisy, dandelion, rose, sunflower, tulip]",
        "",
    ),
    ("ReID", "NUCLEO-N657X0-Q", "mobilenetv2_a100_256_128_fft_int8.tflite", "model_type: mobilenet", "", ""),
)
TODAY_HEAD = """
## In the spelling of today's applications

Against the `app_config.h` that each application is published with, for its own model: names with the same value in
both (numbers count as numbers), names that only one of them has.

| application | board | same | only ours | only theirs | other value |
|---|---|---|---|---|---|
"""
HEAD = """# Headers for the deployment files of ST's model zoo

ST's generator ran unchanged, locally.

- *model*: **published**: the file itself; **stand-in**: a small model with the inputs and outputs of the published one,
  which is only to be had from a large-file store (a header depends on nothing else).
- *defines*: names with the same value in ours and ST's, of all names in either; what differs is below.

Where ours differs on purpose (none of the files below asks for it):

- `aspect_ratio: padding` on the STM32N6 is refused: ST's header uses `ASPECT_RATIO_PADDING`, which nothing defines.
- `color_mode: grayscale` on the STM32N6 is refused with the allowed words (ST: a Python error).
- Grids of pictures that are not square: ST's YOLO v2 header takes the height for both; the anchors of YOLO X are scaled
  by the width only.
- YOLO v2 without `yolo_anchors`: ST writes its anchors as parts of the picture, the application wants cells of the
  grid.
- Numbers of classes, key points, anchors and heat maps that are not the model's are refused, with the line of the file.
- `CLASSES_TABLE` of ST ends with a line continuation, and names with quotes end its strings.

| file | use case | target | model | defines | result |
|---|---|---|---|---|---|
"""


@dataclass(frozen=True)
class Row:
    file: str
    cells: tuple[str, ...]
    notes: tuple[str, ...] = ()
    good: bool = True


class Tree(dict):
    """A configuration as ST's scripts see it: attributes, None where there is nothing."""

    def __getattr__(self, name: str) -> Any:
        return self.get(name)

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value


def tree(value: Any) -> Any:
    if isinstance(value, dict):
        return Tree({key: tree(item) for key, item in value.items()})
    return [tree(item) for item in value] if isinstance(value, list) else value


# ----------------------------------------------------------------------------------------------------- ST's generators


def stub_modules(services: Path, output: Path) -> None:
    """What the generators import: LiteRT for TensorFlow, nothing for the rest."""
    from ai_edge_litert.interpreter import Interpreter

    def module(name: str, **members: Any) -> types.ModuleType:
        made = types.ModuleType(name)
        made.__dict__.update(members)
        sys.modules[name] = made
        return made

    run = types.SimpleNamespace(runtime=types.SimpleNamespace(output_dir=str(output)))
    hydra = types.SimpleNamespace(get=lambda: run)
    tf = module("tensorflow", lite=types.SimpleNamespace(Interpreter=Interpreter))
    module("tensorflow.keras", backend=None)
    tf.keras = sys.modules["tensorflow.keras"]  # type: ignore[attr-defined]
    module("hydra")
    module("hydra.core")
    module("hydra.core.hydra_config", HydraConfig=hydra)
    module("omegaconf", DictConfig=dict, OmegaConf=None, open_dict=None)
    module("munch", DefaultMunch=None)
    module("requests")
    module("postprocessing")
    module("postprocessing.tflite_ssd_postprocessing_removal")
    module("postprocessing.tflite_ssd_postprocessing_removal.ssd_model_cut_function", ssd_post_processing_removal=None)
    module("models_utils", get_model_name_and_its_input_shape=lambda path: ("", _input_shape(Path(path))))
    sys.path[:0] = [str(services / "common" / "utils"), str(services / "hand_posture" / "src" / "utils")]


def _input_shape(path: Path) -> tuple[int, ...]:
    return read_facts(path).inputs[0].shape[1:]


def their_text(services: Path, file: Path, serie: str, model: Path, output: Path) -> str:
    use_case = file.relative_to(services).parts[0]
    folder = services / use_case / "src"
    places = (folder / "utils" / "gen_h_file.py", folder / "deployment" / "gen_h_file.py")
    script = next(path for path in places if path.exists())
    spec = importlib.util.spec_from_file_location(f"gen_{use_case}", script)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    config = parsed(file, use_case, output)
    for old in (output / "C_header").glob("*"):
        old.unlink()
    os.chdir(folder)
    (output / "C_header").mkdir(exist_ok=True)
    if hasattr(module, "gen_h_user_file_n6"):
        name = "gen_h_user_file_h7" if serie == "STM32H7" else "gen_h_user_file_n6"
        getattr(module, name)(config, str(model))
    elif use_case == "hand_posture":
        module.gen_h_user_file(config, str(model))
    else:
        module.gen_h_user_file(config)
    return next((output / "C_header").glob("*.h")).read_text()


def parsed(file: Path, use_case: str, output: Path) -> Tree:
    """The file as ST's `parse_config.py` hands it on."""
    found = tree(yaml.safe_load(file.read_text()))
    found.output_dir = str(output)
    if found.dataset is not None:
        found.dataset.class_names = list(class_names(read_config(file))) if use_case != "pose_estimation" else None
    after, kind = found.postprocessing, (found.general or {}).get("model_type")
    if use_case == "object_detection" and after is not None:
        after.network_stride = {"tiny_yolo_v2": 32, "st_yolo_lc_v1": 16, "st_yolo_x": [8, 16, 32]}.get(kind)
        flat = after.yolo_anchors or ([0.5, 0.5] if kind == "st_yolo_x" else [0.0, 0.0])
        after.yolo_anchors = np.reshape(np.array(flat, np.float32), [-1, 2])
    return found


# ------------------------------------------------------------------------------------------------------------ compared


def model_of(name: str, fetched: Path, scratch: Path) -> tuple[Path | None, str]:
    if name in STORED:
        where = STORED[name].format(name)
        path = corpus_dir() / "models" / where[7:] if where.startswith("corpus:") else fetched / where
        return (path, "published") if path.is_file() else (None, "absent")
    if name not in STAND_INS:
        return None, "absent"
    path = scratch / (name.replace(".h5", ".tflite"))
    path.write_bytes(stand_in(*STAND_INS[name], onnx=name.endswith(".onnx")))
    return path, "stand-in"


def compare(services: Path, file: Path, fetched: Path, scratch: Path) -> Row:
    short = f"{file.relative_to(services).parts[0]}/{file.name}"
    try:
        config = read_config(file)
    except AtoncError as error:
        return Row(short, ("?", "?", "-", "-", "not read"), (error.one_line,), False)
    cells: tuple[str, ...] = (config.use_case, config.board)
    if config.is_mpu:
        return Row(short, (*cells, "-", "-", "read; a Linux target has no header"))
    model, kind = model_of(config.model_name, fetched, scratch)
    if model is None:
        return Row(short, (*cells, kind, "-", "read"))
    try:
        facts: ModelFacts = read_facts(model)
        ours = meaning(text_of(header_of(config, facts, ZOO)))
    except AtoncError as error:
        return Row(short, (*cells, kind, "-", "refused"), (error.one_line,), False)
    theirs = meaning(their_text(services, file, config.serie, model, scratch))
    names = sorted({*ours, *theirs})
    different = [n for n in names if ours.get(n) != theirs.get(n)]
    result = "equal" if not different else f"{len(different)} differ"
    notes = tuple(f"`{n}`: ours `{ours.get(n, '(none)')}`, ST's `{theirs.get(n, '(none)')}`" for n in different)
    return Row(short, (*cells, kind, f"{len(names) - len(different)} of {len(names)}", result), notes, not different)


def today(fetched: Path, scratch: Path) -> str:
    """Our header for the model of each application, and the one that lies in it."""
    text = TODAY_HEAD
    use_cases = {"ImageClassification": "image_classification", "ReID": "re_identification"}
    for name, board, model, kind, data, after in TODAY:
        path = scratch / f"{name}.yaml"
        full = "crop" if board == "STM32N6570-DK" else "full_screen"
        use_case = f"use_case: {use_cases[name]}\n" if name in use_cases else ""
        path.write_text(
            f"general: {{model_path: {model}, {kind}}}\n{use_case}dataset: {{{data}}}\npostprocessing: {{{after}}}\n"
            f"preprocessing: {{resizing: {{aspect_ratio: {full}}}, color_mode: rgb}}\n"
            f"deployment: {{c_project_path: ., hardware_setup: {{serie: STM32N6, board: {board}}}}}\n"
        )
        facts = read_facts(corpus_dir() / "models" / model)
        mine = meaning(text_of(header_of(read_config(path), facts, CURRENT)))
        folder = fetched / f"STMicroelectronics+STM32N6-GettingStarted-{name}"
        theirs = meaning((folder / "Application" / board / "Inc" / "app_config.h").read_text())
        shared = sorted({*mine} & {*theirs})
        other = [n for n in shared if plain(mine[n]) != plain(theirs[n])]
        lists = (sorted({*mine} - {*theirs}), sorted({*theirs} - {*mine}), other)
        cells = (
            name,
            board,
            str(len(shared) - len(other)),
            *(", ".join(f"`{n}`" for n in names) or "-" for names in lists),
        )
        text += tables.row(cells) + "\n"
    return text


def plain(value: str) -> list[str]:
    """Numbers as numbers, without brackets and suffixes."""
    words = [word.rstrip("fF") if word[:1].isdigit() else word for word in value.split() if word not in ("(", ")")]
    return [f"{float(word):.4f}" if word[:1].isdigit() else word for word in words]


def run(arguments: argparse.Namespace) -> Report:
    fetched = arguments.fetched.resolve()
    services = fetched / SERVICES
    with tempfile.TemporaryDirectory() as scratch:
        stub_modules(services, Path(scratch))
        files = sorted(services.glob("*/src/config_file_examples/deployment*.yaml"))
        rows = [compare(services, file, fetched, Path(scratch)) for file in files]
        current = today(fetched, Path(scratch))
    text = HEAD + "".join(tables.row((row.file, *row.cells)) + "\n" for row in rows)
    read = sum(row.cells[-1] != "not read" for row in rows)
    equal = sum(row.cells[-1] == "equal" for row in rows)
    text += f"\n{read} of {len(rows)} files are read; {equal} headers equal ST's.\n"
    for row in rows:
        if row.notes:
            text += f"\n## {row.file}\n\n" + "".join(f"- {note}\n" for note in row.notes)
    text += current
    return Report(text, failed=not (all(row.good for row in rows)))
