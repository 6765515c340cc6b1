"""action.yml and the hook of pre-commit, run as a workflow would run them: what fails, and what a comment says."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.emit.generated import DIGITS
from tools.change_table import table

yaml = pytest.importorskip("yaml")
ROOT = Path(__file__).parents[1]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text())


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """A runner whose `atonc` and `python` are those of this test."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, words in (("python", ""), ("atonc", " -m atonc")):
        program = programs / name
        program.write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec "{sys.executable}"{words} "$@"\n')
        program.chmod(0o755)
    inputs = {
        "MODEL": str(DIGITS),
        "OPTIONS": "--no-verify",
        "ALLOW_WORSE": "1",
        "BASELINE": str(tmp_path / "base.json"),
    }
    runner = {"RUNNER_TEMP": str(tmp_path), "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md")}
    return {**os.environ, **inputs, **runner, "PATH": f"{programs}:{os.environ['PATH']}"}


def _baseline(environment: dict[str, str], **latency: float) -> None:
    command = ["atonc", "analyze", str(DIGITS), "--no-verify", "--json"]
    told = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    path = Path(environment["BASELINE"])
    path.write_text(told)
    if latency:
        document = json.loads(told)
        document["latency_ms"] *= latency["factor"]
        path.write_text(json.dumps(document))


def _judge(environment: dict[str, str], **changed: str) -> tuple[int, str]:
    code, page, _ = _judged(environment, **changed)
    return code, page


def _judged(environment: dict[str, str], **changed: str) -> tuple[int, str, str]:
    (step,) = [one for one in ACTION["runs"]["steps"] if one.get("id") == "judge"]
    assert {"MODEL", "OPTIONS", "ALLOW_WORSE", "BASELINE"} == set(step["env"])
    given = {**environment, **changed, "GITHUB_ACTION_PATH": str(ROOT)}
    done = subprocess.run(["bash", "-c", step["run"]], env=given, capture_output=True, text=True, check=False)
    page = Path(environment["RUNNER_TEMP"], "atonc.md").read_text()
    assert Path(environment["GITHUB_STEP_SUMMARY"]).read_text().endswith(page)
    return done.returncode, page, done.stderr


def test_the_same_network_passes(environment: dict[str, str]) -> None:
    _baseline(environment)
    code, page = _judge(environment)
    assert code == 0 and "nothing is worse" in page
    assert "| latency | 0.0" in page and "| +0.00 % | ok |" in page


def test_a_slower_network_fails(environment: dict[str, str]) -> None:
    _baseline(environment, factor=0.9)
    code, page = _judge(environment)
    assert code == 1 and "worse: latency" in page and "| **worse** |" in page
    assert _judge(environment, ALLOW_WORSE="20")[0] == 0


def test_a_gate_fails_it_too(environment: dict[str, str]) -> None:
    _baseline(environment)
    code, page = _judge(environment, OPTIONS="--no-verify --no-cpu")
    assert code == 1 and "nothing is worse, a gate does not hold" in page


@pytest.mark.parametrize("changed", [{"MODEL": "nowhere.tflite"}, {"BASELINE": "nowhere.json"}, {"OPTIONS": "--what"}])
def test_what_cannot_be_judged_fails_and_says_so(environment: dict[str, str], changed: dict[str, str]) -> None:
    _baseline(environment)
    code, page, said = _judged(environment, **changed)
    assert code == 2 and "could not judge it" in page
    assert "has no figures" not in said  # the first error alone


def test_names_of_a_pull_request_are_no_markup() -> None:
    figure = {"name": "RAM", "before": 1, "now": 2, "unit": "bytes", "change_percent": 100.0, "worse": True}
    first, *_ = table("a`](http://x) | <b>.tflite", {"figures": [figure]}, 0)
    assert first == "### `a___http_//x_ _ _b_.tflite` on the STM32N6: worse: RAM"


def test_no_input_becomes_part_of_a_script() -> None:
    steps: list[dict[str, Any]] = ACTION["runs"]["steps"]
    assert all("${{" not in step.get("run", "") for step in steps)
    assert {name for step in steps for name in step.get("with", {})} == {"python-version"}


def test_the_hook_judges_every_file(environment: dict[str, str]) -> None:
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    words = shlex.split(hook["entry"])
    for files, code in (([DIGITS, DIGITS], 0), ([DIGITS, ROOT / "README.md"], 2), ([ROOT / "README.md", DIGITS], 2)):
        done = subprocess.run([*words, *map(str, files)], env=environment, capture_output=True, check=False)
        assert done.returncode == code, done.stderr
