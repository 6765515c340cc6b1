"""What a library call costs, and a few words about it for reports.

Costs are constants measured on boards, and stated guesses where there is no measurement.

CPU cycles count at the CPU's clock, NPU cycles at the NPU's; a hybrid call pays both, one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from atonc.machine.base.errors import InputError, NotModelledError
from atonc.machine.base.frozen import dataclass
from atonc.machine.base.user_c import CALL as CUSTOM
from atonc.machine.emu.cpu.atonc_costs import describe_kernel, kernel_cost
from atonc.machine.emu.cpu.library import (
    DMA_SPLITS,
    MIN_DMA_BYTES,
    KernelBuffer,
    LibraryCall,
    read_concat,
    read_pad,
    read_split,
)
from atonc.machine.emu.cpu.struct_view import StructView
from atonc.machine.emu.cpu.tensors import onnx_axis, tensor
from atonc.machine.emu.files.types import CValue
from atonc.machine.hw.machine import Machine, stm32n6


@dataclass(frozen=True)
class CallCost:
    cpu_cycles: int
    npu_cycles: int = 0
    known: bool = True  # False: no constant for this kind has been measured
    basis: str = ""  # what the figure rests on
    by_release: bool = False  # measured with releases 2.x, takes less with 4.0

    def with_4(self) -> CallCost:
        """With ST's library of 4.0."""
        return replace(self, cpu_cycles=round(FAST * self.cpu_cycles), by_release=False) if self.by_release else self


Coster = Callable[[LibraryCall], CallCost]

# measured, CPU cycles
DEQUANTIZE, QUANTIZE = 7.1, 7.4  # per element
GLOBAL_AVERAGE = 5.0  # per input element, float
RESIZE_PIXEL, RESIZE_ELEMENT = 121.0, 21.4  # int8 bilinear: per output pixel and per output element, 2.x
SOFTMAX, SOFTMAX_ONE_ROW = 65.0, 117.0  # int8, per element, 2.x
FAST = 0.61  # of these with 4.0: TinyissimoYOLO at three clock pairs; resize of another network then 0.93 to 1.13 of it
CPU_COPY = 8.0  # per byte: a concatenation layer of the CPU
SUBTRACT = 19.0  # per element, float
# library DMA: the call with its cache maintenance, then the transfer on the NPU. Calibrated on bytes; the published
# figures of a network with 16-bit transfers fit when each counts once. All concatenations of the library are in these
# figures, also those that copy on the CPU.
DMA_CALL, DMA_CPU_WORD, DMA_NPU_WORD = 14000.0, 1.24, 1.1
# guesses, per unit of work
GUESS_MAC = 3.0  # float multiply-add with loads
GUESS_INT8_MAC = 1.65  # int8 convolution: what is left in yolo26n of 4.0, 1.60 to 1.68 at three clock pairs
GUESS_ELEMENT = 20.0  # any element-wise function without a measurement
GUESS_EXP = 100.0  # float exponential


def call_cost(name: str, args: Sequence[CValue], machine: Machine | None = None) -> CallCost:
    """`machine`: whose memories our own kernels wait for; what was measured of others holds their waits."""
    coster = _COSTS.get(name)
    try:
        if coster is not None:
            return coster(LibraryCall("call", args))
        ours = kernel_cost(name, args, machine or stm32n6())
        if ours is not None:
            return _guess(*ours)
        if name.startswith("ll_sw_forward_"):
            return _guess(
                GUESS_ELEMENT * _outputs(LibraryCall("call", args).struct(0)), "20 CPU cycles per output element"
            )
    except (InputError, NotModelledError):
        pass
    return CallCost(0, 0, known=False, basis="the arguments tell no size")


def _outputs(info: StructView) -> int:
    return tensor(info, "general.output").elements


def _measured(cycles: float, basis: str, by_release: bool = False) -> CallCost:
    return CallCost(round(cycles), basis=basis, by_release=by_release)


def _guess(cycles: float, basis: str) -> CallCost:
    return CallCost(round(cycles), known=False, basis=f"unmeasured: {basis}")


def _per_element(cycles: float) -> Coster:
    return lambda call: _measured(cycles * _outputs(call.struct(0)), f"{cycles} per element")


def _resize_int8(call: LibraryCall) -> CallCost:
    target = tensor(call.struct(0), "general.output")
    pixels = target.elements // target.shape[3]
    cycles, basis = RESIZE_PIXEL * pixels + RESIZE_ELEMENT * target.elements, "121 per pixel, 21.4 per element"
    linear = call.struct(0).enum("mode") == "RESIZE_LINEAR"
    return _measured(cycles, basis, by_release=True) if linear else _guess(cycles, basis)


def _softmax_int8(call: LibraryCall) -> CallCost:
    info = call.struct(0)
    source = tensor(info, "general.input")
    one_row = source.shape[onnx_axis(info)] == source.elements
    per_element = SOFTMAX_ONE_ROW if one_row else SOFTMAX
    return _measured(per_element * source.elements, f"{per_element:.0f} per element", by_release=True)


def _arith(call: LibraryCall) -> CallCost:
    info = call.struct(0)
    cycles = SUBTRACT * _outputs(info)
    if info.enum("general.type") == "LL_SW_ARITHSUB":
        return _measured(cycles, "19 per element")
    return _guess(cycles, "as a subtraction, 19 per element")


def _conv(each: float) -> Coster:
    def cost(call: LibraryCall) -> CallCost:
        weights = tensor(call.struct(0), "weights")
        macs = _outputs(call.struct(0)) * weights.elements // weights.shape[0]
        return _guess(each * macs, f"{each:g} per multiply-add")

    return cost


def _pool(call: LibraryCall) -> CallCost:
    info = call.struct(0)
    height, width = info.integers("k_shape", 2)
    return _guess(GLOBAL_AVERAGE * _outputs(info) * height * width, "5 per element under a window")


def _global_pool(call: LibraryCall) -> CallCost:
    info = call.struct(0)
    cycles = GLOBAL_AVERAGE * tensor(info, "general.input").elements
    if info.enum("general.type") == "LL_SW_AVGPOOL":
        return _measured(cycles, "5 per input element")
    return _guess(cycles, "5 per input element")


def _matmul(call: LibraryCall) -> CallCost:
    info = call.struct(0)
    return _guess(GUESS_MAC * _outputs(info) * tensor(info, "general.input").shape[2], "3 per multiply-add")


def _dma(words: int, known: bool = True) -> CallCost:
    cpu, npu = DMA_CALL + DMA_CPU_WORD * words, DMA_NPU_WORD * words
    basis = "14000 + 1.24 per transfer on the CPU, 1.1 per transfer on the NPU"
    return CallCost(round(cpu), round(npu), known, basis if known else f"unmeasured: as a library DMA, {basis}")


def _words(parts: Sequence[KernelBuffer]) -> int:
    """Stream engine transfers: 32-bit elements go as two halves."""
    return sum(part.size_bytes // (2 if part.nbytes == 4 else part.nbytes) for part in parts)


def _moved(output: int) -> Coster:
    """A transfer of the whole output buffer."""

    def cost(call: LibraryCall) -> CallCost:
        part = call.buffer(output)
        by_dma = part.size_bytes >= MIN_DMA_BYTES
        return _dma(_words([part])) if by_dma else _guess(CPU_COPY * part.size_bytes, "8 per byte by the CPU")

    return cost


def _copied_by_cpu(output: int) -> Coster:
    return lambda call: _guess(CPU_COPY * call.buffer(output).size_bytes, "8 per byte, as a concatenation")


def _split(call: LibraryCall) -> CallCost:
    _, _, outputs, _, case = read_split(call)
    if case in DMA_SPLITS:
        return _dma(_words(outputs))
    return _guess(CPU_COPY * sum(part.size_bytes for part in outputs), "8 per byte, as a concatenation")


def _pad(call: LibraryCall) -> CallCost:
    return _dma(read_pad(call).out_bytes, known=False)


def _cast(call: LibraryCall) -> CallCost:
    elements = call.buffer(1).elements
    return _guess(GUESS_ELEMENT * elements, "20 per element")


def _custom(call: LibraryCall) -> CallCost:
    """C of the user: what generated code says of it, a rough estimate below 0."""
    cycles = call.integer(1)
    if cycles < 0:
        return _guess(-cycles, "C of the user without declared cycles, 20 for each value of its outputs")
    return _measured(cycles, "as declared")


_COSTS: dict[str, Coster] = {
    CUSTOM: _custom,
    "ll_sw_forward_dequantizelinear": _per_element(DEQUANTIZE),
    "ll_sw_forward_quantizelinear": _per_element(QUANTIZE),
    "ll_sw_forward_resize_integer": _resize_int8,
    "ll_sw_forward_softmax_integer": _softmax_int8,
    "ll_sw_forward_softmax": lambda call: _guess(GUESS_EXP * _outputs(call.struct(0)), "100 per element"),
    "ll_sw_forward_arith": _arith,
    "ll_sw_forward_conv": _conv(GUESS_MAC),
    "ll_sw_forward_conv_integer": _conv(GUESS_INT8_MAC),
    "ll_sw_forward_pool": _pool,
    "ll_sw_forward_pool_integer": _pool,
    "ll_sw_forward_global_pool": _global_pool,
    "ll_sw_forward_matmul": _matmul,
    "ll_sw_forward_gemm": _matmul,
    "ll_sw_forward_concat": lambda call: _measured(CPU_COPY * 4 * _outputs(call.struct(0)), "8 per byte"),
    "LL_ATON_LIB_Concat": lambda call: _dma(_words(read_concat(call)[0])),
    "LL_ATON_LIB_Split": _split,
    "LL_ATON_LIB_Pad": _pad,
    "LL_ATON_LIB_Pad_Standard": _pad,
    "LL_ATON_LIB_Cast": _cast,
    "LL_ATON_LIB_Softmax": _cast,
    "LL_ATON_LIB_Slice": _copied_by_cpu(2),
    "LL_ATON_LIB_Transpose": _copied_by_cpu(2),
    "LL_ATON_LIB_SW_SpaceToDepth": _copied_by_cpu(2),
    "LL_ATON_LIB_SW_DepthToSpace": _copied_by_cpu(2),
    "LL_ATON_LIB_DMA_Transpose": _moved(2),
    "LL_ATON_LIB_DMA_SpaceToDepth": _moved(2),
    "LL_ATON_LIB_DMA_DepthToSpace": _moved(2),
    "LL_ATON_LIB_DMA_ImageToRow": _moved(2),
    "LL_ATON_LIB_DMA_RowToImage": _moved(2),
    "LL_ATON_LIB_DMA_Outputs_Slice_SplitLike": _moved(1),
}


Describer = Callable[[LibraryCall], str]

_TITLES = {
    "quantizelinear": "Quantize",
    "dequantizelinear": "Dequantize",
    "requantizelinear": "Requantize",
    "softmax_integer": "Softmax int8",
    "resize_integer": "Resize int8",
    "conv_integer": "Conv int8",
    "pool_integer": "Pool int8",
    "global_pool": "Global pool",
    "global_pool_integer": "Global pool int8",
    "gemm_integer": "Gemm int8",
    "qlinearmatmul": "MatMul int8",
    "bn": "Batch normalisation",
}
_NAMED_BY_TYPE = ("activ", "activ_integer", "arith", "eltwise_integer", "pool", "pool_integer", "reduce")


def dimensions(shape: Sequence[int]) -> str:
    return "x".join(str(n) for n in shape)


def describe_call(name: str, args: Sequence[CValue]) -> str:
    """Such as "Concat 3 -> 1x30x30x18"; the bare name where the arguments cannot be read."""
    call = LibraryCall(name, args)
    try:
        if name.startswith("ll_sw_forward_"):
            return _layer(name.removeprefix("ll_sw_forward_"), call.struct(0))
        if name in _LIBRARY:
            return _LIBRARY[name](call)
        if name == CUSTOM:
            return f"Custom {getattr(call.value(0), 'name', '')}()"
        if name.startswith("atonc_"):
            return describe_kernel(name, args)
    except InputError:
        pass
    return name


def _layer(kind: str, info: StructView) -> str:
    title = _TITLES.get(kind, kind.removesuffix("_integer").replace("_", " ").capitalize())
    if kind in _NAMED_BY_TYPE and info.has("general.type"):
        title = info.enum("general.type").removeprefix("LL_SW_").removeprefix("ARITH").capitalize()
        title += " int8" if kind.endswith("_integer") else " float"
    source, target = (dimensions(tensor(info, f"general.{end}").shape) for end in ("input", "output"))
    return f"{title} {source}" if source == target else f"{title} {source} -> {target}"


def _moves(title: str, output: int) -> Describer:
    return lambda call: f"{title} {dimensions(call.buffer(0).shape)} -> {dimensions(call.buffer(output).shape)}"


def _describe_split(call: LibraryCall) -> str:
    source, count = call.buffer(0), call.integer(3)
    return f"Split {dimensions(source.shape)} -> {count} of {dimensions(call.buffers(2, count)[0].shape)}"


def _describe_pad(call: LibraryCall) -> str:
    request = read_pad(call)
    return f"Pad {dimensions(request.min_shape)} -> {dimensions(request.out_shape)}"


_LIBRARY: dict[str, Describer] = {
    "LL_ATON_LIB_Concat": lambda call: f"Concat {call.integer(1)} -> {dimensions(call.buffer(2).shape)}",
    "LL_ATON_LIB_Split": _describe_split,
    "LL_ATON_LIB_Pad": _describe_pad,
    "LL_ATON_LIB_Pad_Standard": _describe_pad,
    "LL_ATON_LIB_Cast": _moves("Cast", 1),
    "LL_ATON_LIB_Softmax": _moves("Softmax", 1),
    "LL_ATON_LIB_Slice": _moves("Slice", 2),
    "LL_ATON_LIB_DMA_Outputs_Slice_SplitLike": _moves("Slice", 1),
    "LL_ATON_LIB_Transpose": _moves("Transpose", 2),
    "LL_ATON_LIB_DMA_Transpose": _moves("Transpose", 2),
    "LL_ATON_LIB_DMA_SpaceToDepth": _moves("Space to depth", 2),
    "LL_ATON_LIB_SW_SpaceToDepth": _moves("Space to depth", 2),
    "LL_ATON_LIB_DMA_DepthToSpace": _moves("Depth to space", 2),
    "LL_ATON_LIB_SW_DepthToSpace": _moves("Depth to space", 2),
    "LL_ATON_LIB_DMA_ImageToRow": _moves("Image to row", 2),
    "LL_ATON_LIB_DMA_RowToImage": _moves("Row to image", 2),
}
