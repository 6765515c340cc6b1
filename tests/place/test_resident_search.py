"""What `--resident` makes of the memory that it may use, seen from outside: by the finished program alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from atonc.compiler.compile.pipeline import Compiled, compile_canonical, compile_graph
from atonc.compiler.ir import Graph, Op
from atonc.compiler.request.options import Options
from tests.compiler.test_named_cases import _conv, _net
from tests.lower.harness import activation, constant
from tests.lower.test_stripes import network, small_board

HEAVY = ((64, 4), (256, 1), (256, 1))  # outputs and windows of layers that wait for their weights


def _two_layers() -> Graph:
    """Kernels of 9 and of 34 KB."""
    net = _net((1, 4, 4, 64))
    _conv(net, _conv(net, net.inputs[0], 128, (1, 1)), 256, (1, 1))
    return net.graph("two layers")


@pytest.mark.parametrize("budget", [24 << 10, 36 << 10, 40 << 10])
def test_what_is_kept_leaves_less_for_a_part_of_a_kernel(budget: int) -> None:
    """The small kernel stays as a whole, and as much of the large one as is left beside it: a larger part would not
    stay at all."""
    graph = _two_layers()
    small, found = (compile_graph(graph, Options(verify=False, resident=str(size))) for size in (16 << 10, budget))
    assert 0.7 * budget < found.layout.memory.resident_bytes <= budget
    assert found.cost.cycles < 0.75 * small.cost.cycles


def test_more_room_never_makes_a_slower_program() -> None:
    """At 40 KiB the short rest of the cut kernel once took the room that the kernel was cut for."""
    sizes = [size << 10 for size in range(16, 48, 4)]
    cycles = [compile_graph(_two_layers(), Options(verify=False, resident=str(size))).cost.cycles for size in sizes]
    assert cycles == sorted(cycles, reverse=True)


def _block_and_heavy_layers() -> Graph:
    """Large activations in front of layers with many weights."""
    graph, rng = network(40, 48), np.random.default_rng(5)
    tensors, ops, source = dict(graph.tensors), list(graph.ops), graph.outputs[0]
    for number, (outputs, window) in enumerate(HEAVY):
        _, height, width, channels = tensors[source].shape
        weights = rng.integers(-127, 128, (outputs, window, window, channels)).astype(np.int8)
        made = (
            constant(f"w{number}", weights, rng.uniform(0.002, 0.006, outputs), axis=0),
            constant(f"b{number}", rng.integers(-2000, 2000, outputs).astype(np.int32)),
            activation(f"y{number}", (1, height // window, width // window, outputs), 0.1, -128),
        )
        tensors |= {tensor.name: tensor for tensor in made}
        attrs = {"layout": "NHWC", "dilation": (1, 1), "groups": 1, "stride": (window,) * 2, "padding": (0,) * 4}
        ops.append(Op("conv", f"c{number}", (source, made[0].name, made[1].name), (made[2].name,), attrs))
        source = made[2].name
    return Graph(tensors, tuple(ops), graph.inputs, (source,))


def _on_small_chip(**options: object) -> Compiled:
    asked = Options(verify=False, **options)  # type: ignore[arg-type]
    board = small_board(asked)
    pools = tuple(replace(pool, size_bytes=176 << 10) if pool in board.on_chip else pool for pool in board.pools)
    graph = _block_and_heavy_layers()
    return compile_canonical(graph, graph, asked, replace(board, pools=pools))


def test_activations_give_way_to_weights_where_all_free_ram_is_theirs() -> None:
    """With whole layers the weights find too little room; with rows in turn there is more, and that is faster."""
    plain, kept = _on_small_chip(), _on_small_chip(resident="all")
    smallest = _on_small_chip(resident="all", prefer="memory")
    assert kept.cost.cycles <= smallest.cost.cycles < plain.cost.cycles
    assert kept.layout.peak_bytes < plain.layout.peak_bytes and kept.layout.memory.resident_bytes > 80_000
