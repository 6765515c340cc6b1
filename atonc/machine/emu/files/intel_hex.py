"""Intel hex files: records with addresses, into contiguous segments."""

from __future__ import annotations

from pathlib import Path

from atonc.machine.base.disk import read_file
from atonc.machine.base.errors import InputError

MAX_HEX_BYTES = 1 << 29
_DATA, _END, _SEGMENT, _START_SEGMENT, _LINEAR, _START_LINEAR = range(6)
_ADDRESS_BYTES = {_END: 0, _SEGMENT: 2, _START_SEGMENT: 4, _LINEAR: 2, _START_LINEAR: 4}


def read_hex(path: Path) -> list[tuple[int, bytes]]:
    """(address, bytes) of every contiguous run, ascending."""
    return parse_hex(read_file(path, MAX_HEX_BYTES), str(path))


def parse_hex(text: bytes, where: str) -> list[tuple[int, bytes]]:
    runs: list[tuple[int, bytearray]] = []
    base = 0
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        kind, offset, data = _record(line.strip(), f"{where}:{number}")
        if kind == _DATA:
            address = base + offset
            if runs and runs[-1][0] + len(runs[-1][1]) == address:
                runs[-1][1].extend(data)
            else:
                runs.append((address, bytearray(data)))
        elif kind == _END:
            return _sorted(runs, where)
        elif kind in (_SEGMENT, _LINEAR):
            base = int.from_bytes(data, "big") << (4 if kind == _SEGMENT else 16)
    raise InputError("the end record is missing", where=where, remedy="the file looks cut off; fetch it again")


def _record(line: bytes, where: str) -> tuple[int, int, bytes]:
    if line[:1] != b":":
        raise InputError("not a record of an Intel hex file", where=where)
    try:
        raw = bytes.fromhex(line[1:].decode("ascii"))
    except ValueError:
        raise InputError("not hexadecimal", where=where) from None
    if len(raw) < 5 or len(raw) != raw[0] + 5:
        raise InputError("the record has the wrong length", where=where)
    if sum(raw) & 0xFF:
        raise InputError("wrong checksum", where=where, remedy="the file is damaged; fetch it again")
    kind, data = raw[3], raw[4:-1]
    if kind != _DATA and _ADDRESS_BYTES.get(kind) != len(data):
        raise InputError(f"record type {kind} is unknown or malformed", where=where)
    return kind, int.from_bytes(raw[1:3], "big"), data


def _sorted(runs: list[tuple[int, bytearray]], where: str) -> list[tuple[int, bytes]]:
    """Ascending and joined; two records for one address are an error."""
    result: list[tuple[int, bytearray]] = []
    for address, data in sorted(runs, key=lambda run: run[0]):
        end = result[-1][0] + len(result[-1][1]) if result else -1
        if address < end:
            raise InputError(f"address {address:#x} is written twice", where=where)
        if address == end:
            result[-1][1].extend(data)
        else:
            result.append((address, data))
    return [(address, bytes(data)) for address, data in result]
