"""Scripts written for ST's tool: every option and verb of its command line is done, or says why it has no effect."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from atonc.compiler.compile import compile_view, pipeline
from atonc.compiler.compile.pipeline import Watch, no_watch
from atonc.doors.cli.cli import main, parse, parser, verbs_of
from atonc.doors.verbs import stedgeai
from tests.errors_said import readable

ROOT = Path(__file__).parent.parent
DIGITS = ROOT / "examples" / "digits" / "digits.tflite"
CORPUS = Path(os.environ.get("ATONC_CORPUS", ROOT.parent / "shared" / "corpus"))
LINES = CORPUS.parent / "trials" / "st_command_lines.txt"

# `stedgeai --help` of 4.0.1, by verb: option, a value for it, and whether it is done here or has no effect
COMMON = """
-m M done | --model M done | --target stm32n6 done | -t tflite done | --type tflite done | -n net done | --name net done
-c none no-effect | --compression lossless no-effect | --allocate-inputs done | --allocate-outputs done
--no-inputs-allocation done | --no-outputs-allocation done | --input-memory-alignment 32 done
--output-memory-alignment 16 done | -w ws no-effect | --workspace ws no-effect | -o out done | --output out done
--split-weights no-effect | -O ram done | --optimization balanced done | --memory-pool P done
--no-onnx-optimizer no-effect | --use-onnx-simplifier no-effect | --fix-parametric-shapes B=1 done
--input-data-type uint8 done | --output-data-type float32 done | --inputs-ch-position chlast done
--outputs-ch-position chlast done | --prefetch-compressed-weights no-effect | --custom c.json done
--c-api st-ai done | --cut-input-tensors a done | --cut-input-layers a done | --cut-output-tensors a done
--cut-output-layers a done | --allocate-activations no-effect | --allocate-states no-effect | --hsp w no-effect
--st-neural-art default done | --no-report done | --no-workspace no-effect | -v 1 done | --verbosity 2 done
--quiet done | --verbosity done
"""
# of public lines that are not for 4.0.1: older ones, and what its compiler of the NPU is told
BESIDE = "--series stm32n6 done | --series STM32N6 done | --target STM32N6 done | --all-buffers-info no-effect"
GENERATE = """
--binary done | --dll no-effect | --address 0x71000000 no-effect | --copy-weights-at 0x90000000 no-effect | -r done
--relocatable split,gen-c-files,no-secure done | --enable-epoch-controller done | --eec done | -l dir no-effect
--lib dir no-effect
"""
VALIDATE = """
-b 4 done | --batch-size 4 done | --mode host done | --mode target done | --mode host-io-only done
--mode target-io-only done | -d serial:921600 done | --desc serial:COM3 done | --val-json c.json done
-vi a.npz done | --valinput a.npz done | -vo b.npz done | --valoutput b.npz done | --range 0 1 done
--full no-effect | --io-only done | --save-csv done | --classifier done | --no-check no-effect
--no-exec-model done | --seed 42 done | --ispu-conf f no-effect | --verbosity done
"""
OPS = "--type onnx done | --with-report done | --target stm32n6 no-effect | --series stm32n6 no-effect"
TABLES = {
    "analyze": (COMMON, BESIDE),
    "generate": (COMMON, BESIDE, GENERATE),
    "validate": (COMMON, BESIDE, VALIDATE),
    "supported-ops": (OPS,),
}


def _rows(verb: str) -> Iterator[tuple[list[str], str]]:
    for table in TABLES[verb]:
        for row in table.replace("\n", "|").split("|"):
            if row.strip():
                *words, how = row.split()
                yield words, how


@pytest.mark.parametrize("verb", TABLES)
def test_every_option_of_st_is_known_as_done_or_without_effect(verb: str) -> None:
    reasons = {name: known for table in (stedgeai.COMMON, stedgeai.GENERATE, stedgeai.VALIDATE, stedgeai.OPS)
               for known in table for name in known.names}  # fmt: skip
    for words, how in _rows(verb):
        foreign = reasons.get(words[0])
        assert words[0] in verbs_of(parser())[verb]._option_string_actions, f"{verb} does not know {words[0]}"
        if how == "done":
            options = parse([verb, *words, "-q"] if verb == "supported-ops" else [verb, "x.tflite", *words, "-q"])
            assert not getattr(options, "no_effect", []), f"{words[0]} is done"
        else:
            assert foreign is not None and len(foreign.why) > 10
            assert foreign.refused == (how == "refused")


def test_an_option_without_effect_says_so_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    parse(["analyze", str(DIGITS), "--split-weights", "-c", "high"])
    said = capsys.readouterr().err.splitlines()
    assert [line.split(" has no effect: ")[0] for line in said] == ["atonc: --split-weights", "atonc: -c"]
    parse(["analyze", str(DIGITS), "--split-weights", "-q"])
    assert not capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "nearest"),
    [
        (["analyse", "x.tflite"], "analyze"),
        (["analyze", "x.tflite", "--split-weight"], "--split-weights"),
        (["validate", "x.tflite", "--valinputs=a.npz"], "--valinput"),
        (["board", "run", "x.elf", "--serail", "pty"], "--serial"),
    ],
)
def test_unknown_names_get_the_nearest(words: list[str], nearest: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    said = readable(capsys.readouterr().err)
    assert nearest in said and said.endswith("?")


# ------------------------------------------------------------------------------------------------ 83 command lines


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files that the command lines name."""
    from tests.st_lines_files import write_files

    folder = tmp_path_factory.mktemp("lines")
    write_files(folder, DIGITS)
    return folder


def _lines() -> list[str]:
    if not LINES.is_file():
        return []
    return [line.split("|", 1)[1].strip() for line in LINES.read_text().splitlines() if line[:1].isdigit()]


@pytest.fixture
def once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Equal compilations are done once: the lines are about the command line."""
    kept: dict[str, object] = {}
    really = pipeline.compile_file

    def compile_once(path: Path, options: object = None, watch: Watch = no_watch) -> object:
        key = repr((path, options))
        if key not in kept:
            kept[key] = really(path, options, watch)  # type: ignore[arg-type]
        return kept[key]

    monkeypatch.setattr(pipeline, "compile_file", compile_once)
    monkeypatch.setattr(compile_view, "compile_file", compile_once)


def test_command_lines_of_st_users(
    files: Path, once: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if not _lines():
        pytest.skip(f"there is no {LINES}")
    monkeypatch.chdir(files)
    ends = {}
    for line in _lines():
        words = shlex.split(line.replace("{'B':1}", "\"{'B':1}\"").replace("@M", "m.tflite").replace("@O", "o.onnx"))
        words += ["--no-verify"] if words and words[0] in ("generate", "analyze") else []
        words += ["-b", "1"] if words and words[0] == "validate" and "-b" not in words else []
        try:
            code = main(words)
        except SystemExit as end:
            code = int(end.code or 0)
        said = capsys.readouterr()
        ends[line] = code
        assert "Traceback" not in said.err and "atonc itself failed" not in said.err, line
        expected = _expected(line)
        assert code == expected, f"{line}: {code}, not {expected}: {said.err}"
        assert code == 0 or said.err.count("\n") <= 6, f"{line}: {said.err}"
    assert len(ends) == 83


def _expected(line: str) -> int:
    """All are done, but for what no_watch could do here: custom layers, and a board that is not connected."""
    if "--custom" in line:
        return 2
    return 4 if "--mode target" in line else 0


def test_no_verb_means_analyze(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["-m", str(files / "m.tflite"), "--no-verify"]) == 0
    assert capsys.readouterr().out.startswith("m.tflite: 8 operators")


def test_analyze_writes_its_reports_beside_what_is_there(files: Path, tmp_path: Path) -> None:
    (tmp_path / "network.c").write_text("mine")
    assert main(["analyze", str(files / "m.tflite"), "-q", "--no-verify", "-o", str(tmp_path)]) == 0
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"network.c", "network_analyze_report.txt", "network_report.txt", "report.html",
                     "network_c_info.json"}  # fmt: skip
    assert (tmp_path / "network.c").read_text() == "mine"


def test_values_in_csv_files_and_given_outputs(files: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import json

    common = ["validate", str(files / "m.tflite"), "--json", "--io-only", "-o", str(tmp_path), "--save-csv"]
    assert main([*common, "-b", "3"]) == 0
    first = json.loads(capsys.readouterr().out)
    saved = {path.name for path in tmp_path.iterdir()}
    kinds = ("m_inputs_1", "m_outputs_1", "c_outputs_1")
    assert saved == {"network_val_io.npz", *(f"network_val_{kind}.csv" for kind in kinds)}
    assert np.load(tmp_path / "network_val_io.npz")["c_outputs_1"].shape == (3, 1, 10)
    again = ["-vi", str(tmp_path / "network_val_m_inputs_1.csv"), "-vo", str(tmp_path / "network_val_c_outputs_1.csv")]
    assert main([*common, *again, "--classifier"]) == 0
    second = json.loads(capsys.readouterr().out)
    assert second["reference"] == "the given outputs" and second["outputs"][0]["exact_pct"] == 100.0
    assert second["samples"] == first["samples"] == 3 and second["accuracy"]["program"] == 3
    assert second["layers_checked"] == 0


def test_the_model_alone_does_not_run_when_told(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", str(files / "m.tflite"), "--no-exec-model", "-b", "2", "--range", "0", "1"]) == 0
    said = capsys.readouterr().out
    assert "did not run (--no-exec-model)" in said and "layers     6 of 8 tensors equal to exact" in said


def test_a_cut_model_begins_where_it_is_told(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import json

    import atonc

    whole = atonc.compile(files / "m.tflite", verify=False)
    inner = [op.name for op in whole.source.ops]
    for words in (["--cut-input-tensors", "conv1"], ["--cut-input-layers", inner[1]]):
        assert main(["validate", str(files / "m.tflite"), *words, "-b", "2", "--json"]) == 0
        document = json.loads(capsys.readouterr().out)
        assert document["reference"] == "exact arithmetic" and document["layers_checked"] == 7
    part = atonc.compile(files / "m.tflite", verify=False, cut_input_tensors="conv1")
    assert part.source.inputs == ("conv1",)
    assert main(["analyze", str(files / "m.tflite"), "--cut-input-tensors", "conv"]) == 2
    assert "did you mean" in capsys.readouterr().err
