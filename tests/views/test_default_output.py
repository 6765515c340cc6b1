"""What people read: the text of every verb, on networks of every operator and with every rule. Tests that read JSON do
not see a text that cannot be made.

`tests/golden/said` has these texts word for word, the digests of the files that are written with them, and the models
(other versions of onnxruntime could draw others). Whoever changes a text, a figure or a byte writes them anew

    pytest tests/views/test_default_output.py --rewrite-said

reads the difference, and says in the commit why it is right.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from atonc.compiler.compile.compile_view import CompileView, analyze
from atonc.compiler.frontends.read import read
from atonc.compiler.ops import kinds
from atonc.compiler.plan.types import CpuPlan
from atonc.compiler.request.options import Options
from atonc.compiler.select.choices import CpuReason
from atonc.compiler.select.rules import BY_NATURE, RULES
from atonc.doors.cli.cli import main
from atonc.insight.explain.ours import network_view
from atonc.insight.report import compile_text, explain_text
from atonc.insight.report.document import lines
from atonc.machine.base.reasons import Rule
from tests.insight.views import compile_view
from tests.kernels.kernel_examples import examples
from tests.views.random_models import every_operator, random_model

EXAMPLES = Path(__file__).parents[2] / "examples"
STYLES = ("int8", "int16", "float")
ODD = {  # first operator and style, each with a seed whose network is not refused
    "a_PReLU_on_the_NPU_or_not": ("prelu", "int8", 1),
    "a_PReLU_of_16_bits": ("prelu", "int16", 2),
    "16_bits_that_are_not_symmetric": ("conv", "uint16", 3),
    "a_state_in_float": ("recurrent", "float", 4),
    "dilated_pooling": ("pool", "uint8", 5),
    "a_LayerNorm_in_parts": ("norm", "mixed", 6),
    "edges_of_floats": ("edges_of_floats", "float", 7),
    "all_on_the_CPU": ("soft", "float", 9),
}
TO_CODES = "--input-data-type int8 --output-data-type int8 --cut-output-tensors dense"
DELIVERED = {  # what goes to firmware, other projects and boards
    "layouts": [
        *(f"generate digits/digits.tflite --layout {name} -o {name}" for name in ("zephyr", "openmv", "cmsis")),
        f"generate digits/digits.tflite --layout rust -o rust {TO_CODES}",
        "generate digits/digits.tflite -r split -o image",
        "generate digits/digits.tflite --hex --stai --selftest --shared-kernels -o all",
    ],
    "applications": ["app build two_networks.toml -o app"],
    "boards": [
        *(f"board {what} stm32n6570-dk" for what in ("show", "linker", "mpool")),
        "board list",
        "probe writers-share-word -o probes",
    ],
}
# no ONNX node alone becomes one of them: passes make or fold them, or only TFLite has them (tests/frontends)
ELSEWHERE = {
    *("batch_norm", "expand_dims", "fill", "flatten", "identity", "int8_to_uint8", "range", "recode", "requantize"),
    *("reverse", "shape", "silu", "squeeze", "table", "uint8_to_int8", "relu6", "relu_0_to_1", "relu_n1_to_1"),
    *("batch_to_space", "space_to_batch", "floor_div", "floor_mod", "not_equal", "pack", "unpack"),
    *("squared_difference", "rsqrt", "custom"),
}


Say = Callable[..., str]
SAID = Path(__file__).parents[1] / "golden" / "said"
MOST_LINES = 500  # of a text that is kept in words
OF_THE_MACHINE = "  with optimisation"  # by kernels of the reference, which differ between processors
OF_KERNELS = re.compile(r" +-?\d+\.\d+(?:e[-+]\d+)?| +\d+(?=  \w+$)", re.MULTILINE)  # and counts
SECONDS = re.compile(r"\b\d+\.\d+ s\b")


def model(request: pytest.FixtureRequest, name: str, make: Callable[[], bytes]) -> Path:
    """As it was when its texts were recorded."""
    kept = SAID / f"{name}.onnx"
    if request.config.getoption("--rewrite-said") or not kept.is_file():
        kept.write_bytes(make())
    return kept


@pytest.fixture(scope="module")
def models(request: pytest.FixtureRequest) -> dict[str, Path]:
    return {style: model(request, style, partial(every_operator, style)) for style in STYLES}


def digests(folder: Path) -> list[str]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return [f"{hashlib.sha256(path.read_bytes()).hexdigest()[:16]}  {path.relative_to(folder)}" for path in files]


def told(verb: str, text: str) -> list[str]:
    """The lines, or how many there are and their digest where nobody would read them."""
    text = SECONDS.sub("- s", text)
    text = OF_KERNELS.sub(" #", text) if verb == "validate" else text
    lines = [line for line in text.rstrip().splitlines() if not line.startswith(OF_THE_MACHINE)]
    short = [f"{len(lines)} lines, {hashlib.sha256(text.encode()).hexdigest()[:16]}"]
    return lines if len(lines) <= MOST_LINES else short


@pytest.fixture
def say(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Iterator[Say]:
    """Runs a verb and gives its text; all texts of a test and what it wrote are compared with their record."""
    monkeypatch.chdir(tmp_path)  # no path in a text
    monkeypatch.setenv("COLUMNS", "120")
    kept: list[str] = []

    def say(*words: str) -> str:
        code = main(list(words))
        out = capsys.readouterr()
        assert code == 0, f"{words[0]}: exit code {code}, {out.err[-500:]}"
        assert out.out.strip(), words
        kept.extend([f"$ atonc {' '.join(words)}", *told(words[0], out.out), ""])
        return out.out

    before = request.session.testsfailed
    yield say
    if request.session.testsfailed > before:
        return  # what is missing says nothing then
    found = [*kept, *digests(tmp_path)]
    record = SAID / f"{request.node.callspec.id}.txt"
    if request.config.getoption("--rewrite-said"):
        record.write_text("\n".join([*found, ""]))
    recorded = record.read_text().splitlines() if record.is_file() else []
    assert found == recorded, "say so in the commit, and --rewrite-said"


@pytest.mark.parametrize("style", STYLES)
def test_every_verb_says_something_of_every_operator(style: str, models: dict[str, Path], say: Say) -> None:
    Path("model.onnx").write_bytes(models[style].read_bytes())
    text = say("generate", "model.onnx", "--allow-float", "-o", "build")
    assert "on the CPU" in text and "verified" in text
    assert "passed" in say("validate", "model.onnx", "--allow-float", "--io-only", "-b", "2")
    assert "latency" in say("explain", "model.onnx", "--allow-float")
    say("analyze", "model.onnx", "--allow-float", "-v")
    for words in (("explain", "build", "-v"), ("compare", "build", "build"), ("run", "build")):
        say(*words)
    say("view", "build", "--save", "page.html")
    if style != "float":
        assert "epoch" in say("disasm", "build/network_ecblobs.h", "--epochs")


def test_the_networks_hold_every_operator(models: dict[str, Path]) -> None:
    held = {op.kind for model in models.values() for op in read(model).ops} | {op.kind for _, op in examples()}
    assert kinds() - held == ELSEWHERE


@pytest.mark.parametrize("number", range(len(examples())))
def test_calls_of_every_kernel_can_be_told(number: int) -> None:
    texts(compile_view(examples()[number][0]))


@pytest.mark.parametrize("what", ODD)
def test_odd_networks_can_be_told(what: str, say: Say, request: pytest.FixtureRequest) -> None:
    first, style, seed = ODD[what]
    kept = model(request, what, partial(random_model, seed, first, style))
    Path("model.onnx").write_bytes(kept.read_bytes())
    say("generate", "model.onnx", "--allow-float", "-o", "build")
    say("explain", "model.onnx", "--allow-float")


@pytest.mark.parametrize("what", DELIVERED)
def test_what_is_delivered(what: str, say: Say) -> None:
    for name in ("digits/digits.tflite", "digits/digits.onnx", "two_networks.toml"):
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_bytes((EXAMPLES / name).read_bytes())
    for words in DELIVERED[what]:
        say(*words.split())


@pytest.mark.parametrize("verb", ["ops", "board", "doctor"])
def test_verbs_without_a_model(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([verb, "list"] if verb == "board" else [verb]) == 0 and capsys.readouterr().out.strip()


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
    choices = on_cpu.compiled.choices
    because = {op: CpuReason(op, "softmax", rule, "seen", rule.limit, rule.remedy) for op in choices.reason_of}
    view = replace(on_cpu, compiled=replace(on_cpu.compiled, choices=replace(choices, reason_of=because)))
    assert because and rule.sentence in texts(view)


def test_reasons_belong_to_their_steps(models: dict[str, Path]) -> None:
    """By operator, not by place: steps may run in another order than the model has them."""
    view = analyze(models["int16"], Options(verify=False, allow_float=True))
    kind_of = {op.name: op.kind for op in view.compiled.graph.ops}
    plans = [step.plan for step in view.compiled.program.steps if isinstance(step.plan, CpuPlan)]
    steps = compile_text.cpu_steps(view)
    assert len(steps) > 20 and [reason.op for reason, _ in steps] == [kind_of[plan.op] for plan in plans]
