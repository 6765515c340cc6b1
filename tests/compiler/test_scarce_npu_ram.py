"""Networks whose buffers do not all fit the NPU's own RAM: engines then start at aligned addresses only."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import atonc.compiler.search.build
from atonc.compiler.compile.pipeline import compile_canonical, memories
from atonc.compiler.ir import Graph, Op, Quantisation, Tensor
from atonc.compiler.passes import order
from atonc.compiler.place import BoardMemory
from atonc.compiler.place.explain import NPU_RAM, PlacementError
from atonc.compiler.plan import policy
from atonc.compiler.request.options import Options
from atonc.compiler.search.generators import tighter_room
from atonc.machine.hw.machine import stm32n6

SHAPE = (1, 96, 96, 24)
ATTRS = {"stride": (1, 1), "dilation": (1, 1), "padding": (1, 1, 1, 1), "layout": "NHWC", "groups": 24}


def network() -> Graph:
    """Three depthwise layers whose results all live until they are added up."""
    rng = np.random.default_rng(0)
    channels = SHAPE[3]
    tensors, ops = {}, []
    for k, name in enumerate("xabcde"):
        tensors[name] = Tensor(name, SHAPE, "int8", Quantisation.per_tensor(0.05, 0))
        weights = rng.integers(-127, 128, (channels, 3, 3, 1)).astype(np.int8)
        quant = Quantisation(rng.uniform(0.001, 0.004, channels), np.zeros(channels, np.int64), 0)
        tensors[f"w{k}"] = Tensor(f"w{k}", weights.shape, "int8", quant, weights)
    for k, (x, y) in enumerate(("xa", "ab", "bc")):
        ops.append(Op("conv", y, (x, f"w{k}"), (y,), ATTRS, (y,)))
    ops += [Op("add", "d", ("a", "b"), ("d",), {}, ("d",)), Op("add", "e", ("d", "c"), ("e",), {}, ("e",))]
    used = {n for op in ops for n in (*op.inputs, *op.outputs)}
    return Graph({n: t for n, t in tensors.items() if n in used}, tuple(ops), ("x",), ("e",))


def small_board(options: Options) -> BoardMemory:
    """One bank of the NPU's RAM, and the processor's."""
    board = memories(options)
    dropped = [pool.name for pool in board.pools if pool.name.startswith("npuRAM")][1:]
    return replace(board, pools=tuple(pool for pool in board.pools if pool.name not in dropped))


def test_a_small_board_is_known_from_the_start() -> None:
    options = Options(verify=False)
    graph, board = order.run(network(), options), small_board(options)
    compiled = compile_canonical(graph, graph, options, board)
    room = compiled.mapped.context.room
    assert not compiled.choices.reasons
    assert room == policy.NpuRamBudget(448 << 10, spends=True)  # one bank: nothing had to be tried twice
    assert room.huge_bytes < policy.whole_room(stm32n6()).huge_bytes


def test_smaller_layers_start_at_aligned_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    """RAM that other buffers take shows only when everything is placed: then smaller layers are kept out of it."""
    monkeypatch.setattr(
        atonc.compiler.search.build, "npu_ram_bytes", lambda _board: policy.whole_room(stm32n6()).npu_ram_bytes
    )
    options = Options(verify=False)
    graph, board = order.run(network(), options), small_board(options)
    compiled = compile_canonical(graph, graph, options, board)
    assert not compiled.choices.reasons
    assert compiled.mapped.context.room.huge_share < policy.HUGE_SHARES[0]
    monkeypatch.setattr(tighter_room, "HUGE_SHARES", policy.HUGE_SHARES[:1])
    with pytest.raises(PlacementError) as caught:
        compile_canonical(graph, graph, options, board)
    assert caught.value.shortage.memory == NPU_RAM
