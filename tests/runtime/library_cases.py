"""Library calls over one memory, for the emulator and, as C text, for the runtime."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.emu.cpu_calls import BASE, Array, Bench, general, sym

TYPES = {8: np.uint8, 16: np.uint16, 32: np.uint32}


@dataclass(frozen=True)
class LibraryCall:
    name: str
    args: Sequence[Any]
    c_types: Sequence[str] = ()  # of arrays of numbers, by position


class Maker:
    """Draws calls; every buffer has its own place in the memory."""

    def __init__(self, seed: int) -> None:
        self.bench, self.random = Bench(), np.random.default_rng(seed)

    def numbers(self, shape: Sequence[int], nbits: int = 8) -> Array:
        return self.random.integers(0, 1 << min(nbits, 31), tuple(shape)).astype(TYPES[nbits])

    def codes(self, shape: Sequence[int], signed: bool) -> Array:
        return self.random.integers(-128 if signed else 0, 128 if signed else 256, tuple(shape)).astype(
            np.int8 if signed else np.uint8
        )

    def calls(self) -> Iterator[LibraryCall]:
        for nbits in (8, 16, 32):
            yield from self.concats(nbits)
            yield from self.blocks(nbits)
            yield from self.transposes(nbits)
            yield self.slice(nbits)
        yield from self.grouped()
        yield self.split_like()
        for axis in range(4):
            yield self.float_softmax((2, 3, 4, 5), axis)
        for signed in (True, False):
            yield from self.formats(signed)
            yield from self.softmaxes(signed)
            yield from self.resizes(signed)
            yield from self.activations(signed)

    # -- moves

    def concats(self, nbits: int) -> Iterator[LibraryCall]:
        for axis, stored in ((1, 3), (2, 1), (3, 2)):
            for height in (1, 3):
                shapes = [tuple(k + 2 if p == stored else (1, height, 4, 5)[p] for p in range(4)) for k in range(3)]
                out = tuple(sum(s[p] for s in shapes) if p == stored else shapes[0][p] for p in range(4))
                if (nbits < 32 and axis == 1) or (nbits < 32 and height == 1 and axis == 2):
                    continue  # there the layouts would have to be alike, which canonical ones are not
                parts = [self.bench.buffer(self.numbers(s, nbits), s, nbits, s[3]) for s in shapes]
                target = self.bench.out_buffer(out, nbits, out[3])
                yield LibraryCall("LL_ATON_LIB_Concat", [parts, 3, [target], axis, 4, 5])

    def grouped(self) -> Iterator[LibraryCall]:
        """Inputs stored [C/b][H][W][b]: interleaved by pixel, or one behind the other."""
        for batch, counts, out_batch in ((2, (1, 3, 2), 12), (4, (2, 2), 4), (1, (3, 1), 4)):
            parts = [self.bench.buffer(self.numbers((n, 3, 2, batch)), (1, 3, 2, n * batch), 8, batch) for n in counts]
            out = self.bench.out_buffer((1, 3, 2, sum(counts) * batch), 8, out_batch)
            yield LibraryCall("LL_ATON_LIB_Concat", [parts, len(parts), [out], 1, 0, 1])

    def blocks(self, nbits: int) -> Iterator[LibraryCall]:
        for bh, bw, depth in ((2, 2, 3), (1, 4, 1), (3, 2, 5)):
            image, deep = (2, 2 * bh, 3 * bw, depth), (2, 2, 3, depth * bh * bw)
            for name, a, b in (("SpaceToDepth", image, deep), ("DepthToSpace", deep, image)):
                source = self.bench.buffer(self.numbers(a, nbits), a, nbits, a[3])
                target = self.bench.out_buffer(b, nbits, b[3])
                yield LibraryCall(f"LL_ATON_LIB_DMA_{name}", [[source], 1, [target], bh, bw, 0, 1])

    def transposes(self, nbits: int) -> Iterator[LibraryCall]:
        size = nbits // 8
        for shape, perm in (((2, 3, 4, 5), (0, 3, 1, 2)), ((1, 4, 7, 3), (3, 2, 1, 0)), ((6, 5, 4), (1, 2, 0))):
            out_shape = tuple(shape[k] for k in perm)
            source = self.bench.buffer(self.numbers(shape, nbits), shape, nbits, shape[-1])
            target = self.bench.out_buffer(out_shape, nbits, out_shape[-1])
            where = [perm.index(k) for k in range(len(shape))]
            args = [[source], steps(shape, size), [target], steps(out_shape, size)]
            types = ("", "uint32_t", "", "uint32_t", "uint8_t", "uint8_t")
            yield LibraryCall("LL_ATON_LIB_DMA_Transpose", [*args, where, list(perm), 0, 1], types)
            target = self.bench.out_buffer(out_shape, nbits, out_shape[-1])
            args = [[source], steps(shape, size), [target], steps(out_shape, size), list(perm)]
            yield LibraryCall("LL_ATON_LIB_Transpose", args, types)

    def slice(self, nbits: int) -> LibraryCall:
        shape, size = (2, 5, 6, 7), nbits // 8
        starts, ends, steps_taken = [0, 1, 5, 6], [2, 5, 0, 1], [1, 2, -1, -2]
        out_shape = tuple(len(range(*b)) for b in zip(starts, ends, steps_taken, strict=True))
        source = self.bench.buffer(self.numbers(shape, nbits), shape, nbits, 7)
        target = self.bench.out_buffer(out_shape, nbits, out_shape[3])
        args = [[source], steps(shape, size), [target], steps(out_shape, size), 4, starts, ends, steps_taken]
        return LibraryCall("LL_ATON_LIB_Slice", args, ("", "uint32_t", "", "uint32_t", "", *["int32_t"] * 3))

    def split_like(self) -> LibraryCall:
        source = self.bench.buffer(self.numbers((1, 6, 1, 20)), (1, 6, 1, 20), 8, 20)
        target = self.bench.out_buffer((1, 6, 1, 7), 8, 7)
        return LibraryCall("LL_ATON_LIB_DMA_Outputs_Slice_SplitLike", [[source], [target], 42, 7, 6, 20, 8, 0, 1])

    # -- layers

    def formats(self, signed: bool) -> Iterator[LibraryCall]:
        dtype: Any = np.int8 if signed else np.uint8
        shape = (2, 3, 4, 5) if signed else (2, 9, 15, 5)
        for channels in (1, 5):
            scales = [float(s) for s in self.random.uniform(0.003, 0.3, channels).astype(np.float32)]
            zeros = [int(z) for z in self.codes((channels,), signed)]
            values = (self.random.normal(0, 12, shape)).astype(np.float32)
            values.flat[:12] = np.float32(scales[0]) * np.float32([0.5, 1.5, -0.5, -1.5, 2.5, 1e6, -1e6, 3, 4, 0, 0, 7])
            by = self.bench.quant("os", "ozp", scales, zeros, dtype)
            info = general("LL_SW_QUANTIZELINEAR", self.bench.tensor(values), self.bench.output(shape, dtype)) | by
            yield LibraryCall("ll_sw_forward_quantizelinear", [info])
            by = self.bench.quant("is", "izp", scales, zeros, dtype)
            codes, out = self.bench.tensor(self.codes(shape, signed)), self.bench.output(shape, np.float32)
            yield LibraryCall("ll_sw_forward_dequantizelinear", [general("LL_SW_DEQUANTIZELINEAR", codes, out) | by])
            to = self.bench.quant("os", "ozp", float(self.random.uniform(0.01, 0.3)), 3, dtype)
            again = general("LL_SW_REQUANTIZELINEAR", codes, self.bench.output(shape, dtype)) | by | to
            yield LibraryCall("ll_sw_forward_requantizelinear", [again])

    def softmaxes(self, signed: bool) -> Iterator[LibraryCall]:
        dtype: Any = np.int8 if signed else np.uint8
        prepared = ((1968914048, 23, -248), (1073741824, 22, -496), (1518500250, 26, -15), (2147483647, 20, -800))
        for k, (multiplier, shift, smallest) in enumerate(prepared):
            shape = ((1, 1, 5, 1), (2, 3, 1, 40), (1, 7, 3, 2), (3, 2, 2, 9))[k]
            codes = self.bench.tensor(self.codes(shape, signed))
            info = general("LL_SW_SOFTMAX", codes, self.bench.output(shape, dtype))
            info |= self.bench.quant("os", "ozp", 1 / 256, -128 if signed else 0, dtype)
            info["os"]["format"]["is_signed"] = k % 2  # the sign of the scale means nothing here
            info |= {"quantized_multiplier": multiplier, "left_shift": shift, "diff_min": smallest}
            info |= {"axis": (3, 1, 2, 0)[k]}
            yield LibraryCall("ll_sw_forward_softmax_integer", [info])

    def activations(self, signed: bool) -> Iterator[LibraryCall]:
        dtype: Any = np.int8 if signed else np.uint8
        shape = (2, 3, 2, 5) if signed else (1, 20, 15, 5)
        before, after = (
            self.bench.quant(f"{k}s", f"{k}zp", float(self.random.uniform(0.02, 0.1)), 3, dtype) for k in "io"
        )
        slope = self.bench.quant("operand_s", "operand_zp", 0.011, -7 if signed else 90, dtype)
        slopes = [self.bench.tensor(self.codes(s, signed)) for s in ((1, 1, 1, 5), (1, 1, 1, 1), (1, *shape[1:]))]
        floats = self.random.normal(0, 1, 6).astype(np.float32)
        floats[0] = 5  # the number of channels comes first
        for operand in (None, *slopes, self.bench.tensor(floats.reshape(1, 1, 1, 6))):
            kind = "LL_SW_PRELU" if operand else "LL_SW_RELU"
            codes = self.bench.tensor(self.codes(shape, signed))
            info = general(kind, codes, self.bench.output(shape, dtype)) | before | after
            if operand:
                info |= {"operand": operand} | (slope if operand in slopes else {})
            yield LibraryCall("ll_sw_forward_activ_integer", [info])

    def float_softmax(self, shape: tuple[int, int, int, int], axis: int) -> LibraryCall:
        values = self.random.normal(0, 9, shape).astype(np.float32)
        info = general("LL_SW_SOFTMAX", self.bench.tensor(values), self.bench.output(shape, np.float32))
        return LibraryCall("ll_sw_forward_softmax", [info | {"axis": axis}])

    def resizes(self, signed: bool) -> Iterator[LibraryCall]:
        dtype: Any = np.int8 if signed else np.uint8
        rules = ("HALF_PIXEL", "PYTORCH_HALF_PIXEL", "ALIGN_CORNERS", "ASYMMETRIC", "TF_HALF_PIXEL_FOR_NN")
        for k, rule in enumerate(rules):
            for mode in ("RESIZE_NEAREST", "RESIZE_LINEAR"):
                size, out_size = ((5, 4), (10, 8)) if k % 2 else ((6, 7), (9, 5))
                scales = np.array([1, 1, out_size[0] / size[0], out_size[1] / size[1]], np.float32)
                codes = self.bench.tensor(self.codes((2, *size, 3), signed))
                info = general("LL_SW_RESIZE", codes, self.bench.output((2, *out_size, 3), dtype))
                info |= {"scales": self.bench.params(scales), "mode": sym(mode), "coord_transf_mode": sym(rule)}
                nearest = ("ROUND_PREFER_FLOOR", "ROUND_PREFER_CEIL", "FLOOR", "CEIL")[k % 4]
                yield LibraryCall("ll_sw_forward_resize_integer", [info | {"nearest_mode": sym(nearest)}])


def steps(shape: Sequence[int], size: int) -> list[int]:
    return [int(np.prod(shape[k + 1 :], dtype=int)) * size for k in range(len(shape))]


# ---- as C ----

INFO_TYPES = {
    "ll_sw_forward_quantizelinear": "Quantizelinear_sw_info",
    "ll_sw_forward_dequantizelinear": "Dequantizelinear_sw_info",
    "ll_sw_forward_requantizelinear": "Requantizelinear_sw_info",
    "ll_sw_forward_softmax_integer": "Softmax_integer_sw_info",
    "ll_sw_forward_resize_integer": "Resize_integer_sw_info",
    "ll_sw_forward_activ_integer": "Activ_integer_sw_info",
    "ll_sw_forward_softmax": "Softmax_sw_info",
}


def c_value(name: str, value: Any) -> str:
    if name == "addr_base":
        return f"{{memory + {value - BASE}}}"
    if name == "start_offset":
        return f"memory + {value - BASE}"
    if name == "shape":
        return f"(const uint32_t[]){{{', '.join(map(str, value))}}}"
    if isinstance(value, dict):
        return "{" + ", ".join(f".{key} = {c_value(key, item)}" for key, item in value.items()) + "}"
    return str(getattr(value, "name", value))


def c_case(number: int, call: LibraryCall) -> str:
    lines, passed = [f"static void case_{number}(void) {{"], []
    for k, argument in enumerate(call.args):
        if isinstance(argument, dict):
            lines.append(f"    {INFO_TYPES[call.name]} info = {c_value('', argument)};")
            passed.append("&info")
        elif isinstance(argument, list) and isinstance(argument[0], dict):
            items = ", ".join(c_value("", item) for item in argument)
            lines.append(f"    const LL_Buffer_InfoTypeDef a{k}[] = {{{items}}};")
            passed.append(f"a{k}")
        elif isinstance(argument, list):
            lines.append(f"    const {call.c_types[k]} a{k}[] = {{{', '.join(map(str, argument))}}};")
            passed.append(f"a{k}")
        else:
            passed.append(str(argument))
    return "\n".join([*lines, f"    {call.name}({', '.join(passed)});", "}"])


def c_file(calls: Sequence[LibraryCall], memory_bytes: int) -> str:
    table = ", ".join(f"case_{i}" for i in range(len(calls)))
    return "\n".join(
        [
            '#include "ll_aton_lib.h"',
            '#include "ll_sw.h"',
            f"unsigned char memory[{memory_bytes}] __attribute__((aligned(64)));",
            *[c_case(i, call) for i, call in enumerate(calls)],
            f"static void (*const all[])(void) = {{{table}}};",
            "void run_call(unsigned number);",
            "void run_call(unsigned number) { all[number](); }\n",
        ]
    )
