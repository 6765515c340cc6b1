"""Firmwares that several tests run: each is built once."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from atonc.compiler.place import board
from atonc.delivery.probes import PROBES, Probe, with_controls
from atonc.delivery.probes.build import DEFAULT_BOARD, build_all
from atonc.doors.cli.cli import main
from tests.probes.planted import CHIPS
from tests.probes.virtual import firmware, log_of, make_for_virtual_board

ASKED = (  # what `planted` chips answer otherwise, and what they do not
    "writers-interleaved-64",
    "writers-interleaved-32",
    "sum-16-bit-shift-22",
    "sum-16-bit-shift-24",
    "conv-3x3-stride-1-pads-0010",
    "conv-3x3-stride-1-pads-0001",
    "conv-3x3-stride-2-pads-1100",
    "conv-3x3-stride-2-pads-0110",
    "conv-3x3-two-side-by-side",
    "conv-3x3-three-side-by-side",
    "conv-3x3-kernels-npu-ram",
    "conv-3x3-kernels-cpu-ram",
    "copy-flash-beside-conv-flash",
    "engines-readers-together",
    "reads-of-one-bank",
    "writers-two-pairs",
    "writers-five-interleaved-8",
    "writers-five-interleaved-rate",
    "writer-frames-behind-pool",
    "writer-frames-behind-arith",
    "conv-1x1-whole-features",
    "conv-3x3-stride-2-whole-features",
    "conv-3x3-written-kernels",
    "affine-sums-beyond-31-bits",
    "two-writers-one-bank",
    "three-writers-one-bank",
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


@pytest.fixture(scope="session")
def all_probes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("all_probes")
    assert main(["probe", "all", "-o", str(folder), "--quiet"]) == 0
    return make_for_virtual_board(folder)


@pytest.fixture(scope="session")
def log_by(some_probes: Path) -> Callable[[str], tuple[str, ...]]:
    """What the firmware prints on a chip of `planted`: each runs once."""
    return cache(lambda what: tuple(log_of(some_probes, CHIPS[what])))
