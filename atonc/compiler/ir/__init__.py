"""Level 1: the quantised model as plain data."""

from atonc.compiler.ir.types import Array, CarriedState, Graph, Op, Quantisation, Tensor, check, layer_name

__all__ = ["Array", "CarriedState", "Graph", "Op", "Quantisation", "Tensor", "check", "layer_name"]
