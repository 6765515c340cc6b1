"""A front end compiled for this machine and for the virtual board, beside its twin; and a made sound."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from atonc.delivery.firmware import building
from atonc.delivery.front_end import c_text
from atonc.delivery.front_end.pipeline import Pipeline
from atonc.delivery.front_end.twin import FrontEnd
from tests.kernels import qemu

Array = NDArray[Any]
FLAGS = ("-std=c99", "-O1", "-Wall", "-Wextra", "-Werror", "-Wshadow", "-pedantic")
PIECE = 4096  # samples that the board gets at once
MAIN = f"""
#include <stdint.h>
#include "x_front_end.h"
int16_t samples[{PIECE}];
volatile uint32_t count, frames;
x_front_end_code codes[X_FRONT_END_MOST_FRAMES({PIECE}) * X_FRONT_END_FEATURES];
static x_front_end_state state;
void begin_of_frames(void);
int main(void)
{{
  x_front_end_reset(&state);
  for (;;) {{
    __asm volatile("bkpt 1" ::: "memory");
    frames = x_front_end_push(&state, samples, count, codes);
  }}
}}
"""
# Semihosting: 1 opens a file, 6 reads, 5 writes, and a read answers how much of it is missing. Samples come in pieces
# of any size, as an interrupt would bring them if it were late.
QEMU_MAIN = """
#include <stdint.h>
#include "x_front_end.h"
void board_print_number(uint32_t value);
static int32_t ask(int what, const void *about)
{
  register int code __asm("r0") = what;
  register const void *argument __asm("r1") = about;
  __asm volatile("bkpt 0xAB" : "+r"(code) : "r"(argument) : "memory");
  return code;
}
static uint32_t opened(const char *name, uint32_t length, uint32_t mode)
{
  const uint32_t block[] = {(uint32_t)(uintptr_t)name, mode, length};
  return (uint32_t)ask(1, block);
}
static uint32_t missing(int what, uint32_t file, const void *at, uint32_t bytes)
{
  const uint32_t block[] = {file, (uint32_t)(uintptr_t)at, bytes};
  return (uint32_t)ask(what, block);
}
static x_front_end_state state;
static int16_t samples[30000];
static x_front_end_code codes[X_FRONT_END_MOST_FRAMES(1500) * X_FRONT_END_FEATURES];
int main(void)
{
  const uint32_t from = opened("samples", 7, 1), to = opened("codes", 5, 5);
  uint32_t total = 0, draw = 1, have;
  x_front_end_reset(&state);
  while ((have = (sizeof samples - missing(6, from, samples, sizeof samples)) / sizeof samples[0]) != 0) {
    for (uint32_t at = 0, count; at < have; at += count) {
      draw = draw * 1664525u + 1013904223u;
      count = 1 + (draw >> 16) % 1500;
      if (count > have - at) count = have - at;
      const uint32_t frames = x_front_end_push(&state, samples + at, count, codes);
      if (frames && missing(5, to, codes, frames * (uint32_t)(sizeof codes[0] * X_FRONT_END_FEATURES))) return 1;
      total += frames;
    }
  }
  board_print_number(total);
  return 0;
}
"""


def sound(seconds: float, rate: int = 16000, seed: int = 0) -> NDArray[np.int16]:
    """Sweeps, clicks, noise of every level, silence and samples at their limits."""
    rng = np.random.default_rng(seed)
    count = int(seconds * rate)
    t = np.arange(count) / rate
    pitch = 120 + 2500 * (0.5 + 0.5 * np.sin(2 * np.pi * 0.31 * t + seed))
    voice = np.sin(2 * np.pi * np.cumsum(pitch) / rate) + 0.4 * np.sin(4 * np.pi * np.cumsum(pitch) / rate)
    level = 10.0 ** (-4 + 4 * (0.5 + 0.5 * np.sin(2 * np.pi * 0.17 * t)))
    made = 1.2 * level * voice + level * 0.1 * rng.standard_normal(count)
    made += (rng.random(count) < 2e-4) * rng.standard_normal(count)
    made *= np.sin(2 * np.pi * 0.23 * t) > -0.8
    return np.clip(np.rint(made * 32768), -32768, 32767).astype(np.int16)


def write(p: Pipeline, folder: Path, window: c_text.Window | None = None) -> Path:
    for name, content in c_text.files(p, "x", window or c_text.Window()).items():
        (folder / name).write_bytes(content)
    return folder / "x_front_end.c"


class OnHost:
    """The C code as a library of this machine."""

    def __init__(self, front_end: FrontEnd, folder: Path, window: c_text.Window | None = None, *flags: str) -> None:
        gcc = shutil.which("gcc") or shutil.which("cc")
        if gcc is None:
            pytest.skip("no C compiler for this machine")
        self.front_end, self.window = front_end, window or c_text.Window()
        source, target = write(front_end.pipeline, folder, window), folder / "x.so"
        subprocess.run([gcc, *FLAGS, *flags, "-shared", "-fPIC", str(source), "-o", str(target), "-lm"], check=True)
        self.code = ctypes.CDLL(str(target))
        size = c_text.state_bytes(front_end.pipeline, self.window)
        self.state = np.zeros(size + 64, np.uint8)
        self.state[size:] = 0xA5
        self.reset()

    def reset(self) -> None:
        self.code.x_front_end_reset(_pointer(self.state))

    def push(self, samples: Array) -> Array:
        p = self.front_end.pipeline
        room = np.full((len(samples) // p.frame.hop + 2, p.features), 77, p.codes.type)
        samples = np.ascontiguousarray(samples)
        count = self.code.x_front_end_push(_pointer(self.state), _pointer(samples), len(samples), _pointer(room))
        assert (room[count:] == 77).all()
        assert (self.state[-64:] == 0xA5).all()
        return room[:count]

    def input(self) -> Array | None:
        """What the network gets; None as long as there are too few frames."""
        p = self.front_end.pipeline
        found = np.zeros((self.window.frames, p.features), p.codes.type)
        found = found.T.copy() if self.window.frames_inside else found
        return found if self.code.x_front_end_input(_pointer(self.state), _pointer(found)) else None


def _pointer(values: Array) -> ctypes.c_void_p:
    return ctypes.c_void_p(values.ctypes.data)


def firmware(main_text: str, source: Path, cpu: str, defines: Mapping[str, str] | None = None) -> Path:
    harness, folder = building.runtime_folder("harness"), source.parent
    main = folder / "main.c"
    main.write_text(main_text)
    units = [
        building.CompileUnit((harness / "startup.c", harness / "board_io.c"), (harness,), strict=True),
        building.CompileUnit((main,), (folder,)),
        building.CompileUnit((source,), (folder,), defines or {}, strict=True),
    ]
    toolchain = building.find_toolchain()
    objects = building.compile_units(toolchain, units, folder, cpu=cpu)
    return building.link(toolchain, objects, folder / "program.elf", cpu=cpu)


class OnBoard:
    """The same code on the virtual board."""

    def __init__(self, front_end: FrontEnd, folder: Path, cpu: str = "cortex-m55") -> None:
        from atonc.machine.emu.board import VirtualBoard, read_firmware

        self.p = front_end.pipeline
        self.firmware = read_firmware(firmware(MAIN, write(self.p, folder), cpu))
        self.board = VirtualBoard(self.firmware)
        self.board.run()

    def push(self, samples: Array) -> Array:
        return np.concatenate([self._piece(samples[k : k + PIECE]) for k in range(0, len(samples), PIECE)])

    def _piece(self, samples: Array) -> Array:
        at, memory = self.firmware.symbols, self.board.memory
        self.board.poke(at["samples"], np.frombuffer(samples.tobytes(), np.uint8))
        self.board.poke(at["count"], np.array([len(samples)], "<u4").view(np.uint8))
        self.board.run()
        frames = int(memory.read(at["frames"], 4).view("<u4")[0])
        size = frames * self.p.features * np.dtype(self.p.codes.type).itemsize
        return memory.read(at["codes"], size).view(self.p.codes.type).reshape(frames, self.p.features)

    def counted(self, samples: Array) -> tuple[int, Counter[int]]:
        """Frames, and how often each address was executed."""
        frames, found = counted(self.board, lambda: self.push(samples))
        return len(frames), found


class OnQemu:
    """The same code on QEMU's board, whose Cortex-M55 has the vectors; for hours of sound."""

    def __init__(self, front_end: FrontEnd, folder: Path) -> None:
        self.p = front_end.pipeline
        main = folder / "main.c"
        main.write_text(QEMU_MAIN)
        source = write(self.p, folder)
        units = [building.CompileUnit((qemu.FRAME, source), strict=True), building.CompileUnit((main,), (folder,))]
        objects = building.compile_units(building.find_toolchain(), units, folder, cpu="cortex-m55")
        self.code, self.elf = objects[1], qemu.linked(objects, folder)

    def __call__(self, samples: Array) -> Array:
        """The codes of a sound from its beginning."""
        (self.elf.parent / "samples").write_bytes(samples.tobytes())
        said = qemu.run(self.elf, timeout=None)
        found = np.fromfile(self.elf.parent / "codes", self.p.codes.type).reshape(-1, self.p.features)
        assert said == [str(len(found))], said
        return found


def counted(board: Any, work: Callable[[], Array]) -> tuple[Array, Counter[int]]:
    """What the work gives, and how often each address was executed; instructions of the vector unit too."""
    core, found = board.core, Counter[int]()
    vectors, ring = core.vectors, core.vectors.ring

    def on_code(_: Any, address: int, __: int, ___: Any) -> None:
        found[address] += 1

    def on_ring() -> None:
        run = vectors._runs[int(vectors._words[vectors_number])]
        for k in range(1, len(run.steps)):  # unicorn has seen the first, where it branched to the vector unit
            found[run.at + 4 * k] += 1
        ring()

    from atonc.machine.emu.board.mve.unit import NUMBER as vectors_number

    vectors.ring = on_ring
    hook = core.uc.hook_add(core._code_hook, on_code)
    core.uc.ctl_flush_tb()  # what is translated already would not call it
    given = work()
    core.uc.hook_del(hook)
    vectors.ring = ring
    return given, found


def pieces(samples: Array, seed: int = 1) -> Iterator[Array]:
    """Cuts a sound at random, as an interrupt would bring them if it were late."""
    rng, at = np.random.default_rng(seed), 0
    while at < len(samples):
        count = int(rng.integers(1, 1500))
        yield samples[at : at + count]
        at += count
