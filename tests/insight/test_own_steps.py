"""Operators that share an epoch are layers of their own: their units, their part of the cycles."""

from __future__ import annotations

from atonc.compiler.ir import Graph
from atonc.compiler.request.options import Options
from atonc.insight.explain.complete import gaps
from atonc.insight.explain.ours import network_view
from tests.compiler.golden_graphs import Sketch
from tests.insight.views import compile_view


def branches() -> Graph:
    """A function and a pooling of the same picture, behind a layer that needs more memory than both."""
    net = Sketch().start(1, 32, 32, 16)
    net.conv(64)
    start = net.conv(16)
    window = {"window": (3, 3), "stride": (1, 1), "padding": (1, 1, 1, 1), "layout": "NHWC"}
    left = net.op("max_pool", (1, 32, 32, 16), **window)
    net.last = start
    net.op("logistic", (1, 32, 32, 16), scale=1 / 256, zero=-128)
    net.op("add", (1, 32, 32, 16), left, scale=0.04)
    return net.graph()


def test_operators_of_one_epoch_share_its_cycles() -> None:
    view = compile_view(branches(), Options(verify=False, schedule_without=("fuse",)))  # chains leave nothing to share
    assert ("max_pool2", "logistic3") in {tuple(share.op for share in step) for step in view.compiled.scheduled.shares}
    network = network_view(view)
    assert sum(layer.cycles for layer in network.layers) == view.cost.cycles
    layers = {layer.name: layer for layer in network.layers}
    pool, function = layers["max_pool2"], layers["logistic3"]
    assert set(pool.steps) & set(function.steps) and pool.cycles and function.cycles
    assert not any("ACTIV" in chain for chain in pool.chains) and not any("POOL" in chain for chain in function.chains)
    assert gaps(network) == []
