"""Four small detectors with different heads, trained within a minute or two on made pictures, and six ways in which
exporters put suppression behind them.

A head gives for each of its places (points or anchors) four numbers of a box and a score for each class. How places get
their boxes differs as it does between the published families; so do the joins at the end: YOLO and CenterNet give one
tensor with boxes in pixels and scores below 1, SSD and RetinaNet give two.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.shared.torch_modules import conv_norm

Array = np.ndarray
SIDE, CLASSES, OPSET = 64, 3, 17  # discs, squares, crosses
LEARN, BATCH, RATE = 1024, 32, 3e-3
NEAR, FAR = 0.5, 0.4  # overlap of an anchor with a box from which on it is one's, and below which it is nobody's
Box = tuple[int, float, float, float, float]  # class, corners in pixels


def scenes(random: np.random.Generator, count: int) -> tuple[Array, list[list[Box]]]:
    """One to three shapes over a shaded, noisy ground, and the boxes around them; none hides another."""
    down, right = np.mgrid[:SIDE, :SIDE] + 0.5
    made, boxes = np.zeros((count, 3, SIDE, SIDE), np.float32), list[list[Box]]()
    for k in range(count):
        tilt, ground = random.normal(0, 0.3, 2) / SIDE, random.uniform(0, 1, 3)
        picture = ground[:, None, None] + tilt[0] * down + tilt[1] * right
        found = list[Box]()
        for _ in range(random.integers(1, 4)):
            half, kind = random.uniform(5, 15), int(random.integers(CLASSES))
            y, x = random.uniform(half, SIDE - half, 2)
            if any(abs(x - (b[1] + b[3]) / 2) < half + (b[3] - b[1]) / 2
                   and abs(y - (b[2] + b[4]) / 2) < half + (b[4] - b[2]) / 2 for b in found):  # fmt: skip
                continue
            dy, dx = np.abs(down - y), np.abs(right - x)
            inside = (np.hypot(dy, dx) < half, np.maximum(dy, dx) < half,
                      (np.minimum(dy, dx) < 0.35 * half) & (np.maximum(dy, dx) < half))[kind]  # fmt: skip
            colour = (ground + random.choice([-1, 1]) * random.uniform(0.4, 1, 3))[:, None, None]
            picture = np.where(inside, colour, picture)
            found.append((kind, x - half, y - half, x + half, y + half))
        made[k] = picture * random.lognormal(0, 0.2) + random.normal(0, random.uniform(0.02, 0.1), picture.shape)
        boxes.append(found)
    return 2 * made - 1, boxes


def padded(boxes: list[list[Box]], most: int = 3) -> Tensor:
    """Rows of class and corners; class -1 where there is none."""
    return torch.tensor([[*found, *[(-1, 0, 0, 0, 0)] * (most - len(found))] for found in boxes], dtype=torch.float32)


# ---------------------------------------------------------------------------------------------------------------- heads


def overlap(one: Tensor, other: Tensor) -> Tensor:
    """Intersection over union of all pairs of corners."""
    low, high = torch.maximum(one[..., None, :2], other[..., None, :, :2]), torch.minimum(
        one[..., None, 2:], other[..., None, :, 2:])  # fmt: skip
    inter = (high - low).clamp(min=0).prod(-1)
    areas = [(some[..., 2:] - some[..., :2]).clamp(min=0).prod(-1) for some in (one, other)]
    return inter / (areas[0][..., None] + areas[1][..., None, :] - inter + 1e-9)


def points(*strides: int) -> Tensor:
    """x, y and stride of the middle of each cell."""
    rows = []
    for stride in strides:
        at = torch.arange(SIDE // stride) * stride + stride / 2
        y, x = torch.meshgrid(at, at, indexing="ij")
        rows.append(torch.stack([x.flatten(), y.flatten(), torch.full((x.numel(),), float(stride))], 1))
    return torch.cat(rows)


def anchors(strides: Sequence[int], sizes: Sequence[Sequence[float]]) -> Tensor:
    """Centre, width and height; all sizes of a cell behind each other."""
    rows = []
    for stride, own in zip(strides, sizes, strict=True):
        cells = points(stride)
        sides = torch.tensor(own)[None, :, None].expand(len(cells), -1, 2)
        rows.append(torch.cat([cells[:, None, :2].expand(-1, len(own), -1), sides], 2).reshape(-1, 4))
    return torch.cat(rows)


class Backbone(nn.Module):
    """Maps of strides 4, 8 and 16."""

    def __init__(self, act: Any = nn.ReLU) -> None:
        super().__init__()
        self.stem = nn.Sequential(conv_norm(3, 16, 3, 2, act=act), conv_norm(16, 24, 3, 2, act=act))
        self.deep = nn.Sequential(conv_norm(24, 40, 3, 2, act=act), conv_norm(40, 40, act=act))
        self.last = nn.Sequential(conv_norm(40, 56, 3, 2, act=act), conv_norm(56, 56, act=act))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        four = self.stem(x)
        eight = self.deep(four)
        return four, eight, self.last(eight)


class Head(nn.Module):
    """What training needs of all: raw numbers by place and the loss; `forward` is what is exported."""

    def raw(self, x: Tensor) -> tuple[Tensor, Tensor]:
        raise NotImplementedError

    def loss(self, x: Tensor, truth: Tensor) -> Tensor:
        boxes, scores = self.raw(x)
        with torch.no_grad():
            owner, place = self.owners(truth)
            own = torch.gather(truth, 1, owner.clamp(min=0)[..., None].expand(-1, -1, 5))
            classes = F.one_hot(own[..., 0].long().clamp(min=0), CLASSES) * (owner >= 0)[..., None]
        found = owner >= 0
        count = found.sum().clamp(min=1)
        chance = scores.sigmoid()
        focus = torch.where(classes > 0, 0.25 * 4 * (1 - chance) ** 2, chance**2) * (place[..., None] >= 0)
        wrong = F.binary_cross_entropy_with_logits(scores, classes.float(), reduction="none")
        return (focus * wrong).sum() / count + self.distance(boxes, own[..., 1:])[found].sum() / count

    def owners(self, truth: Tensor) -> tuple[Tensor, Tensor]:
        """The box of each place, -1 for none; and -1 for places that do not count."""
        raise NotImplementedError

    def distance(self, boxes: Tensor, truth: Tensor) -> Tensor:
        raise NotImplementedError


class Anchored(Head):
    """Numbers are offsets from anchors, a tenth and a fifth of their sizes."""

    places: Tensor

    def owners(self, truth: Tensor) -> tuple[Tensor, Tensor]:
        half = self.places[:, 2:] / 2
        corners = torch.cat([self.places[:, :2] - half, self.places[:, :2] + half], 1)
        over = overlap(corners[None], truth[..., 1:]) * (truth[:, None, :, 0] >= 0)
        best, owner = over.max(2)
        top = over.max(1).values[:, None, :]
        forced = ((over == top) & (over > 0.1)).float().max(2)
        owner = torch.where(forced.values > 0, forced.indices, torch.where(best >= NEAR, owner, -1))
        return owner, torch.where((owner < 0) & (best > FAR), -1, 0)

    def distance(self, boxes: Tensor, truth: Tensor) -> Tensor:
        middle, size = (truth[..., :2] + truth[..., 2:]) / 2, (truth[..., 2:] - truth[..., :2]).clamp(min=1)
        wanted = torch.cat([(middle - self.places[:, :2]) / self.places[:, 2:] / 0.1,
                            torch.log(size / self.places[:, 2:]) / 0.2], 2)  # fmt: skip
        return F.smooth_l1_loss(boxes, wanted, reduction="none").mean(-1)

    def decoded(self, boxes: Tensor) -> Tensor:
        middle = self.places[:, :2] + 0.1 * boxes[..., :2] * self.places[:, 2:]
        half = torch.exp(0.2 * boxes[..., 2:]) * self.places[:, 2:] / 2
        return torch.cat([middle - half, middle + half], -1)


class Ssd(Anchored):
    """Two maps with a layer for offsets and one for scores each; softmax with the background first."""

    def __init__(self) -> None:
        super().__init__()
        sizes = ((10.0, 14.0), (20.0, 28.0))
        self.backbone = Backbone()
        self.where = nn.ModuleList(nn.Conv2d(width, 4 * 2, 3, padding=1) for width in (40, 56))
        self.what = nn.ModuleList(nn.Conv2d(width, (1 + CLASSES) * 2, 3, padding=1) for width in (40, 56))
        self.register_buffer("places", anchors((8, 16), sizes))

    def raw(self, x: Tensor) -> tuple[Tensor, Tensor]:
        maps, made = self.backbone(x)[1:], []
        for own, values in ((self.where, 4), (self.what, 1 + CLASSES)):
            grids = [layer(one).permute(0, 2, 3, 1) for layer, one in zip(own, maps, strict=True)]
            made.append(torch.cat([grid.reshape(len(x), -1, values) for grid in grids], 1))
        return made[0], made[1]

    def loss(self, x: Tensor, truth: Tensor) -> Tensor:
        boxes, scores = self.raw(x)
        with torch.no_grad():
            owner, place = self.owners(truth)
            own = torch.gather(truth, 1, owner.clamp(min=0)[..., None].expand(-1, -1, 5))
        found = owner >= 0
        labels = torch.where(found, own[..., 0].long() + 1, 0)
        wrong = F.cross_entropy(scores.flatten(0, 1), labels.flatten(), reduction="none").reshape(labels.shape)
        wrong = wrong * (place >= 0)
        hardest = wrong.masked_fill(found, 0).flatten().topk(int(3 * found.sum().clamp(min=8))).values.sum()
        count = found.sum().clamp(min=1)
        return (wrong[found].sum() + hardest + 2 * self.distance(boxes, own[..., 1:])[found].sum()) / count

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        boxes, scores = self.raw(x)
        return self.decoded(boxes), scores.softmax(2)[..., 1:].transpose(1, 2)


class Retina(Anchored):
    """Maps of a pyramid share their head; sigmoid."""

    def __init__(self) -> None:
        super().__init__()
        self.backbone = Backbone()
        self.side = nn.ModuleList(nn.Conv2d(width, 40, 1) for width in (40, 56))
        self.where = nn.Sequential(conv_norm(40, 40), nn.Conv2d(40, 4 * 2, 3, padding=1))
        self.what = nn.Sequential(conv_norm(40, 40), nn.Conv2d(40, CLASSES * 2, 3, padding=1))
        nn.init.constant_(self.what[1].bias, -3.0)
        self.register_buffer("places", anchors((8, 16), ((10.0, 14.0), (20.0, 28.0))))

    def raw(self, x: Tensor) -> tuple[Tensor, Tensor]:
        _, eight, sixteen = self.backbone(x)
        low = self.side[1](sixteen)
        maps = (self.side[0](eight) + F.interpolate(low, scale_factor=2.0, mode="nearest"), low)
        rows = [[layer(one).permute(0, 2, 3, 1).reshape(len(x), -1, values) for one in maps]
                for layer, values in ((self.where, 4), (self.what, CLASSES))]  # fmt: skip
        return torch.cat(rows[0], 1), torch.cat(rows[1], 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        boxes, scores = self.raw(x)
        return self.decoded(boxes), scores.sigmoid().transpose(1, 2)


class Yolo(Head):
    """No anchors: distances to the four sides in strides. Boxes and scores of each map are joined, then the maps; they
    are sliced apart to be decoded, and joined again."""

    def __init__(self) -> None:
        super().__init__()
        self.backbone = Backbone(nn.SiLU)
        self.where = nn.ModuleList(nn.Sequential(conv_norm(w, 32, act=nn.SiLU), nn.Conv2d(32, 4, 1)) for w in (40, 56))
        self.what = nn.ModuleList(
            nn.Sequential(conv_norm(w, 32, act=nn.SiLU), nn.Conv2d(32, CLASSES, 1)) for w in (40, 56)
        )
        for one in self.what:
            nn.init.constant_(one[1].bias, -3.0)
        self.register_buffer("places", points(8, 16))

    def joined(self, x: Tensor) -> Tensor:
        maps = self.backbone(x)[1:]
        layers = zip(self.where, self.what, maps, strict=True)
        both = [torch.cat([where(one), what(one)], 1) for where, what, one in layers]
        return torch.cat([one.reshape(len(x), 4 + CLASSES, -1) for one in both], 2)

    def raw(self, x: Tensor) -> tuple[Tensor, Tensor]:
        boxes, scores = self.joined(x).split((4, CLASSES), 1)
        return boxes.transpose(1, 2), scores.transpose(1, 2)

    def owners(self, truth: Tensor) -> tuple[Tensor, Tensor]:
        x, y, stride = (self.places[:, k, None] for k in range(3))
        corners, size = truth[:, None, :, 1:], truth[:, None, :, 3] - truth[:, None, :, 1]
        away = torch.maximum((x - (corners[..., 0] + corners[..., 2]) / 2).abs(),
                             (y - (corners[..., 1] + corners[..., 3]) / 2).abs())  # fmt: skip
        near = (away < 0.75 * stride) & ((size < 18) == (stride == 8)) & (truth[:, None, :, 0] >= 0)
        best = torch.where(near, away, torch.inf).min(2)
        return torch.where(best.values.isinf(), -1, best.indices), torch.zeros_like(best.indices)

    def distance(self, boxes: Tensor, truth: Tensor) -> Tensor:
        x, y, stride = self.places.T
        sides = torch.stack([x - truth[..., 0], y - truth[..., 1], truth[..., 2] - x, truth[..., 3] - y], 2)
        return 2 * F.smooth_l1_loss(boxes, sides / stride[:, None], beta=0.1, reduction="none").mean(-1)

    def forward(self, x: Tensor) -> Tensor:
        boxes, scores = self.joined(x).split((4, CLASSES), 1)
        at, stride = self.places[:, :2].T, self.places[:, 2]
        low, high = at - boxes[:, :2] * stride, at + boxes[:, 2:] * stride
        return torch.cat([(low + high) / 2, high - low, scores.sigmoid()], 1)


class CenterNet(Head):
    """A heat map of centres, sizes and offsets, joined in one tensor; peaks are what a 3x3 maximum leaves as it is."""

    def __init__(self) -> None:
        super().__init__()
        self.backbone = Backbone()
        self.up = nn.ModuleList([nn.ConvTranspose2d(56, 40, 2, 2), nn.ConvTranspose2d(40, 24, 2, 2)])
        self.heads = nn.ModuleList(
            nn.Sequential(conv_norm(24, 32), nn.Conv2d(32, values, 1)) for values in (CLASSES, 2, 2)
        )
        nn.init.constant_(self.heads[0][1].bias, -3.0)
        self.register_buffer("places", points(4))

    def maps(self, x: Tensor) -> list[Tensor]:
        four, eight, sixteen = self.backbone(x)
        deep = F.relu(self.up[0](sixteen) + eight)
        return [head(F.relu(self.up[1](deep) + four)) for head in self.heads]

    def loss(self, x: Tensor, truth: Tensor) -> Tensor:
        heat, size, offset = (one.flatten(2) for one in self.maps(x))
        middle, sides = (truth[..., 1:3] + truth[..., 3:]) / 2, truth[..., 3:] - truth[..., 1:3]
        real = truth[..., 0] >= 0
        cell = (middle / 4).long().clamp(0, SIDE // 4 - 1)
        place = cell[..., 1] * (SIDE // 4) + cell[..., 0]
        away = (self.places[None, None, :, :2] - self.places[place][..., None, :2]).square().sum(-1)
        spread = (sides[..., :1] / 6).clamp(min=2.0)
        bump = torch.exp(-away / (2 * spread**2)) * real[..., None]
        kinds = F.one_hot(truth[..., 0].long().clamp(min=0), CLASSES).float() * real[..., None]
        wanted = (bump[:, :, None] * kinds[..., None]).max(1).values
        chance = heat.sigmoid().clamp(1e-4, 1 - 1e-4)
        peak = wanted > 0.999
        wrong = torch.where(peak, (1 - chance) ** 2 * chance.log(), (1 - wanted) ** 4 * chance**2 * (1 - chance).log())
        seen = [torch.gather(one, 2, place[:, None].expand(-1, 2, -1)).transpose(1, 2) for one in (size, offset)]
        apart = [seen[0] - sides / 8, seen[1] - (middle / 4 - cell)]
        count = real.sum().clamp(min=1)
        return (-wrong.sum() + sum(one.abs().sum(-1)[real].sum() for one in apart)) / count

    def forward(self, x: Tensor) -> Tensor:
        heat, size, offset = self.maps(x)
        return torch.cat([heat.sigmoid(), 8 * size, offset], 1)


@dataclass(frozen=True)
class Detector:
    what: str
    module: Callable[[], Head]
    steps: int


DETECTORS = {
    "yolo": Detector("anchor-free, joined per map and across maps, SiLU", Yolo, 700),
    "ssd": Detector("anchors, offsets and softmax", Ssd, 700),
    "centernet": Detector("heat map, sizes and offsets joined", CenterNet, 700),
    "retina": Detector("anchors, pyramid with a shared head, sigmoid", Retina, 700),
}


def trained(key: str, file: Path) -> Path:
    """The float network as ONNX, made where there is none yet."""
    if not file.is_file():
        torch.manual_seed(0)
        case = DETECTORS[key]
        pictures, boxes = scenes(np.random.default_rng(100), LEARN)
        inputs, truth, module = torch.from_numpy(pictures), padded(boxes), case.module().train()
        optimiser = torch.optim.AdamW(module.parameters(), RATE)
        falling = torch.optim.lr_scheduler.OneCycleLR(optimiser, 2 * RATE, total_steps=case.steps)
        random = np.random.default_rng(0)
        for step in range(case.steps):
            chosen = torch.as_tensor(random.integers(0, LEARN, BATCH))
            optimiser.zero_grad()
            loss = module.loss(inputs[chosen], truth[chosen])
            loss.backward()
            optimiser.step()
            falling.step()
            if step % 100 == 99:
                print(key, step + 1, round(float(loss), 3), flush=True)
        file.parent.mkdir(parents=True, exist_ok=True)
        torch.onnx.export(module.eval(), (inputs[:1],), file, dynamo=False, opset_version=OPSET, input_names=["x"])
    return file
