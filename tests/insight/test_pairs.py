"""Partners of layers where names tell nothing: operators by kernel and order, groups where one build joins several."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from atonc.compiler.request.options import Options
from atonc.delivery.generate import generating
from atonc.doors.cli.cli import main
from atonc.insight.explain import vendor
from atonc.insight.explain.compare import BY_OPERATOR, pair_layers
from atonc.insight.explain.folder import folder_view
from atonc.insight.explain.ours import network_view
from atonc.insight.explain.types import BufferView, LayerFacts, LayerView, OperatorView, StepView, TensorView

DIGITS = Path(__file__).parent.parent.parent / "examples" / "digits" / "digits.tflite"


def _layer(name: str, *operators: tuple[str, str, tuple[int, ...]], step: int = 1) -> LayerView:
    views = tuple(OperatorView(*one) for one in operators)
    kind, shape = views[0].kind, (1, 8, 8, 4)
    facts = LayerFacts(name=name, kind=kind, nodes=(name,), inputs=(), outputs=(), shape=shape, operators=views)
    own = StepView(
        number=step, on="npu", title=name, layer=name, cycles=100, milliseconds=1.0, st_cycles=100, bound_by=""
    )
    return LayerView.of(facts, [own])


def _conv(name: str, outputs: int, step: int = 1) -> LayerView:
    return _layer(name, (name, "conv", (outputs, 3, 3)), step=step)


def test_joined_operators_form_a_group() -> None:
    ours = [_conv("c0", 8), _conv("c1", 16), _layer("a2", ("a2", "add", ())), _conv("c3", 32)]
    theirs = [
        _conv("Conv2D_4", 8),
        _layer("Conv2D_9", ("Conv2D_9", "conv", (16, 3, 3)), ("Add_12", "add", ())),
        _conv("Conv2D_20", 32),
    ]
    pairs, how = pair_layers(ours, theirs)
    assert how == BY_OPERATOR
    found = {tuple(layer.name for layer in pair.a): tuple(layer.name for layer in pair.b) for pair in pairs}
    assert found == {("c0",): ("Conv2D_4",), ("c1", "a2"): ("Conv2D_9",), ("c3",): ("Conv2D_20",)}
    assert all(pair.difference == len(pair.b) - len(pair.a) for pair in pairs)


def test_the_vendors_order_is_that_of_its_numbers_and_parts_belong_together() -> None:
    ours = [_conv("c0", 8), _conv("c1", 8), _conv("c2", 8)]
    # as it runs: the third first, the second in two pieces around the first
    theirs = [_conv("Conv2D_30", 8), _conv("Conv2D_20", 8), _conv("Conv2D_10", 8), _conv("Conv2D_20", 8, step=9)]
    pairs, _ = pair_layers(ours, theirs)
    found = {pair.a[0].name: sorted(layer.name for layer in pair.b) for pair in pairs}
    assert found == {"c0": ["Conv2D_10"], "c1": ["Conv2D_20", "Conv2D_20"], "c2": ["Conv2D_30"]}


def test_one_name_in_common_does_not_hide_the_others() -> None:
    ours = [_conv("first", 8), _conv("c1", 16), _conv("c2", 32)]
    pairs, how = pair_layers(ours, [_conv("first", 8), _conv("Conv2D_5", 16), _conv("Conv2D_9", 32)])
    assert (how, len(pairs)) == (BY_OPERATOR, 3)


def test_another_model_has_no_partners() -> None:
    pairs, _ = pair_layers([_conv("c0", 8), _conv("c1", 8)], [_conv("Conv2D_1", 7), _conv("Conv2D_2", 9)])
    assert pairs == []


def test_a_concatenation_in_place_leads_to_what_was_written_there() -> None:
    def at(name: str, address: int, size: int, first: int, kind: str = "activation") -> BufferView:
        return BufferView(name, "ram", address, size, first, 9, kind)

    buffers = [at("in", 0, 64, 0, "input"), at("old", 100, 10, 1), at("left", 100, 10, 2), at("right", 110, 10, 3)]
    buffers.append(at("both", 100, 20, 4))
    reads = {1: ("in",), 2: ("in",), 3: ("in",), 5: ("both",)}
    writes = {1: ("old",), 2: ("left",), 3: ("right",), 5: ("out",)}
    found = vendor._resolved(reads, writes, buffers)
    assert found.reads[5] == ("left", "right")
    assert found.read([2]) == ("in",)


def test_words_for_the_vendors_layers() -> None:
    held = [
        TensorView("Conv2D_7_weights_inflated_3", (16, 8, 3, 3), "int8"),
        TensorView("Conv2D_9_weights", (8, 16, 1, 1), "int8"),
    ]
    operators = vendor.operators_of(["Conv2D_7", "Add_8", "Conv2D_9"], held)
    assert vendor.label_of(operators) == "depthwise conv 3x3 + add + conv 1x1"
    assert operators[0].kernel == (16, 3, 3)


def test_a_build_keeps_its_clocks_estimate_and_pages(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    view = generating.analyze(DIGITS, Options(npu_mhz=800.0, cpu_mhz=600.0))
    generating.generate(view, tmp_path / "slow")
    compiled, read = network_view(view), folder_view(tmp_path / "slow")
    assert (read.npu_mhz, read.cpu_mhz) == (800.0, 600.0)
    assert read.latency_ms == pytest.approx(compiled.latency_ms, rel=1e-3)
    assert read.st_cycles == compiled.st_cycles > 0
    assert [step.st_cycles for step in read.steps] == [step.st_cycles for step in compiled.steps]
    info = json.loads((tmp_path / "slow" / "network_c_info.json").read_text())
    on_npu = {f"epoch_{step.number}" for step in compiled.steps if step.on == "npu"}
    numbers = {node["id"] for graph in info["graphs"] for node in _epochs(graph["nodes"]) if node["name"] in on_npu}
    figures = [row["max_cycles"] for row in info["power_estimates"] if row["node_id"] in numbers]
    assert sum(figures) == compiled.st_cycles, "c_info.json says the same"
    assert main(["run", str(tmp_path / "slow"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["st_cycles"] == compiled.st_cycles
    assert (read.inputs, read.outputs, read.verified) == (compiled.inputs, compiled.outputs, compiled.verified)
    for one, two in zip(compiled.layers, read.layers, strict=True):
        assert (one.label, one.attributes, one.weights, one.operators, one.error) == (
            two.label, two.attributes, two.weights, two.operators, two.error,
        )  # fmt: skip
    page = tmp_path / "both.html"
    assert main(["compare", str(tmp_path / "slow"), str(DIGITS), "--html", str(page), "-q"]) == 0
    assert b"8 of 8 layers of A that take time have a partner" in page.read_bytes()


def _epochs(nodes: list[dict[str, object]]) -> list[dict[str, object]]:
    inner = [one for node in nodes for one in node.get("subgraph_nodes") or []]  # type: ignore[attr-defined]
    return [*nodes, *inner]
