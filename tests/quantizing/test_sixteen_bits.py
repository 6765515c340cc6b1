"""Activations of 16 bits where 8 lose most: chosen by measurement, written as standard ONNX, run by the NPU."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto

import atonc
from atonc.doors.cli.cli import main
from atonc.insight.quantizing.graph import FloatGraph
from atonc.insight.quantizing.islands import make_plan
from atonc.insight.quantizing.loading import load
from atonc.insight.quantizing.types import QuantizeOptions
from atonc.insight.quantizing.wide_forms import WidthPlan
from atonc.insight.report.html.quantize_page import page
from atonc.insight.report.quantize_text import lines
from atonc.machine.base.errors import CapacityError, InputError, UnsupportedError
from tests.quantizing.float_models import Build, network, save

FEW = {"objective": "accuracy", "calibration": "minmax", "equalise": False}


def uneven() -> Any:
    """Channels of unlike range in one tensor, which the depthwise layer behind it makes alike: as in MobileNets."""
    b, sizes = Build(2), np.geomspace(1, 80, 8)
    x = b.node("Relu", [b.conv("x", "c1", (8, 3, 3, 3))], "r1")
    w = b.random.normal(0, 0.2, (8, 8, 1, 1)) * sizes[:, None, None, None]
    x = b.node("Relu", [b.node("Conv", [x, b.constant("c2.w", w), b.constant("c2.b", 0.2 * sizes)], "c2")], "r2")
    w = b.random.uniform(0.1, 0.3, (8, 1, 3, 3)) / sizes[:, None, None, None]
    inputs = [x, b.constant("c3.w", w), b.constant("c3.b", np.zeros(8))]
    x = b.node("Relu", [b.node("Conv", inputs, "c3", pads=[1] * 4, group=8)], "r3")
    return b.model({"x": (1, 3, 12, 12)}, [b.conv(x, "y", (4, 8, 3, 3))])


def pictures(folder: Path, count: int = 24) -> Path:
    random, path = np.random.default_rng(3), folder / "pictures.npz"
    values = random.uniform(0, 1, (count, 3, 1, 1)) * random.uniform(0, 1, (count, 3, 12, 12))
    np.savez(path, x=values.astype(np.float32))
    return path


@pytest.fixture(scope="module")
def widened(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("sixteen_bits")
    return atonc.quantize(save(folder, uneven()), pictures(folder), wide="2%", **FEW), folder


def test_tried(widened: Any) -> None:
    print("\n".join(lines(widened[0], "f.onnx", True)))
    for point in widened[0].widths:
        print(point.as_dict())
    c = atonc.compile(widened[0])
    print(c.mapped.reasons)
    assert 0
