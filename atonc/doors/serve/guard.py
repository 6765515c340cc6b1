"""Who may ask: the Host that a browser believes to talk to, the origin of its page, and the token; and how the server
says what it does not do: a status, and for what only has to wait, when to ask again.

A page of another site can make a browser send requests here; it is told apart by its Origin, or by what the browser
says of the fetch. A name that an attacker lets point to this machine is told apart by the Host: only addresses,
`localhost` and names that were allowed are answered."""

from __future__ import annotations

import hmac
import ipaddress
import re
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from atonc.doors.serve import form
from atonc.machine.base.errors import AtoncError
from atonc.machine.base.frozen import dataclass

COOKIE = "atonc_token"
_OWN = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
_HEADERS = {
    "Content-Security-Policy": _OWN + "frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::\d{1,5})?")
_DIRECT = ("", "same-origin", "none")  # what browsers say of a fetch that no other site caused


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


@dataclass(frozen=True)
class Guard:
    """In front of everything: refuses, or passes on and adds the headers of every answer."""

    app: ASGIApp
    token: str = ""
    names: frozenset[str] = frozenset()  # hosts besides addresses and localhost

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        refusal = self._refusal(scope)
        if refusal is not None:
            await refusal(scope, receive, _with_headers(send))
            return
        await self.app(scope, receive, _with_headers(send))

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if not self._is_host(host):
            return refuse(403, f"the host {host[:80]!r} is not served here", "use the address that atonc serve printed")
        if not _is_own(scope, headers, host):
            return refuse(403, "the request comes from a page of another origin", "open the server's own page")
        return self._unknown(scope, headers) if self.token else None

    def _is_host(self, host: str) -> bool:
        found = _HOST.fullmatch(host.lower())
        name = found[1].strip("[]") if found else ""
        if name == "localhost" or name in self.names:
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True

    def _unknown(self, scope: Scope, headers: Headers) -> Response | None:
        """Nothing if the visitor has the token; from an address that holds it, it moves to a cookie."""
        offered = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        if scope["path"] == "/" and scope["method"] == "GET" and self._is_token(offered):
            answer: Response = RedirectResponse("/", 303)
            answer.set_cookie(COOKIE, offered, httponly=True, samesite="strict", max_age=30 * 24 * 3600)
            return answer
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if (scheme.lower() == "bearer" and self._is_token(given.strip())) or self._is_token(_cookie(headers)):
            return None
        answer = refuse(401, "the token is missing or wrong", "open the address with ?token= that atonc serve printed, "
                        "or send the header Authorization: Bearer TOKEN")  # fmt: skip
        answer.headers["WWW-Authenticate"] = "Bearer"
        return answer

    def _is_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), self.token.encode())


def _is_own(scope: Scope, headers: Headers, host: str) -> bool:
    origin = headers.get("origin")
    if origin is not None and origin not in (f"http://{host}", f"https://{host}"):
        return False
    if headers.get("sec-fetch-site", "") in _DIRECT:
        return True
    # a link on any page may lead to ours
    return scope["method"] == "GET" and scope["path"] == "/" and headers.get("sec-fetch-mode") == "navigate"


def _cookie(headers: Headers) -> str:
    try:
        found = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
    except CookieError:
        return ""
    return found.value if found else ""


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            present = {name.lower() for name, _ in message["headers"]}
            new = [(k.lower().encode(), v.encode()) for k, v in _HEADERS.items() if k.lower().encode() not in present]
            message = {**message, "headers": [*message["headers"], *new]}
        await send(message)

    return sending


def refuse(status: int, what: str, remedy: str = "", **more: object) -> Response:
    return JSONResponse({"error": {"what": what, "remedy": remedy, **more}}, status)


class ServiceError(AtoncError):
    """Says more than that the request is wrong."""

    status = 400
    again_seconds = 0  # after which the same request may succeed; 0: not by itself


class TooLarge(ServiceError):
    """More than a visitor may send."""

    status = 413


class NoRoom(ServiceError):
    """The disk is full."""

    status = 507


class TooMany(ServiceError):
    """As many as may be at once are being sent: a place is free in a moment."""

    status, again_seconds = 429, 2


class QueueFull(ServiceError):
    """A place is free when a job has ended."""

    status, again_seconds = 503, 30


async def refused(request: Request, error: Exception) -> Response:
    """`field` names the option that a form should mark."""
    assert isinstance(error, AtoncError)
    described: dict[str, Any] = error.as_dict() | form.field(error.where)
    status = error.status if isinstance(error, ServiceError) else ServiceError.status
    answer = refuse(status, described.pop("what"), described.pop("remedy"), **described)
    if isinstance(error, ServiceError) and error.again_seconds:
        answer.headers["Retry-After"] = str(error.again_seconds)
    return answer


async def not_found(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return refuse(error.status_code, str(error.detail).lower() if error.detail else "not found")


async def too_slow(request: Request, error: Exception) -> Response:
    """The rest of the upload is not waited for, so the connection ends with the answer."""
    answer = refuse(408, "the upload took too long, or stood still", "send it again")
    answer.headers["Connection"] = "close"
    return answer
