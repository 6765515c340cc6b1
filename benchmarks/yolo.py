"""Does the C of `atonc yolo` find the boxes, key points and masks that Ultralytics' own code finds?

Small networks of their package (YOLOv8, YOLO11, YOLO26; detection, pose, segmentation) are made and trained here for
some steps on made pictures, nothing is downloaded. Each is exported by it, cut, quantised and compiled as `atonc yolo`
does. For held pictures, what the heads give (of the float model, and of the program in the chip's arithmetic) goes
through their decoding and suppression, and through ours: the C code that was written, compiled for this machine.
Key points are the corners of a box here, and masks its inside. Needs their package (AGPL-3.0), which is no dependency.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from atonc.delivery.generate import generating, post
from atonc.delivery.yolo import export
from atonc.delivery.yolo.heads import POSE, SEGMENT, YoloModel, yolo_model
from atonc.delivery.yolo.run import EDGES
from atonc.insight.evaluating.engine import Engine
from atonc.insight.evaluating.options import PostOptions
from atonc.insight.quantizing import loading
from atonc.insight.quantizing.run import quantize
from atonc.insight.quantizing.types import QuantizeOptions
from benchmarks.shared.corpus import asked_for
from benchmarks.shared.declare import ONLY, WORK, WRITE, Report, argument
from benchmarks.shared.detector_cases import CLASSES, SIDE, Box, scenes
from benchmarks.shared.tables import table
from tests.post.detectors import found_in_c, library

GROUP = "truth"
PICTURES = argument("--pictures", type=int, default=100, help="held pictures of each network (default 100)")
STEPS = argument("--steps", type=int, default=150, help="of training (default 150)")
ARGUMENTS = (WORK.but(required=True, help="networks lie there, or are made there"), ONLY, PICTURES, STEPS, WRITE)
NAMES, SUFFIX = ("yolov8", "yolo11", "yolo26"), {"detect": "", POSE: "-pose", SEGMENT: "-seg"}
CONF, IOU, MOST = 0.1, 0.7, 100
PIXEL, SCORE = 1.0, 0.01  # what counts as equal
BATCH, RATE = 16, 2e-3
UNTIED = "chip, no ties"
SIDES = ("float", "chip", UNTIED)
Array = np.ndarray


def pictures(seed: int, count: int) -> tuple[Array, list[list[Box]]]:
    """[count, 3, side, side] as bytes."""
    found, boxes = scenes(np.random.default_rng(seed), count)
    return np.clip((found + 1) * 127.5, 0, 255).astype(np.uint8), boxes


# ---------------------------------------------------------------------------------------------- their package makes one


def trained(name: str, task: str, steps: int, target: Path) -> Path:
    import torch
    from ultralytics.nn import tasks
    from ultralytics.utils import DEFAULT_CFG

    torch.manual_seed(0)
    words = tasks.yaml_model_load(f"{name}n{SUFFIX[task]}.yaml")
    words |= {"nc": CLASSES, "scales": {"n": [0.33, 0.0625 if name == "yolov8" else 0.125, 1024]}}
    kind = {"detect": tasks.DetectionModel, POSE: tasks.PoseModel, SEGMENT: tasks.SegmentationModel}[task]
    more = {"data_kpt_shape": (4, 3)} if task == POSE else {}
    network = kind(words, nc=CLASSES, verbose=False, **more)
    network.args, network.task, network.names = DEFAULT_CFG, task, {k: f"shape {k}" for k in range(CLASSES)}
    images, boxes = pictures(0, 100)  # those that are compared: here nothing is said of other pictures
    learner = torch.optim.AdamW(network.parameters(), lr=RATE)
    random = np.random.default_rng(1)
    network.train()
    for step in range(steps):
        for group in learner.param_groups:
            group["lr"] = RATE * min(1, (step + 1) / 20) * (1 - step / steps) + 1e-5
        some = random.choice(len(images), BATCH, replace=False)
        loss, _ = network(batch(images[some], [boxes[k] for k in some]))
        learner.zero_grad()
        loss.sum().backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 10.0)
        learner.step()
    network.eval()
    _with_boxes(network, images[:64])
    torch.save({"model": network, "train_args": {"imgsz": SIDE, "task": task}, "date": "", "version": ""}, target)
    return target


def _with_boxes(network: Any, images: Array) -> None:
    """So few steps give low scores: the biases are raised until one score in a hundred is above 0.5."""
    import torch

    with torch.no_grad():
        found = network(torch.tensor(images / 255, dtype=torch.float32))[1]
        ends = {"one2many": "cv3", "one2one": "one2one_cv3"} if "one2one" in found else {"": "cv3"}
        for key, layers in ends.items():
            least = torch.quantile((found[key] if key else found)["scores"], 0.99)
            for layer in getattr(network.model[-1], layers):
                layer[-1].bias -= least


def batch(images: Array, boxes: Sequence[Sequence[Box]]) -> dict[str, Any]:
    """Boxes, their corners as key points, and their insides as masks, as the package's loss reads them."""
    import torch

    rows = np.array([(k, *box) for k, some in enumerate(boxes) for box in some])
    shares, size = rows[:, 2:] / SIDE, SIDE // 4
    corners = shares[:, [0, 1, 2, 1, 2, 3, 0, 3]].reshape(-1, 4, 2)
    masks, classes = np.zeros((len(images), size, size)), np.zeros((len(images), size, size))
    for number, some in enumerate(boxes):
        for k, (kind, *sides) in enumerate(some, 1):
            x1, y1, x2, y2 = (np.array(sides) / 4).round().astype(int)
            masks[number, y1:y2, x1:x2], classes[number, y1:y2, x1:x2] = k, kind
    middle = np.concatenate([(shares[:, :2] + shares[:, 2:]) / 2, shares[:, 2:] - shares[:, :2]], 1)
    found = {
        **{"img": images / 255, "cls": rows[:, 1:2], "bboxes": middle, "batch_idx": rows[:, 0], "masks": masks},
        "keypoints": np.concatenate([corners, np.full((len(rows), 4, 1), 2)], 2), "sem_masks": classes,
    }  # fmt: skip
    return {key: torch.tensor(value, dtype=torch.float32) for key, value in found.items()}


def theirs(head: Any, model: YoloModel, values: Sequence[Array]) -> tuple[Array, Array]:
    """Rows of corners, score, class, points x, y, score; masks of all. `values`: of the outputs, channels first."""
    import torch
    from ultralytics.utils.nms import non_max_suppression
    from ultralytics.utils.ops import process_mask

    grids, given = len(head.stride), [torch.tensor(value) for value in values]
    flat = [torch.cat([one.flatten(2) for one in given[k : k + grids]], 2) for k in range(0, len(given), grids)]
    names = ("boxes", "scores", "kpts" if model.task == POSE else "mask_coefficient")
    head.end2end, head.shape = model.suppressed, None
    with torch.no_grad():
        found = head._inference({**dict(zip(names, flat, strict=False)), "feats": given[:grids]})
        found = head.postprocess(found.permute(0, 2, 1)) if model.suppressed else found
        rows = non_max_suppression(
            found, CONF, IOU, multi_label=True, nc=CLASSES, max_det=MOST, end2end=model.suppressed, max_time_img=60
        )[0]
        masks = process_mask(given[-1][0], rows[:, 6:], rows[:, :4], (SIDE, SIDE)) if model.task == SEGMENT else []
    return rows.numpy(), np.array(masks, bool)


# ------------------------------------------------------------------------------------------------------------- compared


def compared(model: YoloModel, given: post.PostProcessing, outputs: Sequence[Array], head: Any, loaded: Any) -> Array:
    """Boxes of theirs, of ours, equal ones, worst pixels, score, points; pixels of masks, those that differ."""
    words = found_in_c(loaded, given, outputs, MOST)
    ours = np.concatenate([words[:, :5].view(np.float32), words[:, 5:6], words[:, 6:].view(np.float32)], 1)
    real = [post.real(one, info.scales[0], info.offsets[0]) if info.scales else one
            for one, info in zip(outputs, given.outputs, strict=True)]  # fmt: skip
    last = [one.transpose(0, 3, 1, 2) for one in real]
    rows, masks = theirs(head, model, last)
    found = np.array([len(rows), len(ours), 0, 0, 0, 0, 0, 0], np.float64)
    left = list(range(len(ours)))
    twin = post.boxes_of(given, outputs) if model.task == SEGMENT else None
    for number, row in enumerate(rows):
        near = [k for k in left if ours[k, 5] == row[5] and abs(ours[k, 4] - row[4]) <= SCORE]
        best = min(near, key=lambda k: np.abs(ours[k, :4] - row[:4]).max(), default=None)
        if best is None or (away := np.abs(ours[best, :4] - row[:4]).max()) > PIXEL:
            continue
        left.remove(best)
        found[2] += 1
        found[3:5] = np.maximum(found[3:5], [away, abs(ours[best, 4] - row[4])])
        if model.task == POSE:
            points = np.abs(ours[best, 6 : 6 + 2 * given.decoder.points].reshape(-1, 2) - row[6:].reshape(-1, 3)[:, :2])
            found[5] = max(found[5], points.max())
        if twin is not None:  # the mask of the twin, which has the bits of the C code
            found[6:] += masks[number].size, (post.mask_of(given, outputs, twin, best) != masks[number]).sum()
    return found


def measured(name: str, task: str, arguments: argparse.Namespace) -> dict[str, Any]:
    import onnxruntime
    from ultralytics import YOLO

    folder = arguments.work / f"{name}-{task}"
    folder.mkdir(parents=True, exist_ok=True)
    weights = folder / "made.pt"
    weights = weights if weights.is_file() else trained(name, task, arguments.steps, weights)
    parsed = loading.fixed(
        loading.parse(export.exported(weights, SIDE, folder / "made.onnx").read_bytes(), name), {}, name
    )
    model = yolo_model(parsed, name)
    loading.cut(parsed, model.outputs)
    whole, small = folder / "float.onnx", folder / "int8.onnx"
    whole.write_bytes(parsed.SerializeToString())
    np.savez(folder / "samples.npz", images=pictures(2, 64)[0].astype(np.float32) / 255)
    quick = QuantizeOptions(
        samples=32, objective="accuracy", calibration="minmax", metric="distance", equalise=False,
        correct_rounding=False, correct_bias=False,
    )  # fmt: skip
    quantize(whole, folder / "samples.npz", quick).save(small)
    view = generating.analyze(small, EDGES, "net")
    wanted = PostOptions(post=model.family, post_score=CONF, post_iou=1.0 if model.suppressed else IOU, post_boxes=MOST)
    given, engine = post.post_processing(view, wanted), Engine(view.compiled)
    floats = replace(given, outputs=tuple(replace(one, type="FLOAT", scales=(), offsets=()) for one in given.outputs))
    head, session = YOLO(str(weights)).model.model[-1].eval(), onnxruntime.InferenceSession(str(whole))
    rows: dict[str, list[Array]] = {side: [] for side in SIDES}
    random = np.random.default_rng(5)
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        in_c, in_floats = library(given, Path(one)), library(floats, Path(other))
        for image in pictures(0, arguments.pictures)[0]:
            codes = engine.run({view.compiled.graph.inputs[0]: image.transpose(1, 2, 0)[None, None]})
            outputs = [codes[key][0] for key in view.compiled.graph.outputs]
            rows["chip"].append(compared(model, given, outputs, head, in_c))
            untied = [
                post.real(one, info.scales[0], info.offsets[0])
                for one, info in zip(outputs, given.outputs, strict=True)
            ]
            for at in {head.scores.output for head in given.decoder.heads}:
                untied[at] += random.uniform(0, 1e-3, untied[at].shape).astype(np.float32)
            rows[UNTIED].append(compared(model, floats, untied, head, in_floats))
            values = session.run(None, {session.get_inputs()[0].name: image[None].astype(np.float32) / 255})
            values = [np.ascontiguousarray(value.transpose(0, 2, 3, 1)) for value in values]
            rows["float"].append(compared(model, floats, values, head, in_floats))
    sides = {side: np.concatenate([np.sum(r, 0)[:3], np.max(r, 0)[3:6], np.sum(r, 0)[6:]]) for side, r in rows.items()}
    return {"model": model, "ms": view.cost.latency_ms, "cpu": len(view.compiled.mapped.on_cpu), **sides}


def cells(name: str, task: str, found: dict[str, Any]) -> Iterator[list[object]]:
    for side in SIDES:
        boxes, ours, equal, pixels, score, points, inside, other = found[side]
        mask = f"{100 * (1 - other / inside):.3f} %" if inside else ""
        yield [f"{name} {task}", side, int(boxes), int(ours), int(equal), f"{pixels:.4f}", f"{score:.5f}",
               f"{points:.4f}" if task == POSE else "", mask, found["cpu"]]  # fmt: skip


def run(arguments: argparse.Namespace) -> Report:
    os.environ |= {"YOLO_OFFLINE": "1", "YOLO_AUTOINSTALL": "false"}
    rows = list[list[object]]()
    for task in SUFFIX:
        for name in NAMES:
            if asked_for(arguments.only, f"{name} {task}"):
                rows += cells(name, task, measured(name, task, arguments))
                print(*rows[-3:], sep="\n", file=sys.stderr)
    decided = [row for row in rows if row[1] != "chip"]
    total, equal = (sum(int(str(row[k])) for row in decided) for k in (2, 4))
    wrong = total - equal + sum(abs(int(str(row[3])) - int(str(row[2]))) for row in decided)
    page = "\n".join([
        "# Networks of Ultralytics", "",
        f"{equal:,} of {total:,} boxes of Ultralytics' decoding and suppression are found by the C code within "
        f"{PIXEL:g} pixel and {SCORE:g} of the score, where no two scores are equal.", "",
        f"{arguments.pictures} pictures of {SIDE} x {SIDE}, on which the networks were trained; scores above {CONF:g}, "
        f"overlap {IOU:g} (YOLO26: no suppression). `float`: outputs of the float model's heads through both; `chip`: "
        "those of the compiled int8 program in the chip's arithmetic. Quantised scores are often equal; which of two "
        f"equal ones stays is not defined by their code, and ours takes the first: so `{UNTIED}` adds up to 0.001 to "
        "each score on both sides. Masks: pixels of the prototypes that are equal.", "",
        *table(["network", "heads of", "boxes, theirs", "ours", "equal", "worst pixels", "worst score",
                "worst point", "masks", "layers on the CPU"], rows), "",
    ])  # fmt: skip
    return Report(page, failed=bool(wrong))
