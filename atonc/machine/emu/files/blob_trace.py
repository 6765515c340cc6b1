"""`*_blob_trace.c`: the driver calls from which ST's tracer made the epoch-controller programs."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from atonc.machine.base.errors import InputError
from atonc.machine.base.frozen import dataclass
from atonc.machine.emu.files.c_arrays import unit_array_bytes
from atonc.machine.emu.files.c_calls import FunctionReader
from atonc.machine.emu.files.c_syntax import bounded_depth, read_source
from atonc.machine.emu.files.c_unit import parse_unit
from atonc.machine.emu.files.types import CValue, FunctionCall

PARAMS_ARRAY = "__ec_params_memory_pool_base"
PARAMS_ADDRESS = 0xF000_0000  # where we let that array lie
_TRACE_FUNCTION = "trace_ec_"


@dataclass(frozen=True)
class TraceEpoch:
    number: int
    start_calls: tuple[FunctionCall, ...]
    wait_mask: int
    end_calls: tuple[FunctionCall, ...]


@dataclass(frozen=True)
class BlobTrace:
    """All blobs of a trace, the constants that they embed, and the addresses that stand for relocated bases."""

    blobs: dict[str, tuple[TraceEpoch, ...]]
    params: bytes
    bases: dict[str, int]

    def read_memory(self, address: int, size_bytes: int) -> bytes:
        start = address - PARAMS_ADDRESS
        if not 0 <= start <= start + size_bytes <= len(self.params):
            raise InputError(f"{size_bytes} bytes at {address:#x} are not among the constants of the trace")
        return self.params[start : start + size_bytes]


@bounded_depth
def read_blob_trace(path: Path) -> BlobTrace:
    unit = parse_unit(read_source(path), str(path))
    params = unit_array_bytes(unit, PARAMS_ARRAY) or b""
    reader = FunctionReader(unit, {PARAMS_ARRAY: PARAMS_ADDRESS})
    blobs = {}
    for name in unit.functions:
        if name.startswith(_TRACE_FUNCTION):
            blobs[name.removeprefix(_TRACE_FUNCTION)] = _epochs(reader.calls(name), str(path))
    return BlobTrace(blobs, params, _bases(reader.globals.lookup("mpool_reloc_info")))


def _epochs(calls: Iterable[FunctionCall], where: str) -> tuple[TraceEpoch, ...]:
    epochs: list[TraceEpoch] = []
    number: int | None = None
    start: list[FunctionCall] = []
    end: list[FunctionCall] | None = None
    mask = 0
    for call in calls:
        if call.name == "ec_trace_start_epoch":
            number, start, end, mask = _number(call, where), [], None, 0
        elif call.name == "ec_trace_wait_epoch_end":
            end, mask = [], _number(call, where)
        elif call.name == "ec_trace_end_epoch":
            if number is None:
                raise InputError("an epoch ends that never began", where=call.where)
            epochs.append(TraceEpoch(number, tuple(start), mask, tuple(end or ())))
        elif not call.name.startswith("ec_trace_"):
            (start if end is None else end).append(call)
    return tuple(epochs)


def _number(call: FunctionCall, where: str) -> int:
    value = call.args[0] if call.args else None
    if not isinstance(value, int):
        raise InputError(f"{call.name} without a number", where=call.where or where)
    return value


def _bases(table: CValue) -> dict[str, int]:
    """{pool or user buffer: base} of the tracer's relocation table."""
    bases: dict[str, int] = {}
    for row in table if isinstance(table, list) else []:
        if isinstance(row, list) and len(row) >= 3 and isinstance(row[0], str) and isinstance(row[2], int):
            bases[row[0]] = row[2]
    return bases
