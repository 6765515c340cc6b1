"""Does a network that is exported from training answer on the chip as it did in PyTorch, trained or not?

Six architectures (`shared/torch_architectures.py`) at three times: prepared from a float module that was not trained,
prepared from a trained one, and trained on as the chip rounds. Each is exported, and the file is compiled and verified
with default options. An answer is the class of a held sample, of the U-Net the class of every pixel: the largest output
of the program in the chip's arithmetic (the engine of `atonc evaluate`, bit for bit the emulator) against that of the
module on the same inputs. After `prepared.eval()` the module compiles itself, so equal outputs say that the file, its
reading and the default options are the same on both ways; after `prepared.train()` PyTorch computes what lies between
codes, so that column says how near the arithmetic of training is. Noise of outputs that are almost level makes answers
of untrained networks differ first. None of this was run on a board.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional as F

import atonc
from atonc.compiler.ir import Array
from atonc.insight.quantizing.price import chip_outputs
from atonc.insight.training.network import TrainingNetwork
from benchmarks.shared.corpus import asked_for
from benchmarks.shared.declare import ONLY, WRITE, Report
from benchmarks.shared.tables import table
from benchmarks.shared.torch_architectures import ARCHITECTURES, LEARN, made

GROUP = "quantising"
ARGUMENTS = (ONLY, WRITE)
CALIBRATING, RATE, PIXELS_HELD = 64, 3e-4, 60
EPOCHS = dict.fromkeys(ARCHITECTURES, 10) | {"Mixer": 40}
WANTED = 0.998  # of the answers


@dataclass(frozen=True)
class AnswersRow:
    name: str
    state: str
    right: float  # answers of the chip
    float_same: float  # as the float module's
    count: int
    same: float  # answers of chip and evaluated module
    equal: bool  # and all their outputs
    training_same: float  # answers of chip and module in training
    training_codes: float  # of its outputs, within half a code
    seconds: float  # of processor time, to compile the module and answer all held samples

    def cells(self) -> tuple[object, ...]:
        return (
            self.name, self.state, f"{self.right:.1%}", f"{self.float_same:.2%}", f"{self.count:,}",
            f"{self.same:.2%}", "yes" if self.equal else "no", f"{self.training_same:.2%}",
            f"{self.training_codes:.1%}", f"{self.seconds:.1f}",
        )  # fmt: skip


def run(arguments: argparse.Namespace) -> Report:
    torch.set_num_threads(1)
    rows = []
    for name in ARCHITECTURES:
        for epochs in (0, EPOCHS[name]) if asked_for(arguments.only, name) else ():
            for row in measured(name, epochs):
                rows.append(row)
                print(*row.cells(), flush=True)
    return Report(page(rows), not rows or not all(row.same >= WANTED for row in rows))


def measured(name: str, epochs: int) -> list[AnswersRow]:
    module, learn, held, labels = made(name, epochs)
    held = held[:PIXELS_HELD] if labels.ndim > 1 else held
    network = atonc.torch.prepare(module, learn[:1], learn[:CALIBRATING])
    with torch.no_grad():
        real, wanted = module(held).numpy(), module(learn)
    right = labels[: len(held)].numpy()
    found = [compared(name, "trained in float" if epochs else "not trained", network, held, real, right)]
    if epochs:
        optimiser = torch.optim.Adam(network.train().parameter_groups(RATE))
        for some in torch.randperm(len(learn)).split(64):
            loss = F.mse_loss(network(learn[some]), wanted[some])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        found.append(compared(name, "then as the chip rounds", network, held, real, right))
    return found


def compared(
    name: str, state: str, network: TrainingNetwork, held: torch.Tensor, real: Array, right: Array
) -> AnswersRow:
    with tempfile.TemporaryDirectory() as folder:
        atonc.torch.export(network, Path(folder) / "network.onnx")
        compiled = atonc.compile(Path(folder) / "network.onnx")
    (given,) = compiled.source.inputs
    chip = np.concatenate([one[0] for one in chip_outputs(compiled.compiled, [{given: x[None].numpy()} for x in held])])
    start = time.process_time()
    with torch.no_grad():
        answers = network.eval()(held).numpy()
        seconds = time.process_time() - start
        training = network.train()(held).numpy()
    classes = [one.argmax(1) for one in (chip, answers, training, real)]
    step = float(np.diff(np.unique(chip)).min(initial=np.inf))
    return AnswersRow(
        name, state, right=float((classes[0] == right).mean()), float_same=float((classes[0] == classes[3]).mean()),
        count=classes[0].size, same=float((classes[0] == classes[1]).mean()), equal=np.array_equal(chip, answers),
        training_same=float((classes[0] == classes[2]).mean()),
        training_codes=float((np.abs(chip - training) < step / 2).mean()), seconds=seconds,
    )  # fmt: skip


COLUMNS = (
    "architecture", "state", ">right on the chip", ">same as float", ">answers", ">same answer, evaluated module",
    ">all outputs equal", ">same answer, module in training", ">its outputs within half a step", ">s for all answers",
)  # fmt: skip


def page(rows: list[AnswersRow]) -> str:
    text, good = __doc__.strip(), sum(row.same >= WANTED for row in rows)
    equal = sum(row.equal for row in rows)
    worst = min((row.training_same for row in rows), default=0.0)
    return f"""# The same answers in PyTorch and on the chip

{text}

{good} of {len(rows)}: at least {WANTED:.1%} of the answers are those of the evaluated module; in {equal} all outputs
are equal. In training mode at least {worst:.2%} of the answers are the same. Float modules learn for 10 epochs (the
Mixer for 40) with {LEARN} pictures, and {CALIBRATING} calibrate; one epoch as the chip rounds, with a rate of {RATE:g},
follows the float module's outputs. Seconds are of one processor; torch {torch.__version__}. A step is the least
difference of two outputs.

{chr(10).join(table(COLUMNS, (row.cells() for row in rows)))}
"""
