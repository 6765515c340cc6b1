"""Layers whose sums between passes would fill the memory: bands of rows, and features that are read once."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from atonc.compiler.ir import Graph
from atonc.compiler.lower.conv import recipe
from atonc.compiler.lower.conv.cuts import Bands
from atonc.compiler.plan.policy import whole_room
from atonc.machine.hw.limits import READ_ALIGNMENT
from tests.lower.harness import TARGET, activation, constant, lower
from tests.lower.test_conv import CASES, check, conv_graph

ROOM = whole_room(TARGET.machine)


def nine_bits(graph: Graph) -> Graph:
    """Weights with a zero point take two units each, so that few channels go at a time."""
    codes = np.random.default_rng(5).choice([-128, -90, 0, 60, 126, 127], graph.tensors["w"].shape).astype(np.int8)
    weights = constant("w", codes, np.full(codes.shape[0], 0.003), -128, axis=0)
    y = activation("y", graph.tensors["y"].shape, 0.4, -128)
    return replace(graph, tensors=graph.tensors | {"w": weights, "y": y})


def test_large_sums_lie_in_the_ram_of_the_npu_and_features_are_read_once() -> None:
    graph = nine_bits(conv_graph(250, 240, 32, 16, kernel=(1, 1), padding=(0, 0, 0, 0), zero=-128))
    plans, context = lower(graph)
    sizes = {name: buffer.size_bytes for name, buffer in context.buffers.items() if "#" in name}
    assert sum(name.startswith("partial sums") for name in sizes) > 1
    assert max(sizes.values()) <= ROOM.band_bytes
    uses = [use for plan in plans for use in plan.engines.values() if use.buffer == "x"]
    assert sum(use.config.elements * use.config.element_bytes for use in uses) == graph.tensors["x"].elements


def test_small_sums_stay_as_they_are() -> None:
    _, context = lower(nine_bits(conv_graph(40, 40, 32, 16, kernel=(1, 1), padding=(0, 0, 0, 0), zero=-128)))
    assert [name.split("#")[0] for name in context.buffers if "#" in name] == ["partial sums"]


def always(monkeypatch: pytest.MonkeyPatch, outside: bool) -> None:
    """Two bands, whatever they cost, on copies of their rows or not."""
    monkeypatch.setattr(recipe, "_bands", lambda form, draft: 2)
    monkeypatch.setattr(recipe, "best", lambda offers: offers[0])
    if outside:
        monkeypatch.setattr(recipe, "Bands", lambda count, either: Bands(count, copied=True))


@pytest.mark.parametrize("outside", [False, True])
@pytest.mark.parametrize("name", ["3x3 stride 2", "5x5", "dilated"])
def test_bands_of_any_window(name: str, outside: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    always(monkeypatch, outside)
    check(conv_graph(**CASES[name]))


def test_bands_of_sums_are_right(monkeypatch: pytest.MonkeyPatch) -> None:
    always(monkeypatch, outside=True)
    graph = nine_bits(conv_graph(40, 40, 32, 16, kernel=(1, 1), padding=(0, 0, 0, 0), zero=-128))
    _, context = lower(graph)
    assert sum(name.startswith("rows of features") for name in context.buffers) == 2
    check(graph)


def test_features_that_no_memory_would_take() -> None:
    """Chains of three units read 64 channels from odd places, of 2 MB: only rows of them have room."""
    graph = conv_graph(128, 256, 64, 64, zero=-128)
    plans, context = lower(graph)
    for plan in plans:
        for use in plan.engines.values():
            fits = context.buffers[use.buffer].size_bytes <= ROOM.npu_ram_bytes
            assert fits or use.config.address % READ_ALIGNMENT == 0, use.buffer
