"""Makes examples/first: a small network of our own in the files that ST's tool writes.

    python examples/make_first.py [FOLDER]

    image 64x64x4 -> convolution 3x3 with 8 kernels, ReLU -> maximum 2x2 -> mean of each channel -> 8 numbers

Unit configurations become register writes in the order of `hw.ec.ec_program`, these become assembly text, and our
assembler turns the text into the program. No model file and no planning is involved, and no board has run it.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor, log2
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from atonc.machine.hw.ec import ec_program
from atonc.machine.hw.ec.instructions import Irq, merge_writes
from atonc.machine.hw.ec.text import assemble, format_program
from atonc.machine.hw.epoch import Epoch
from atonc.machine.hw.fields import UnitConfig
from atonc.machine.hw.units import pool
from atonc.machine.hw.units.arith import ArithConfig
from atonc.machine.hw.units.convacc import ConvaccConfig
from atonc.machine.hw.units.pool import PoolConfig
from atonc.machine.hw.units.stream_engine import StrengConfig
from atonc.machine.hw.units.switch import Link
from examples import first_files

IMAGE, FEATURES, MAXIMA, MEANS = 0x342E_0000, 0x3420_0000, 0x3427_0000, 0x3435_0000  # npuRAM5, 3, 4, 6
WEIGHTS = 0x7038_0000  # flash
SIZE, INPUTS, OUTPUTS = 64, 4, 8


# ----------------------------------------------------------------------------------------------- the network in numbers

FILTERS = {  # 3x3 filter, weight of each input channel
    "blur": ([[1, 2, 1], [2, 4, 2], [1, 2, 1]], (4, 4, 4, 4)),
    "left to right": ([[-1, 0, 1], [-2, 0, 2], [-1, 0, 1]], (10, 10, 10, 0)),
    "top to bottom": ([[-1, -2, -1], [0, 0, 0], [1, 2, 1]], (10, 10, 10, 0)),
    "spots": ([[0, -1, 0], [-1, 4, -1], [0, -1, 0]], (12, 8, 4, 0)),
    "sharpen": ([[0, -1, 0], [-1, 6, -1], [0, -1, 0]], (6, 6, 6, 6)),
    "diagonal": ([[2, 1, 0], [1, 0, -1], [0, -1, -2]], (9, 0, 9, 0)),
    "copy": ([[0, 0, 0], [0, 1, 0], [0, 0, 0]], (0, 0, 0, 100)),
    "opponent": ([[0, 1, 0], [1, 2, 1], [0, 1, 0]], (20, -20, 10, -10)),
}
IMAGE_SCALE, IMAGE_ZERO = 1 / 128, 0
FEATURE_SCALE, FEATURE_ZERO = 1 / 255, -128  # everything below zero saturates: that is the ReLU
MEAN_SCALE, MEAN_ZERO = 1 / 254, 0
BIAS = 1 / 32  # real value that every channel of the convolution gets


def kernels() -> np.ndarray:
    """[kernel, row, column, channel], as the kernel stream wants it."""
    filters = [np.multiply.outer(np.array(shape), np.array(mix)) for shape, mix in FILTERS.values()]
    return np.stack(filters).astype(np.int8)


def kernel_scales() -> list[float]:
    """Chosen so that no kernel amplifies."""
    return [1 / float(np.abs(kernel.astype(int)).sum()) for kernel in kernels()]


def _half_up(value: float) -> int:
    return floor(value + 0.5)


@dataclass(frozen=True)
class Requantisation:
    """The sum of a convolution to codes in two steps, each a 16-bit multiplication with a shift."""

    out_shift: int  # CONVACC keeps 16 bit of the sum
    scale_factors: tuple[int, ...]
    scale_shift: int
    bias_factor: int
    bias_addends: tuple[int, ...]
    bias_shift: int = 20


def requantisation() -> Requantisation:
    sums = [abs(int(kernel.astype(int).sum())) for kernel in kernels()]
    out_shift = max(0, max(sums).bit_length() - 7)
    middle = ceil(log2(FEATURE_SCALE) - 6)  # exponent of the scale between the two steps
    real = [IMAGE_SCALE * scale * 2 ** (out_shift - middle) for scale in kernel_scales()]
    shift = 14 - floor(log2(max(real)))
    addend = _half_up((BIAS / FEATURE_SCALE + FEATURE_ZERO) * 2**20)
    return Requantisation(
        out_shift,
        tuple(_half_up(value * 2**shift) for value in real),
        shift,
        _half_up(2 ** (middle + 20) / FEATURE_SCALE),
        (addend,) * OUTPUTS,
    )


# ----------------------------------------------------------------------------------------------------------- the units

ROUNDED = {"rounded": 1, "saturated": 1, "round_mode": 1}


def engine(
    address: int, size_bytes: int, *, write: bool = False, flash: bool = False, repeat: int = 0
) -> StrengConfig:
    """One contiguous frame of bytes; engines may prefetch 64 bytes behind the end."""
    return StrengConfig(
        to_memory=int(write), single=1, raw=1, continuous=int(flash), size0=8, address=address, fsize_low=size_bytes,
        frame_offset=0 if flash else size_bytes, frame_repeat=repeat, frames=1, gap_cycles=0, illegal_config_event=1,
        address_limit_enabled=1, frame_limit_enabled=1, address_limit=address + size_bytes + 63, cacheable=int(flash),
    )  # fmt: skip


def convolution(rule: Requantisation) -> ConvaccConfig:
    line = SIZE * INPUTS
    return ConvaccConfig(
        no_sum=1, no_first_sum=1, simd=1, feature_bytes=1, kernel_width=3, kernel_height=3, batch=INPUTS,
        kernels=OUTPUTS, pad_left=1, pad_right=1, pad_top=1, pad_bottom=1, in_shift=0, out_shift=rule.out_shift,
        out_bytes=2, line_elements=line, height=SIZE, crop_right=line - 1, crop_bottom=SIZE - 1, **ROUNDED,
    )  # fmt: skip


def per_channel(pixels: int, rows: Sequence[tuple[int, int, int]], **changes: int) -> ArithConfig:
    """Coefficients A, B, C that repeat with every pixel."""
    channels = len(rows)
    table = np.zeros((512, 3), "<i2")
    table[:channels] = np.array(rows, np.int64).astype(np.int16)
    return ArithConfig(
        vector_a=1, vector_b=1, vector_c=1, count1=1, count2=1, count3=1, step=1, reset1_every=channels - 1,
        offset1=1 - channels, reset2_every=channels * pixels - 1, offset2=1, reset3_every=channels * pixels - 1,
        offset3=1 - channels, translate=1, table=table.tobytes(), **ROUNDED, **changes,
    )  # fmt: skip


def split(addend: int) -> tuple[int, int]:
    """A 32-bit addend as the two 16-bit halves that B and C hold."""
    return addend >> 16, (addend & 0xFFFF) - ((addend & 0x8000) << 1)


def scale_step(rule: Requantisation) -> ArithConfig:
    rows = [(factor, 0, 0) for factor in rule.scale_factors]
    return per_channel(SIZE * SIZE, rows, a=1, out_bytes=2, shift_out=rule.scale_shift)


def bias_step(rule: Requantisation) -> ArithConfig:
    rows = [(rule.bias_factor, *split(addend)) for addend in rule.bias_addends]
    return per_channel(
        SIZE * SIZE, rows, a=rule.bias_factor, combine_bc=1, out_bytes=1, shift_out=rule.bias_shift
    )


def maximum() -> PoolConfig:
    return PoolConfig(
        type=pool.MAX, batch=OUTPUTS, window_x=2, window_y=2, stride_x=2, stride_y=2, line_elements=SIZE * OUTPUTS,
        height=SIZE, out_width=SIZE // 2, out_height=SIZE // 2, crop_enable=1, crop_right=SIZE * OUTPUTS - 1,
        crop_bottom=SIZE - 1, dual_line=1, feature_bytes=1, feature_out_bytes=1, out_bytes=1, **ROUNDED,
    )  # fmt: skip


def mean() -> PoolConfig:
    """The mean with 8 fractional bits: factor round(2^k / pixels) in 2^14..2^15, shift k - 8."""
    side = SIZE // 2
    exponent = 14 + (side * side).bit_length() - 1
    return PoolConfig(
        type=pool.GLOBAL_AVERAGE, batch=OUTPUTS, stride_x=1, stride_y=1, line_elements=side * OUTPUTS, height=side,
        out_width=side + 1, out_height=side + 1, multiplier=_half_up(2**exponent / (side * side)),
        out_shift=exponent - 8,
        crop_enable=1, crop_right=side * OUTPUTS - 1, crop_bottom=side - 1, dual_line=1, feature_bytes=1,
        feature_out_bytes=1, out_bytes=2, **ROUNDED,
    )  # fmt: skip


def mean_step() -> ArithConfig:
    ratio = FEATURE_SCALE / MEAN_SCALE
    shift = 14 - floor(log2(ratio))
    b, c = split(_half_up((MEAN_ZERO - FEATURE_ZERO * ratio) * 2**shift))
    factor = _half_up(ratio * 2**shift)
    return ArithConfig(combine_bc=1, a=factor, b=b, c=c, shift_a=8, shift_out=shift, out_bytes=1, **ROUNDED)


# ---------------------------------------------------------------------------------------------------------- the program


def epochs() -> dict[str, Epoch]:
    """By what they do."""
    features, maxima = SIZE * SIZE * OUTPUTS, SIZE * SIZE * OUTPUTS // 4
    rule = requantisation()
    first = {
        "CONVACC0": convolution(rule),
        "ARITH0": scale_step(rule),
        "ARITH1": bias_step(rule),
        "STRENG0": engine(IMAGE, SIZE * SIZE * INPUTS, repeat=1),  # features are always read in a loop
        "STRENG1": engine(WEIGHTS, kernels().size, flash=True),
        "STRENG6": engine(FEATURES, features, write=True),
    }
    second = {
        "POOL0": maximum(),
        "STRENG2": engine(FEATURES, features),
        "STRENG7": engine(MAXIMA, maxima, write=True),
    }
    third = {
        "POOL1": mean(),
        "ARITH2": mean_step(),
        "STRENG3": engine(MAXIMA, maxima),
        "STRENG8": engine(MEANS, OUTPUTS, write=True),
    }
    chain = [("STRENG0", "CONVACC0", 0), ("STRENG1", "CONVACC0", 1), ("CONVACC0", "ARITH0", 0)]
    chain += [("ARITH0", "ARITH1", 0), ("ARITH1", "STRENG6", 0)]
    return {
        "convolution 3x3, requantisation, ReLU": _epoch(1, first, *chain),
        "maximum 2x2": _epoch(2, second, ("STRENG2", "POOL0", 0), ("POOL0", "STRENG7", 0)),
        "mean of each channel": _epoch(
            3, third, ("STRENG3", "POOL1", 0), ("POOL1", "ARITH2", 0), ("ARITH2", "STRENG8", 0)
        ),
    }


def _epoch(number: int, units: Mapping[str, UnitConfig], *links: tuple[str, str, int]) -> Epoch:
    writers = [name for name, config in units.items() if isinstance(config, StrengConfig) and config.to_memory]
    return Epoch(number, units, tuple(Link(*link) for link in links), tuple(writers))


def program_text() -> str:
    """All epochs as assembly text, with a comment in front of every part."""
    parts = ["; first: three epochs. Made by examples/make_first.py"]
    for title, epoch in epochs().items():
        parts.append(f"\n; epoch {epoch.number}: {title}")
        for phase, instructions in ec_program.epoch_phases(epoch):
            parts += [f"; {phase}", format_program(merge_writes(instructions)).rstrip("\n")]
    return "\n".join([*parts, "\n; done", format_program([Irq(0)])])


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent / "first"
    folder.mkdir(parents=True, exist_ok=True)
    text = program_text()
    (folder / "network.s").write_text(text)
    words = assemble(text, where="network.s").words()
    (folder / "network_ecblobs.h").write_text(first_files.blob_header(words))
    (folder / "network_atonbuf.xSPI2.raw").write_bytes(kernels().tobytes())
    (folder / "network.c").write_text(first_files.network_c(len(epochs()), tensors()))


def tensors() -> dict[str, list[first_files.Tensor]]:
    """The buffer tables: what lies where, in which format."""
    T, half = first_files.Tensor, SIZE // 2
    return {
        "Input": [
            T("image", IMAGE, (1, SIZE, SIZE, INPUTS), (IMAGE_SCALE,), IMAGE_ZERO, epoch=0),
            T("kernels", WEIGHTS, (OUTPUTS, 3, 3, INPUTS), tuple(kernel_scales()), 0, epoch=0, param=True),
        ],
        "Output": [T("means", MEANS, (1, 1, 1, OUTPUTS), (MEAN_SCALE,), MEAN_ZERO, epoch=3)],
        "Internal": [
            T("features", FEATURES, (1, SIZE, SIZE, OUTPUTS), (FEATURE_SCALE,), FEATURE_ZERO, epoch=1),
            T("maxima", MAXIMA, (1, half, half, OUTPUTS), (FEATURE_SCALE,), FEATURE_ZERO, epoch=2),
        ],
    }


if __name__ == "__main__":
    main()
