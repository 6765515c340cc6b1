"""Is a network that was trained as the chip rounds better than one that was quantised afterwards, in chip arithmetic?

Two tasks (`shared/torch_tasks.py`), several seeds each: the float module is trained, `atonc.torch.prepare` quantises it
with 100 samples of the training data and trains it on from there, with weights of 8 bits and with 4 bits wherever the
quantiser allows them. Both files, that of the quantiser and that of `atonc.torch.export`, are compiled and run in the
chip's arithmetic (the engine of `atonc evaluate`, bit for bit the emulator) on samples that neither had seen. Rates and
epochs are the same for all tasks and seeds, were chosen with a seed that is not shown, and nothing is stopped early.
The column "longer" is a control: the float module trained as many epochs more at the same rate and quantised then, so
that what training longer brings is not taken for what codes in training bring. None of this was run on a board.
"""

from __future__ import annotations

import argparse
import copy
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional as F

import atonc
from atonc.compiler.ir import Array
from atonc.insight.evaluating.metrics.intervals import difference_interval, mean_interval
from atonc.insight.quantizing.on_chip import chip_outputs
from benchmarks.shared.corpus import asked_for
from benchmarks.shared.declare import COUNT, ONLY, WRITE, Report
from benchmarks.shared.tables import table
from benchmarks.shared.torch_tasks import TASKS, TorchTask, fit, trained

GROUP = "quantising"
ARGUMENTS = (ONLY, COUNT.but(default=3, help="so many seeds"), WRITE)
CALIBRATING, EPOCHS, WEIGHT_RATE, SCALE_RATE = 100, 10, 1e-3, 1e-3
AGREEMENT = 0.99  # of the samples, between training and chip


@dataclass(frozen=True, eq=False)
class Measured:
    """One network: right answers and losses, sample by sample."""

    right: Array
    losses: Array
    answers: Array

    @staticmethod
    def of(outputs: torch.Tensor, labels: torch.Tensor) -> Measured:
        losses = F.cross_entropy(outputs.double(), labels, reduction="none")
        answers = outputs.argmax(1)
        return Measured((answers == labels).double().numpy(), losses.numpy(), answers.numpy())


@dataclass(frozen=True, eq=False)
class TrainingRow:
    task: str
    bits: str
    real: Measured  # the float module
    after: Measured  # quantised afterwards, on the chip
    longer: Measured  # the same of a float module that was trained as many epochs more
    graph: Measured  # trained, as training computes it
    chip: Measured  # trained, on the chip
    milliseconds: tuple[float, float]
    seconds: float  # of processor time, to train

    @property
    def agreement(self) -> float:
        return float((self.graph.answers == self.chip.answers).mean())

    @property
    def good(self) -> bool:
        return self.chip.right.mean() >= self.after.right.mean() and self.agreement >= AGREEMENT


def run(arguments: argparse.Namespace) -> Report:
    torch.set_num_threads(1)
    rows = []
    for task in TASKS:
        if asked_for(arguments.only, task.name):
            for seed in range(1, arguments.count + 1):  # 0 was looked at when the rates were chosen
                rows += measured(task, seed)
    joined = [together(rows, task, bits) for task in dict.fromkeys(r.task for r in rows) for bits in ("8", "4")]
    return Report(page(rows, joined, arguments.count), not joined or not all(row.good for row in joined))


def measured(task: TorchTask, seed: int) -> list[TrainingRow]:
    images, labels, held, answers = task.data(seed)
    module = trained(task, images, labels, seed)
    with torch.no_grad():
        real = Measured.of(module(held), answers)
    longer = copy.deepcopy(module).train()
    fit(longer, images, labels, EPOCHS, [{"params": list(longer.parameters()), "lr": WEIGHT_RATE}], seed)
    found = []
    for bits in ("8", "4"):
        other = atonc.torch.prepare(longer, images[:1], images[:CALIBRATING], quantize={"bits": bits})
        control = Measured.of(on_chip(other, held)[0], answers)
        network = atonc.torch.prepare(module, images[:1], images[:CALIBRATING], quantize={"bits": bits})
        before, before_ms = on_chip(network, held)
        start = time.process_time()
        network.train()
        fit(network, images, labels, EPOCHS, network.parameter_groups(WEIGHT_RATE, SCALE_RATE), seed)
        network.eval()
        seconds = time.process_time() - start
        with torch.no_grad():
            graph = Measured.of(network(held), answers)
        after, after_ms = on_chip(network, held)
        row = TrainingRow(
            task.name, bits, real=real, after=Measured.of(before, answers), longer=control, graph=graph,
            chip=Measured.of(after, answers), milliseconds=(before_ms, after_ms), seconds=seconds,
        )  # fmt: skip
        print(*cells(row), flush=True)
        found.append(row)
    return found


def on_chip(network: object, samples: torch.Tensor) -> tuple[torch.Tensor, float]:
    """Outputs of the exported file in the chip's arithmetic, and its predicted milliseconds."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "network.onnx"
        atonc.torch.export(network, file)
        compiled = atonc.compile(file)
    (name,) = compiled.source.inputs
    found = chip_outputs(compiled.compiled, [{name: sample[None].numpy()} for sample in samples])
    return torch.tensor(np.stack([outputs[0].reshape(-1) for outputs in found])), compiled.latency_ms


def together(rows: list[TrainingRow], task: str, bits: str) -> TrainingRow:
    """All seeds as one."""
    mine = [row for row in rows if (row.task, row.bits) == (task, bits)]

    def joined(which: str) -> Measured:
        parts = [getattr(row, which) for row in mine]
        return Measured(*(np.concatenate([getattr(one, f) for one in parts]) for f in ("right", "losses", "answers")))

    times = tuple(float(np.mean([row.milliseconds[k] for row in mine])) for k in range(2))
    whole = [joined(which) for which in ("real", "after", "longer", "graph", "chip")]
    return TrainingRow(task, bits, *whole, times, sum(row.seconds for row in mine))  # type: ignore[arg-type]


def cells(row: TrainingRow) -> tuple[object, ...]:
    low, high = difference_interval(row.chip.right, row.after.right)
    loss_low, loss_high = mean_interval(row.graph.losses)
    inside = loss_low <= row.chip.losses.mean() <= loss_high
    return (
        row.task, row.bits, f"{row.real.right.mean():.2%}", f"{row.after.right.mean():.2%}",
        f"{row.longer.right.mean():.2%}", f"{row.chip.right.mean():.2%}", f"{100 * low:+.2f} to {100 * high:+.2f}",
        f"{row.after.losses.mean():.4f}", f"{row.longer.losses.mean():.4f}",
        f"{row.graph.losses.mean():.4f} ({loss_low:.4f} to {loss_high:.4f})",
        f"{row.chip.losses.mean():.4f}{'' if inside else ' (outside)'}", f"{row.agreement:.2%}",
        f"{row.milliseconds[0]:.3f} / {row.milliseconds[1]:.3f}", f"{row.seconds:.0f}",
    )  # fmt: skip


COLUMNS = (
    "task", ">bits of weights", ">float right", ">quantised afterwards", ">trained longer in float, then quantised",
    ">trained as the chip rounds", ">gain over quantised afterwards, points (95 %)", ">loss afterwards",
    ">loss, longer", ">loss in training's graph (95 %)", ">loss on the chip",
    ">same answer, graph and chip", ">ms predicted, before / after", ">s to train",
)  # fmt: skip


def page(rows: list[TrainingRow], joined: list[TrainingRow], seeds: int) -> str:
    good = sum(row.good for row in joined)
    text = __doc__.strip()
    return f"""# Training as the chip rounds

{text}

{good} of {len(joined)}: at least as many right answers as by quantising afterwards, and the same answer as in training
for {AGREEMENT:.0%} of the samples or more. {EPOCHS} epochs with Adam, {WEIGHT_RATE:g} for weights and
{SCALE_RATE:g} for scales (which are logarithms), torch {torch.__version__}. Losses are cross entropies of held samples.

All {seeds} seeds together:

{chr(10).join(table(COLUMNS, (cells(row) for row in joined)))}

Seed by seed:

{chr(10).join(table(COLUMNS, (cells(row) for row in rows)))}
"""
