"""The models of the corpus: one walk for all benchmarks. The corpus is $ATONC_CORPUS or ../shared/corpus."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
KINDS = (".tflite", ".onnx")
FEW = (  # of every family one or two, none that takes minutes
    "033_hand_landmark",
    "ImageNet__mobilenet_v1_0.25_224",
    "ImageNet__mobilenet_v2_0.35_128",
    "blazeface_front_128",
    "cifar10__resnet_v1_8_32",
    "fomo_face_detection",
    "food-101__st_efficientnet_lc_v1_128",
    "kws_ref_model",
    "K1_BOARD_614.4MHz_V1.0__models__mobilenet_v1",
    "esc10__miniresnet",
    "mobilenet_v1_0.25_96_tfs",
    "st_yolo_x_nano_192_0.33_0.25_int8",
    "face_landmark_ptq",
    "baseline_conv2d_pool",
    "yunetn_320",
    "micro_speech",
    "split_concat",
)

ON_THE_BOARD = (  # small enough to run as Arm code on the virtual board
    "mobilenet_v1_0.25_96_tfs_int8.tflite",
    "vww_96_int8.tflite",
    "person_detect.tflite",
    "ad01_int8.tflite",
    "face_detection_front_128_integer_quant.tflite",
    "cifar10__resnet_v1_8_32_tfs_int8.tflite",
    "fomo_face_detection.tflite",
    "kws_ref_model.tflite",
    "spatial_cnn_int8.tflite",
)


def corpus_dir() -> Path:
    return Path(os.environ.get("ATONC_CORPUS") or ROOT.parent / "shared" / "corpus")


def model(name: str) -> Path:
    """By path, or by its name in the corpus."""
    return Path(name) if Path(name).is_file() else corpus_dir() / "models" / name


def models_in(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.suffix in KINDS)


def asked_for(only: Iterable[str], name: str) -> bool:
    only = tuple(only)
    return not only or any(text in name for text in only)


def chosen(arguments: argparse.Namespace, default: Sequence[str] = ()) -> list[Path]:
    """What --models, --only, --few and --shard ask for, as far as the benchmark takes them; else `default` or all."""
    asked = vars(arguments)
    named = asked.get("models") or default
    found = [model(name) for name in named] or models_in(corpus_dir() / "models")
    found = [path for path in found if asked_for(asked.get("only", ()), path.name)]
    if asked.get("few"):
        found = [path for path in found if asked_for(FEW, path.name)]
    shard, shards = (int(part) for part in asked.get("shard", "0/1").split("/"))
    return found[shard::shards]


def by_size(paths: Iterable[Path]) -> list[Path]:
    """The quick ones first."""
    return sorted(paths, key=lambda path: (path.stat().st_size, path.name))
