"""The queue: jobs start in the order in which they came, some at once, each in a process of its own."""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
import shutil
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from atonc.doors.serve.events import Events
from atonc.doors.serve.limits import JobLimits
from atonc.doors.serve.process import Message, ProcessEnd, run_limited, worker_command
from atonc.doors.serve.store import CANCELLED, DONE, FAILED, QUEUED, RUNNING, Request, ServiceJob, Store
from atonc.doors.serve.worker import OUT, REQUEST, RESULT, SUMMARY
from atonc.machine.base.disk import read_file
from atonc.machine.base.errors import InputError

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
                raise InputError(_error(ended, said, self._limits)["what"])
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
    return FAILED, {"error": _error(ended, said, limits)}


def _error(ended: ProcessEnd, said: list[Message], limits: JobLimits) -> dict[str, Any]:
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
