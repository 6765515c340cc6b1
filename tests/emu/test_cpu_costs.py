"""What a call is called and what it costs."""

from __future__ import annotations

from typing import Any

import numpy as np

from atonc.machine.emu.cpu import atonc_costs, call_cost, describe_call, is_library_call
from atonc.machine.emu.cpu.families import KERNELS
from atonc.machine.hw.machine import stm32n6
from tests.emu.cpu_calls import Bench, general, sym


def sw(kind: str, shape: tuple[int, ...], out: tuple[int, ...], dtype: Any = np.float32) -> dict[str, Any]:
    bench = Bench(1 << 22)
    return general(kind, bench.output(shape, dtype), bench.output(out, dtype))


def test_descriptions() -> None:
    bench = Bench()
    parts = [bench.out_buffer((1, 30, 30, n), 8, n) for n in (12, 3, 3)]
    out = bench.out_buffer((1, 30, 30, 18), 8, 18)
    assert describe_call("LL_ATON_LIB_Concat", [parts, 3, [out], 1, 0, 1]) == "Concat 3 -> 1x30x30x18"
    prelu = sw("LL_SW_PRELU", (1, 4, 4, 8), (1, 4, 4, 8))
    assert describe_call("ll_sw_forward_activ", [prelu]) == "Prelu float 1x4x4x8"
    add = sw("LL_SW_ARITHADD", (1, 4, 4, 8), (1, 4, 4, 8))
    assert describe_call("ll_sw_forward_arith", [add]) == "Add float 1x4x4x8"
    resize = sw("LL_SW_RESIZE", (1, 2, 2, 8), (1, 4, 4, 8))
    assert describe_call("ll_sw_forward_resize_integer", [resize]) == "Resize int8 1x2x2x8 -> 1x4x4x8"
    assert describe_call("ll_sw_forward_quantizelinear", [prelu]) == "Quantize 1x4x4x8"
    moved = [[out], 1, [out], 2, 2, 0, 1]
    assert describe_call("LL_ATON_LIB_DMA_DepthToSpace", moved).startswith("Depth to space 1x30x30x18")


def test_unreadable_calls_keep_their_name() -> None:
    for name in ("LL_ATON_LIB_Concat", "ll_sw_forward_activ", "something"):
        assert describe_call(name, [None]) == name
        assert call_cost(name, [None]).known is False


def test_every_function_has_a_description_and_a_cost() -> None:
    from atonc.machine.emu.cpu.cycles import _COSTS, _LIBRARY

    library = {name for name in KERNELS if name.startswith("LL_ATON_LIB_")}
    assert library - set(_LIBRARY) == {"LL_ATON_LIB_Pad_4Loop"}
    assert library - set(_COSTS) == {"LL_ATON_LIB_Pad_4Loop"}
    assert all(is_library_call(name) for name in KERNELS)
    assert not is_library_call("LL_ATON_LIB_UNUSED") and not is_library_call("LL_Switch_Init")


def test_measured_constants() -> None:
    image = (1, 10, 10, 10)
    assert call_cost("ll_sw_forward_dequantizelinear", [sw("X", image, image)]).cpu_cycles == 7100
    assert call_cost("ll_sw_forward_quantizelinear", [sw("X", image, image)]).cpu_cycles == 7400
    average = call_cost("ll_sw_forward_global_pool", [sw("LL_SW_AVGPOOL", image, (1, 1, 1, 10))])
    assert (average.cpu_cycles, average.known) == (5000, True)
    resize = sw("X", image, (1, 20, 20, 10)) | {"mode": sym("RESIZE_LINEAR")}
    assert call_cost("ll_sw_forward_resize_integer", [resize]).cpu_cycles == 400 * 121 + 4000 * 21.4
    rows = sw("X", (1, 10, 100, 1), (1, 10, 100, 1)) | {"axis": 2}
    assert call_cost("ll_sw_forward_softmax_integer", [rows]).cpu_cycles == 65000
    row = sw("X", (1, 1, 1001, 1), (1, 1, 1001, 1)) | {"axis": 3}
    assert call_cost("ll_sw_forward_softmax_integer", [row]).cpu_cycles == 117 * 1001


def test_hybrid_calls_pay_on_both_sides() -> None:
    bench = Bench()
    out = bench.out_buffer((1, 10, 10, 10), 8, 10)
    cost = call_cost("LL_ATON_LIB_DMA_Transpose", [[out], [], [out], []])
    assert (cost.cpu_cycles, cost.npu_cycles, cost.known) == (15240, 1100, True)
    wide = bench.out_buffer((1, 10, 10, 10), 16, 10)
    assert call_cost("LL_ATON_LIB_DMA_Transpose", [[wide], [], [wide], []]) == cost  # one transfer per element
    parts = [bench.out_buffer((1, 10, 10, n), 8, n) for n in (4, 6)]
    assert call_cost("LL_ATON_LIB_Concat", [parts, 2, [out], 1, 0, 1]).npu_cycles == 1100


def test_guesses_say_so() -> None:
    image = (1, 10, 10, 10)
    sub, add = (call_cost("ll_sw_forward_arith", [sw(f"LL_SW_ARITH{k}", image, image)]) for k in ("SUB", "ADD"))
    assert sub.known and not add.known and sub.cpu_cycles == add.cpu_cycles == 19000
    prelu = call_cost("ll_sw_forward_activ", [sw("LL_SW_PRELU", image, image)])
    assert not prelu.known and prelu.cpu_cycles > 0 and "unmeasured" in prelu.basis


def instructions(name: str, args: list[Any]) -> float:
    """Cycles of one of our kernels without its waits."""
    return atonc_costs.WORK[name](atonc_costs.Reader(name, args)).cycles


def test_own_kernels_wait_for_memory() -> None:
    byte, real = ({"type": kind, "flags": 0} for kind in (0, 8))
    timing = stm32n6().timing
    quantise, dequantise = [0, byte, 0, real, 1000], [0, real, 0, byte, 1000]
    for args, taken, given in ((quantise, 4000, 1000), (dequantise, 1000, 4000)):
        cost = call_cost("atonc_convert", args)
        waits = taken * timing.cpu_read_byte + given * timing.cpu_write_byte
        assert cost.cpu_cycles == instructions("atonc_convert", args) + waits and "per byte read" in cost.basis
    slower = stm32n6().with_clocks(cpu_mhz=400)  # as fast as the bus: half the cycles for the same time
    assert call_cost("atonc_convert", quantise, slower).cpu_cycles == 3400 + (1800 + 80) / 2


def test_own_kernels_with_vectors_cost_less() -> None:
    """Those that the vectors do not take cost what they did."""
    byte, real = ({"type": kind, "flags": 0} for kind in (0, 8))
    rounded = byte | {"flags": 8 | 16}  # in single precision, halves to even: the same loop
    limited = byte | {"flags": 1}
    assert instructions("atonc_convert", [0, rounded, 0, real, 1000]) == 3400
    assert instructions("atonc_convert", [0, limited, 0, real, 1000]) > 50000
    boxes, rows, columns = ([0, {}, 0, 1, 20, *sizes, [1.0]] for sizes in ((16, 1), (17, 1), (16, 8)))
    assert instructions("atonc_softmax_8", boxes) == 2400 + 20 * 124
    few_codes = [0, {"scale": 1 / 256}, *rows[2:7], [0.8**k for k in range(256)]]  # 28 of them have a share
    assert instructions("atonc_softmax_8", few_codes) == 3400 + 20 * (210 + 2 * 86 + 2 * 48)
    assert instructions("atonc_softmax_8", [*rows[:7], [1.0] * 256]) == 3400 + 20 * (210 + 2 * 86 + 16 * 48)
    assert instructions("atonc_softmax_8", columns) == 83 * 320 * 8
    pairs, few_pairs, one = ([0, {}, 0, 1, *sizes, 1, [1.0]] for sizes in ((512, 2), (511, 2), (1, 10)))
    assert instructions("atonc_softmax_8", pairs) == 30000 + 512 * 3.2
    assert instructions("atonc_softmax_8", few_pairs) == 2400 + 511 * 143
    assert instructions("atonc_softmax_8", one) == 830
    short, middle, long, few = ([0, 6, 0, 0, *sizes, 1, 0] for sizes in ((19, 10), (19, 20), (19, 200), (3, 10)))
    assert instructions("atonc_arg_extreme", short) == 16 * (11 + 10 * 2.3) + 3 * 120
    assert instructions("atonc_arg_extreme", middle) == 19 * 44
    assert instructions("atonc_arg_extreme", long) == 19 * (76 + 130)
    assert instructions("atonc_arg_extreme", few) == 3 * 120
    assert instructions("atonc_convert", [0, real, 0, {"type": 0, "scale": 0.0235, "zero": -3.0}, 1000]) == 2100
    sizes = [1, [2, 0, 0], 64, 32, 64, [32, 1, 1, 32]]
    products = instructions("atonc_matmul", [0, byte, 0, byte, 0, byte, *sizes])
    assert 10 * products < instructions("atonc_matmul", [0, real, 0, real, 0, real, *sizes])
    transposed = [0, 0, 1, 2, [16, 64, 1, 64, 1, 16], 0]
    scattered = [0, 0, 1, 2, [64, 1, 16, 16, 64, 1], 0]
    assert instructions("atonc_move", transposed) == 1024 * 5 + 16 * 80
    assert instructions("atonc_move", scattered) == 1024 * 84
