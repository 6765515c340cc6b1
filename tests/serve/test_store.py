"""What the server remembers."""

from __future__ import annotations

from pathlib import Path

import pytest

from atonc.doors.serve.jobs import DONE, FAILED, QUEUED, RUNNING, Request, Store


def _request(title: str, **options: object) -> Request:
    command = " ".join(f"--{name}={value}" for name, value in options.items())
    return Request(title, "model.tflite", "ab" * 32, 10, options, ("samples_0.npz",), command)


def test_jobs_come_back_after_a_restart(tmp_path: Path) -> None:
    store = Store(tmp_path / "history.sqlite")
    store.add("one", _request("a.tflite", prefer="memory"))
    store.add("two", _request("b.tflite"))
    store.begin("one")
    store.end("one", DONE, {"summary": {"latency_ms": 1.5}})
    before = store.job("one")
    store.close()
    again = Store(tmp_path / "history.sqlite")
    assert again.job("one") == before
    assert before.request.samples == ("samples_0.npz",) and before.outcome["summary"]["latency_ms"] == 1.5
    assert before.started is not None and before.finished is not None and before.ended
    queued = again.oldest_queued()
    assert queued is not None and queued.id == "two" and queued.state == QUEUED
    assert (again.count(QUEUED), again.count(RUNNING), again.count(DONE)) == (1, 0, 1)


def test_search_takes_every_word_and_no_pattern(tmp_path: Path) -> None:
    store = Store(tmp_path / "history.sqlite")
    for k, title in enumerate(["yolo_nano.onnx", "Yolo_big.onnx", "kws.tflite"]):
        store.add(str(k), _request(title, prefer="memory" if k else "speed"))
    store.end("1", FAILED, {"error": {"what": "Does not FIT"}})
    found = [[job.id for job in store.search(text)] for text in ("yolo", "YOLO memory", "fit", "%", "o_n", "' OR 1")]
    assert found == [["1", "0"], ["1"], ["1"], [], ["0"], []]
    assert [job.id for job in store.search(state=FAILED)] == ["1"]
    assert [job.id for job in store.search(before=3, most=1)] == ["1"]
    store.remove("1")
    with pytest.raises(KeyError):
        store.job("1")
