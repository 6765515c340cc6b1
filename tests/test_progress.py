"""People see at once that something happens, hear of obstacles before the work begins, and may stop at any moment."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from itertools import count
from pathlib import Path

import pytest

from atonc.compiler.compile.pipeline import compile_file
from atonc.compiler.request.options import Options
from atonc.doors.cli.cli import main
from atonc.insight.runs.runs import RunOptions, run
from atonc.machine.base import progress
from tests.errors_said import unwrapped
from tests.patience import PATIENCE, until

ROOT = Path(__file__).parent.parent
DIGITS = str(ROOT / "examples" / "digits" / "digits.tflite")
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm", "COLUMNS": "100", "OMP_NUM_THREADS": "1"}
MOST_MODULES = 180  # that the command line loads before it knows what is wanted: 131 today, 80 of them of Python


class Terminal:
    """atonc on a pseudo-terminal."""

    def __init__(self, *words: str, python: tuple[str, ...] = ()) -> None:
        self.master, slave = pty.openpty()
        command = [sys.executable, *python, "-m", "atonc", *words]
        self.process = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, env=ENVIRONMENT,
                                        start_new_session=True)  # fmt: skip
        os.close(slave)
        self.text = ""

    def _ended(self) -> bool:
        """Reads on, if something comes."""
        if select.select([self.master], [], [], 0.05)[0]:
            try:
                self.text += os.read(self.master, 1 << 16).decode(errors="replace")
            except OSError:
                return True
        return False

    def end(self) -> int:
        until(self._ended)
        os.close(self.master)
        return self.process.wait(PATIENCE)


def imported(text: str) -> list[str]:
    """Modules in the order in which they were loaded, as `-X importtime` lists them; a bar may stand before one."""
    return re.findall(r"import time:[ \d|]+ +(\S+)\r?$", text, re.MULTILINE)


def test_the_first_sign_comes_before_what_takes_long() -> None:
    """Nothing that computes is loaded before it: that is most of the time until then."""
    terminal = Terminal("analyze", DIGITS, python=("-X", "importtime"))
    assert terminal.end() == 0
    assert "latency" in terminal.text
    before, _, behind = terminal.text.partition("starting")
    assert "numpy" in imported(behind) and "numpy" not in imported(before)
    assert "atonc.doors.cli.cli" in imported(before) or "atonc.doors.cli.cli" in imported(behind)
    assert len(imported(before)) < 2 * MOST_MODULES
    assert re.search(r"(mapping|verif|running|comparing|simplifying).*\d %|%.*0:0", terminal.text), "no bar was shown"


def test_the_core_imports_little() -> None:
    code = "import sys; known = set(sys.modules); import atonc.doors.cli.cli; print(*set(sys.modules) - known)"
    done = subprocess.run([sys.executable, "-c", code], env=ENVIRONMENT, capture_output=True, text=True)
    loaded = set(done.stdout.split())
    assert "atonc.doors.cli.cli" in loaded and not loaded & {"numpy", "rich", "onnx", "tflite"}
    assert len(loaded) <= MOST_MODULES


@pytest.mark.parametrize("words", [["-q"], []])
def test_nothing_is_shown_in_pipes_or_when_quiet(words: list[str], tmp_path: Path) -> None:
    if words:
        terminal = Terminal("analyze", DIGITS, *words, "--no-verify")
        assert terminal.end() == 0 and not terminal.text.strip()
    else:
        done = subprocess.run([sys.executable, "-m", "atonc", "analyze", DIGITS, "--no-verify"], env=ENVIRONMENT,
                              capture_output=True, text=True)  # fmt: skip
        assert done.returncode == 0 and not done.stderr


def test_every_stage_is_told_with_its_share(monkeypatch: pytest.MonkeyPatch) -> None:
    # whatever tests before it have compiled in this process
    monkeypatch.setattr("atonc.compiler.search.build.known_forms", lambda facts, affinity, make: make())
    seen: dict[str, list[float]] = {}
    with progress.watching(lambda title, done, total: seen.setdefault(title, []).append(done / (total or 1))):
        assert main(["validate", DIGITS, "-q", "-b", "2"]) == 0
        assert main(["analyze", DIGITS, "-q"]) == 0
    for title in ("reading the model", "simplifying the graph", "mapping operators", "placing buffers",
                  "checking every epoch", "comparing with the reference", "running on the emulator"):  # fmt: skip
        assert title in seen
    assert max(seen["mapping operators"]) > 0.8 and min(seen["mapping operators"]) == 0.0


def test_trials_name_what_they_are_part_of() -> None:
    seen = set()
    with progress.watching(lambda title, done, total: seen.add(title)):
        assert main(["explain", DIGITS, "-q"]) == 0
    assert any(re.fullmatch(r"option 1 of \d+: mapping operators", title) for title in seen)


def test_notebooks_show_what_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    import atonc
    from atonc.insight.report import terminal

    shown: list[str] = []

    class Recorder(terminal.Bar):
        def __init__(self, console: object) -> None:
            self.live = False

        def update(self, title: str, done: int, total: int) -> None:
            shown.append(title)

    monkeypatch.setattr(terminal, "Bar", Recorder)
    atonc.compile(DIGITS, verify=False)
    assert not shown, "this is no notebook"
    monkeypatch.setitem(sys.modules, "ipykernel", json)
    atonc.compile(DIGITS, verify=False)
    assert not shown, "it is done before anybody looks"
    monkeypatch.setattr(terminal, "NOTEBOOK_SECONDS", -1.0)
    atonc.compile(DIGITS, verify=False)
    assert "placing buffers" in shown


# ------------------------------------------------------------------------------------- before the work begins


def test_a_bad_output_folder_is_known_before_anything_is_loaded(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        words = ["-X", "importtime", "-m", "atonc", "generate", DIGITS, "-o", str(folder)]
        done = subprocess.run([sys.executable, *words], env=ENVIRONMENT, capture_output=True, text=True)
        assert done.returncode == 2 and "is not a folder" in " ".join(done.stderr.split())
        assert "numpy" not in imported(done.stderr)


def test_space_and_tools_are_looked_at_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
                                             capsys: pytest.CaptureFixture[str]) -> None:  # fmt: skip
    import shutil

    from atonc.compiler.compile import pipeline
    from atonc.delivery.firmware import building
    from atonc.delivery.generate import preflight

    def never(*_: object) -> None:
        raise AssertionError("the work began")

    monkeypatch.setattr(pipeline, "compile_file", never)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(10, 9, 1 << 20))  # type: ignore[attr-defined]
    assert main(["generate", DIGITS, "-o", str(tmp_path / "out")]) == 2
    assert "1 MiB are free" in unwrapped(capsys.readouterr().err)
    monkeypatch.undo()
    monkeypatch.setattr(pipeline, "compile_file", never)
    monkeypatch.setattr(building.shutil, "which", lambda name: None)
    for words in (["generate", DIGITS, "-o", str(tmp_path / "out"), "-r"], ["validate", DIGITS, "--mode", "board"]):
        assert main(words) == 4
        assert "arm-none-eabi-gcc was not found" in unwrapped(capsys.readouterr().err)
    monkeypatch.setattr(preflight, "find_spec", lambda name: None)
    assert main(["analyze", str(tmp_path / "x.onnx")]) == 2  # no such file comes first
    (tmp_path / "x.onnx").write_text("")
    assert main(["analyze", str(tmp_path / "x.onnx"), "--json"]) == 4
    error = json.loads(capsys.readouterr().out)["error"]
    assert error["exit_code"] == 4 and "atonc[models]" in error["remedy"]
    assert not (tmp_path / "out").exists()


def test_other_files_are_looked_at_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = str(ROOT / "examples" / "first")
    for words in (["analyze", DIGITS, "--trace"], ["validate", DIGITS, "--record"], ["run", first, "--output"],
                  ["view", first, "--save"]):  # fmt: skip
        assert main([*words, str(tmp_path / "no" / "such.json")]) == 2
        assert "there is no folder" in unwrapped(capsys.readouterr().err)
    (tmp_path / "file").write_text("")
    for words in (["reloc", first, "-o"], ["probe", "all", "-o"]):
        assert main([*words, str(tmp_path / "file")]) == 2
        assert "is not a folder" in unwrapped(capsys.readouterr().err)


# ------------------------------------------------------------------------------------------------------- the end


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The files of a build that nobody interrupts."""
    folder = tmp_path_factory.mktemp("whole") / "out"
    assert main(["generate", DIGITS, "-q", "-o", str(folder)]) == 0
    return visible(folder)


def visible(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir() if not path.name.startswith(".")} if folder.exists() else set()


@pytest.mark.parametrize("delay", [0.03, 0.15, 0.4, 0.9, 1.5])
def test_an_interrupt_is_quiet_at_any_moment(delay: float, tmp_path: Path, whole: set[str]) -> None:
    """From the first line of ours on: before that Python itself answers. The build is whole or not there."""
    code = "import atonc.doors.cli.start, sys; print('ready', flush=True); sys.exit(atonc.doors.cli.start.main())"
    folder = tmp_path / "out"
    words = ["-c", code, "generate", DIGITS, "-o", str(folder)]
    process = subprocess.Popen([sys.executable, *words], env=ENVIRONMENT, text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # fmt: skip
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    time.sleep(delay)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=PATIENCE)
    assert process.returncode in (0, 130, -signal.SIGINT), said  # the last where a C extension was being loaded
    assert said in ("", "atonc: interrupted\n")
    assert visible(folder) in (set(), whole)


@pytest.mark.parametrize("moment", ["cli.main", "cli.parse"])
@pytest.mark.parametrize(("cause", "code"), [("KeyboardInterrupt()", 130), ("None", None)])
def test_an_interrupt_that_python_wraps_is_one(cause: str, code: int | None, moment: str) -> None:
    """While a class is being made, Python 3.11 turns it into a RuntimeError; others stay what they are."""
    code = code or (1 if moment == "cli.main" else 4)  # a traceback, or our words for a mistake of ours
    program = f"""
from atonc.doors.cli import cli, start
def stopped(*_):
    raise RuntimeError("Error calling __set_name__") from {cause}
{moment} = stopped
raise SystemExit(start.main())
"""
    done = subprocess.run([sys.executable, "-c", program], env=ENVIRONMENT, text=True, capture_output=True, check=False)
    assert done.returncode == code and (done.stderr == "atonc: interrupted\n") == (code == 130)


def test_durations_are_differences(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock that does not begin at 0, as none does, and goes on by a second whenever somebody looks."""
    clock = count(1_000_000)
    monkeypatch.setattr("time.perf_counter", lambda: float(next(clock)))
    assert main(["generate", DIGITS, "-o", str(tmp_path), "--no-verify"]) == 0
    compiled, done = compile_file(Path(DIGITS), Options(verify=False)), run(RunOptions(tmp_path))
    assert all(0 < seconds < 100 for seconds in (compiled.seconds, done.seconds))
