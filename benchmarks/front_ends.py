"""Does a front end in C give its Python twin's codes, how far is it from the package that it names, what does it cost?

The C code runs as a library of this machine for the whole sound; on the virtual board, a few seconds of it on the
scalar core and some frames with vectors, whose instructions are counted there and weighed as in `cpu_kernels`.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np

from atonc.delivery.front_end.c_text import ONE, constant_bytes, state_bytes
from atonc.delivery.front_end.fitting import cycles
from atonc.delivery.front_end.pipeline import presets
from atonc.delivery.front_end.twin import FrontEnd, front_end
from benchmarks.cpu_kernels import weight
from benchmarks.shared.corpus import asked_for
from benchmarks.shared.declare import JOBS, ONLY, SECONDS, WRITE, Report, argument
from tests.front_end.references import REFERENCES
from tests.front_end.ways import OnBoard, OnHost, pieces, sound

GROUP = "truth"
ARGUMENTS = (
    SECONDS.but(type=int, default=3600, help="of sound for the library of this machine (default 3600)"),
    argument("--board-seconds", type=float, default=20, help="for the scalar core of the virtual board (default 20)"),
    argument("--vector-seconds", type=float, default=0.3, help="for its core with vectors (default 0.3)"),
    JOBS,
    ONLY,
    WRITE,
)
_PIECE = 600  # seconds that are made at once
_NETWORK = ("int8", 0.1, -5)  # the input of a network
_REFERENCE_SECONDS = 60


def hours(seconds: int, rate: int) -> Iterator[np.ndarray]:
    for k in range(0, seconds, _PIECE):
        yield sound(min(_PIECE, seconds - k), rate, seed=k)


def same_on_host(made: FrontEnd, seconds: int) -> tuple[int, int]:
    """Codes, and how many of them differ."""
    total = differ = 0
    with tempfile.TemporaryDirectory() as work:
        host = OnHost(made, Path(work), None, "-O2")
        for piece in hours(seconds, made.pipeline.rate):
            host.reset()
            found = np.concatenate([host.push(part) for part in pieces(piece)])
            expected = made(piece)
            assert found.shape == expected.shape
            total, differ = total + found.size, differ + int((found != expected).sum())
    return total, differ


def same_on_board(made: FrontEnd, seconds: float, cpu: str) -> tuple[int, int]:
    with tempfile.TemporaryDirectory() as work:
        piece = sound(seconds + 1, made.pipeline.rate, seed=9)[made.pipeline.rate :]
        found, expected = OnBoard(made, Path(work), cpu).push(piece), made(piece)
        assert found.shape == expected.shape
        return found.size, int((found != expected).sum())


def counted_cycles(made: FrontEnd) -> tuple[float, float]:
    """Instructions and cycles of a frame in the middle of a sound."""
    p = made.pipeline
    frames = 10
    with tempfile.TemporaryDirectory() as work:
        board = OnBoard(made, Path(work))
        piece = sound(3, p.rate, seed=2)[p.rate :]
        ahead = p.frame.length + p.first
        board.push(piece[:ahead])
        done, addresses = board.counted(piece[ahead : ahead + frames * p.frame.hop])
        assert done == frames
        program = Path(work) / "program.elf"
        text = subprocess.run(["arm-none-eabi-objdump", "-d", program], capture_output=True, text=True, check=True)
    weights = dict(weights_of(text.stdout))
    known = {at: times for at, times in addresses.items() if at in weights}
    return sum(known.values()) / frames, sum(times * weights[at] for at, times in known.items()) / frames


def weights_of(listing: str) -> Iterator[tuple[int, int]]:
    for line in listing.splitlines():
        parts = line.split("\t")
        halves = parts[1].split() if len(parts) > 2 else []
        if halves and all(len(half) == 4 for half in halves):
            second = int(halves[1], 16) if len(halves) > 1 else 0
            yield int(parts[0].strip().rstrip(":"), 16), weight(int(halves[0], 16), second)


def row(name: str, arguments: argparse.Namespace) -> tuple[str, bool]:
    made = front_end(name).for_input(*_NETWORK)
    p = made.pipeline
    found = [
        same_on_host(made, arguments.seconds),
        same_on_board(made, arguments.board_seconds, "cortex-m33"),
        same_on_board(made, arguments.vector_seconds + p.frame.length / p.rate, "cortex-m55"),
    ]
    instructions, counted = counted_cycles(made)
    shown = " | ".join(f"{differ} of {total:,}" for total, differ in found)
    sizes = f"{state_bytes(p, ONE):,} | {constant_bytes(p):,}"
    costs = f"{instructions:,.0f} | {counted:,.0f} | {cycles(p):,}"
    late = p.features == 80 and counted > 20_000
    return f"| {name} | {p.features} | {shown} | {costs} | {sizes} |", any(differ for _, differ in found) or late


def reference_row(name: str) -> str:
    package, reference = REFERENCES[name]
    samples = sound(_REFERENCE_SECONDS, seed=5)
    made = front_end(name)
    expected, found = reference(samples), made.features(samples)
    expected = expected[: len(found)]
    apart = np.abs(found - expected)
    low, high = float(expected.min()), float(expected.max())
    codes = made.for_input("int8", (high - low) / 255, round(-128 - 255 * low / (high - low)))
    differ = codes.codes(found) != codes.codes(expected.astype(np.float32))
    return f"| {name} | {package} | {np.sqrt(np.mean(apart**2)):.2g} | {apart.max():.2g} | {differ.mean():.4%} |"


def run(arguments: argparse.Namespace) -> Report:
    names = [name for name in presets() if asked_for(arguments.only, name)]
    rows = []
    with ProcessPoolExecutor(arguments.jobs) as pool:
        for made in pool.map(partial(row, arguments=arguments), names):
            rows.append(made)
            print(made[0], flush=True)
    lines = [
        "# Front ends\n",
        "Codes of the C file that differ from the Python twin's, int8, made sound: "
        f"{arguments.seconds:,} s as a library of this machine, {arguments.board_seconds:g} s on the scalar core of "
        f"the virtual board, {arguments.vector_seconds:g} s on its core with vectors, which an interpreter computes.",
        "Instructions and cycles of a frame on the core with vectors: counted there, GCC -O2, weights of",
        "`cpu_kernels`, no waits for memory; roots of magnitudes are predicted with their waits. Emulated, not yet run",
        "on a board.\n",
        "| preset | features | this machine | board, scalar | board, vectors | instructions | cycles | predicted | "
        "RAM | tables |",
        "|---|---|---|---|---|---|---|---|---|---|",
        *(text for text, _ in rows),
        "\n## Against the packages\n",
        f"Features of {_REFERENCE_SECONDS} s of made sound, in their own unit (dB, or nepers of power): rms and "
        "largest difference; and codes that differ where an int8 input spans their whole range. Where there is no "
        "package for this machine, its documented formula stands for it, in double precision.\n",
        "| preset | against | rms | largest | int8 codes that differ |",
        "|---|---|---|---|---|",
        *(reference_row(name) for name in names if name in REFERENCES),
    ]
    return Report("\n".join(lines) + "\n", failed=any(bad for _, bad in rows))
