"""Epoch-controller programs in files: reading every form, disassembling, decoding, assembling; and the safety rules
applied to them and to runs."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from atonc.insight.runs.runs import RunResult
from atonc.machine.base.disk import read_file
from atonc.machine.base.errors import InputError, plain
from atonc.machine.base.frozen import dataclass
from atonc.machine.base.reasons import Violation
from atonc.machine.hw.decode import Replay, decode_epochs
from atonc.machine.hw.ec import instructions
from atonc.machine.hw.ec.blob import Container, read_blobs
from atonc.machine.hw.ec.header import read_header_file
from atonc.machine.hw.ec.text import assemble, disassemble
from atonc.machine.hw.epoch import Epoch
from atonc.machine.hw.limits import PREFETCH_BYTES

if TYPE_CHECKING:
    from atonc.machine.emu.files.types import CompiledNetwork
    from atonc.machine.hw.safety import SafetyContext

_MAX_BYTES = 64 << 20


@dataclass(frozen=True)
class NamedProgram:
    name: str
    container: Container

    def text(self) -> str:
        return disassemble(self.container)

    def epochs(self, replay: Replay | None = None) -> list[Epoch]:
        return decode_epochs(instructions.decode(self.container.blob.program), replay)


def read_programs(path: Path) -> list[NamedProgram]:
    """All programs of a generated header, a raw blob, a container, or an assembly listing (.s)."""
    if path.suffix in (".h", ".c"):
        return [NamedProgram(blob.name, blob.container) for blob in read_header_file(path).blobs]
    if path.suffix in (".s", ".asm", ".txt"):
        return [NamedProgram(plain(path.stem), assemble(_text(path), where=str(path)))]
    containers = read_blobs(read_file(path, _MAX_BYTES), str(path))
    names = [plain(path.stem)] if len(containers) == 1 else [f"{plain(path.stem)}[{k}]" for k in range(len(containers))]
    return [NamedProgram(name, c) for name, c in zip(names, containers, strict=True)]


def assemble_file(path: Path) -> Container:
    return assemble(_text(path), where=str(path))


def to_header(container: Container, name: str) -> str:
    """A C header with the program as 64-bit words, as firmware includes it."""
    words = container.words()
    words += [0] * (len(words) % 2)
    pairs = [f"  0x{high:08x}{low:08x}UL," for low, high in zip(words[::2], words[1::2], strict=True)]
    body = "\n".join(pairs)
    return f"#include <stdint.h>\n\nstatic const uint64_t {name}[{len(pairs)}] = {{\n{body}\n}};\n"


def to_binary(container: Container) -> bytes:
    data = array("I", container.words())
    if sys.byteorder == "big":
        data.byteswap()
    return data.tobytes()


def _text(path: Path) -> str:
    try:
        return read_file(path, _MAX_BYTES).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError("not a text file", where=str(path), remedy="give an assembly listing") from None


def check_run(result: RunResult) -> list[Violation]:
    """Checks the steps of a run, with the memories of its network."""
    from atonc.machine.hw import safety

    epochs = [step.epoch for step in result.steps if step.epoch is not None and not step.epoch.empty]
    return safety.check_program(epochs, network_context(result.net.network))


def network_context(network: CompiledNetwork) -> SafetyContext:
    """Pools only: the tables list parts of tensors as buffers, and writers of whole tensors start in them. A build of
    ours keeps what its board had answered."""
    from atonc.machine.hw.safety import CheckedPool, PoolKind, SafetyContext, pool
    from atonc.machine.hw.safety.evidence import Trust
    from atonc.machine.hw.safety.evidence.board_file import saved_evidence

    pools = [pool(p.name, p.base, p.size_bytes, p.writable) for p in network.pools if p.size_bytes]
    pools += [
        CheckedPool(u.symbol, u.address, u.size_bytes + PREFETCH_BYTES, PoolKind.USER) for u in network.user_buffers
    ]
    answers = saved_evidence(network.directory / f"{network.stem}_program.json")
    return SafetyContext(tuple(pools), trust=Trust(board=answers))


def check_programs(programs: Sequence[NamedProgram]) -> list[Violation]:
    from atonc.machine.hw import safety

    return [v for p in programs for v in safety.check_program([e for e in p.epochs() if not e.empty])]
