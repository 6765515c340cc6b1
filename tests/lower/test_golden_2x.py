"""`--numerics 2.x` of kernel shapes that nobody recorded: the emulator's own numbers, before and after each change.

`tests/golden/numerics_2x.toml` has a digest of the outputs of small networks and where they ran. A form that becomes
another one because evidence or cycles changed must keep its numbers. Whoever changes one on purpose writes the file
anew

    pytest tests/lower/test_golden_2x.py --rewrite-numerics

and says in the commit which recording or published program shows that the new numbers are ST's.
"""

from __future__ import annotations

import hashlib
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from atonc.compiler.compile.pipeline import compile_canonical, memories
from atonc.compiler.ir import Graph
from atonc.compiler.request.options import Options
from tests.lower.harness import run_compiled
from tests.lower.test_conv import conv_graph

FILE = Path(__file__).parents[1] / "golden" / "numerics_2x.toml"
ZEROS = (0, -128, 5)  # codes as they are, without sign, and with a zero point that units subtract
KERNELS = (*((k, k) for k in range(1, 8)), *((1, k) for k in (3, 5, 7)), *((k, 1) for k in (3, 5, 7)), (3, 5), (5, 3))
DILATED = ((3, 3), (5, 5), (1, 3), (3, 1))
Size = tuple[int, int]


def _cases() -> dict[str, dict[str, Any]]:
    found = {}
    for kernel in KERNELS:
        for stride in (1, 2):
            for kind, groups in (("dense", 1), ("depthwise", 6)):
                name = f"{kind} {kernel[0]}x{kernel[1]} stride {stride}"
                found[name] = {"kernel": kernel, "stride": (stride, stride), "groups": groups}
    for kernel in DILATED:
        for kind, groups in (("dense", 1), ("depthwise", 6)):
            found[f"{kind} {kernel[0]}x{kernel[1]} dilation 2"] = {
                "kernel": kernel,
                "dilation": (2, 2),
                "groups": groups,
            }
    return found


CASES = _cases()


def _graph(kernel: Size, groups: int, zero: int, dilation: Size = (1, 1), stride: Size = (1, 1)) -> Graph:
    """Padded so that the picture keeps its size, divided by the stride."""
    reach = [d * (k - 1) for k, d in zip(kernel, dilation, strict=True)]
    before = [one // 2 for one in reach]
    padding = (*before, *(one - half for one, half in zip(reach, before, strict=True)))
    channels = 6 if groups > 1 else 3
    return conv_graph(14, 12, channels, 12, kernel, stride, padding, dilation, zero, groups, seed=7)


def outcome(case: str) -> dict[str, str]:
    """By zero point: digest of the outputs, and whether the NPU or the CPU computes them."""
    found = {}
    for zero in ZEROS:
        options = Options(numerics="2.x", verify=False)
        graph = _graph(zero=zero, **CASES[case])
        compiled = compile_canonical(graph, graph, options, memories(options))
        codes = np.random.default_rng(8).integers(-128, 128, graph.tensors["x"].shape).astype(np.int8)
        got = run_compiled(compiled, {"x": codes})["y"]
        where = "cpu" if compiled.choices.reasons else "npu"
        found[f"zero {zero}"] = f"{where} {hashlib.sha256(got.tobytes()).hexdigest()[:16]}"
    return found


def kept() -> dict[str, dict[str, str]]:
    return tomllib.loads(FILE.read_text()) if FILE.is_file() else {}


def rewrite(case: str, found: dict[str, str]) -> None:
    """One line each, sorted: a change of one kernel changes one line."""
    lines = [
        f'"{key}" = {{ {", ".join(f"{zero!r} = {value!r}" for zero, value in values.items())} }}'.replace("'", '"')
        for key, values in sorted((kept() | {case: found}).items())
    ]
    head = "# Written by: pytest tests/lower/test_golden_2x.py --rewrite-numerics"
    FILE.write_text("\n".join([head, *lines, ""]))


@pytest.mark.parametrize("case", CASES)
def test_numbers_are_those_that_they_were(case: str, request: pytest.FixtureRequest) -> None:
    found = outcome(case)
    if request.config.getoption("--rewrite-numerics"):
        rewrite(case, found)
    assert found == kept().get(case), "numbers of 2.x changed: which recording shows the new ones?"


def test_every_kept_line_is_a_case() -> None:
    assert kept().keys() == CASES.keys()
