"""A model that is run piece by piece, on several samples, so that a layer can be changed before the rest runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from atonc.compiler.ir import Array
from atonc.insight.quantizing.observe import run, session
from atonc.insight.quantizing.samples import Feed

Values = dict[str, list[Array]]  # tensor -> its value for every sample


class SegmentRuns:
    """`advance` runs up to a node, without it; `apply` runs single nodes with other constants."""

    def __init__(self, model: Any, feeds: Sequence[Feed]) -> None:
        self.opsets = list(model.opset_import)
        self.ir_version = model.ir_version
        self.nodes = list(model.graph.node)
        self.constants = {proto.name: proto for proto in model.graph.initializer}
        self.place = 0
        self.values: Values = {name: [feed[name] for feed in feeds] for name in feeds[0]}
        self.count = len(feeds)
        self.last_use = {name: index for index, node in enumerate(self.nodes) for name in node.input}

    def advance(self, name: str) -> Any:
        """Runs everything before the node of this name; gives the node."""
        end = next(index for index, node in enumerate(self.nodes) if node.name == name)
        if end > self.place:
            self.values |= self.apply(self.nodes[self.place : end])
            self.place = end
        return self.nodes[end]

    def finish(self, name: str, values: list[Array]) -> None:
        """The node at the current place is done; its result is given. What nobody reads any more is forgotten."""
        self.values[name] = values
        self.place += 1
        for old in [key for key in self.values if self.last_use.get(key, -1) < self.place]:
            del self.values[old]

    def apply(self, nodes: Sequence[Any], changed: dict[str, Array] | None = None) -> Values:
        """Results of these nodes that are read later."""
        from onnx import helper, numpy_helper

        made = {name for node in nodes for name in node.output if name}
        read = list(dict.fromkeys(name for node in nodes for name in node.input if name and name not in made))
        live = [name for name in read if name in self.values and not (changed and name in changed)]
        wanted = [name for name in dict.fromkeys(n for node in nodes for n in node.output if n)
                  if self.last_use.get(name, -1) >= self.place + len(nodes) or len(nodes) == 1]  # fmt: skip
        if not wanted:
            return {}
        stored = [numpy_helper.from_array(changed[name], name) if changed and name in changed else self.constants[name]
                  for name in read if name not in live]  # fmt: skip
        kinds = {name: helper.np_dtype_to_tensor_dtype(self.values[name][0].dtype) for name in live}
        inputs = [helper.make_tensor_value_info(n, kinds[n], self.values[n][0].shape) for n in live]
        graph = helper.make_graph(list(nodes), "piece", inputs, [helper.ValueInfoProto(name=n) for n in wanted], stored)
        running = session(helper.make_model(graph, opset_imports=self.opsets, ir_version=self.ir_version))
        found: Values = {name: [] for name in wanted}
        for index in range(self.count):
            results = run(running, {name: self.values[name][index] for name in live}, wanted)
            for name, value in zip(wanted, results, strict=True):
                found[name].append(np.asarray(value))
        return found
