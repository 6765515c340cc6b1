"""Does a front end of images in C give its Python twin's codes, how far is it from the packages, what does it cost?

The C code runs as a library of this machine for many frames of odd sizes, strides and formats; on the virtual board,
two frames on the scalar core and one with vectors, whose instructions are counted there, weighed as in `cpu_kernels`.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from atonc.delivery.front_end.fitting import image_cycles
from atonc.delivery.front_end.image import FORMATS, presets
from atonc.delivery.front_end.image_text import constant_bytes, state_bytes
from atonc.delivery.front_end.image_twin import ImageFrontEnd, image_front_end
from benchmarks.front_ends import weights_of
from benchmarks.shared.corpus import asked_for
from benchmarks.shared.declare import ONLY, WRITE, Report, argument
from tests.front_end.image_references import REFERENCES
from tests.front_end.images import ImageOnBoard, ImageOnHost, frames, images

GROUP = "truth"
ARGUMENTS = (argument("--sizes", type=int, default=20, help="of frames for each preset (default 20)"), ONLY, WRITE)
_CODES: Mapping[str, tuple[str, float, int]] = {"tflite_uint8": ("uint8", 1 / 128, 128)}
_INT8 = ("int8", 0.0186, -14)
_MOST_APART = 0.15  # of predicted cycles from counted ones


_SMALLER = {  # what costs much is counted in smaller images of the same ratios
    "imagenet_torchvision": {"width": 112, "height": 112, "short_side": 128},
    "yolo_letterbox": {"width": 160, "height": 160},
}


def _made(name: str, image: Mapping[str, Any], **sections: Any) -> ImageFrontEnd:
    base = {"based_on": name} if name in presets() else {}
    sections |= {"resize": _SMALLER[name]} if name in _SMALLER else {}
    return image_front_end({**base, "image": image, **sections}).for_input(*_CODES.get(name, _INT8))


def same_on_host(name: str, sizes: int) -> tuple[int, int]:
    """Codes, and how many of them differ: every format, sizes and strides at random."""
    rng, total, differ = np.random.default_rng(7), 0, 0
    for k in range(sizes):
        form = list(FORMATS)[k % len(FORMATS)]
        width, height = 2 * int(rng.integers(20, 300)) + (form != "yuyv" and k % 2), int(rng.integers(40, 500))
        camera = {"format": form, "width": width, "height": height}
        camera["stride"] = width * FORMATS[form] + int(rng.integers(0, 40))
        made = _made(name, camera)
        with tempfile.TemporaryDirectory() as work:
            host = ImageOnHost(made, Path(work), False, "-O2")
            for frame in frames(made.pipeline, k):
                found, expected = host(frame), made.of_frame(frame)
                total, differ = total + found.size, differ + int((found != expected).sum())
    return total, differ


def on_board(made: ImageFrontEnd) -> tuple[list[tuple[int, int]], float, float]:
    """Codes, and how many differ, on the scalar core and with vectors; instructions and cycles of an image there."""
    given, found = list(frames(made.pipeline)), []
    with tempfile.TemporaryDirectory() as work:
        scalar = ImageOnBoard(made, Path(work), "cortex-m33")
        for_scalar = [(scalar(frame) != made.of_frame(frame)).reshape(-1) for frame in given[:2]]
        found.append((sum(one.size for one in for_scalar), int(sum(one.sum() for one in for_scalar))))
    with tempfile.TemporaryDirectory() as work:
        codes, addresses = ImageOnBoard(made, Path(work)).counted(given[1])
        found.append((codes.size, int((codes != made.of_frame(given[1])).sum())))
        program = Path(work) / "program.elf"
        text = subprocess.run(["arm-none-eabi-objdump", "-d", program], capture_output=True, text=True, check=True)
    weights = dict(weights_of(text.stdout))
    known = {at: times for at, times in addresses.items() if at in weights}
    return found, sum(known.values()), sum(times * weights[at] for at, times in known.items())


_CAMERAS: Mapping[str, Mapping[str, Any]] = {
    "imagenet_torchvision": {"format": "rgb888", "width": 320, "height": 240},
    "keras_mobilenet": {"format": "bgr888", "width": 640, "height": 480},
    "st_modelzoo": {"format": "rgb565", "width": 800, "height": 480},
    "tflite_uint8": {"format": "rgb565", "width": 640, "height": 480},
    "yolo_letterbox": {"format": "yuyv", "width": 320, "height": 240},
    "bilinear": {"format": "rgb888", "width": 640, "height": 480},
    "bilinear, grey": {"format": "grey8", "width": 640, "height": 480},
}


def row(name: str, sizes: int) -> tuple[str, bool]:
    made = _made(name, _CAMERAS[name], **({"colour": {"order": "grey"}} if "grey" in name else {}))
    p = made.pipeline
    board, instructions, counted = on_board(made)
    found, predicted = [same_on_host(name, sizes), *board], image_cycles(p)
    shown = " | ".join(f"{differ} of {total:,}" for total, differ in found)
    costs = f"{instructions:,} | {counted:,} | {predicted:,} | {counted / 800_000:.2f}"
    camera = f"{p.image.width} x {p.image.height} {p.image.format}"
    line = f"| {name} | {camera} | {p.said} | {shown} | {costs} | {state_bytes(p):,} | {constant_bytes(p):,} |"
    return line, any(differ for _, differ in found) or abs(predicted / counted - 1) > _MOST_APART


def reference_row(name: str) -> str | None:
    source, reference = REFERENCES[name]
    if find_spec(name.partition(":")[0]) is None:
        return None
    made, apart = image_front_end(source), []
    for width, height in ((640, 480), (333, 517), (180, 120)):
        for image in images(width, height, 3):
            smooth = np.asarray(reference(image), np.float64)
            apart.append(np.abs(smooth - made.resized(image)).reshape(-1))
    every = np.concatenate(apart)
    other = float((every > 0.5 + 1e-9).mean())
    return f"| {name} | {np.sqrt(np.mean(every**2)):.2g} | {every.max():.2g} | {other:.4%} |"


def run(arguments: argparse.Namespace) -> Report:
    rows = []
    for name in (name for name in _CAMERAS if asked_for(arguments.only, name)):
        rows.append(row(name, arguments.sizes))
        print(rows[-1][0], flush=True)
    packages = [line for name in REFERENCES if (line := reference_row(name)) is not None]
    lines = [
        "# Front ends of images\n",
        f"Codes of the C file that differ from the Python twin's: {arguments.sizes} cameras of odd sizes, strides and "
        "all formats for each preset as a library of this machine, five frames each (gradients, noise, edges, limits, "
        "any bytes); the camera of the table on the virtual board, two frames on its scalar core and one with vectors.",
        "Instructions and cycles of an image with vectors: counted there, GCC -O2, weights of `cpu_kernels`, no waits",
        "for memory. Emulated, not yet run on a board.\n",
        "| preset | camera | input | this machine | board, scalar | board, vectors | instructions | cycles | predicted "
        "| ms at 800 MHz | RAM | tables |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
        *(text for text, _ in rows),
        "\n## Against the packages\n",
        "Resized bytes of 12 made images (gradients, noise, edges, limits; 640 x 480, 333 x 517, 180 x 120) against "
        "the bytes or floats of the package: rms and largest difference, and bytes that are further than half a byte "
        "from it. Floats of a package are not rounded, bytes of a front end are.\n",
        "| against | rms | largest | further than half |",
        "|---|---|---|---|",
        *packages,
    ]
    return Report("\n".join(lines) + "\n", failed=any(bad for _, bad in rows))
