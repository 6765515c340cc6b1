"""Chips that differ in one thing: the log shows it, and nothing else. What follows from it: `test_first_hour.py`."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from atonc.compiler.place import board
from atonc.delivery.probes import PROBES, with_controls
from atonc.delivery.probes.build import DEFAULT_BOARD, build_all
from atonc.delivery.probes.kernels import NARROW_RATES
from atonc.delivery.probes.log import parse_log, settle
from atonc.delivery.probes.sums import BEYOND
from atonc.delivery.trials.board_running import BoardRun, run_firmware
from atonc.machine.hw.wide_sums import WRAPPED
from tests.board.programs import needs_compiler
from tests.probes.planted import BEHAVIOURS, high_nibble_first, wrapping_sums
from tests.probes.virtual import Chip, answers_in, firmware, log_of

needs_make = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
FOUND = {  # what differs -> the answers that say so
    "pad on top alone": {"conv-3x3-stride-1-pads-0010": "wrong"},
    "pads left and right alone": {"conv-3x3-stride-2-pads-1100": "wrong"},
    "long shifts": {"sum-16-bit-shift-24": "wrong"},
    "two convolutions hang": {"conv-3x3-two-side-by-side": "hang"},
    "three convolutions hang": {"conv-3x3-three-side-by-side": "hang"},
    "copies from flash beside convolutions hang": {"copy-flash-beside-conv-flash": "hang"},
    "kernels in the CPU's RAM": {"conv-3x3-kernels-cpu-ram": "wrong"},
    "kernels in the NPU's RAM": dict.fromkeys(
        (
            "control-conv-3x3",
            "conv-3x3-alone-28",
            "conv-3x3-kernels-npu-ram",
            "conv-1x1-whole-features",
            "conv-3x3-stride-2-whole-features",
            "conv-3x3-written-kernels",
            "conv-3x3-stride-1-pads-0001",
            "conv-3x3-stride-1-pads-0010",
            "conv-3x3-stride-2-pads-0110",
            "conv-3x3-stride-2-pads-1100",
            "conv-3x3-two-side-by-side",
            "conv-3x3-three-side-by-side",
        ),
        "wrong",
    ),
    "readers on one interface": {"engines-readers-together-short": "wrong", "engines-readers-together": "wrong"},
    "writers 64 bytes apart": {"writers-interleaved-64": "wrong"},
    "five writers": {"writers-five-interleaved-8": "wrong", "writers-five-interleaved-rate": "wrong"},
    "two pairs of writers": {"writers-two-pairs": "wrong"},
    "frames behind a POOL": {"writer-frames-behind-pool": "wrong"},
    "whole features by two": {"conv-3x3-stride-2-whole-features": "wrong"},
    "kernels that were written": {"conv-3x3-written-kernels": "wrong"},
    "sums of 32 bits": {"affine-sums-beyond-31-bits": "wrong"},
}


@needs_compiler
@needs_make
@pytest.mark.parametrize("what", BEHAVIOURS)
def test_a_chip_that_differs_is_told(what: str, log_by: Callable[[str], tuple[str, ...]]) -> None:
    answers = answers_in(log_by(what))
    said = {name: answer["verdict"] for name, answer in answers.items() if answer["verdict"] not in ("", "pass")}
    assert said == FOUND[what]


@needs_compiler
@needs_make
def test_a_chip_that_reads_four_bits_says_how(tmp_path: Path) -> None:
    names = ("narrow-copy-signed", "narrow-conv-1x1-flash", "flash-4096-values-of-4-bits", "narrow-deep-1x1")
    elf = firmware(tmp_path, list(build_all(with_controls(names), board(DEFAULT_BOARD))))
    answers = answers_in(log_of(elf, Chip(high_nibble_first, emulated=False)))
    assert {answers[name]["verdict"] for name in names} == {"pass"}
    assert {answers[name]["why"] for name in names} == {"high_first_sign_extended"}
    assert len(answers["narrow-copy-signed"]["got"]) == 64


@needs_compiler
@needs_make
def test_a_chip_that_unpacks_four_bits_in_its_engines_says_how_fast(tmp_path: Path) -> None:
    """Twice what flash gives in bytes, and one value a cycle from RAM, as measured pairs say."""
    names = tuple(probe.name for probe in NARROW_RATES)
    elf = firmware(tmp_path, list(build_all(with_controls(names), board(DEFAULT_BOARD))))
    lines = log_of(elf, Chip(high_nibble_first, emulated=False))
    assert {answers_in(lines)[name]["why"] for name in names} == {"high_first_sign_extended"}
    found = settle(parse_log("\n".join(lines)), PROBES)
    rates = {one.probe.name: one.rate for one in found.outcomes if one.rate is not None}
    assert rates["narrow-kernels-flash-rate"] == pytest.approx(0.8, rel=0.05)
    assert rates["narrow-kernels-npu-ram-rate"] == pytest.approx(1.0, rel=0.05)


@needs_compiler
@needs_make
def test_a_chip_that_wraps_sums_says_so(tmp_path: Path) -> None:
    elf = firmware(tmp_path, list(build_all(with_controls((BEYOND,)), board(DEFAULT_BOARD))))
    lines = log_of(elf, Chip(wrapping_sums, emulated=False))
    assert answers_in(lines)[BEYOND]["why"] == WRAPPED
    found = settle(parse_log("\n".join(lines)), PROBES).evidence
    assert found.wide_sums == WRAPPED and not found.refuted


@needs_compiler
@needs_make
def test_a_firmware_that_is_only_run_leaves_out_what_the_emulator_does_not_know(tmp_path: Path) -> None:
    elf = firmware(tmp_path, list(build_all(with_controls((BEYOND,)), board(DEFAULT_BOARD))))
    said: list[str] = []
    end = run_firmware(BoardRun(elf), lambda line: said.append(line.removeprefix("| ")))
    assert end.reason == "bkpt" and " on=emulator " in said[0]
    assert answers_in(said)[BEYOND]["verdict"] == "skipped"
