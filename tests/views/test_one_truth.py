"""Contradictions that views once had, each with the case that showed it."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from atonc.compiler.compile.compile_view import CompileView
from atonc.compiler.compile.pipeline import compile_graph
from atonc.compiler.place.resident import free_spans
from atonc.compiler.request.options import Gates, Options
from atonc.compiler.search.generators import cut_kernels
from atonc.compiler.search.generators.compact import short_of_room
from atonc.compiler.search.generators.resident import budget
from atonc.delivery.generate import generating
from atonc.doors.cli.cli import main
from atonc.doors.python.compilation import Compilation
from atonc.insight.explain.compare import compare
from atonc.insight.explain.folder import folder_view
from atonc.insight.explain.live import distinct, live_bytes
from atonc.insight.explain.ours import network_view
from atonc.insight.explain.types import CPU, NPU, NetworkView
from atonc.insight.report import compare_text, compile_text, explain_text
from atonc.insight.report import document as doc
from atonc.insight.report.html.network import network_data, roofline
from tests.compiler.candidates import candidate_of
from tests.compiler.test_named_cases import _conv, _net
from tests.insight.views import view

DIGITS = Path(__file__).parents[2] / "examples" / "digits"


@pytest.fixture(scope="module")
def plain() -> CompileView:
    return generating.analyze(DIGITS / "digits.onnx", Options())


@pytest.fixture(scope="module")
def resident() -> CompileView:
    return generating.analyze(DIGITS / "digits.onnx", Options(verify=False, resident="all"))


# --------------------------------------------------------------------------------------------------------------- memory


def test_weights_in_ram_count_against_max_ram(resident: CompileView) -> None:
    memory = resident.memory
    assert memory.ram_bytes == memory.activations_bytes + memory.resident_bytes > memory.activations_bytes
    (said,) = generating.broken(Gates(max_ram=memory.activations_bytes), resident)
    assert f"{memory.ram_bytes:,} bytes" in said and f"resident weights {memory.resident_bytes:,}" in said
    assert not generating.broken(Gates(max_activations=memory.activations_bytes), resident)
    assert generating.broken(Gates(max_activations=memory.activations_bytes - 1), resident)


def test_a_comparison_shows_weights_in_ram_and_what_was_asked(
    plain: CompileView, resident: CompileView, tmp_path: Path
) -> None:
    for one, name in ((plain, "a"), (resident, "b")):
        generating.generate(one, tmp_path / name)
    found = compare(folder_view(tmp_path / "a"), folder_view(tmp_path / "b"))
    figures = {figure.name: (figure.a, figure.b) for figure in found.figures}
    assert figures["resident weights"] == (0, resident.memory.resident_bytes)
    assert figures["flash"] == (plain.memory.flash_bytes, resident.memory.flash_bytes)
    assert figures["RAM"] == (plain.memory.ram_bytes, resident.memory.ram_bytes)
    assert found.same_model is True
    assert [(one.option, one.a, one.b) for one in found.asked or ()] == [("--resident", None, "all")]
    text = "\n".join(doc.lines(compare_text.document(found)))
    assert "--resident: A without, B all" in text and "warning" not in text


def test_builds_of_different_models_are_said_to_be(plain: CompileView) -> None:
    other = network_view(generating.analyze(DIGITS / "digits.tflite", Options(verify=False)))
    found = compare(network_view(plain), other)
    assert found.same_model is False and "different models" in found.warnings[0]
    unknown = replace(other, reproduce={}, options=None)
    found = compare(network_view(plain), unknown)
    assert found.same_model is None and found.asked is None and "different names" in found.warnings[0]
    assert compare(unknown, replace(unknown)).warnings == (), "the same name, and nothing speaks against it"


def _picture() -> NetworkView:
    """The peak is where the input lives, which has another shape for the convolution behind it."""
    net = _net((1, 4096, 16))
    (picture,) = net.op("reshape", [net.inputs[0]], (1, 64, 64, 16))
    _conv(net, picture, 8, (3, 3), stride=(2, 2), padding=(0, 0, 1, 1))
    return view(net.graph("picture"))


def test_an_input_and_its_alias_are_one_memory() -> None:
    network = _picture()
    shared = [names for names in distinct(network.buffers).values() if names]
    assert shared, "some buffer has two names"
    data = network_data(network)
    assert max(data["live"]) == network.lower_bound_bytes <= data["totals"]["activations"] == network.memory.ram_bytes
    alive = [b.size_bytes for b in network.buffers if b.kind != "constant" and b.first <= 1 <= b.last]
    assert sum(alive) == data["live"][0] + 64 * 64 * 16, "the input under two names"
    places = [(b["a"], b["first"], b["last"]) for b in data["buffers"]]
    assert len(set(places)) == len(places) and {n for b in data["buffers"] for n in b["also"]} == set(shared[0])
    assert max(live_bytes(network).values()) == max(data["live"])


def test_what_lies_outside_is_counted_once_and_is_a_part_of_the_activations() -> None:
    """Eight tensors in turn outside the chip: two live at a time, and share what memory there is."""
    net = _net((1, 64, 64, 32))
    name = net.inputs[0]
    for _ in range(8):
        name = _conv(net, name, 32, (1, 1))
    options = Options(verify=False, schedule_without=("stripe",))
    from atonc.compiler.compile.pipeline import compile_canonical
    from tests.lower.test_stripes import small_board

    board = small_board(options)
    smaller = [replace(pool, size_bytes=64 << 10) if pool in board.on_chip else pool for pool in board.pools]
    chip = replace(board, pools=tuple(smaller))
    graph = net.graph("chain")
    found = compile_canonical(graph, graph, options, chip).layout
    homes = [home for home in found.placed.values() if home.pool == "hyperRAM" and home.kind != "constant"]
    assert len(homes) > 4 and sum(home.size_bytes for home in homes) > found.memory.activations_bytes
    assert 0 < found.spilled_bytes == found.memory.by_pool["hyperRAM"] <= found.memory.activations_bytes
    assert found.spilled_bytes <= 2 * 64 * 64 * 32 + 4096


# ------------------------------------------------------------------------------------------------------------- roofline


def test_no_layer_of_the_npu_is_above_the_roof_and_none_of_the_cpu_is_there(plain: CompileView) -> None:
    network = network_view(plain)
    found = roofline(network)
    assert found.dots and all(dot.macs_per_cycle <= found.peak for dot in found.dots)
    assert all(dot.macs_per_cycle <= found.bytes_per_cycle * dot.macs_per_byte for dot in found.dots)
    slow = network_view(generating.analyze(DIGITS / "digits.onnx", Options(verify=False, on_cpu=("conv2_conv",))))
    other = roofline(slow)
    assert [layer.name for layer in other.on_cpu] == ["conv2_conv"] and all(d.layer.on == NPU for d in other.dots)
    data = network_data(slow)
    assert [data["layers"][place]["name"] for place in data["roofline"]["cpu"]] == ["conv2_conv"]
    assert all(data["layers"][place]["on"] != CPU for place, *_ in data["roofline"]["dots"])


def test_layers_that_share_an_epoch_go_no_faster_than_the_epoch(plain: CompileView) -> None:
    """Each has a part of the cycles, by elements; one that multiplies most of all may have few of them."""
    network = network_view(plain)
    layer = next(one for one in network.layers if one.macs and one.steps)
    step = next(one for one in network.steps if one.number == layer.steps[0])
    small = replace(layer, steps=(step.number,), cycles=1, macs=step.cycles)
    (dot,) = roofline(replace(network, layers=(small,))).dots
    assert small.macs_per_cycle == step.cycles and dot.macs_per_cycle == 1.0
    assert dot.macs_per_byte == step.cycles / step.bytes_moved


# --------------------------------------------------------------------------------------------------------------- layers


def test_a_layer_has_one_name_in_all_views(plain: CompileView, tmp_path: Path) -> None:
    """conv2 is three nodes of the model: the convolution, its ReLU and its quantisation."""
    network, compiled = network_view(plain), plain.compiled
    layer = next(one for one in network.layers if "conv2_conv" in one.nodes)
    assert layer.nodes == ("conv2_conv", "conv2_real", "conv2_q") and layer.name == "conv2_conv"
    generating.generate(plain, tmp_path / "out")
    texts = [
        doc.lines(compile_text.report(plain)),
        doc.lines(explain_text.document(network, network.layers, verbose=True)),
        doc.lines(explain_text.document(folder_view(tmp_path / "out"), network.layers, verbose=True)),
        doc.lines(compare_text.document(compare(network, folder_view(tmp_path / "out")), verbose=True)),
    ]
    for lines in texts:
        assert set(re.findall(r"conv2_\w+", "\n".join(lines))) == {"conv2_conv"}
    assert compiled.report is not None
    assert {c.node for c in compiled.report.checks} <= {one.name for one in network.layers}
    assert {reason.node for reason in compiled.choices.reasons} <= {one.name for one in network.layers}
    assert {step.layer for step in network.steps} <= {one.name for one in network.layers}


def test_layers_are_counted_once(plain: CompileView, capsys: pytest.CaptureFixture[str]) -> None:
    """Operators of the canonical graph, also those that cost nothing; verification says how many tensors they have."""
    network, report, number = network_view(plain), plain.compiled.report, len(plain.compiled.graph.ops)
    assert report is not None and network.verified is not None
    assert report.layers == network.verified.layers == len(network.layers) == len(Compilation(plain).layers) == number
    assert report.tensors == len(report.checks)
    data = network_data(network)
    assert len(data["layers"]) == number and data["verified"]["layers"] == number
    text = "\n".join(doc.lines(explain_text.document(network, network.layers, everything=True)))
    free = sum(layer.on == "none" for layer in network.layers)
    assert f"{number} layers, " in text and free and f"{free} cost nothing" in text
    proof = compile_text.verify_chapter(report).title
    assert f"{number} layers, each of their {report.tensors} tensors" in proof
    assert main(["explain", str(DIGITS / "digits.onnx"), "--json", "--no-prices"]) == 0
    assert len(json.loads(capsys.readouterr().out)["layers"]) == number


def test_a_layer_may_have_several_tensors() -> None:
    net = _net((1, 8, 8, 16))
    halves = net.op("split", [net.inputs[0]], [(1, 8, 8, 8), (1, 8, 8, 8)], same_format=True, axis=3)
    for half in halves:
        _conv(net, half, 8, (1, 1))
    found = compile_graph(net.graph("halves"), Options())
    assert found.report is not None
    assert (found.report.layers, found.report.tensors) == (3, 4)


# ------------------------------------------------------------------------------------------------------- weights in RAM


def test_what_is_kept_counts_against_the_budget() -> None:
    options = Options(verify=False, resident="4k")
    found = generating.analyze(DIGITS / "digits.onnx", options).compiled
    kept = sum(home.size_bytes for home in found.layout.placed.values() if home.copy_of)
    free = free_spans(found.layout.placed, found.memory)
    assert kept > 0 and budget(candidate_of(found, options), free) == 4096 - kept


def test_room_is_short_where_weights_stay_outside(plain: CompileView, resident: CompileView) -> None:
    everything = Options(verify=False, resident="all")
    assert short_of_room(candidate_of(plain.compiled, everything)), "all of them would be faster in RAM"
    assert not short_of_room(candidate_of(resident.compiled, everything)), "all of them are there"
    some = Options(verify=False, resident="1k")
    assert not short_of_room(candidate_of(plain.compiled, some)), "the user wanted no more"


def test_nothing_is_cut_for_ram_that_is_full(plain: CompileView, monkeypatch: pytest.MonkeyPatch) -> None:
    """A network whose weights fill all RAM ended the compilation with a KeyError."""
    monkeypatch.setattr(cut_kernels, "free_spans", lambda placed, memory: [])
    assert cut_kernels.for_free_ram(candidate_of(plain.compiled, Options(verify=False, resident="all"))) == {}
