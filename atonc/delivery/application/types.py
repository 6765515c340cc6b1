"""What an application asks for: a board, memory that is somebody else's, and networks that take turns on the NPU; and
what `atonc app build` and `atonc app update` are asked for besides the application file."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import field, replace
from enum import Enum
from pathlib import Path
from typing import Any

from atonc.compiler.request.options import CHECKS, GATES, OUTPUT, Options, positive, whole
from atonc.machine.base.build_folder import BuildKind, Owner
from atonc.machine.base.declare import Takes, option
from atonc.machine.base.errors import InputError
from atonc.machine.base.frozen import dataclass
from atonc.machine.base.words import NO_ROOM, Room

ERASED_BYTES = 1 << 16  # what the flash loaders of both boards erase at once: slots begin and end there


OWNER = Owner(BuildKind.APPLICATION, "app")  # of the folder of an application


def owner_of(update: str) -> Owner:
    """An update is for a firmware that is out: its files never go to the folder of that firmware."""
    return Owner(BuildKind.UPDATE, update)


class WholeFile(Enum):
    """The files of an application that belong to no single network; `building.whole_files` makes them."""

    REPORT = "app_report.html"
    HEADER = "app_networks.h"
    SOURCE = "app_networks.c"
    LOOP = "app_loop.c"
    ADDRESSES = "app_addresses.h"
    LINKER = "app_flash.ld"
    BINARY = "app_flash.bin"
    HEX = "app_flash.hex"
    MAP = "app.json"

    @property
    def stem(self) -> str:
        return self.value.partition(".")[0]


class LoadMode(Enum):
    """Where the code of a relocatable image runs."""

    XIP = "xip"  # in flash
    COPY = "copy"  # in RAM


@dataclass(frozen=True)
class Reservation:
    """Memory of the application, such as frame buffers: no network uses it."""

    name: str
    start: int
    end: int
    image: str = ""  # the network whose relocatable image has its data there, and its code where that is copied


@dataclass(frozen=True)
class AppNetwork:
    """A network, how often it runs, and what of it others must leave alone."""

    name: str
    model: Path
    options: Options
    per_second: float = 1.0
    after: str = ""  # the network whose results it works on
    inputs_survive: tuple[str, ...] = ()  # networks that run while the application fills its inputs
    outputs_survive: tuple[str, ...] = ()  # networks that run while the application still reads its outputs
    slot_bytes: int = 0  # of flash; 0: what it needs, with room to grow
    relocatable: LoadMode | None = None  # in its slot is an image that can be updated without the firmware
    exec_bytes: int = 0  # of RAM for that image; 0: what it needs, with room to grow
    # key of the file or flag of an option -> where the application file says it, for messages; "": the network
    places: Mapping[str, str] = field(default_factory=dict, compare=False)

    def at(self, key: str = "") -> str:
        return self.places.get(key) or f"network {self.name}"


@dataclass(frozen=True)
class FlashSlot:
    """Flash of one network."""

    network: str
    start: int
    end: int


@dataclass(frozen=True)
class SlotContents:
    """The constants of a network, from the start of its slot."""

    slot: FlashSlot
    data: bytes

    @property
    def crc32(self) -> int:
        return zlib.crc32(self.data)


@dataclass(frozen=True)
class SharedSlot:
    """Flash that several networks read."""

    networks: tuple[str, ...]
    start: int
    end: int


@dataclass(frozen=True)
class Application:
    file: str  # where it comes from, for messages
    board: str
    networks: tuple[AppNetwork, ...]
    reserved: tuple[Reservation, ...] = ()
    resident: Room = NO_ROOM  # weights in RAM, for all networks together
    slots: tuple[FlashSlot, ...] = ()  # of an earlier build, to be kept
    share_constants: bool = False  # equal constants of several networks lie in one place

    def network(self, name: str) -> AppNetwork:
        return next(one for one in self.networks if one.name == name)

    def with_network(self, network: AppNetwork) -> Application:
        """In the place of the one of its name."""
        return replace(self, networks=tuple(network if one.name == network.name else one for one in self.networks))

    def exec_ram(self, name: str) -> Reservation:
        """RAM of the image of a relocatable network."""
        return next(one for one in self.reserved if one.image == name)


@dataclass(frozen=True)
class AppChanges:
    """What is said instead of what an application file says: a sweep varies it."""

    board: str = ""  # empty: as the file says
    resident: str | None = None
    share_constants: bool | None = None
    options: Mapping[str, Any] = field(default_factory=dict)  # of every network


_MOST_TRIALS = 10_000


def _trial(what: str) -> Any:
    said = f"also run the firmware on the virtual board: N inferences of {what}, in random order"
    return option(0, "--try", CHECKS, said, metavar="N", parse=whole)


def _require_trials(count: int) -> None:
    if not 0 <= count <= _MOST_TRIALS:
        raise InputError(f"--try {count}", rule=f"0 to {_MOST_TRIALS} inferences of every network")


@dataclass(frozen=True)
class AppOptions:
    stai: bool = option(False, "--stai", OUTPUT, "also the ST-AI interface of every network (stai_NAME.c)")
    keep_slots: Path | None = option(
        None,
        "--keep-slots",
        OUTPUT,
        "app.json of an earlier build: its slots of the flash stay where they are",
        metavar="FILE",
        parse=Path,
        takes=Takes(local=True),
    )
    trial: int = _trial("every network")
    max_load: float = option(
        100.0,
        "--max-load",
        GATES,
        "of the NPU: percent of the time in which networks run (default 100; above: less often than the file says)",
        metavar="PERCENT",
        parse=positive,
    )

    def __post_init__(self) -> None:
        _require_trials(self.trial)


@dataclass(frozen=True)
class AppUpdateOptions:
    built: Path = option(
        Path("build"),
        "--built",
        OUTPUT,
        "folder that `atonc app build` wrote for the firmware that is out (default build)",
        metavar="DIR",
        parse=Path,
        takes=Takes(local=True),
    )
    trial: int = _trial("the new network and of those that the firmware has in itself")

    def __post_init__(self) -> None:
        _require_trials(self.trial)
