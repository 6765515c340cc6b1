"""Library layers of the runtime leave the same bytes in memory as the emulator's kernels."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import pytest

from atonc.machine.emu.cpu import run_call
from tests.emu.cpu_calls import BASE
from tests.runtime import host
from tests.runtime.library_cases import INFO_TYPES, Maker, c_file


@pytest.mark.parametrize("seed", [1, 2])
def test_same_bytes_as_the_emulator(seed: int, tmp_path: Path) -> None:
    maker = Maker(seed)
    calls = list(maker.calls())
    region = maker.bench.memory.regions[0].data
    source = tmp_path / "calls.c"
    source.write_text(c_file(calls, region.size))
    library = host.build(tmp_path, [source])
    memory = np.ctypeslib.as_array((ctypes.c_uint8 * region.size).in_dll(library, "memory"))
    memory[:] = region
    for number, call in enumerate(calls):
        run_call(call.name, call.args, maker.bench.memory)
        library.run_call(number)
        different = np.flatnonzero(memory != region)
        assert different.size == 0, f"{call} differs at {BASE + int(different[0]):#x}"
    assert {call.name for call in calls} >= set(INFO_TYPES)


REFUSED = """
#include "atonc_runtime.h"
#include "ll_aton_lib.h"
#include "ll_sw.h"
int refused(unsigned number);
int refused(unsigned number) {
    static unsigned char memory[64];
    const uint32_t shape[4] = {1, 2, 2, 3};
    const LL_Buffer_InfoTypeDef good = {
        .addr_base = {memory}, .offset_end = 12, .ndims = 4, .nbits = 8, .shape = shape};
    LL_Buffer_InfoTypeDef bad = good;
    Softmax_integer_sw_info softmax = {.axis = 4};
    bad.nbits = number == 1 ? 16 : 8;
    bad.ndims = number == 2 ? 9 : 4;
    switch (number) {
    case 0: return LL_ATON_LIB_DMA_DepthToSpace(&good, 1, &good, 2, 2, 0, 1);
    case 1: return LL_ATON_LIB_Concat(&bad, 1, &good, 1, 0, 1);
    case 2: return LL_ATON_LIB_Concat(&good, 1, &bad, 1, 0, 1);
    case 3: return LL_ATON_LIB_Concat(&good, 1, &good, 9, 0, 1);
    case 4: return LL_ATON_LIB_DMA_SpaceToDepth(&good, 2, &good, 1, 1, 0, 1);
    case 5: return LL_ATON_LIB_DMA_Transpose(&good, shape, &good, shape, (const uint8_t[]){0, 1, 1, 2},
                                             (const uint8_t[]){0, 1, 1, 2}, 0, 1);
    default: ll_sw_forward_softmax_integer(&softmax); return -1;
    }
}
"""


def test_forms_that_nobody_computes_are_refused(tmp_path: Path) -> None:
    source = tmp_path / "refused.c"
    source.write_text(REFUSED)
    library = host.build(tmp_path, [source])
    for number in range(7):
        assert library.refused(number) < 0, number
