"""A small fake of the probe firmware: what a board would print over its UART."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from atonc.delivery.probes import PROBES
from atonc.delivery.probes.bench import Probe
from atonc.delivery.probes.log import signed

BOARD = "stm32n6570-dk"
CLOCKS = {"cpu_hz": 800_000_000, "npu_hz": 1_000_000_000, "ram_hz": 900_000_000}  # the usual ones
BAND = "conv-3x3-stride-2-pads-1100"  # rows in the middle of a frame
ASKED = tuple(probe for probe in PROBES if "-pads-" not in probe.name or probe.name == BAND)  # other paddings stay open
CYCLES = 5000  # of a probe that measures nothing


def line(*words: str) -> str:
    return signed(" ".join(("ATONC-PROBE", "1", *words)))


def begin(count: int, board: str = BOARD, **clocks: int) -> str:
    speeds = [f"{name}={hz}" for name, hz in (CLOCKS | clocks).items()]
    return line("begin", f"board={board}", "version=0.1.0", f"probes={count}", *speeds, "on=chip")


def log_lines(
    planted: Mapping[str, str] = {}, probes: Iterable[Probe] = ASKED, board: str = BOARD, **clocks: int
) -> list[str]:
    """All probes pass, but for what is planted: probe -> the words behind its name."""
    probes = list(probes)
    answers = [line(probe.name, planted.get(probe.name, f"pass cycles={CYCLES} runs=5")) for probe in probes]
    return [begin(len(probes), board, **clocks), *answers, line("end", f"answered={len(probes)}")]


def log_text(planted: Mapping[str, str] = {}, **more: object) -> str:
    return "\n".join(log_lines(planted, **more)) + "\n"  # type: ignore[arg-type]
