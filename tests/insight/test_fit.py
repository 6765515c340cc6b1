"""Models that are too large: what lives at the peak, which options help, and that they do what they say."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from atonc.compiler.ir import Graph, Op, Tensor
from atonc.compiler.request.options import Options
from atonc.doors.cli.cli import main
from atonc.insight.explain.actions import Subject, peak, try_all
from atonc.machine.cost.network import spill_lines
from tests.compiler.test_named_cases import _conv, _net
from tests.errors_said import unwrapped
from tests.frontends.onnx_models import Net
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


def _pools(folder: Path, kib: int, *more: dict[str, object]) -> str:
    pools = [
        *more,
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


def test_options_are_ranked_and_do_what_they_say(tmp_path: Path) -> None:
    options = Options(verify=False, mpool=_pools(tmp_path, 128))
    subject = Subject(_float_picture(), options)
    assert not subject.figures.fits
    found = try_all(subject)
    assert "--input-data-type" in found[0].flags
    assert "then it fits" in found[0].brings
    again = Subject(subject.source, found[0].options).figures
    assert again.fits
    assert abs(again.ram_bytes - found[0].after.ram_bytes) <= 0.1 * found[0].after.ram_bytes


def _picture_model(path: Path) -> Path:
    """A float picture of 192 KiB at the input, as exporters leave it."""
    net = Net()
    x = net.qdq("picture", 1 / 255, -128)
    y = net.conv(x, (8, 3, 3, 3), 1 / 255, strides=[2, 2], pads=[0, 0, 1, 1])
    path.write_bytes(net.model({"picture": (1, 3, 128, 128)}, [net.q(y, 0.05)]))
    return path


def _first(text: str) -> tuple[list[str], str, list[str]]:
    """Flags of the first option, what it brings, and the words of its command."""
    lines = [line.strip() for line in text.splitlines()]
    place = next(k for k, line in enumerate(lines) if line.startswith("1. "))
    flags, _, brings = lines[place].removeprefix("1. ").partition(": ")
    return flags.split(), brings, shlex.split(lines[place + 1])


@pytest.mark.parametrize("verb", ["analyze", "explain"])
def test_the_first_option_does_what_was_said(verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, pools = str(_picture_model(tmp_path / "model.onnx")), ["--mpool", _pools(tmp_path, 168)]
    assert main([verb, model, *pools]) == 3
    text = capsys.readouterr().err
    assert "live in step" in text
    assert "picture" in text
    flags, brings, command = _first(text)
    assert flags[0] == "--input-data-type" and "then it fits" in brings
    assert command[:2] == ["atonc", "analyze" if verb == "analyze" else "generate"] and model in command
    assert {*pools, *flags} <= {*command}, "all that was asked for, and the option"
    said = 1024 * int(re.search(r"RAM -([\d,]+) KiB", brings)[1].replace(",", ""))  # type: ignore[index]
    assert main(["analyze", *command[2:], "--no-verify", "--json"]) == 0
    after = json.loads(capsys.readouterr().out)["memory"]["lower_bound_bytes"]
    assert main(["analyze", model, "--no-verify", "--json"]) == 0
    before = json.loads(capsys.readouterr().out)["memory"]["lower_bound_bytes"]
    assert before - after == pytest.approx(said, rel=0.1)


def test_spills_come_first_and_with_options(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = str(_picture_model(tmp_path / "model.onnx"))
    external = _pool("hyperRAM", "hyperRAM", 0x90000000, 4096, "ACC_WRITE", 2, 5.0)
    pools = ["--mpool", _pools(tmp_path, 168, external)]
    assert main(["explain", model, *pools]) == 0
    text = capsys.readouterr().out
    assert text.index("SPILL:") < text.index("with actions") and "\nRAM " in text
    assert _first(text)[0][0] == "--input-data-type"
    assert "less in external RAM" in text
    assert main(["analyze", model, *pools, "--no-verify", "--no-spill", "-q"]) == 1
    assert "--no-spill allows none" in unwrapped(capsys.readouterr().err)
    assert main(["explain", model, *pools, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["spilled_bytes"] > 0
    assert document["levers"][0]["unspilled_bytes"] > 0
    assert document["peak"]["buffers"][0]["size_bytes"] == 4 * 3 * 128 * 128


def test_spills_are_priced() -> None:
    lines = spill_lines(4096, [("hyperRAM", 3.0), ("feature", 1.0)])
    assert "4,096 bytes" in lines[0]
    assert "3.00 ms (75 %)" in lines[0]
    assert spill_lines(0, []) == []
