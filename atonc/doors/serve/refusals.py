"""What the server does not do, and how it says so: a status, and for what only has to wait, when to ask again."""

from __future__ import annotations

from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from atonc.doors.serve import form
from atonc.doors.serve.guard import refuse
from atonc.machine.base.errors import AtoncError


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
