"""The compiled graph as nodes with attributes, and what each layer takes: cycles, memory, error."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from atonc.insight.explain.live import live_bytes
from atonc.insight.explain.types import LayerView, NetworkView
from atonc.machine.base.errors import UnsupportedError
from atonc.machine.base.frozen import dataclass

FOLDERS = (".c",)  # files of a build that stand for its folder; all others are models


@dataclass(frozen=True)
class ExplorerNode:
    id: str  # of a layer: its name
    label: str
    attributes: tuple[tuple[str, str], ...]
    inputs: tuple[tuple[str, str], ...]  # node that gives it, tensor
    outputs: tuple[str, ...]  # tensors
    shape: tuple[int, ...] = ()
    on: str = ""


def picture(path: Path) -> NetworkView:
    """Views a model, which is compiled now, or a build, named by its network.c."""
    return _picture(path, path.stat().st_mtime_ns)


@lru_cache(maxsize=4)
def _picture(path: Path, changed: int) -> NetworkView:
    """Model Explorer asks for the graph first and for the data of its nodes later."""
    from atonc.compiler.request.options import Options
    from atonc.delivery.generate import generating
    from atonc.insight.explain.folder import folder_view
    from atonc.insight.explain.ours import network_view

    if path.suffix in FOLDERS:
        return folder_view(path)
    return network_view(generating.analyze(path, Options(verify=False)))


def nodes(network: NetworkView) -> list[ExplorerNode]:
    """The inputs of the network, then its layers."""
    givers = {tensor: layer.name for layer in network.layers for tensor in layer.outputs}
    free = dict.fromkeys(tensor for layer in network.layers for tensor in layer.inputs if tensor not in givers)
    inputs = [ExplorerNode(tensor, "input", (("tensor", tensor),), (), (tensor,)) for tensor in free]
    return inputs + [_node(layer, givers) for layer in network.layers]


def _node(layer: LayerView, givers: Mapping[str, str]) -> ExplorerNode:
    attributes = {
        "runs on": layer.on,
        "source nodes": ", ".join(layer.nodes),
        "epochs": ", ".join(map(str, layer.steps)),
        "cycles": f"{layer.cycles:,}" if layer.steps else "",
        "milliseconds": f"{layer.milliseconds:.4f}" if layer.steps else "",
        "multiplications": f"{layer.macs:,}" if layer.macs else "",
        "bottlenecks": ", ".join(f"{label} {100 * share:.0f} %" for label, share in layer.bound_by.items()),
        "chain": "; ".join(layer.chains),
        "modes": ", ".join(layer.modes),
    }
    rules = [(one.rule.id, f"{one.seen}. Fix: {one.remedy}.") for one in layer.decisions]
    return ExplorerNode(
        layer.name,
        layer.kind,
        (*((key, text) for key, text in attributes.items() if text), *rules),
        tuple((givers.get(tensor, tensor), tensor) for tensor in layer.inputs),
        layer.outputs,
        layer.shape,
        layer.on,
    )


# ----------------------------------------------------------------------------------------------------------- node data


def cycles(network: NetworkView) -> dict[str, float]:
    """Lists cycles by the name of the layer; layers that cost nothing have none."""
    return {layer.name: float(layer.cycles) for layer in network.layers if layer.steps}


def memory(network: NetworkView) -> dict[str, float]:
    """Bytes of RAM that hold something while a layer runs."""
    live = live_bytes(network)
    return {layer.name: float(max(live[s] for s in layer.steps)) for layer in network.layers if layer.steps}


def error(path: Path) -> dict[str, float]:
    """The largest difference from exact arithmetic, in codes, of each layer on the inputs that it really had."""
    from atonc.compiler.compare.inputs import make_inputs
    from atonc.compiler.compile.pipeline import compile_file
    from atonc.compiler.inputs.inputs import program_inputs
    from atonc.compiler.request.options import Options
    from atonc.compiler.verify.emulation import Emulation
    from atonc.compiler.verify.verify import check_program

    if path.suffix in FOLDERS:
        raise UnsupportedError("a build has no model to compare with", where=path.name, remedy="open the model itself")
    compiled = compile_file(path, Options(verify=False))
    inputs = program_inputs(compiled, make_inputs(compiled.source, 0))
    found = check_program(compiled, Emulation(compiled.program, compiled.graph), inputs)
    return {check.tensor: float(check.max_diff) for check in found}
