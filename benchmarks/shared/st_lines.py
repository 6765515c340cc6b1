"""Command lines for ST's tool, of the trials and of public repositories, given to atonc by ST's name: exit codes and
files."""

from __future__ import annotations

import contextlib
import io
import os
import shlex
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from atonc.doors.cli.cli import main
from benchmarks.shared.corpus import ROOT, corpus_dir
from benchmarks.shared.st_script_row import Row
from tests.st_lines_files import write_files

PUBLIC = ROOT / "tests" / "st_public_lines.txt"
DIGITS = ROOT / "examples" / "digits" / "digits.tflite"
_WRITTEN = ("st_ai_output", "st_ai_ws")


@dataclass(frozen=True)
class Line:
    words: str
    code: int
    files: tuple[str, ...] = ()


def rows(work: Path) -> Iterator[Row]:
    write_files(work, DIGITS)
    lists = (("trials/st_command_lines.txt", list(_trials())), ("tests/st_public_lines.txt", list(_public())))
    for name, lines in lists:
        wrong = [told for line in lines if (told := _wrong(line, work))]
        told = f"{len(lines) - len(wrong)} of {len(lines)} end with the code and the files that are expected"
        yield Row("public command lines", "", name, f"{len(lines)} lines", "; ".join([told, *wrong]), not wrong)


def _trials() -> Iterator[Line]:
    """All of the first list are done, but for custom layers and a board that is not connected."""
    for text in (corpus_dir().parent / "trials" / "st_command_lines.txt").read_text().splitlines():
        if text[:1].isdigit():
            line = text.split("|", 1)[1].strip().replace("{'B':1}", "\"{'B':1}\"")
            yield Line(line, 2 if "--custom" in line else 4 if "--mode target" in line else 0)


def _public() -> Iterator[Line]:
    for text in PUBLIC.read_text().splitlines():
        if text[:1].isdigit():
            code, _, line, files = text.split("|")
            yield Line(line.strip(), int(code), tuple(files.split()))


def _wrong(line: Line, work: Path) -> str:
    """Empty if it ended as it must."""
    for folder in _WRITTEN:
        shutil.rmtree(work / folder, ignore_errors=True)
    words = shlex.split(line.words.replace("@M", "m.tflite").replace("@O", "o.onnx"))
    words += ["--fix-parametric-shapes", "B=1"] if "o.onnx" in words and "--fix-parametric-shapes" not in words else []
    words += ["-b", "1"] if words[0] == "validate" and not {"-b", "--batch-size"} & set(words) else []
    code = _called(words, work)
    missing = [file for file in line.files if not (work / file).is_file()]
    if code == line.code and not missing:
        return ""
    return f"`{line.words}` ended with {code} instead of {line.code}" + (f", without {missing[0]}" if missing else "")


def _called(words: list[str], work: Path) -> int:
    here = Path.cwd()
    os.chdir(work)
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            return main(words, "stedgeai")
    except SystemExit as end:
        return int(end.code or 0)
    finally:
        os.chdir(here)
