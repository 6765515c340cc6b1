"""Networks made in the tests, as the views that reports read."""

from __future__ import annotations

from atonc.compiler.compile.compile_view import CompileView
from atonc.compiler.compile.pipeline import compile_graph, memories
from atonc.compiler.ir import Graph
from atonc.compiler.ops.shapes import graph_macs
from atonc.compiler.request.options import Options
from atonc.insight.explain.ours import network_view
from atonc.insight.explain.types import NetworkView


def compile_view(graph: Graph, options: Options | None = None) -> CompileView:
    options = options or Options(verify=False)
    compiled, board = compile_graph(graph, options), memories(options)
    cost = compiled.cost
    return CompileView("model made in a test", "network", board, compiled, cost, graph_macs(compiled.graph), options)


def view(graph: Graph, options: Options | None = None) -> NetworkView:
    return network_view(compile_view(graph, options))
