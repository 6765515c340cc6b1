"""Numbers of a model that are none: a refusal that names the node, the rule and what to do, in both numerics."""

from __future__ import annotations

import numpy as np
import pytest

from atonc.compiler.compile.pipeline import Compiled, compile_graph
from atonc.compiler.frontends.onnx_qdq import read_onnx
from atonc.compiler.request.options import Options
from atonc.machine.base.errors import AtoncError, ModelError
from tests.frontends.onnx_models import Net

NUMERICS = ("best", "2.x")
INF, NAN = float("inf"), float("nan")
BEHIND: dict[str, tuple[str, tuple[object, ...], dict[str, float]]] = {
    "gain": ("Mul", (np.float32(INF),), {}),
    "offset": ("Add", (np.float32(NAN),), {}),
    "bound": ("Clip", (np.float32(NAN), np.float32(6)), {}),
    "slope": ("LeakyRelu", (), {"alpha": INF}),
    "parameter": ("Elu", (), {"alpha": NAN}),
    "border": ("Pad", (np.array([0, 0, 1, 1, 0, 0, 1, 1]), np.float32(NAN)), {}),
}


def compiled(
    numerics: str, bias: tuple[float, ...] = (0, 1, 2, 3), behind: str = "", scales: tuple[float, float] = (0.05, 0.01)
) -> Compiled:
    net = Net()
    weights = net.dq(net.const(np.full((4, 4, 1, 1), 3, np.int8)), scales[1])
    y = net.node("Conv", [net.qdq("x", scales[0]), weights, net.const(np.array(bias, np.float32))])[0]
    if behind:
        kind, constants, attrs = BEHIND[behind]
        y = net.node(kind, [y, *map(net.const, constants)], **attrs)[0]
    data = net.model({"x": (1, 4, 6, 6)}, [net.qdq(y, 0.05)])
    return compile_graph(read_onnx(data), Options(numerics=numerics))


def refused(error: AtoncError, node: str) -> None:
    assert error.where.startswith(node) and error.remedy, str(error)
    assert "finite" in error.what or "not a number" in error.what


@pytest.mark.parametrize("numerics", NUMERICS)
@pytest.mark.parametrize("bias", [(0, INF, 1, -INF), (0, NAN, 1, 2)], ids=["infinite", "not a number"])
def test_a_bias(bias: tuple[float, ...], numerics: str) -> None:
    with pytest.raises(AtoncError) as caught:
        compiled(numerics, bias)
    refused(caught.value, "n_conv")
    assert caught.value.rule


@pytest.mark.parametrize("behind", BEHIND)
def test_behind_a_convolution(behind: str) -> None:
    with pytest.raises(AtoncError) as caught:
        compiled("best", behind=behind)
    refused(caught.value, "n_")


@pytest.mark.parametrize("scales", [(1e-45, 0.01), (1e30, 1e30)], ids=["tiny", "huge"])
def test_scales_beyond_single_precision_leave_the_npu(scales: tuple[float, float]) -> None:
    """As far as the numerics of ST's compiler go, which has them in single precision."""
    assert compiled("2.x", scales=scales).report is not None


@pytest.mark.parametrize("no_npu", [False, True], ids=["NPU", "CPU"])
@pytest.mark.parametrize("value", [-INF, -1000.0])
def test_a_border_beyond_all_codes_is_the_least_code(value: float, no_npu: bool) -> None:
    net = Net()
    pads = [net.const(np.array([0, 0, 1, 1, 0, 0, 1, 1])), net.const(np.float32(value))]
    y = net.qdq(net.node("Pad", [net.qdq("x", 0.05), *pads])[0], 0.05)
    result = compile_graph(read_onnx(net.model({"x": (1, 4, 6, 6)}, [y])), Options(no_npu=no_npu))
    assert result.report is not None and result.report.worst_layer == 0


TABLE = np.ones((4, 2), np.float32)
NOT_SAID: dict[str, tuple[str, list[object], dict[str, float]]] = {
    "a gain": ("LayerNormalization", ["x", np.full(4, NAN, np.float32)], {}),
    "a softcap": ("Attention", ["x", "x", "x"], {"softcap": -3.0}),
    "a scale": ("Attention", ["x", "x", "x"], {"scale": NAN}),
    "a position": ("RotaryEmbedding", ["x", TABLE, TABLE, np.array([[0, 1, 4]])], {}),
}


@pytest.mark.parametrize("what", NOT_SAID)
def test_parameters_of_transformers(what: str) -> None:
    net, (kind, inputs, attrs) = Net(), NOT_SAID[what]
    y = net.node(kind, [one if isinstance(one, str) else net.const(one) for one in inputs], **attrs)  # type: ignore[arg-type]
    with pytest.raises(ModelError) as caught:
        read_onnx(net.model({"x": (1, 2, 3, 4)}, y))
    assert caught.value.where
