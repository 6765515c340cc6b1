"""Operators that share an epoch are layers of their own: their units, their part of the cycles."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from atonc.compiler.ir import Graph
from atonc.compiler.request.options import Options
from atonc.delivery.generate import generating
from atonc.insight.explain.folder import folder_view
from atonc.insight.explain.ours import network_view
from atonc.insight.explain.types import LayerView
from tests.compiler.golden_graphs import Sketch
from tests.insight.complete import gaps
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


def _told(layer: LayerView) -> tuple[object, ...]:
    energy = round(layer.energy_uj, 9)
    rules = [(one.rule.id, one.seen) for one in layer.decisions]
    return layer.name, layer.on, layer.steps, layer.cycles, layer.macs, energy, layer.chains, layer.modes, rules


def test_operators_of_one_epoch_share_its_cycles(tmp_path: Path) -> None:
    view = compile_view(branches(), Options(verify=False, schedule_without=("fuse",)))  # chains leave nothing to share
    assert ("max_pool2", "logistic3") in {tuple(share.op for share in step) for step in view.compiled.scheduled.shares}
    network = network_view(view)
    generating.generate(view, tmp_path)
    read = folder_view(tmp_path)
    assert read.layers[0].parts == () and any(layer.parts for layer in read.layers)
    for ours, theirs in zip(network.layers, read.layers, strict=True):
        assert _told(ours) == _told(theirs)
    assert [step.layer for step in read.steps] == [step.layer for step in network.steps]
    assert sum(layer.cycles for layer in network.layers) == view.cost.cycles
    layers = {layer.name: layer for layer in network.layers}
    pool, function = layers["max_pool2"], layers["logistic3"]
    assert set(pool.steps) & set(function.steps) and pool.cycles and function.cycles
    assert not any("ACTIV" in chain for chain in pool.chains) and not any("POOL" in chain for chain in function.chains)
    assert gaps(network) == []
    assert sum(layer.energy_uj for layer in network.layers) == pytest.approx(view.cost.energy.uj.likely)


@pytest.mark.parametrize("damage", [{"own": -1}, {"all": 0}, {"epoch": 999}, {"units": 3}, {"before": 10**12}])
def test_damaged_parts_are_not_believed(damage: dict[str, object], tmp_path: Path) -> None:
    view = compile_view(branches(), Options(verify=False, schedule_without=("fuse",)))
    generating.generate(view, tmp_path)
    file = tmp_path / "network_program.json"
    data = json.loads(file.read_text())
    shared = next(row for row in data["layers"] if "parts" in row)
    shared["parts"][0].update(damage)
    file.write_text(json.dumps(data))
    (tmp_path / "network_manifest.json").unlink()
    assert sum(layer.cycles for layer in folder_view(tmp_path).layers) == view.cost.cycles
