"""The chip's DMA beside the NPU: the firmware starts a transfer, its bytes count, and its own cycles are told."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from atonc.compiler.place import board
from atonc.delivery.probes import PROBES
from atonc.delivery.probes.build import DEFAULT_BOARD, build_all
from atonc.delivery.probes.dma import DMA
from atonc.delivery.probes.log import Settled, parse_log, settle
from atonc.delivery.texts import probe_text
from atonc.machine.emu.board.dma import Hpdma
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


def test_the_virtual_boards_dma_is_as_fast_as_its_flash_whatever_the_npu_does(elf: Path) -> None:
    """It shares nothing with the NPU there; a chip where they take turns shows half of it beside flash."""
    found = settled(elf)
    assert not found.evidence.refuted and rates(found) == pytest.approx(dict.fromkeys(NAMES[1::2], 0.4), rel=0.03)
    said = {one.probe.name: probe_text.follows(one) for one in found.outcomes if one.probe in DMA}
    assert any("as the cycle model has it" in text for text in said["dma-flash-alone"])


def test_a_slower_dma_is_told(elf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Hpdma, "_mb_per_s", lambda self, address: 200.0)
    found = settled(elf)
    assert rates(found) == pytest.approx(dict.fromkeys(NAMES[1::2], 0.2), rel=0.03)
    (alone,) = (one for one in found.outcomes if one.probe.name == "dma-flash-alone")
    assert any("and the cycle model has 0.4: send the log" in text for text in probe_text.follows(alone))


def test_a_dma_that_is_refused_is_told_and_refutes_nothing(elf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(self: Hpdma, channel: int, source: int, target: int, size: int) -> None:
        end(self, channel, 0, target, size)

    end = Hpdma._end
    monkeypatch.setattr(Hpdma, "_end", refused)
    found = settled(elf)
    verdicts = {one.probe.name: one.reply.verdict for one in found.outcomes if one.probe in DMA and one.reply}
    assert verdicts["dma-flash-alone"] == verdicts["dma-flash-alone-short"] == "wrong"
    assert not found.evidence.refuted and not found.evidence.distrusted
