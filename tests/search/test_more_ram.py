"""A network that may have more RAM is never slower than in exactly the RAM that it takes then."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import atonc.compiler.search.build
from atonc.compiler.compile.pipeline import Compiled, compile_canonical, memories, read_quantised
from atonc.compiler.ir import Graph, Op, Quantisation, Tensor
from atonc.compiler.passes import order
from atonc.compiler.place import BoardMemory
from atonc.compiler.place.pools import has_other_ram
from atonc.compiler.plan.policy import HUGE_SHARES, NpuRamBudget
from atonc.compiler.request.options import Options
from atonc.delivery.application.memory import joined, within

CORPUS = Path(os.environ.get("ATONC_CORPUS", Path(__file__).parents[3] / "shared" / "corpus")) / "models"
FOMO = "fomo_face_detection.tflite"
OPTIONS = Options()
NO_CORPUS = "the corpus of models is not here: set ATONC_CORPUS"


def convolutions(*layers: tuple[str, int], size: int, channels: int, spread: float = 1.0) -> Graph:
    """1x1 (`"dense"`) and depthwise layers one behind the other, each with so many outputs; scales of channels differ
    by up to `spread` times."""
    rng = np.random.default_rng(7)
    codes = Quantisation.per_tensor(0.05, 0)
    tensors = {"x": Tensor("x", (1, size, size, channels), "int8", codes)}
    ops, before = [], "x"
    for number, (kind, outputs) in enumerate(layers):
        name, weights_name, window = f"y{number}", f"w{number}", 3 if kind == "depthwise" else 1
        groups = channels if kind == "depthwise" else 1
        weights = rng.integers(-127, 128, (outputs, window, window, channels // groups)).astype(np.int8)
        scales = 0.002 * spread ** rng.uniform(-1, 1, outputs)
        quant = Quantisation(scales, np.zeros(outputs, np.int64), 0)
        tensors[weights_name] = Tensor(weights_name, weights.shape, "int8", quant, weights)
        tensors[name] = Tensor(name, (1, size, size, outputs), "int8", codes)
        pads = (window // 2,) * 4
        attrs = {"stride": (1, 1), "dilation": (1, 1), "padding": pads, "layout": "NHWC", "groups": groups}
        ops.append(Op("conv", name, (before, weights_name), (name,), attrs, (name,)))
        before, channels = name, outputs
    return Graph(tensors, tuple(ops), ("x",), (before,))


def in_all_and_in_its_own(source: Graph) -> tuple[Compiled, Compiled]:
    """Compiled and verified for the board, and inside the RAM that this took."""
    board = memories(OPTIONS)
    graph = order.run(source, OPTIONS)
    free = compile_canonical(source, graph, OPTIONS, board)
    return free, compile_canonical(source, graph, OPTIONS, within(board, ram_of(free, board)))


def ram_of(compiled: Compiled, board: BoardMemory) -> Sequence[tuple[int, int]]:
    pools = [(pool.base, pool.base + pool.size_bytes) for pool in board.on_chip]
    homes = [home for home in compiled.program.placed.values() if any(a <= home.address < b for a, b in pools)]
    return joined((home.address, home.address + max(home.size_bytes, home.reserved_bytes)) for home in homes)


NETWORKS = {
    "frames of 22 kernels meet in words": convolutions(("dense", 64), size=28, channels=128),
    "frames of 24 kernels leave a lane": convolutions(("dense", 48), size=64, channels=8, spread=8),
    "slices of 24 channels": convolutions(("depthwise", 24), ("dense", 24), size=64, channels=24, spread=30),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_the_ram_that_a_program_takes_is_enough_for_it(name: str) -> None:
    """Where nothing but the NPU's own RAM is left, no tensor is too large for engines that start anywhere."""
    free, own = in_all_and_in_its_own(NETWORKS[name])
    assert not has_other_ram(own.memory) and has_other_ram(free.memory)
    assert own.cost.cycles == free.cost.cycles
    assert own.layout.peak_bytes <= free.layout.peak_bytes


@pytest.mark.parametrize("name", ["frames of 22 kernels meet in words", "slices of 24 channels"])
def test_forms_for_scarce_ram_are_found_where_there_is_more(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Chains that share no word are one choice among others."""
    free, _ = in_all_and_in_its_own(NETWORKS[name])
    monkeypatch.setattr(atonc.compiler.search.build, "has_other_ram", lambda _board: True)
    _, aligned = in_all_and_in_its_own(NETWORKS[name])
    assert aligned.mapped.context.room.large_bytes < max(t.elements for t in NETWORKS[name].tensors.values())
    assert free.cost.cycles <= aligned.cost.cycles


@pytest.mark.skipif(not (CORPUS / FOMO).is_file(), reason=NO_CORPUS)
def test_a_network_that_was_slower_with_all_ram() -> None:
    source = read_quantised(CORPUS / FOMO, OPTIONS)
    free, own = in_all_and_in_its_own(source)
    assert free.cost.cycles <= own.cost.cycles


def test_a_budget_without_other_ram_has_no_large_tensors() -> None:
    room = NpuRamBudget(1 << 16, other_ram=False)
    assert min(room.large_bytes, room.huge_bytes, room.half_bytes, room.copy_bytes) > 1 << 40
    assert (room.step_bytes, room.band_bytes) == (NpuRamBudget(1 << 16).step_bytes, NpuRamBudget(1 << 16).band_bytes)
    tight = replace(room, huge_share=HUGE_SHARES[-1])
    assert tight.huge_bytes == room.huge_bytes, "nothing to gain from keeping tensors out of it"
