"""A float model becomes an int8 one in the service, and that one is compiled."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("uvicorn", reason="atonc[serve] is not installed")
pytest.importorskip("onnxruntime", reason="atonc[quantize] is not installed")

from atonc.doors.serve import form
from atonc.doors.serve.form import QUANTIZE
from atonc.insight.quantizing.types import QuantizeOptions
from atonc.machine.base.declare import declared
from atonc.machine.base.errors import InputError
from tests.quantizing.float_models import network
from tests.serve.running import Running, server, small_model


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with server(tmp_path_factory.mktemp("served")) as found:
        yield found


def _samples() -> bytes:
    file = io.BytesIO()
    np.savez(file, x=np.random.default_rng(1).normal(size=(12, 3, 12, 12)).astype(np.float32))
    return file.getvalue()


def test_from_float_to_a_build(running: Running) -> None:
    model = network().SerializeToString()
    asked = running.upload("small.onnx", model, _samples(), QUANTIZE, samples=12, objective="accuracy")
    assert asked.status == 201, asked.body
    made = running.ended(asked.data["id"])
    assert made["state"] == "done" and made["verb"] == QUANTIZE, made
    assert made["command"] == "atonc quantize small.onnx --data=SAMPLES.npz --samples=12 --objective=accuracy"
    assert made["summary"]["samples"] == 12 and made["summary"]["chosen"]["snr_db"] > 10
    page = running.ask("GET", f"/api/jobs/{made['id']}/report")
    assert b"small.onnx" in page.body and page.headers["content-security-policy"].startswith("sandbox ")
    built = running.ended(running.ask("POST", f"/api/jobs/{made['id']}/compile").data["id"])
    assert built["state"] == "done" and built["title"] == "small_int8.onnx" and built["summary"]["latency_ms"] > 0
    assert running.ask("POST", f"/api/jobs/{built['id']}/compile").status == 409
    assert running.ask("GET", f"/api/compare?a={made['id']}&b={built['id']}").status == 409
    again = running.ask("POST", f"/api/jobs/{made['id']}/again", b'{"options": {"objective": "luck"}}')
    assert again.status == 400 and again.data["error"]["field"] == "objective"


def test_what_cannot_be_quantised_is_said_at_once(running: Running) -> None:
    model = network().SerializeToString()
    assert running.upload("x.onnx", model, b"", QUANTIZE).data["error"]["where"] == "samples"
    assert running.upload("x.onnx", model, _samples(), QUANTIZE, samples=2).data["error"]["field"] == "samples"
    assert running.upload("x.onnx", model, _samples(), "destroy").data["error"]["where"] == "verb"
    other = running.ended(running.upload("x.tflite", small_model(), _samples(), QUANTIZE).data["id"])
    assert other["state"] == "failed" and other["error"]["what"] and "x.tflite" in other["error"]["where"]


def test_its_form_has_what_it_declares_and_nothing_of_this_machine(tmp_path: Path) -> None:
    shown = {one["name"]: one for group in form.schema(QUANTIZE) for one in group["options"]}
    flags = {known.flags[0][2:] for _, known in declared(QuantizeOptions)}
    assert flags - set(shown) == {"threads", "scheduler", "images", "anchors"}
    assert "stm32h747i-disco" not in shown["board"]["choices"]
    for name in ("scheduler", "data", "output", "page", "threads"):
        with pytest.raises(InputError, match="no option"):
            form.parsed({name: "tcp://127.0.0.1:1"}, QUANTIZE)
