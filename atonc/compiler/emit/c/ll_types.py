"""Driver calls as plain data: what network.c says and what `hw.ll` turns back into registers."""

from __future__ import annotations

from collections.abc import Mapping

from atonc.compiler.emit.c.calls import ConstantTable
from atonc.machine.base.frozen import dataclass


@dataclass(frozen=True)
class Constant:
    """A name that the driver's header defines."""

    name: str


@dataclass(frozen=True)
class Base:
    """The start of a buffer or pool: an address, or a symbol that stands for it until run time."""

    address: int
    symbol: str = ""


Member = int | Constant | ConstantTable | Base | tuple[int, ...]
Members = Mapping[str, Member]


@dataclass(frozen=True)
class DriverCall:
    """One unit gets its configuration, `function(unit, &members)`; `hw.ll` sees it as `name`, `args` and `where`."""

    function: str
    kind: str
    unit: int
    members: Members

    @property
    def name(self) -> str:
        return self.function

    @property
    def args(self) -> tuple[object, object]:
        return self.unit, {name: evaluated(value) for name, value in self.members.items()}

    @property
    def where(self) -> str:
        return f"{self.kind}{self.unit}"


@dataclass(frozen=True)
class DriverPort:
    kind: str
    unit: int
    port: int = 0


@dataclass(frozen=True)
class SwitchLink:
    """One entry of the link list. A context without source keeps the number 0."""

    destination: DriverPort
    sources: tuple[DriverPort | None, DriverPort | None]
    frames: tuple[int, int]
    contexts: tuple[int, int]

    def members(self) -> dict[str, object]:
        result: dict[str, object] = {"dest": _port(self.destination)}
        for k, source in enumerate(self.sources):
            if source is not None:
                result[f"source{k}"] = _port(source)
            result |= {f"context{k}": self.contexts[k], f"frames{k}": self.frames[k]}
        return result


@dataclass(frozen=True)
class ListCall:
    """A call over all links or all units of an epoch, `function(entries, count)`."""

    function: str
    entries: tuple[SwitchLink, ...] | tuple[DriverPort, ...]

    @property
    def name(self) -> str:
        return self.function

    @property
    def args(self) -> tuple[object, object]:
        return [_entry(entry) for entry in self.entries], len(self.entries)

    @property
    def where(self) -> str:
        return self.function


EpochCall = DriverCall | ListCall


def evaluated(value: Member) -> object:
    """The value as a reader of the C text gets it."""
    if isinstance(value, ConstantTable):
        return list(value.values)
    if isinstance(value, Base):
        return value.address
    return list(value) if isinstance(value, tuple) else value


def _entry(entry: SwitchLink | DriverPort) -> object:
    return entry.members() if isinstance(entry, SwitchLink) else [[Constant(entry.kind), entry.unit]]


def _port(port: DriverPort) -> dict[str, object]:
    return {"unit": Constant(port.kind), "instance": port.unit, "port": port.port}
