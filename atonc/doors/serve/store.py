"""What the server remembers: every job, in one SQLite file with one writer."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from atonc.machine.base.frozen import dataclass

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
