"""What an upload may take of the server: bytes, time in which nothing comes, and one of few places."""

from __future__ import annotations

import asyncio
import hashlib
import json
import shutil
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from pathlib import Path

import pytest

pytest.importorskip("uvicorn", reason="atonc[serve] is not installed")

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.types import Message, Receive

from atonc.doors.serve import guard
from atonc.doors.serve.app import Server, ServiceSettings
from atonc.doors.serve.limits import JobLimits
from atonc.doors.serve.uploads import _BLOCK, _copy, bounded
from tests.serve.running import form, server, small_model

CROWD = 50


def _sends(*blocks: bytes) -> Receive:
    """These, and then nothing for ever."""
    left = list(blocks)

    async def receive() -> Message:
        if not left:
            await asyncio.Event().wait()
        return {"type": "http.request", "body": left.pop(0), "more_body": True}

    return receive


def _drips(block: bytes) -> Receive:
    async def receive() -> Message:
        await asyncio.sleep(0.001)
        return {"type": "http.request", "body": block, "more_body": True}

    return receive


@pytest.mark.parametrize("size", [0, 1, _BLOCK, _BLOCK + 1])
def test_a_file_is_kept_as_it_came(size: int, tmp_path: Path) -> None:
    body = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
    assert _copy(BytesIO(body), tmp_path / "file") == (hashlib.sha256(body).hexdigest(), size)
    assert (tmp_path / "file").read_bytes() == body


def _whole(body: bytes) -> Receive:
    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    return receive


def _posted(receive: Receive) -> Request:
    kind = b"multipart/form-data; boundary=XX"
    return Request({"type": "http", "method": "POST", "headers": [(b"content-type", kind)]}, receive)


def _with_server(folder: Path, limits: JobLimits, work: Callable[[Server], Awaitable[None]]) -> None:
    async def run() -> None:
        found = Server(ServiceSettings(folder, limits))
        async with found.lifespan(Starlette()):
            await work(found)

    asyncio.run(run())


@pytest.mark.parametrize("receive", [_sends(), _sends(b"x" * 100), _drips(b"x")])
def test_who_sends_next_to_nothing_is_not_waited_for(receive: Receive) -> None:
    async def read() -> None:
        receiving = bounded(receive, JobLimits(upload_idle_seconds=0.05))
        while True:
            await receiving()

    with pytest.raises(TimeoutError):
        asyncio.run(read())


def test_who_sends_enough_may_take_longer_than_the_idle_time() -> None:
    """Every block alone is enough, so the time begins again with each: the bound that ends it is the one of bytes."""
    limits = JobLimits(upload_idle_seconds=60.0, upload_bytes=10 << 20)

    async def read() -> None:
        receiving = bounded(_drips(bytes(limits.upload_idle_bytes)), limits)
        while True:
            await receiving()

    with pytest.raises(guard.TooLarge):
        asyncio.run(read())


def test_a_stalled_upload_loses_its_place(tmp_path: Path) -> None:
    async def work(found: Server) -> None:
        with pytest.raises(TimeoutError):
            await found.submit(_posted(_sends(b"--XX\r\n")))
        assert not list((tmp_path / "jobs").iterdir())  # nor does it leave anything
        whole = form([("model", "a.tflite", small_model())])
        assert (await found.submit(_posted(_whole(whole)))).status_code == 201

    _with_server(tmp_path, JobLimits(uploads_at_once=1, upload_idle_seconds=0.05), work)


def test_more_uploads_than_places_are_to_come_again(tmp_path: Path) -> None:
    async def work(found: Server) -> None:
        stalled = asyncio.create_task(found.submit(_posted(_sends())))
        await asyncio.sleep(0)
        with pytest.raises(guard.TooMany):
            await found.submit(_posted(_sends()))
        stalled.cancel()

    _with_server(tmp_path, JobLimits(uploads_at_once=1, upload_idle_seconds=600.0), work)


def test_more_jobs_than_may_wait_are_to_come_later(tmp_path: Path) -> None:
    async def work(found: Server) -> None:
        with pytest.raises(guard.QueueFull):
            await found.submit(_posted(_whole(form([("model", "a.tflite", small_model())]))))

    _with_server(tmp_path, JobLimits(waiting=0), work)


def test_a_full_disk_is_told_from_a_full_queue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(tmp_path)._replace(free=1 << 20)
    monkeypatch.setattr(shutil, "disk_usage", lambda place: usage)

    async def work(found: Server) -> None:
        with pytest.raises(guard.NoRoom):
            await found.submit(_posted(_sends()))
        assert not list((tmp_path / "jobs").iterdir())

    _with_server(tmp_path, JobLimits(), work)


@pytest.mark.parametrize(
    ("error", "status"),
    [(guard.TooMany("x"), 429), (guard.QueueFull("x"), 503), (guard.NoRoom("x"), 507)],
)
def test_what_passes_by_itself_says_when(error: guard.ServiceError, status: int) -> None:
    answer = asyncio.run(guard.refused(_posted(_sends()), error))
    assert answer.status_code == status
    assert answer.headers.get("retry-after") == (str(error.again_seconds) if status != 507 else None)
    assert json.loads(bytes(answer.body))["error"]["what"] == "x"


def test_fifty_uploads_at_once_are_taken_or_asked_to_come_again(tmp_path: Path) -> None:
    with server(tmp_path, "--jobs", "1") as running, ThreadPoolExecutor(CROWD) as pool:
        model = small_model() + bytes(1 << 20)
        found = list(pool.map(lambda k: running.upload(f"{k}.tflite", model), range(CROWD)))
    refused = [answer for answer in found if answer.status != 201]
    assert {answer.status for answer in refused} <= {429} and len(refused) < CROWD
    assert all(int(answer.headers["retry-after"]) > 0 for answer in refused)
