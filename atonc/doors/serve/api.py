"""What can be asked over HTTP, once: the routes and their OpenAPI description come from the same list."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import field
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from atonc.doors.serve.form import GENERATE, VERBS, options_schema
from atonc.doors.serve.jobs import STATES
from atonc.machine.base.about import __version__
from atonc.machine.base.frozen import dataclass
from atonc.machine.base.words import listed

Handler = Callable[[Request], Awaitable[Response]]
_FILE = {"type": "string", "format": "binary"}
_JOB = {"$ref": "#/components/schemas/Job"}
_SCHEMAS = {verb: "Options" if verb == GENERATE else f"{verb.capitalize()}Options" for verb in VERBS}
_ANY_OPTIONS = {"anyOf": [{"$ref": f"#/components/schemas/{name}"} for name in _SCHEMAS.values()]}


@dataclass(frozen=True)
class Parameter:
    name: str
    what: str
    kind: str = "string"
    required: bool = False


@dataclass(frozen=True)
class Endpoint:
    method: str
    path: str  # names in braces are parameters
    summary: str
    handler: Handler
    query: tuple[Parameter, ...] = ()
    body: dict[str, Any] = field(default_factory=dict)  # media type -> schema
    gives: str = "application/json"
    answer: dict[str, Any] = field(default_factory=dict)  # its schema
    status: int = 200
    example: str = ""  # a command line; $URL is the server's address


def routes(endpoints: Iterable[Endpoint]) -> list[Route]:
    return [Route(e.path, e.handler, methods=[e.method], name=f"{e.method} {e.path}") for e in endpoints]


def openapi(endpoints: Iterable[Endpoint], with_token: bool) -> dict[str, Any]:
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in endpoints:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _operation(endpoint)
    options = {name: options_schema(verb) for verb, name in _SCHEMAS.items()}
    components: dict[str, Any] = {"schemas": {**options, "Job": _job_schema(), "Error": _error()}}
    document: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {"title": "atonc serve", "version": __version__, "description": "Compile models for the STM32N6."},
        "paths": paths,
        "components": components,
    }
    if with_token:
        components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        document["security"] = [{"token": []}]
    return document


def _operation(endpoint: Endpoint) -> dict[str, Any]:
    in_path = [part[1:-1] for part in endpoint.path.split("/") if part.startswith("{")]
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in in_path
    ] + [
        {"name": p.name, "in": "query", "required": p.required, "description": p.what, "schema": {"type": p.kind}}
        for p in endpoint.query
    ]  # fmt: skip
    content = {endpoint.gives: {"schema": endpoint.answer}} if endpoint.answer else {endpoint.gives: {}}
    error = {"$ref": "#/components/schemas/Error"}
    refused = {"description": "refused, with the reason", "content": {"application/json": {"schema": error}}}
    found: dict[str, Any] = {
        "summary": endpoint.summary,
        "responses": {
            str(endpoint.status): {"description": "done", **({} if endpoint.status == 204 else {"content": content})},
            "4XX": refused,
        },
    }
    if parameters:
        found["parameters"] = parameters
    if endpoint.body:
        found["requestBody"] = {"content": {kind: {"schema": shape} for kind, shape in endpoint.body.items()}}
    if endpoint.example:
        found["x-example"] = endpoint.example
    return found


def _job_schema() -> dict[str, Any]:
    text, number, thing = {"type": "string"}, {"type": "number"}, {"type": "object"}
    return {
        "type": "object",
        "properties": {
            "id": text, "number": {"type": "integer"}, "title": text, "verb": {"enum": list(VERBS)},
            "state": {"enum": list(STATES)}, "stage": text, "share": number, "created": number,
            "started": {"type": ["number", "null"]}, "finished": {"type": ["number", "null"]},
            "sha256": text, "size_bytes": {"type": "integer"},
            "options": _ANY_OPTIONS, "samples": {"type": "integer"}, "command": text, "error": thing,
            "summary": thing, "files": {"type": "object", "additionalProperties": {"type": "integer"}}, "report": text,
        },
    }  # fmt: skip


def _error() -> dict[str, Any]:
    text = {"type": "string"}
    error = {"type": "object", "properties": {"what": text, "where": text, "rule": text, "remedy": text, "field": text}}
    return {"type": "object", "properties": {"error": error}}


JOB = _JOB
JOBS = {"type": "object", "properties": {"jobs": {"type": "array", "items": _JOB}}}
UPLOAD = {
    "type": "object",
    "required": ["model"],
    "properties": {
        "model": {**_FILE, "description": ".tflite or .onnx; quantised, unless it is to be"},
        "samples": {"type": "array", "items": _FILE, "description": ".npz, .npy or .csv"},
        "options": {"type": "string", "description": f"a JSON object, see {listed(list(_SCHEMAS.values()))}"},
        "verb": {"enum": list(VERBS), "description": "generate if left out; quantize takes a float model and samples, "
                 "evaluate samples with labels"},
    },
}  # fmt: skip
ONE_MORE = {"type": "object", "properties": {"options": _ANY_OPTIONS, "verb": {"enum": list(VERBS)}}}
AGAIN = {"type": "object", "properties": {"options": _ANY_OPTIONS}}
