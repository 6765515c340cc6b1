"""One file per operator family, each with an exact reference kernel."""

from atonc.compiler.ops import conv, custom, elementwise, integers, kernel_order, movement, pool, recurrent
from atonc.compiler.ops.registry import evaluate, is_move, kinds, moved_inputs
from atonc.compiler.ops.run import RunOnDemand, run_graph, run_op, start_values
from atonc.compiler.ops.values import OpResult

_FAMILIES = (conv, custom, elementwise, integers, kernel_order, movement, pool, recurrent)

__all__ = [
    "OpResult",
    "RunOnDemand",
    "evaluate",
    "is_move",
    "kinds",
    "moved_inputs",
    "run_graph",
    "run_op",
    "start_values",
]
