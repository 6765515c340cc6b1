"""Which nodes of a program go to the NPU, and why others do not."""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Collection
from typing import Any

from executorch.exir.backend.compile_spec_schema import CompileSpec
from executorch.exir.backend.partitioner import DelegationSpec, Partitioner, PartitionResult
from executorch.exir.backend.utils import tag_constant_data
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import OperatorSupportBase

from atonc.compiler.request.options import Options
from atonc.delivery.executorch.backend import OPTIONS, AtonBackend
from atonc.delivery.executorch.operators import COPIES, EDGE, KEPT, MOVED, PRODUCTS
from atonc.machine.base.declare import arguments
from atonc.machine.base.frozen import dataclass


@dataclass(frozen=True)
class Undelegated:
    """A node that stays with ExecuTorch's own kernels."""

    node: str
    operator: str
    module: str  # path of the module that it comes from
    reason: str

    def __str__(self) -> str:
        return f"{self.module or 'forward'}: {self.operator} ({self.node}): {self.reason}"


class AtonPartitioner(Partitioner):  # type: ignore[misc]
    """For `to_edge_transform_and_lower`. `outside`: paths of modules, and operators such as "aten.gelu.default", that
    stay with ExecuTorch. All other keyword arguments are options of `atonc.compile`. `undelegated` lists the nodes of
    the last program that stay outside, with the reason of each."""

    def __init__(self, outside: Collection[str] = (), **options: Any) -> None:
        super().__init__()
        arguments(Options, options)  # a wrong one is refused here
        self.outside = frozenset(outside)
        told = json.dumps(options, default=str).encode()
        self.delegation = DelegationSpec(AtonBackend.__name__, [CompileSpec(OPTIONS, told)])
        self.undelegated: tuple[Undelegated, ...] = ()

    def partition(self, exported_program: Any) -> PartitionResult:
        module, support = exported_program.graph_module, _Support(self.reason_against)
        found = CapabilityBasedPartitioner(module, support, allows_single_node_partition=True).propose_partitions()
        tags = {}
        for number, part in enumerate(found):
            tag = f"aton_{number}"
            tags[tag] = self.delegation
            for node in part.nodes:
                node.meta["delegation_tag"] = tag
        tag_constant_data(exported_program)
        self.undelegated = tuple(
            Undelegated(node.name, _operator(node), _path(node), self.reason_against(node))
            for node in module.graph.nodes
            if node.op == "call_function" and node.target is not operator.getitem and "delegation_tag" not in node.meta
        )
        return PartitionResult(exported_program, tags)

    def reason_against(self, node: Any) -> str:
        """Empty where a delegate can have it."""
        if node.target is operator.getitem:  # one of several outputs of a node
            return self.reason_against(node.args[0])
        path = _path(node)
        if self.outside & {_operator(node), *(path[: found.start()] for found in re.finditer(r"\.|$", path))}:
            return "it was told to stay outside"
        return reason_against(node)

    def ops_to_not_decompose(self, ep: Any) -> tuple[list[Any], Callable[[Any], bool] | None]:
        return list(KEPT), None


class _Support(OperatorSupportBase):  # type: ignore[misc]
    def __init__(self, reason: Callable[[Any], str]) -> None:
        super().__init__()
        self.reason = reason

    def is_node_supported(self, submodules: Any, node: Any) -> bool:
        return node.op == "call_function" and not self.reason(node)


def reason_against(node: Any) -> str:
    """Empty where a delegate can have it."""
    target = getattr(node.target, "_op", node.target)
    if target in PRODUCTS and len(node.args[1].meta["val"].shape) > 4:
        return "atonc has no 3-D convolutions"
    if target not in EDGE:
        return "atonc takes no such operator from ExecuTorch"
    values = node.meta.get("val")
    tensors = [one for one in (values if isinstance(values, (list, tuple)) else [values]) if one is not None]
    if any(not isinstance(size, int) for one in tensors for size in one.shape):
        return "its sizes are open, and all shapes are known when a network is compiled"
    if target in COPIES:
        order = node.kwargs.get("dim_order")
        if order is not None and list(order) != list(range(len(order))):
            return "it stores axes in another order, and delegates have them in that of the module"
    if target in PRODUCTS and not all(_is_quantised(one) for one in node.all_input_nodes[:2]):
        return "it multiplies floats: AtonQuantizer gives scales to products, or it was told to leave this one"
    return ""


def _is_quantised(node: Any) -> bool:
    """Whether its values come from codes, perhaps moved since."""
    while getattr(node.target, "_op", None) in (*MOVED, *COPIES):
        node = node.args[0]
    return "dequantize" in str(node.target)


def _operator(node: Any) -> str:
    return str(getattr(node.target, "_op", node.target))


def _path(node: Any) -> str:
    stack = node.meta.get("nn_module_stack") or {}
    return next((str(path) for path, _ in reversed(stack.values()) if path), "")
