"""Functions of one int8 value become one `table`, however many operators they were written with.

The table holds what the operators compute for each of the 256 codes, every rounding in between included, so it is
exact. Sums and products with a constant stay as they are: the NPU computes those better than a table. A function that
the model leaves in float (behind its own dequantisation) is looked up in a table of floats: no exponential per value.

Functions of codes of 16 bits are joined where one of their operators has no way on the NPU and the whole is near enough
to a line between few entries (`ops/curves.py`): one walk over the values instead of several, the exact codes as bytes.
"""

from __future__ import annotations

from dataclasses import field, replace
from math import prod

import numpy as np

from atonc.compiler.ir import Array, Graph, Op, Tensor
from atonc.compiler.ops import evaluate
from atonc.compiler.ops.curves import CODES as WIDE_CODES
from atonc.compiler.ops.curves import through
from atonc.compiler.ops.elementwise import BINARY
from atonc.compiler.ops.functions import FUNCTIONS, RANGES
from atonc.compiler.passes.edit import Editor, is_int8, rewrite, rewrites
from atonc.machine.base.frozen import dataclass

FORMATS = ("quantize", "dequantize", "requantize", "identity", "cast", "recode", "table")
UNARY = (*FUNCTIONS, *FORMATS)
POINTWISE = (*UNARY, *BINARY, "select", "prelu", "affine")
NATIVE = ("requantize", "add", "sub", "mul", "minimum", "maximum", "affine", "table")
MAX_ROOTS = 4  # values further back are forgotten: long chains stay cheap
CODES = np.arange(-128, 128)
WIDE_NATIVE = (
    *NATIVE,
    *BINARY,
    *RANGES,
    *FORMATS,
    "leaky_relu",
    "prelu",
    "select",
)  # or never worth a function of its own


@dataclass
class _Functions:
    """For each tensor the tensors of codes that it is a function of, with its values for all their codes."""

    known: dict[str, dict[str, Array]] = field(default_factory=dict)

    def of(self, tensor: Tensor) -> dict[str, Array]:
        found = dict(self.known.get(tensor.name, {}))
        if is_int8(tensor) and not tensor.is_constant:
            found[tensor.name] = CODES.astype(np.int8)
        elif is_wide(tensor) and not tensor.is_constant:
            found[tensor.name] = WIDE_CODES.astype(np.int16)
        return found


def make_tables(graph: Graph) -> Graph:
    functions = _Functions()
    return join_tables(rewrite(graph, lambda op, editor: _tabulate(op, editor, functions)))


def _tabulate(op: Op, editor: Editor, functions: _Functions) -> list[Op] | None:
    inputs, y = editor.tensors_of(op.inputs), editor.tensor(op.outputs[0])
    live = [tensor for tensor in inputs if not tensor.is_constant]
    if op.kind not in POINTWISE or not live:
        return None
    if not all(tensor.elements == 1 if tensor.is_constant else tensor.shape == y.shape for tensor in inputs):
        return None
    sources = [functions.of(tensor) for tensor in live]
    common = [root for root in sources[0] if all(root in source for source in sources)][-MAX_ROOTS:]
    values = {root: _evaluate(op, editor, inputs, {t.name: s[root] for t, s in zip(live, sources, strict=True)})
              for root in common}  # fmt: skip
    if not values:
        return None
    functions.known[y.name] = values
    root = common[-1]  # the nearest one
    if is_wide(editor.tensor(root)):
        root = next(name for name in common if is_wide(editor.tensor(name)))
        joined = is_wide(y) and any(tensor.name != root for tensor in live) and _needs_cpu(op, root, editor)
        if not joined or not np.isfinite(values[root]).all():
            return None
        exact, names = values[root].astype(np.int64), operators_between(op, root, editor)
        if through(exact) is None:
            return None
        return [Op("table", op.name, (root,), op.outputs, {"table": exact.astype("<i2").tobytes()}, names)]
    table: tuple[float, ...]
    if y.dtype == "float32" and op.kind not in FORMATS and np.isfinite(values[root]).all():
        table = tuple(float(value) for value in values[root])
    elif not is_int8(y) or (op.kind in NATIVE and len({t.name for t in live}) == 1 and is_int8(live[0])):
        return None
    else:
        table = tuple(int(code) for code in values[root])
    return [Op("table", op.name, (root,), op.outputs, {"table": table}, operators_between(op, root, editor))]


def is_wide(tensor: Tensor) -> bool:
    return tensor.dtype == "int16" and tensor.quant is not None and tensor.quant.is_per_tensor


def _needs_cpu(op: Op, root: str, editor: Editor) -> bool:
    """Whether anything from the root to here has no recipe on codes of 16 bits."""
    if op.kind not in WIDE_NATIVE:
        return True
    makers = (editor.producer(name) for name in op.inputs if name != root)
    return any(_needs_cpu(maker, root, editor) for maker in makers if maker is not None and maker.kind in POINTWISE)


def _evaluate(op: Op, editor: Editor, inputs: list[Tensor], values: dict[str, Array]) -> Array:
    """The operator on 256 values at once."""
    tensors, arrays = {}, []
    for tensor in inputs:
        data = values[tensor.name] if tensor.data is None else tensor.data.reshape(1)
        arrays.append(data)
        tensors[tensor.name] = replace(tensor, shape=data.shape, data=None)
    y = editor.tensor(op.outputs[0])
    tensors[y.name] = replace(y, shape=max((data.shape for data in arrays), key=prod))
    return evaluate(Graph(tensors, (), (), ()), op, arrays)[0].codes


def operators_between(op: Op, root: str, editor: Editor) -> tuple[str, ...]:
    """Names of all operators between the root and here."""
    names: list[str] = []
    waiting, seen = [op], set()
    while waiting:
        current = waiting.pop()
        names += [name for name in current.origin if name not in names]
        for name in current.inputs:
            producer = editor.producer(name) if name != root and name not in seen else None
            seen.add(name)
            if producer is not None:
                waiting.append(producer)
    return tuple(reversed(names))


@rewrites
def join_tables(op: Op, editor: Editor) -> list[Op] | None:
    """A table (or requantisation) that only a table reads goes into that table, and the other way round."""
    if op.kind not in ("table", "requantize"):
        return None
    producer = editor.producer(op.inputs[0])
    if producer is None or producer.kind not in ("table", "requantize") or not editor.read_once(op.inputs[0]):
        return None
    x, y = editor.tensor(producer.inputs[0]), editor.tensor(op.outputs[0])
    if "table" not in (op.kind, producer.kind) or not is_int8(x) or not is_int8(y):
        return None
    middle = editor.tensor(op.inputs[0])
    inner = _evaluate(producer, editor, [x], {x.name: CODES.astype(np.int8)})
    outer = _evaluate(op, editor, [middle], {middle.name: inner})
    joined = Op("table", op.name, (x.name,), op.outputs, {"table": tuple(int(v) for v in outer)},
                (*producer.origin, *op.origin))  # fmt: skip
    editor.readers[x.name] += 1
    return [joined]
