"""Models that are too large: what lives at the peak, which levers help, and that they do what they say."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from atonc.cli import main
from atonc.costs import spill_lines
from atonc.insight.fit import demand, levers, peak
from atonc.ir import Graph, Op, Tensor
from atonc.options import Options
from tests.compiler.test_named_cases import _conv, _net
from tests.frontends.tflite_models import chain_model
from tests.insight.views import view

KIB = 1024


def _float_picture() -> Graph:
    """A float picture of 192 KiB, its codes, and a convolution behind."""
    net = _net((1, 128, 128, 3))
    _conv(net, net.inputs[0], 8, (3, 3), stride=(2, 2), padding=(0, 0, 1, 1))
    graph, codes = net.graph("float picture"), net.inputs[0]
    picture = Tensor("picture", (1, 128, 128, 3), "float32")
    quantize = Op("quantize", "quantize", ("picture",), (codes,), origin=("quantize",))
    return replace(
        graph, tensors={**graph.tensors, "picture": picture}, ops=(quantize, *graph.ops), inputs=("picture",)
    )


def _pools(folder: Path, kib: int) -> str:
    pools = [
        _pool("AXISRAM3", "npuRAM3", 0x34200000, kib, "ACC_WRITE", 8, 1.25),
        _pool("xSPI2", "octoFlash", 0x70380000, 4096, "ACC_READ", 1, 6.0),
    ]
    path = folder / "small.mpool"
    path.write_text(json.dumps({"memory": {"mempools": pools}}))
    return str(path)


def _pool(postfix: str, name: str, base: int, kib: int, rights: str, width: int, ratio: float) -> dict[str, object]:
    speed = {"rights": rights, "throughput": "HIGH", "latency": "LOW", "byteWidth": width, "freqRatio": ratio}
    place = {"offset": {"value": hex(base), "magnitude": "BYTES"}, "size": {"value": str(kib), "magnitude": "KBYTES"}}
    return {"fname": postfix, "name": name, "fformat": "FORMAT_RAW", "prop": speed, **place}


def test_the_peak_names_step_and_buffers() -> None:
    found = peak(view(_float_picture()))
    assert found is not None
    assert found.buffers[0].name == "picture"
    assert found.live_bytes == (4 + 1) * 128 * 128 * 3


def test_levers_are_ranked_and_do_what_they_say(tmp_path: Path) -> None:
    options = Options(verify=False, mpool=_pools(tmp_path, 128))
    graph = _float_picture()
    assert not demand(graph, options).fits
    found = levers(graph, options)
    assert "int8 input" in found[0].what
    assert "then it fits" in str(found[0])
    again = demand(graph, found[0].options)
    assert again.fits
    assert abs(again.ram_bytes - found[0].after.ram_bytes) <= 0.1 * found[0].after.ram_bytes


def test_the_command_line_gives_the_levers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = tmp_path / "model.tflite"
    model.write_bytes(chain_model())
    assert main(["analyze", str(model), "--mpool", _pools(tmp_path, 1)]) in (0, 3)
    options = ["--mpool", _pools(tmp_path, 0)]
    assert main(["analyze", str(model), *options]) in (2, 3)
    assert "Traceback" not in capsys.readouterr().err


def test_spills_are_priced() -> None:
    lines = spill_lines(4096, [("hyperRAM", 3.0), ("feature", 1.0)])
    assert "4,096 bytes" in lines[0]
    assert "3.00 ms (75 %)" in lines[0]
    assert spill_lines(0, []) == []
