"""Probes are built as firmware and run on the virtual board; a chip that differs or hangs is told apart."""

from __future__ import annotations

import shutil
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from atonc import __version__
from atonc.compiler.place import board
from atonc.compiler.plan.streams import contiguous
from atonc.compiler.schedule.check_means import stream_of
from atonc.delivery.probes import PROBES, Probe, with_controls
from atonc.delivery.probes.bench import INPUT, OUTPUT, Answer, ProbeBuilder, ProbeEpochs
from atonc.delivery.probes.build import DEFAULT_BOARD, BuiltProbe, build, build_all, build_from
from atonc.delivery.probes.table import folder_files
from atonc.doors.cli.cli import main
from tests.board.programs import needs_compiler
from tests.probes.virtual import Chip, answers_in, firmware, log_of, make

needs_make = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")


@needs_compiler
@needs_make
def test_every_probe_is_answered_on_the_emulated_chip(all_probes: Path) -> None:
    lines = log_of(all_probes)
    answers = answers_in(lines)
    unknown = {probe.name for probe in PROBES if probe.build().answers}
    assert unknown == {name for name, answer in answers.items() if answer["verdict"] == "skipped"}
    assert {answers[name]["why"] for name in unknown} == {"unknown_to_the_emulator"}
    assert {name for name, answer in answers.items() if answer["verdict"] == "pass"} == {
        probe.name for probe in PROBES if probe.name not in unknown
    }
    assert lines[0].startswith(f"ATONC-PROBE 1 begin board={DEFAULT_BOARD} version={__version__} probes={len(PROBES)} ")
    assert "cpu_hz=800000000 npu_hz=1000000000 ram_hz=900000000 clocks=board " in lines[0]
    assert lines[-1].startswith(f"ATONC-PROBE 1 end answered={len(PROBES)} *")
    assert all(int(answer["cycles"]) > 1000 for answer in answers.values() if answer["verdict"] == "pass")


@needs_compiler
@needs_make
@pytest.mark.parametrize("name", ["stm32n6570-dk", "nucleo-n657x0-q"])
def test_the_firmware_builds_for_the_chip_of_each_board(name: str, tmp_path: Path) -> None:
    """For the Cortex-M55, with warnings as errors, and with the start-up code of a user in it."""
    folder = tmp_path / "probes"
    assert main(["probe", "all", "--board", name, "-o", str(folder), "--quiet"]) == 0
    hook = tmp_path / "my_board.c"
    hook.write_text("int my_board_was_here;\nvoid probe_board_init(void) { my_board_was_here = 1; }\n")
    elf = make(folder, [f"HOOK={hook}"])
    assert b"my_board_was_here" in elf.read_bytes()
    text = (folder / "probes.c").read_text()
    assert f'probes_board[] = "{name}"' in text
    assert ("hyperram-speed" in text) == (name == "stm32n6570-dk")


@needs_compiler
@needs_make
def test_the_data_cache_is_told_about_everything(tmp_path: Path) -> None:
    """A copy, a convolution with kernels in RAM, one with constants outside the chip."""
    names = ("control-raster", "control-conv-3x3", "conv-3x3-kernels-hyperram")
    elf = firmware(tmp_path, list(build_all(with_controls(names), board(DEFAULT_BOARD))))
    answers = answers_in(log_of(elf, Chip(data_cache=True)))
    assert [answers[name]["verdict"] for name in names] == ["pass"] * 3


def _starved() -> ProbeEpochs:
    """A writer that waits for more than its reader gives: the kind of program that hangs a chip."""
    bench = ProbeBuilder(64, 128)
    b = bench.epoch("starved")
    b.write(b.read(INPUT, contiguous(64)), OUTPUT, contiguous(128, write=True))
    bench.add(b)
    return replace(bench.done(), answers=(Answer("never", bytes(128)),))


def _hanging() -> BuiltProbe:
    built = build_from(Probe("starved", "", "", _starved), _starved(), board(DEFAULT_BOARD))
    return replace(built, emulated=True)


@needs_compiler
@needs_make
def test_wrong_bytes_and_hangs_are_told_and_the_next_probe_still_runs(tmp_path: Path) -> None:
    good = build(with_controls(("control-raster",))[0])
    right = build(with_controls(("control-multiply",))[0])
    flipped = bytearray(right.expected)
    flipped[40] ^= 0xFF
    wrong = replace(right, answers=(Answer("planted", bytes(flipped)),))
    answers = answers_in(log_of(firmware(tmp_path, [wrong, _hanging(), good])))
    multiply = answers["control-multiply"]
    assert (multiply["verdict"], multiply["first"]) == ("wrong", "40")
    assert multiply["got"] == right.expected[40:72].hex().upper()
    assert multiply["want"] == bytes(flipped[40:72]).hex().upper()
    assert (answers["starved"]["verdict"], answers["starved"]["why"]) == ("hang", "TIMEOUT")
    assert answers["control-raster"]["verdict"] == "pass"
    assert answers["end"]["answered"] == "3"


@needs_compiler
@needs_make
def test_memories_that_nobody_made_ready_are_not_touched(some_probes: Path) -> None:
    bare = answers_in(log_of(some_probes, Chip(mapped=False)))
    assert bare["control-conv-3x3-flash"] == {"verdict": "skipped", "why": "flash_is_not_mapped"}
    assert bare["hyperram-speed"] == {"verdict": "skipped", "why": "hyperram_is_not_mapped"}
    empty = answers_in(log_of(some_probes, Chip(programmed=False)))
    assert empty["control-conv-3x3-flash"] == {"verdict": "skipped", "why": "flash_image_not_programmed"}
    assert empty["hyperram-speed"]["verdict"] == "pass"
    assert bare["control-raster"]["verdict"] == empty["control-raster"]["verdict"] == "pass"


def test_writers_stay_inside_their_buffers() -> None:
    for probe in PROBES:
        made = probe.build()
        sizes = {buffer.name: buffer.size_bytes for buffer in made.buffers}
        for use in (use for plan in made.plans for use in plan.engines.values() if use.config.to_memory):
            touched = stream_of(use.config)
            assert touched.min() >= 0 and touched.max() + use.config.element_bytes <= sizes[use.buffer], probe.name


def test_the_same_bytes_every_time() -> None:
    probe, target = PROBES[0], board(DEFAULT_BOARD)
    assert folder_files([build(probe)], target) == folder_files([build(probe)], target)


def test_constants_in_flash_lie_apart_and_the_image_has_them_all() -> None:
    target = board(DEFAULT_BOARD)
    built = list(build_all(PROBES, target))
    homes = sorted((home.address, home.end) for one in built for home in one.in_flash)
    assert len(homes) > 5
    assert all(end <= start for (_, end), (start, _) in pairwise(homes))
    image = folder_files(built, target)["probes_flash.raw"]
    base = min(start for start, _ in homes)
    for one in built:
        for home in one.in_flash:
            assert image[home.address - base : home.end - base] == home.buffer.data


def test_the_readme_says_how_to_build_and_read() -> None:
    target = board(DEFAULT_BOARD)
    built = list(build_all(with_controls(("hyperram-speed", "control-conv-3x3-flash")), target))
    text = folder_files(built, target)["README.md"].decode()
    for wanted in ("arm-none-eabi-gcc", "115200 baud, 8N1", "atonc probe read LOG", "probe_board_init", "0x70380000"):
        assert wanted in text
    assert all(f"| {one.probe.name} |" in text for one in built)


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
