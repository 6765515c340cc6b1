"""Who is answered: not pages of other origins, not names that were bent to this machine, nobody without the token."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

pytest.importorskip("starlette", reason="atonc[serve] is not installed")

from starlette.responses import PlainTextResponse
from starlette.types import Message

from atonc.doors.serve.guard import COOKIE, Guard, is_loopback

TOKEN = "right"


def ask(guard: Guard, method: str = "GET", path: str = "/api/jobs", query: str = "", **headers: str) -> Message:
    """The start of the answer."""
    sent: list[Message] = []
    named = {"host": "127.0.0.1:8421"} | {name.replace("_", "-"): value for name, value in headers.items()}
    scope: dict[str, Any] = {
        "type": "http", "method": method, "path": path, "raw_path": path.encode(), "query_string": query.encode(),
        "headers": [(name.encode(), value.encode()) for name, value in named.items()],
    }  # fmt: skip

    async def receive() -> Message:
        return {"type": "http.request", "body": b""}

    async def send(message: Message) -> None:
        sent.append(message)

    asyncio.run(guard(scope, receive, send))
    return sent[0]


def status(guard: Guard, method: str = "GET", path: str = "/api/jobs", query: str = "", **headers: str) -> int:
    return int(ask(guard, method, path, query, **headers)["status"])


OPEN = Guard(PlainTextResponse("in"), names=frozenset({"box.lan"}))
CLOSED = Guard(PlainTextResponse("in"), TOKEN)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost:99", "[::1]:8421", "192.168.1.5:8421", "box.lan:80"])
def test_addresses_and_allowed_names_are_served(host: str) -> None:
    assert status(OPEN, host=host) == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "localhost.evil", "", "[", "a@127.0.0.1", "127.0.0.1:x:y"]
)
def test_other_names_are_not(host: str) -> None:
    assert status(OPEN, host=host) == 403


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:3000", "http://localhost:8421"])
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
def test_pages_of_other_origins_are_refused(origin: str, method: str) -> None:
    assert status(OPEN, method, origin=origin) == 403


def test_what_the_browser_says_of_a_fetch_counts() -> None:
    assert status(OPEN, "POST", origin="http://127.0.0.1:8421", sec_fetch_site="same-origin") == 200
    assert status(OPEN, sec_fetch_site="cross-site") == 403  # a picture or a script of another site
    assert status(OPEN, sec_fetch_site="same-site", sec_fetch_mode="navigate") == 403
    assert status(OPEN, path="/", sec_fetch_site="cross-site", sec_fetch_mode="navigate") == 200  # a link to the page
    assert status(OPEN, "POST", path="/", sec_fetch_site="cross-site", sec_fetch_mode="navigate") == 403


def test_the_token() -> None:
    assert status(CLOSED) == 401
    assert status(CLOSED, authorization="Bearer wrong") == 401
    assert status(CLOSED, authorization=f"Basic {TOKEN}") == 401
    assert status(CLOSED, authorization=f"Bearer {TOKEN}") == 200
    assert status(CLOSED, cookie=f"{COOKIE}={TOKEN}") == 200
    assert status(CLOSED, cookie=f"{COOKIE}=") == 401
    assert status(CLOSED, query=f"token={TOKEN}") == 401  # only the page takes it from the address
    assert status(CLOSED, path="/", query="token=wrong") == 401


def test_the_token_moves_from_the_address_into_a_cookie() -> None:
    answer = ask(CLOSED, path="/", query=f"token={TOKEN}")
    headers = {name.decode(): value.decode() for name, value in answer["headers"]}
    assert answer["status"] == 303 and headers["location"] == "/"
    assert f"{COOKIE}={TOKEN}" in headers["set-cookie"]
    assert "httponly" in headers["set-cookie"].lower() and "samesite=strict" in headers["set-cookie"].lower()


def test_every_answer_forbids_what_the_page_does_not_need() -> None:
    for answer in (ask(OPEN), ask(OPEN, host="evil.example")):
        headers = {name.decode(): value.decode() for name, value in answer["headers"]}
        assert headers["content-security-policy"].startswith("default-src 'none'; script-src 'self'")
        assert "access-control-allow-origin" not in headers
        assert headers["x-content-type-options"] == "nosniff" and headers["referrer-policy"] == "no-referrer"


def test_loopback() -> None:
    assert [is_loopback(host) for host in ("127.0.0.1", "127.9.9.9", "::1", "localhost")] == [True] * 4
    assert [is_loopback(host) for host in ("0.0.0.0", "::", "192.168.0.1", "box.lan", "")] == [False] * 5
