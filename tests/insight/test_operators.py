"""The operator table answers to the names of both formats."""

from __future__ import annotations

import pytest

from atonc.doors.cli.cli import main
from atonc.insight.explain.operators import composed, kind_named, operator_table, source_operators


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("conv", "conv"),
        ("CONV_2D", "conv"),
        ("DEPTHWISE_CONV_2D", "conv"),
        ("QLinearConv", "conv"),
        ("Gemm", "dense"),
        ("FULLY_CONNECTED", "dense"),
        ("MaxPool", "max_pool"),
        ("MAX_POOL_2D", "max_pool"),
        ("GlobalAveragePool", "mean"),
        ("Softmax", "softmax"),
        ("DequantizeLinear", "dequantize"),
        ("RESIZE_BILINEAR", "resize_linear"),
        ("HardSwish", "hard_swish"),
        ("ConvTranspose", "transpose_conv"),
        ("LayerNormalization", "layer_norm"),
    ],
)
def test_names_of_the_formats(name: str, kind: str) -> None:
    assert kind_named(name) == kind


def test_kinds_are_their_own_names() -> None:
    assert all(kind_named(info.kind) == info.kind for info in operator_table())


def test_most_operators_that_are_read_have_an_answer(capsys: pytest.CaptureFixture[str]) -> None:
    for names in source_operators().values():
        silent = [name for name in names if not kind_named(name) and not composed(name)]
        assert len(names) > 60
        assert len(silent) < 0.05 * len(names), silent
    assert main(["ops", "Gemm"]) == 0
    assert "dense: NPU" in capsys.readouterr().out
    assert main(["ops", "GroupNormalization"]) == 0
    assert "several operators" in capsys.readouterr().out
