"""What people read: the default text of every verb, on networks of every operator and with every rule. Tests that read
JSON do not see a text that cannot be made."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from atonc.compiler.compile.compile_view import CompileView, analyze
from atonc.compiler.frontends.read import read
from atonc.compiler.lower.map_ops import CpuReason
from atonc.compiler.ops import kinds
from atonc.compiler.plan.types import CpuPlan
from atonc.compiler.request.options import Options
from atonc.compiler.select.rules import BY_NATURE, RULES
from atonc.doors.cli.cli import main
from atonc.insight.explain.ours import network_view
from atonc.insight.report import compile_text, explain_text
from atonc.insight.report.document import lines
from atonc.machine.base.reasons import Rule
from tests.insight.views import compile_view
from tests.kernels.kernel_examples import examples
from tests.views.random_models import every_operator, random_model

STYLES = ("int8", "int16", "float")
ODD = {  # first operator and style, each with a seed whose network is not refused
    "a PReLU on the NPU or not": ("prelu", "int8", 1),
    "a PReLU of 16 bits": ("prelu", "int16", 2),
    "16 bits that are not symmetric": ("conv", "uint16", 3),
    "a state in float": ("recurrent", "float", 4),
    "dilated pooling": ("pool", "uint8", 5),
    "a LayerNorm in parts": ("norm", "mixed", 6),
    "edges of floats": ("edges_of_floats", "float", 7),
    "all on the CPU": ("soft", "float", 9),
}
# no ONNX node alone becomes one of them: passes make or fold them, or only TFLite has them (tests/frontends)
ELSEWHERE = {
    *("batch_norm", "expand_dims", "fill", "flatten", "identity", "int8_to_uint8", "range", "recode", "requantize"),
    *("reverse", "shape", "silu", "squeeze", "table", "uint8_to_int8", "relu6", "relu_0_to_1", "relu_n1_to_1"),
    *("batch_to_space", "space_to_batch", "floor_div", "floor_mod", "not_equal", "pack", "unpack"),
    *("squared_difference", "rsqrt"),
}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("every operator")
    for style in STYLES:
        (folder / f"{style}.onnx").write_bytes(every_operator(style))
    return {style: folder / f"{style}.onnx" for style in STYLES}


def said(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    """The default text of a verb that ends well."""
    code = main([str(word) for word in words])
    out = capsys.readouterr()
    assert code == 0, f"{words[0]}: exit code {code}, {out.err[-500:]}"
    assert out.out.strip(), words
    return out.out


@pytest.mark.parametrize("style", STYLES)
def test_every_verb_says_something_of_every_operator(
    style: str, models: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, build, page = models[style], tmp_path / "build", tmp_path / "page.html"
    text = said(capsys, "generate", model, "--allow-float", "-o", build)
    assert "on the CPU" in text and "verified" in text
    assert "passed" in said(capsys, "validate", model, "--allow-float", "--io-only", "-b", 2)
    assert "latency" in said(capsys, "explain", model, "--allow-float")
    for words in (("explain", build), ("compare", build, build), ("run", build), ("view", build, "--save", page)):
        said(capsys, *words)
    if style != "float":
        assert "epoch" in said(capsys, "disasm", build / "network_ecblobs.h", "--epochs")


def test_the_networks_hold_every_operator(models: dict[str, Path]) -> None:
    held = {op.kind for model in models.values() for op in read(model).ops} | {op.kind for _, op in examples()}
    assert kinds() - held == ELSEWHERE


@pytest.mark.parametrize("number", range(len(examples())))
def test_calls_of_every_kernel_can_be_told(number: int) -> None:
    texts(compile_view(examples()[number][0]))


@pytest.mark.parametrize("what", ODD)
def test_odd_networks_can_be_told(what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, style, seed = ODD[what]
    model = tmp_path / "odd.onnx"
    model.write_bytes(random_model(seed, first, style))
    said(capsys, "generate", model, "--allow-float", "-o", tmp_path / "build")
    said(capsys, "explain", model, "--allow-float")


@pytest.mark.parametrize("verb", ["ops", "board", "doctor"])
def test_verbs_without_a_model(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    said(capsys, *((verb, "list") if verb == "board" else (verb,)))


def texts(view: CompileView) -> str:
    network = network_view(view)
    documents = [compile_text.document(view), compile_text.document(view, verbose=True)]
    documents += [explain_text.document(network, network.layers, verbose=verbose) for verbose in (False, True)]
    assert all(document.data is not None and document.data() for document in documents)
    return "\n".join(line for document in documents for line in lines(document))


@pytest.fixture(scope="module")
def on_cpu() -> CompileView:
    softmax = next(graph for graph, op in examples() if op.kind == "softmax")
    return compile_view(softmax)


@pytest.mark.parametrize("rule", {rule.id: rule for rule in (*RULES.values(), *BY_NATURE.values())}.values(), ids=str)
def test_every_rule_has_its_words(rule: Rule, on_cpu: CompileView) -> None:
    """As the reason of a layer that the CPU computes."""
    mapped = on_cpu.compiled.mapped
    because = {op: CpuReason(op, "softmax", rule, "seen", rule.limit, rule.remedy) for op in mapped.reason_of}
    view = replace(on_cpu, compiled=replace(on_cpu.compiled, mapped=replace(mapped, reason_of=because)))
    assert because and rule.sentence in texts(view)


def test_reasons_belong_to_their_steps(models: dict[str, Path]) -> None:
    """By operator, not by place: steps may run in another order than the model has them."""
    view = analyze(models["int16"], Options(verify=False, allow_float=True))
    kind_of = {op.name: op.kind for op in view.compiled.graph.ops}
    plans = [step.plan for step in view.compiled.program.steps if isinstance(step.plan, CpuPlan)]
    steps = compile_text.cpu_steps(view)
    assert len(steps) > 20 and [reason.op for reason, _ in steps] == [kind_of[plan.op] for plan in plans]
