"""The chip's DMA beside the NPU: the firmware starts a transfer, its bytes count, and its own cycles are told."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from atonc.compiler.place import board
from atonc.delivery.probes import PROBES
from atonc.delivery.probes.build import DEFAULT_BOARD, build_all
from atonc.delivery.probes.dma import DMA
from atonc.delivery.probes.log import Settled, parse_log, settle
from atonc.delivery.texts import probe_text
from atonc.machine.emu.board.dma import Hpdma
from atonc.machine.hw.dma import DmaCopy
from atonc.machine.hw.machine import stm32n6
from tests.board.programs import needs_compiler
from tests.probes.conftest import with_baselines
from tests.probes.virtual import firmware, log_of

pytestmark = [needs_compiler, pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")]
NAMES = tuple(probe.name for probe in DMA)


@pytest.fixture(scope="module")
def elf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return firmware(tmp_path_factory.mktemp("dma"), list(build_all(with_baselines(NAMES), board(DEFAULT_BOARD))))


def settled(elf: Path) -> Settled:
    return settle(parse_log("\n".join(log_of(elf))), PROBES)


def rates(found: Settled) -> dict[str, float | None]:
    return {one.probe.name: one.rate for one in found.outcomes if one.probe.rate and one.probe in DMA}


FULL = 128 / (128 * stm32n6().flash_byte_cycles + stm32n6().timing.dma_burst)  # bytes a cycle: bursts, a little apart


def test_the_virtual_boards_dma_and_the_npu_take_turns_at_the_flash(elf: Path) -> None:
    found = settled(elf)
    assert not found.evidence.refuted
    assert rates(found) == pytest.approx(dict(zip(NAMES[1::2], (FULL, FULL, FULL / 2), strict=True)), rel=0.03)
    said = {one.probe.name: probe_text.follows(one) for one in found.outcomes if one.probe in DMA}
    assert any("as the cycle model has it" in text for text in said["dma-flash-alone"])


def test_a_slower_dma_is_told(elf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Hpdma, "_byte_cycles", lambda self, address: 5.0)
    found = settled(elf)
    assert rates(found) == pytest.approx(dict(zip(NAMES[1::2], (0.2, 0.2, 0.1), strict=True)), rel=0.03)
    (alone,) = (one for one in found.outcomes if one.probe.name == "dma-flash-alone")
    assert any("and the cycle model has 0.4: send the log" in text for text in probe_text.follows(alone))


def test_a_dma_that_is_refused_is_told_and_refutes_nothing(elf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(self: Hpdma, channel: int, one: DmaCopy) -> None:
        end(self, channel, replace(one, source=0))

    end = Hpdma._end
    monkeypatch.setattr(Hpdma, "_end", refused)
    found = settled(elf)
    verdicts = {one.probe.name: one.reply.verdict for one in found.outcomes if one.probe in DMA and one.reply}
    assert verdicts["dma-flash-alone"] == verdicts["dma-flash-alone-short"] == "wrong"
    assert not found.evidence.refuted and not found.evidence.distrusted
