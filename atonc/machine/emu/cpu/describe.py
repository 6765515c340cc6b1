"""A few words about a call, for reports."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from atonc.machine.base.errors import InputError
from atonc.machine.emu.cpu.atonc_costs import describe_kernel
from atonc.machine.emu.cpu.lib_buffers import buffers, first_buffer
from atonc.machine.emu.cpu.lib_pad import read_pad
from atonc.machine.emu.cpu.struct_view import StructView, argument, as_int
from atonc.machine.emu.cpu.tensors import tensor
from atonc.machine.emu.files.types import CValue

Describer = Callable[[Sequence[CValue]], str]

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
    describer = _LIBRARY.get(name)
    try:
        if name.startswith("ll_sw_forward_"):
            return _layer(name.removeprefix("ll_sw_forward_"), StructView.of(argument(args, 0, name), name))
        if describer is not None:
            return describer(args)
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
    def describe(args: Sequence[CValue]) -> str:
        source, target = (first_buffer(argument(args, k, title), title) for k in (0, output))
        return f"{title} {dimensions(source.shape)} -> {dimensions(target.shape)}"

    return describe


def _concat(args: Sequence[CValue]) -> str:
    count = as_int(argument(args, 1, "Concat"), "Concat")
    return f"Concat {count} -> {dimensions(first_buffer(argument(args, 2, 'Concat'), 'Concat').shape)}"


def _split(args: Sequence[CValue]) -> str:
    source, count = first_buffer(argument(args, 0, "Split"), "Split"), as_int(argument(args, 3, "Split"), "Split")
    parts = buffers(argument(args, 2, "Split"), count, "Split")
    return f"Split {dimensions(source.shape)} -> {count} of {dimensions(parts[0].shape)}"


def _pad(args: Sequence[CValue]) -> str:
    request = read_pad(args)
    return f"Pad {dimensions(request.min_shape)} -> {dimensions(request.out_shape)}"


_LIBRARY: dict[str, Describer] = {
    "LL_ATON_LIB_Concat": _concat,
    "LL_ATON_LIB_Split": _split,
    "LL_ATON_LIB_Pad": _pad,
    "LL_ATON_LIB_Pad_Standard": _pad,
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
