"""Members of a C struct that the generated code passes to the driver, and register words built from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from atonc.machine.base.errors import InputError
from atonc.machine.hw import regs
from atonc.machine.hw.ec.instructions import Write

ReadMemory = Callable[[int, int], bytes]
"""`read_memory(address, size_bytes)`."""


class Members:
    """A struct by member names. As in C, a member that the initialiser leaves out is 0."""

    def __init__(self, values: object, where: str) -> None:
        if not isinstance(values, Mapping):
            raise InputError("the driver is called without a configuration struct", where=where)
        self.values, self.where = values, where

    def __getitem__(self, name: str) -> int:
        value = self.values.get(name, 0)
        if value is None:
            return 0
        if isinstance(value, int):
            return value
        raise InputError(f"member {name} has no known integer value", where=self.where)

    def flag(self, name: str) -> int:
        """1 if the member is not 0."""
        return int(self[name] != 0)

    def choice(self, name: str, numbers: Mapping[str, int], default: int | None = None) -> int:
        """The register value of an enum constant, which is given by name; absent or 0 is `default`."""
        value = self.values.get(name, 0)
        if value == 0 and default is not None:
            return default
        label = getattr(value, "name", value)
        if not isinstance(label, str) or label not in numbers:
            raise InputError(f"member {name} has the unknown value {label}", where=self.where)
        return numbers[label]

    def vector(self, name: str, bits: int, count: int, read_memory: ReadMemory) -> list[int] | None:
        """`count` signed values of `bits` bits, packed in memory or in a C array; None for a null pointer."""
        value = self.values.get(name)
        if isinstance(value, list) and len(value) == 1 and value[0] in (0, None):
            value = None  # `{0}` of the pointer union
        if value is None or value == 0:
            return None
        if not 1 <= bits <= 32:
            raise InputError(f"{name} has elements of {bits} bits", where=self.where)
        if isinstance(value, int):
            data = bytes(read_memory(value, -(-count * bits // 8)))
            return unpack(data, bits, count)
        return self._array(name, value, count)

    def _array(self, name: str, value: object, count: int) -> list[int]:
        numbers = [v for v in value if isinstance(v, int)] if isinstance(value, Sequence) else []
        if len(numbers) < count or len(numbers) != len(value):  # type: ignore[arg-type]
            raise InputError(f"{name} does not hold {count} integers", where=self.where)
        return numbers[:count]


def unpack(data: bytes, bits: int, count: int) -> list[int]:
    """Consecutive bit fields, least significant first, sign extended."""
    packed = int.from_bytes(data, "little")
    mask, sign = (1 << bits) - 1, 1 << (bits - 1)
    return [((packed >> (bits * i) & mask) ^ sign) - sign for i in range(count)]


def word(kind: str, register: str, **fields: int) -> int:
    """A register's value: reset, with these fields replaced. Values are cut to the field, as the driver does."""
    described = regs.registers(kind)[register]
    value = described.reset
    for name, number in fields.items():
        field = described.field(name)
        value = value & ~(field.mask << field.lsb) | (number & field.mask) << field.lsb
    return value


def write(kind: str, unit: int, register: str, **fields: int) -> Write:
    """A store of `word` to a unit."""
    return Write(unit, regs.registers(kind)[register].index, word(kind, register, **fields))


def unit_id(kind: str, number: object, where: str) -> int:
    """The unit id of the n-th unit of a kind."""
    unit = regs.UNIT_BY_NAME.get(f"{kind}{number}") if isinstance(number, int) else None
    if unit is None:
        raise InputError(f"there is no unit {kind} {number}", where=where)
    return unit.id
