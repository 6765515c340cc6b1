"""Looks at digits as the chip would: a camera's buffer -> front end -> codes -> network.

look.py BUILD             a hundred frames: how many digits were read
look.py BUILD --c         also: the codes of the generated C code, compiled for this machine
look.py BUILD --wrong     the same with front ends that are almost that of the training
"""

from __future__ import annotations

import argparse
import ctypes
import json
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import atonc

HERE = Path(__file__).resolve().parent
WRONG: dict[str, dict[str, dict[str, Any]]] = {  # what else the sections say
    "as in training": {},
    "stretched, not cropped": {"crop": {"to": "none"}},
    "letterbox, not cropped": {"crop": {"to": "none"}, "resize": {"fit": "letterbox", "pad": 0}},
    "-1 to 1 for 0 to 1": {"normalise": {"mean": 0.5, "deviation": 0.5}},
    "ImageNet's mean and deviation": {"normalise": {"mean": 0.449, "deviation": 0.226}},
    "0 to 255 for 0 to 1": {"normalise": {"pixels": "integer"}},
    "stride left out": {"image": {"stride": 0}},
    "corners aligned": {"resize": {"at": "align_corners"}},
    "averaged, not nearest": {"resize": {"how": "bilinear", "antialias": True}},
}
Bytes = NDArray[np.uint8]


def front_end_of(build: Path, wrong: str = "as in training") -> Any:
    """That of the training, with the codes of the network's input; or one that differs."""
    sections = tomllib.loads((HERE / "front_end.toml").read_text())
    changed = {name: {**sections.get(name, {}), **values} for name, values in WRONG[wrong].items()}
    taken = json.loads((build / "digits_program.json").read_text())["edges"]["inputs"][0]
    made = atonc.front_end({**sections, **changed})
    return made.for_input(taken["dtype"], taken["scale"], taken["zero_point"])


def frames() -> tuple[list[Bytes], NDArray[Any]]:
    """Each test digit in the middle of a grey frame of 128 x 96, as RGB565 with a gap behind every row; and labels."""
    given = np.load(HERE.parent / "digits" / "test.npz")
    found = []
    for digit in given["image"][..., 0].astype(np.int32) + 128:
        grey = np.full((96, 128), 40)
        grey[:, 16:112] = digit.repeat(12, axis=0).repeat(12, axis=1)
        pixels = (grey >> 3) << 11 | (grey >> 2) << 5 | grey >> 3
        rows = np.zeros((96, 272), np.uint8)
        rows[:, :256] = pixels.astype("<u2").view(np.uint8)
        found.append(rows.reshape(-1))
    return found, given["labels"]


def codes_of_c(build: Path, given: Sequence[Bytes]) -> NDArray[np.int8]:
    """Those of the C file, compiled for this machine."""
    with tempfile.TemporaryDirectory() as work:
        library = Path(work) / "front_end.so"
        subprocess.run(
            ["cc", "-O2", "-shared", "-fPIC", str(build / "digits_front_end.c"), "-o", str(library)], check=True
        )
        code = ctypes.CDLL(str(library))
        state, found = np.zeros(1 << 12, np.uint8), np.zeros((len(given), 8, 8, 1), np.int8)
        for frame, codes in zip(given, found, strict=True):
            code.digits_front_end_image(*(ctypes.c_void_p(a.ctypes.data) for a in (state, frame, codes)))
    return found


def right(network: Any, codes: NDArray[Any], labels: NDArray[Any]) -> int:
    (found,) = network.stream().run(codes[:, None]).values()
    return int((found.reshape(len(labels), -1).argmax(1) == labels).sum())


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=Path)
    parser.add_argument("--c", action="store_true")
    parser.add_argument("--wrong", action="store_true")
    given = parser.parse_args(words)
    network, (seen, labels) = atonc.load(given.build), frames()
    for name in list(WRONG)[: None if given.wrong else 1]:
        front_end = front_end_of(given.build, name)
        codes = np.stack([front_end.of_frame(frame) for frame in seen])
        print(f"{name:<30} {right(network, codes, labels):3} of {len(labels)} digits right")
    if given.c:
        expected = np.stack([front_end_of(given.build).of_frame(frame) for frame in seen])
        same = int((codes_of_c(given.build, seen) == expected).sum())
        print(f"codes of C and of Python: {same} of {expected.size} equal")
    return 0


if __name__ == "__main__":
    sys.exit(main())
