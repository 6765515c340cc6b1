"""Damaged files of every kind in great numbers: only clear refusals, within seconds and memory.

Kinds: tflite, onnx, mpool, network, arrays, pictures, programs (see tests/mutations). What failed is printed with its
kind, seed and number; `--kind KIND --seed S --first N --count 1` tries it again. Where the
small models of the trials are ($ATONC_TRIALS or beside the corpus), they are damaged too.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from multiprocessing.connection import Connection
from pathlib import Path

from benchmarks.shared.declare import COUNT, FIRST, JOBS, KEEP, SEED, WRITE, Report, argument
from benchmarks.shared.kept import append, read_lines
from tests.mutations import KINDS, Outcome, attempt

GROUP = "tools"
ARGUMENTS = (
    COUNT.but(default=20_000, help="of each kind"),
    argument("--kind", action="append", choices=list(KINDS), help="only this one (repeatable)"),
    SEED,
    FIRST,
    JOBS,
    KEEP,
    WRITE,
)

CHUNK = 500
SECONDS = 10.0  # of the processor, for one file
MEMORY = 1500 << 20  # more than the process has before
HANGS_SECONDS = 300.0  # on the clock, without an answer; the limit on one file is in seconds of the processor
HEAD = f"""# Damaged files in great numbers

Others used the machine too; one thread each. What is damaged and how is in `tests/mutations`. *Failed*: any other
exception than an `AtoncError`, an error that is not one printable paragraph, a program against our own safety rules,
more than {SECONDS:.0f} s of the processor or more than {MEMORY >> 20} MB beyond what the process had before.

| kind | files | refused | read | failed | s each | slowest s |
|---|---|---|---|---|---|---|
"""


def work(kind: str, seed: int, numbers: range, answers: Connection) -> None:
    """In a process of its own: what dies takes only its chunk along."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    with tempfile.TemporaryDirectory() as folder:
        for number in numbers:
            started = time.process_time()
            found = asdict(attempt(kind, seed, number, Path(folder)))
            found["seconds"] = time.process_time() - started
            if found["seconds"] > SECONDS:
                found["problem"] = f"{found['problem']} {found['seconds']:.0f} s".strip()
            answers.send(found)
    answers.close()


def outcomes(kind: str, seed: int, numbers: range) -> Iterator[Outcome]:
    """All of them, also if the process that tries them dies or hangs."""
    while numbers:
        here, there = multiprocessing.Pipe(duplex=False)
        process = multiprocessing.Process(target=work, args=(kind, seed, numbers, there))
        process.start()
        there.close()
        problem = "hangs"
        try:
            while numbers and here.poll(HANGS_SECONDS):
                yield Outcome(**here.recv())
                numbers = numbers[1:]
        except EOFError:
            problem = "the process died"
        if numbers:
            process.kill()
            yield Outcome(kind, seed, numbers[0], False, 0.0, problem)
            numbers = numbers[1:]
        process.join()


def chunk(kind: str, seed: int, numbers: range) -> dict[str, object]:
    found = {"kind": kind, "seed": seed, "first": numbers[0], "count": len(numbers), "refused": 0, "seconds": 0.0}
    slowest, failed = 0.0, []
    for one in outcomes(kind, seed, numbers):
        found["refused"] += one.refused
        found["seconds"] += one.seconds
        slowest = max(slowest, one.seconds)
        if one.seconds > SECONDS / 4:
            print(f"slow, {one.seconds:.1f} s: {one}", flush=True)
        if one.problem:
            failed.append(str(one))
            print(one, flush=True)
    return found | {"slowest": slowest, "failed": failed}


def table(rows: list[dict[str, object]]) -> str:
    lines = []
    for kind in KINDS:
        own = [row for row in rows if row["kind"] == kind]
        if not own:
            continue
        count, refused, seconds = (sum(row[key] for row in own) for key in ("count", "refused", "seconds"))
        failed, slowest = sum(len(row["failed"]) for row in own), max(row["slowest"] for row in own)
        figures = f"{refused:,} | {count - refused - failed:,} | {failed} | {seconds / count:.3f} | {slowest:.1f}"
        lines.append(f"| {kind} | {count:,} | {figures} |")
    return "\n".join(lines) + "\n"


def run(arguments: argparse.Namespace) -> Report:
    rows = read_lines(arguments.keep)
    done = {(row["kind"], row["seed"], row["first"], row["count"]) for row in rows}
    numbers = range(arguments.first, arguments.first + arguments.count)
    parts = [numbers[k : k + CHUNK] for k in range(0, len(numbers), CHUNK)]
    wanted = [(kind, arguments.seed, part) for part in parts for kind in arguments.kind or KINDS]
    started = time.perf_counter()
    with ThreadPoolExecutor(arguments.jobs) as pool:
        todo = [job for job in wanted if (job[0], job[1], job[2][0], len(job[2])) not in done]
        for row in pool.map(lambda job: chunk(*job), todo):
            rows.append(row)
            append(arguments.keep, row)
    print(f"{time.perf_counter() - started:.0f} s")
    return Report(HEAD + table(rows), failed=any(row["failed"] for row in rows))


