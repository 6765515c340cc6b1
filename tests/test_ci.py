"""Verdicts for machines: JUnit, SARIF, annotations of GitHub, baselines, and exit codes whatever is closed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as Xml

import pytest

from atonc.doors.cli.cli import main
from atonc.doors.verbs import compare, reply
from atonc.doors.verbs.reply import FORMAT
from atonc.machine.base.errors import InputError
from atonc.machine.base.reasons import CheckResult
from tests.errors_said import readable

ROOT = Path(__file__).parent.parent
DIGITS = str(ROOT / "examples" / "digits" / "digits.tflite")
GATES = ["--max-latency", "0.001", "--max-ram", "1M"]


def test_gates_as_junit_and_sarif(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    junit, sarif = tmp_path / "a.xml", tmp_path / "a.sarif"
    assert main(["analyze", DIGITS, *GATES, "-q", "--junit", str(junit), "--sarif", str(sarif)]) == 1
    suite = Xml.parse(junit).getroot()
    cases = {case.attrib["name"]: case for case in suite.iter("testcase")}
    assert set(cases) == {"verification", "--max-latency", "--max-ram"} and suite.attrib["failures"] == "1"
    failure = cases["--max-latency"].find("failure")
    assert failure is not None and "--max-latency allows 0.001 ms" in failure.attrib["message"]
    assert cases["--max-ram"].find("failure") is None
    (run,) = json.loads(sarif.read_text())["runs"]
    (result,) = run["results"]
    assert result["ruleId"] == "--max-latency" and result["level"] == "error"
    place = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert place.endswith("digits.tflite")
    assert "::error" not in capsys.readouterr().err


def test_annotations_only_on_github(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    assert main(["analyze", DIGITS, *GATES, "--no-verify", "--json"]) == 1
    shown = capsys.readouterr()
    (line,) = [line for line in shown.err.splitlines() if line.startswith("::error ")]
    assert "title=atonc%3A --max-latency::latency is" in line and json.loads(shown.out)["gates"]
    reply.annotate(Path("a,b:c%.onnx"), [CheckResult("x", False, "50 %\n::warning::no")])
    assert capsys.readouterr().err == "::error file=a%2Cb%3Ac%25.onnx,title=atonc%3A x::50 %25\\x0a::warning::no\n"


def test_errors_are_reported_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    junit = tmp_path / "a.xml"
    assert main(["analyze", "absent.tflite", "--junit", str(junit)]) == 2
    (failure,) = Xml.parse(junit).getroot().iter("failure")
    assert "absent.tflite: there is no such file" in failure.attrib["message"]
    assert main(["analyze", DIGITS, "--junit", str(tmp_path / "no" / "a.xml")]) == 2
    assert "Traceback" not in capsys.readouterr().err


def test_names_of_strangers_do_no_harm_in_reports() -> None:
    checks = [CheckResult("output \x1b[2J<&\x00", False, "a\ud800 ]]> <b>")]
    (case,) = Xml.fromstring(reply.junit("validate", Path("m<.onnx"), checks)).iter("testcase")
    assert "\x1b" not in case.attrib["name"] and "<&" in case.attrib["name"]
    assert json.loads(reply.sarif(Path("m m.onnx"), checks))["runs"][0]["results"][0]["locations"][0][
        "physicalLocation"]["artifactLocation"]["uri"] == "m%20m.onnx"  # fmt: skip


def test_validate_and_compare_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [tmp_path / f"{name}.xml" for name in ("validate", "compare")]
    out = str(tmp_path / "out")
    assert main(["validate", DIGITS, "--samples", "2", "-q", "--junit", str(files[0])]) == 0
    assert main(["generate", DIGITS, "-o", out, "-q"]) == 0
    assert main(["compare", out, out, "-q", "--max-ratio", "0.5", "--junit", str(files[1])]) == 1
    names = [[case.attrib["name"] for case in Xml.parse(file).getroot().iter("testcase")] for file in files]
    assert names == [["operators", "layers", "output probabilities"], ["--max-ratio"]]
    assert "--max-ratio allows 0.5" in capsys.readouterr().err


# ------------------------------------------------------------------------------------------------------------ baselines


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    out = tmp_path_factory.mktemp("base") / "out"
    assert main(["generate", DIGITS, "-o", str(out), "-q"]) == 0
    command = [sys.executable, "-m", "atonc", "analyze", DIGITS, "--json"]
    done = subprocess.run(command, capture_output=True, check=True, cwd=ROOT)
    return {"out": str(out), "document": json.loads(done.stdout)}


@pytest.mark.parametrize(
    ("change", "allowed", "code"),
    [
        ({}, "0", 0),
        ({"latency_ms": 0.9}, "0", 1),
        ({"latency_ms": 0.95}, "10", 0),
        ({"latency_ms": 1.5}, "0", 0),
        ({"ram_bytes": 0.5}, "0", 1),
        ({"energy_uj": 0.9}, "0", 1),
        ({"energy_uj": 0}, "0", 0),  # not known then
        ({"cos": 1.1}, "0", 1),
        ({"cos": 0.9}, "0", 0),
    ],
)
def test_worse_than_the_baseline_fails(
    change: dict[str, float], allowed: str, code: int, base: dict[str, object], tmp_path: Path
) -> None:
    """`change`: what the baseline says, in times what it is."""
    document = json.loads(json.dumps(base["document"]))
    document["latency_ms"] *= change.get("latency_ms", 1)
    document["energy_uj"] *= change.get("energy_uj", 1)
    document["memory"]["ram_bytes"] = int(document["memory"]["ram_bytes"] * change.get("ram_bytes", 1))
    document["verify"]["outputs"][0]["cos"] *= change.get("cos", 1)
    file = tmp_path / "base.json"
    file.write_text(json.dumps(document))
    words = ["--against", str(file), "--allow-worse", allowed, "-q"]
    assert main(["compare", str(base["out"]), *words]) == code


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 10**400, -1e300])
def test_a_baseline_with_impossible_figures_is_refused(
    value: float, base: dict[str, object], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = json.loads(json.dumps(base["document"]))
    document["memory"]["ram_bytes"] = value
    file = tmp_path / "base.json"
    file.write_text(json.dumps(document))
    assert main(["compare", str(base["out"]), "--against", str(file), "-q"]) == 2
    assert "RAM has a value that no figure has" in readable(capsys.readouterr().err)


def test_documents_are_compared_as_they_are(base: dict[str, object], tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_text(json.dumps(base["document"]))
    assert main(["compare", str(file), "--against", str(file), "-q"]) == 0
    figures = {"npu": [{"name": "top1", "value": 0.9}], "float": [{"name": "top1", "value": None}]}
    found = compare.measured({"format": 1, "figures": figures}, "x")
    assert found.figures == {"top1 of npu": (0.9, "", True)}


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": "1"}', f'{{"format": {FORMAT + 1}}}', '{"format": 1}'])
def test_other_files_are_no_baselines(text: str, tmp_path: Path) -> None:
    file = tmp_path / "b.json"
    file.write_text(text)
    with pytest.raises(InputError):
        compare.measured(compare.read_document(file), str(file))


# ------------------------------------------------------------------------------------------------------- closed streams


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
@pytest.mark.parametrize(
    ("words", "code"),
    [("ops conv", 0), ("ops conv --json", 0), ("analyze absent.tflite", 2), (f"analyze {DIGITS} --max-ram 1 -q", 1)],
)
def test_closed_streams_change_no_exit_code(words: str, code: int, closed: str, tmp_path: Path) -> None:
    script = f'"{sys.executable}" -m atonc {words} {closed}'
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(["sh", "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == code and "Error" not in done.stdout + done.stderr
