"""Shells complete verbs, options and values; every verb has its examples and its groups."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from atonc.doors.cli.cli import commands, main, parse, parser, verbs_of
from atonc.doors.verbs.doctor import SHELLS
from atonc.doors.verbs.parser import Command


def script(shell: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["completion", shell]) == 0
    return capsys.readouterr().out


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["ana"], {"analyze"}),
        (["generate", "--split"], {"--split-weights"}),
        (["generate", "x.tflite", "--numerics", ""], {"best", "2.x"}),
        (["board", "ru"], {"run"}),
        (["board", "run", "--first"], {"--first-stage"}),
        (["completion", "fi"], {"fish"}),
        (["generate", "-o", "fol"], {"folder"}),
        (["run", "fol"], {"folder"}),
        (["generate", "--name", ""], set()),
    ],
)
def test_bash_completes(
    words: list[str], expected: set[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "folder").mkdir()
    listed = " ".join(f'"{word}"' for word in ["atonc", *words])
    ask = f"COMP_WORDS=({listed}); COMP_CWORD={len(words)}; _atonc; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    command = ["bash", "-c", f"{script('bash', capsys)}\n{ask}"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert not done.stderr
    assert set(done.stdout.split()) == expected


@pytest.mark.parametrize("shell", SHELLS)
def test_every_verb_and_every_option_is_in_the_script(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = script(shell, capsys)
    for name, verb in verbs_of(parser()).items():
        assert name in text
        for flag in verb._option_string_actions:
            assert (flag if shell != "fish" else flag.lstrip("-")) in text
    tool = shutil.which(shell)
    if tool is not None:
        subprocess.run([tool, "-n"], input=text, text=True, check=True)


def _with_options() -> dict[str, object]:
    found = {}
    for name, verb in verbs_of(parser()).items():
        inner = verbs_of(verb)
        found.update({f"{name} {other}": deeper for other, deeper in inner.items()} if inner else {name: verb})
    return found


@pytest.mark.parametrize("name", sorted(_with_options()))
def test_help_has_defaults_and_two_examples(name: str) -> None:
    verb = _with_options()[name]
    text = verb.format_help()  # type: ignore[attr-defined]
    examples = text.split("examples:\n")[-1].splitlines()
    assert len(examples) >= 2 and all("atonc " in line for line in examples), f"{name} is missing in verbs/parser.py"
    assert "%%" not in text and "None" not in text


def test_help_is_in_groups_with_defaults() -> None:
    text = verbs_of(parser())["generate"].format_help()
    for title in ("the model:", "board and memory:", "inputs and outputs:", "checks:", "what is written and shown:"):
        assert f"\n{title}\n" in text
    words = " ".join(text.split())
    assert "(default stm32n6570-dk)" in words and "(default st_ai_output)" in words


def test_examples_can_be_parsed() -> None:
    """A renamed option must not live on in the help."""
    waiting: list[Command] = list(commands())
    while waiting:
        command = waiting.pop()
        waiting += command.kinds
        assert bool(command.examples) != bool(command.kinds), f"{command.name} has no examples"
        for line in command.examples:
            words = shlex.split(line, comments=True)
            if words[0] == "atonc":
                parse([*words[1 : words.index(">") if ">" in words else None]])
