"""Does the C of `atonc yolo` find the boxes, key points, masks and classes that Ultralytics' own code finds?

Small networks of their package (YOLOv8, YOLO11, YOLO26; detection, pose, segmentation, classification) are made and
trained here for some steps on made pictures, nothing is downloaded. Each goes through `atonc yolo` from its .pt to C,
on a data set in their layout. What its heads give for pictures (of the float model, and of the program in the chip's
arithmetic) goes through their decoding and suppression, and through ours: the C code that was written, compiled for
this machine. Key points are the corners of a box here, and masks its inside; of classifiers, the first class is
compared with that of their float network. Needs their package (AGPL-3.0), which is no dependency.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from atonc.delivery.generate import post
from atonc.delivery.yolo.heads import CLASSIFY, DETECT, POSE, SEGMENT, YoloModel
from atonc.delivery.yolo.options import YoloOptions
from atonc.delivery.yolo.run import YoloNetwork, build
from atonc.insight.evaluating.engine import Engine
from atonc.insight.evaluating.work import FLOAT, NPU
from benchmarks.shared.corpus import asked_for
from benchmarks.shared.declare import ONLY, SAMPLES, WORK, WRITE, Report, argument
from benchmarks.shared.detector_cases import CLASSES, SIDE, Box, scenes
from benchmarks.shared.tables import table
from tests.post.detectors import found_in_c, library

GROUP = "truth"
PICTURES = argument("--pictures", type=int, default=100, help="held pictures of each network (default 100)")
STEPS = argument("--steps", type=int, default=150, help="of training (default 150)")
ARGUMENTS = (
    WORK.but(required=True, help="networks lie there, or are made there"), ONLY, PICTURES, STEPS,
    SAMPLES.but(default=24, help="pictures that calibrate, and that mAP is measured on (default 24)"), WRITE,
)  # fmt: skip
NAMES, SUFFIX = ("yolov8", "yolo11", "yolo26"), {DETECT: "", POSE: "-pose", SEGMENT: "-seg", CLASSIFY: "-cls"}
CONF, IOU, MOST = 0.1, 0.7, 100
PIXEL, SCORE = 1.0, 0.01  # what counts as equal
BATCH, RATE = 16, 2e-3
UNTIED = "chip, no ties"
SIDES = ("float", "chip", UNTIED)
LABELS = tuple(f"shape {k}" for k in range(CLASSES))
Array = np.ndarray


def pictures(seed: int, count: int, task: str) -> tuple[Array, list[list[Box]]]:
    """[count, 3, side, side] as bytes; for classes those with shapes of one class only."""
    found, boxes = scenes(np.random.default_rng(seed), count if task != CLASSIFY else 4 * count)
    kept = [k for k, some in enumerate(boxes) if task != CLASSIFY or len({box[0] for box in some}) == 1][:count]
    return np.clip((found[kept] + 1) * 127.5, 0, 255).astype(np.uint8), [boxes[k] for k in kept]


def data_set(folder: Path, task: str, count: int) -> Path:
    """As `yolo train` reads it: `val` has the pictures that the network was trained on."""
    for part, seed in (("train", 2), ("val", 0)):
        for label in LABELS if task == CLASSIFY else ():
            (folder / part / label).mkdir(parents=True, exist_ok=True)  # few pictures may show none of a class
        for number, (picture, some) in enumerate(zip(*pictures(seed, count, task), strict=True)):
            own = f"{part}/{LABELS[some[0][0]]}" if task == CLASSIFY else f"images/{part}"
            image = folder / own / f"{number:03d}.png"
            image.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(picture.transpose(1, 2, 0)).save(image)
            if task != CLASSIFY:
                label = folder / "labels" / part / f"{number:03d}.txt"
                label.parent.mkdir(parents=True, exist_ok=True)
                label.write_text("".join(f"{_row(box, task)}\n" for box in some))
    data = folder / "data.yaml"
    data.write_text(f"path: .\ntrain: images/train\nval: images/val\nkpt_shape: [4, 3]\nnames: {list(LABELS)}\n")
    return folder if task == CLASSIFY else data


def _row(box: Box, task: str) -> str:
    x1, y1, x2, y2 = (side / SIDE for side in box[1:])
    corners = ((x1, y1), (x2, y1), (x2, y2), (x1, y2))
    middle = [(x1 + x2) / 2, (y1 + y2) / 2, x2 - x1, y2 - y1]
    points = [value for x, y in corners for value in ((x, y, 2) if task == POSE else (x, y))]
    return " ".join(map(str, (box[0], *({DETECT: middle, POSE: [*middle, *points]}.get(task, points)))))


# ---------------------------------------------------------------------------------------------- their package makes one


def trained(name: str, task: str, steps: int, target: Path) -> Path:
    import torch
    from ultralytics.nn import tasks
    from ultralytics.utils import DEFAULT_CFG

    torch.manual_seed(0)
    words = tasks.yaml_model_load(f"{name}n{SUFFIX[task]}.yaml")
    words |= {"nc": CLASSES, "scales": {"n": [0.33, 0.0625 if name == "yolov8" else 0.125, 1024]}}
    kind = {DETECT: tasks.DetectionModel, POSE: tasks.PoseModel, SEGMENT: tasks.SegmentationModel}
    kind[CLASSIFY] = tasks.ClassificationModel
    more = {"data_kpt_shape": (4, 3)} if task == POSE else {}
    network = kind[task](words, nc=CLASSES, verbose=False, **more)
    network.args, network.task, network.names = DEFAULT_CFG, task, dict(enumerate(LABELS))
    images, boxes = pictures(0, 100, task)  # those that are compared: here nothing is said of other pictures
    learner = torch.optim.AdamW(network.parameters(), lr=RATE)
    random = np.random.default_rng(1)
    network.train()
    for step in range(steps):
        for group in learner.param_groups:
            group["lr"] = RATE * min(1, (step + 1) / 20) * (1 - step / steps) + 1e-5
        some = random.choice(len(images), BATCH, replace=False)
        loss, _ = network(batch(images[some], [boxes[k] for k in some], task))
        learner.zero_grad()
        loss.sum().backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 10.0)
        learner.step()
    network.eval()
    if task != CLASSIFY:
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


def batch(images: Array, boxes: Sequence[Sequence[Box]], task: str) -> dict[str, Any]:
    """Boxes, their corners as key points, and their insides as masks, as the package's loss reads them."""
    import torch

    if task == CLASSIFY:
        return {"img": torch.tensor(images / 255, dtype=torch.float32), "cls": torch.tensor([b[0][0] for b in boxes])}
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


def measured(name: str, task: str, arguments: argparse.Namespace) -> tuple[YoloNetwork, dict[str, Array]]:
    """The whole way of `atonc yolo`, and what is compared: of the heads by side, of classes pictures and equal ones."""
    from ultralytics import YOLO

    folder = arguments.work / f"{name}-{task}"
    folder.mkdir(parents=True, exist_ok=True)
    weights = folder / "made.pt"
    weights = weights if weights.is_file() else trained(name, task, arguments.steps, weights)
    data = data_set(folder / "data", task, arguments.samples)
    wanted = YoloOptions(imgsz=SIDE, conf=CONF, iou=IOU, max_det=MOST, processes=1)
    made, network = build(weights, data, wanted, folder / "yolo_out"), YOLO(str(weights)).model.eval()
    seen = pictures(0, arguments.pictures, task)[0]
    if task == CLASSIFY:
        return made, _classes(made, network, seen)
    return made, _boxes(made, network.model[-1], seen)


def _chip(made: YoloNetwork) -> Callable[[Array], list[Array]]:
    """Outputs of the compiled program for a picture."""
    compiled = made.view.compiled
    engine = Engine(compiled)

    def outputs(image: Array) -> list[Array]:
        codes = engine.run({compiled.graph.inputs[0]: image.transpose(1, 2, 0)[None, None]})
        return [codes[key][0] for key in compiled.graph.outputs]

    return outputs


def _floats(made: YoloNetwork) -> Callable[[Array], list[Array]]:
    import onnxruntime

    session = onnxruntime.InferenceSession(str(made.files[0]))
    name = session.get_inputs()[0].name
    return lambda image: session.run(None, {name: image[None].astype(np.float32) / 255})


def _classes(made: YoloNetwork, network: Any, seen: Array) -> dict[str, Array]:
    import torch

    with torch.no_grad():
        found = network(torch.tensor(seen / 255, dtype=torch.float32))
    wanted = np.asarray(found[0] if isinstance(found, tuple) else found).argmax(1)
    sides = {"float": _floats(made), "chip": _chip(made)}
    return {
        side: np.array([len(seen), sum(run(image)[0].argmax() == k for image, k in zip(seen, wanted, strict=True))])
        for side, run in sides.items()
    }


def _boxes(made: YoloNetwork, head: Any, seen: Array) -> dict[str, Array]:
    given, chip, floating, random = made.post, _chip(made), _floats(made), np.random.default_rng(5)
    assert given is not None
    floats = replace(given, outputs=tuple(replace(one, type="FLOAT", scales=(), offsets=()) for one in given.outputs))
    rows: dict[str, list[Array]] = {side: [] for side in SIDES}
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        in_c, in_floats = library(given, Path(one)), library(floats, Path(other))
        for image in seen:
            outputs = chip(image)
            rows["chip"].append(compared(made.model, given, outputs, head, in_c))
            pairs = zip(outputs, given.outputs, strict=True)
            untied = [post.real(one, info.scales[0], info.offsets[0]) for one, info in pairs]
            for at in {head.scores.output for head in given.decoder.heads}:
                untied[at] += random.uniform(0, 1e-3, untied[at].shape).astype(np.float32)
            rows[UNTIED].append(compared(made.model, floats, untied, head, in_floats))
            values = [np.ascontiguousarray(value.transpose(0, 2, 3, 1)) for value in floating(image)]
            rows["float"].append(compared(made.model, floats, values, head, in_floats))
    return {side: np.concatenate([np.sum(r, 0)[:3], np.max(r, 0)[3:6], np.sum(r, 0)[6:]]) for side, r in rows.items()}


def way(name: str, task: str, made: YoloNetwork) -> list[object]:
    """What `atonc yolo` said of one network."""
    view, judged = made.view, made.evaluation
    assert judged is not None and view.compiled.report is not None
    first = {side: rows[0] for side, rows in judged.sides.items()}
    return [f"{name} {task}", len(made.model.outputs) or 1, view.compiled.report.layers,
            view.compiled.report.worst_layer, len(view.compiled.mapped.reason_of), first[NPU].name,
            f"{first[FLOAT].value:.4f}", f"{first[NPU].value:.4f}", f"{view.cost.latency_ms:.2f}"]  # fmt: skip


def cells(name: str, task: str, found: dict[str, Array]) -> Iterator[list[object]]:
    for side in SIDES:
        boxes, ours, equal, pixels, score, points, inside, other = found[side]
        mask = f"{100 * (1 - other / inside):.3f} %" if inside else ""
        yield [f"{name} {task}", side, int(boxes), int(ours), int(equal), f"{pixels:.4f}", f"{score:.5f}",
               f"{points:.4f}" if task == POSE else "", mask]  # fmt: skip


def run(arguments: argparse.Namespace) -> Report:
    if find_spec("ultralytics") is None:
        return Report("skipped: Ultralytics' package is not installed (pip install ultralytics, AGPL-3.0)\n")
    os.environ |= {"YOLO_OFFLINE": "1", "YOLO_AUTOINSTALL": "false"}
    ways, rows, classes = list[list[object]](), list[list[object]](), list[list[object]]()
    for task in SUFFIX:
        for name in NAMES:
            if not asked_for(arguments.only, f"{name} {task}"):
                continue
            made, found = measured(name, task, arguments)
            ways.append(way(name, task, made))
            if task == CLASSIFY:
                classes.append([f"{name} {task}", int(found["float"][0]), *(int(found[k][1]) for k in SIDES[:2])])
            else:
                rows += cells(name, task, found)
            print(ways[-1], *(classes if task == CLASSIFY else rows)[-3:], sep="\n", file=sys.stderr)
    decided = [row for row in rows if row[1] != "chip"]
    total, equal = (sum(int(str(row[k])) for row in decided) for k in (2, 4))
    wrong = total - equal + sum(abs(int(str(row[3])) - int(str(row[2]))) for row in decided)
    wrong += sum(int(str(row[1])) - int(str(row[2])) for row in classes)
    page = "\n".join([
        "# Networks of Ultralytics from module to C", "",
        f"{len(ways)} networks went through `atonc yolo` from their `.pt` to verified C. "
        f"{equal:,} of {total:,} boxes of Ultralytics' decoding and suppression are found by the C code within "
        f"{PIXEL:g} pixel and {SCORE:g} of the score, where no two scores are equal.", "",
        "## The way", "",
        f"Accuracy on {arguments.samples} pictures, of networks that learnt for {arguments.steps} steps and whose "
        "biases were raised until they answer: it says that both sides answer alike, not that they are good. Largest "
        "error: of a layer of the program against exact arithmetic, in codes.", "",
        *table(["network", "outputs", "layers verified", "largest error", "on the CPU", "figure", "float", "chip",
                "ms predicted"], ways), "",
        "## Boxes", "",
        f"{arguments.pictures} pictures of {SIDE} x {SIDE}, on which the networks were trained; scores above {CONF:g}, "
        f"overlap {IOU:g} (YOLO26: no suppression). `float`: outputs of the float model's heads through both; `chip`: "
        "those of the compiled int8 program in the chip's arithmetic. Quantised scores are often equal; which of two "
        f"equal ones stays is not defined by their code, and ours takes the first: so `{UNTIED}` adds up to 0.001 to "
        "each score on both sides. Masks: pixels of the prototypes that are equal.", "",
        *table(["network", "heads of", "boxes, theirs", "ours", "equal", "worst pixels", "worst score",
                "worst point", "masks"], rows), "",
        "## Classes", "",
        "Pictures for which the first class is that of their float network: of the exported model, and of the program "
        "in the chip's arithmetic.", "",
        *table(["network", "pictures", "float", "chip"], classes), "",
    ])  # fmt: skip
    return Report(page, failed=bool(wrong))
