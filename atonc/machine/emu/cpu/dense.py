"""Matrix products on the CPU: MatMul, Gemm, and fully connected int8 layers.

Published: operands, transposition flags, and that int8 products run as one fully connected layer whose weights are
stored [output][input] and whose bias QLinearMatMul clears first. Inferred: the matrices of a float product are the H
and W axes (the last two in ONNX); sums are exact here, then one rounding.
"""

from __future__ import annotations

import numpy as np

from atonc.machine.emu.bus import AddressSpace
from atonc.machine.emu.cpu.quantization import clip_codes, quantization, round_half_away
from atonc.machine.emu.cpu.registry import layer, not_modelled
from atonc.machine.emu.cpu.struct_view import StructView, fail
from atonc.machine.emu.cpu.tensors import F32, I32, Array, tensor
from atonc.machine.emu.cpu.windows import MAX_WORK


def _planes(values: Array) -> Array:
    """B, H, W, C to matrices H x W per batch and channel."""
    return values.transpose(0, 3, 1, 2).astype(np.float64)


def _unplanes(values: Array) -> Array:
    return values.transpose(0, 2, 3, 1)


def _product(a: Array, b: Array, info: StructView) -> Array:
    batches_fit = all(1 in (x, y) or x == y for x, y in zip(a.shape[:2], b.shape[:2], strict=True))
    if a.shape[3] != b.shape[2] or not batches_fit:
        raise fail(f"matrices {a.shape} and {b.shape} cannot be multiplied", info.where)
    if max(a.shape[0], b.shape[0]) * max(a.shape[1], b.shape[1]) * a.shape[2] * a.shape[3] * b.shape[3] > MAX_WORK:
        raise fail("the product is larger than any board could run", info.where)
    result: Array = a @ b
    return result


@layer("matmul")
def matmul(info: StructView, memory: AddressSpace) -> None:
    a, b = (_planes(tensor(info, name).read(memory, F32)) for name in ("general.input", "operand_b"))
    tensor(info, "general.output").write(memory, _unplanes(_product(a, b, info)).astype(F32), F32)


@layer("gemm")
def gemm(info: StructView, memory: AddressSpace) -> None:
    a, b = (_planes(tensor(info, name).read(memory, F32)) for name in ("general.input", "operand_b"))
    a = a.swapaxes(2, 3) if info.integer("tA") else a
    b = b.swapaxes(2, 3) if info.integer("tB") else b
    result = info.number("alpha", 1.0) * _product(a, b, info)
    if info.has("operand_c.mem.start_offset"):
        c = _planes(tensor(info, "operand_c").read(memory, F32))
        if any(n not in (1, of) for n, of in zip(c.shape, result.shape, strict=True)):
            raise fail(f"addend {c.shape} does not fit {result.shape}", info.where)
        result = result + info.number("beta", 1.0) * c
    tensor(info, "general.output").write(memory, _unplanes(result).astype(F32), F32)


@layer("qlinearmatmul")
def qlinearmatmul(info: StructView, memory: AddressSpace) -> None:
    _fully_connected(info, memory, clear_bias=True)


@layer("gemm_integer")
def gemm_integer(info: StructView, memory: AddressSpace) -> None:
    _fully_connected(info, memory, clear_bias=False)


def _fully_connected(info: StructView, memory: AddressSpace, clear_bias: bool) -> None:
    source, target, kernel = (tensor(info, name) for name in ("general.input", "general.output", "weights"))
    inputs, outputs = source.elements, target.elements
    if source.shape[0] != 1 or kernel.elements != inputs * outputs:
        raise not_modelled(f"an int8 product of {source.shape} with {kernel.shape}", info, "only vectors are published")
    before, after = quantization(info, "is", "izp", memory), quantization(info, "os", "ozp", memory)
    by = quantization(info, "ws", "wzp", memory, outputs)
    vector = source.read(memory, source.code_type).reshape(inputs).astype(np.int64) - before.zero
    # stored [output][input]: the order in memory counts, not how the four sizes are named
    matrix = memory.read(kernel.address, kernel.elements).view(kernel.code_type).reshape(outputs, inputs)
    sums = (matrix.astype(np.int64) - by.zero.reshape(-1, 1)) @ vector + _bias(info, outputs, memory, clear_bias)
    factor = before.scale.astype(np.float64) * by.scale.astype(np.float64) / after.scale.astype(np.float64)
    codes = clip_codes(round_half_away(sums * factor) + after.zero, target.signed)
    target.write(memory, codes.reshape(target.shape), target.code_type)


def _bias(info: StructView, outputs: int, memory: AddressSpace, clear: bool) -> Array:
    if not info.has("bias.mem.start_offset"):
        return np.zeros(outputs, np.int64)
    bias = tensor(info, "bias")
    if bias.elements != outputs:
        raise fail(f"{bias.elements} values for {outputs} outputs", bias.where)
    raw = memory.view(bias.address, 4 * outputs)
    if clear:
        raw[:] = 0
    return raw.view(I32).astype(np.int64)
