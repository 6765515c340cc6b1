"""ONNX's own test suite for operators (`onnx.backend.test`, kind node): how much of it the compiler gets right.

Each case is a model of one operator, or of the nodes that a composed operator expands to, with inputs and expected
outputs. It is compiled and verified as `atonc generate --allow-float` does and runs on the emulator, CPU steps as
calls of our C kernels (by their twins in the emulator, which the tests hold equal to the C code byte for byte).

- **right**: every output has the expected shape, element type and values: floats within the case's own tolerance
  (as a rule 0.001 of the value), integers exactly.
- **refused**: an error of `atonc.errors` that says what is not supported; also when a CPU step has no C kernel.
- **wrong**, **traceback**: what must not be.

Most cases are float; many leave shapes, axes or scales to run time, which the compiler does not do. Where the refusal
says that the value of an input may be given, the case gives it, as a user would: in the text of
`--fix-parametric-shapes`, which has room for a few hundred numbers. Such a value is then a constant.
"""

from __future__ import annotations

import argparse
import importlib
import re
import sys
import time
import traceback
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from atonc.compiler.compile.pipeline import Compiled, compile_graph
from atonc.compiler.frontends.limits import FIX, parse_fixed_shapes
from atonc.compiler.frontends.onnx_qdq import read_onnx
from atonc.compiler.inputs.inputs import program_inputs
from atonc.compiler.ir import Array, Graph
from atonc.compiler.request.options import Options
from atonc.compiler.verify.emulation import Emulation
from atonc.machine.base.errors import AtoncError, InputError, UnsupportedError
from benchmarks.shared.corpus import asked_for
from benchmarks.shared.declare import ONLY, WRITE, Report, argument

OUTCOMES = ("right", "refused", "wrong", "traceback")
GROUP = "truth"
ARGUMENTS = (
    ONLY,
    argument("--show", default="", choices=["", *OUTCOMES], help="print the cases with this outcome"),
    WRITE,
)


@dataclass(frozen=True)
class Outcome:
    """What came of one case."""

    name: str
    outcome: str  # one of OUTCOMES
    detail: str = ""


def cases(families: Sequence[str] = ()) -> list[Any]:
    """`families`: files of the suite; making all cases takes it longer than judging them."""
    from onnx.backend.test.case import node as suite
    from onnx.backend.test.loader import load_model_tests

    with warnings.catch_warnings():  # of the suite's own arithmetic
        warnings.simplefilter("ignore")
        if not families:
            return list(load_model_tests(kind="node"))
        for family in families:
            importlib.import_module(f"{suite.__name__}.{family}")
    return list(suite._NodeTestCases)


def judge(case: Any) -> Outcome:
    try:
        source = read_as_told(case)
        compiled = compile_graph(source, Options(allow_float=True))
        complaint = next(complaints(case, compiled), "")
    except AtoncError as error:
        return Outcome(case.name, "refused", error.one_line)
    except Exception:
        return Outcome(case.name, "traceback", " / ".join(traceback.format_exc().strip().splitlines()[-3:])[-300:])
    return Outcome(case.name, "wrong" if complaint else "right", complaint)


def read_as_told(case: Any) -> Graph:
    """The graph, with the values of those inputs that refusals ask for, out of the case's first samples."""
    data = case.model.SerializeToString()
    values = dict(zip((v.name for v in case.model.graph.input), case.data_sets[0][0], strict=True))
    told: dict[str, Any] = {}
    while True:
        try:
            return read_onnx(data, case.name, fixed_shapes=parse_fixed_shapes(repr(told) if told else ""))
        except UnsupportedError as error:
            asked = re.search(rf"{FIX} (.*)=VALUE", error.remedy)
            new = [name for name in asked[1].split("=VALUE,") if name not in told] if asked else []
            if not new or len(case.data_sets) > 1:
                raise
            told |= {name: array(values[name]).tolist() for name in new}


def complaints(case: Any, compiled: Compiled) -> Iterator[str]:
    graph, emulation = compiled.graph, Emulation(compiled.program, compiled.graph)
    names = [value.name for value in case.model.graph.input]
    for inputs, outputs in case.data_sets:
        sample = dict(zip(names, map(array, inputs), strict=True))
        sample = {name: value for name, value in sample.items() if name in compiled.source.inputs}
        for name, value in sample.items():
            if value.shape != compiled.source.tensors[name].shape:  # a first dimension of 0 is taken for an open batch
                raise InputError(f"an input of shape {value.shape}", where=name)
        got = emulation.run(program_inputs(compiled, sample))
        for name, wanted in zip(graph.outputs, map(array, outputs), strict=True):
            found, expected = got[name], wanted.astype(np.uint8) if wanted.dtype == np.bool_ else wanted
            if found.shape != expected.shape or found.dtype != expected.dtype:
                yield f"{name}: {found.dtype}{found.shape} for {wanted.dtype}{wanted.shape}"
            elif not equal(found, expected, case.rtol, case.atol):
                yield f"{name}: {found.reshape(-1)[:4].tolist()} for {expected.reshape(-1)[:4].tolist()}"


def array(value: Any) -> Array:
    """Some cases hold protocol buffers."""
    from onnx import TensorProto, numpy_helper

    return numpy_helper.to_array(value) if isinstance(value, TensorProto) else np.asarray(value)


def equal(found: Array, expected: Array, rtol: float, atol: float) -> bool:
    if expected.dtype.kind != "f":
        return np.array_equal(found, expected)
    return np.allclose(found.astype(np.float64), expected.astype(np.float64), rtol, atol, equal_nan=True)


# ------------------------------------------------------------------------------------------------------------- report


def reason(detail: str) -> str:
    """The sentence behind the name of the node, without its causes and fixes."""
    return re.split(r"[;\s]+(?:cause|fix): ", detail.split(": ", 1)[-1])[0].strip(" .")


def report(found: Sequence[Outcome], version: str) -> str:
    counts = Counter(outcome.outcome for outcome in found)
    reasons: dict[str, list[str]] = defaultdict(list)
    for outcome in found:
        if outcome.outcome == "refused":
            reasons[reason(outcome.detail)].append(outcome.name.removeprefix("test_"))
    lines = [
        "# ONNX's backend suite, operators",
        "",
        f"onnx {version}, one thread; what the words mean: `python -m benchmarks onnx_backend --help`.",
        "",
        f"Of {len(found)} cases {', '.join(f'{counts[outcome]} are {outcome}' for outcome in OUTCOMES)}.",
        "",
    ]
    bad = [outcome for outcome in found if outcome.outcome in ("wrong", "traceback")]
    if bad:
        lines += ["## Not right", "", *(f"- {o.name}: {o.outcome}: {o.detail}" for o in bad), ""]
    lines += ["## Refusals by reason", "", "| cases | reason | for example |", "|---|---|---|"]
    for text, names in sorted(reasons.items(), key=lambda item: (-len(item[1]), item[0])):
        lines.append(f"| {len(names)} | {text.replace('|', '/')} | {', '.join(names[:2])} |")
    return "\n".join([*lines, ""])


def run(arguments: argparse.Namespace) -> Report:
    import onnx

    started = time.perf_counter()
    found = [judge(case) for case in cases() if asked_for(arguments.only, case.name)]
    for outcome in found:
        if outcome.outcome in ("wrong", "traceback", arguments.show):
            print(outcome.name, outcome.outcome, outcome.detail, sep=" | ", file=sys.stderr)
    print(f"{time.perf_counter() - started:.0f} s", file=sys.stderr)
    bad = any(outcome.outcome in ("wrong", "traceback") for outcome in found)
    return Report(report(found, onnx.__version__), failed=bad)
