"""Damaged arguments end in one of our errors: no traceback, no hang, whatever is put where."""

from __future__ import annotations

import copy
import random
from typing import Any

import numpy as np
import pytest

from atonc.machine.base.errors import AtoncError
from atonc.machine.emu.bus import AddressSpace
from atonc.machine.emu.cpu import call_cost, describe_call, run_call
from atonc.machine.emu.cpu.families import KERNELS
from tests.emu.cpu_calls import BASE, Bench, general, sym
from tests.outcomes import Outcomes, figure

JUNK: list[Any] = [
    None, -1, 0, 1, 3, 255, 65536, 1 << 20, (1 << 31) - 1, 1 << 32, 1 << 62, -(1 << 31), 0.0, -2.5, 1e30, float("nan"),
    "text", sym("LL_SW_PRELU"), [], [1], [0, 0, 0, 0], [1 << 31] * 6, {}, {"mem": 3}, BASE, BASE + (1 << 20) - 1,
]  # fmt: skip


def layers(bench: Bench) -> list[tuple[str, list[Any]]]:
    """One working call of every kind that shares its reading code with others."""
    f, q = np.ones((1, 4, 4, 4), np.float32), np.ones((1, 4, 4, 4), np.int8)
    by = bench.quant("is", "izp", 0.5, 0) | bench.quant("os", "ozp", 0.5, 0)
    floats, codes = (general("LL_SW_RELU", bench.tensor(x), bench.output(x.shape, x.dtype)) for x in (f, q))
    convert = general("X", bench.tensor(f), bench.output(q.shape, np.int8)) | by
    window = {"pads": [1, 1, 1, 1], "strides": [1, 1], "dilations": [1, 1], "k_shape": [3, 3], "ngroup": 1}
    weights = {"weights": bench.tensor(np.ones((4, 3, 3, 4), np.float32)), "operand": bench.tensor(f)}
    pool = copy.deepcopy(floats | window)
    pool["general"]["type"] = sym("LL_SW_AVGPOOL")
    add = copy.deepcopy(floats | weights)
    add["general"]["type"] = sym("LL_SW_ARITHADD")
    softmax = codes | bench.quant("os", "ozp", 1 / 256, -128)
    softmax |= {"quantized_multiplier": 1 << 30, "left_shift": 23, "diff_min": -248, "axis": 3}
    resize = codes | by | {"scales": bench.params(np.ones(4, np.float32)), "mode": sym("RESIZE_LINEAR")}
    product = floats | {"operand_b": bench.tensor(f)}
    return [
        ("quantizelinear", [convert]),
        ("activ", [floats]),
        ("activ_integer", [codes | by]),
        ("conv", [floats | window | weights]),
        ("pool", [pool]),
        ("arith", [add]),
        ("softmax_integer", [softmax]),
        ("resize_integer", [resize]),
        ("matmul", [product]),
        ("tile", [floats | {"repeats": [1, 1, 1, 1]}]),
    ]


def library(bench: Bench) -> list[tuple[str, list[Any]]]:
    image, shape = np.ones((1, 4, 4, 4), np.uint8), (1, 4, 4, 4)
    side = {"type": sym("DataType_INT8"), "Qm": 7, "scale": [0.5], "offset": [1]}
    source, out = bench.buffer(image, shape, 8, 4, **side), bench.out_buffer(shape, 8, 4, **side | {"Qunsigned": 1})
    double, steps = bench.out_buffer((1, 4, 4, 8), 8, 8), [64, 16, 4, 1]
    deep = bench.out_buffer((1, 2, 2, 16), 8, 16)
    start, end = bench.place(image), bench.reserve(64)
    pad = [start, end, 0, 0, [1, 4, 4, 4], 0, 1, 64, 0, 3, 4, *[[0] * 4] * 4, [1, 4, 4, 4], steps, 4]
    return [
        ("Concat", [[source, source], 2, [double], 1, 0, 1]),
        ("DMA_Transpose", [[source], steps, [out], steps, [0, 1, 2, 3], [0, 1, 2, 3], 0, 1]),
        ("DMA_SpaceToDepth", [[source], 1, [deep], 2, 2, 0, 1]),
        ("DMA_DepthToSpace", [[deep], 1, [source], 2, 2, 0, 1]),
        ("Slice", [[source], steps, [out], steps, 4, [0] * 4, [1, 4, 4, 4], [1] * 4]),
        ("Split", [[source], 1, [out], 1, 4, 1, 1, 0, -1, -1]),
        ("DMA_Outputs_Slice_SplitLike", [[source], [out], 64, 4, 16, 4, 8, 0, 1]),
        ("Pad", [*pad, 0, 1]),
        ("Cast", [[source], [out], 0, 1]),
        ("Softmax", [[source], [out], 3, 0]),
        ("Pad_4Loop", [start, 0, 0, end, end + 64, 0, 0, 1, [0, 0, 0, 64], [0, 4, 1, 64, 4, 16], 0, 1]),
    ]


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    if isinstance(value, dict):
        return [p for key, item in value.items() for p in [(*path, key), *places(item, (*path, key))]]
    if isinstance(value, list):
        return [p for k, item in enumerate(value) for p in [(*path, k), *places(item, (*path, k))]]
    return []


def damaged(args: list[Any], path: tuple[Any, ...], junk: Any) -> list[Any]:
    args = copy.deepcopy(args)
    target: Any = args
    for key in path[:-1]:
        target = target[key]
    target[path[-1]] = junk
    return args


def fresh(bench: Bench) -> AddressSpace:
    memory = AddressSpace()
    memory.add("ram", BASE, bench.memory.regions[0].data.size).data[:] = bench.memory.regions[0].data
    return memory


BENCH = Bench()
CALLS = [(f"ll_sw_forward_{n}", a) for n, a in layers(BENCH)] + [(f"LL_ATON_LIB_{n}", a) for n, a in library(BENCH)]


@pytest.mark.parametrize(("name", "args"), CALLS, ids=[name for name, _ in CALLS])
def test_damaged_arguments(name: str, args: list[Any], outcomes: Outcomes) -> None:
    assert name in KERNELS
    run_call(name, args, fresh(BENCH))  # undamaged it works
    rng, every = random.Random(name), places(args)
    for _ in range(150):
        broken = damaged(args, rng.choice(every), rng.choice(JUNK))
        said = "computed"
        try:
            run_call(name, broken, fresh(BENCH))
        except AtoncError as error:
            said = error.what
        assert said
        outcomes.add(said, figure(call_cost(name, broken).cpu_cycles), describe_call(name, broken))


@pytest.mark.parametrize("name", sorted(KERNELS))
def test_missing_arguments(name: str) -> None:
    for args in ([], [None], [{}], [[]], [[{}]] * 30, [0] * 30, [sym("nn_instance")] * 30):
        with pytest.raises(AtoncError):
            run_call(name, args, Bench().memory)
