"""Probes are built as firmware and run on the virtual board; a chip that differs or hangs is told apart."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from atonc.cli import main
from atonc.emu.board import Board, read_firmware
from atonc.plan.streams import contiguous
from atonc.probes import PROBES, with_controls
from atonc.probes.bench import Bench
from atonc.probes.build import BuiltProbe, bound, build
from atonc.probes.folder import folder_files
from atonc.probes.types import INPUT, OUTPUT, Probe, ProbeEpochs
from tests.board.programs import needs_compiler

needs_make = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")


def lines_of(folder: Path, built: list[BuiltProbe]) -> list[str]:
    """What the firmware prints on the virtual board."""
    for name, data in folder_files(built).items():
        (folder / name).write_bytes(data)
    flags = ["CPU=cortex-m33", "-j2", "EXTRA=-DWATCHDOG_POLLS=2000 -Werror"]
    done = subprocess.run(["make", "-C", str(folder), *flags], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    board = Board(read_firmware(folder / "probes.elf"), data_cache=True)
    board.run()
    return [line.strip() for line in board.serial.lines]


@needs_compiler
@needs_make
def test_every_probe_passes_on_the_emulated_chip(tmp_path: Path) -> None:
    lines = lines_of(tmp_path, [build(probe) for probe in PROBES])
    assert [line.split()[2:4] for line in lines[:-1]] == [[probe.name, "PASS"] for probe in PROBES]
    assert lines[-1] == f"ATONC PROBES {len(PROBES)} of {len(PROBES)} passed"


def _starved() -> ProbeEpochs:
    """A writer that waits for more than its reader gives: the kind of program that hangs a chip."""
    bench = Bench(64, 128)
    b = bench.epoch("starved")
    b.write(b.read(INPUT, contiguous(64)), OUTPUT, contiguous(128, write=True))
    bench.add(b)
    return bench.done()


@needs_compiler
@needs_make
def test_wrong_bytes_and_hangs_are_told_and_the_next_probe_still_runs(tmp_path: Path) -> None:
    good = build(with_controls(("control-raster",))[0])
    wrong = replace(build(with_controls(("control-multiply",))[0]), expected=bytes(4096))
    made = _starved()
    hanging = BuiltProbe(Probe("starved", "", "", _starved), bound("probe_starved", made), made.stimulus, bytes(128))
    lines = lines_of(tmp_path, [wrong, hanging, good])
    assert lines[0].startswith("ATONC PROBE control-multiply FAIL byte ") and "of 4096 differ" in lines[0]
    assert "starved ERROR 20" in lines[1] and "timeout" in lines[1].lower()
    assert "control-raster PASS" in lines[2]
    assert lines[3] == "ATONC PROBES 1 of 3 passed"


def test_the_same_bytes_every_time() -> None:
    probe = PROBES[0]
    assert folder_files([build(probe)]) == folder_files([build(probe)])


def test_controls_come_along_in_front() -> None:
    names = [probe.name for probe in with_controls(("writers-four-interleaved",))]
    assert names == ["control-raster", "writers-interleaved", "writers-four-interleaved"]


def test_the_list_names_every_probe(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["probe", "--list"]) == 0
    text = capsys.readouterr().out
    assert all(f"\n{probe.name}\n" in f"\n{text}" for probe in PROBES)


def test_an_unknown_name_gets_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["probe", "writers-shareword"]) == 2
    assert "writers-share-word" in capsys.readouterr().err
