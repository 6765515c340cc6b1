"""Two tasks that train in a minute or two on one core: the digits of scikit-learn with the network of the demo, and
made keywords with a small convolutional network."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.shared.torch_modules import conv_norm

BATCH = 32
SOFT = 0.8  # of the loss, where a teacher gives answers; the rest is the label's


@dataclass(frozen=True)
class TorchTask:
    name: str
    module: Callable[[], nn.Module]
    data: Callable[[int], tuple[Tensor, Tensor, Tensor, Tensor]]  # by seed: images and labels to learn from, and held
    epochs: int  # in float, until it is better by no more than chance
    rate: float


class DigitsNet(nn.Module):
    """The network of examples/digits."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 16, 3, padding=1), nn.Conv2d(16, 16, 3, padding=1)
        self.conv3, self.dense = nn.Conv2d(16, 32, 3, padding=1), nn.Linear(32, 10)

    def forward(self, x: Tensor) -> Tensor:
        one = F.relu(self.conv1(x))
        pooled = F.max_pool2d(one + F.relu(self.conv2(one)), 2)
        return self.dense(F.relu(self.conv3(pooled)).mean((2, 3)))


class KeywordNet(nn.Module):
    """Convolutions with norms over 32 frames of 16 bands, one of them depthwise."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.deep = conv_norm(1, 16, 3, 2), conv_norm(16, 24, 3, 2)
        self.depthwise, self.point = conv_norm(24, 24, 3, groups=24), conv_norm(24, 48, 1)
        self.fc = nn.Linear(48, WORDS)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(self.point(self.depthwise(self.deep(self.stem(x)))).mean((2, 3)))


DIGITS_HELD = 500


def digits(seed: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The 1,797 images of scikit-learn, 0 to 1, in four parts of which one is held: 500 images for the seeds 1, 2, 3,
    each image once, and the other 297 for seed 0, by which numbers are chosen."""
    from sklearn.datasets import load_digits

    found = load_digits()
    order = np.random.default_rng(99).permutation(len(found.target))
    parts = np.split(order, np.arange(3) * DIGITS_HELD + len(order) % DIGITS_HELD)
    held = parts[seed % len(parts)]
    learn = np.concatenate([part for part in parts if part is not held])
    images = torch.tensor(found.images[:, None] / 16, dtype=torch.float32)
    labels = torch.tensor(found.target)
    return images[learn], labels[learn], images[held], labels[held]


WORDS, FRAMES, BANDS, LEARN, HELD = 12, 32, 16, 1600, 1500
RATE = 4000  # of the made sound, a second long
NOISE = 2.0  # so loud that a float network errs now and then


def keywords(seed: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Made words: each is three gliding tones one after the other, spoken faster or slower, higher or lower, later or
    earlier, in noise; as logarithms of energy in bands."""
    paths = np.random.default_rng(99).uniform(300, 1700, (WORDS, 4))  # the words are the same for every seed
    random = np.random.default_rng(seed)
    labels = random.integers(0, WORDS, LEARN + HELD)
    images = np.stack([_spoken(paths[label], random) for label in labels])[:, None]
    found = torch.tensor(images, dtype=torch.float32), torch.tensor(labels)
    return found[0][:LEARN], found[1][:LEARN], found[0][LEARN:], found[1][LEARN:]


def _spoken(path: np.ndarray, random: np.random.Generator) -> np.ndarray:
    length, start = random.uniform(0.5, 0.75), random.uniform(0.0, 0.25)
    time = np.arange(RATE) / RATE
    inside = np.clip((time - start) / length, 0, 1)
    pitch = np.interp(inside * 3, np.arange(4), path * random.uniform(0.92, 1.08))
    loud = np.where((time >= start) & (time < start + length), 1.0, 0.0)
    sound = loud * np.sin(2 * np.pi * np.cumsum(pitch) / RATE) + random.normal(0, NOISE, RATE)
    frames = np.lib.stride_tricks.sliding_window_view(sound, 250)[:: (RATE - 250) // (FRAMES - 1)][:FRAMES]
    energy = np.square(np.abs(np.fft.rfft(frames * np.hanning(250), axis=1)))[:, 1:113]
    return np.log(energy.reshape(FRAMES, BANDS, -1).mean(2) + 1e-3)


TASKS = (
    TorchTask("digits", DigitsNet, digits, 160, 2e-3),
    TorchTask("made keywords", KeywordNet, keywords, 80, 3e-3),
)


def trained(task: TorchTask, images: Tensor, labels: Tensor, seed: int) -> nn.Module:
    """The float module."""
    torch.manual_seed(seed)
    module = task.module().train()
    fit(module, images, labels, task.epochs, [{"params": list(module.parameters()), "lr": task.rate}], seed)
    return module.eval()


def fit(
    module: nn.Module,
    images: Tensor,
    labels: Tensor,
    epochs: int,
    groups: list[dict[str, object]],
    seed: int,
    teacher: nn.Module | None = None,
) -> None:
    """Adam with a falling rate; pictures are shifted by up to one pixel. `teacher`: its shares of the classes are
    learnt beside the labels."""
    optimiser = torch.optim.Adam(groups)
    steps = epochs * (len(images) // BATCH)
    falling = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
    random = np.random.default_rng(seed)
    for _ in range(epochs):
        order = random.permutation(len(images))
        for k in range(0, len(images) - BATCH + 1, BATCH):
            chosen = torch.as_tensor(order[k : k + BATCH])
            shift = tuple(int(step) for step in random.integers(-1, 2, 2) * (random.random() < 0.5))
            batch = torch.roll(images[chosen], shift, (2, 3))
            loss = _loss(module(batch), labels[chosen], batch, teacher)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            falling.step()


def _loss(answer: Tensor, labels: Tensor, batch: Tensor, teacher: nn.Module | None) -> Tensor:
    hard = F.cross_entropy(answer, labels)
    if teacher is None:
        return hard
    with torch.no_grad():
        wanted = teacher(batch).softmax(1)
    return (1 - SOFT) * hard + SOFT * F.cross_entropy(answer, wanted)
