"""Run the safety checker over published networks compiled by ST's tool: none of them may break a rule.

Every `*_ecblobs.h` under the given folders is decoded, with the pools of the C file beside it when that can be read,
and every C file of a network that the CPU drives is turned into the same epochs. Equal programs are checked once.

    python benchmarks/check_safety.py --fetched DIR [DIR ...] [--write]
"""

from __future__ import annotations

import argparse
import hashlib
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from typing import TypeVar

from safety_mutations import mutations

from atonc.emu.files.network_c import EPOCH_LIST, read_network
from atonc.emu.files.types import CompiledNetwork
from atonc.emu.network import memory_of, plan_steps
from atonc.errors import AtoncError
from atonc.hw.decode import Replay, decode_epochs
from atonc.hw.ec import BlobHeader, HeaderBlob, decode, read_header_file, relocate
from atonc.hw.epoch import Epoch
from atonc.hw.machine import stm32n6
from atonc.hw.pipelines import proven_pipelines, texts
from atonc.hw.safety import Context, Pool, PoolKind, all_rules, check_epoch, check_program
from atonc.hw.safety.context import pool_of_bank
from atonc.reasons import Severity, Violation

T = TypeVar("T")

RESULTS = Path(__file__).parent / "results" / "safety.md"
EVERY = 8  # one epoch of so many is damaged
USER_BASE = 0xA000_0000  # where buffers of the application go when nobody says
MEASURED = "2026-11-15, 2-core x86-64 Linux"


@dataclass(frozen=True)
class Program:
    """One compiled network as epochs."""

    name: str
    driven_by: str  # EC or CPU
    compiler: str
    epochs: tuple[Epoch, ...]
    context: Context


@dataclass
class Tally:
    rows: list[tuple[Program, list[Violation], float]] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)
    equal: int = 0
    pipelines: int = 0
    unknown_pipelines: int = 0
    damaged: Counter[str] = field(default_factory=Counter)
    noticed: Counter[str] = field(default_factory=Counter)

    def check(self, program: Program) -> None:
        started = time.process_time()
        found = check_program(program.epochs, program.context)
        self.rows.append((program, found, time.process_time() - started))
        for epoch in program.epochs:
            forms = texts(epoch).values()
            self.pipelines += len(forms)
            self.unknown_pipelines += sum(form not in proven_pipelines() for form in forms)
        self._damage(program)

    def _damage(self, program: Program) -> None:
        """How sensitive the rules are: real epochs with one thing broken."""
        chance = Random(len(self.rows))
        for epoch in program.epochs[::EVERY]:
            for kind, broken in mutations(epoch, chance):
                self.damaged[kind] += 1
                found = check_epoch(broken, program.context)
                self.noticed[kind] += any(v.severity == Severity.VIOLATION for v in found)


def read_programs(folders: Iterable[Path], tally: Tally) -> Iterator[Program]:
    """Blob headers first: a C file that only drives blobs adds nothing to them."""
    seen: set[str] = set()
    for folder in folders:
        for path in sorted(folder.rglob("*_ecblobs.h")):
            header = _or_note(partial(read_header_file, path), tally)
            if header is not None and header.blobs and _is_new(_words(header), seen, tally):
                yield from _blob_program(path, header, str(path.relative_to(folder)), tally)
        for path in sorted(folder.rglob("*.c")):
            if _defines_network(path) and _is_new(path.read_bytes(), seen, tally):
                yield from _cpu_program(path, str(path.relative_to(folder)), tally)


def _words(header: BlobHeader) -> bytes:
    return b"".join(blob.container.to_bytes() for blob in header.blobs)


def _is_new(content: bytes, seen: set[str], tally: Tally) -> bool:
    digest = hashlib.sha256(content).hexdigest()
    tally.equal += digest in seen
    new = digest not in seen
    seen.add(digest)
    return new


def _defines_network(path: Path) -> bool:
    """A network without blobs; those with blobs are read through their headers."""
    if path.name.startswith("stai_") or path.name.endswith("_blob_trace.c"):
        return False
    text = path.read_bytes()
    return EPOCH_LIST.encode() in text and b"_ecblobs.h" not in text


def _blob_program(path: Path, header: BlobHeader, name: str, tally: Tally) -> Iterator[Program]:
    source = path.with_name(path.name.replace("_ecblobs.h", ".c"))
    whole = _quietly(lambda: _program(source, name, "EC", path)) if source.is_file() else None
    if whole is not None and whole.epochs:
        yield whole
        return
    replay = Replay()
    decoded = _or_note(lambda: [e for blob in header.blobs for e in _blob_epochs(blob, replay)], tally)
    if decoded is not None:
        yield Program(name, "EC", "", tuple(e for e in decoded if not e.empty), Context())


def _blob_epochs(blob: HeaderBlob, replay: Replay) -> list[Epoch]:
    known = {binding.symbol: binding.address for binding in blob.bindings}
    bases = {r.symbol: known.get(r.symbol) or USER_BASE for r in blob.container.relocations}
    return decode_epochs(decode(relocate(blob.container, bases).program), replay)


def _cpu_program(path: Path, name: str, tally: Tally) -> Iterator[Program]:
    program = _or_note(lambda: _program(path, name, "CPU"), tally)
    if program is not None and program.epochs:
        yield program


def _program(source: Path, name: str, driven_by: str, blob_file: Path | None = None) -> Program:
    """A network with its own pools and user buffers."""
    network = read_network(source, blob_file=blob_file)
    steps = plan_steps(network, memory_of(network))
    epochs = tuple(step.epoch for step in steps if step.epoch is not None and not step.epoch.empty)
    return Program(name, driven_by, network.atonn_version, epochs, context_of(network))


def context_of(network: CompiledNetwork) -> Context:
    """The pools that the compiler was told about, user buffers, and the memories of the chip around them."""
    pools = []
    for pool in network.pools:
        bank = stm32n6().memory_at(pool.base)
        kind = pool_of_bank(bank).kind if bank is not None else PoolKind.USER
        if pool.size_bytes and not pool.virtual:
            pools.append(Pool(pool.name, pool.base, pool.size_bytes, kind, pool.writable))
    users = [Pool(u.symbol, u.address, u.size_bytes, PoolKind.USER) for u in network.user_buffers]
    return Context((*pools, *users))


def _or_note(read: Callable[[], T], tally: Tally) -> T | None:
    try:
        return read()
    except AtoncError as error:
        tally.unreadable.append(str(error))
        return None


def _quietly(read: Callable[[], T]) -> T | None:
    try:
        return read()
    except AtoncError:
        return None


def summary(tally: Tally) -> Iterator[str]:
    yield "| driven by | networks | epochs | stream engines | links | violations | unproven | notes | ms per epoch |"
    yield "|---|---:|---:|---:|---:|---:|---:|---:|---:|"
    for mode in ("EC", "CPU"):
        rows = [row for row in tally.rows if row[0].driven_by == mode]
        epochs = [epoch for program, _, _ in rows for epoch in program.epochs]
        engines, links = sum(len(e.engines()) for e in epochs), sum(len(e.links) for e in epochs)
        found = Counter(violation.severity for _, violations, _ in rows for violation in violations)
        counts = " | ".join(str(found[severity]) for severity in Severity)
        speed = 1000 * sum(seconds for _, _, seconds in rows) / max(1, len(epochs))
        yield f"| {mode} | {len(rows)} | {len(epochs)} | {engines} | {links} | {counts} | {speed:.2f} |"


def by_rule(tally: Tally) -> Iterator[str]:
    found = Counter((v.rule.id, v.severity) for _, violations, _ in tally.rows for v in violations)
    networks = Counter(id for _, violations, _ in tally.rows for id in {v.rule.id for v in violations})
    yield "| rule | sentence | evidence | violations | unproven | notes | networks |"
    yield "|---|---|---|---:|---:|---:|---:|"
    for rule in all_rules():
        counts = " | ".join(str(found[rule.id, severity] or "") for severity in Severity)
        yield f"| {rule.id} | {rule.sentence} | {rule.evidence} | {counts} | {networks[rule.id] or ''} |"


def by_network(tally: Tally) -> Iterator[str]:
    yield "| network | driven by | compiler | epochs | violations | unproven | notes |"
    yield "|---|---|---|---:|---:|---:|---|"
    for program, violations, _ in tally.rows:
        grave = Counter(v.severity for v in violations)
        notes = Counter(v.rule.id for v in violations if v.severity == Severity.NOTE)
        listed = ", ".join(f"{count} {id}" for id, count in sorted(notes.items()))
        serious = f"{grave[Severity.VIOLATION]} | {grave[Severity.UNPROVEN]}"
        compiler = program.compiler or "unknown"
        yield f"| {program.name} | {program.driven_by} | {compiler} | {len(program.epochs)} | {serious} | {listed} |"


def report(tally: Tally) -> str:
    grave = [
        f"- {program.name}: {violation}"
        for program, violations, _ in tally.rows
        for violation in violations
        if violation.severity != Severity.NOTE
    ]
    lines = [
        "# Safety checker on published networks",
        "",
        f"`python benchmarks/check_safety.py --fetched DIR...`, {MEASURED}. Times are CPU time.",
        "",
        *summary(tally),
        "",
        f"Pipelines: {tally.pipelines}, of these not among the proven forms: {tally.unknown_pipelines}. "
        f"Programs equal to one already checked, not counted: {tally.equal}.",
        "",
        "Violations and unproven forms:" if grave else "No violation, nothing unproven.",
        *grave,
        "",
        "Notes are documented exceptions and things worth knowing; they do not stop anything.",
        "",
        "## Sensitivity",
        "",
        f"Every {EVERY}th epoch with one thing broken: how often a rule reports a violation.",
        "",
        "| damage | epochs | noticed |",
        "|---|---:|---:|",
        *(f"| {kind} | {count} | {tally.noticed[kind]} |" for kind, count in tally.damaged.items()),
        "",
        "## By rule",
        "",
        *by_rule(tally),
        "",
        "## By network",
        "",
        *by_network(tally),
        "",
        "## Not readable",
        "",
        *(f"- {text}" for text in dict.fromkeys(tally.unreadable or ["none"])),
    ]
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--fetched", nargs="+", type=Path, required=True, metavar="DIR")
    parser.add_argument("--write", action="store_true", help=f"also write {RESULTS.name}")
    options = parser.parse_args()
    tally = Tally()
    for program in read_programs(options.fetched, tally):
        tally.check(program)
    for folder in options.fetched:
        tally.unreadable = [text.replace(f"{folder}/", "") for text in tally.unreadable]
    text = report(tally)
    print(text, end="")
    if options.write:
        RESULTS.write_text(text)
    grave = [v for _, violations, _ in tally.rows for v in violations if v.severity == Severity.VIOLATION]
    return 1 if grave else 0


if __name__ == "__main__":
    sys.exit(main())
