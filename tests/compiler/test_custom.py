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

import atonc
from atonc.compiler.compile.pipeline import Compiled, compile_file
from atonc.compiler.frontends.custom_file import custom_files
from atonc.compiler.request.options import Options
from atonc.compiler.verify.emulation import Emulation
from atonc.doors.agents.tools import TOOLS
from atonc.doors.cli.cli import main
from atonc.doors.serve import form
from atonc.insight.estimating.estimate import estimate
from atonc.insight.runs.runs import RunOptions, run
from atonc.machine.base import user_c
from atonc.machine.base.errors import AtoncError, ToolError, UnsupportedError
from atonc.machine.emu.cpu import call_cost, describe_call
from atonc.machine.emu.network import load
from examples import make_custom
from tests.frontends import tflite_models
from tests.frontends.tflite_models import O, T

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
            '#include "atonc_custom.h"\n#include <signal.h>\n#include <stdlib.h>\n#include <unistd.h>\n'
            "static int calls;\n"
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
    (reason,) = [one for one in found.choices.reasons if one.node == op.name]
    assert reason.rule.id == "CPU-CUSTOM"
    (note,) = [one for one in found.source.notes if "C of the user" in one]
    assert "against itself only" in note and "roll() of roll.c" in note


def cycles_of(found: Compiled) -> int:
    plans = (step.plan for step in found.program.steps)
    return next(c.cycles for plan, c in zip(plans, found.cost.steps, strict=True) if "custom" in plan.title)


def test_a_folder_costs_what_its_compilation_said_and_runs_where_asked(model: Path, tmp_path: Path) -> None:
    out, custom = tmp_path / "out", str(EXAMPLE / "operators.json")
    atonc.compile(model, custom=custom, cache=False).save(out)
    found = compiled(model, custom, verify=False)
    step = next(s for s in load(out).steps if any(call.name == user_c.CALL for call in s.calls))
    (call,) = step.calls
    cost = call_cost(call.name, call.args)
    assert (cost.cpu_cycles, cost.known, cost.basis) == (6000, True, "as declared")
    assert describe_call(call.name, call.args) == "Custom roll()"
    assert "custom" not in found.cost.unknown
    with pytest.raises(UnsupportedError, match="C of the user"):
        run(RunOptions(out))
    result = run(RunOptions(out, custom=str(out / "network_custom.json")))
    assert len(result.outputs) == 1


TYPES = """
#include "atonc_custom.h"

void mix(const atonc_tensor *a, const atonc_tensor *b, const atonc_tensor *table, const atonc_tensor *y,
         const atonc_tensor *z, float gain, const int32_t *order, int32_t orders, const uint8_t *bytes, int32_t count)
{
    const uint8_t *in = a->data;
    const int16_t *wide = b->data;
    const float *values = table->data;
    int16_t *out = y->data;
    float *real = z->data;
    for (int32_t k = 0; k < y->elements; k++) {
        out[k] = (int16_t)(wide[order[k % orders] % b->elements] + in[k % a->elements] - a->zero_point);
    }
    for (int32_t k = 0; k < z->elements; k++) {
        real[k] = gain * values[k] * b->scale + (float)bytes[k % count] + (float)z->shape[0];
    }
}
"""


def test_types_lists_options_and_several_results(tmp_path: Path) -> None:
    """A TFLite operator with codes of three types, a constant, and what the file says as its options."""
    (tmp_path / "mix.c").write_text(TYPES)
    table = np.arange(6, dtype=np.float32) - 2.5
    data = tflite_models.build(
        [T("a", (1, 8), "uint8", 0.1, 7), T("b", (1, 8), "int16", 0.01), T("t", (6,), "float32", data=table),
         T("y", (1, 8), "int16", 0.02), T("z", (6,), "float32")],
        [O("CUSTOM:Mix", ["a", "b", "t"], ["y", "z"], custom=b"\x05\x06\x07")],
        ["a", "b"],
        ["y", "z"],
    )  # fmt: skip
    (tmp_path / "mix.tflite").write_bytes(data)
    row = {
        "name": "Mix", "function": "mix", "sources": ["mix.c"], "inputs": ["uint8", "int16", "float32"],
        "outputs": ["int16", {"type": "float32", "shape": [6]}],
        "attributes": [{"name": "gain", "type": "float", "default": 0.5},
                       {"name": "order", "type": "ints", "default": [3, 1]}, {"name": "options", "type": "bytes"}],
    }  # fmt: skip
    (tmp_path / "operators.json").write_text(json.dumps({"operators": [row]}))
    found = compiled(tmp_path / "mix.tflite", str(tmp_path / "operators.json"))
    random = np.random.default_rng(3)
    a, b = random.integers(0, 256, (1, 8)).astype(np.uint8), random.integers(-900, 900, (1, 8)).astype(np.int16)
    seen = Emulation(found.program, found.graph, found.memory.pools).run({"a": a, "b": b})
    order = np.resize([3, 1], 8)
    assert np.array_equal(seen["y"][0], (b[0, order].astype(int) + a[0] - 7).astype(np.int16))
    scale = np.float32(0.01)
    assert np.allclose(seen["z"], 0.5 * table * scale + np.resize([5, 6, 7], 6) + 6)
    row["outputs"] = ["int16", {"type": "float32", "shape": [5]}]
    (tmp_path / "operators.json").write_text(json.dumps({"operators": [row]}))
    with pytest.raises(AtoncError, match=r"output 2 has shape \(6,\)"):
        compiled(tmp_path / "mix.tflite", str(tmp_path / "operators.json"))


@pytest.mark.parametrize("kind", ["float32", "int8"])
def test_between_dequantize_and_quantize(tmp_path: Path, kind: str) -> None:
    """Declared as real numbers it gets those, declared as codes it computes on the codes."""
    ctype = {"float32": "float", "int8": "int8_t"}[kind]
    (tmp_path / "roll.c").write_text((EXAMPLE / "roll.c").read_text().replace("int8_t", ctype))
    row = json.loads((EXAMPLE / "operators.json").read_text())["operators"][0]
    (tmp_path / "operators.json").write_text(json.dumps({"operators": [row | {"inputs": [kind], "outputs": [kind]}]}))
    made = make_custom.model()
    nodes = {node.name: node for node in made.graph.node}
    index = list(made.graph.node).index(nodes["rolled"])
    format = ["middle", "three"]
    around = [
        onnx.helper.make_node("DequantizeLinear", ["a_codes", *format], ["a_real"]),
        onnx.helper.make_node("Roll", ["a_real"], ["b_real"], name="rolled", domain=make_custom.DOMAIN, shift=3),
        onnx.helper.make_node("QuantizeLinear", ["b_real", *format], ["b_codes"]),
    ]
    nodes = [*made.graph.node[:index], *around, *made.graph.node[index + 1 :]]
    del made.graph.node[:]
    made.graph.node.extend(nodes)
    onnx.save(made, tmp_path / "custom.onnx")
    found = compiled(tmp_path / "custom.onnx", str(tmp_path / "operators.json"))
    op = next(op for op in found.graph.ops if op.kind == "custom")
    assert {found.graph.tensors[name].dtype for name in (*op.inputs, *op.outputs)} == {kind}
    x = np.random.default_rng(1).normal(0, 1, (1, 3, make_custom.SIZE, make_custom.SIZE)).astype(np.float32)
    seen = Emulation(found.program, found.graph, found.memory.pools).run({"x": x}, observe=True)
    assert np.array_equal(seen[op.outputs[0]], np.roll(seen[op.inputs[0]], 3, axis=-1))


SCRATCH = """
#include "atonc_custom.h"

void roll(const atonc_tensor *x, const atonc_tensor *y, int32_t shift, void *scratch)
{
    const int8_t *in = x->data;
    int8_t *out = y->data, *held = scratch;
    for (int32_t k = 0; k < x->elements; k++) {
        held[k] = in[k];
    }
    for (int32_t k = 0; k < x->elements; k++) {
        out[k] = held[(k + shift) % x->elements];
    }
}
"""


def test_scratch_memory_is_placed_and_guarded(model: Path, declare: Callable[..., str]) -> None:
    custom, size = declare(scratch_bytes=1152), 1152
    Path(custom).with_name("roll.c").write_text(SCRATCH)
    found = compiled(model, custom)
    (home,) = [home for home in found.program.placed.values() if home.buffer.name == "rolled:scratch"]
    assert home.buffer.size_bytes == size
    x = np.random.default_rng(1).normal(0, 1, (1, 3, make_custom.SIZE, make_custom.SIZE)).astype(np.float32)
    seen = Emulation(found.program, found.graph, found.memory.pools).run({"x": x}, observe=True)
    op = next(op for op in found.graph.ops if op.kind == "custom")
    assert np.array_equal(seen[op.outputs[0]].reshape(-1), np.roll(seen[op.inputs[0]].reshape(-1), -3))
    custom = declare(scratch_bytes=1151)
    Path(custom).with_name("roll.c").write_text(SCRATCH)
    with pytest.raises(user_c.UserCodeError, match="byte 1151 of scratch, which has 1151 bytes"):
        compiled(model, custom)


def test_declared_cycles_count_and_missing_ones_are_said(model: Path, declare: Callable[..., str]) -> None:
    found = [compiled(model, declare(cycles=cycles), verify=False) for cycles in (1000, 101_000, None)]
    cheap, dear, guessed = map(cycles_of, found)
    npu_clock, cpu_clock = found[0].cost.npu_mhz, found[0].cost.cpu_mhz
    assert dear - cheap == pytest.approx(100_000 * npu_clock / cpu_clock, rel=0.01)
    assert guessed > 0 and "custom" in found[2].cost.unknown
    assert any("a rough estimate" in note for note in found[2].source.notes)
    assert "custom" not in found[0].cost.unknown


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
        ("raise(SIGKILL);", "is ended by signal 9 (Killed)"),
        (
            "static int32_t one; if (!one) one = getpid(); for (k = 0; k < n; k++) out[k] = one >> k % 8;",
            "other values in another process",
        ),
        (
            "char *all = malloc((size_t)3 << 30); for (k = 0; k < n; k++) out[k] = all[k];",
            "touches memory that is not its own",
        ),
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
        ({"outputs": ["uint8"]}, "the model takes 'b_codes' for int8, its declaration gives uint8"),
        ({"outputs": ["int16"]}, "the model takes 'b_codes' for int8, its declaration gives int16"),
        ({"outputs": ["float32"]}, "the model takes 'b_codes' for int8, its declaration gives float32"),
        (
            {"outputs": [{"type": "int8", "scale": 0.5, "zero_point": 3}]},
            "codes of scale 0.0500000007, zero point 3, its declaration of scale 0.5, zero point 3",
        ),
        ({"outputs": [{"type": "int8", "scale": 0.05}]}, "zero point 3, its declaration of scale 0.0500000007, zero p"),
        (
            {"outputs": [{"type": "int8", "shape": [1, 8, 12, 13]}]},
            "with its declaration 'y' has shape (1, 4, 12, 13), the model says (1, 4, 12, 12)",
        ),
        ({"outputs": [{"type": "int8", "shape": [1, 8, 1 << 30, 1 << 30]}]}, "impossible"),
        ({"outputs": [{"type": "int8", "scale": 0}]}, "no format of int8 codes"),
        ({"outputs": [{"type": "int8", "scale": 1, "zero_point": 128}]}, "no format of int8 codes"),
        ({"outputs": [{"type": "int8", "zero_point": 3}]}, "with scale None"),
        ({"outputs": [{"type": "float32", "scale": 1}]}, "real numbers have neither"),
        ({"cycles": 0}, "cycles 0"),
        ({"function": "int"}, "a word of C"),
        ({"function": "main"}, "are taken"),
        ({"attributes": [{"name": "shift", "type": "int"}] * 2}, "'shift' is declared twice"),
    ],
)
def test_wrong_declarations(model: Path, declare: Callable[..., str], members: dict[str, Any], said: str) -> None:
    with pytest.raises(AtoncError) as raised:
        compiled(model, declare(**members))
    assert said in " ".join(str(raised.value).split()) and raised.value.fix
    assert "export the model again" not in raised.value.fix


def test_a_declaration_may_say_what_the_model_says(model: Path, declare: Callable[..., str]) -> None:
    said = {"type": "int8", "shape": [1, 8, 12, 12], "scale": 0.05, "zero_point": 3}
    kinds = [[op.kind for op in compiled(model, declare(outputs=[one])).graph.ops] for one in (said, "int8")]
    assert kinds[0] == kinds[1] and "custom" in kinds[0]


def test_an_unused_declaration_is_said(model: Path, declare: Callable[..., str]) -> None:
    path = Path(declare())
    row = json.loads(path.read_text())["operators"][0]
    path.write_text(json.dumps({"operators": [row, row | {"name": "Other", "function": "other"}]}))
    notes = compiled(model, str(path), verify=False).source.notes
    assert "the model has no example.ops.Other, which --custom declares" in notes


@pytest.mark.parametrize("away", ["", "setsid(); "])
def test_a_process_that_it_starts_is_not_waited_for(model: Path, declare: Callable[..., str], away: str) -> None:
    """It lives longer than a function may."""
    body = f"if (!fork()) {{ {away}for (k = 0; k < 40; k++) sleep(1); }} for (k = 0; k < n; k++) out[k] = in[k];"
    compiled(model, declare(body))


@pytest.mark.parametrize(("value", "said"), [("0.0f / zero", "nan"), ("1.0f / zero", "inf")])
def test_what_is_no_number_is_refused(tmp_path: Path, value: str, said: str) -> None:
    """Unless an input holds such a value itself."""
    source = (
        '#include "atonc_custom.h"\nvoid f(const atonc_tensor *x, const atonc_tensor *y) {\n'
        "float zero = ((float *)x->data)[0], *out = y->data;\n"
        f"for (int k = 0; k < y->elements; k++) out[k] = k == 2 ? {value} : 1; }}"
    )
    output = user_c.CustomOutput("float32")
    operator = user_c.CustomOperator("F", "f", (("f.c", source.encode()),), ("float32",), (output,))
    operands = tuple(user_c.CustomTensor(name, "float32", (4,)) for name in ("input 1", "output 1"))
    call = user_c.CustomCall(operator, operands, ())
    with pytest.raises(user_c.UserCodeError, match=f"gives {said} at element 2 of output 1"):
        call.run([np.zeros(4, np.float32).tobytes()])
    assert call.run([np.array([0, 1, 2, np.inf], np.float32).tobytes()])


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"operators": []}', '{"operators": [1]}', "\x00", "[" * 100_000])
def test_no_declaration(model: Path, tmp_path: Path, text: str) -> None:
    path = tmp_path / "operators.json"
    path.write_text(text)
    with pytest.raises(AtoncError, match=r"operators\.json"):
        compiled(model, str(path))


def test_without_the_option_the_error_names_it(model: Path) -> None:
    with pytest.raises(UnsupportedError, match="--custom FILE"):
        compile_file(model, Options(cache=False))


def test_an_estimate_names_the_verb_that_takes_it(model: Path) -> None:
    with pytest.raises(UnsupportedError) as raised:
        estimate(model)
    assert "atonc analyze custom.onnx --custom FILE" in raised.value.fix


def test_every_view_marks_the_guess_and_names_the_option(
    model: Path, tmp_path: Path, declare: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    custom, out = declare(cycles=None), str(tmp_path / "out")
    assert main(["generate", str(model), "--custom", custom, "-o", out, "-q", "--no-verify"]) == 0
    capsys.readouterr()
    assert main(["explain", out]) == 0
    said = capsys.readouterr().out
    assert "~28,800  cpu  custom rolled" in said and "~: rough estimate" in said
    assert "atonc explain MODEL --custom FILE" in said
    assert main(["run", out, "--custom", custom]) == 0
    assert "~: rough estimate" in capsys.readouterr().out
    assert main(["compare", out, out, "--json"]) == 0
    assert "rough estimate" in " ".join(json.loads(capsys.readouterr().out)["a"]["notes"])


def test_without_a_compiler_it_is_refused(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(user_c.shutil, "which", lambda name: None)
    user_c._built.cache_clear()
    with pytest.raises(ToolError, match="install gcc"):
        compiled(model, str(EXAMPLE / "operators.json"))


@pytest.mark.skipif(not shutil.which("arm-none-eabi-gcc"), reason="no cross compiler")
def test_the_virtual_board_runs_the_same_c(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["validate", str(model), "--custom", str(EXAMPLE / "operators.json"), "--mode", "board", "-b", "1"]
    assert main(words) == 0
    said = capsys.readouterr().out
    assert "every byte equals the emulator's" in said and "against itself only" in said
    assert main([*words, "--json"]) == 0
    (note,) = json.loads(capsys.readouterr().out)["notes"]
    assert "against itself only" in note


@pytest.mark.skipif(not shutil.which("arm-none-eabi-gcc"), reason="no cross compiler")
def test_a_relocatable_image_holds_it(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["generate", str(model), "--custom", str(EXAMPLE / "operators.json"), "-r", "-o", str(tmp_path / "out")]
    assert main([*words, "--no-verify"]) == 0
    assert (tmp_path / "out" / "network_rel.bin").stat().st_size > 1000


def test_networks_of_an_application_share_the_files(model: Path, tmp_path: Path) -> None:
    for file in (*EXAMPLE.iterdir(), model):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    each = '[[network]]\nname = "{}"\nmodel = "custom.onnx"\n[network.options]\ncustom = "operators.json"\n'
    (tmp_path / "app.toml").write_text(each.format("one") + each.format("two"))
    assert main(["app", "build", str(tmp_path / "app.toml"), "-o", str(tmp_path / "out"), "-q"]) == 0
    assert {"roll.c", "one_custom.json", "two_custom.json"} <= {path.name for path in (tmp_path / "out").iterdir()}


def test_nobody_runs_it_for_others() -> None:
    for verb in (tool.verb for tool in TOOLS.values()):
        assert "custom" not in form.options_schema(verb)["properties"]
        with pytest.raises(AtoncError):
            list(form.words(verb, {"custom": "operators.json"}))


def test_files_that_take_part_are_named() -> None:
    assert [path.name for path in custom_files(str(EXAMPLE / "operators.json"))] == ["operators.json", "roll.c"]
    assert custom_files("") == []


def test_a_folder_does_not_decide_that_its_c_runs(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What a folder was built with names a declaration, too: nobody follows that by himself."""
    for file in (*EXAMPLE.iterdir(), model):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    monkeypatch.chdir(tmp_path)
    assert main(["generate", "custom.onnx", "--custom", "operators.json", "-o", "out", "-q"]) == 0
    assert main(["validate", "out", "--custom", "operators.json", "-b", "1", "--io-only"]) == 0
    capsys.readouterr()
    monkeypatch.setattr(user_c, "_built", lambda call: pytest.fail("it was compiled"))
    for words in (["validate", "out"], ["validate", "out", "--mode", "board"], ["run", "out"]):
        assert main(words) == 2
        assert "--custom FILE" in capsys.readouterr().err


CODES = """
#include "atonc_custom.h"

void roll(const atonc_tensor *x, const atonc_tensor *y)
{
    const float *in = x->data;
    int8_t *out = y->data;
    for (int32_t k = 0; k < y->elements; k++) {
        out[k] = (int8_t)(in[k % x->elements] * 10);
    }
}
"""


def _coded(tmp_path: Path, shape: list[int], *more: onnx.NodeProto, **row: Any) -> Compiled:
    """Real numbers in, codes out, which the file hands to a QuantizeLinear."""
    make, info = onnx.helper.make_node, onnx.helper.make_tensor_value_info
    nodes = [
        make("Roll", ["x"], ["w"], name="rolled", domain=make_custom.DOMAIN),
        make("QuantizeLinear", ["w", "s", "z"], ["q"]),
        make("DequantizeLinear", ["q", "s", "z"], ["y"]),
        *more,
    ]
    held = [onnx.numpy_helper.from_array(np.asarray(v), k) for k, v in (("s", np.float32(0.3)), ("z", np.int8(4)))]
    outputs = [info(name, onnx.TensorProto.FLOAT, shape) for name in ("y", *(node.output[0] for node in more))]
    graph = onnx.helper.make_graph(nodes, "g", [info("x", onnx.TensorProto.FLOAT, [1, 8])], outputs, held,
                                   value_info=[info("w", onnx.TensorProto.FLOAT, shape)])  # fmt: skip
    opsets = [onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid(make_custom.DOMAIN, 1)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8), tmp_path / "m.onnx")
    (tmp_path / "roll.c").write_text(CODES)
    row = {"attributes": [], "inputs": ["float32"], **row}
    known = json.loads((EXAMPLE / "operators.json").read_text())["operators"][0]
    (tmp_path / "operators.json").write_text(json.dumps({"operators": [known | row]}))
    return compiled(tmp_path / "m.onnx", str(tmp_path / "operators.json"), allow_float=True)


def test_codes_that_it_gives_are_those_of_the_quantize_linear_behind_it(tmp_path: Path) -> None:
    found = _coded(tmp_path, [1, 5])  # the shape is that of the file
    x = np.linspace(-3, 3, 8, dtype=np.float32).reshape(1, 8)
    y = Emulation(found.program, found.graph, found.memory.pools).run({"x": x})["y"]
    assert np.allclose(y, (np.trunc(x[:, :5] * 10) - 4) * 0.3, atol=1e-5)


def test_codes_for_several_readers_and_other_shapes_are_refused(tmp_path: Path) -> None:
    relu = onnx.helper.make_node("Relu", ["w"], ["r"])
    with pytest.raises(AtoncError, match="read by others than one QuantizeLinear"):
        _coded(tmp_path, [1, 5], relu)
    with pytest.raises(AtoncError, match=r"has shape \(1, 5\), its declaration \(1, 4\)"):
        _coded(tmp_path, [1, 5], outputs=[{"type": "int8", "shape": [1, 4]}])
    with pytest.raises(AtoncError, match="read by others than one QuantizeLinear to uint8"):
        _coded(tmp_path, [1, 5], outputs=["uint8"])


def test_constants_of_uint8_stay_uint8(tmp_path: Path) -> None:
    body = "o[k] = (uint8_t)(p[k] + q[k] - b->zero_point);"
    (tmp_path / "add.c").write_text(
        '#include "atonc_custom.h"\nvoid add(const atonc_tensor *a, const atonc_tensor *b, const atonc_tensor *y) {\n'
        "const uint8_t *p = a->data, *q = b->data; uint8_t *o = y->data;\n"
        f"for (int k = 0; k < y->elements; k++) {{ {body} }} }}\n"
    )
    table = (np.arange(8) + 100).astype(np.uint8).reshape(1, 8)
    tensors = [T("a", (1, 8), "uint8", 0.1, 7), T("t", (1, 8), "uint8", 0.1, 5, data=table)]
    tensors += [T("y", (1, 8), "uint8", 0.1, 9), T("z", (1, 8), "uint8", 0.1, 9)]
    ops = [O("CUSTOM:Add", ["a", "t"], ["y"]), O("RELU", ["y"], ["z"])]
    (tmp_path / "m.tflite").write_bytes(tflite_models.build(tensors, ops, ["a"], ["z"]))
    row = {"name": "Add", "function": "add", "sources": ["add.c"], "inputs": ["uint8"] * 2, "outputs": ["uint8"]}
    (tmp_path / "operators.json").write_text(json.dumps({"operators": [row]}))
    found = compiled(tmp_path / "m.tflite", str(tmp_path / "operators.json"))
    a = (np.arange(8) * 9).astype(np.uint8).reshape(1, 8)
    z = Emulation(found.program, found.graph, found.memory.pools).run({"a": a})["z"]
    assert np.array_equal(z, np.maximum(a + table - 5, 9))
