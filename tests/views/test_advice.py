"""What `explain` and `generate` advise by default: the option that brings most first, as a command that does what it
says, for networks whose layers are too coarse, not seen in ST programs, in float, or not there at all."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest

from atonc.compiler.compile.pipeline import Compiled, compile_file
from atonc.compiler.compile.reproduce import asking
from atonc.compiler.request.options import Options
from atonc.compiler.select.rules import COARSE
from atonc.doors.cli.cli import main, parse
from atonc.doors.verbs.compiling import compiler_options, model_path
from atonc.insight.explain import actions
from atonc.insight.explain.folder import folder_view
from atonc.insight.explain.types import Decision
from atonc.insight.report.key_figures import best_actions
from tests.frontends.onnx_models import Net
from tests.frontends.tflite_models import O, T, build


class Advice(NamedTuple):
    """The words of the command, the promised milliseconds, and all that is said of it."""

    words: list[str]
    ms: float
    said: str


def advised(text: str, label: str = "next") -> Advice:
    """What a label of the summary says; the text is as wide as it comes."""
    found = re.search(rf"^{label} +(atonc .*?): ([\d.]+) ms (.*)$", text, re.MULTILINE)
    assert found is not None, text
    return Advice(shlex.split(found[1]), float(found[2]), found[3])


def followed(advice: Advice) -> float:
    """Milliseconds of what the command asks for."""
    options = parse(advice.words[1:])
    return compile_file(model_path(options), compiler_options(options)).cost.latency_ms


def coarse(net: Net) -> bytes:
    """Sums go up to the middle of the channels and come back, by more than 16 bits hold in steps of an LSB."""
    codes = np.where(np.arange(2048) < 1024, 100, -100) * np.ones((8, 1), int)
    constants = (codes.astype(np.int8).reshape(8, 2048, 1, 1), np.full(8, 0.0007, np.float32), np.zeros(8, np.int8))
    weights = net.node("DequantizeLinear", [net.const(one) for one in constants], axis=0)[0]
    sums = net.node("Conv", [net.qdq("x", 0.0108, -128), weights])[0]
    return net.model({"x": (1, 2048, 8, 8)}, [net.qdq(sums, 0.02, -128)])


def steep_sum(net: Net) -> bytes:
    """The output has so small a scale that the sum needs a shift that ST programs do not use."""
    total = net.node("Add", [net.qdq("a", 0.5, 3), net.qdq("b", 0.4, -7)])[0]
    shape = (1, 8, 64, 64)
    return net.model({"a": shape, "b": shape}, [net.qdq(total, 0.001, 1)])


def float_input(net: Net) -> bytes:
    y = net.conv(net.qdq("x", 1 / 255, -128), (8, 3, 3, 3), 1 / 255, strides=[2, 2])
    return net.model({"x": (1, 3, 96, 96)}, [net.q(y, 0.05)])


CASES = {
    "too coarse": (coarse, ["--allow-coarse", "3"], "max error 2.77 LSB instead of 0"),
    "not seen": (steep_sum, ["--allow-unproven", "any"], "1 epoch not seen in ST programs"),
    "float input": (float_input, ["--input-data-type", "int8"], "the application gives inputs of that type"),
}


@pytest.mark.parametrize("case", CASES)
def test_the_first_advice_brings_what_it_says(case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make, flags, price = CASES[case]
    model, output = tmp_path / "my model.onnx", str(tmp_path / "a build")
    model.write_bytes(make(Net()))
    assert main(["generate", str(model), "-o", output, "-n", "net", "--no-verify"]) == 0
    last = advised(capsys.readouterr().out)
    assert last.words == ["atonc", "generate", str(model), "-o", output, "-n", "net", "--no-verify", *flags]
    assert main(["explain", str(model)]) == 0
    first = advised(text := capsys.readouterr().out)
    assert first.words == ["atonc", "generate", str(model), *flags]
    for advice in (last, first):
        assert price in advice.said and followed(advice) == pytest.approx(advice.ms, rel=0.02)
    gains = [float(gain) for gain in re.findall(r"^  \d\. .*? ms \((-[\d.]+) %\)", text, re.MULTILINE)]
    assert len(gains) > 1 and gains == sorted(gains), "the largest first"


def test_reasons_name_the_limit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A shift has nothing to do with the size of the layer."""
    (model := tmp_path / "m.onnx").write_bytes(steep_sum(Net()))
    assert main(["explain", str(model), "--no-prices"]) == 0
    text = capsys.readouterr().out
    assert "needs shift 6 (ARITH) (limit: ST programs use 13 to 26)" in text
    assert "scales" in text and "sizes" not in text


def test_accuracy_that_an_option_costs_is_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (model := tmp_path / "m.onnx").write_bytes(coarse(Net()))
    assert main(["explain", str(model)]) == 0
    assert re.search(r"^next .*cosine 0\.99\d\d \(now 1\.0000\)", capsys.readouterr().out, re.MULTILINE)


def test_what_needs_nothing_accepted_stands_beside_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A float picture, and weights that wait for the flash."""
    net = Net()
    y = net.conv(net.qdq("x", 1 / 255, -128), (64, 3, 3, 3), 1 / 255, strides=[8, 8])
    y = net.conv(net.qdq(y, 0.05), (64, 64, 3, 3), 0.05, strides=[2, 2])
    (model := tmp_path / "m.onnx").write_bytes(net.model({"x": (1, 3, 128, 128)}, [net.q(y, 0.5)]))
    assert main(["explain", str(model)]) == 0
    first, second = (advised(text, label) for text in [capsys.readouterr().out] for label in ("next", "or"))
    assert first.words[-2] == "--input-data-type" and second.words[-2:] == ["--resident", "all"]
    assert first.ms < second.ms and followed(second) == pytest.approx(second.ms, rel=0.02)


@pytest.mark.parametrize("verb", ["generate", "analyze", "explain"])
def test_a_network_without_layers_is_advised_nothing(
    verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shape = T("s", (2,), "int32", data=np.array([1, 128], np.int32))
    tensors = [T("x", (1, 4, 4, 8), "int8", 0.05), shape, T("y", (1, 128), "int8", 0.05)]
    model = tmp_path / "m.tflite"
    model.write_bytes(build(tensors, [O("RESHAPE", ["x", "s"], ["y"])], ["x"], ["y"]))
    assert main([verb, str(model), *(["-o", str(tmp_path / "out")] if verb == "generate" else [])]) == 0
    text = capsys.readouterr().out
    assert "no option that applies brings anything" in text if verb == "explain" else " ms (-" not in text


# ------------------------------------------------------------------------------------------------------------ commands


@pytest.mark.parametrize(
    ("words", "before", "after", "wanted"),
    [
        ("generate m.tflite -o out", {}, {"resident": "all"}, "generate m.tflite -o out --resident all"),
        ("generate --resident 64k m", {"resident": "64k"}, {"resident": "all"}, "generate m --resident all"),
        ("analyze m --prefer=memory --json", {"prefer": "memory"}, {}, "analyze m --json"),
        ("analyze m --allow-unproven -v", {"allow_unproven": True}, {}, "analyze m -v"),
        ("compile m --no-epoch-controller -q", {"epoch_controller": False}, {}, "compile m -q"),
        ("generate m", {}, {"on_cpu": ("a b", "c")}, "generate m --on cpu 'a b' --on cpu c"),
        ("generate m -O ram -o x", {"prefer": "memory"}, {}, "generate elsewhere/m"),  # no flag to leave out
        ("", {}, {"prefer": "memory"}, "generate elsewhere/m --prefer memory"),
    ],
)
def test_commands_are_those_that_were_given(words: str, before: dict, after: dict, wanted: str) -> None:  # type: ignore[type-arg]
    made = asking(shlex.split(words), Path("elsewhere/m"), Options(**before), "network", Options(**after))
    assert made == f"atonc {wanted}"


def test_terminal_json_and_pages_give_the_same_advice(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What `generate` measured, in the same order, also when the folder is opened later."""
    model, build = tmp_path / "net.onnx", tmp_path / "build"
    model.write_bytes(float_input(Net()))
    words = ["generate", str(model), "-o", str(build), "--no-verify"]
    assert main(words) == 0
    last = advised(capsys.readouterr().out)
    assert main([*words, "--json"]) == 0
    first, *_ = tries = json.loads(capsys.readouterr().out)["next"]
    assert last.words == [word for word in shlex.split(first["command"]) if word != "--json"]
    assert first["brings"].endswith(last.said) and first["latency_ms"] == pytest.approx(last.ms, abs=6e-4)
    shown = [(one.what, one.gain) for one in best_actions(folder_view(build))]
    assert shown[: len(tries)] == [(one["option"], one["brings"]) for one in tries]
    assert json.dumps(first["brings"]) in (build / "report.html").read_text()


def test_a_limit_that_is_not_enough_is_raised_before_it_is_advised(monkeypatch: pytest.MonkeyPatch) -> None:
    """With another limit a layer may take another form, which is further off."""
    asked, needs = list[float](), {10.0: 20.0, 20.0: 0.0, 4.0: 10.0}

    def compiled(subject: object, options: Options) -> Compiled:
        asked.append(options.allow_coarse)
        made = object.__new__(Compiled)
        vars(made)["choices"] = SimpleNamespace(reasons=[SimpleNamespace(needs=needs[options.allow_coarse])])
        return made

    monkeypatch.setattr(actions, "_compile", compiled)
    subject: Any = SimpleNamespace(refusals=[SimpleNamespace(needs=4.0), SimpleNamespace(needs=10.0)])
    assert actions._enough(subject, Options(allow_coarse=10.0))[0].allow_coarse == 20 and asked == [10, 20]
    assert actions._enough(subject, Options(allow_coarse=4.0))[0].allow_coarse == 4  # meant for some layers


def test_the_fix_names_the_limit_that_worked() -> None:
    layer: Any = SimpleNamespace(name="y", cycles=9)
    before: Any = SimpleNamespace(memory=SimpleNamespace(ram_bytes=1), cycles=9)
    after: Any = SimpleNamespace(memory=SimpleNamespace(ram_bytes=1), cycles=5, layers=())
    told = Decision(COARSE, "9.24 LSB off", "2 LSB", "accept it: --allow-coarse 10")
    results: Any = [({COARSE.id}, "compiled with --allow-coarse 20", after)]
    assert actions._price(told, layer, before, results).remedy == "accept it: --allow-coarse 20"


def test_files_do_not_depend_on_what_is_shown(tmp_path: Path) -> None:
    """`--quiet`, `--json` and `-v` change only what is printed: the same options are tried, and told in the files."""
    model, written = Path(__file__).parents[2] / "examples" / "digits" / "digits.tflite", list[dict[str, bytes]]()
    for shown in ((), ("-q",), ("--json",), ("-q", "--json"), ("-v",)):
        folder = tmp_path / f"shown{len(written)}"
        assert main(["generate", str(model), "-o", str(folder), *shown]) == 0
        written.append({path.name: path.read_bytes() for path in folder.iterdir()})
    assert all(files == written[0] for files in written)
    assert json.loads(written[0]["network_program.json"])["advice"]
