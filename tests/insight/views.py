"""Networks made in the tests, as the views that reports read."""

from __future__ import annotations

from atonc.compile_view import CompileView
from atonc.cost.macs import graph_macs
from atonc.insight.ours import network_view
from atonc.insight.types import NetworkView
from atonc.ir import Graph
from atonc.options import Options
from atonc.pipeline import compile_graph, memories


def compile_view(graph: Graph, options: Options | None = None) -> CompileView:
    options = options or Options(verify=False)
    compiled, board = compile_graph(graph, options), memories(options)
    cost = compiled.cost
    return CompileView("model made in a test", "network", board, compiled, cost, graph_macs(compiled.graph))


def view(graph: Graph, options: Options | None = None) -> NetworkView:
    return network_view(compile_view(graph, options))
