"""Level 1: the quantised model as plain data."""

from atonc.ir.check import check
from atonc.ir.types import Array, Graph, Op, Quantisation, State, Tensor, layer_name

__all__ = ["Array", "Graph", "Op", "Quantisation", "State", "Tensor", "check", "layer_name"]
