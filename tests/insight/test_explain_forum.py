"""The question of a user to ST's forum: why do layers with 257 channels run on the CPU, and why is a Gemm so slow?

ST's experts answered: the splitter cannot cut 257, a prime; the Gemm uses every weight once, so the weights choke; and
a zero point other than 0 needs 16x8 SIMD, which excludes the deep 1x1 mode.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from atonc.compiler.ir import Graph
from atonc.compiler.request.options import Options
from atonc.doors.cli.cli import main
from atonc.insight.explain.actions import priced
from atonc.insight.explain.ours import network_view
from atonc.insight.explain.types import LayerView
from tests.compiler.test_named_cases import _conv, _net
from tests.frontends.onnx_models import Net
from tests.insight.views import compile_view, view


def _forum() -> Graph:
    net = _net((1, 1, 1, 1024), 5)
    gemm = _conv(net, net.inputs[0], 256, (1, 1))
    _conv(net, gemm, 257, (1, 1))
    return net.graph("forum case")


def _layers(numerics: str) -> list[LayerView]:
    return list(view(_forum(), Options(verify=False, numerics=numerics)).layers)


def _rules(layer: LayerView) -> dict[str, str]:
    return {one.rule.id: one.seen for one in layer.decisions}


def test_all_of_it_runs_on_the_npu() -> None:
    assert [layer.on for layer in _layers("best")] == ["npu", "npu"]


def test_the_gemm_is_choked_by_its_weights() -> None:
    gemm = _layers("2.x")[0]
    assert gemm.macs == 1024 * 256
    assert gemm.macs_per_cycle < 3
    assert "each of the 262,144 weights is used once" in _rules(gemm)["BOUND-WEIGHTS"]


def test_the_zero_point_asks_for_16x8_simd_as_st_lowers_it() -> None:
    gemm = _layers("2.x")[0]
    assert "16x8 SIMD" in gemm.modes
    assert "deep 1x1" not in gemm.modes
    assert "subtract 5" in _rules(gemm)["MODE-ZERO-POINT"]


def test_what_symmetric_quantisation_would_bring_was_tried() -> None:
    options = Options(verify=False, numerics="2.x")
    compiled = compile_view(_forum(), options)
    gemm = priced(compiled, network_view(compiled), {"MODE-ZERO-POINT"})[0].layers[0]
    price = next(one.price for one in gemm.decisions if one.rule.id == "MODE-ZERO-POINT")
    assert price is not None
    assert price.tried
    assert "zero points of 0" in price.how


def test_the_default_avoids_it_and_says_so() -> None:
    seen = _rules(_layers("best")[0])["MODE-ZERO-POINT"]
    assert "zero point 5" in seen
    assert "avoided" in seen


def test_the_prime_channel_count_is_named() -> None:
    prime = _layers("best")[1]
    assert "257 channels" in _rules(prime)["MODE-CHANNELS"]


def test_the_command_line_answers_the_forum(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same as a model of ONNX: a Gemm of 1024x256 and one with 257 outputs, zero points other than 0."""
    net = Net()
    x, scale = net.qdq("sound", 0.02, 5), 0.02
    for inputs, outputs in ((1024, 256), (256, 257)):
        weights, scales = net.weights((outputs, inputs))
        y = net.node("Gemm", [x, weights, net.bias(scales * scale)], transB=1)[0]
        x, scale = net.qdq(y, 0.3, -7), 0.3
    model = tmp_path / "forum.onnx"
    model.write_bytes(net.model({"sound": (1, 1024)}, [x]))
    assert main(["explain", str(model), "--numerics", "2.x", "-v"]) == 0
    text = capsys.readouterr().out
    assert "no reuse" in text
    assert "BOUND-WEIGHTS: conv weight bandwidth: each weight is used for few output pixels" in text
    assert "run as 16x8 SIMD" in text
    assert "no deep 1x1 mode" in text
    assert "257 channels" in text
    assert "unknown" not in text.lower()
    slow = next(line for line in text.splitlines() if line.startswith("dense"))
    assert float(slow.rsplit(", ", 1)[1].split()[0]) < 3  # MAC/cycle
