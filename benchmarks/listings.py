"""Do published programs of the epoch controller decode, encode, assemble and disassemble to what was published?

For every `*_ecblobs.h` under the given folders: all blobs decode and encode again word for word. For every
`debug__ec_blob_*.s`: the disassembly of the blob in the nearest header equals the text, assembling the text restores
the stored array, and merging the writes of `*_initial.s` gives the text. Equal files are checked once.
"""

from __future__ import annotations

import argparse
import hashlib
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from atonc.machine.base.errors import AtoncError
from atonc.machine.hw.ec.header import BlobHeader, HeaderBlob, read_header_file
from atonc.machine.hw.ec.instructions import decode, encode, merge_writes
from atonc.machine.hw.ec.text import assemble, disassemble, format_program, parse_trace
from benchmarks.shared.declare import FETCHED, WRITE, Report

GROUP = "silicon"
ARGUMENTS = (FETCHED, WRITE)

COLUMNS = ("headers", "blobs", "words", "re-encoded", "listings", "disassembled", "assembled", "merged")
LEVELS_ABOVE_LISTING = 4


@dataclass
class Tally:
    """What was found and what was right, per set of files."""

    counts: dict[str, Counter[str]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)
    duplicates: Counter[str] = field(default_factory=Counter)
    headers: dict[Path, BlobHeader | None] = field(default_factory=dict)

    def add(self, group: str, column: str, right: bool | int, what: str) -> None:
        self.counts.setdefault(group, Counter())[column] += int(right)
        if right is False:
            self.problems.append(f"{what}: not {column}")

    def is_new(self, kind: str, *content: bytes) -> bool:
        digest = hashlib.sha256(kind.encode() + b"\0".join(content)).hexdigest()
        if digest in self.seen:
            self.duplicates[kind] += 1
            return False
        self.seen.add(digest)
        return True

    def header(self, path: Path) -> BlobHeader | None:
        if path not in self.headers:
            try:
                self.headers[path] = read_header_file(path)
            except AtoncError as error:
                self.headers[path] = None
                self.problems.append(f"unreadable: {error}")
        return self.headers[path]


def check_header(path: Path, group: str, tally: Tally) -> None:
    if not tally.is_new("header", path.read_bytes()):
        return
    header = tally.header(path)
    if header is None:
        return
    tally.add(group, "headers", 1, str(path))
    for blob in header.blobs:
        program = blob.container.blob.program
        if tally.is_new("blob", blob.container.to_bytes()):
            tally.add(group, "blobs", 1, blob.name)
            tally.add(group, "words", len(program), blob.name)
            tally.add(group, "re-encoded", tuple(encode(decode(program))) == program, f"{path}: {blob.name}")


def check_listing(path: Path, group: str, tally: Tally) -> None:
    initial = path.with_name(f"{path.stem}_initial.s")
    text, trace = path.read_text(), initial.read_text() if initial.is_file() else ""
    blob = nearest_blob(path, tally)
    stored = blob.container.to_bytes() if blob else b""
    if not tally.is_new("listing", text.encode(), trace.encode(), stored):
        return
    tally.add(group, "listings", 1, str(path))
    tally.add(group, "merged", bool(trace) and format_program(merge_writes(parse_trace(trace))) == text, str(path))
    if blob is None:
        tally.problems.append(f"{path}: no header with that blob")
        return
    assembled = replace(assemble(text, blob.container.version), filler=blob.container.filler)
    tally.add(group, "disassembled", disassemble(blob.container) == text, str(path))
    tally.add(group, "assembled", assembled.words() == blob.container.words(), str(path))


def nearest_blob(listing: Path, tally: Tally) -> HeaderBlob | None:
    """The blob of that name in the closest folder above that has a header."""
    name = listing.stem.removeprefix("debug_")
    for folder in listing.parents[:LEVELS_ABOVE_LISTING]:
        for path in sorted(folder.glob("*_ecblobs.h")):
            header = tally.header(path)
            found = [blob for blob in header.blobs if blob.name == name] if header else []
            if found:
                return found[0]
    return None


def check_all(folders: list[Path]) -> Tally:
    tally = Tally()
    for folder in folders:
        for path in sorted(folder.rglob("*_ecblobs.h")):
            check_header(path, group_of(path, folder), tally)
        for path in sorted(folder.rglob("debug__ec_blob_*.s")):
            if not path.stem.endswith("_initial"):
                check_listing(path, group_of(path, folder), tally)
    for folder in folders:
        tally.problems = [text.replace(f"{folder}/", "") for text in tally.problems]
    return tally


def group_of(path: Path, folder: Path) -> str:
    parts = path.relative_to(folder).parts
    return parts[0] if len(parts) > 1 else folder.name


def table(tally: Tally) -> Iterator[str]:
    yield "| files | " + " | ".join(COLUMNS) + " |"
    yield "|---" + "|---:" * len(COLUMNS) + "|"
    total: Counter[str] = Counter()
    for group, counts in sorted(tally.counts.items()):
        total += counts
        yield f"| {group} | " + " | ".join(str(counts[column]) for column in COLUMNS) + " |"
    yield "| **all** | " + " | ".join(f"**{total[column]}**" for column in COLUMNS) + " |"


def report(tally: Tally, seconds: float) -> str:
    again = ", ".join(f"{count} {kind}s" for kind, count in sorted(tally.duplicates.items()))
    lines = [*table(tally), "", f"Equal to one already checked, not counted: {again or 'none'}. {seconds:.1f} s."]
    lines += ["", "Problems:" if tally.problems else "No problems.", *[f"- {text}" for text in tally.problems]]
    return "\n".join(lines) + "\n"


def run(arguments: argparse.Namespace) -> Report:
    started = time.perf_counter()
    tally = check_all(arguments.fetched)
    return Report(report(tally, time.perf_counter() - started), failed=bool(tally.problems))
