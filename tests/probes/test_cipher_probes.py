"""Probes of the cipher on chips that have one, have none, or have another in each bus interface; what follows of it.

The ciphers here are toys of the test. Nobody outside the vendor knows the real one.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from atonc.compiler.place import board
from atonc.delivery.probes.build import DEFAULT_BOARD, build, build_all
from atonc.delivery.probes.engines import CIPHERS
from atonc.delivery.probes.log import parse_log, settle
from atonc.doors.cli.cli import main
from atonc.insight.explain.ours import encryption_evidence
from atonc.machine.base.errors import InputError, NotModelledError
from atonc.machine.emu.bus import AddressSpace
from atonc.machine.emu.npu import run_epoch
from atonc.machine.hw.epoch import Epoch
from atonc.machine.hw.fields import UnitConfig, changed
from atonc.machine.hw.safety.evidence.unit_features import DECIPHERS
from atonc.machine.hw.units.stream_engine import StrengConfig, check
from tests.board.programs import needs_compiler
from tests.emit.generated import digits
from tests.probes.board_logs import log_text
from tests.probes.virtual import Chip, answers_in, firmware, log_of

needs_make = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
READ_BACK, CHANGES, OTHER = "cipher-read-back", "cipher-changes-bytes", "cipher-other-interface"
SPARE = 0x3432_0000  # memory that no probe uses
SECOND = ("STRENG5", "STRENG6", "STRENG7", "STRENG8", "STRENG9")  # engines of the second bus interface

Toy = Callable[[str, int], int]  # engine and address -> what a byte is changed by


def toy_chip(toy: Toy) -> Callable[[Epoch, AddressSpace], None]:
    def bytes_of(name: str, unit: StrengConfig) -> NDArray[np.uint8]:
        low, high = unit.span()
        return np.array([toy(name, address) for address in range(low, high)], np.uint8)

    def execute(epoch: Epoch, memory: AddressSpace) -> None:
        units: dict[str, UnitConfig] = {}
        writers = []
        for name, unit in epoch.units.items():
            if isinstance(unit, StrengConfig) and unit.ciphers:
                low, high = unit.span()
                if unit.to_memory:
                    writers.append((low, high, bytes_of(name, unit)))
                    unit = changed(unit, unmodelled=())
                else:
                    memory.write(SPARE, memory.read(low, high - low) ^ bytes_of(name, unit))
                    unit = changed(unit, unmodelled=(), address=SPARE)
            units[name] = unit
        run_epoch(replace(epoch, units=units), memory)
        for low, high, toys in writers:
            memory.write(low, memory.read(low, high - low) ^ toys)

    return execute


CHIPS: dict[str, tuple[Toy, dict[str, str]]] = {
    "a cipher": (
        lambda name, address: (address * 37 >> 3) % 255 + 1,
        {READ_BACK: "pass", CHANGES: "pass", OTHER: "pass"},
    ),
    "none": (lambda name, address: 0, {READ_BACK: "pass", CHANGES: "wrong", OTHER: "pass"}),
    "one for each interface": (
        lambda name, address: 90 if name in SECOND else 165,
        {READ_BACK: "pass", CHANGES: "pass", OTHER: "wrong"},
    ),
}


@pytest.fixture(scope="module")
def elf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    built = list(build_all(CIPHERS, board(DEFAULT_BOARD)))
    return firmware(tmp_path_factory.mktemp("cipher"), built)


@needs_compiler
@needs_make
@pytest.mark.parametrize("name", CHIPS)
def test_a_chip_says_what_its_cipher_does(name: str, elf: Path) -> None:
    toy, expected = CHIPS[name]
    lines = log_of(elf, Chip(toy_chip(toy), emulated=False))
    answers = answers_in(lines)
    assert answers["control-cipher-off"]["verdict"] == "pass"
    assert {probe: answers[probe]["verdict"] for probe in expected} == expected
    assert answers[CHANGES]["why"] == ("unchanged" if name == "none" else "other_bytes")
    refuted = settle(parse_log("\n".join(lines) + "\n"), CIPHERS).evidence.refuted
    assert (DECIPHERS in refuted) == (name != "a cipher")


def test_the_emulator_knows_no_answer() -> None:
    for probe in CIPHERS[1:]:
        made = build(probe)
        assert made.needs_keys and not made.emulated
        engines = [u for e in made.network.program.epochs for u in e.units.values() if isinstance(u, StrengConfig)]
        with pytest.raises(NotModelledError, match="not public"):
            for engine in engines:
                check(engine, "STRENG")
    assert not build(CIPHERS[0]).needs_keys


@pytest.mark.parametrize("failing", [READ_BACK, CHANGES, OTHER])
def test_only_the_cipher_is_blamed(failing: str) -> None:
    answers = {failing: "wrong cycles=1 runs=1 first=0 got=00"}
    found = settle(parse_log(log_text(answers, probes=CIPHERS)), CIPHERS).evidence
    assert DECIPHERS in found.refuted and {one.name for one in found.refuted} == {"STRENG cipher"}


@pytest.mark.parametrize("refused", [False, True])
def test_a_board_that_refuted_it_gets_no_encrypted_weights(refused: bool, tmp_path: Path) -> None:
    log, file = tmp_path / "log.txt", tmp_path / "evidence.json"
    planted = {CHANGES: "wrong cycles=1 runs=1 first=0 got=00"} if refused else {}
    log.write_text(log_text(planted, probes=CIPHERS))
    assert main(["probe", "read", str(log), "-o", str(file), "--quiet"]) == 0
    if not refused:
        view = digits(encrypt_weights=True, evidence=str(file))
        assert encryption_evidence(view).endswith("but your board reads back what it enciphers")
        return
    with pytest.raises(InputError, match="does not read back what it enciphered"):
        digits(encrypt_weights=True, evidence=str(file))
