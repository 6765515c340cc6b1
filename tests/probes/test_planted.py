"""Chips that differ in one thing: the log shows it, and nothing else."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from atonc.place import board
from atonc.probes import PROBES, with_controls
from atonc.probes.build import DEFAULT_BOARD, build_all
from tests.board.programs import needs_compiler
from tests.probes.planted import BEHAVIOURS, high_nibble_first, machine_at, machine_with
from tests.probes.virtual import Chip, answers_in, firmware, log_of

needs_make = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
FOUND = {  # what differs -> the answers that say so
    "pad on top alone": {"conv-3x3-stride-1-pads-0010": "wrong"},
    "long shifts": {"sum-16-bit-shift-24": "wrong"},
    "three convolutions hang": {"conv-3x3-three-side-by-side": "hang"},
    "copies from flash beside convolutions hang": {"copy-flash-beside-conv-flash": "hang"},
    "kernels in the CPU's RAM": {"conv-3x3-kernels-cpu-ram": "wrong"},
    "readers on one interface": {"engines-readers-together-short": "wrong", "engines-readers-together": "wrong"},
    "writers 64 bytes apart": {"writers-interleaved-64": "wrong"},
}


@needs_compiler
@needs_make
@pytest.mark.parametrize("what", BEHAVIOURS)
def test_a_chip_that_differs_is_told(what: str, some_probes: Path) -> None:
    answers = answers_in(log_of(some_probes, Chip(BEHAVIOURS[what])))
    said = {name: answer["verdict"] for name, answer in answers.items() if answer["verdict"] not in ("", "pass")}
    assert said == FOUND[what]


@needs_compiler
@needs_make
@pytest.mark.parametrize(
    ("name", "constant", "planted"),
    [
        ("many-words", "controller_word", 8.6),
        ("frames-of-4-apart", "frame_turn", 20.0),
        ("reads-of-one-bank", "read_beat", 1.4),
        ("engines-readers-together", "interface_beat", 1.3),
        ("hyperram-speed", "hyperram_mb_per_s", 250.0),
    ],
)
def test_cycles_give_the_constant(name: str, constant: str, planted: float, some_probes: Path) -> None:
    speed = constant.endswith("_mb_per_s")
    machine = machine_at(**{constant: planted}) if speed else machine_with(**{constant: planted})
    answers = answers_in(log_of(some_probes, Chip(machine=machine)))
    probe = next(probe for probe in PROBES if probe.name == name)
    more = int(answers[name]["cycles"]) - int(answers[probe.baseline]["cycles"])
    npu_mhz = int(answers["begin"]["npu_hz"]) / 1e6
    found = probe.units * npu_mhz / more if speed else more / probe.units
    assert probe.measures == constant
    assert found == pytest.approx(planted, rel=0.03)  # the virtual board's clock goes in steps


@needs_compiler
@needs_make
def test_a_chip_that_reads_four_bits_says_how(tmp_path: Path) -> None:
    names = ("narrow-copy-signed", "narrow-conv-1x1-flash", "flash-4096-values-of-4-bits", "narrow-deep-1x1")
    elf = firmware(tmp_path, list(build_all(with_controls(names), board(DEFAULT_BOARD))), flags="")
    answers = answers_in(log_of(elf, Chip(high_nibble_first)))
    assert {answers[name]["verdict"] for name in names} == {"pass"}
    assert {answers[name]["why"] for name in names} == {"high_first_sign_extended"}
    assert len(answers["narrow-copy-signed"]["got"]) == 64
