"""Is a network that was trained as the chip rounds better than one that was quantised afterwards, in chip arithmetic?

Two tasks (`shared/torch_tasks.py`), several seeds each. The float module is trained to its end first, with a falling
rate. Then three ways part from that same module, with weights of 8 bits and with 4 bits wherever they are known to run
(`max_loss="none"`), calibrated with the same 100 samples of the training data:

- afterwards: it is quantised;
- longer: it is trained on in float and quantised then, the control for what training longer brings;
- as the chip rounds: `atonc.torch.prepare` quantises it and trains on with codes.

Both that train on have the same epochs, rate, batches and loss: labels, and the answers of the float module they start
from. The files are compiled and run in the chip's arithmetic (the engine of `atonc evaluate`, bit for bit the emulator)
on samples that none had seen. Epochs, rates and the share of the float module's answers are the same for all rows, were
chosen on samples that are held in no row (seed 0), and nothing is stopped early. None of this was run on a board.
"""

from __future__ import annotations

import argparse
import copy
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional as F

import atonc
from atonc.compiler.ir import Array
from atonc.insight.evaluating.metrics import difference_interval, mean_interval
from atonc.insight.quantizing.price import chip_outputs
from atonc.insight.training.network import TrainingNetwork
from benchmarks.shared.corpus import asked_for
from benchmarks.shared.declare import COUNT, ONLY, WRITE, Report
from benchmarks.shared.tables import table
from benchmarks.shared.torch_tasks import SOFT, TASKS, fit, trained

GROUP = "quantising"
ARGUMENTS = (ONLY, COUNT.but(default=3, help="so many seeds"), WRITE)
CALIBRATING, EPOCHS, WEIGHT_RATE, SCALE_RATE = 100, 10, 1e-3, 1e-3
QUANTIZE = {"8": {"bits": "8"}, "4": {"bits": "4", "max_loss": "none"}}
WORKERS = 2
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
    four_bits: float  # share of the weights that have 4 bits
    real: Measured  # the float module
    after: Measured  # quantised afterwards, on the chip
    longer: Measured  # the same of a float module that was trained as many epochs more
    graph: Measured  # trained as the chip rounds, as training computes it
    chip: Measured  # the same on the chip
    milliseconds: tuple[float, float]
    seconds: float  # of processor time, to train

    @property
    def agreement(self) -> float:
        return float((self.graph.answers == self.chip.answers).mean())

    @property
    def first(self) -> bool:
        """Whether no other way has more right answers."""
        return bool(self.chip.right.sum() >= max(self.after.right.sum(), self.longer.right.sum()))

    @property
    def good(self) -> bool:
        """Whether no other way is better by more than chance, and chip and training agree."""
        others = (self.after, self.longer)
        level = all(difference_interval(self.chip.right, other.right)[1] >= 0 for other in others)
        return level and self.agreement >= AGREEMENT


def run(arguments: argparse.Namespace) -> Report:
    wanted = [task.name for task in TASKS if asked_for(arguments.only, task.name)]
    seeds = range(1, arguments.count + 1)  # by 0 the numbers above were chosen
    with ProcessPoolExecutor(WORKERS, get_context("spawn")) as pool:
        found = [pool.submit(measured, name, seed) for name in wanted for seed in seeds]
        rows = [row for one in found for row in one.result()]
    joined = [together(rows, task, bits) for task in wanted for bits in QUANTIZE]
    return Report(page(rows, joined, arguments.count), not joined or not all(row.good for row in joined))


def measured(name: str, seed: int) -> list[TrainingRow]:
    torch.set_num_threads(1)
    (task,) = (task for task in TASKS if task.name == name)
    images, labels, held, answers = task.data(seed)
    module = trained(task, images, labels, seed)
    with torch.no_grad():
        real = Measured.of(module(held), answers)
    longer = copy.deepcopy(module).train()
    fit(longer, images, labels, EPOCHS, [{"params": list(longer.parameters()), "lr": WEIGHT_RATE}], seed, module)
    found = []
    for bits, options in QUANTIZE.items():
        other = atonc.torch.prepare(longer, images[:1], images[:CALIBRATING], quantize=options)
        control = Measured.of(on_chip(other, held)[0], answers)
        network = atonc.torch.prepare(module, images[:1], images[:CALIBRATING], quantize=options)
        before, before_ms = on_chip(network, held)
        start = time.process_time()
        network.train()
        fit(network, images, labels, EPOCHS, network.parameter_groups(WEIGHT_RATE, SCALE_RATE), seed, module)
        seconds = time.process_time() - start
        with torch.no_grad():
            graph = Measured.of(network(held), answers)  # evaluated, it would answer as its program does
        after, after_ms = on_chip(network, held)
        row = TrainingRow(
            task.name, bits, four_bits=share_of_four(network), real=real, after=Measured.of(before, answers),
            longer=control, graph=graph, chip=Measured.of(after, answers), milliseconds=(before_ms, after_ms),
            seconds=seconds,
        )  # fmt: skip
        print(*cells(row), flush=True)
        found.append(row)
    return found


def share_of_four(network: TrainingNetwork) -> float:
    sizes = [(network.graph.constants[one.codes].size, one.bits) for one in network.graph.weights.values()]
    return sum(size for size, bits in sizes if bits == 4) / sum(size for size, _ in sizes)


def on_chip(network: TrainingNetwork, samples: torch.Tensor) -> tuple[torch.Tensor, float]:
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
    return TrainingRow(task, bits, mine[0].four_bits, *whole, times, sum(row.seconds for row in mine))  # type: ignore[arg-type]


def cells(row: TrainingRow) -> tuple[object, ...]:
    loss_low, loss_high = mean_interval(row.graph.losses)
    inside = loss_low <= row.chip.losses.mean() <= loss_high
    return (
        row.task, row.bits, f"{row.four_bits:.0%}", f"{row.real.right.mean():.2%}", f"{row.after.right.mean():.2%}",
        f"{row.longer.right.mean():.2%}", f"{row.chip.right.mean():.2%}", gain(row.chip, row.after),
        gain(row.chip, row.longer), f"{row.real.losses.mean():.4f}", f"{row.after.losses.mean():.4f}",
        f"{row.longer.losses.mean():.4f}", f"{row.chip.losses.mean():.4f}{'' if inside else ' (outside)'}",
        less(row.after, row.chip), less(row.longer, row.chip), f"{row.agreement:.2%}",
        f"{row.milliseconds[0]:.3f} / {row.milliseconds[1]:.3f}", f"{row.seconds:.0f}",
    )  # fmt: skip


def gain(one: Measured, other: Measured) -> str:
    low, high = difference_interval(one.right, other.right)
    return f"{100 * low:+.2f} to {100 * high:+.2f}"


def less(other: Measured, one: Measured) -> str:
    low, high = difference_interval(other.losses, one.losses)
    return f"{low:+.4f} to {high:+.4f}"


COLUMNS = (
    "task", ">bits of weights", ">weights with 4", ">float right", ">afterwards", ">longer", ">as the chip rounds",
    ">gain over afterwards, points (95 %)", ">gain over longer, points (95 %)", ">loss of float", ">loss afterwards",
    ">loss longer", ">loss as the chip rounds", ">less than afterwards (95 %)", ">less than longer (95 %)",
    ">same answer, training and chip", ">ms predicted, before / after", ">s to train",
)  # fmt: skip


def page(rows: list[TrainingRow], joined: list[TrainingRow], seeds: int) -> str:
    good, first = sum(row.good for row in joined), sum(row.first for row in joined)
    text = __doc__.strip()
    return f"""# Training as the chip rounds

{text}

{first} of {len(joined)}: at least as many right answers as both other ways. {good} of {len(joined)}: neither of them
is better by more than chance, and chip and training give the same answer for {AGREEMENT:.0%} of the samples or more.
{EPOCHS} epochs with Adam, {WEIGHT_RATE:g} falling to 0 for weights, {SCALE_RATE:g} for scales (which are logarithms);
{SOFT:.0%} of the loss are the float module's answers; torch {torch.__version__}. Losses are cross entropies of held
samples with their labels; "(outside)": the chip's is outside the 95 % of training's. Intervals are of the same samples.

All {seeds} seeds together:

{chr(10).join(table(COLUMNS, (cells(row) for row in joined)))}

Seed by seed:

{chr(10).join(table(COLUMNS, (cells(row) for row in rows)))}
"""
