"""Programs that ST's tool compiled and people published, read from fetched files: each distinct one once.

Every `*_ecblobs.h` under the given folders is decoded, with the pools of the C file beside it when that can be read,
and every C file of a network that the CPU drives is turned into the same epochs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from atonc.machine.base.errors import AtoncError
from atonc.machine.emu.files.network_c import EPOCH_LIST, read_network
from atonc.machine.emu.files.types import CompiledNetwork
from atonc.machine.emu.network import memory_of, plan_steps
from atonc.machine.hw.decode import Replay, decode_epochs
from atonc.machine.hw.ec.blob import relocate
from atonc.machine.hw.ec.header import BlobHeader, HeaderBlob, read_header_file
from atonc.machine.hw.ec.instructions import decode
from atonc.machine.hw.epoch import Epoch
from atonc.machine.hw.machine import stm32n6
from atonc.machine.hw.safety import CheckedPool, PoolKind, SafetyContext
from atonc.machine.hw.safety.view import pool_of_bank

T = TypeVar("T")

VENDOR = "STMicroelectronics"  # owner of the repositories whose programs are shipped as working demos
_DIGITS = 16  # of a digest: 64 bits tell some hundred programs apart
USER_BASE = 0xA000_0000  # where buffers of the application go when nobody says


@dataclass(frozen=True)
class Program:
    """One compiled network as epochs."""

    name: str
    driven_by: str  # EC or CPU
    compiler: str
    epochs: tuple[Epoch, ...]
    context: SafetyContext
    blob_words: tuple[int, ...] = ()  # length of each program of the epoch controller
    digest: str = ""  # of its content, wherever it was published

    @property
    def owner(self) -> str:
        """The owner of the repository: names begin with OWNER+NAME."""
        return self.name.partition("+")[0]

    @property
    def shipped(self) -> bool:
        return self.owner == VENDOR


@dataclass
class Reading:
    """What happened on the way."""

    unreadable: list[str] = field(default_factory=list)
    equal: int = 0  # programs that were there before


def read_programs(folders: Iterable[Path], reading: Reading) -> Iterator[Program]:
    """Blob headers first: a C file that only drives blobs adds nothing to them. What ST ships comes before copies."""
    seen: set[str] = set()
    for folder in folders:
        for path in _found(folder, "*_ecblobs.h"):
            header = _or_note(partial(read_header_file, path), reading)
            if header is not None and header.blobs and (digest := _new_digest(_words(header), seen, reading)):
                found = _blob_program(path, header, str(path.relative_to(folder)), reading)
                yield from (replace(program, digest=digest) for program in found)
        for path in _found(folder, "*.c"):
            if _defines_network(path) and (digest := _new_digest(path.read_bytes(), seen, reading)):
                found = _cpu_program(path, str(path.relative_to(folder)), reading)
                yield from (replace(program, digest=digest) for program in found)


def _found(folder: Path, pattern: str) -> list[Path]:
    paths = (path for path in folder.rglob(pattern) if path.is_file())
    return sorted(paths, key=lambda path: (not str(path.relative_to(folder)).startswith(VENDOR), path))


def _words(header: BlobHeader) -> bytes:
    return b"".join(blob.container.to_bytes() for blob in header.blobs)


def _new_digest(content: bytes, seen: set[str], reading: Reading) -> str:
    """The digest of what was not there before; empty for what was."""
    digest = hashlib.sha256(content).hexdigest()[:_DIGITS]
    if digest in seen:
        reading.equal += 1
        return ""
    seen.add(digest)
    return digest


def _defines_network(path: Path) -> bool:
    """A network without blobs; those with blobs are read through their headers."""
    if path.name.startswith("stai_") or path.name.endswith("_blob_trace.c"):
        return False
    text = path.read_bytes()
    return EPOCH_LIST.encode() in text and b"_ecblobs.h" not in text


def _blob_program(path: Path, header: BlobHeader, name: str, reading: Reading) -> Iterator[Program]:
    source = path.with_name(path.name.replace("_ecblobs.h", ".c"))
    whole = _quietly(lambda: _program(source, name, "EC", path)) if source.is_file() else None
    lengths = tuple(len(blob.container.blob.words()) for blob in header.blobs)
    if whole is not None and whole.epochs:
        yield replace(whole, blob_words=lengths)
        return
    replay = Replay()
    decoded = _or_note(lambda: [e for blob in header.blobs for e in _blob_epochs(blob, replay)], reading)
    if decoded is not None:
        yield Program(name, "EC", "", tuple(e for e in decoded if not e.empty), SafetyContext(), lengths)


def _blob_epochs(blob: HeaderBlob, replay: Replay) -> list[Epoch]:
    known = {binding.symbol: binding.address for binding in blob.bindings}
    bases = {r.symbol: known.get(r.symbol) or USER_BASE for r in blob.container.relocations}
    return decode_epochs(decode(relocate(blob.container, bases).program), replay)


def _cpu_program(path: Path, name: str, reading: Reading) -> Iterator[Program]:
    program = _or_note(lambda: _program(path, name, "CPU"), reading)
    if program is not None and program.epochs:
        yield program


def _program(source: Path, name: str, driven_by: str, blob_file: Path | None = None) -> Program:
    """A network with its own pools and user buffers."""
    network = read_network(source, blob_file=blob_file)
    steps = plan_steps(network, memory_of(network))
    epochs = tuple(step.epoch for step in steps if step.epoch is not None and not step.epoch.empty)
    return Program(name, driven_by, network.atonn_version, epochs, context_of(network))


def context_of(network: CompiledNetwork) -> SafetyContext:
    """The pools that the compiler was told about, user buffers, and the memories of the chip around them."""
    pools = []
    for pool in network.pools:
        bank = stm32n6().memory_at(pool.base)
        kind = pool_of_bank(bank).kind if bank is not None else PoolKind.USER
        if pool.size_bytes and not pool.virtual:
            pools.append(CheckedPool(pool.name, pool.base, pool.size_bytes, kind, pool.writable))
    users = [CheckedPool(u.symbol, u.address, u.size_bytes, PoolKind.USER) for u in network.user_buffers]
    return SafetyContext((*pools, *users))


def _or_note(read: Callable[[], T], reading: Reading) -> T | None:
    try:
        return read()
    except AtoncError as error:
        reading.unreadable.append(error.one_line)
        return None


def _quietly(read: Callable[[], T]) -> T | None:
    try:
        return read()
    except AtoncError:
        return None
