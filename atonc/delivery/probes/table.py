"""A folder that builds to one firmware with these probes in it: runtime, Makefile, flash image, README, and `probes.c`
with programs, inputs and expected outputs as the firmware's main program wants them."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence

import numpy as np

from atonc.compiler.emit.c import names
from atonc.compiler.emit.c.memories import PoolRange, hex_lines
from atonc.compiler.place import BoardMemory
from atonc.compiler.place.types import Placed
from atonc.delivery.firmware.building import runtime_folder
from atonc.delivery.probes.bench import INPUT, OUTPUT
from atonc.delivery.probes.build import FLASH, BuiltProbe
from atonc.delivery.probes.readme import readme
from atonc.machine.base.about import __version__
from atonc.machine.base.templates import Words, render
from atonc.machine.hw.limits import NPU_CACHE_LINE


class _Bytes:
    """Arrays of bytes, each stored once: what is a part of another one shares it."""

    def __init__(self, contents: Iterable[bytes]) -> None:
        self._known: dict[bytes, str] = {}  # the long ones first
        for data in sorted(set(contents), key=lambda data: (-len(data), data)):
            if self._place(data) is None:
                self._known[data] = f"bytes_{len(self._known)}"

    def _place(self, data: bytes) -> tuple[str, int] | None:
        places = ((name, known.find(data)) for known, name in self._known.items())
        return next(((name, at) for name, at in places if at >= 0), None)

    def name(self, data: bytes) -> str:
        found = self._place(data)
        assert found is not None
        name, at = found
        return f"{name} + {at}" if at else name

    def rows(self) -> list[Words]:
        return [
            {"name": name, "size": len(data), "values": names.lines_of(map(str, data), 32)}
            for data, name in self._known.items()
        ]


def text(built: Sequence[BuiltProbe], board: str) -> str:
    stored = _Bytes(_contents(built))
    probes = [_row(one, stored) for one in built]
    return render("probes/probes.c", version=__version__, board=board, arrays=stored.rows(), probes=probes)


def _contents(built: Sequence[BuiltProbe]) -> Iterable[bytes]:
    for one in built:
        yield one.stimulus
        yield from (answer.data for answer in one.answers)
        yield from (home.buffer.data for home in one.constants if home.pool != FLASH)


def _row(one: BuiltProbe, stored: _Bytes) -> Words:
    name, pairs = one.network.name, np.array(one.words, "<u4").view("<u8").tolist()
    needs = {
        "PROBE_NEEDS_FLASH": one.in_flash,
        "PROBE_NEEDS_HYPERRAM": one.uses_hyperram,
        "PROBE_NOT_EMULATED": not one.emulated,
        "PROBE_NEEDS_KEYS": one.needs_keys,
        "PROBE_MUST_DIFFER": one.must_differ,
    }
    return {
        "probe": one.probe.name,
        "name": name,
        "line": NPU_CACHE_LINE,
        "pairs": len(pairs),
        "program": names.lines_of([f"{pair:#018x}ULL" for pair in pairs], 4),
        "answers": [{"answer": answer.name, "data": stored.name(answer.data)} for answer in one.answers],
        "has_constants": bool(one.constants),
        "constants": [_constant(home, stored) for home in one.constants],
        "constants_name": f"{name}_constants" if one.constants else "NULL",
        "stimulus": stored.name(one.stimulus),
        "stimulus_bytes": len(one.stimulus),
        "expected_bytes": len(one.expected),
        "places": ", ".join(f"{one.home(buffer).address:#010x}u" for buffer in (INPUT, OUTPUT)),
        "transfer": _transfer(one),
        "answers_count": len(one.answers),
        "constants_count": len(one.constants),
        "needs": " | ".join(need for need, wanted in needs.items() if wanted) or "0",
    }


def _transfer(one: BuiltProbe) -> str:
    if one.transfer is None:
        return "0"
    source, target = one.home(one.transfer.source).address, one.home(one.transfer.target).address
    return f"{source:#010x}u, {target + one.transfer.offset:#010x}u, {one.transfer.size_bytes}u"


def _constant(home: Placed, stored: _Bytes) -> Words:
    data = home.buffer.data
    return {
        **{"address": f"{home.address:#010x}", "bytes": len(data), "crc32": f"{zlib.crc32(data):#010x}"},
        "data": "NULL" if home.pool == FLASH else stored.name(data),
    }


# of the runtime that ships with atonc
_PARTS = (
    *(("probe", "*"), ("bare_metal", "*"), ("selftest", "*.[ch]"), ("include", "*.h"), ("src", "*.[ch]")),
    ("wire", "wire_chip.[ch]"),
)
FLASH_IMAGE = "probes_flash"


def folder_files(built: Sequence[BuiltProbe], target: BoardMemory) -> dict[str, bytes]:
    """File name -> contents."""
    found: dict[str, bytes] = {}
    for part, pattern in _PARTS:
        found |= {path.name: path.read_bytes() for path in sorted(runtime_folder(part).glob(pattern))}
    found["probes.c"] = text(built, target.name).encode()
    found |= _flash_image(built, target)
    found["README.md"] = readme(built, target, FLASH_IMAGE).encode()
    return found


def _flash_image(built: Sequence[BuiltProbe], target: BoardMemory) -> dict[str, bytes]:
    """What must be in flash, as bytes from the beginning of the pool and as Intel HEX; none where nothing must."""
    homes = [home for one in built for home in one.in_flash]
    if not homes:
        return {}
    pool = next(pool for pool in target.pools if pool.name == FLASH)
    ranges = [PoolRange(pool, home.address, home.buffer.data, home.size_bytes) for home in homes]
    image = bytearray(b"\xff" * (max(part.end for part in ranges) - pool.base))
    for part in ranges:
        image[part.start - pool.base : part.end - pool.base] = part.data
    return {f"{FLASH_IMAGE}.raw": bytes(image), f"{FLASH_IMAGE}.hex": "".join(hex_lines(ranges)).encode()}
