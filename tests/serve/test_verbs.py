"""Explaining and evaluating in the service: what visitors send is all that is read, and nobody's code is run."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("uvicorn", reason="atonc[serve] is not installed")

from atonc.doors.serve import form
from atonc.doors.serve.form import EVALUATE, EXPLAIN
from atonc.machine.base.declare import declared
from atonc.machine.base.errors import InputError
from tests.serve.running import Running, server

DIGITS = Path(__file__).parents[2] / "examples" / "digits"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with server(tmp_path_factory.mktemp("served")) as found:
        yield found


def some_samples(count: int) -> bytes:
    """The first of the examples, with their labels."""
    file = io.BytesIO()
    with np.load(DIGITS / "test.npz") as whole:
        np.savez(file, **{name: whole[name][:count] for name in whole.files})
    return file.getvalue()


def test_samples_are_evaluated_and_the_page_links_to_the_report(running: Running) -> None:
    model = (DIGITS / "digits.tflite").read_bytes()
    asked = running.upload("my digits.tflite", model, some_samples(12), EVALUATE, **{"no-int8": True})
    assert asked.status == 201, asked.body
    job = running.ended(asked.data["id"])
    assert job["state"] == "done", job
    assert job["command"] == "atonc evaluate 'my digits.tflite' --data=SAMPLES --no-int8"
    assert job["summary"]["tiles"][0][1].startswith("top-1, NPU (")
    assert set(job["files"]) == {"evaluation.json", "evaluation.html", "report.html"}
    result = running.ask("GET", f"/api/jobs/{job['id']}/result").data
    with np.load(io.BytesIO(some_samples(12))) as sent:
        assert len(result["curves"]["NPU"]) == 1 + len(set(sent["labels"].tolist()))
    assert result["samples"] == 12 and result["origin"]["data"] == "as sent"
    page = running.ask("GET", f"/api/jobs/{job['id']}/report")
    assert b"my digits.tflite" in page.body and b'href="report.html"' in page.body
    linked = running.ask("GET", f"/api/jobs/{job['id']}/pages/report.html")
    assert linked.status == 200 and linked.headers["content-security-policy"].startswith("sandbox ")
    for wrong in ("evaluation.json", "../request.json", "nothing.html"):
        assert running.ask("GET", f"/api/jobs/{job['id']}/pages/{wrong}").status == 404


def test_a_model_is_explained_with_samples(running: Running) -> None:
    model = (DIGITS / "digits.tflite").read_bytes()
    words: dict[str, Any] = {"no-prices": True, "all": True}
    job = running.ended(running.upload("digits.tflite", model, some_samples(2), EXPLAIN, **words).data["id"])
    assert job["state"] == "done", job
    assert job["command"] == "atonc explain digits.tflite --accuracy --input=SAMPLES --no-prices --all"
    assert set(job["files"]) == {"explain.txt", "report.html"}
    text = running.ask("GET", f"/api/jobs/{job['id']}/files/explain.txt").body.decode()
    assert "softmax" in text and "what costs most" in text
    result = running.ask("GET", f"/api/jobs/{job['id']}/result").data
    assert len(result["layers"]) == 8 and result["accuracy"]["samples"] == 2 and not result["accuracy"]["synthetic"]
    wrong = running.upload("digits.tflite", model, b"", EXPLAIN, layer="CONV_2D_x")
    failed = running.ended(wrong.data["id"])
    assert failed["state"] == "failed" and "CONV_2D" in failed["error"]["remedy"]


def test_the_examples_are_evaluated_and_explained_too(running: Running) -> None:
    said = running.ask("POST", "/api/examples/digits.onnx", b'{"verb": "explain", "options": {"no-prices": true}}')
    assert said.status == 201 and said.data["verb"] == EXPLAIN
    assert running.ask("POST", "/api/examples/digits.onnx", b'{"verb": "destroy"}').status == 400
    assert running.ended(said.data["id"])["state"] == "done"


def test_what_is_missing_or_wrong_is_said_at_once(running: Running) -> None:
    model = (DIGITS / "digits.tflite").read_bytes()
    assert running.upload("x.tflite", model, b"", EVALUATE).data["error"]["where"] == "samples"
    refused = running.upload("x.tflite", model, some_samples(4), EVALUATE, metric="os:getcwd")
    assert refused.status == 400 and refused.data["error"]["field"] == "metric"
    assert running.upload("x.tflite", model, some_samples(4), EVALUATE, limit=-1).data["error"]["field"] == "limit"
    assert running.upload("x.tflite", model, b"", EXPLAIN, samples="many").data["error"]["field"] == "samples"


@pytest.mark.parametrize("verb", list(form.VERBS))
def test_no_verb_offers_a_file_or_a_function_of_the_server(verb: str) -> None:
    members = [known for kind in form.VERBS[verb].declared for _, known in declared(kind)]
    shown = {one["name"]: one for group in form.schema(verb) for one in group["options"]}
    for known in members:
        name = next(flag for flag in known.flags if flag.startswith("--"))[2:]
        named = known.metavar or ""
        if "FILE" in named or "DIR" in named or ".npy" in known.help:
            assert name not in shown, name
        if "module:function" in known.help and name in shown:
            assert shown[name]["kind"] == "choice" and not any(":" in word for word in shown[name]["choices"]), name


@pytest.mark.parametrize(
    ("verb", "options"),
    [
        (EVALUATE, {"metric": "os:system"}),
        (EVALUATE, {"data": "/etc/passwd"}),
        (EVALUATE, {"float": "/etc/passwd"}),
        (EVALUATE, {"anchors": "/etc/passwd.npy"}),
        (EVALUATE, {"images": "/"}),
        (EVALUATE, {"scheduler": "tcp://127.0.0.1:1"}),
        (EVALUATE, {"processes": 8}),
        (EVALUATE, {"output": "/tmp"}),
        (EXPLAIN, {"page": "/tmp/x.html"}),
        (EXPLAIN, {"input": "/etc/passwd"}),
        (EXPLAIN, {"float": "/etc/passwd"}),
        (EXPLAIN, {"pager": True}),
        (EXPLAIN, {"layer": ["a"]}),
    ],
)
def test_what_is_of_the_server_cannot_be_asked(verb: str, options: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        form.check(options, verb)
