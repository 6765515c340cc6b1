"""The queue: jobs start in the order in which they came, some at once, each in a process of its own, with limits, which
is ended with all its children. What the server remembers of them is in one SQLite file with one writer; what happens is
told to all who listen as server-sent events."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import shutil
import signal
import sqlite3
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from atonc.doors.serve.limits import JobLimits
from atonc.doors.serve.worker import OUT, REQUEST, RESULT, SUMMARY
from atonc.machine.base import cache
from atonc.machine.base.about import package_folder
from atonc.machine.base.child import ONE_THREAD
from atonc.machine.base.disk import read_file
from atonc.machine.base.errors import InputError
from atonc.machine.base.frozen import dataclass

WAITING_EVENTS = 500  # a listener that is further behind is sent away; it comes back and asks for the list
SILENCE_SECONDS = 15.0  # then a comment keeps the connection alive
MOST_LISTENERS = 200


class Events:
    def __init__(self) -> None:
        self._listeners: set[asyncio.Queue[str | None]] = set()

    def publish(self, kind: str, data: Any) -> None:
        text = f"event: {kind}\ndata: {json.dumps(data)}\n\n"
        for listener in list(self._listeners):
            if listener.qsize() >= WAITING_EVENTS:
                self._leave(listener)
            else:
                listener.put_nowait(text)

    @property
    def full(self) -> bool:
        return len(self._listeners) >= MOST_LISTENERS

    async def listen(self, greeting: Any) -> AsyncIterator[str]:
        queue: asyncio.Queue[str | None] = asyncio.Queue()
        self._listeners.add(queue)
        try:
            yield f"retry: 1000\nevent: hello\ndata: {json.dumps(greeting)}\n\n"
            while True:
                try:
                    text = await asyncio.wait_for(queue.get(), SILENCE_SECONDS)
                except TimeoutError:
                    text = ": still here\n\n"
                if text is None:
                    return
                yield text
        finally:
            self._listeners.discard(queue)

    def close(self) -> None:
        for listener in list(self._listeners):
            self._leave(listener)

    def _leave(self, listener: asyncio.Queue[str | None]) -> None:
        self._listeners.discard(listener)
        listener.put_nowait(None)


LINE_BYTES = 1 << 16  # of one message
BURIAL_SECONDS, POLL_SECONDS = 5.0, 0.05
LOG_BYTES = 4000  # of what a process said last, for who wants to know why it failed
_INHERITED = ("PATH", "HOME", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "PYTHONHASHSEED", "SYSTEMROOT", "VIRTUAL_ENV")
Message = dict[str, Any]


@dataclass(frozen=True)
class ProcessEnd:
    """How it ended: `signal` is 0 for a process that ended by itself."""

    exit_code: int
    signal: int = 0
    timed_out: bool = False
    log: str = ""


def worker_command(verb: str, *words: str) -> list[str]:
    return [sys.executable, "-P", "-m", "atonc.doors.serve.worker", verb, *words]


async def run_limited(
    command: Sequence[str], folder: Path, seconds: float, tell: Callable[[Message], None] = lambda message: None
) -> ProcessEnd:
    """Runs it in `folder`; `tell` gets every JSON object that it prints. Cancelling this ends the process first."""
    scratch, log = folder / "scratch", folder / "log.txt"
    scratch.mkdir(exist_ok=True)
    with log.open("wb") as errors:
        process = await asyncio.create_subprocess_exec(
            *command,
            cwd=folder,
            env=_environment(scratch),
            stdin=asyncio.subprocess.PIPE,  # never written to: its end tells the process that the server is gone
            stdout=asyncio.subprocess.PIPE,
            stderr=errors,
            limit=LINE_BYTES,
            start_new_session=True,
        )
    timed_out = False
    try:
        async with asyncio.timeout(seconds), asyncio.TaskGroup() as group:
            group.create_task(_orphans(process))
            group.create_task(_listen(process, tell))
    except TimeoutError:
        timed_out = True
    finally:
        _end_group(process.pid)
        await asyncio.shield(_bury(process))
    code = process.returncode or 0
    return ProcessEnd(max(code, 0), max(-code, 0), timed_out, _tail(log))


async def _listen(process: asyncio.subprocess.Process, tell: Callable[[Message], None]) -> None:
    assert process.stdout is not None
    while True:
        try:
            line = await process.stdout.readline()
        except ValueError:  # longer than any message of ours
            continue
        if not line:
            return
        with contextlib.suppress(ValueError, RecursionError):
            message = json.loads(line)
            if isinstance(message, dict):
                tell(message)


async def _orphans(process: asyncio.subprocess.Process) -> None:
    """Children that outlive the process end too; else they would hold its output open."""
    while process.returncode is None:  # `wait` would wait for the output
        await asyncio.sleep(POLL_SECONDS)
    _end_group(process.pid)


def _end_group(group: int) -> None:
    """The process, if it still runs, and whatever it started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


async def _bury(process: asyncio.subprocess.Process) -> None:
    """Waits for its end and closes the pipes; a child that left the group may still hold one."""
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(process.communicate(), BURIAL_SECONDS)
    await process.wait()


def _environment(scratch: Path) -> dict[str, str]:
    """What a compilation needs; not the server's token, nor what else is nobody's business. No cache: how long a model
    takes would tell a visitor whether another one has it."""
    found = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    own = {"TMPDIR": str(scratch), "PYTHONPATH": str(package_folder().parent), cache.VARIABLE: cache.OFF}
    return found | ONE_THREAD | own


def _tail(log: Path) -> str:
    with log.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - LOG_BYTES))
        return file.read().decode("utf-8", "replace")


QUEUED, RUNNING, DONE, FAILED, CANCELLED = STATES = ("queued", "running", "done", "failed", "cancelled")
ENDED = (DONE, FAILED, CANCELLED)
VERSION = 1
_TABLE = """
CREATE TABLE jobs (
  number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT UNIQUE NOT NULL, state TEXT NOT NULL, created REAL NOT NULL,
  started REAL, finished REAL, fixed TEXT NOT NULL, outcome TEXT NOT NULL DEFAULT '{}', words TEXT NOT NULL
);
CREATE INDEX jobs_by_state ON jobs (state, number);
"""
_COLUMNS = "number, id, state, created, started, finished, fixed, outcome"


@dataclass(frozen=True)
class Request:
    """What was asked; nothing of it changes."""

    title: str  # the file's name as uploaded: shown, never a path
    model: str  # the name of our copy
    sha256: str
    size_bytes: int
    options: Mapping[str, Any]
    samples: tuple[str, ...] = ()  # names of our copies
    command: str = ""  # the same on the command line
    verb: str = "generate"  # what is asked for; what earlier versions kept does not say


@dataclass(frozen=True)
class ServiceJob:
    number: int
    id: str
    state: str
    created: float
    started: float | None
    finished: float | None
    request: Request
    outcome: Mapping[str, Any]  # error; or summary, files, report

    @property
    def ended(self) -> bool:
        return self.state in ENDED


class Store:
    """Used by one thread of one process."""

    def __init__(self, path: Path) -> None:
        self._base = sqlite3.connect(path, isolation_level=None)
        self._base.execute("PRAGMA journal_mode = WAL")
        self._base.execute("PRAGMA synchronous = NORMAL")
        if self._base.execute("PRAGMA user_version").fetchone()[0] < VERSION:
            self._base.executescript(f"BEGIN; {_TABLE} PRAGMA user_version = {VERSION}; COMMIT;")

    def close(self) -> None:
        self._base.close()

    def add(self, job: str, request: Request) -> ServiceJob:
        text = json.dumps(vars(request))
        words = f"{request.title} {request.command} {request.sha256} {request.model}".lower()
        self._base.execute(
            "INSERT INTO jobs (id, state, created, fixed, words) VALUES (?, ?, ?, ?, ?)",
            (job, QUEUED, time.time(), text, words),
        )
        return self.job(job)

    def job(self, job: str) -> ServiceJob:
        """KeyError if there is none."""
        row = self._base.execute(f"SELECT {_COLUMNS} FROM jobs WHERE id = ?", (job,)).fetchone()
        if row is None:
            raise KeyError(job)
        return _job(row)

    def begin(self, job: str) -> ServiceJob:
        self._base.execute("UPDATE jobs SET state = ?, started = ? WHERE id = ?", (RUNNING, time.time(), job))
        return self.job(job)

    def end(self, job: str, state: str, outcome: Mapping[str, Any]) -> ServiceJob:
        error = outcome.get("error", {}).get("what", "")
        self._base.execute(
            "UPDATE jobs SET state = ?, finished = ?, outcome = ?, words = words || ' ' || ? WHERE id = ?",
            (state, time.time(), json.dumps(outcome), f"{state} {error}".lower(), job),
        )
        return self.job(job)

    def remove(self, job: str) -> None:
        self._base.execute("DELETE FROM jobs WHERE id = ?", (job,))

    def oldest_queued(self) -> ServiceJob | None:
        row = self._base.execute(
            f"SELECT {_COLUMNS} FROM jobs WHERE state = ? ORDER BY number LIMIT 1", (QUEUED,)
        ).fetchone()
        return _job(row) if row else None

    def count(self, state: str) -> int:
        return int(self._base.execute("SELECT count(*) FROM jobs WHERE state = ?", (state,)).fetchone()[0])

    def ids(self) -> set[str]:
        return {str(name) for (name,) in self._base.execute("SELECT id FROM jobs")}

    def in_state(self, state: str) -> list[ServiceJob]:
        rows = self._base.execute(f"SELECT {_COLUMNS} FROM jobs WHERE state = ? ORDER BY number", (state,))
        return [_job(row) for row in rows]

    def search(self, text: str = "", state: str = "", before: int = 0, most: int = 100) -> list[ServiceJob]:
        """Newest first; every word of `text` must occur in the file's name, the options, the hash or the error."""
        conditions, values = ["1"], list[Any]()
        for word in text.lower().split()[:10]:
            conditions.append("instr(words, ?)")
            values.append(word)
        if state:
            conditions.append("state = ?")
            values.append(state)
        if before:
            conditions.append("number < ?")
            values.append(before)
        query = f"SELECT {_COLUMNS} FROM jobs WHERE {' AND '.join(conditions)} ORDER BY number DESC LIMIT ?"
        return [_job(row) for row in self._base.execute(query, (*values, most))]


def _job(row: tuple[Any, ...]) -> ServiceJob:
    number, name, state, created, started, finished, fixed, outcome = row
    request = json.loads(fixed)
    request["samples"] = tuple(request["samples"])
    return ServiceJob(number, name, state, created, started, finished, Request(**request), json.loads(outcome))


SUMMARY_BYTES, PAGE_BYTES = 4 << 20, 32 << 20
COMPARISON_SECONDS = 120.0
COMPARISONS_AT_ONCE = 2
PROGRESS_SECONDS = 0.1  # between two events about the progress of one job


class Jobs:
    def __init__(self, store: Store, folder: Path, limits: JobLimits, events: Events,
                 command: Callable[[str], list[str]] = worker_command) -> None:  # fmt: skip
        self.store, self.events = store, events
        self._folder, self._limits, self._command = folder, limits, command
        self._running: dict[str, asyncio.Task[ProcessEnd]] = {}
        self._progress: dict[str, Message] = {}
        self._told: dict[str, float] = {}
        self._wake = asyncio.Event()
        self._comparing = asyncio.Semaphore(COMPARISONS_AT_ONCE)

    # ------------------------------------------------------------------------------------------------------- asking

    def folder_of(self, job: str) -> Path:
        return self._folder / job

    def new_folder(self) -> tuple[str, Path]:
        """A name that nobody guesses, and a folder for it."""
        name = secrets.token_hex(8)
        self.folder_of(name).mkdir(mode=0o700)
        return name, self.folder_of(name)

    def drop_folder(self, job: str) -> None:
        shutil.rmtree(self.folder_of(job), ignore_errors=True)

    def submit(self, job: str, request: Request) -> ServiceJob:
        written = asdict(request) | {"limits": asdict(self._limits)}
        (self.folder_of(job) / REQUEST).write_text(json.dumps(written), "utf-8")
        return self._changed(self.store.add(job, request))

    def cancel(self, job: str) -> ServiceJob:
        """A job that waits ends at once; of one that runs the process is ended, and the queue says so then."""
        found = self.store.job(job)
        if found.state == QUEUED:
            return self._changed(self.store.end(job, CANCELLED, {}))
        if job in self._running:
            self._running[job].cancel()
        return found

    def delete(self, job: str) -> None:
        if not self.store.job(job).ended:
            raise InputError("the job has not ended", remedy="cancel it first")
        self.store.remove(job)
        self.drop_folder(job)
        self.events.publish("removed", {"id": job})

    def described(self, job: ServiceJob) -> dict[str, Any]:
        """Describes a job as visitors see it."""
        return describe(job) | (self._progress.get(job.id, {}) if job.state == RUNNING else {})

    def counts(self) -> dict[str, int]:
        return {"queued": self.store.count(QUEUED), "running": self.store.count(RUNNING)}

    async def compare(self, a: str, b: str, file: str = RESULT) -> bytes:
        """Two builds, in a process like any other: what it reads was made of files of strangers."""
        builds = [str(self.folder_of(self.store.job(job).id) / OUT) for job in (a, b)]
        name, folder = self.new_folder()
        try:
            async with self._comparing:
                request = {"builds": builds, "limits": asdict(self._limits)}
                (folder / REQUEST).write_text(json.dumps(request), "utf-8")
                said: list[Message] = []
                ended = await run_limited(self._command("compare"), folder, COMPARISON_SECONDS, said.append)
            if ended.exit_code or ended.signal:
                raise InputError(why_failed(ended, said, self._limits)["what"])
            return read_file(folder / file, PAGE_BYTES)
        finally:
            self.drop_folder(name)

    # ------------------------------------------------------------------------------------------------------- running

    async def run(self) -> None:
        """Until it is cancelled."""
        self._recover()
        async with asyncio.TaskGroup() as group:
            for _ in range(self._limits.processes):
                group.create_task(self._serve_queue())

    def _recover(self) -> None:
        """Jobs that ran when the server ended are not tried again: one of them may have been the reason."""
        for job in self.store.in_state(RUNNING):
            error = {"what": "the server ended while the job ran", "remedy": "start it again"}
            self.store.end(job.id, FAILED, {"error": error})
        known = self.store.ids()
        for folder in self._folder.iterdir():  # of uploads that were not complete
            if folder.name not in known:
                self.drop_folder(folder.name)

    async def _serve_queue(self) -> None:
        while True:
            job = self.store.oldest_queued()
            if job is None:
                self._wake.clear()
                await self._wake.wait()
            else:
                await self._run(self._changed(self.store.begin(job.id)))

    async def _run(self, job: ServiceJob) -> None:
        folder, said = self.folder_of(job.id), list[Message]()
        command, clock = self._command(job.request.verb), self._limits.clock_seconds
        work = run_limited(command, folder, clock, lambda message: self._heard(job, message, said))
        task = self._running[job.id] = asyncio.create_task(work)
        stopping = asyncio.current_task()
        try:
            ended = await task
            state, outcome = _outcome(folder, ended, said, self._limits)
        except asyncio.CancelledError:
            if stopping is not None and stopping.cancelling():  # the server ends, not only this job
                error = {"what": "the server ended while the job ran", "remedy": "start it again"}
                self.store.end(job.id, FAILED, {"error": error})
                raise
            state, outcome = CANCELLED, {}
        except OSError as error:
            state, outcome = FAILED, {"error": {"what": f"the job could not start: {error.strerror}"}}
        finally:
            self._forget(job.id)
        if state != DONE:
            shutil.rmtree(folder / OUT, ignore_errors=True)
        self._changed(self.store.end(job.id, state, outcome))

    def _forget(self, job: str) -> None:
        shutil.rmtree(self.folder_of(job) / "scratch", ignore_errors=True)
        for known in (self._running, self._progress, self._told):
            known.pop(job, None)  # type: ignore[attr-defined]

    def _heard(self, job: ServiceJob, message: Message, said: list[Message]) -> None:
        if "error" in message:
            said[:] = [message]
        stage, share = message.get("stage"), message.get("share")
        if not isinstance(stage, str) or not isinstance(share, int | float):
            return
        before = self._progress.get(job.id, {})
        self._progress[job.id] = {"stage": stage[:80], "share": min(max(float(share), 0.0), 1.0)}
        now = time.monotonic()
        if stage != before.get("stage") or now - self._told.get(job.id, 0.0) > PROGRESS_SECONDS:
            self._told[job.id] = now
            self.events.publish("progress", {"id": job.id, **self._progress[job.id]})

    def _changed(self, job: ServiceJob) -> ServiceJob:
        self._wake.set()
        self.events.publish("job", self.described(job))
        self.events.publish("queue", self.counts())
        return job


def describe(job: ServiceJob) -> dict[str, Any]:
    request = job.request
    return {
        "id": job.id,
        "number": job.number,
        "title": request.title,
        "verb": request.verb,
        "state": job.state,
        "created": job.created,
        "started": job.started,
        "finished": job.finished,
        "sha256": request.sha256,
        "size_bytes": request.size_bytes,
        "options": dict(request.options),
        "samples": len(request.samples),
        "command": request.command,
        **job.outcome,
    }


def _outcome(folder: Path, ended: ProcessEnd, said: list[Message], limits: JobLimits) -> tuple[str, Mapping[str, Any]]:
    if not ended.exit_code and not ended.signal:
        with contextlib.suppress(InputError, ValueError, RecursionError):
            found = json.loads(read_file(folder / SUMMARY, SUMMARY_BYTES))
            if isinstance(found, dict):
                return DONE, found
    return FAILED, {"error": why_failed(ended, said, limits)}


def why_failed(ended: ProcessEnd, said: list[Message], limits: JobLimits) -> dict[str, Any]:
    """Says why a process gave no result: in its own words, or by how it ended."""
    if ended.timed_out or ended.signal == signal.SIGXCPU:
        remedy = "give a smaller model, or start the server with a higher --time-limit"
        return {"what": f"it takes longer than {limits.seconds:g} s, which is what a job may take", "remedy": remedy}
    if said and isinstance(error := said[-1].get("error"), dict) and isinstance(error.get("what"), str):
        return error
    if ended.signal:
        name = signal.Signals(ended.signal).name if ended.signal in set(signal.Signals) else str(ended.signal)
        remedy = "a limit of memory is the usual reason: start the server with a higher --memory-limit"
        return {"what": f"its process was ended by {name}", "remedy": remedy, "details": ended.log.splitlines()[-10:]}
    return {"what": "its process failed", "details": ended.log.splitlines()[-10:]}
