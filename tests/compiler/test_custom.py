"""C operators of the user: the network with one compiles, what its C does wrong is an error with where and cause, and
nobody runs it without being asked to."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from atonc.compiler.compile.pipeline import Compiled, compile_file
from atonc.compiler.request.options import Options
from atonc.compiler.verify.emulation import Emulation
from atonc.machine.base import user_c
from atonc.machine.base.errors import AtoncError, ToolError, UnsupportedError
from examples import make_custom

EXAMPLE = Path(__file__).parents[2] / "examples" / "custom_operator"
pytestmark = pytest.mark.skipif(not shutil.which("gcc"), reason="no C compiler of this computer")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("custom") / "custom.onnx"
    onnx.save(make_custom.model(), path)
    return path


@pytest.fixture
def declare(tmp_path: Path) -> Callable[..., str]:
    """A declaration like the example's with another body of the function, or other members."""

    def make(body: str = "", **members: Any) -> str:
        root = json.loads((EXAMPLE / "operators.json").read_text())
        root["operators"][0] |= members
        (tmp_path / "roll.c").write_text(
            (EXAMPLE / "roll.c").read_text() if not body else
            '#include "atonc_custom.h"\n#include <stdlib.h>\nstatic int calls;\n'
            "void roll(const atonc_tensor *x, const atonc_tensor *y, int32_t shift) {\n"
            "  const int8_t *in = x->data; int8_t *out = y->data; int32_t n = x->elements, k;\n"
            f"  (void)calls; (void)shift; (void)in; (void)out; (void)n; (void)k;\n  {body}\n}}\n"
        )  # fmt: skip
        path = tmp_path / "operators.json"
        path.write_text(json.dumps(root))
        return str(path)

    return make


def compiled(model: Path, custom: str, **options: Any) -> Compiled:
    return compile_file(model, Options(custom=custom, cache=False, **options))


def test_the_example_computes_what_its_c_says(model: Path) -> None:
    found = compiled(model, str(EXAMPLE / "operators.json"))
    emulation = Emulation(found.program, found.graph, found.memory.pools)
    x = np.random.default_rng(1).normal(0, 1, (1, 3, make_custom.SIZE, make_custom.SIZE)).astype(np.float32)
    seen = emulation.run({"x": x}, observe=True)
    op = next(op for op in found.graph.ops if op.kind == "custom")
    assert np.array_equal(seen[op.outputs[0]], np.roll(seen[op.inputs[0]], 3, axis=-1))
    assert len(np.unique(seen[op.inputs[0]])) > 20
    (reason,) = [one for one in found.mapped.reasons if one.node == op.name]
    assert reason.rule.id == "CPU-CUSTOM"
    (note,) = [one for one in found.source.notes if "C of the user" in one]
    assert "verified against itself only" in note and "roll() of roll.c" in note


def cycles_of(found: Compiled) -> int:
    plans = (step.plan for step in found.program.steps)
    return next(c.cycles for plan, c in zip(plans, found.cost.steps, strict=True) if "custom" in plan.title)


def test_declared_cycles_count_and_missing_ones_are_said(model: Path, declare: Callable[..., str]) -> None:
    found = [compiled(model, declare(cycles=cycles), verify=False) for cycles in (1000, 101_000, None)]
    cheap, dear, guessed = map(cycles_of, found)
    npu_clock, cpu_clock = found[0].cost.npu_mhz, found[0].cost.cpu_mhz
    assert dear - cheap == pytest.approx(100_000 * npu_clock / cpu_clock, rel=0.01)
    assert guessed > 0
    assert any("a rough estimate" in note for note in found[2].source.notes)
    assert "custom" in found[0].cost.unknown


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("for (k = 0; k <= n; k++) out[k] = 0;", "byte 1152 of output 1, which has 1152 bytes"),
        ("for (k = -1; k < n; k++) out[k] = 0;", "byte -1 of output 1, which has 1152 bytes"),
        ("for (k = 0; k < n; k++) out[k] = in[k + 1];", "touches byte 1152 of input 1"),
        ("for (k = 0; k < n; k++) out[k] = in[k - 1];", "touches byte -1 of input 1"),
        ("((int8_t *)in)[3] = 1;", "writes byte 3 of input 1"),
        ("for (k = 1; k < n; k++) out[k] = 0;", "does not write byte 0 of output 1"),
        ("calls++; for (k = 0; k < n; k++) out[k] = calls;", "other values in a second run"),
        ("*(volatile int *)64 = 1;", "touches memory that is not its own"),
        ("out[0] = n / (shift - 3);", "divides by zero"),
        ("abort();", "calls abort()"),
        ("exit(0);", "ends the program (status 0)"),
        ("oops", "cannot be compiled here"),
    ],
)
def test_what_it_does_wrong_is_said(model: Path, declare: Callable[..., str], body: str, said: str) -> None:
    with pytest.raises(user_c.UserCodeError) as raised:
        compiled(model, declare(body))
    assert said in str(raised.value).replace("\n         ", " ")
    assert "rolled" in raised.value.where and raised.value.fix and raised.value.rule


def test_a_function_without_an_end_is_ended(
    model: Path, declare: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(user_c, "MOST_SECONDS", 1)
    with pytest.raises(user_c.UserCodeError, match="does not end: it took 1 second"):
        compiled(model, declare("for (;;) calls++;"))


@pytest.mark.parametrize(
    ("members", "said"),
    [
        ({"function": "atonc_roll"}, "atonc_roll"),
        ({"function": "a b"}, "a b"),
        ({"sources": ["../roll.c"]}, "not in the folder"),
        ({"sources": ["/etc/passwd.c"]}, "not in the folder"),
        ({"sources": ["missing.c"]}, "no such file"),
        ({"sources": []}, "sources"),
        ({"sources": ["roll.c", "roll.c"]}, "each once"),
        ({"inputs": ["int4"]}, "int4"),
        ({"inputs": ["int8", "int8"]}, "it has 1 input and 1 output, its declaration 2 inputs and 1 output"),
        ({"inputs": ["float32"]}, "holds int8, not float32"),
        ({"outputs": [{"type": "int8", "shape": [1, -1]}]}, "shape"),
        ({"outputs": [{"type": "int8", "shap": [1]}]}, "did you mean shape?"),
        ({"attributes": [{"name": "turns", "type": "int"}]}, "no attribute 'turns'"),
        ({"attributes": [{"name": "shift", "type": "floats"}], "cycles": -1}, "cycles"),
        ({"name": "Other"}, "example.ops.Roll is not supported"),
    ],
)
def test_wrong_declarations(model: Path, declare: Callable[..., str], members: dict[str, Any], said: str) -> None:
    with pytest.raises(AtoncError) as raised:
        compiled(model, declare(**members))
    assert said in " ".join(str(raised.value).split()) and raised.value.fix


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"operators": []}', '{"operators": [1]}', "\x00", "[" * 100_000])
def test_no_declaration(model: Path, tmp_path: Path, text: str) -> None:
    path = tmp_path / "operators.json"
    path.write_text(text)
    with pytest.raises(AtoncError, match=r"--custom|operators\.json"):
        compiled(model, str(path))


def test_without_the_option_the_error_names_it(model: Path) -> None:
    with pytest.raises(UnsupportedError, match="--custom FILE"):
        compile_file(model, Options(cache=False))


def test_without_a_compiler_it_is_refused(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(user_c.shutil, "which", lambda name: None)
    user_c._built.cache_clear()
    with pytest.raises(ToolError, match="install gcc"):
        compiled(model, str(EXAMPLE / "operators.json"))
