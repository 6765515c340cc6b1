"""Buffer tables: from evaluated structs to `BufferInfo`."""

from __future__ import annotations

from atonc.machine.base.errors import InputError, plain
from atonc.machine.emu.files.types import BufferInfo, CValue, Symbol

MAX_BUFFER_BYTES = 1 << 30
_LARGEST = 3.5e38  # scales are 32-bit floats; a release wrote 1.3e36 for a constant


def buffer_table(value: CValue, where: str) -> tuple[BufferInfo, ...]:
    """Entries up to the terminator (the entry without a name)."""
    if not isinstance(value, list):
        raise InputError("a buffer table is not an array", where=where)
    result: list[BufferInfo] = []
    for entry in value:
        if not isinstance(entry, dict):
            raise InputError("a buffer table holds something that is not a buffer", where=where)
        name = entry.get("name")
        if name is None:
            break
        if not isinstance(name, str):
            raise InputError("a buffer has no name", where=where)
        name = plain(name)
        result.append(_buffer(name, entry, f"{where}, buffer {name}"))
    return tuple(result)


def _buffer(name: str, entry: dict[str, CValue], where: str) -> BufferInfo:
    base, start = integer(entry, "addr_base", where), integer(entry, "offset_start", where)
    size = integer(entry, "offset_end", where) - start
    limit = integer(entry, "offset_limit", where) - start
    if not (0 <= base < 1 << 32 and 0 <= start < 1 << 32 and 0 <= size <= MAX_BUFFER_BYTES):
        raise InputError(f"impossible address or size ({size} bytes at {base:#x} + {start})", where=where)
    return BufferInfo(
        name=name,
        address=base + start,
        size_bytes=size,
        limit_bytes=max(limit, size),
        shape=_integers(entry, "shape", where),
        mem_shape=_integers(entry, "mem_shape", where),
        chpos=_enum(entry, "chpos", "CHPos_"),
        batch=integer(entry, "batch", where),
        type=_enum(entry, "type", "DataType_"),
        nbits=integer(entry, "nbits", where),
        scales=tuple(float(v) for v in _numbers(entry, "scale", where)),
        offsets=tuple(_only_integers(_numbers(entry, "offset", where), "offset", where)),
        per_channel=bool(integer(entry, "per_channel", where)),
        epoch=integer(entry, "epoch", where),
        is_user_allocated=bool(integer(entry, "is_user_allocated", where)),
        is_param=bool(integer(entry, "is_param", where)),
        qm=integer(entry, "Qm", where),
        qn=integer(entry, "Qn", where),
        q_unsigned=bool(integer(entry, "Qunsigned", where)),
    )


def integer(entry: dict[str, CValue], key: str, where: str) -> int:
    """A member as C reads it: absent means 0."""
    value = entry.get(key, 0)
    if value is None:
        return 0
    if isinstance(value, int):
        return value
    raise InputError(f"member {key} has no known integer value", where=where)


def _numbers(entry: dict[str, CValue], key: str, where: str) -> list[int | float]:
    value = entry.get(key)
    if value is None or value == 0:
        return []
    numbers = [v for v in value if isinstance(v, (int, float))] if isinstance(value, list) else []
    if not isinstance(value, list) or len(numbers) != len(value) or any(abs(number) > _LARGEST for number in numbers):
        raise InputError(f"member {key} is not an array of numbers", where=where)
    return numbers


def _integers(entry: dict[str, CValue], key: str, where: str) -> tuple[int, ...]:
    numbers = _numbers(entry, key, where)
    count = integer(entry, "mem_ndims" if key == "mem_shape" else "ndims", where)
    if not 0 <= count <= len(numbers):
        raise InputError(f"member {key} does not hold {count} integers", where=where)
    return tuple(_only_integers(numbers[:count], key, where))


def _only_integers(numbers: list[int | float], key: str, where: str) -> list[int]:
    integers = [v for v in numbers if isinstance(v, int)]
    if len(integers) != len(numbers):
        raise InputError(f"member {key} holds something that is not an integer", where=where)
    return integers


def _enum(entry: dict[str, CValue], key: str, prefix: str) -> str:
    value = entry.get(key)
    return value.name.removeprefix(prefix) if isinstance(value, Symbol) else ""
