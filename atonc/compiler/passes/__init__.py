"""Graph -> canonical graph: what the lowering may rely on; each pass is exact.

Canonical means: int8 activations (other formats at the edges and in operators for the CPU only), channel last,
`clip` in codes of the output instead of fused activations, pads inside the windows that follow, functions of one int8
value as one `table`, biases as int32 in accumulator units, quantised and float values never mixed in one operator
except in `quantize` and `dequantize`.
"""

from atonc.compiler.passes.order import PASSES, PassOptions, run

__all__ = ["PASSES", "PassOptions", "run"]
