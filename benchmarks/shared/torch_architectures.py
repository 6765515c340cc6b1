"""Six architectures that a training graph has to answer for as the chip does, small enough to train in half a minute on
one core: figures in noise, as a class of the picture or as a class of every pixel."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

SIZE, CLASSES, LEARN, HELD, NOISE = 24, 8, 768, 500, 0.2


def norm_conv(
    inputs: int, outputs: int, kernel: int = 3, stride: int = 1, groups: int = 1, act: type[nn.Module] | None = nn.ReLU
) -> nn.Sequential:
    conv = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(outputs), *([act()] if act else []))


class Residual(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.one, self.two = norm_conv(inputs, outputs, 3, stride), norm_conv(outputs, outputs, act=None)
        self.short = nn.Identity() if stride == 1 else norm_conv(inputs, outputs, 1, stride, act=None)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.two(self.one(x)) + self.short(x))


class ResNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = norm_conv(3, 16)
        self.body = nn.Sequential(Residual(16, 16, 1), Residual(16, 32, 2), Residual(32, 48, 2))
        self.head = nn.Linear(48, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(F.adaptive_avg_pool2d(self.body(self.stem(x)), 1).flatten(1))


class DepthwiseSeparable(nn.Module):
    """DS-CNN; its softmax is part of the network."""

    def __init__(self) -> None:
        super().__init__()
        blocks = [(24, 1), (32, 2), (32, 1)]
        self.stem, parts, before = norm_conv(3, 24, 5, 2), [], 24
        for after, stride in blocks:
            parts += [norm_conv(before, before, 3, stride, before), norm_conv(before, after, 1)]
            before = after
        self.body, self.pool, self.head = nn.Sequential(*parts), nn.AvgPool2d(SIZE // 4), nn.Linear(before, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.pool(self.body(self.stem(x))).flatten(1)).softmax(1)


class Inverted(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        wide = 4 * inputs
        self.keeps = stride == 1 and inputs == outputs
        self.body = nn.Sequential(
            norm_conv(inputs, wide, 1, act=nn.ReLU6),
            norm_conv(wide, wide, 3, stride, wide, nn.ReLU6),
            norm_conv(wide, outputs, 1, act=None),
        )

    def forward(self, x: Tensor) -> Tensor:
        return x + self.body(x) if self.keeps else self.body(x)


class MobileNet(nn.Module):
    """Like version 2."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            norm_conv(3, 16, 3, 2, act=nn.ReLU6), Inverted(16, 16, 1), Inverted(16, 24, 2), Inverted(24, 24, 1)
        )
        self.last, self.head = norm_conv(24, 64, 1, act=nn.ReLU6), nn.Linear(64, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.last(self.body(x)).mean((2, 3)))


class UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.deep = norm_conv(3, 12), norm_conv(12, 24), norm_conv(24, 32)
        self.up = nn.ConvTranspose2d(32, 24, 2, 2)
        self.third, self.fourth, self.head = norm_conv(48, 24), norm_conv(36, 16), nn.Conv2d(16, CLASSES + 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        one = self.first(x)
        two = self.second(F.max_pool2d(one, 2))
        deep = self.deep(F.max_pool2d(two, 2))
        three = self.third(torch.cat([F.relu(self.up(deep)), two], 1))
        bigger = F.interpolate(three, scale_factor=2.0, mode="bilinear", align_corners=False)
        return self.head(self.fourth(torch.cat([bigger, one], 1)))


class Mixer(nn.Module):
    """Patches mixed along places and along channels, with GELU and layer norms."""

    def __init__(self, places: int = (SIZE // 4) ** 2, channels: int = 32, blocks: int = 2) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, channels, 4, 4)
        self.norms = nn.ModuleList(nn.LayerNorm(channels) for _ in range(2 * blocks + 1))
        self.along = nn.ModuleList(self._pair(places, 48) for _ in range(blocks))
        self.across = nn.ModuleList(self._pair(channels, 64) for _ in range(blocks))
        self.head = nn.Linear(channels, CLASSES)

    @staticmethod
    def _pair(size: int, inner: int) -> nn.Sequential:
        return nn.Sequential(nn.Linear(size, inner), nn.GELU(), nn.Linear(inner, size))

    def forward(self, x: Tensor) -> Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2)
        for k, (along, across) in enumerate(zip(self.along, self.across, strict=True)):
            x = x + along(self.norms[2 * k](x).transpose(1, 2)).transpose(1, 2)
            x = x + across(self.norms[2 * k + 1](x))
        return self.head(self.norms[-1](x).mean(1))


class Swish(nn.Module):
    """SiLU and hard-swish, joins of two branches, and channels that are weighted by their means."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.left, self.right = norm_conv(3, 16, 3, 2, act=nn.SiLU), norm_conv(16, 16, 1, act=nn.SiLU), None
        self.right = nn.Sequential(norm_conv(16, 16, act=nn.Hardswish), norm_conv(16, 16, act=nn.SiLU))
        self.squeeze, self.excite = nn.Conv2d(32, 8, 1), nn.Conv2d(8, 32, 1)
        self.last, self.head = norm_conv(32, 48, 3, 2, act=nn.Hardswish), nn.Linear(48, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        x = torch.cat([self.left(x), self.right(x)], 1)
        x = x * F.hardsigmoid(self.excite(F.silu(self.squeeze(x.mean((2, 3), keepdim=True)))))
        return self.head(self.last(x).mean((2, 3)))


ARCHITECTURES = {
    "ResNet": ResNet,
    "DS-CNN": DepthwiseSeparable,
    "MobileNetV2-like": MobileNet,
    "U-Net": UNet,
    "Mixer": Mixer,
    "SiLU, hard-swish, joins": Swish,
}


def pictures(seed: int, by_pixel: bool) -> tuple[Tensor, Tensor]:
    """A figure of one of eight kinds anywhere in noise; what it is, or where it is."""
    random = np.random.default_rng(seed)
    count = LEARN + HELD
    kinds, y, x = random.integers(0, CLASSES, count), *np.mgrid[-1 : 1 : SIZE * 1j, -1 : 1 : SIZE * 1j]
    masks = np.stack([_figure(int(kind), y, x, random) for kind in kinds])
    colours = random.uniform(0.5, 1.5, (count, 3, 1, 1)) * random.choice((-1, 1), (count, 3, 1, 1))
    found = masks[:, None] * colours + random.normal(0, NOISE, (count, 3, SIZE, SIZE))
    labels = np.where(masks, kinds[:, None, None] + 1, 0) if by_pixel else kinds
    return torch.tensor(found, dtype=torch.float32), torch.tensor(labels)


def _figure(kind: int, y: np.ndarray, x: np.ndarray, random: np.random.Generator) -> np.ndarray:
    v, h = y - random.uniform(-0.3, 0.3), x - random.uniform(-0.3, 0.3)
    size, radius = random.uniform(0.35, 0.65), np.hypot(v, h)
    square = np.maximum(np.abs(v), np.abs(h))
    return (
        radius < size, (radius < size) & (radius > 0.6 * size), square < size, (square < size) & (square > 0.6 * size),
        (np.abs(v) < 0.2) & (np.abs(h) < size), (np.abs(h) < 0.2) & (np.abs(v) < size),
        np.minimum(np.abs(v), np.abs(h)) + 0.5 * (square > size) < 0.15, (np.abs(v) + np.abs(h)) < size,
    )[kind]  # fmt: skip


def made(name: str, epochs: int, seed: int = 1) -> tuple[nn.Module, Tensor, Tensor, Tensor]:
    """The float module after so many epochs, what it learnt from, and held pictures with their labels; norms have seen
    pictures in any case."""
    torch.manual_seed(seed)
    module = ARCHITECTURES[name]().train()
    images, labels = pictures(seed, name == "U-Net")
    optimiser = torch.optim.Adam(module.parameters(), lr=3e-3)
    for _ in range(epochs):
        for some in torch.randperm(LEARN).split(32):
            answer = module(images[some])
            loss = F.nll_loss(answer.clamp_min(1e-9).log(), labels[some]) if name == "DS-CNN" else \
                F.cross_entropy(answer, labels[some])  # fmt: skip
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    with torch.no_grad():
        for _ in range(0 if epochs else 20):
            module(images[:LEARN:4])
    return module.eval(), images[:LEARN], images[LEARN:], labels[LEARN:]
