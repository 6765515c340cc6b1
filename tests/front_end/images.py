"""A front end of images compiled for this machine and for the virtual board, beside its twin; and made frames."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from atonc.delivery.front_end import image_text
from atonc.delivery.front_end.image import FORMATS, ImagePipeline
from atonc.delivery.front_end.image_twin import ImageFrontEnd
from tests.front_end.ways import FLAGS, counted, firmware

Array = NDArray[Any]


def images(width: int, height: int, seed: int = 0) -> Iterator[Array]:
    """Gradients, noise, edges, limits: height x width x 3."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:height, :width]
    yield np.stack([x * 255 // max(width - 1, 1), y * 255 // max(height - 1, 1), (x + y) % 256], -1).astype(np.uint8)
    yield rng.integers(0, 256, (height, width, 3), dtype=np.uint8)
    yield np.stack([(x // 7 + y // 5) % 2 * 255, (x > width // 2) * 255, (y > x) * 255], -1).astype(np.uint8)
    yield np.full((height, width, 3), 255, np.uint8) * (rng.random((height, width, 1)) < 0.5).astype(np.uint8)


def frames(p: ImagePipeline, seed: int = 0) -> Iterator[Array]:
    """The camera's buffers: any bytes are a frame, gradients as bytes and noise."""
    rng, size = np.random.default_rng(seed), p.row_bytes * p.image.height
    for image in images(p.image.width, p.image.height, seed):
        flat = image.reshape(p.image.height, -1)[:, : p.image.width * FORMATS[p.image.format]]
        rows = rng.integers(0, 256, (p.image.height, p.row_bytes), dtype=np.uint8)
        rows[:, : flat.shape[1]] = flat
        yield rows.reshape(-1)
    yield rng.integers(0, 256, size, dtype=np.uint8)


def write_image(p: ImagePipeline, folder: Path, planes: bool = False) -> Path:
    for name, content in image_text.files(p, "x", planes).items():
        (folder / name).write_bytes(content)
    return folder / "x_front_end.c"


class ImageOnHost:
    """The C code as a library of this machine."""

    def __init__(self, made: ImageFrontEnd, folder: Path, planes: bool = False, *flags: str) -> None:
        gcc = shutil.which("gcc") or shutil.which("cc")
        if gcc is None:
            pytest.skip("no C compiler for this machine")
        self.p, self.planes = made.pipeline, planes
        source, target = write_image(self.p, folder, planes), folder / "x.so"
        subprocess.run([gcc, *FLAGS, *flags, "-shared", "-fPIC", str(source), "-o", str(target)], check=True)
        self.code = ctypes.CDLL(str(target))
        self.state_bytes = image_text.state_bytes(self.p)
        self.state = np.full(self.state_bytes + 64, 0xA5, np.uint8)

    def __call__(self, frame: Array) -> Array:
        p = self.p
        shape = (p.resize.height, p.resize.width, p.channels)
        frame = np.ascontiguousarray(frame)
        room = np.full(np.prod(shape) + 64, 77, p.codes.type)
        self.code.x_front_end_image(*(ctypes.c_void_p(a.ctypes.data) for a in (self.state, frame, room)))
        assert (room[-64:] == 77).all() and (self.state[self.state_bytes :] == 0xA5).all()
        found = room[:-64]
        return found.reshape(shape[2], *shape[:2]).transpose(1, 2, 0) if self.planes else found.reshape(shape)


_FRAME, _CODES = 0x34200000, 0x34300000  # the RAM of the NPU, which is free here
_MAIN = f"""
#include <stdint.h>
#include "x_front_end.h"
static x_front_end_state state;
int main(void)
{{
  for (;;) {{
    __asm volatile("bkpt 1" ::: "memory");
    x_front_end_image(&state, (const uint8_t *){_FRAME:#x}, (x_front_end_code *){_CODES:#x});
  }}
}}
"""


class ImageOnBoard:
    """The same code on the virtual board."""

    def __init__(self, made: ImageFrontEnd, folder: Path, cpu: str = "cortex-m55") -> None:
        from atonc.machine.emu.board import VirtualBoard, read_firmware

        self.p = made.pipeline
        self.firmware = read_firmware(firmware(_MAIN, write_image(self.p, folder), cpu))
        self.board = VirtualBoard(self.firmware)
        self.board.run()

    def __call__(self, frame: Array) -> Array:
        p = self.p
        shape = (p.resize.height, p.resize.width, p.channels)
        self.board.poke(_FRAME, frame)
        self.board.run()
        size = int(np.prod(shape)) * np.dtype(p.codes.type).itemsize
        return self.board.memory.read(_CODES, size).view(p.codes.type).reshape(shape)

    def counted(self, frame: Array) -> tuple[Array, Counter[int]]:
        return counted(self.board, lambda: self(frame))
