"""The graph for Model Explorer: every layer, joined, with figures; and what Model Explorer makes of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from atonc.doors.explorer import graph
from atonc.machine.base.errors import UnsupportedError

DIGITS = Path(__file__).parent.parent.parent / "examples" / "digits" / "digits.tflite"


def test_nodes_are_joined_and_figures_add_up() -> None:
    network = graph.picture(DIGITS)
    found = {node.id: node for node in graph.nodes(network)}
    assert len(found) == len(network.layers) + 1  # and one input
    assert all(giver in found for node in found.values() for giver, _ in node.inputs)
    assert sum(graph.cycles(network).values()) == network.cycles
    live = graph.memory(network)
    assert max(live.values()) <= network.memory.ram_bytes and set(live) == set(graph.cycles(network)) <= set(found)
    softmax = next(node for node in found.values() if node.label == "softmax")
    assert softmax.on == "cpu" and "CPU-SOFTMAX" in dict(softmax.attributes)


def test_errors_are_those_of_the_emulator() -> None:
    tensors = {tensor for node in graph.nodes(graph.picture(DIGITS)) for tensor in node.outputs}
    found = graph.error(DIGITS)
    assert found and set(found) <= tensors and 0 <= max(found.values()) <= 2
    with pytest.raises(UnsupportedError):
        graph.error(Path("network.c"))


def test_model_explorer_takes_it() -> None:
    """As its server would: by the name of the extension, over JSON."""
    manager = pytest.importorskip("model_explorer.extension_manager", reason="Model Explorer is not installed")
    known = manager.ExtensionManager(["atonc.doors.explorer"])
    known.load_extensions()
    ids = {one["id"]: one for one in known.get_extensions_metadata() if one["id"].startswith("atonc")}
    assert set(ids) == {"atonc", "atonc_cycles", "atonc_memory", "atonc_error"}
    asked = {"cmdId": "convert", "extensionId": "atonc", "modelPath": str(DIGITS), "settings": {}}
    (shown,) = known.run_cmd(asked)["graphs"]
    names = {node["id"] for node in shown["nodes"]}
    tensors = {pair["value"] for node in shown["nodes"] for item in node["outputsMetadata"] for pair in item["attrs"]}
    for name in ("cycles", "memory", "error"):
        run = {"cmdId": "run", "extensionId": f"atonc_{name}", "modelPath": str(DIGITS), "graphId": shown["id"],
               "configValues": {}}  # fmt: skip
        answer = known.run_cmd(run)
        assert not answer["error"] and answer["result"]["results"].keys() <= names | tensors
        assert len(answer["result"]["results"]) > 5
