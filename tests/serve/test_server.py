"""A server over HTTP: jobs from upload to files, limits, hostile models, restarts."""

from __future__ import annotations

import io
import json
import os
import signal
import socket
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("uvicorn", reason="atonc[serve] is not installed")

from atonc.doors.cli.cli import main
from atonc.doors.serve.app import home
from atonc.doors.serve.guard import COOKIE
from tests.serve.running import Running, endless_model, form, server, small_model

JOBS = 8
OPEN, UPLOAD = ("/api/info", "/api/jobs", "/api/openapi.json"), ("post", "/api/jobs")  # without a body: refused


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("served")
    with server(folder, "--max-upload", "1M", "--time-limit", "8", "--memory-limit", "1G") as found:
        yield found


@pytest.fixture(scope="module")
def done(running: Running) -> dict[str, object]:
    inputs = io.BytesIO()
    np.savez(inputs, x=np.zeros((3, 6, 7, 3), np.int8))
    answer = running.upload("first try.tflite", small_model(), inputs.getvalue(), prefer="memory", name="net")
    assert answer.status == 201
    return running.ended(answer.data["id"])


def test_a_job_gives_figures_report_and_files(running: Running, done: dict[str, object]) -> None:
    assert done["state"] == "done", done
    summary, name = done["summary"], done["id"]
    assert isinstance(summary, dict) and summary["latency_ms"] > 0 and summary["verify"]["layers"] > 0
    assert summary["validation"]["samples"] == 3 and summary["validation"]["passed"]
    assert done["command"] == "atonc generate 'first try.tflite' --prefer=memory --name=net"
    report = running.ask("GET", f"/api/jobs/{name}/report")
    assert b"first try.tflite" in report.body and report.headers["content-security-policy"].startswith("sandbox ")
    assert "allow-same-origin" not in report.headers["content-security-policy"]
    archive = running.ask("GET", f"/api/jobs/{name}/files.zip")
    files = {info.filename: info.file_size for info in zipfile.ZipFile(io.BytesIO(archive.body)).infolist()}
    assert files == done["files"] and "net.c" in files and "net_report.html" in files
    one = running.ask("GET", f"/api/jobs/{name}/files/net.c")
    assert len(one.body) == files["net.c"] and one.headers["content-disposition"].startswith("attachment")
    result = running.ask("GET", f"/api/jobs/{name}/result").data
    assert result["latency_ms"] == summary["latency_ms"] and result["model"] == "first try.tflite"


def test_no_name_of_a_request_is_a_path(running: Running, done: dict[str, object]) -> None:
    for name in ("../request.json", "..%2frequest.json", "%2e%2e/model.tflite", "request.json", "/etc/passwd", "."):
        assert running.ask("GET", f"/api/jobs/{done['id']}/files/{name}").status in (404, 405), name
    for name in ("../app.py", "..%2fapp.py", "no.js"):
        assert running.ask("GET", f"/assets/{name}").status == 404, name
    for name in ("..", "../../etc", "x" * 300):
        assert running.ask("GET", f"/api/jobs/{name}").status in (404, 200), name


def test_again_with_other_options_and_two_builds_compared(running: Running, done: dict[str, object]) -> None:
    body = json.dumps({"options": {"numerics": "2.x"}}).encode()
    answer = running.ask("POST", f"/api/jobs/{done['id']}/again", body, Content_Type="application/json")
    other = running.ended(answer.data["id"])
    assert other["state"] == "done" and other["sha256"] == done["sha256"] and other["samples"] == 1
    found = running.ask("GET", f"/api/compare?a={done['id']}&b={other['id']}").data
    assert found["figures"][0]["name"] == "latency"
    assert [job["id"] for job in found["jobs"]] == [done["id"], other["id"]]
    assert [one["b"] for one in found["options"] if "numerics" in one["option"]] == ["2.x"]
    page = running.ask("GET", f"/api/compare/report?a={done['id']}&b={other['id']}")
    assert b"first try.tflite" in page.body and page.headers["content-security-policy"].startswith("sandbox ")
    assert running.ask("GET", f"/api/compare?a={done['id']}&b=none").status == 404


def test_uploads_are_bounded(running: Running) -> None:
    assert running.upload("large.tflite", bytes(1200 << 10)).status == 413
    with socket.create_connection(("127.0.0.1", running.port)) as line:  # it does not say how long it will be
        line.sendall(b"POST /api/jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n"
                     b"Content-Type: multipart/form-data; boundary=XX\r\n\r\n")  # fmt: skip
        start = form([("model", "a.tflite", b"")]).split(b"\r\n--XX--")[0]
        line.sendall(b"%x\r\n%s\r\n" % (len(start), start))
        try:
            for _ in range(24):
                line.sendall(b"%x\r\n%s\r\n" % (64 << 10, bytes(64 << 10)))
            answer = line.recv(100)
        except ConnectionError:  # it hung up before we were done
            answer = b"HTTP/1.1 413"
    assert answer.startswith(b"HTTP/1.1 413")
    titles = {job["title"] for job in running.ask("GET", "/api/jobs").data["jobs"]}
    assert not titles & {"large.tflite", "a.tflite"}


def test_what_is_no_model_is_refused_with_a_reason(running: Running) -> None:
    for name, content, word in (("x.pt", b"PK", "PyTorch"), ("x.txt", b"hello", "no model"), ("x.h5", b"", "Keras")):
        answer = running.upload(name, content)
        assert answer.status == 400 and word in answer.data["error"]["what"], answer.body
    assert running.upload("x.tflite", small_model(), colour="red").status == 400
    broken = running.ended(running.upload("x.onnx", b"\xff" * 100).data["id"])
    assert broken["state"] == "failed" and "x.onnx" in broken["error"]["where"] and "/" not in broken["error"]["where"]
    assert running.ask("GET", f"/api/jobs/{broken['id']}/report").status == 409
    assert running.ask("POST", "/api/jobs", b"{}", Content_Type="application/json").status == 400


def test_a_wrong_option_is_named(running: Running) -> None:
    answer = running.upload("x.tflite", small_model(), prefer="memory", seed="today")
    assert answer.status == 400 and answer.data["error"]["field"] == "seed"
    late = running.ended(running.upload("x.tflite", small_model(), **{"cut-output-tensors": "nope"}).data["id"])
    assert late["state"] == "failed" and late["error"]["field"] == "cut-output-tensors"


def test_an_example_is_compiled_and_tried_on_its_samples(running: Running) -> None:
    offered = [one["name"] for one in running.ask("GET", "/api/info").data["examples"]]
    assert offered == ["digits.tflite", "digits.onnx"]
    for name in offered:
        ended = running.ended(running.ask("POST", f"/api/examples/{name}").data["id"])
        assert ended["state"] == "done" and ended["title"] == name, ended
        assert ended["summary"]["validation"]["accuracy"]["samples"] == 100
    wrong = running.ask("POST", "/api/examples/digits.onnx", b'{"options": {"prefer": "luck"}}')
    assert wrong.status == 400 and wrong.data["error"]["field"] == "prefer"
    for name in ("..%2fREADME.md", "README.md", "test.npz"):
        assert running.ask("POST", f"/api/examples/{name}").status == 404


def test_many_jobs_at_once_and_a_hostile_one_among_them(running: Running) -> None:
    """Some of them have names that would do harm as paths."""
    ids, names = [], {0: "../../evil.tflite", 1: "a\\b\\c.tflite", 2: "..", 4: "<img src=x>.tflite"}
    shown = {0: "evil.tflite", 1: "c.tflite", 2: "..", 4: "<img src=x>.tflite"}
    for k in range(JOBS):
        model = endless_model() if k == 3 else small_model(k)
        answer = running.upload(names.get(k, f"crowd_{k}.tflite"), model, **{"no-verify": True})
        assert answer.data["title"] == shown.get(k, f"crowd_{k}.tflite")
        ids.append(answer.data["id"])
    running.until(lambda: running.ask("GET", "/api/info").data["queue"] == {"queued": 0, "running": 0})
    ended = [running.job(name) for name in ids]
    states = [job["state"] for job in ended]
    assert states == ["done"] * 3 + ["failed"] + ["done"] * (JOBS - 4)
    assert "longer than 8 s" in ended[3]["error"]["what"]


def test_the_description_lists_what_is_answered(running: Running) -> None:
    found = running.ask("GET", "/api/openapi.json").data
    assert found["openapi"].startswith("3.1") and "security" not in found
    listed = [(method, path) for path, methods in found["paths"].items() for method in methods]
    assert len(listed) > 10
    for method, path in listed:
        if path != "/api/events":  # it never ends
            answer = running.ask(method.upper(), path.replace("{id}", "none").replace("{name}", "none") + "?a=x&b=y")
            assert answer.status == (400 if (method, path) == UPLOAD else 200 if path in OPEN else 404), path
    assert running.ask("PUT", "/api/jobs").status == 405


def test_history_survives_a_restart_and_running_jobs_end_with_the_server(tmp_path: Path) -> None:
    with server(tmp_path, "--jobs", "1") as first:
        kept = first.ended(first.upload("kept.tflite", small_model()).data["id"])
        slow = first.upload("slow.tflite", endless_model()).data["id"]
        waits = first.upload("waits.tflite", small_model(), **{"no-verify": True}).data["id"]
        first.until(lambda: first.job(slow)["state"] == "running")
        assert main(["serve", "--folder", str(tmp_path), "--port", "0"]) == 2  # one server for a folder
        os.kill(first.process.pid, signal.SIGKILL)
        (tmp_path / "jobs" / "half").mkdir()  # as an upload leaves it that never ended
        first.process.wait()
    with server(tmp_path, "--jobs", "1") as second:
        assert second.job(kept["id"]) == kept and not (tmp_path / "jobs" / "half").exists()
        assert second.job(slow)["state"] == "failed" and "server ended" in second.job(slow)["error"]["what"]
        assert second.ended(waits)["state"] == "done"
        assert second.ask("GET", f"/api/jobs/{kept['id']}/files.zip").status == 200
        assert [job["title"] for job in second.ask("GET", "/api/jobs?search=KEPT").data["jobs"]] == ["kept.tflite"]
        assert second.ask("DELETE", f"/api/jobs/{kept['id']}").status == 204
        assert second.ask("GET", f"/api/jobs/{kept['id']}").status == 404
        assert not (tmp_path / "jobs" / kept["id"]).exists()
        assert not _processes_in(tmp_path / "jobs" / slow)


def _processes_in(folder: Path) -> list[str]:
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if Path(os.readlink(process / "cwd")) == folder:
                found.append(process.name)
        except OSError:
            continue
    return found


def test_a_token_where_others_could_reach_it(tmp_path: Path) -> None:
    with server(tmp_path, "--host", "0.0.0.0") as running:
        token = running.address.split("token=")[1]
        assert len(token) > 20
        assert running.ask("GET", "/").status == running.ask("GET", "/api/jobs").status == 401
        assert running.ask("GET", "/api/jobs", Authorization=f"Bearer {token}").status == 200
        assert running.ask("GET", "/api/jobs", Cookie=f"{COOKIE}={token}").status == 200
        assert running.ask("GET", f"/?token={token}").status == 303
    with server(tmp_path, "--token", ATONC_TOKEN="given") as running:
        assert running.address.endswith("?token=given")
        assert running.ask("GET", "/api/jobs", Authorization="Bearer given").status == 200
    with server(tmp_path) as running:
        assert "token" not in running.address and running.ask("GET", "/").status == 200
        assert running.ask("GET", "/", Host="evil.example").status == 403
        assert running.ask("POST", "/api/jobs", b"x", Origin="http://evil.example").status == 403


def test_the_folder_is_the_documented_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What an earlier version kept elsewhere moves there, and nothing is laid over what is there already."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    new, old = tmp_path / "atonc" / "serve", tmp_path / "atonc" / "doors" / "serve"
    assert home() == new and not new.exists()
    for kept in (b"builds", b"later builds"):
        old.mkdir(parents=True)
        (old / "history.sqlite").write_bytes(kept)
        assert home() == new and (new / "history.sqlite").read_bytes() == b"builds"
    assert (old / "history.sqlite").read_bytes() == b"later builds"
