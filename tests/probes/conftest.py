"""Firmwares that several tests run: each is built once."""

from __future__ import annotations

from pathlib import Path

import pytest

from atonc.place import board
from atonc.probes import PROBES, Probe, with_controls
from atonc.probes.build import DEFAULT_BOARD, build_all
from tests.probes.virtual import firmware

ASKED = (  # what `planted` chips answer otherwise, and what they do not
    "writers-interleaved-64",
    "writers-interleaved-32",
    "sum-16-bit-shift-22",
    "sum-16-bit-shift-24",
    "conv-3x3-stride-1-pads-0010",
    "conv-3x3-stride-1-pads-0001",
    "conv-3x3-two-side-by-side",
    "conv-3x3-three-side-by-side",
    "conv-3x3-kernels-cpu-ram",
    "copy-flash-beside-conv-flash",
    "engines-readers-together",
    "reads-of-one-bank",
    "many-words",
    "frames-of-4-apart",
    "hyperram-speed",
)


def with_baselines(names: tuple[str, ...]) -> tuple[Probe, ...]:
    by_name = {probe.name: probe for probe in PROBES}
    return with_controls((*names, *(by_name[n].baseline for n in names if by_name[n].baseline)))


@pytest.fixture(scope="session")
def some_probes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("some_probes")
    return firmware(folder, list(build_all(with_baselines(ASKED), board(DEFAULT_BOARD))))
