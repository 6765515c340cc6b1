"""The bundled example: its files come from its script, it runs, and what it computes is what its layers mean."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from atonc.insight.runs import programs, runs
from atonc.machine.base.reasons import Severity
from atonc.machine.hw.ec.header import read_header_file
from atonc.machine.hw.ec.text import assemble, disassemble
from examples import make_first, make_streaming
from tests.patience import PATIENCE

ROOT = Path(__file__).resolve().parent.parent
FIRST = ROOT / "examples" / "first"


@pytest.fixture(scope="module")
def result() -> runs.RunResult:
    return runs.run(runs.RunOptions(FIRST, seed=3, observe=True))


def test_the_files_are_what_the_script_writes(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "examples" / "make_first.py"), str(tmp_path)]
    subprocess.run(command, check=True, timeout=PATIENCE)
    written = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert written == {path.name: path.read_bytes() for path in FIRST.iterdir()}


def test_the_streaming_example_is_what_its_script_makes() -> None:
    made = make_streaming.files()
    assert made == {path.name: path.read_bytes() for path in (ROOT / "examples" / "streaming").iterdir()}


def test_text_and_program_are_the_same() -> None:
    (blob,) = read_header_file(FIRST / "network_ecblobs.h").blobs
    text = (FIRST / "network.s").read_text()
    assert assemble(text).words() == blob.container.words()
    code = [line for line in text.splitlines() if line and not line.startswith(";")]
    assert disassemble(blob.container).splitlines() == code


def test_it_stays_inside_what_is_known_to_run(result: runs.RunResult) -> None:
    found = [v for v in programs.check_run(result) if v.severity in (Severity.VIOLATION, Severity.UNPROVEN)]
    assert found == []


def _convolution(image: np.ndarray) -> np.ndarray:
    """Exact sums [row, column, kernel] of the padded 3x3 convolution."""
    size = make_first.SIZE
    padded = np.pad(image.astype(np.int64), ((1, 1), (1, 1), (0, 0)))
    kernels = make_first.kernels().astype(np.int64)
    windows = [padded[y : y + size, x : x + size] @ kernels[:, y, x].T for y in range(3) for x in range(3)]
    return np.sum(windows, axis=0)


def _within_one(codes: np.ndarray, real: np.ndarray, scale: float, zero: int) -> bool:
    """The codes are those of the real values, rounded, at most one apart."""
    ideal = np.clip(np.rint(real / scale) + zero, -128, 127)
    return bool((np.abs(codes.astype(int) - ideal) <= 1).all())


def test_every_layer_is_what_it_means(result: runs.RunResult) -> None:
    image = result.inputs["image"].reshape(make_first.SIZE, make_first.SIZE, make_first.INPUTS)
    layers = {snapshot.info.name: snapshot.data for snapshot in result.snapshots}
    features, maxima = (layers[name].astype(np.int64)[0] for name in ("features", "maxima"))
    means = result.outputs["means"].reshape(-1)

    scales = make_first.IMAGE_SCALE * np.array(make_first.kernel_scales())
    real = np.maximum(_convolution(image) * scales + make_first.BIAS, 0)
    assert _within_one(features, real, make_first.FEATURE_SCALE, make_first.FEATURE_ZERO)
    half = make_first.SIZE // 2
    assert np.array_equal(maxima, features.reshape(half, 2, half, 2, -1).max(axis=(1, 3)))
    real_means = (maxima - make_first.FEATURE_ZERO).mean(axis=(0, 1)) * make_first.FEATURE_SCALE
    assert _within_one(means, real_means, make_first.MEAN_SCALE, make_first.MEAN_ZERO)
    assert len(set(means.tolist())) > 4  # the picture does reach the end


def test_other_pictures_give_other_means() -> None:
    outputs = {runs.run(runs.RunOptions(FIRST, seed=seed)).outputs["means"].tobytes() for seed in range(4)}
    assert len(outputs) == 4
