"""Is our reading of ST's driver what published epoch-controller programs show?

A `*_blob_trace.c` holds the struct of every driver call; the blob beside it holds the registers that ST's own driver
wrote for them. For every blob under the given folders the program that `atonc.machine.hw.ll` derives from the structs
is compared with the stored one: each register of each unit when the epoch waits, and the whole program word for word.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from atonc.machine.base.errors import AtoncError
from atonc.machine.emu.files.network_c import BlobTrace, TraceEpoch, read_blob_trace
from atonc.machine.hw import ll, regs
from atonc.machine.hw.ec.blob import relocate
from atonc.machine.hw.ec.header import read_header_file
from atonc.machine.hw.ec.instructions import (
    BurstWrite,
    BurstWriteInc,
    Instruction,
    Irq,
    Label,
    Poll,
    Write,
    WriteField,
    WriteFieldLong,
    decode,
)
from benchmarks.shared import tables
from benchmarks.shared.declare import FETCHED, WRITE, Report

GROUP = "silicon"
ARGUMENTS = (FETCHED, WRITE)

_CONFIGURED = ("STRENG", "CONVACC", "ARITH", "ACTIV", "POOL", "DECUN", "STRSWITCH")
_TRANSLATE = regs.registers("ARITH")["TRANSLATEADDR"].index
Words = dict[tuple[int, int], int]


@dataclass
class Result:
    """One trace file."""

    title: str
    generation: str = ""
    blobs: int = 0
    epochs: int = 0
    same_programs: int = 0
    compared: Counter[str] = field(default_factory=Counter)
    equal: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)


def epoch_words(program: Iterable[Instruction]) -> Words:
    """(unit, register) -> value when the program starts to wait for a stream engine."""
    words: Words = {}
    translate: Counter[int] = Counter()
    for item in program:
        if isinstance(item, Poll) and item.lsb == 31:
            break
        for unit, register, value in _stores(item, words):
            if regs.UNIT_BY_ID[unit].kind == "ARITH" and register == _TRANSLATE:
                translate[unit] = value
            memory = regs.UNIT_BY_ID[unit].kind == "ARITH" and register >= 256
            words[unit, register if not memory or translate[unit] else register + 0x1_0000] = value
    return words


def _stores(item: Instruction, words: Words) -> Iterator[tuple[int, int, int]]:
    if isinstance(item, Write):
        yield item.unit, item.reg, item.value
    elif isinstance(item, (WriteField, WriteFieldLong)):
        mask = (1 << item.width) - 1
        known = regs.registers_by_index(regs.UNIT_BY_ID[item.unit].kind).get(item.reg)
        before = words.get((item.unit, item.reg), known.reset if known else 0)
        yield item.unit, item.reg, before & ~(mask << item.lsb) | item.value << item.lsb
    elif isinstance(item, BurstWrite):
        yield from ((item.unit, item.reg, value) for value in item.values)
    elif isinstance(item, BurstWriteInc):
        yield from ((item.unit, item.reg + i, value) for i, value in enumerate(item.values))


def split_epochs(program: Iterable[Instruction]) -> dict[int, list[Instruction]]:
    epochs: dict[int, list[Instruction]] = {}
    current: list[Instruction] = []
    for item in program:
        if isinstance(item, Label):
            current = epochs.setdefault(item.value, [])
        current.append(item)
    return epochs


def compiled(epochs: tuple[TraceEpoch, ...], trace: BlobTrace, generation: ll.Generation) -> list[Instruction]:
    """The blob that our driver and ST's write merging make of a trace."""
    plain: list[Instruction] = []
    for epoch in epochs:
        calls = epoch.start_calls, epoch.wait_mask, epoch.end_calls
        plain += ll.epoch_program(*calls, trace.read_memory, generation, epoch.number)
    return [*ll.merged(plain), Irq(0)]


def compare_blob(ours: list[Instruction], stored: list[Instruction], name: str, result: Result) -> None:
    result.blobs += 1
    result.same_programs += ours == stored
    if ours != stored:
        at = next((i for i, (a, b) in enumerate(zip(ours, stored, strict=False)) if a != b), len(stored))
        result.problems.append(f"{name}: instruction {at}: {ours[at : at + 1]} for {stored[at : at + 1]}")
    ours_by_epoch, stored_by_epoch = split_epochs(ours), split_epochs(stored)
    for number in sorted(ours_by_epoch.keys() | stored_by_epoch.keys()):
        result.epochs += 1
        left = epoch_words(ours_by_epoch.get(number, []))
        right = epoch_words(stored_by_epoch.get(number, []))
        for unit, register in left.keys() | right.keys():
            kind = regs.UNIT_BY_ID[unit].kind
            if kind in _CONFIGURED:
                result.compared[kind] += 1
                same = left.get((unit, register)) == right.get((unit, register))
                result.equal[kind] += same
                if not same:
                    place = f"{name}, epoch {number}, unit {unit}, register {register}"
                    result.problems.append(f"{place}: {left.get((unit, register))} for {right.get((unit, register))}")


def check_trace(path: Path, header_path: Path, title: str) -> Result:
    """Compares with the generation of the driver that fits better: a trace does not name its own."""
    trace, header = read_blob_trace(path), read_header_file(header_path)
    results = []
    for generation in ll.GENERATIONS:
        result = Result(title, generation.name)
        for name, epochs in trace.blobs.items():
            container = header.find(name).container
            bases = {r.symbol: trace.bases[r.symbol] for r in container.relocations}
            stored = decode(relocate(container, bases).program)
            compare_blob(compiled(epochs, trace, generation.traced()), stored, name, result)
        results.append(result)
    return max(results, key=lambda r: (r.same_programs, r.equal.total()))


def header_of(trace: Path) -> Path | None:
    """The header of the same compilation: beside the trace, or where the tool copied it."""
    name = trace.name.replace("_blob_trace.c", "_ecblobs.h")
    beside = trace.with_name(name)
    copied = trace.parents[min(2, len(trace.parents) - 1)] / "st_ai_output" / name
    return next((p for p in (beside, copied) if p.is_file()), None)


def check_all(roots: Iterable[Path]) -> tuple[list[Result], list[str]]:
    results, notes, alone, seen = [], [], {}, set()
    for root, trace in ((folder, t) for folder in roots for t in sorted(folder.rglob("*_blob_trace.c"))):
        header, content = header_of(trace), trace.read_bytes()
        title = f"{trace.relative_to(root).parts[0]}: {trace.name.removesuffix('_blob_trace.c')}"
        if header is None:
            alone[content] = f"{title}: no blobs beside the trace"
        elif (content, header.read_bytes()) not in seen:
            seen.add((content, header.read_bytes()))
            try:
                result = check_trace(trace, header, title)
            except AtoncError as error:
                notes.append(f"{title}: {error}")
                continue
            results += [result] if result.blobs else []
    compared = {content for content, _ in seen}
    return results, notes + [note for content, note in alone.items() if content not in compared]


def table(results: list[Result], notes: list[str]) -> str:
    kinds = [k for k in _CONFIGURED if any(r.compared[k] for r in results)]
    lines = [
        "# Driver rules against published programs",
        "",
        "Registers are compared epoch by epoch and unit by unit when the epoch starts to wait, coefficient memories",
        "and stream switch links included: equal / compared. Programs: equal word for word after write merging,",
        "clocks, enables, polls and clean-up included. Files of equal content are compared once.",
        "",
        "| network | driver | epochs | programs | " + " | ".join(kinds) + " |",
        "|---|---|---|---|" + "---|" * len(kinds),
    ]
    total = Result("all")
    for r in results:
        lines.append(_row(r, kinds))
        total.epochs += r.epochs
        total.blobs += r.blobs
        total.same_programs += r.same_programs
        total.compared += r.compared
        total.equal += r.equal
    lines.append(_row(total, kinds))
    if notes:
        lines += ["", "Not compared:", "", *(f"- {note}" for note in notes)]
    return "\n".join(lines) + "\n"


def _row(r: Result, kinds: list[str]) -> str:
    cells = [r.title, r.generation, str(r.epochs), f"{r.same_programs} / {r.blobs}"]
    cells += [f"{r.equal[k]} / {r.compared[k]}" for k in kinds]
    return tables.row(cells)


def run(arguments: argparse.Namespace) -> Report:
    results, notes = check_all(arguments.fetched)
    problems = [f"{r.title}: {p}" for r in results for p in r.problems]
    print("\n".join(problems[:40]))
    return Report(table(results, notes), failed=bool(problems) or not results)
