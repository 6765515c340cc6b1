"""What Model Explorer loads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from model_explorer import graph_builder as gb
from model_explorer import node_data_builder as nd
from model_explorer.adapter import Adapter, AdapterMetadata
from model_explorer.node_data_provider import (
    GetConfigEditorsResult,
    NodeDataProvider,
    NodeDataProviderFilter,
    NodeDataProviderMetadata,
    NodeDataProviderResult,
)

from atonc.doors.explorer import graph
from atonc.insight.explain.types import span_of
from atonc.machine.base.errors import AtoncError
from atonc.machine.base.words import ms_text

ID = "atonc"
ON_CPU = "#fbe3d3"
GRADIENT = [nd.GradientItem(0.0, "#ffffff", "#1d2433"), nd.GradientItem(1.0, "#d55e00", "#ffffff")]
_ONLY_OURS = NodeDataProviderFilter(adapterIds=[ID])


class CompiledGraph(Adapter):
    """The graph that atonc compiles, not the one of the file: fused, each layer with where it runs and why."""

    metadata = AdapterMetadata(
        id=ID,
        name="atonc: compiled for the STM32N6",
        description="The model as the Neural-ART NPU runs it: layers with epochs, cycles, memory and reasons.",
        fileExts=["tflite", "onnx", "c"],
    )

    def convert(self, model_path: str, settings: dict[str, Any]) -> dict[str, Any]:
        network = graph.picture(Path(model_path))
        figures = {
            "latency": f"{ms_text(network.latency_ms, 3)}, {network.basis}{span_of(network, 3)}",
            "RAM": f"{network.memory.ram_bytes:,} bytes",
            "activations": f"{network.memory.activations_bytes:,} bytes",
            "weights": f"{network.memory.weights_bytes:,} bytes",
            "compiled by": network.tool,
        }
        found = [_node(node) for node in graph.nodes(network)]
        return {"graphs": [gb.Graph(id=network.name, nodes=found, groupNodeAttributes={"": figures})]}


def _node(node: graph.ExplorerNode) -> Any:
    shape = "x".join(map(str, node.shape))
    outputs = [
        gb.MetadataItem(str(k), [gb.KeyValue("__tensor_tag", name), gb.KeyValue("tensor_name", name),
                                 *([gb.KeyValue("tensor_shape", shape)] if k == 0 and shape else [])])
        for k, name in enumerate(node.outputs)
    ]  # fmt: skip
    edges = [gb.IncomingEdge(giver, targetNodeInputId=str(k)) for k, (giver, _) in enumerate(node.inputs)]
    return gb.GraphNode(
        id=node.id,
        label=node.label,
        attrs=[gb.KeyValue(key, text) for key, text in node.attributes],
        incomingEdges=edges,
        outputsMetadata=outputs,
        style=gb.GraphNodeStyle(backgroundColor=ON_CPU) if node.on == "cpu" else None,
    )


class Figures(NodeDataProvider):
    """What the nodes are coloured by."""

    metadata = [  # noqa: RUF012 - the base class wants it so
        NodeDataProviderMetadata(f"{ID}_{name}", title, text, icon=icon, filter=_ONLY_OURS)
        for name, title, text, icon in (
            ("cycles", "cycles", "Cycles that each layer takes, predicted", "timer"),
            ("memory", "live memory", "Bytes of activations that live while a layer runs", "memory"),
            ("error", "error in LSB", "Largest difference from exact arithmetic, on the emulator", "rule"),
        )
    ]

    def get_config_editors(self, provider_id: str) -> Any:
        return GetConfigEditorsResult()

    def run(self, provider_id: str, model_path: str, graph_id: str, config_values: dict[str, Any], graph: Any) -> Any:
        name = provider_id.removeprefix(f"{ID}_")
        try:
            results = {node: nd.NodeDataResult(value) for node, value in values(name, Path(model_path)).items()}
        except AtoncError as error:
            return NodeDataProviderResult(error=str(error))
        return NodeDataProviderResult(nd.GraphNodeData(results=results, name=name, gradient=GRADIENT))


def values(name: str, path: Path) -> dict[str, float]:
    if name == "error":
        return graph.error(path)
    network = graph.picture(path)
    return graph.cycles(network) if name == "cycles" else graph.memory(network)
