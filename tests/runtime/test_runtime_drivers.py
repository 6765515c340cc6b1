"""The C drivers write word for word what `atonc.machine.hw.ll` says, which published networks have proven."""

from __future__ import annotations

from pathlib import Path

import pytest

from atonc.machine.hw import ll, regs
from atonc.machine.hw.ec.instructions import Instruction, Poll, Write, WriteField
from atonc.machine.hw.ll import FIRST, SECOND, THIRD, Generation
from tests.runtime import host
from tests.runtime.driver_cases import Call, c_file, make_cases, plain, read_memory

DEFINES = {
    FIRST.name: ("LL_ATON_VERSION_MICRO=0", "LL_ATON_VERSION_DEV=31"),
    SECOND.name: ("LL_ATON_VERSION_MICRO=3", "LL_ATON_VERSION_DEV=8"),
    THIRD.name: (),
}
RESETS = 0x40000002  # bits of a control register that clear themselves


def cpu_stores(program: list[Instruction]) -> list[tuple[int, int, int]]:
    """A program as stores of whole registers: a CPU reads a register to change a field of it."""
    now: dict[tuple[int, int], int] = {}
    result = []
    for step in program:
        if isinstance(step, Poll):
            continue
        assert isinstance(step, (Write, WriteField))
        place, value = (step.unit, step.reg), step.value
        if isinstance(step, WriteField):
            mask = ((1 << step.width) - 1) << step.lsb
            reset = regs.registers_by_index(regs.UNIT_BY_ID[step.unit].kind)[step.reg].reset
            value = now.get(place, reset) & ~mask | step.value << step.lsb
        now[place] = value & ~RESETS if step.reg == 0 else value
        result.append((*place, value))
    return result


@pytest.mark.parametrize("generation", [FIRST, SECOND, THIRD], ids=lambda g: g.name)
def test_register_stores_equal_the_proven_rules(generation: Generation, tmp_path: Path) -> None:
    cases = make_cases()
    source = tmp_path / "cases.c"
    source.write_text(c_file(cases))
    library = host.build(tmp_path, [source], DEFINES[generation.name])
    for number, call in enumerate(cases):
        assert library.run_case(number) == 0, call
    calls = [Call(call.name, [plain(argument) for argument in call.args]) for call in cases]
    expected = cpu_stores(ll.driver_program(calls, read_memory, generation))
    found = host.stores(library)
    first = next((i for i, (a, b) in enumerate(zip(expected, found, strict=False)) if a != b), None)
    assert first is None, (first, expected[first], found[first])
    assert len(found) == len(expected) > 10000


BAD = """
#include "ll_aton.h"
int bad(unsigned number);
int bad(unsigned number) {
    static const LL_Streng_TensorInitTypeDef streng = {.nbits_in = 8, .nbits_out = 25};
    static const LL_Convacc_InitTypeDef convacc = {.deepmode = 1, .dss2mode = 1};
    static const LL_Arithacc_InitTypeDef arith = {.operation = ARITH_AFFINE, .scalar = 0};
    static const LL_Activacc_InitTypeDef activ = {.operation = ACTIV_LUT};
    static const LL_Decun_InitTypeDef decun = {.nFormatBytes = 3, .nCWperCV = 1};
    static const LL_Switch_InitTypeDef link[] = {{.dest = 43}};
    static const LL_ATON_EnableUnits_InitTypeDef units[] = {{{STRENG, 10}}, {{IMC, 0}}};
    switch (number) {
    case 0: return LL_Streng_TensorInit(0, &streng, 1);
    case 1: return LL_Streng_TensorInit(10, &streng, 1);
    case 2: return LL_Convacc_Init(0, &convacc);
    case 3: return LL_Convacc_Init(-1, &convacc);
    case 4: return LL_Arithacc_Init(0, &arith);
    case 5: return LL_Activacc_Init(1, &activ);
    case 6: return LL_Decun_Init(0, &decun);
    case 7: return LL_Switch_Init(link, 1);
    case 8: return LL_ATON_EnableUnits_Init(units, 1);
    case 9: return LL_ATON_DisableUnits_Init(units + 1, 1);
    default: return LL_Switch_Init(NULL, 3);
    }
}
"""


def test_impossible_calls_are_refused(tmp_path: Path) -> None:
    source = tmp_path / "bad.c"
    source.write_text(BAD)
    library = host.build(tmp_path, [source])
    for number in range(11):
        assert library.bad(number) < 0, number
    switch = regs.UNIT_BY_NAME["STRSWITCH0"].id
    assert all(unit == switch for unit, _, _ in host.stores(library))  # nothing else was touched
