"""`--calibration`: sums get room for the user's inputs, and the program is verified on them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from atonc.compiler.compile.pipeline import compile_graph
from atonc.compiler.ir import Graph, Op
from atonc.compiler.lower.semantics.sums import Layered
from atonc.compiler.request.options import Options
from atonc.compiler.request.target import MOST_GIVEN, MOST_VERIFIED, given_inputs, spread
from atonc.doors.cli.cli import main
from atonc.machine.base.errors import InputError
from tests.lower.harness import activation, constant

DIGITS = Path(__file__).parents[2] / "examples" / "digits" / "digits.tflite"
INPUTS = 2048


def network() -> Graph:
    """Two dense layers; the second one's sums are small unless the first one's outputs are all large."""
    rng = np.random.default_rng(8)
    first = rng.integers(-127, 128, (INPUTS, 64)).astype(np.int8)
    turned = np.where(np.arange(INPUTS) < INPUTS // 2, 100, -100) + rng.integers(-9, 9, (4, INPUTS))
    tensors = (
        activation("x", (1, 64)),
        constant("v", first, 0.01),
        activation("h", (1, INPUTS), 4.0, 0),
        constant("w", turned.astype(np.int8), 0.01),
        activation("y", (1, 4), 400.0),
    )
    ops = Op("dense", "a", ("x", "v"), ("h",), {}), Op("dense", "b", ("h", "w"), ("y",), {})
    return Graph({t.name: t for t in tensors}, ops, ("x",), ("y",))


def unusual(graph: Graph, count: int) -> np.ndarray:
    """Inputs that take the first half of the hidden values up and the other one down."""
    weights = np.asarray(graph.tensors["v"].data).astype(float)
    half = np.where(np.arange(INPUTS) < INPUTS // 2, 1.0, -1.0)
    way = np.linalg.lstsq(weights, 60 * 127 * half, rcond=None)[0]
    value = np.clip(127 * way / np.abs(way).max(), -128, 127)
    return np.repeat(value.astype(np.int8)[None], count, axis=0)


def room(graph: Graph, options: Options) -> tuple[float, int]:
    compiled = compile_graph(graph, options)
    meaning = compiled.mapped.context.semantics["b"]
    assert isinstance(meaning.codes, Layered) and compiled.report is not None
    return meaning.room, compiled.report.samples


def test_sums_get_room_for_the_given_inputs(tmp_path: Path) -> None:
    graph, file = network(), tmp_path / "mine.npz"
    np.savez(file, x=unusual(graph, 9))
    before, samples = room(graph, Options())
    after, more = room(graph, Options(calibration=(str(file),)))
    assert after != before and more == samples + MOST_VERIFIED  # typical inputs are others now, and were verified


def test_a_bounded_number_is_taken_from_all_of_them(tmp_path: Path) -> None:
    graph, file = network(), tmp_path / "mine.npy"
    values = np.arange(100, dtype=np.int8)[:, None] * np.ones((1, 64), np.int8)
    np.save(file, values)
    found = given_inputs(graph, graph, [str(file)])
    assert [int(one["x"][0, 0]) for one in found] == [k * 100 // MOST_GIVEN for k in range(MOST_GIVEN)]
    assert spread([1, 2], 5) == [1, 2] and spread([], 5) == []


def test_a_file_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "mine.npy"
    np.save(file, np.zeros((3, 7), np.int8))
    with pytest.raises(InputError, match="does not hold inputs"):
        compile_graph(network(), Options(calibration=(str(file),)))


def test_the_command_line_takes_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shape = (5, 8, 8, 1)
    np.save(tmp_path / "a.npy", np.zeros(shape, np.float32))
    assert main(["analyze", str(DIGITS), "--calibration", str(tmp_path / "a.npy")]) == 0
    assert "on 7 inputs" in capsys.readouterr().out
