"""The table of functions of one value is complete: everybody who needs a line for each of them has one."""

from __future__ import annotations

import re

import numpy as np
import pytest

from atonc.compiler.emit.c import cpu_calls
from atonc.compiler.emit.c.cpu.site import MAKERS
from atonc.compiler.frontends import onnx_elements
from atonc.compiler.frontends.onnx_builder import TRANSLATORS
from atonc.compiler.ops import kinds
from atonc.compiler.ops.functions import C_NUMBERS, C_VARIANTS, FUNCTIONS, Function, FunctionWork
from atonc.compiler.ops.shapes import infer_shape
from atonc.compiler.passes.layout import RULES
from atonc.delivery.firmware.building import runtime_folder
from atonc.insight.quantizing import islands
from atonc.machine.emu.cpu import atonc_functions

assert cpu_calls  # importing it registers the calls of all operators
CYCLES = {
    FunctionWork.PLAIN: atonc_functions.PLAIN,
    FunctionWork.EXPONENTIAL: atonc_functions.EXPONENTIAL,
    FunctionWork.ERF: atonc_functions.ERF,
}


def missing(row: Function) -> list[str]:
    """What a function of one value lacks, in words."""
    wanted = {
        "a reference kernel": row.kind in kinds(),
        "a shape": infer_shape(row.kind, {}, [(2, 3)]) == (2, 3),
        "a rule of storage orders": row.kind in RULES,
        "a call of a C kernel": row.kind in MAKERS,
    }
    if row.onnx:
        wanted["its ONNX node"] = row.onnx in TRANSLATORS and onnx_elements.UNARY[row.onnx] is row
        wanted["a place among the functions that quantize takes"] = row.onnx in islands.ONE_VALUE
    if row.c_number is not None:
        wanted |= {f"{what} of number {row.c_number}": found for what, found in _in_c(row.kind, row.c_number).items()}
        wanted["a twin in the emulator that costs and jumps alike"] = _has_twin(row, row.c_number)
    return [what for what, found in wanted.items() if not found]


def _in_c(kind: str, number: int) -> dict[str, bool]:
    name = f"ATONC_{kind.upper()}"
    header = (runtime_folder("kernels") / "atonc_kernels.h").read_text()
    functions = (runtime_folder("kernels") / "parts" / "functions.h").read_text()
    default = kind == "trunc"  # what is left in the switch
    return {
        f"{name} in atonc_kernels.h": re.search(rf"\b{name} = {number}\b", header) is not None,
        f"{name} in parts/functions.h": default or f"case {name}:" in functions,
    }


def _has_twin(row: Function, number: int) -> bool:
    if number >= len(atonc_functions.UNARY):
        return False
    twin = atonc_functions.UNARY[number]
    return (twin.name, twin.cycles, twin.jumps) == (row.kind, CYCLES[row.work], row.jumps)


@pytest.mark.parametrize("row", FUNCTIONS.values(), ids=list(FUNCTIONS))
def test_everything_is_there(row: Function) -> None:
    assert not missing(row)


def test_numbers_are_those_of_the_header() -> None:
    strangers = [twin.name for twin in atonc_functions.UNARY if twin.name not in C_NUMBERS]
    assert not strangers, f"{', '.join(strangers)} has no row in atonc/compiler/ops/functions.py"
    assert sorted(C_NUMBERS.values()) == list(range(len(atonc_functions.UNARY)))
    for kind, number in C_VARIANTS.items():
        assert all(_in_c(kind, number).values()) and atonc_functions.UNARY[number].name == kind


def test_gaps_are_found() -> None:
    found = "; ".join(missing(Function("stranger", lambda x, attrs: x, len(C_NUMBERS))))
    assert all(word in found for word in ("reference", "shape", "orders", "C kernel", "atonc_kernels.h", "emulator"))
    slower = Function("tanh", lambda x, attrs: np.tanh(x), 1, "Tanh", work=FunctionWork.PLAIN)
    assert any("twin" in what for what in missing(slower))
