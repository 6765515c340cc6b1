"""How CPU layers round is written in network.c: our reader runs it to the bytes of the model's own interpreter."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from atonc.compiler.frontends.tflite import read_tflite
from atonc.compiler.ir import Graph
from atonc.compiler.ops import run_graph
from atonc.compiler.passes import order
from atonc.compiler.request.options import Options
from atonc.delivery.generate import generating
from atonc.machine.emu import network as emulated
from tests.emit.generated import DIGITS, view_of
from tests.frontends.tflite_models import O, T, build


def slopes() -> Graph:
    rng = np.random.default_rng(4)
    x, p, y = (T(n, (1, 256, 1, 16), scale=s, zero=z) for n, s, z in (("x", 0.2, 5), ("p", 0.31, -9), ("y", 0.07, 40)))
    slope = T("s", (1, 1, 16), scale=0.004, zero=1, data=rng.integers(-128, 128, (1, 1, 16)))
    ops = [O("PRELU", ["x", "s"], ["p"]), O("MUL", ["p", "x"], ["y"], "MulOptions")]
    return read_tflite(build([x, p, y, slope], ops, ["x"], ["y"]))


@pytest.mark.parametrize("source", [slopes(), read_tflite(DIGITS.read_bytes())], ids=("slopes", "digits"))
def test_everything_on_the_cpu(source: Graph, tmp_path: Path) -> None:
    names = tuple(op.name for op in order.run(source).ops)
    view = view_of(source, options=Options(verify=False, on_cpu=names))
    assert not view.compiled.program.epochs
    generating.generate(view, tmp_path / "out")
    text = (tmp_path / "out" / "network.c").read_text()
    assert ".first_bits = table_" in text
    net = emulated.load(tmp_path / "out", None)
    (name,) = source.inputs
    values = np.random.default_rng(1).integers(-128, 128, source.tensors[name].shape).astype(np.int8)
    net.write_input(0, values)
    for _ in net.run():
        pass
    assert net.read_output(0).tobytes() == run_graph(source, {name: values})[source.outputs[0]].tobytes()
