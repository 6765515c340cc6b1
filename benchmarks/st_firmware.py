"""ST's validation application as somebody built it for a NUCLEO, unchanged on the virtual board. ST's client sends
inputs recorded on the real board, and every output must be the recorded one.

DIR holds 76EHwan+ANN_GMPPT (firmware and recording) and what shared/st_session.py names.
"""

from __future__ import annotations

import argparse
import re
from dataclasses import dataclass

import numpy as np

from benchmarks.shared.declare import ONE_FETCHED, SAMPLES, WRITE, Report
from benchmarks.shared.st_session import session

GROUP = "board"
ARGUMENTS = (ONE_FETCHED, SAMPLES.but(default=4000), WRITE)

_RUN = "76EHwan+ANN_GMPPT/.ai/run/run-1"
RECORDING = f"{_RUN}/.ai/st_ai_output/network_val_io.npz"
BUILDS = ("Debug", "Release")
_MINOR = 2  # the firmware says protocol 3.2, the client knows 3.1 and the same messages
_LEAST = 500
INTRODUCTION = """# ST's validation firmware on the virtual board

`run-1_Appli.elf` of `76EHwan/ANN_GMPPT` (NUCLEO-N657X0, GCC, network linked
in, protocol 3.2) as its author built it, not a byte changed. ST's own client (`stm_ai_runner` of
`SeongMin1000/N6_cusotm_validation`, told that 3.2 exists) connects, asks for the network and runs inputs of
`network_val_io.npz`: 4,000 inputs with the outputs (`c_outputs_1`) that the author's board gave.

"Emulated" is the whole board: every instruction of the firmware runs, the NPU is the bit-exact emulator behind its
registers, bytes go through USART1. Times of an inference are the board's own clock as the firmware reports it, where an
instruction is one cycle: not a measurement of a Cortex-M55.

| build | connection | inputs | outputs as recorded | different | boot, s | a sample, s | reported by the firmware, ms |
|---|---|---:|---:|---:|---:|---:|---:|
"""


@dataclass(frozen=True)
class Row:
    build: str
    connection: str
    samples: int
    equal: int
    boot_s: float
    seconds: float
    reported_ms: float

    def text(self) -> str:
        figures = f"{self.samples:,} | {self.equal:,} | {self.samples - self.equal} | {self.boot_s:.0f}"
        each = self.seconds / self.samples
        return f"| {self.build} | {self.connection} | {figures} | {each:.3f} | {self.reported_ms:.3f} |"


def run(arguments: argparse.Namespace) -> Report:
    recorded = np.load(arguments.fetched / RECORDING)
    inputs, outputs = recorded["c_inputs_1"][: arguments.samples], recorded["c_outputs_1"][: arguments.samples]
    rows, summary = [], ""
    for build, serial in zip(BUILDS, ("socket:0", "pty"), strict=True):
        firmware = f"{_RUN}/STM32CubeIDE/Appli/{build}/run-1_Appli.elf"
        with session(arguments.fetched, firmware, serial=serial) as board:
            answer = board.run([inputs], _MINOR)
        equal = int((answer.outputs[0].reshape(len(inputs), -1) == outputs.reshape(len(inputs), -1)).all(axis=1).sum())
        kind = "pseudo-terminal" if serial == "pty" else "socket"
        reported = float(np.median(answer.durations_ms))
        rows.append(Row(build, kind, len(inputs), equal, board.boot_s, answer.seconds, reported))
        summary = summary or answer.said
        print(rows[-1].text(), flush=True)
    good = all(row.equal == row.samples >= _LEAST for row in rows)
    return Report(_page(rows, summary), failed=not good)


def _page(rows: list[Row], summary: str) -> str:
    lines = [line.rstrip() for line in summary.splitlines() if line.strip() and set(line.strip()) != {"-"}]
    shown = "\n".join(re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:PORT", line) for line in lines)
    said = f"\nWhat the client prints about the board (first row):\n\n```\n{shown}\n```\n"
    return INTRODUCTION + "".join(f"{row.text()}\n" for row in rows) + said
