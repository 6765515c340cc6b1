"""Modules of the kinds that people bring to ExecuTorch, small and with the weights of a seed."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
from executorch.exir import to_edge_transform_and_lower
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

import atonc
from atonc.insight.quantizing.from_torch import onnx_of_program

nn = torch.nn
Shapes = tuple[tuple[int, ...], ...]


def ds_cnn() -> tuple[Any, Shapes]:
    """Keywords: depthwise separable convolutions."""

    def block(width: int) -> list[Any]:
        depthwise = [nn.Conv2d(width, width, 3, padding=1, groups=width, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
        return [*depthwise, nn.Conv2d(width, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU()]

    first = [nn.Conv2d(1, 16, (10, 4), stride=2, padding=(4, 1), bias=False), nn.BatchNorm2d(16), nn.ReLU()]
    last = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 12)]
    return nn.Sequential(*first, *block(16), *block(16), *last), ((1, 1, 49, 10),)


MODULES: Mapping[str, Callable[[], tuple[Any, Shapes]]] = {"ds_cnn": ds_cnn}


@dataclass(frozen=True)
class Quantised:
    """A module after PT2E, and an input of it."""

    program: Any
    example: tuple[Any, ...]

    def on_emulator(self) -> list[bytes]:
        """What atonc makes of the program as a whole, without ExecuTorch."""
        compiled = atonc.compile(onnx_of_program(self.program, "whole"), verify=False)
        names = [one.name for one in compiled.view.compiled.source.tensors.values()]
        assert names
        inputs = compiled.view.compiled.source.inputs
        found = atonc.run(compiled, {name: one.numpy() for name, one in zip(inputs, self.example, strict=True)})
        return [value.tobytes() for value in found.values()]


@dataclass(frozen=True)
class Lowered:
    pte: bytes
    partitioner: Any
    delegates: int
    beside: tuple[str, ...]  # operators that stay


@cache
def quantised(name: str, **options: Any) -> Quantised:
    torch.manual_seed(50)
    module, shapes = MODULES[name]()
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
