"""Ten small PyTorch modules of the kinds that people bring to this chip, with an input for each; weights by seed."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F


def conv_norm(inputs: int, outputs: int, size: int = 3, step: int = 1, groups: int = 1, act: Any = nn.ReLU) -> Any:
    layers = [nn.Conv2d(inputs, outputs, size, step, size // 2, groups=groups, bias=False), nn.BatchNorm2d(outputs)]
    return nn.Sequential(*layers, *([act()] if act else []))


class InvertedResidual(nn.Module):
    def __init__(self, inputs: int, outputs: int, step: int, wider: int) -> None:
        super().__init__()
        inner = inputs * wider
        self.expand = conv_norm(inputs, inner, 1, act=nn.ReLU6)
        self.depthwise = conv_norm(inner, inner, 3, step, groups=inner, act=nn.ReLU6)
        self.project = conv_norm(inner, outputs, 1, act=None)
        self.same = step == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        y = self.project(self.depthwise(self.expand(x)))
        return x + y if self.same else y


class MobileNetLike(nn.Module):
    """Inverted residuals with ReLU6, as MobileNetV2."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = conv_norm(3, 16, 3, 2, act=nn.ReLU6)
        plan = [(16, 16, 1, 2), (16, 24, 2, 4), (24, 24, 1, 4), (24, 32, 2, 4), (32, 32, 1, 4)]
        self.blocks = nn.Sequential(*(InvertedResidual(*row) for row in plan))
        self.head = conv_norm(32, 96, 1, act=nn.ReLU6)
        self.classifier = nn.Linear(96, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.head(self.blocks(self.stem(x))).mean((2, 3)))


class Basic(nn.Module):
    def __init__(self, inputs: int, outputs: int, step: int) -> None:
        super().__init__()
        self.conv1, self.conv2 = conv_norm(inputs, outputs, 3, step), conv_norm(outputs, outputs, act=None)
        self.down = conv_norm(inputs, outputs, 1, step, act=None) if step > 1 or inputs != outputs else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.conv2(self.conv1(x)) + self.down(x))


class ResNetLike(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem, self.pool = conv_norm(3, 16, 3, 2), nn.MaxPool2d(2)
        self.layer1, self.layer2 = Basic(16, 16, 1), nn.Sequential(Basic(16, 32, 2), Basic(32, 32, 1))
        self.average, self.fc = nn.AdaptiveAvgPool2d(1), nn.Linear(32, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(self.average(self.layer2(self.layer1(self.pool(self.stem(x))))).flatten(1))


class UNetLike(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down1, self.down2, self.bottom = conv_norm(3, 16), conv_norm(16, 24), conv_norm(24, 32)
        self.up2, self.join2 = nn.ConvTranspose2d(32, 24, 2, 2), conv_norm(48, 24)
        self.up1, self.join1 = nn.Upsample(scale_factor=2), conv_norm(40, 16)
        self.mask = nn.Conv2d(16, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        one = self.down1(x)
        two = self.down2(F.max_pool2d(one, 2))
        deep = self.up2(self.bottom(F.max_pool2d(two, 2)))
        two = self.join2(torch.cat([two, deep], 1))
        return self.mask(self.join1(torch.cat([one, self.up1(two)], 1)))


class DsCnn(nn.Module):
    """Depthwise separable convolutions over a spectrogram, as keyword spotters have them."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = conv_norm(1, 32, 3, 2)
        self.blocks = nn.Sequential(
            *(nn.Sequential(conv_norm(32, 32, 3, groups=32), conv_norm(32, 32, 1)) for _ in range(3))
        )
        self.fc = nn.Linear(32, 12)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(F.avg_pool2d(self.blocks(self.stem(x)), (25, 5)).flatten(1))


class EncoderLayer(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn = nn.MultiheadAttention(width, heads, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm1(x)
        x = x + self.attn(y, y, y, need_weights=False)[0]
        return x + self.mlp(self.norm2(x))


class TransformerLike(nn.Module):
    """Patches, two layers of an encoder, and classes."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 32, 8, 8)
        self.place = nn.Parameter(torch.randn(1, 16, 32) * 0.02)
        self.layers = nn.Sequential(EncoderLayer(32, 2), EncoderLayer(32, 2))
        self.fc = nn.Linear(32, 10)

    def forward(self, x: Tensor) -> Tensor:
        tokens = self.patches(x).flatten(2).transpose(1, 2) + self.place
        return self.fc(self.layers(tokens).mean(1))


class DetectorLike(nn.Module):
    """A pyramid of two sizes with boxes and scores by sigmoid, SiLU inside."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(conv_norm(3, 16, 3, 2, act=nn.SiLU), conv_norm(16, 24, 3, 2, act=nn.SiLU))
        self.deep, self.lateral = conv_norm(24, 32, 3, 2, act=nn.SiLU), conv_norm(56, 24, 1, act=nn.SiLU)
        self.boxes = nn.ModuleList([nn.Conv2d(24, 4, 1), nn.Conv2d(32, 4, 1)])
        self.scores = nn.ModuleList([nn.Conv2d(24, 3, 1), nn.Conv2d(32, 3, 1)])

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        fine = self.stem(x)
        deep = self.deep(fine)
        fine = self.lateral(torch.cat([fine, F.interpolate(deep, scale_factor=2)], 1))
        boxes = [head(y).flatten(2) for head, y in zip(self.boxes, (fine, deep), strict=True)]
        scores = [head(y).flatten(2) for head, y in zip(self.scores, (fine, deep), strict=True)]
        return torch.cat(boxes, 2), torch.cat(scores, 2).sigmoid()


class Autoencoder(nn.Module):
    """Dense layers, as for anomalies in machine sound."""

    def __init__(self) -> None:
        super().__init__()
        sizes = [320, 64, 64, 8, 64, 64]
        self.inner = nn.Sequential(
            *(nn.Sequential(nn.Linear(a, b), nn.BatchNorm1d(b), nn.ReLU()) for a, b in pairwise(sizes))
        )
        self.last = nn.Linear(64, 320)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.inner(x))


class TemporalBlock(nn.Module):
    def __init__(self, inputs: int, outputs: int, apart: int) -> None:
        super().__init__()
        self.conv = nn.Conv1d(inputs, outputs, 3, padding=apart, dilation=apart)
        self.norm, self.skip = nn.BatchNorm1d(outputs), nn.Conv1d(inputs, outputs, 1)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.norm(self.conv(x)) + self.skip(x))


class Tcn(nn.Module):
    """Dilated convolutions over time: six channels of an inertial sensor."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.Sequential(TemporalBlock(6, 24, 1), TemporalBlock(24, 24, 2), TemporalBlock(24, 24, 4))
        self.fc = nn.Linear(24, 6)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(self.blocks(x).mean(2))


class Squeeze(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.reduce, self.grow = nn.Conv2d(channels, channels // 4, 1), nn.Conv2d(channels // 4, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        return x * F.hardsigmoid(self.grow(F.relu(self.reduce(F.adaptive_avg_pool2d(x, 1)))))


class ShuffleSqueeze(nn.Module):
    """Half of the channels through each block, shuffled behind it, with squeeze and excitation and hard-swish."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = conv_norm(3, 24, 3, 2, act=nn.Hardswish)
        self.branches = nn.ModuleList(
            nn.Sequential(conv_norm(12, 12, 3, groups=12, act=nn.Hardswish), Squeeze(12), conv_norm(12, 12, 1))
            for _ in range(3)
        )
        self.fc = nn.Linear(24, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        for branch in self.branches:
            left, right = x.chunk(2, 1)
            x = F.channel_shuffle(torch.cat([left, branch(right)], 1), 2)
        return self.fc(x.mean((2, 3)))


class KeywordGated(nn.Module):
    """Gated convolutions over time in place of a recurrent layer: a keyword spotter without GRU."""

    def __init__(self) -> None:
        super().__init__()
        self.values = nn.ModuleList([nn.Conv1d(40, 32, 3, padding=1), nn.Conv1d(32, 32, 3, padding=1)])
        self.gates = nn.ModuleList([nn.Conv1d(40, 32, 3, padding=1), nn.Conv1d(32, 32, 3, padding=1)])
        self.fc = nn.Linear(32, 12)

    def forward(self, x: Tensor) -> Tensor:
        for value, gate in zip(self.values, self.gates, strict=True):
            x = torch.tanh(value(x)) * torch.sigmoid(gate(x))
        return self.fc(F.max_pool1d(x, 2).mean(2))


MODULES: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "MobileNetV2-like": (MobileNetLike, (1, 3, 48, 48)),
    "ResNet": (ResNetLike, (1, 3, 48, 48)),
    "U-Net": (UNetLike, (1, 3, 32, 32)),
    "DS-CNN": (DsCnn, (1, 1, 49, 10)),
    "transformer encoder": (TransformerLike, (1, 3, 32, 32)),
    "detector with pyramid": (DetectorLike, (1, 3, 64, 64)),
    "dense autoencoder": (Autoencoder, (1, 320)),
    "TCN (1-D, dilated)": (Tcn, (1, 6, 64)),
    "ShuffleNet with SE": (ShuffleSqueeze, (1, 3, 32, 32)),
    "gated keyword (no GRU)": (KeywordGated, (1, 40, 32)),
}


def made(name: str, seed: int = 0) -> tuple[nn.Module, Tensor]:
    """The module with weights and statistics of its norms as if it had seen data, and an example."""
    kind, shape = MODULES[name]
    torch.manual_seed(seed)
    module = kind()
    module.train()
    with torch.no_grad():
        for _ in range(8):  # norms learn what comes in
            module(torch.randn(16, *shape[1:]))
    return module.eval(), torch.randn(shape)
