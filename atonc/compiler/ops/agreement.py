"""Do the shapes of a graph agree? And what a user reads where arithmetic fails inside an operator.

The text of NumPy or Python names neither operator nor cause, so it never stands alone: it comes last, behind what the
operator was given, which rule it broke and what to do.
"""

from __future__ import annotations

from atonc.compiler.ir import Graph, Op, Tensor
from atonc.compiler.ops.shapes import infer_shape
from atonc.machine.base.errors import AtoncError, InternalError, ModelError

RULE = "the shapes of a graph agree: an operator can compute with what it reads and gives the shape that is stated"
MEMORY_RULE = "what one operator computes fits into the memory of this machine"
REPORT = "if the model runs elsewhere this is a mistake of atonc: report it together with the file"
CUT = "--cut-output-tensors compiles the part of the network before this operator"
SAME_SIZE = ("reshape",)  # takes its shape from its output


def impossible(graph: Graph, op: Op, doing: str, error: Exception) -> ModelError:
    """Makes the error for an operator in which Python or NumPy gave up; `doing`: what could not be done."""
    what = f"{op.kind} {doing}: {disagreement(graph, op) or _seen(graph, op)}{said(error)}"
    if isinstance(error, MemoryError):
        return ModelError(what, where=op.name, rule=MEMORY_RULE, remedy=CUT)
    return ModelError(what, where=op.name, rule=RULE, remedy=f"{REPORT}; {CUT}")


def said(error: Exception) -> str:
    """What the arithmetic itself complained about, for who has to look for the cause."""
    return f" ({type(error).__name__}: {str(error)[:300]})"


def disagreement(graph: Graph, op: Op) -> str:
    """What does not fit between the operator and its tensors; "" if nothing is seen."""
    shapes = [graph.tensors[name].shape for name in op.inputs if name]
    if len(op.outputs) != 1 or not shapes:
        return ""
    out = graph.tensors[op.outputs[0]]
    if op.kind in SAME_SIZE:
        read = graph.tensors[op.inputs[0]].elements
        return "" if read == out.elements else f"{_seen(graph, op)}: {read} values become {out.elements}"
    try:
        expected = infer_shape(op.kind, op.attrs, shapes)
    except (AtoncError, ValueError, IndexError, KeyError, TypeError, ZeroDivisionError) as error:
        return f"{_seen(graph, op)}: {error}" if isinstance(error, AtoncError) else _seen(graph, op)
    return "" if expected in (None, out.shape) else f"{_seen(graph, op)}: {_shape(expected or ())} was expected"


def require_agreement(source: Graph, canonical: Graph) -> Graph:
    """The canonical graph, unless a pass broke it: a mistake of ours where the model itself agrees."""
    for op in canonical.ops:
        if found := disagreement(canonical, op):
            broken = any(disagreement(source, own) for own in source.ops)
            kind, remedy = (ModelError, "export the model again") if broken else (InternalError, f"{REPORT}; {CUT}")
            raise kind(f"{op.kind}: {found}", where=op.name, rule=RULE, remedy=remedy)
    return canonical


def _seen(graph: Graph, op: Op) -> str:
    read = [graph.tensors[name] for name in op.inputs if name in graph.tensors]
    written = [graph.tensors[name] for name in op.outputs if name in graph.tensors]
    return f"{', '.join(map(_named, read))} -> {', '.join(map(_named, written))}"


def _named(tensor: Tensor) -> str:
    return f"{tensor.name[-60:]} {_shape(tensor.shape)}"


def _shape(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape)) or "()"
