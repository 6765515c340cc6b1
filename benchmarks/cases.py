"""Three public stories retold: a pose network, a denoiser whose layers fell to the CPU, a model update in the field.

Figures of docs/cases. MoveNet and the networks of the update are those of the corpus; the denoiser was never published
and is built from its description (shared/denoiser.py).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import atonc
from atonc.delivery.deploy.app_config import ZOO, header_of, text_of
from atonc.delivery.deploy.app_config.header import meaning, read_facts
from atonc.delivery.deploy.config import read_config
from atonc.insight.explain.types import LayerView
from benchmarks.shared.corpus import corpus_dir
from benchmarks.shared.declare import WRITE, Report

GROUP = "st"
ARGUMENTS = (WRITE,)

MOVENET = "st_movenet_lightning_heatmaps_192_int8_pc.tflite"
# the deployment of the story, as a file of the model zoo
POSE = """\
general: {{model_path: {model}, model_type: heatmaps_spe}}
operation_mode: deployment
dataset: {{keypoints: 13}}
preprocessing: {{resizing: {{aspect_ratio: crop}}, color_mode: rgb}}
postprocessing: {{confidence_thresh: 0.4}}
deployment: {{c_project_path: app, hardware_setup: {{serie: STM32N6, board: STM32N6570-DK}}}}
"""
AS_ASKED, CODES_OUT, IN_RAM = "as asked", "codes at the end", "weights in RAM"
BUILDS: dict[str, dict[str, Any]] = {  # of MoveNet: what the story asked for, and two levers
    AS_ASKED: {"input_data_type": "uint8"},
    CODES_OUT: {"input_data_type": "uint8", "output_data_type": "int8"},
    IN_RAM: {"input_data_type": "uint8", "output_data_type": "int8", "resident": "all"},
}
CODES = {"input_data_type": "int8", "output_data_type": "int8"}
UPDATE = ("mobilenet_v1_0.25_96_tfs_int8.tflite", "person__mobilenet_v2_0.35_128_fft_int8.tflite")
SEED = "3"
Record = dict[str, Any]


def run(arguments: argparse.Namespace) -> Report:
    with tempfile.TemporaryDirectory() as folder:
        data = {"movenet": movenet(Path(folder)), "denoiser": denoiser(Path(folder)), "update": update(Path(folder))}
    return Report(page(data), data=data)


def figures(model: Path, options: Record, kinds: Sequence[str]) -> Record:
    """The figures of a verified build, with its layers of these kinds and those on the CPU."""
    c = atonc.compile(model, **options)
    steps = c.network.steps
    layers = [one for one in c.layers if one.on == "cpu" or one.kind in kinds]
    return {
        "ms": round(c.latency_ms, 4), "low_ms": round(c.latency_low_ms, 4), "high_ms": round(c.latency_high_ms, 4),
        "npu": sum(step.on == "npu" for step in steps), "cpu": sum(step.on == "cpu" for step in steps),
        "ram_bytes": c.memory.ram_bytes, "weights_bytes": c.memory.weights_bytes, "pools": dict(c.memory.pools),
        "layers": [_layer(one) for one in layers],
    }  # fmt: skip


def _layer(one: LayerView) -> Record:
    found = {"name": one.name, "kind": one.kind, "on": one.on, "ms": round(one.milliseconds, 4)}
    return {**found, "macs": one.macs, "cycles": one.cycles}


def movenet(folder: Path) -> Record:
    model = corpus_dir() / "models" / MOVENET
    builds = {name: figures(model, options, ("resize_linear",)) for name, options in BUILDS.items()}
    config = folder / "pose.yaml"
    config.write_text(POSE.format(model=model))
    header = header_of(read_config(config, "pose_estimation"), read_facts(model), ZOO)
    return {"builds": builds, "app_config": meaning(text_of(header))}


def denoiser(folder: Path) -> Record:
    from benchmarks.shared.denoiser import write_denoiser

    found: Record = {}
    for channels in (257, 256):
        model = folder / f"denoiser_{channels}.onnx"
        parameters = write_denoiser(model, channels)
        wishes = {"flash": CODES, "RAM": {**CODES, "resident": "all"}}
        builds = {place: figures(model, options, ("conv", "dense")) for place, options in wishes.items()}
        found[str(channels)] = {"parameters": parameters, **builds}
    return found


def update(folder: Path) -> list[Record]:
    """Each network as an image on the virtual board, installed by the same loader."""
    return [_image(corpus_dir() / "models" / name, folder / str(place)) for place, name in enumerate(UPDATE)]


def _image(model: Path, folder: Path) -> Record:
    _atonc("generate", str(model), "-r", "-o", str(folder))
    image = folder / "network_rel.bin"
    seen = json.loads(_atonc("reloc", "--inspect", str(image), "--json"))
    sizes = {key: seen[key] for key in ("xip_bytes", "copy_bytes", "params_bytes")}
    pools = [[pool["name"], pool["label"], pool["destination"], pool["size_bytes"]] for pool in seen["pools"]]
    _atonc("run", str(folder), "--seed", SEED, "--output", str(folder / "run.npz"))
    modes = {mode: _installed(image, mode, folder) for mode in ("copy", "xip")}
    checks = sum(check["good"] for check in seen["checks"])
    record = {"model": model.name, "image_bytes": image.stat().st_size, **sizes, "pools": pools}
    return {**record, "checks": [checks, len(seen["checks"])], "modes": modes}


def _installed(image: Path, mode: str, folder: Path) -> Record:
    """Its time on the virtual board, and whether its outputs are those of the folder."""
    words = ["load-and-run", str(image), "--mode", mode, "--seed", SEED, "--output", str(folder / f"{mode}.npz")]
    ran = json.loads(_atonc(*words, "--json"))
    here, there = (np.load(folder / f"{name}.npz") for name in ("run", mode))
    same = sorted(here) == sorted(there) and all(np.array_equal(here[name], there[name]) for name in here)
    return {"ms": ran["latency_ms"], "same": same}


def _atonc(*words: str) -> str:
    done = subprocess.run([sys.executable, "-m", "atonc", *words], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return done.stdout


def page(data: Record) -> str:
    return "\n".join(["# Three stories retold", "", *_lines(data), ""])


def _lines(data: Record) -> Iterator[str]:
    yield "Figures of [docs/cases](../../docs/cases/movenet.md); times are predicted.\n"
    yield "| network | build | ms | may be | epochs on NPU / CPU |\n|---|---|---:|---:|---:|"
    builds = {("MoveNet", name): build for name, build in data["movenet"]["builds"].items()}
    for channels, found in data["denoiser"].items():
        builds |= {(f"denoiser, {channels}", f"weights in {place}"): found[place] for place in ("flash", "RAM")}
    for (network, name), one in builds.items():
        span = f"{one['low_ms']:.2f} to {one['high_ms']:.2f}"
        yield f"| {network} | {name} | {one['ms']:.2f} | {span} | {one['npu']} / {one['cpu']} |"
    yield "\n| image of | bytes | on the virtual board | outputs as `atonc run` gives them |\n|---|---:|---:|---|"
    for one in data["update"]:
        for mode, ran in one["modes"].items():
            same = "yes" if ran["same"] else "no"
            yield f"| {one['model']} | {one['image_bytes']:,} | {mode}: {ran['ms']:.2f} ms | {same} |"
