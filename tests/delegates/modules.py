"""Modules of the kinds that people bring to ExecuTorch, small and with the weights of a seed."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import onnx
import torch
from executorch.exir import to_edge_transform_and_lower
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

import atonc
from atonc.compiler.ir import Array
from atonc.insight.quantizing.from_torch import onnx_of_program

nn, F = torch.nn, torch.nn.functional
Shapes = tuple[tuple[int, ...], ...]


def ds_cnn() -> tuple[Any, Shapes]:
    """Keywords: depthwise separable convolutions."""

    def block(width: int) -> list[Any]:
        depthwise = [nn.Conv2d(width, width, 3, padding=1, groups=width, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
        return [*depthwise, nn.Conv2d(width, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU()]

    first = [nn.Conv2d(1, 16, (10, 4), stride=2, padding=(4, 1), bias=False), nn.BatchNorm2d(16), nn.ReLU()]
    last = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 12)]
    return nn.Sequential(*first, *block(16), *block(16), *last), ((1, 1, 49, 10),)


class Inverted(nn.Module):  # type: ignore[misc, name-defined]
    """The block of MobileNetV2."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        wide = 4 * inputs
        self.adds = stride == 1 and inputs == outputs
        self.layers = nn.Sequential(
            *_normed(nn.Conv2d(inputs, wide, 1, bias=False), wide),
            *_normed(nn.Conv2d(wide, wide, 3, stride, 1, groups=wide, bias=False), wide),
            nn.Conv2d(wide, outputs, 1, bias=False),
            nn.BatchNorm2d(outputs),
        )

    def forward(self, x: Any) -> Any:
        return x + self.layers(x) if self.adds else self.layers(x)


def _normed(layer: Any, width: int) -> tuple[Any, ...]:
    return layer, nn.BatchNorm2d(width), nn.ReLU6()


def mobilenet() -> tuple[Any, Shapes]:
    stem = _normed(nn.Conv2d(3, 8, 3, 2, 1, bias=False), 8)
    blocks = [Inverted(8, 8, 1), Inverted(8, 16, 2), Inverted(16, 16, 1)]
    return nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10)), ((1, 3, 32, 32),)


class Detector(nn.Module):  # type: ignore[misc, name-defined]
    """Two scales, one brought to the other's size, and boxes with classes of both."""

    def __init__(self) -> None:
        super().__init__()
        self.fine, self.coarse = nn.Conv2d(3, 16, 3, 4, 1), nn.Conv2d(16, 16, 3, 2, 1)
        self.both, self.box, self.score = nn.Conv2d(32, 16, 1), nn.Conv2d(16, 4, 1), nn.Conv2d(16, 3, 1)

    def forward(self, image: Any) -> Any:
        fine = F.silu(self.fine(image))
        coarse = F.silu(self.coarse(fine))
        merged = F.silu(self.both(torch.cat((fine, F.interpolate(coarse, scale_factor=2.0)), 1)))
        boxes = [self.box(one).flatten(2) for one in (merged, coarse)]
        scores = [torch.sigmoid(self.score(one)).flatten(2) for one in (merged, coarse)]
        return torch.cat(boxes, 2).transpose(1, 2), torch.cat(scores, 2).transpose(1, 2)


def detector() -> tuple[Any, Shapes]:
    return Detector(), ((1, 3, 32, 32),)


class Attention(nn.Module):  # type: ignore[misc, name-defined]
    """A block of a transformer that looks at itself."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.size = heads, width // heads
        self.before, self.behind = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x: Any) -> Any:
        normed = self.before(x)
        query, key, value = (self._split(layer(normed)) for layer in (self.query, self.key, self.value))
        looks = torch.softmax(torch.matmul(query, key.transpose(-1, -2)) * self.size**-0.5, -1)
        found = torch.matmul(looks, value).transpose(1, 2).reshape(x.shape)
        x = x + self.out(found)
        return x + self.down(F.gelu(self.up(self.behind(x))))

    def _split(self, x: Any) -> Any:
        return x.view(x.shape[0], x.shape[1], self.heads, self.size).transpose(1, 2)


def transformer() -> tuple[Any, Shapes]:
    return nn.Sequential(nn.Linear(16, 32), Attention(32, 4), nn.Linear(32, 8)), ((1, 12, 16),)


class Phase(nn.Module):  # type: ignore[misc, name-defined]
    def forward(self, x: Any) -> Any:
        return torch.remainder(x, 0.5)


class Interrupted(nn.Module):  # type: ignore[misc, name-defined]
    """An operator in the middle that no delegate of ours has."""

    def __init__(self) -> None:
        super().__init__()
        self.before, self.middle, self.behind = nn.Conv2d(3, 8, 3, 2, 1), Phase(), nn.Conv2d(8, 4, 3, 2, 1)

    def forward(self, x: Any) -> Any:
        return self.behind(self.middle(F.relu(self.before(x))))


def interrupted() -> tuple[Any, Shapes]:
    return Interrupted(), ((1, 3, 16, 16),)


class Everything(nn.Module):  # type: ignore[misc, name-defined]
    """Every operator that delegates may have and the other modules do not."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.back = nn.Conv2d(3, 4, 3, 2, 1), nn.ConvTranspose2d(4, 4, 2, 2)
        self.spread = nn.ConvTranspose2d(4, 4, 3, 2, 1, output_padding=1, groups=2)
        self.group, self.instance, self.slopes = nn.GroupNorm(2, 4), nn.InstanceNorm2d(4), nn.PReLU(4)

    def forward(self, image: Any) -> Any:
        x = torch.sigmoid(self.first(image)) + 0.25
        whole = (self.back, self.spread, self.group, self.instance, self.slopes, F.hardswish, F.hardsigmoid, F.silu,
                 F.gelu, F.elu, torch.tanh, F.leaky_relu, torch.abs, torch.neg, torch.exp, torch.log, torch.sqrt,
                 torch.rsqrt, torch.reciprocal, torch.sin, torch.cos, torch.erf, torch.floor, torch.ceil,
                 torch.round)  # fmt: skip
        y = x.squeeze(0)
        parts = torch.split(x, [1, 3], 1)
        others = (
            F.max_pool2d(x, 2), F.avg_pool2d(x, 2), F.pixel_shuffle(x, 2), F.interpolate(x, scale_factor=2.0),
            F.interpolate(x, scale_factor=2.0, mode="bilinear"), F.pad(x, (1, 2, 0, 1)), x.amax(3), x.amin(2),
            x.sum(3), torch.maximum(x, x - 0.5), torch.minimum(x, x * 0.5), x / 3.0, torch.clamp(x, 0.5, 0.75),
            torch.cumsum(x, 3), x**3.0, y.unsqueeze(1), x[:, :, 1:3], x[:, 2], parts[0].expand(1, 2, 8, 8), parts[1],
        )  # fmt: skip
        return (*(one(x) for one in whole), *others)


class Several(nn.Module):  # type: ignore[misc, name-defined]
    """Two operators with several outputs; no delegate has the first."""

    def __init__(self) -> None:
        super().__init__()
        self.before, self.behind = nn.Conv2d(3, 8, 3, 2, 1), nn.Conv2d(4, 4, 3, 2, 1)

    def forward(self, x: Any) -> Any:
        best, places = torch.topk(self.before(x), 6, 3)
        upper, lower = torch.split(best, 4, 1)
        return self.behind(upper + lower), places


MODULES: Mapping[str, Callable[[], tuple[Any, Shapes]]] = {
    "ds_cnn": ds_cnn,
    "mobilenet": mobilenet,
    "detector": detector,
    "transformer": transformer,
    "interrupted": interrupted,
}
OTHERS: Mapping[str, Callable[[], tuple[Any, Shapes]]] = {
    "everything": lambda: (Everything(), ((1, 3, 16, 16),)),
    "several": lambda: (Several(), ((1, 3, 16, 16),)),
}


@dataclass(frozen=True)
class Quantised:
    """A module after PT2E, and an input of it."""

    program: Any
    example: tuple[Any, ...]

    def on_emulator(self) -> list[bytes]:
        """What atonc makes of the program as a whole, without ExecuTorch."""
        return [one.tobytes() for one in _on_emulator(self.model, [one.numpy() for one in self.example])]

    def in_pieces(self, compute: Callable[[Array], Array]) -> list[bytes]:
        """The same with what the submodule `middle` does computed by somebody else."""
        middle = [node for node in self.model.graph.node if node.name.startswith("middle/")]
        made = {name for node in self.model.graph.node for name in node.output}
        own = {name for node in middle for name in node.output}
        (before,) = {name for node in middle for name in node.input if name in made and name not in own}
        (behind,) = {name for node in self.model.graph.node if node not in middle for name in node.input if name in own}
        cut = onnx.utils.Extractor(onnx.shape_inference.infer_shapes(self.model)).extract_model
        names = [[value.name for value in side] for side in (self.model.graph.input, self.model.graph.output)]
        (found,) = _on_emulator(cut(names[0], [before]), [one.numpy() for one in self.example])
        return [one.tobytes() for one in _on_emulator(cut([behind], names[1]), [compute(found)])]

    @property
    def model(self) -> Any:
        return onnx_of_program(self.program, "whole")


def _on_emulator(model: Any, values: list[Array]) -> list[Array]:
    compiled = atonc.compile(model, verify=False)
    names = compiled.view.compiled.source.inputs
    return list(atonc.run(compiled, dict(zip(names, values, strict=True))).values())


@dataclass(frozen=True)
class Lowered:
    pte: bytes
    partitioner: Any
    delegates: int
    beside: tuple[str, ...]  # operators that stay


@cache
def quantised(name: str, **options: Any) -> Quantised:
    torch.manual_seed(50)
    module, shapes = {**MODULES, **OTHERS}[name]()
    module.eval()
    with torch.no_grad():
        for parameter in module.parameters():  # so that outputs use more than a few codes
            if parameter.ndim > 1:
                parameter.mul_(2)
        example = tuple(torch.randn(shape) for shape in shapes)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            prepared = prepare_pt2e(
                torch.export.export(module, example).module(), atonc.executorch.AtonQuantizer(**options)
            )
            for _ in range(4):
                prepared(*(torch.randn(shape) for shape in shapes))
            return Quantised(torch.export.export(convert_pt2e(prepared), example), example)


def lowered(program: Any, **options: Any) -> Lowered:
    partitioner = atonc.executorch.AtonPartitioner(**options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        edge = to_edge_transform_and_lower(program, partitioner=[partitioner])
        nodes = [str(node.target) for node in edge.exported_program().graph.nodes if node.op == "call_function"]
        calls = [one for one in nodes if "getitem" not in one]
        beside = tuple(one for one in calls if "executorch_call_delegate" not in one)
        return Lowered(edge.to_executorch().buffer, partitioner, len(calls) - len(beside), beside)


def in_their_runtime(pte: bytes, example: tuple[Any, ...]) -> list[bytes]:
    from executorch.runtime import Runtime

    atonc.executorch.register()
    found = Runtime.get().load_program(pte).load_method("forward").execute(example)
    return [np.ascontiguousarray(one.numpy()).tobytes() for one in found]
