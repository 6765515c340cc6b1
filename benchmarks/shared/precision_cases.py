"""Small float networks that nobody tuned the quantiser on, trained within half a minute on made data.

Every split of a case is drawn from the same distribution with another seed: brightness, loudness and noise differ from
sample to sample, so that some samples are larger than all that calibrated.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.shared.torch_modules import Autoencoder, EncoderLayer, InvertedResidual, Squeeze, conv_norm

Array = np.ndarray
Drawn = tuple[Array, Array]  # inputs and what the network should say
LEARN, BATCH, RATE = 768, 32, 2e-3
OPSET = 17


@dataclass(frozen=True)
class Case:
    what: str
    module: Callable[[], nn.Module]
    draw: Callable[[np.random.Generator, int], Drawn]
    loss: Callable[[Tensor, Tensor], Tensor]
    steps: int = 400
    held: int = 200  # samples that judge in the chip's arithmetic

    def inputs(self, seed: int, count: int) -> Array:
        """Samples first, each with a batch of 1."""
        return self.draw(np.random.default_rng(seed), count)[0][:, None]


def trained(case: Case, file: Path) -> Path:
    """The float network as ONNX, made where there is none yet."""
    if not file.is_file():
        torch.manual_seed(0)
        inputs, targets = (torch.from_numpy(one) for one in case.draw(np.random.default_rng(100), LEARN))
        module = _fitted(case, case.module().train(), inputs, targets)
        file.parent.mkdir(parents=True, exist_ok=True)
        torch.onnx.export(module, (inputs[:1],), file, dynamo=False, opset_version=OPSET, input_names=["x"])
    return file


def _fitted(case: Case, module: nn.Module, inputs: Tensor, targets: Tensor) -> nn.Module:
    optimiser = torch.optim.AdamW(module.parameters(), RATE)
    falling = torch.optim.lr_scheduler.OneCycleLR(optimiser, 2 * RATE, total_steps=case.steps)
    random = np.random.default_rng(0)
    for _ in range(case.steps):
        chosen = torch.as_tensor(random.integers(0, len(inputs), BATCH))
        optimiser.zero_grad()
        case.loss(module(inputs[chosen]), targets[chosen]).backward()
        optimiser.step()
        falling.step()
    return module.eval()


# ----------------------------------------------------------------------------------------------------------------- data

SHAPES = 3  # disc, square, cross; 0 is the background


def pictures(random: np.random.Generator, count: int, side: int) -> tuple[Array, Array, Array]:
    """Pictures with one to three shapes over a shaded, noisy ground; the class of every pixel, and of the largest."""
    down, right = np.mgrid[:side, :side] / side
    made, masks, largest = np.zeros((count, 3, side, side)), np.zeros((count, side, side), np.int64), np.zeros(count)
    for k in range(count):
        tilt, ground = random.normal(0, 0.5, 2), random.uniform(0, 1, 3)
        made[k] = ground[:, None, None] + tilt[0] * down + tilt[1] * right
        sizes = np.sort(random.uniform(0.08, 0.3, random.integers(1, 4)))
        for size in sizes:
            kind, (y, x) = random.integers(1, SHAPES + 1), random.uniform(0.2, 0.8, 2)
            dy, dx = np.abs(down - y), np.abs(right - x)
            inside = {1: np.hypot(dy, dx) < size, 2: np.maximum(dy, dx) < 0.85 * size,
                      3: (np.minimum(dy, dx) < 0.3 * size) & (np.maximum(dy, dx) < size)}[int(kind)]  # fmt: skip
            made[k] = np.where(inside, random.uniform(0, 1, 3)[:, None, None], made[k])
            masks[k], largest[k] = np.where(inside, kind, masks[k]), kind
        made[k] = made[k] * random.lognormal(0, 0.3) + random.normal(0, random.uniform(0.02, 0.12), made[k].shape)
    return (2 * made - 1).astype(np.float32), masks, largest.astype(np.int64) - 1


def segmented(side: int) -> Callable[[np.random.Generator, int], Drawn]:
    return lambda random, count: pictures(random, count, side)[:2]


def classified(side: int) -> Callable[[np.random.Generator, int], Drawn]:
    return lambda random, count: pictures(random, count, side)[::2]


WORDS, RATE_HZ, WINDOW = 8, 4000, 256


def spectra(random: np.random.Generator, labels: Array, frames: int, bands: int) -> Array:
    """Logarithms of energy by frame and band: each word is a path of pitch, with overtones, in noise."""
    paths = np.random.default_rng(7).uniform(200, 900, (WORDS, 4))
    time, found = np.arange(RATE_HZ) / RATE_HZ, np.zeros((len(labels), frames, bands))
    for k, label in enumerate(labels):
        length, start = random.uniform(0.5, 0.75), random.uniform(0.0, 0.25)
        inside = np.clip((time - start) / length, 0, 1)
        pitch = np.cumsum(np.interp(inside * 3, np.arange(4), paths[label] * random.uniform(0.9, 1.1))) / RATE_HZ
        tone = sum(np.sin(2 * np.pi * pitch * n) * random.uniform(0.3, 1) / n for n in (1, 2, 3))
        loud = random.lognormal(0, 0.7) * ((inside > 0) & (inside < 1))
        sound = loud * tone + random.normal(0, random.uniform(0.05, 0.6), RATE_HZ)
        parts = np.lib.stride_tricks.sliding_window_view(sound, WINDOW)[:: (RATE_HZ - WINDOW) // (frames - 1)][:frames]
        energy = np.square(np.abs(np.fft.rfft(parts * np.hanning(WINDOW), axis=1)))[:, : WINDOW // 2 // bands * bands]
        found[k] = np.log(energy.reshape(frames, bands, -1).mean(2) + 1e-3)
    return found.astype(np.float32)


def keywords(random: np.random.Generator, count: int) -> Drawn:
    labels = random.integers(0, WORDS, count)
    return spectra(random, labels, 49, 16)[:, None], labels


def events(random: np.random.Generator, count: int) -> Drawn:
    """Two words at once: which of all are heard."""
    both = random.integers(0, WORDS, (2, count))
    mixed = np.logaddexp(*(spectra(random, labels, 48, 32) for labels in both))
    heard = np.zeros((count, WORDS), np.float32)
    for labels in both:
        heard[np.arange(count), labels] = 1
    return np.ascontiguousarray(mixed.transpose(0, 2, 1))[:, None], heard


def machine(random: np.random.Generator, count: int) -> Drawn:
    """Five frames of 64 bands of a machine that turns at some speed, worn more or less: the network gives them back."""
    bands, found = np.arange(64), np.zeros((count, 5, 64))
    for k in range(count):
        speed, worn = random.uniform(4, 9), random.exponential(0.5)
        lines = sum(np.exp(-np.square(bands - speed * n) / 2) / n for n in range(1, 7))
        power = random.lognormal(0, 0.6) * lines + worn * np.exp(-np.square((bands - 48) / 8))
        found[k] = np.log(power * random.gamma(8, 1 / 8, (5, 64)) + 0.01)
    flat = found.reshape(count, 320).astype(np.float32)
    return flat, flat


# -------------------------------------------------------------------------------------------------------------- modules


class UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down = nn.ModuleList(nn.Sequential(conv_norm(a, b), conv_norm(b, b)) for a, b in ((3, 12), (12, 20)))
        self.bottom = nn.Sequential(conv_norm(20, 32), conv_norm(32, 32))
        self.up = nn.ModuleList([nn.ConvTranspose2d(32, 20, 2, 2), nn.ConvTranspose2d(20, 12, 2, 2)])
        self.join = nn.ModuleList([conv_norm(40, 20), conv_norm(24, 12)])
        self.mask = nn.Conv2d(12, SHAPES + 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        kept = []
        for block in self.down:
            kept.append(block(x))
            x = F.max_pool2d(kept[-1], 2)
        x = self.bottom(x)
        for up, join in zip(self.up, self.join, strict=True):
            x = join(torch.cat([up(x), kept.pop()], 1))
        return self.mask(x)


class Atrous(nn.Module):
    """Inverted residuals with hard-swish, and dilated convolutions side by side before the mask, as in DeepLab."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(conv_norm(3, 16, 3, 2, act=nn.Hardswish), InvertedResidual(16, 24, 2, 3))
        self.deep = nn.Sequential(InvertedResidual(24, 24, 1, 3), InvertedResidual(24, 24, 1, 3))
        self.wide = nn.ModuleList(nn.Conv2d(24, 16, 3, padding=apart, dilation=apart) for apart in (1, 2, 4))
        self.mask = nn.Sequential(conv_norm(48, 32, 1, act=nn.Hardswish), nn.Conv2d(32, SHAPES + 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        x = self.deep(self.stem(x))
        mask = self.mask(torch.cat([F.relu(one(x)) for one in self.wide], 1))
        return F.interpolate(mask, scale_factor=4, mode="bilinear", align_corners=False)


class Keyword(nn.Module):
    """Depthwise separable convolutions over a spectrogram."""

    def __init__(self) -> None:
        super().__init__()
        blocks = (nn.Sequential(conv_norm(32, 32, 3, groups=32), conv_norm(32, 32, 1)) for _ in range(4))
        self.inner = nn.Sequential(conv_norm(1, 32, 5, 2), *blocks)
        self.fc = nn.Linear(32, WORDS)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(self.inner(x).mean((2, 3)))


class Events(nn.Module):
    """SiLU, squeeze and excitation, and a score by sigmoid for every event."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = conv_norm(1, 16, 3, 2, act=nn.SiLU)
        self.blocks = nn.ModuleList([conv_norm(16, 24, 3, 2, act=nn.SiLU), conv_norm(24, 32, 3, 2, act=nn.SiLU)])
        self.squeeze = nn.ModuleList([Squeeze(24), Squeeze(32)])
        self.fc = nn.Linear(32, WORDS)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        for block, squeeze in zip(self.blocks, self.squeeze, strict=True):
            x = squeeze(block(x))
        return self.fc(x.mean((2, 3))).sigmoid()


class Vit(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patches, self.norm = nn.Conv2d(3, 48, 4, 4), nn.LayerNorm(48)
        self.place = nn.Parameter(torch.randn(1, 64, 48) * 0.02)
        self.layers = nn.Sequential(*(EncoderLayer(48, 3) for _ in range(3)))
        self.fc = nn.Linear(48, SHAPES)

    def forward(self, x: Tensor) -> Tensor:
        tokens = self.patches(x).flatten(2).transpose(1, 2) + self.place
        return self.fc(self.norm(self.layers(tokens)).mean(1))


class Mixed(nn.Module):
    def __init__(self, tokens: int, width: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.across = nn.Sequential(nn.Linear(tokens, 64), nn.GELU(), nn.Linear(64, tokens))
        self.along = nn.Sequential(nn.Linear(width, 96), nn.GELU(), nn.Linear(96, width))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.across(self.norm1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.along(self.norm2(x))


class Mixer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patches, self.norm = nn.Conv2d(3, 48, 4, 4), nn.LayerNorm(48)
        self.layers, self.fc = nn.Sequential(*(Mixed(64, 48) for _ in range(3))), nn.Linear(48, SHAPES)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(self.norm(self.layers(self.patches(x).flatten(2).transpose(1, 2))).mean(1))


class Residual(nn.Module):
    def __init__(self, inputs: int, outputs: int, step: int) -> None:
        super().__init__()
        self.one, self.two = conv_norm(inputs, outputs, 3, step), conv_norm(outputs, outputs, act=None)
        self.down = conv_norm(inputs, outputs, 1, step, act=None) if step > 1 else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.two(self.one(x)) + self.down(x))


class ResNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        plan = ((16, 16, 1), (16, 24, 2), (24, 24, 1), (24, 40, 2), (40, 40, 1))
        self.inner = nn.Sequential(conv_norm(3, 16), *(Residual(*row) for row in plan))
        self.fc = nn.Linear(40, SHAPES)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(self.inner(x).mean((2, 3)))


def named(what: str, module: Any, draw: Any, loss: Any = F.cross_entropy, **more: int) -> Case:
    return Case(what, module, draw, loss, **more)


CASES = {
    "unet": named("U-Net, 48x48, four classes by pixel", UNet, segmented(48), held=100),
    "atrous": named("segmenter, hard-swish, dilated, 64x64", Atrous, segmented(64), held=100),
    "keyword": named("DS-CNN, 49x16 log energies, eight words", Keyword, keywords),
    "events": named("SiLU and squeeze-excitation, two sounds at once", Events, events, F.binary_cross_entropy),
    "vit": named("ViT, 32x32, three layers of 48", Vit, classified(32), held=150),
    "mixer": named("MLP-Mixer, 32x32, three layers of 48", Mixer, classified(32), held=150),
    "resnet": named("ResNet of 11 layers, 32x32", ResNet, classified(32)),
    "autoencoder": named("dense autoencoder, 5 x 64 log energies", Autoencoder, machine, F.mse_loss, steps=1500),
}
