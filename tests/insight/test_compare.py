"""Two builds side by side: by name, by order and size, and on the same inputs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from atonc.compiler.request.options import Options
from atonc.delivery.generate import generating
from atonc.doors.cli.cli import main
from atonc.insight.explain.compare import BY_NAME, BY_OPERATOR, agreement, compare, converted
from atonc.insight.explain.ours import network_view
from atonc.insight.explain.types import LayerView, OperatorView
from atonc.machine.emu.network import load

ROOT = Path(__file__).parent.parent.parent
DIGITS = ROOT / "examples" / "digits" / "digits.tflite"


def _build(folder: Path, **options: str) -> Path:
    generating.generate(generating.analyze(DIGITS, Options(verify=False, **options)), folder)
    return folder


@pytest.fixture(scope="module")
def builds(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    work = tmp_path_factory.mktemp("builds")
    return _build(work / "best"), _build(work / "uint8", numerics="2.x", input_type="uint8")


def _with_other_kernels(layer: LayerView) -> tuple[OperatorView, ...]:
    return tuple(replace(one, kernel=(99, *one.kernel[1:]) if one.kernel else ()) for one in layer.operators)


def test_layers_pair_by_name_else_by_operator() -> None:
    view = network_view(generating.analyze(DIGITS, Options(verify=False)))
    by_name = compare(view, view)
    assert by_name.paired_by == BY_NAME
    assert len(by_name.layers) == 8
    assert by_name.unmatched == 0
    renamed = tuple(replace(layer, name=f"Conv2D_{k}", nodes=(f"Conv2D_{k}",)) for k, layer in enumerate(view.layers))
    by_order = compare(view, replace(view, layers=renamed))
    assert by_order.paired_by == BY_OPERATOR
    assert [pair.difference for pair in by_order.layers] == [0.0] * 8
    assert all(pair.a[0].shape == pair.b[0].shape for pair in by_order.layers)
    others = tuple(replace(layer, operators=_with_other_kernels(layer)) for layer in renamed)
    assert compare(view, replace(view, layers=others)).layers == ()


def test_the_same_inputs_reach_builds_with_other_edges(builds: tuple[Path, Path]) -> None:
    first, second = load(builds[0]), load(builds[1])
    assert first.inputs[0].type != second.inputs[0].type
    (output,) = agreement(first, second, seed=3)
    assert output.elements == 10
    assert output.cosine > 0.99
    (same,) = agreement(load(builds[0]), load(builds[0]), seed=3)
    assert (same.cosine, same.exact_percent, same.largest) == (pytest.approx(1.0), 100.0, 0.0)


def test_codes_become_real_values_where_types_differ(builds: tuple[Path, Path]) -> None:
    ours, theirs = load(builds[0]).inputs[0], load(builds[1]).inputs[0]
    codes = np.full((1, 8, 8, 1), -128, np.int8)
    assert converted(codes, ours, ours) is not None
    assert converted(codes, ours, theirs).dtype == np.float32
    assert not converted(codes, ours, theirs).any()


def test_gates(builds: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    command = ["compare", *map(str, builds), "--seed", "3", "--json"]
    assert main([*command, "--min-cosine", "0.9"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["outputs"][0]["cos"] > 0.9
    assert main([*command, "--min-cosine", "1"]) == 1


def test_folders_without_a_common_output_say_so(builds: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", str(builds[0]), str(ROOT / "examples" / "first"), "--seed", "1"]) == 2
    assert "compare" in capsys.readouterr().err
