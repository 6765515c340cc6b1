"""With `--silicon seen` an operator takes the form that published programs have, and stays on the NPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from atonc.compiler.compile.pipeline import compile_graph
from atonc.compiler.ir import Graph, Op
from atonc.compiler.request.options import Options
from atonc.machine.hw.safety.evidence import Grade
from tests.lower.harness import activation, constant, graph_of

ATTRS = {"stride": (1, 1), "dilation": (1, 1), "groups": 1, "layout": "NHWC"}


def conv(padding: tuple[int, ...], groups: int = 1, **changes: Any) -> Graph:
    """A window over features whose zero point is -128."""
    rng = np.random.default_rng(1)
    inputs = 1 if groups > 1 else 8
    attrs = {**ATTRS, "padding": padding, "groups": groups, **changes}
    size = 12 if attrs["stride"] == (1, 1) else 6
    return graph_of(
        Op("conv", "conv", ("x", "w", "b"), ("y",), attrs),
        activation("x", (1, 12, 12, 8), 0.02, -128),
        constant("w", rng.integers(-127, 128, (8, 3, 3, inputs)).astype(np.int8), rng.uniform(0.002, 0.004, 8), axis=0),
        constant("b", rng.integers(-2000, 2000, 8).astype(np.int32)),
        activation("y", (1, size, size, 8), 0.05, -128),
    )


def concat(size: int, *channels: int) -> Graph:
    """Pixels behind each other, in one order of codes."""
    names = [f"x{number}" for number in range(len(channels))]
    parts = [activation(name, (1, size, size, c), 0.02, -3) for name, c in zip(names, channels, strict=True)]
    op = Op("concat", "concat", tuple(names), ("y",), {"axis": 3})
    return graph_of(op, *parts, activation("y", (1, size, size, sum(channels)), 0.02, -3))


def resized(coordinates: str, channels: int = 32) -> Graph:
    """Twice as high and wide: edges, and pixels between others."""
    op = Op("resize_linear", "resize", ("x",), ("y",), {"coordinates": coordinates})
    near = activation("x", (1, 6, 6, channels), 0.02, -3)
    return graph_of(op, near, activation("y", (1, 12, 12, channels), 0.02, -3))


def maximum(size: int) -> Graph:
    """Windows of 5x5 around the pixels of a picture that is smaller than any in a POOL unit."""
    attrs = {**ATTRS, "window": (5, 5), "padding": (2, 2, 2, 2)}
    near, far = (activation(name, (1, size, size, 16), 0.02, -3) for name in "xy")
    return graph_of(Op("max_pool", "pool", ("x",), ("y",), attrs), near, far)


def mirrored(pixels: int) -> Graph:
    """Borders that repeat what lies beside them, corners too."""
    attrs = {"pads": ((0, 0), (pixels, pixels), (pixels, pixels), (0, 0)), "mode": "reflect"}
    size = 12 + 2 * pixels
    near, far = activation("x", (1, 12, 12, 3), 0.02, -3), activation("y", (1, size, size, 3), 0.02, -3)
    return graph_of(Op("pad", "pad", ("x",), ("y",), attrs), near, far)


def changed(scale: float, **attrs: Any) -> Graph:
    """Codes of another format."""
    near, far = activation("x", (1, 12, 12, 16), 0.02, -128), activation("y", (1, 12, 12, 16), scale, -128)
    return graph_of(Op("requantize", "change", ("x",), ("y",), attrs), near, far)


CASES = {
    "a window that is padded": conv((1, 1, 1, 1)),
    "with stride 2": conv((0, 0, 1, 1), stride=(2, 2)),
    "channel by channel": conv((1, 1, 1, 1), groups=8),
    "codes up to a limit that no unit was seen to clip at": conv((1, 1, 1, 1), clip=(-128, 111)),
    "between two such limits": conv((1, 1, 1, 1), clip=(-101, 111)),
    "pixels side by side": concat(6, 16, 16),
    "single codes side by side": concat(24, 4, 1, 1),
    "pixels between others": resized("half_pixel"),
    "with weights of their own for every line": resized("align_corners"),
    "pixels that begin anywhere": resized("half_pixel", channels=12),
    "maxima of a small picture": maximum(6),
    "maxima of a smaller one": maximum(4),
    "borders from what lies beside them": mirrored(1),
    "borders in the other order": mirrored(2),
    "codes that stay as they are": changed(0.02 * (1 + 1e-6)),
    "codes up to a limit of their own": changed(0.02 * (1 + 1e-6), clip=(-128, 111)),
    "codes from a limit on": changed(0.02 * (1 + 1e-6), clip=(-101, 127)),
}


@pytest.mark.parametrize("graph", CASES.values(), ids=CASES.keys())
def test_seen_forms_do_it(graph: Graph) -> None:
    compiled = compile_graph(graph, Options(silicon="seen"))
    assert not compiled.choices.reasons
    assert compiled.grades and all(epoch.grade in (Grade.SEEN, Grade.WITHIN) for epoch in compiled.grades)
    assert compiled.report is not None and compiled.report.outputs[0].within1_percent == 100
