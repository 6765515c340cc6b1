"""QuantizeLinear, DequantizeLinear and requantisation on the CPU.

Published: tensors, scales and zero points, and that one conversion routine does the work. Inferred: its formulas,
those of ONNX and TFLite: code = round(value / scale) + zero point with ties to even; value = (code - zero point) *
scale in float32.
"""

from __future__ import annotations

from atonc.machine.emu.bus import AddressSpace
from atonc.machine.emu.cpu.quantization import (
    clip_codes,
    dequantize,
    quantization,
    read_real,
    round_to_even_f32,
    write_codes,
)
from atonc.machine.emu.cpu.registry import layer
from atonc.machine.emu.cpu.struct_view import StructView
from atonc.machine.emu.cpu.tensors import F32, tensor


@layer("quantizelinear")
def quantizelinear(info: StructView, memory: AddressSpace) -> None:
    source, target = tensor(info, "general.input"), tensor(info, "general.output")
    by = quantization(info, "os", "ozp", memory, target.shape[3], sign_from_scale=True)
    codes = round_to_even_f32(source.read(memory, F32) / by.scale) + by.zero
    target.write(memory, clip_codes(codes, target.signed), target.code_type)


@layer("dequantizelinear")
def dequantizelinear(info: StructView, memory: AddressSpace) -> None:
    source, target = tensor(info, "general.input"), tensor(info, "general.output")
    by = quantization(info, "is", "izp", memory, source.shape[3], sign_from_scale=True)
    target.write(memory, dequantize(source.read(memory, source.code_type), by), F32)


@layer("requantizelinear")
def requantizelinear(info: StructView, memory: AddressSpace) -> None:
    """Rounds half away from zero, as TFLite's integer requantisation does (inferred; at most 1 apart)."""
    source, target = tensor(info, "general.input"), tensor(info, "general.output")
    before = quantization(info, "is", "izp", memory, source.shape[3], sign_from_scale=True)
    after = quantization(info, "os", "ozp", memory, target.shape[3], sign_from_scale=True)
    write_codes(target, read_real(source, before, memory), after, memory)
