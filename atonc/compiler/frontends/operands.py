"""Do the operands of every operator fit together? `ir.check` looks at tensors, `ops.shapes` at results with a rule;
here is what is left: numbers of operands, and results whose shape the file may choose.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import starmap
from math import prod

import numpy as np

from atonc.compiler.ir import Graph, Op, Tensor
from atonc.compiler.ops.elementwise import BINARY
from atonc.compiler.ops.shapes import broadcast
from atonc.machine.base.errors import ModelError, UnsupportedError
from atonc.machine.base.words import count

MOST_PRODUCTS = 1 << 36
MOST_PIXELS = 1 << 26  # of a picture with its border

Shape = tuple[int, ...]
Inputs = Sequence[Tensor | None]
Check = Callable[[Op, Inputs, Sequence[Tensor]], bool]

SEVERAL_OUTPUTS = ("custom", "split", "unpack")
INPUTS = {"select": 3, "conv": 2, "transpose_conv": 2, "dense": 2, "matmul": 2, "prelu": 2, "gather": 2, "gather_nd": 2,
          "lstm": 4, "recurrent": 3}  # fmt: skip
INPUTS |= dict.fromkeys(BINARY, 2)


def check_operands(graph: Graph) -> Graph:
    """The graph itself; raises a ModelError that names the operator."""
    for op in graph.ops:
        inputs = [graph.tensors[name] if name else None for name in op.inputs]
        outputs = [graph.tensors[name] for name in op.outputs if name]
        require_operands(op)
        for tensor in (*inputs, *outputs):
            _check_activation(op, tensor)
        try:
            fits = op.kind not in _checks or _checks[op.kind](op, inputs, outputs)
        except (IndexError, ZeroDivisionError):  # of shapes with fewer dimensions than the operator needs
            fits = False
        if not fits:
            shapes = ", ".join(str(tensor.shape) for tensor in inputs if tensor is not None)
            results = ", ".join(str(tensor.shape) for tensor in outputs)
            raise ModelError(f"{op.kind} cannot make {results} of {shapes}", where=op.name)
    return graph


def require_operands(op: Op) -> None:
    """Requires as many operands as the operator needs, by name."""
    needed = max(1, len(op.inputs)) if op.kind in ("concat", "pack") else INPUTS.get(op.kind, 1)
    if len(op.inputs) < needed or not all(op.inputs[:needed]):
        raise ModelError(f"{op.kind} lacks one of its {needed} inputs", where=op.name)
    if not op.outputs or not all(op.outputs) or (len(op.outputs) > 1 and op.kind not in SEVERAL_OUTPUTS):
        raise ModelError(f"{op.kind} with {count(len(op.outputs), 'output')}", where=op.name)


def _check_activation(op: Op, tensor: Tensor | None) -> None:
    if tensor is not None and tensor.data is not None and tensor.data.dtype.kind == "f" and np.isnan(tensor.data).any():
        raise ModelError(f"a value of the constant {tensor.name!r} is not a number", where=op.name,
                         rule="what is computed from it would be none either", remedy="export it again")  # fmt: skip
    if tensor is None or tensor.is_constant:
        return
    if tensor.elements == 0:
        raise ModelError(f"{tensor.name!r} of shape {tensor.shape} has no elements", where=op.name)
    if tensor.quant is not None and not tensor.quant.is_per_tensor:
        raise UnsupportedError(f"{tensor.name!r} is computed and has a scale per channel", where=op.name)


def _shape(inputs: Inputs, index: int = 0) -> Shape:
    found = inputs[index]
    return () if found is None else found.shape


def _layer_fits(inputs: Inputs, channels: int) -> bool:
    """Weights with a scale per output channel, or one; as many biases as channels."""
    weights, bias = inputs[1], inputs[2] if len(inputs) > 2 else None
    if weights is None or weights.elements == 0 or (bias is not None and bias.elements not in (1, channels)):
        return False
    return weights.quant is None or weights.quant.is_per_tensor or weights.quant.axis == 0


def _conv(op: Op, inputs: Inputs, outputs: Sequence[Tensor]) -> bool:
    return _layer_fits(inputs, _shape(inputs, 1)[0]) and _shape(inputs, 1)[0] % op.attrs.get("groups", 1) == 0


def _pool(op: Op, inputs: Inputs, outputs: Sequence[Tensor]) -> bool:
    """Every window sees the picture: the border is narrower than the window."""
    window = op.attrs["window"] if len(op.attrs["window"]) == 2 else (1, *op.attrs["window"])
    spread = op.attrs.get("dilation", (1, 1))
    reach = [(size - 1) * step + 1 for size, step in zip(window, spread, strict=True)]
    return all(0 <= border < size for border, size in zip(op.attrs["padding"], (*reach, *reach), strict=True))


def _transpose_conv(op: Op, inputs: Inputs, outputs: Sequence[Tensor]) -> bool:
    """Weights [out / groups x groups, height, width, in / groups] as `ops.conv` takes them."""
    x, weights, y = _shape(inputs), _shape(inputs, 1), outputs[0].shape
    groups, first = op.attrs.get("groups", 1), op.attrs["layout"] == "NCHW"
    if len(weights) != 4 or len(x) not in (3, 4) or len(y) != len(x) or weights[0] % groups:
        return False
    given, made = (x[1], y[1]) if first else (x[-1], y[-1])
    return given == weights[3] * groups and made == weights[0] and x[0] == y[0] and _layer_fits(inputs, made)


def _dense(op: Op, inputs: Inputs, outputs: Sequence[Tensor]) -> bool:
    x, weights = prod(_shape(inputs)), _shape(inputs, 1)
    if len(weights) != 2 or x % weights[1] or outputs[0].shape[-1:] != weights[:1]:
        return False
    return outputs[0].elements == x // weights[1] * weights[0] and _layer_fits(inputs, weights[0])


def _slice(op: Op, inputs: Inputs, outputs: Sequence[Tensor]) -> bool:
    parts = starmap(slice, zip(op.attrs["starts"], op.attrs["stops"], op.attrs["steps"], strict=True))
    sizes = [len(range(*part.indices(size))) for part, size in zip(parts, _shape(inputs), strict=True)]
    return prod(sizes) == outputs[0].elements


def _split(op: Op, inputs: Inputs, outputs: Sequence[Tensor]) -> bool:
    x, axis = _shape(inputs), op.attrs["axis"]
    rest = x[:axis] + x[axis + 1 :]
    if op.kind == "unpack":
        return len(outputs) == x[axis] and all(y.shape == rest for y in outputs)
    same = all(len(y.shape) == len(x) and y.shape[:axis] + y.shape[axis + 1 :] == rest for y in outputs)
    return same and sum(y.shape[axis] for y in outputs) == x[axis]


def _gather(op: Op, inputs: Inputs, outputs: Sequence[Tensor]) -> bool:
    indices, size = inputs[1], _shape(inputs)[op.attrs["axis"]]
    if indices is None or indices.dtype not in ("int32", "int64", "uint8", "int8", "int16", "bool"):
        return False
    if indices.data is None:
        return size > 0
    return bool(((indices.data >= -size) & (indices.data < size)).all())


def _of_shapes(fits: Callable[[Op, Shape, Shape], bool]) -> Check:
    """Where the shapes of the first input and of the result decide."""
    return lambda op, inputs, outputs: fits(op, _shape(inputs), outputs[0].shape)


_same_elements = _of_shapes(lambda op, x, y: prod(x) == prod(y))
_resized = _of_shapes(lambda op, x, y: len(x) == len(y) and bool(len(x) != 4 or op.attrs.get("scales") or x[0] == y[0]))
_reduced = _of_shapes(lambda op, x, y: prod(y) * x[op.attrs["axis"]] == prod(x))
_checks: dict[str, Check] = {
    "conv": _conv,
    "max_pool": _pool,
    "average_pool": _pool,
    "transpose_conv": _transpose_conv,
    "dense": _dense,
    **dict.fromkeys(("reshape", "squeeze", "expand_dims", "flatten"), _same_elements),
    "expand": _of_shapes(lambda op, x, y: broadcast([x, y]) == y),
    "tile": _of_shapes(lambda op, x, y: len(x) == len(y) and all(b % a == 0 for a, b in zip(x, y, strict=True))),
    "slice": _slice,
    "split": _split,
    "unpack": _split,
    "resize_linear": _resized,
    "resize_nearest": _resized,
    "arg_max": _reduced,
    "arg_min": _reduced,
    "gather": _gather,
    "gather_nd": lambda op, inputs, outputs: _gathered(_shape(inputs), _shape(inputs, 1), outputs[0].shape),
}


def _gathered(x: Shape, indices: Shape, y: Shape) -> bool:
    return bool(indices) and y == indices[:-1] + x[indices[-1] :] and indices[-1] <= len(x)


# ---------------------------------------------------------------------------------------------------------------- work


def check_work(graph: Graph) -> Graph:
    """Few bytes may ask for days: no operator needs more than a chip like this could do in a second or two."""
    for op in graph.ops:
        inputs = [graph.tensors[name] if name else None for name in op.inputs]
        if op.kind == "conv" or (op.kind.endswith("_pool") and graph.tensors[op.inputs[0]].is_float):
            _check_border(op, _shape(inputs))
        products = _products(op, inputs, graph.tensors[op.outputs[0]])
        if products > MOST_PRODUCTS:
            raise UnsupportedError(
                f"{op.kind} of {products:,} products", where=op.name, rule=f"at most {MOST_PRODUCTS:,} per layer"
            )
    return graph


def _check_border(op: Op, x: Shape) -> None:
    sizes = x[2:] if op.attrs["layout"] == "NCHW" else x[1:-1]
    sizes = (1, *sizes) if len(sizes) == 1 else sizes
    top, left, bottom, right = op.attrs["padding"]
    needed = (sizes[0] + top + bottom) * (sizes[1] + left + right)
    if needed > MOST_PIXELS:
        raise UnsupportedError(f"a window that reaches over {needed:,} pixels", where=op.name)


def _products(op: Op, inputs: Inputs, y: Tensor) -> int:
    x = inputs[0]
    if op.kind == "conv":
        return y.elements * prod(_shape(inputs, 1)[1:])
    if op.kind == "transpose_conv":
        return prod(_shape(inputs)) * prod(_shape(inputs, 1)[:3])
    if op.kind == "dense":
        return y.elements * _shape(inputs, 1)[1]
    if op.kind == "lstm":
        return y.elements * 4 * (_shape(inputs)[-1] + y.shape[-1])
    if op.kind == "recurrent":
        return y.elements * _shape(inputs, 1)[0]
    if op.kind == "matmul":
        return y.elements * _shape(inputs)[-2 if op.attrs.get("transpose_a") else -1]
    if op.kind.endswith("_pool"):
        window = op.attrs["window"]
        return y.elements * (prod(window) if x is not None and x.is_float else 1)
    return y.elements
