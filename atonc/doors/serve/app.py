"""The application: what each address answers; and how the server starts and ends: one for each folder, a socket of its
own, a token where others could reach it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import field, replace
from importlib import resources
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from atonc.doors.serve import api, form
from atonc.doors.serve.api import AGAIN, JOB, JOBS, ONE_MORE, UPLOAD, Endpoint, Parameter
from atonc.doors.serve.guard import Guard, QueueFull, TooMany, is_loopback, not_found, refused, too_slow
from atonc.doors.serve.jobs import DONE, QUEUED, Events, Jobs, ServiceJob, Store
from atonc.doors.serve.jobs import Request as JobRequest
from atonc.doors.serve.limits import JobLimits, require_limits
from atonc.doors.serve.uploads import (
    Upload,
    copied,
    example_files,
    offered,
    receive_upload,
    require_room,
    sent_options,
    sent_wishes,
)
from atonc.doors.serve.worker import ARCHIVE, INT8, OUT, PAIR, RESULT
from atonc.insight.report.html.page import asset, served_head
from atonc.machine.base.about import __version__
from atonc.machine.base.errors import AtoncError, InputError
from atonc.machine.base.frozen import dataclass

_PAGES = {"index.html": ("atonc", "main.js"), "api.html": ("atonc: HTTP interface", "interface.js")}  # title, script
_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
# a report holds names from a stranger's model: it gets an origin of its own, from which it can reach nothing
REPORT_POLICY = (
    "sandbox allow-scripts allow-downloads allow-popups; default-src 'none'; script-src 'unsafe-inline' blob:; "
    "style-src 'unsafe-inline'; img-src data: blob:; font-src data:; worker-src blob:; frame-ancestors 'self'"
)
MOST_ROWS = 500
HISTORY = "history.sqlite"


@dataclass(frozen=True)
class ServiceSettings:
    folder: Path
    limits: JobLimits = field(default_factory=JobLimits)
    token: str = ""
    names: frozenset[str] = frozenset()


def application(settings: ServiceSettings) -> Guard:
    """All of it, behind the guard."""
    server = Server(settings)
    pages = [Route("/", server.page("index.html")), Route("/api", server.page("api.html")),
             Route("/assets/{name}", server.asset)]  # fmt: skip
    app = Starlette(
        routes=[*pages, *api.routes(server.endpoints())],
        lifespan=server.lifespan,
        exception_handlers={AtoncError: refused, HTTPException: not_found, TimeoutError: too_slow},
    )
    return Guard(app, settings.token, settings.names)


class Server:
    """The handlers, and what they share."""

    jobs: Jobs

    def __init__(self, settings: ServiceSettings) -> None:
        self._settings, self._limits = settings, settings.limits
        self._events = Events()
        self._uploading = 0
        self._assets = _assets()

    @contextlib.asynccontextmanager
    async def lifespan(self, app: Starlette) -> AsyncIterator[None]:
        folder = self._settings.folder
        (folder / "jobs").mkdir(parents=True, exist_ok=True)
        store = Store(folder / HISTORY)
        self.jobs = Jobs(store, folder / "jobs", self._limits, self._events)
        running = asyncio.create_task(self.jobs.run())
        try:
            yield
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            self._events.close()
            store.close()

    def endpoints(self) -> list[Endpoint]:
        search = Parameter("search", "words that all occur in the name, the options, the hash or the error")
        older = Parameter("before", "only jobs with a smaller number", "integer")
        rows = Parameter("limit", f"how many, at most {MOST_ROWS}", "integer")
        sides = tuple(Parameter(side, "the id of a job that is done", required=True) for side in "ab")
        upload = ("curl -F model=@model.tflite -F samples=@inputs.npz -F options='{\"prefer\": \"memory\"}' "
                  "$URL/api/jobs")  # fmt: skip
        binary = {"type": "string", "format": "binary"}
        one, zipped = "/api/jobs/{id}", "application/zip"
        return [
            Endpoint("GET", "/api/info", "Version, limits, examples, and the options with their help", self.info),
            Endpoint("POST", "/api/jobs", "Compile, explain, evaluate or quantise a model", self.submit,
                     body={"multipart/form-data": UPLOAD}, answer=JOB, status=201, example=upload),
            Endpoint("POST", "/api/examples/{name}", "The same with a model that comes with atonc and its samples",
                     self.example, body={"application/json": ONE_MORE}, answer=JOB, status=201),
            Endpoint("GET", "/api/jobs", "The history, newest first", self.history, (search, Parameter(
                "state", "queued, running, done, failed or cancelled"), older, rows), answer=JOBS),
            Endpoint("GET", one, "One job", self.job, answer=JOB),
            Endpoint("DELETE", one, "Forget a job and delete its files", self.delete, status=204),
            Endpoint("POST", f"{one}/again", "The same model and samples with other options", self.again,
                     body={"application/json": AGAIN}, answer=JOB, status=201),
            Endpoint("POST", f"{one}/compile", "Compile the model that a job has quantised", self.compile,
                     body={"application/json": AGAIN}, answer=JOB, status=201),
            Endpoint("POST", f"{one}/cancel", "End a job that waits or runs", self.cancel, answer=JOB),
            Endpoint("GET", f"{one}/result", "What the verb prints with --json", self.result),
            Endpoint("GET", f"{one}/report", "The report page", self.report, gives="text/html"),
            Endpoint("GET", f"{one}/pages/{{name}}", "That page, or one that it links to", self.linked,
                     gives="text/html"),
            Endpoint("GET", f"{one}/files.zip", "All files of a build", self.archive, gives=zipped, answer=binary,
                     example="curl -OJ $URL/api/jobs/ID/files.zip"),
            Endpoint("GET", f"{one}/files/{{name}}", "One file of a build", self.file,
                     gives="application/octet-stream", answer=binary),
            Endpoint("GET", "/api/compare", "Two builds: figures, and layers in pairs", self.compare, sides),
            Endpoint("GET", "/api/compare/report", "Two builds on one page", self.compare_report, sides,
                     gives="text/html"),
            Endpoint("GET", "/api/events", "Everything that happens, as server-sent events: job, progress, queue, "
                     "removed", self.events, gives="text/event-stream", example="curl -N $URL/api/events"),
            Endpoint("GET", "/api/openapi.json", "This description", self.openapi),
        ]  # fmt: skip

    # ------------------------------------------------------------------------------------------------------- pages

    def page(self, name: str) -> api.Handler:
        async def answer(request: Request) -> Response:
            return _asset(name, self._assets[name])

        return answer

    async def asset(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in self._assets:
            raise HTTPException(404)
        return _asset(name, self._assets[name])

    # ------------------------------------------------------------------------------------------------------- jobs

    async def info(self, request: Request) -> Response:
        limits = {"seconds": self._limits.seconds, "memory_bytes": self._limits.memory_bytes,
                  "upload_bytes": self._limits.upload_bytes, "processes": self._limits.processes}  # fmt: skip
        queue = self.jobs.counts()
        ready = [{"name": name, "about": one.about} for name, one in offered().items()]
        verbs = {verb: {"does": one.does, "samples": one.samples, "needs": list(one.needs),
                        "examples": verb != form.QUANTIZE} for verb, one in form.VERBS.items()}  # fmt: skip
        forms = {verb: form.schema(verb) for verb in form.VERBS}
        found = {"version": __version__, "limits": limits, "verbs": verbs, "forms": forms, "examples": ready}
        return JSONResponse({**found, "queue": queue})

    async def submit(self, request: Request) -> Response:
        most = self._limits.uploads_at_once
        if self._uploading >= most:
            raise TooMany(f"{most} uploads are under way already", remedy="send it again in a moment")
        self._uploading += 1
        try:
            return await self._queued(lambda folder: receive_upload(request, folder, self._limits))
        finally:
            self._uploading -= 1

    async def again(self, request: Request) -> Response:
        former, options = self._job(request), await sent_options(request)
        r, place = former.request, self.jobs.folder_of(former.id)
        return await self._copied(r.title, [place / file for file in (r.model, *r.samples)], options, r.verb)

    async def compile(self, request: Request) -> Response:
        former, options = self._done(request.path_params["id"]), await sent_options(request)
        if former.request.verb != form.QUANTIZE:
            raise HTTPException(409, "the job did not quantise a model")
        title = f"{Path(former.request.title).stem}_int8.onnx"
        return await self._copied(title, [self.jobs.folder_of(former.id) / OUT / INT8], options, form.GENERATE)

    async def example(self, request: Request) -> Response:
        found, (verb, options) = offered().get(request.path_params["name"]), await sent_wishes(request)
        if found is None:
            raise HTTPException(404, "there is no such example")
        return await self._copied(found.model, example_files(found), options, verb)

    async def _copied(self, title: str, files: Sequence[Path], options: dict[str, Any], verb: str) -> Response:
        return await self._queued(lambda folder: asyncio.to_thread(copied, title, files, folder, options, verb))

    async def _queued(self, fill: Callable[[Path], Awaitable[Upload]]) -> Response:
        """A job in a folder of its own, which is filled first and gone where that fails."""
        if self.jobs.store.count(QUEUED) >= self._limits.waiting:
            raise QueueFull(f"{self._limits.waiting} jobs wait already", remedy="wait, or cancel some")
        name, folder = self.jobs.new_folder()
        try:
            require_room(folder, self._limits.upload_bytes)
            job = self.jobs.submit(name, _asked(await fill(folder)))
        except BaseException:
            self.jobs.drop_folder(name)
            raise
        return JSONResponse(self.jobs.described(job), 201)

    async def history(self, request: Request) -> Response:
        q = request.query_params
        limit = min(_number(q.get("limit"), 100), MOST_ROWS)
        found = self.jobs.store.search(q.get("search", ""), q.get("state", ""), _number(q.get("before")), limit)
        return JSONResponse({"jobs": [self.jobs.described(job) for job in found], "queue": self.jobs.counts()})

    async def job(self, request: Request) -> Response:
        return JSONResponse(self.jobs.described(self._job(request)))

    async def cancel(self, request: Request) -> Response:
        return JSONResponse(self.jobs.described(self.jobs.cancel(self._job(request).id)))

    async def delete(self, request: Request) -> Response:
        self.jobs.delete(self._job(request).id)
        return Response(status_code=204)

    async def compare(self, request: Request) -> Response:
        a, b = self._sides(request)
        found = json.loads(await self.jobs.compare(a.id, b.id))
        return JSONResponse(found | {"jobs": [self.jobs.described(side) for side in (a, b)]})

    async def compare_report(self, request: Request) -> Response:
        a, b = self._sides(request)
        page = await self.jobs.compare(a.id, b.id, PAIR)
        return Response(page, media_type="text/html", headers={"Content-Security-Policy": REPORT_POLICY})

    def _sides(self, request: Request) -> tuple[ServiceJob, ServiceJob]:
        a, b = (self._done(request.query_params.get(side, "")) for side in "ab")
        if {a.request.verb, b.request.verb} != {form.GENERATE}:
            raise HTTPException(409, "only builds can be compared")
        return a, b

    async def events(self, request: Request) -> Response:
        if self._events.full:
            raise TooMany("too many listeners", remedy="close other pages of this server")
        return StreamingResponse(self._events.listen(self.jobs.counts()), media_type="text/event-stream")

    async def openapi(self, request: Request) -> Response:
        return JSONResponse(api.openapi(self.endpoints(), bool(self._settings.token)))

    # ------------------------------------------------------------------------------------------------------- files

    async def result(self, request: Request) -> Response:
        job = self._done(request.path_params["id"])
        return FileResponse(self.jobs.folder_of(job.id) / RESULT, media_type="application/json")

    async def report(self, request: Request) -> Response:
        job = self._done(request.path_params["id"])
        return self._page(job, str(job.outcome.get("report")))

    async def linked(self, request: Request) -> Response:
        job, name = self._done(request.path_params["id"]), request.path_params["name"]
        if Path(name).suffix != ".html":
            raise HTTPException(404)
        return self._page(job, name)

    def _page(self, job: ServiceJob, name: str) -> Response:
        headers = {"Content-Security-Policy": REPORT_POLICY}
        return FileResponse(self._built(job, name), media_type="text/html", headers=headers)

    async def archive(self, request: Request) -> Response:
        job = self._done(request.path_params["id"])
        name = f"{Path(job.request.title).stem or 'model'}-{job.number}.zip"
        return FileResponse(self.jobs.folder_of(job.id) / ARCHIVE, media_type="application/zip", filename=name)

    async def file(self, request: Request) -> Response:
        job = self._done(request.path_params["id"])
        name = request.path_params["name"]
        return FileResponse(self._built(job, name), media_type="application/octet-stream", filename=name)

    def _built(self, job: ServiceJob, name: str) -> Path:
        """Only names that the job listed when it ended; a name of a request is compared, not joined."""
        known = next((file for file in job.outcome.get("files", {}) if file == name and Path(file).name == file), None)
        path = self.jobs.folder_of(job.id) / OUT / known if known else None
        if path is None or path.is_symlink() or not path.is_file():
            raise HTTPException(404)
        return path

    def _job(self, request: Request) -> ServiceJob:
        return self._known(request.path_params["id"])

    def _known(self, name: str) -> ServiceJob:
        try:
            return self.jobs.store.job(name)
        except KeyError:
            raise HTTPException(404, "there is no such job") from None

    def _done(self, name: str) -> ServiceJob:
        job = self._known(name)
        if job.state != DONE:
            raise HTTPException(409, f"the job is {job.state}")
        return job


def _asked(upload: Upload) -> JobRequest:
    """Options are checked before anything is queued."""
    form.check(upload.options, upload.verb)
    command = form.command(upload.title, upload.options, upload.verb, bool(upload.samples))
    return JobRequest(**vars(upload), command=command)


def _number(text: str | None, default: int = 0) -> int:
    return int(text) if text and text.isdecimal() and len(text) < 16 else default


def _assets() -> dict[str, bytes]:
    folder = resources.files("atonc.doors.serve").joinpath("assets")
    found = {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}
    heads = {name: served_head(title, script).encode() for name, (title, script) in _PAGES.items()}
    found["numbers.js"] = asset("numbers.js").encode()
    return found | {name: found[name].replace(b"@@HEAD@@", head, 1) for name, head in heads.items()}


def _asset(name: str, content: bytes) -> Response:
    return Response(content, media_type=_TYPES[Path(name).suffix])


MOST_CONNECTIONS = 500
GOODBYE_SECONDS = 1  # for answers that are under way; streams of events never end by themselves


def serve(settings: ServiceSettings, host: str, port: int, ask_token: bool) -> None:
    require_limits()
    asked = ask_token or not is_loopback(host)
    settings = replace(settings, token=(settings.token or secrets.token_urlsafe(24)) if asked else "")
    with _only_one(settings.folder), _socket(host, port) as listening:
        config = uvicorn.Config(
            application(settings),
            log_level="critical",
            access_log=False,
            limit_concurrency=MOST_CONNECTIONS,
            server_header=False,
            timeout_graceful_shutdown=GOODBYE_SECONDS,
            proxy_headers=False,
            ws="none",
        )
        shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
        token = f"?token={settings.token}" if settings.token else ""
        print(f"http://{shown}:{listening.getsockname()[1]}/{token} (Ctrl-C ends it)")
        print(f"builds and history: {settings.folder}", flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            uvicorn.Server(config).run(sockets=[listening])


@contextlib.contextmanager
def _socket(host: str, port: int) -> Iterator[socket.socket]:
    try:
        family, kind, proto, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        found = socket.socket(family, kind, proto)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(place)
        found.listen(128)  # who reads the address may use it at once
    except OSError as error:
        remedy = "name another with --host and --port"
        raise InputError(f"{host} port {port} cannot be used: {error.strerror}", remedy=remedy) from None
    with found:
        yield found


def home() -> Path:
    """The folder of who names none. What stands where it once was moves here, unless a server uses it."""
    data = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "atonc"
    found, old = data / "serve", data / "doors" / "serve"
    if (old / HISTORY).is_file() and not found.exists():
        require_limits()
        with _only_one(old):
            old.rename(found)
    return found


@contextlib.contextmanager
def _only_one(folder: Path) -> Iterator[None]:
    """Two servers would start each other's jobs."""
    import fcntl  # POSIX, as the limits of jobs are: without them `serve` has ended with a sentence

    try:
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o700)  # models are their owner's business
        lock = (folder / "lock").open("w")
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror}", where=str(folder), remedy="--folder DIR") from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise InputError("another server uses it", where=str(folder), remedy="name another --folder") from None
        yield
