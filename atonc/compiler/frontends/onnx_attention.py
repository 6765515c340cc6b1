"""ONNX nodes of transformers: attention with masks and caches, rotary embeddings, and their like with a state.

Each becomes operators that exist: products, sums, softmax. What is masked is said by a condition, not by a sum with
-infinity: one that is known now is a constant, and rows without any key are looked for where a mask can empty them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np

from atonc.compiler.frontends.onnx_builder import Node, translates
from atonc.compiler.frontends.onnx_elements import choose, number, reduced
from atonc.compiler.frontends.onnx_layers import biased, dense, product
from atonc.compiler.frontends.onnx_moves import require_inside
from atonc.compiler.ir import Tensor
from atonc.machine.base.errors import ModelError, UnsupportedError
from atonc.machine.base.frozen import dataclass

NO_LIMIT = -1


@dataclass(frozen=True)
class Mask:
    """What is added to the scores, and where keys count at all; `empties`: a row may have none of them."""

    added: Tensor | None
    allowed: Tensor | None
    empties: bool


def heads(node: Node, x: Tensor, count: int) -> Tensor:
    """[batch, tokens, heads x size] -> [batch, heads, tokens, size]"""
    if count < 1 or len(x.shape) != 3 or x.shape[2] % count:
        raise ModelError(f"{count} heads in shape {x.shape}", where=node.name)
    apart = node.step("reshape", x, shape=(*x.shape[:2], count, x.shape[2] // count))
    return node.step("transpose", apart, perm=(0, 2, 1, 3))


def joined(node: Node, x: Tensor) -> Tensor:
    """The way back."""
    turned = node.step("transpose", x, perm=(0, 2, 1, 3))
    return node.step("reshape", turned, shape=(*turned.shape[:2], turned.shape[2] * turned.shape[3]))


@translates("Attention")
def attention(node: Node) -> None:
    flat = len(node.input(0).shape) == 3
    counts = [node.integer("q_num_heads" if k == 0 else "kv_num_heads", 0) for k in range(3)]
    q, k, v = (heads(node, node.input(i), counts[i]) if flat else node.input(i) for i in range(3))
    if node.has(4) or node.has(5):
        k, v = (node.step("concat", node.input(4 + i), x, axis=2) for i, x in enumerate((k, v)))
    if len(q.shape) != 4 or k.shape[:3] != v.shape[:3] or k.shape[1] < 1 or q.shape[1] % k.shape[1]:
        raise ModelError(f"attention of shapes {q.shape}, {k.shape} and {v.shape}", where=node.name)
    wanted = tuple(node.outputs) + ("",) * (4 - len(node.outputs))
    made, scores = attended(node, (q, k, v), masked(node, q, k), bool(wanted[3]))
    node.bind(wanted[0], joined(node, made) if flat else made)
    for name, tensor in zip(wanted[1:], (k, v, scores), strict=True):
        if name:
            node.bind(name, tensor)


def attended(node: Node, qkv: tuple[Tensor, Tensor, Tensor], mask: Mask, tells: bool) -> tuple[Tensor, Tensor]:
    """The result, and the scores or shares that the attribute qk_matmul_output_mode asks for."""
    q, k, v = qkv
    shape = (*q.shape[:3], k.shape[2])
    several = (
        q.shape[0],
        k.shape[1],
        q.shape[1] // k.shape[1] * q.shape[2],
    )  # heads that share keys
    scale, cap, mode = node.number("scale", 0.0), node.number("softcap", 0.0), node.integer("qk_matmul_output_mode", 0)
    if not (cap >= 0 and math.isfinite(scale)):
        raise ModelError(f"an attention with scale {scale:g} and softcap {cap:g}", where=node.name,
                         rule="the scale is finite, and softcap bounds the scores or is 0")  # fmt: skip
    scaled = node.step("mul", q, number(node, scale or 1.0 / math.sqrt(q.shape[3]), q))
    made = product(node, node.reshaped(scaled, (*several, q.shape[3])), k, transposed=True)
    stages = [node.reshaped(made, shape)]
    made = stages[0]
    if cap:
        bent = node.step("tanh", node.step("div", made, number(node, cap, made)))
        made = node.step("mul", bent, number(node, cap, made))
    stages.append(made)
    made = made if mask.added is None else node.step("add", made, mask.added)
    if mask.allowed is not None:
        made = choose(node, mask.allowed, made, number(node, -math.inf, made))
    stages.append(made)
    made = node.step("softmax", made, axis=3, beta=1.0)
    if mask.empties:
        made = choose(node, _empty_rows(node, mask), number(node, 0.0, made), made)
    stages.append(made)
    if not 0 <= mode < len(stages):
        raise ModelError(f"qk_matmul_output_mode {mode}", where=node.name)
    shares = node.reshaped(made, (*several, k.shape[2]))
    result = node.reshaped(product(node, shares, v), (*q.shape[:3], v.shape[3]))
    return result, stages[mode]


def _empty_rows(node: Node, mask: Mask) -> Tensor:
    """Rows in which nothing is left."""
    added = mask.added
    if mask.allowed is not None:
        none = node.builder.constant(f"{node.name}:none", np.array(0.0, np.float32)) if added is None else added
        added = choose(node, mask.allowed, none, number(node, -math.inf, none))
    assert added is not None
    largest = reduced(node, "reduce_max", added, (len(added.shape) - 1,))
    return node.step("equal", largest, number(node, -math.inf, largest), dtype="bool")


def masked(node: Node, q: Tensor, k: Tensor) -> Mask:
    rows, columns = q.shape[2], k.shape[2]
    key, query = np.arange(columns, dtype=np.int64), np.arange(rows, dtype=np.int64)[:, None]
    given = node.optional(3)
    lengths = None if not node.has(6) else node.reshaped(node.input(6), (q.shape[0], 1, 1, 1))
    known = np.ones((rows, columns), np.bool_)  # what does not depend on lengths
    parts = []
    if given is not None and given.shape[-1] < columns:
        known &= key < given.shape[-1]
        given = _widened(node, given, columns)
    before = node.input(4).shape[2] if node.has(4) else 0
    left, right = (node.integer(f"{side}_window_size", NO_LIMIT) for side in ("left", "right"))
    right = min(right, 0) if right != NO_LIMIT and node.integer("is_causal", 0) else right
    right = 0 if node.integer("is_causal", 0) else right
    if min(left, right) < NO_LIMIT:
        raise ModelError(f"a window of {left} and {right}", where=node.name)
    if lengths is None:
        known &= (left == NO_LIMIT) | (query + before - key <= left)
        known &= (right == NO_LIMIT) | (key - query - before <= right)
    else:
        offset = node.step("sub", lengths, _whole(node, np.array(rows)), dtype="int64")
        parts.append(node.step("less", _whole(node, key), lengths, dtype="bool"))
        if left != NO_LIMIT:
            parts.append(node.step("less_equal", offset, _whole(node, key - query + left), dtype="bool"))
        if right != NO_LIMIT:
            parts.append(node.step("less_equal", _whole(node, key - query - right), offset, dtype="bool"))
    empties = bool(parts) or given is not None or not known.any(axis=1).all()
    if not known.all():
        parts.append(node.builder.constant(f"{node.name}:allowed", known))
    if given is not None and given.dtype == "bool":
        parts.append(given)
        given = None
    allowed = reduce(lambda a, b: node.step("logical_and", a, b, dtype="bool"), parts) if parts else None
    return Mask(given, allowed, empties)


def _whole(node: Node, values: np.ndarray) -> Tensor:
    return node.builder.constant(f"{node.name}:place", values.astype(np.int64))


def _widened(node: Node, mask: Tensor, columns: int) -> Tensor:
    """Up to the number of keys; what is added there does not count."""
    shape = (*mask.shape[:-1], columns - mask.shape[-1])
    rest = node.builder.constant(f"{node.name}:rest", np.zeros(shape, mask.dtype))
    return node.step("concat", mask, rest, axis=len(shape) - 1)


# --- onnxruntime's own, fused of parts -------------------------------------------------------------------------------


@translates("com.microsoft.MultiHeadAttention", "com.microsoft.Attention")
def packed_attention(node: Node) -> Tensor:
    """Without masks and caches: projections in one product, or projected before."""
    fused = node.kind.endswith(".Attention")
    more = (3, 4, 5, 6) if fused else (4, 5, 6, 7)
    if any(map(node.has, more)) or any(node.outputs[1:]) or (fused and len(node.input(1).shape) != 2):
        raise UnsupportedError(f"{node.kind} with a mask or a cache", where=node.name)
    bias, count = node.optional(2 if fused else 3), node.integer("num_heads", 0)
    if fused:
        sizes = node.ints("qkv_hidden_sizes", (node.input(1).shape[1] // 3,) * 3)
        whole = dense(node, node.input(0), node.input(1), False, bias)
        parts = _parts(node, whole, sizes)
    else:
        parts = [node.input(k) for k in range(3)]
        shifts = [None] * 3 if bias is None else _parts(node, bias, [x.shape[-1] for x in parts])
        parts = [x if b is None else node.step("add", x, b) for x, b in zip(parts, shifts, strict=True)]
    q, k, v = (heads(node, x, count) for x in parts)
    known = np.tril(np.ones((q.shape[2], k.shape[2]), np.bool_)) if node.integer("unidirectional", 0) else None
    allowed = None if known is None else node.builder.constant(f"{node.name}:allowed", known)
    return joined(node, attended(node, (q, k, v), Mask(None, allowed, False), False)[0])


def _parts(node: Node, x: Tensor, sizes: Sequence[int]) -> list[Tensor]:
    """Along the last axis."""
    ends = np.cumsum(sizes).tolist()
    if ends[-1] != x.shape[-1]:
        raise ModelError(f"{x.shape} cannot be split into {list(sizes)}", where=node.name)
    whole = [slice(0, size) for size in x.shape[:-1]]
    return [node.sliced(x, [*whole, slice(end - size, end)]) for size, end in zip(sizes, ends, strict=True)]


@translates("com.microsoft.BiasGelu", "com.microsoft.FastGelu", "com.microsoft.QuickGelu")
def fused_gelu(node: Node) -> Tensor:
    x, bias = node.input(0), node.optional(1)
    x = x if bias is None else node.step("add", x, bias)
    if node.kind.endswith("QuickGelu"):
        return gated(node, x, node.number("alpha", 1.702))
    return node.step("gelu", x, approximate=node.kind.endswith("FastGelu"))


translates("Swish")(lambda node: gated(node, node.input(0), node.number("alpha", 1.0)))


@translates("SwiGLU")
def swiglu(node: Node) -> Tensor:
    return node.step("mul", gated(node, node.input(0), node.number("alpha", 1.0)), node.input(1))


def gated(node: Node, x: Tensor, alpha: float) -> Tensor:
    if alpha == 1.0:
        return node.step("silu", x)
    return node.step("mul", x, node.step("logistic", node.step("mul", x, number(node, alpha, x))))


# --- rotation --------------------------------------------------------------------------------------------------------


@translates("RotaryEmbedding")
def rotary_embedding(node: Node) -> Tensor:
    """Pairs of values, halves apart or side by side, turned by an angle for each position."""
    x, flat = node.input(0), len(node.input(0).shape) == 3
    if flat:
        count = node.integer("num_heads", 0)
        if count < 1 or x.shape[2] % count:
            raise ModelError(f"{count} heads in shape {x.shape}", where=node.name)
        x = node.step("reshape", x, shape=(*x.shape[:2], count, x.shape[2] // count))
    turned = node.integer("rotary_embedding_dim", 0) or x.shape[3]
    if turned % 2 or not 0 < turned <= x.shape[3]:
        raise ModelError(f"a rotation of {turned} of {x.shape[3]} values a head", where=node.name)
    tokens = x.shape[1 if flat else 2]
    shape = (x.shape[0], tokens, 1, turned // 2) if flat else (x.shape[0], 1, tokens, turned // 2)
    cos, sin = (node.reshaped(_of_positions(node, 1 + k), shape) for k in (0, 1))
    whole = [slice(0, size) for size in x.shape[:3]]
    side = bool(node.integer("interleaved", 0))
    half = turned // 2
    windows = (slice(0, turned, 2), slice(1, turned, 2)) if side else (slice(0, half), slice(half, turned))
    a, b = (node.sliced(x, [*whole, window]) for window in windows)
    real = node.step("sub", node.step("mul", a, cos), node.step("mul", b, sin))
    other = node.step("add", node.step("mul", a, sin), node.step("mul", b, cos))
    if side:
        apart = [node.step("reshape", part, shape=(*part.shape, 1)) for part in (real, other)]
        made = [node.step("reshape", node.step("concat", *apart, axis=4), shape=(*x.shape[:3], turned))]
    else:
        made = [real, other]
    if turned < x.shape[3]:
        made.append(node.sliced(x, [*whole, slice(turned, x.shape[3])]))
    result = made[0] if len(made) == 1 else node.step("concat", *made, axis=3)
    return node.reshaped(result, node.input(0).shape)


def _of_positions(node: Node, index: int) -> Tensor:
    table = node.input(index)
    if not node.has(3):
        return table
    require_inside(node, node.input(3), table.shape[:1])
    return node.step("gather", table, node.input(3), axis=0)


# --- with a state ----------------------------------------------------------------------------------------------------


@translates("CausalConvWithState")
def causal_conv(node: Node) -> None:
    """A convolution over what came before; the last values are the next state."""
    x, weights = node.input(0), node.input(1)
    if len(x.shape) != 3 or len(weights.shape) != 3:
        raise ModelError(f"a convolution of shapes {x.shape} and {weights.shape}", where=node.name)
    if weights.data is None:
        raise node.late(1, "weights")
    before = weights.shape[2] - 1
    if before:
        zeros = np.zeros((*x.shape[:2], before), np.float32 if x.quant is not None else x.dtype)
        past = node.input(3) if node.has(3) else node.builder.constant(f"{node.name}:past", zeros)
        x = node.step("concat", past, x, axis=2)
    kernel = node.builder.constant(f"{weights.name}:ohwi", weights.data[:, None].transpose(0, 1, 3, 2), weights.quant)
    window: dict[str, Any] = {"stride": (1, 1), "dilation": (1, 1), "padding": (0, 0, 0, 0), "layout": "NCHW"}
    made = biased(node, x, kernel, node.optional(2), window | {"groups": weights.shape[0]})
    made = node.step("silu", made) if node.text("activation", "none") in ("silu", "swish") else made
    node.bind(node.outputs[0], made)
    if len(node.outputs) > 1 and node.outputs[1]:
        end = x.shape[2]
        node.bind(node.outputs[1], node.sliced(x, [*(slice(0, n) for n in x.shape[:2]), slice(end - before, end)]))


MOST_TOKENS = 64


@translates("LinearAttention")
def linear_attention(node: Node) -> None:
    """One token after the other, written out: a state of keys by values, which fades and is corrected."""
    count, shared = node.integer("q_num_heads", 0), node.integer("kv_num_heads", 0)
    rule = node.text("update_rule", "gated_delta")
    q, k, v = heads(node, node.input(0), count), heads(node, node.input(1), shared), heads(node, node.input(2), shared)
    batch, tokens, size = q.shape[0], q.shape[2], q.shape[3]
    if tokens > MOST_TOKENS or count % shared or rule not in ("linear", "gated", "delta", "gated_delta"):
        what = f"LinearAttention {rule!r} of {tokens} tokens, {count} heads on {shared}"
        raise UnsupportedError(what, where=node.name, rule=f"its tokens are written out, at most {MOST_TOKENS}")
    fades = heads(node, node.input(4), shared) if rule.startswith("gated") else None
    shifts = heads(node, node.input(5), node.input(5).shape[2]) if rule.endswith("delta") else None
    scaled = node.step("mul", q, number(node, node.number("scale", 0.0) or 1.0 / math.sqrt(size), q))
    start = np.zeros((batch, shared, size, v.shape[3]), "float32")
    state = node.input(3) if node.has(3) else node.builder.constant(f"{node.name}:start", start)
    made = []
    for t in range(tokens):
        key, value = _token(node, k, t), _token(node, v, t)
        column = node.step("transpose", key, perm=(0, 1, 3, 2))
        if fades is not None:
            fade = node.step("transpose", node.step("exp", _token(node, fades, t)), perm=(0, 1, 3, 2))
            state = node.step("mul", state, fade)
        if shifts is not None:
            known = node.step("sub", value, product(node, key, state))
            value = node.step("mul", known, _token(node, shifts, t))
        state = node.step("add", state, product(node, column, value))
        asked = node.reshaped(_token(node, scaled, t), (batch, shared, count // shared, size))
        made.append(node.reshaped(product(node, asked, state), (batch, count, 1, v.shape[3])))
    node.bind(node.outputs[0], joined(node, made[0] if tokens == 1 else node.step("concat", *made, axis=2)))
    if len(node.outputs) > 1 and node.outputs[1]:
        node.bind(node.outputs[1], state)


def _token(node: Node, x: Tensor, t: int) -> Tensor:
    return node.sliced(x, [*(slice(0, n) for n in x.shape[:2]), slice(t, t + 1), slice(0, x.shape[3])])
