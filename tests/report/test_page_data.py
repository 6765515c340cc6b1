"""Each figure of the page is the one that its name says: a view whose figures all differ, looked up in the data."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

from atonc.compiler.frontends.coverage import Coverage, FloatNode
from atonc.compiler.place.usage import MemoryUse, UsageRow, Use
from atonc.compiler.request.options import Options
from atonc.delivery.generate import generating
from atonc.insight.explain.ours import network_view
from atonc.insight.explain.types import CPU, HYBRID, NPU, Measured, MeasuredBlock, NetworkView, error_band
from atonc.insight.report.html.network import network_data, roofline
from atonc.insight.report.key_figures import best_actions
from tests.compiler.test_named_cases import _conv, _net
from tests.insight.views import view

DIGITS = Path(__file__).parents[2] / "examples" / "digits" / "digits.tflite"
OUTSIDE, INSIDE, KEPT, BOUND = 7_000, 11_000, 1_300, 17_000


@cache
def _network() -> NetworkView:
    net = _net((1, 8, 8, 16))
    _conv(net, _conv(net, net.inputs[0], 8, (3, 3), padding=(1, 1, 1, 1)), 8, (1, 1))
    rows = (
        UsageRow("hyperRAM", Use.ACTIVATIONS, OUTSIDE, ram=True, external=True),
        UsageRow("npuRAM5", Use.ACTIVATIONS, INSIDE, ram=True),
        UsageRow("npuRAM5", Use.RESIDENT, KEPT, ram=True),
    )
    return replace(view(net.graph("small")), memory=MemoryUse(rows, weights_bytes=23), lower_bound_bytes=BOUND)


def test_memory_is_shown_as_it_is_counted() -> None:
    totals = network_data(_network())["totals"]
    assert totals["spilled"] == OUTSIDE
    assert totals["activations"] == OUTSIDE + INSIDE
    assert totals["ram"] == OUTSIDE + INSIDE + KEPT
    assert totals["lower_bound"] == BOUND
    assert totals["weights"] == 23
    assert totals["ram_by_use"] == {"activations": OUTSIDE + INSIDE, "resident": KEPT}


def test_time_is_shown_with_its_band_and_beside_sts() -> None:
    network = _network()
    data = network_data(network)
    low, high = error_band(network).around(network.latency_ms)
    totals = data["totals"]
    assert (totals["low_ms"], totals["high_ms"]) == (low, high) and low < totals["latency_ms"] < high
    assert (totals["cycles"], totals["st_cycles"]) == (network.cycles, network.st_cycles)
    assert network.cycles != network.st_cycles
    shown = [(step["cycles"], step["st"], step["ms"], step["bytes"]) for step in data["steps"]]
    assert shown == [(s.cycles, s.st_cycles, s.milliseconds, s.bytes_moved) for s in network.steps]
    assert (totals["npu"], totals["cpu"], totals["hybrid"]) == tuple(map(network.count, (NPU, CPU, HYBRID)))


def test_dots_of_the_roofline_are_work_a_byte_and_work_a_cycle() -> None:
    network = _network()
    found, shown = roofline(network), network_data(network)["roofline"]
    assert found.dots and shown["peak"] == found.peak
    for dot, row in zip(found.dots, shown["dots"], strict=True):
        place, macs_per_byte, macs_per_cycle, macs_per_flash_byte = row
        assert network.layers[place].name == dot.layer.name and dot.macs_per_byte != dot.macs_per_cycle
        assert (macs_per_byte, macs_per_cycle) == (round(dot.macs_per_byte, 4), round(dot.macs_per_cycle, 4))
        assert macs_per_flash_byte == round(dot.macs_per_flash_byte, 4) > 0


def test_buffers_have_their_place_and_their_life() -> None:
    network = _network()
    shown = {one["name"]: one for one in network_data(network)["buffers"]}
    for buffer in network.buffers:
        if buffer.name in shown:
            one = shown[buffer.name]
            assert (one["a"], one["size"], one["pool"]) == (buffer.address, buffer.size_bytes, buffer.pool)
            assert (one["first"], one["last"], one["kind"]) == (buffer.first, buffer.last, buffer.kind)
    assert len(shown) > 3


def test_measured_times_stand_beside_predicted_ones() -> None:
    block = MeasuredBlock(1, 2, 10, 20, 30, 0.75, 0.5, 750, 500)
    network = replace(_network(), measured=Measured("a board", 800, 1000, 1.25, (block,)))
    shown = network_data(network)["measured"]
    assert shown["ms"] == 1.25
    (one,) = shown["blocks"]
    assert (one["ms"], one["predicted_ms"], one["cycles"], one["predicted"]) == (0.75, 0.5, 750, 500)
    assert (one["first"], one["last"], one["parts"]) == (1, 2, [10, 20, 30])


def test_the_largest_operators_in_float_come_first() -> None:
    nodes = tuple(FloatNode(f"n{size}", "softmax", size, "why") for size in (5, 9, 7))
    network = replace(_network(), coverage=Coverage(3, 100, nodes))
    assert [size for _, _, size, _ in network_data(network)["floats"]] == [9, 7, 5]


def test_options_that_were_compiled_come_first() -> None:
    """Then changes of the model, and none that an option answers already."""
    network = network_view(generating.analyze(DIGITS, Options(verify=False)))
    plain = best_actions(network)
    assert 0 < len(plain) <= 3 and all("saves at most" in one.gain for one in plain)
    assert any("--resident" in one.what for one in plain), "the weights come from flash"
    found = best_actions(replace(network, advice=(("--resident all", "0.025 ms (-35.6 %)"),)))
    assert (found[0].what, found[0].gain, found[0].layer) == ("--resident all", "0.025 ms (-35.6 %)", "")
    assert not any("--resident" in one.what for one in found[1:])
    data = network_data(network)
    assert [row[0] for row in data["actions"]] == [one.what for one in plain] and not data["advised"]
