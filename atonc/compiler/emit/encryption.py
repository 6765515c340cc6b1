"""Weights that lie encrypted in flash (`--encrypt-weights`): which bytes, and which engines decipher them.

Files hold plain bytes; somebody with a board encrypts one part of one memory image before it goes into flash. That part
holds the constants that only engines read: an engine deciphers on its way, the processor would see ciphertext. What the
processor reads stays outside, in plain: constants of CPU layers are arrays of the C file, and any that lay in flash
would come behind the region. The ciphertext of a word depends on its address, so the region is fixed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from atonc.compiler.emit.program import EncryptedRegion, Program, ProgramStep
from atonc.compiler.ir import Graph
from atonc.compiler.place.types import Placed
from atonc.compiler.plan.types import BufferKind, CpuPlan
from atonc.machine.base.errors import InputError, InternalError
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.fields import UnitConfig, changed
from atonc.machine.hw.mpool import MemoryPool
from atonc.machine.hw.units.stream_engine import CIPHER, CIPHER_WORD, StrengConfig

# Where ST's published scripts encrypt: the external flash of its boards
FIRST_ADDRESS, LAST_ADDRESS = 0x7000_0000, 0x7800_0000
IN_PLAIN = "emulated in plain; ciphertext not yet run on a board"
UNSEEN = "no ST program deciphers what an engine reads: --encrypt-weights is the permission"
ACC_CONFS = "constants of units (biases, factors, function tables) are words of the programs and stay plain"
_OPTION = "--encrypt-weights"


@dataclass(frozen=True)
class EncryptionCount:
    """What is encrypted and what is not, in bytes of constants."""

    encrypted_bytes: int
    plain_bytes: int  # of constants that the processor reads: arrays of the C file
    engines: int  # that decipher, each counted in every epoch
    epochs: int


def encrypt(program: Program, pools: Iterable[MemoryPool]) -> Program:
    """The same program with the cipher switched on in every engine that reads the region."""
    homes = streamed(program)
    region = _region(homes, pools)
    steps = tuple(_ciphering(step, frozenset(homes)) for step in program.steps)
    return replace(program, steps=steps, encrypted=region)


def streamed(program: Program) -> dict[str, Placed]:
    """The constants that only engines read."""
    copied = [home.buffer.name for home in program.placed.values() if home.copy_of]
    if copied:
        raise InputError(
            f"the CPU copies {copied[0][:60]!r} from flash, and would copy ciphertext",
            rule="encrypted weights are read by engines only",
            remedy=f"leave out --resident and decisions with weights in RAM, or {_OPTION}",
        )
    plans = [step.plan for step in program.steps if isinstance(step.plan, CpuPlan)]
    by_cpu = [program.placed[name] for plan in plans for name in plan.reads() - {""}]
    found = {
        name: home
        for name, home in program.placed.items()
        if _is_constant(home) and not any(home.address < other.end and other.address < home.end for other in by_cpu)
    }
    if not found:
        raise InputError(
            "no constant that only engines read",
            rule=f"{_OPTION} encrypts what stream engines read from flash",
            remedy=f"leave out {_OPTION}",
        )
    return found


def count(program: Program, graph: Graph) -> EncryptionCount:
    region = program.encrypted
    constants = [home for home in program.placed.values() if _is_constant(home)]
    inside = sum(home.size_bytes for home in constants if region and region.holds(home.address, home.end))
    outside = sum(home.size_bytes for home in constants) - inside
    engines = [sum(one.ciphers for one in epoch.engines().values()) for epoch in program.epochs]
    return EncryptionCount(inside, outside + _in_c_file(program, graph), sum(engines), sum(map(bool, engines)))


def _in_c_file(program: Program, graph: Graph) -> int:
    """Bytes of the model's constants that operators on the CPU have."""
    on_cpu = {step.plan.op for step in program.steps if isinstance(step.plan, CpuPlan)}
    names = {name for op in graph.ops if op.name in on_cpu for name in op.inputs if name}
    return sum(data.nbytes for name in sorted(names) if (data := graph.tensors[name].data) is not None)


def _is_constant(home: Placed) -> bool:
    return home.buffer.kind == BufferKind.CONSTANT and bool(home.buffer.data)


def _region(homes: Mapping[str, Placed], pools: Iterable[MemoryPool]) -> EncryptedRegion:
    """From the first of them to the last, in whole words."""
    names = sorted({home.pool for home in homes.values()})
    pool = next((one for one in pools if one.name == names[0]), None)
    if len(names) > 1 or pool is None:
        raise InputError(
            f"weights lie in {' and '.join(names)[:120]}",
            rule="what is encrypted is one part of one memory image",
            remedy=f"give the flash room for all weights (--mpool, --board), or leave out {_OPTION}",
        )
    start = min(home.address for home in homes.values()) // CIPHER_WORD * CIPHER_WORD
    end = -(-max(home.end for home in homes.values()) // CIPHER_WORD) * CIPHER_WORD
    if not pool.absolute:
        raise InputError(
            f"{pool.name} gets its address when the firmware is linked or loaded",
            rule="the ciphertext of a word depends on its address",
            remedy=f"give the pool a fixed address (USEMODE_ABSOLUTE), or leave out {_OPTION}",
        )
    if not (start >= FIRST_ADDRESS and end < LAST_ADDRESS):
        raise InputError(
            f"weights lie at {start:#010x} to {end:#010x}, in {pool.name}",
            rule=f"what is public encrypts between {FIRST_ADDRESS:#010x} and {LAST_ADDRESS:#010x}",
            remedy=f"put weights into flash there (--board, --mpool), or leave out {_OPTION}",
        )
    return EncryptedRegion(pool.name, pool.base, start, end)


def _ciphering(step: ProgramStep, homes: frozenset[str]) -> ProgramStep:
    if step.epoch is None or isinstance(step.plan, CpuPlan):
        return step
    units = dict(step.epoch.units)
    for name, use in step.plan.engines.items():
        if use.buffer in homes:
            units[name] = _with_cipher(units[name], name)
    return step if units == step.epoch.units else replace(step, epoch=replace(step.epoch, units=units))


def _with_cipher(unit: UnitConfig, name: str) -> UnitConfig:
    if not isinstance(unit, StrengConfig) or unit.to_memory or unit.unmodelled:
        raise InternalError(f"{name} does more with a constant than to read it", remedy="report the model")
    return changed(unit, unmodelled=(CIPHER,))
