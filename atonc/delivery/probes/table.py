"""A folder that builds to one firmware with these probes in it: runtime, Makefile, flash image, README, and `probes.c`
with programs, inputs and expected outputs as the firmware's main program wants them."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence

import numpy as np

from atonc.compiler.emit.c import names
from atonc.compiler.emit.c.images import hex_lines
from atonc.compiler.emit.c.memories import PoolRange
from atonc.compiler.place import BoardMemory
from atonc.delivery.firmware.building import runtime_folder
from atonc.delivery.probes.bench import INPUT, OUTPUT
from atonc.delivery.probes.build import FLASH, BuiltProbe
from atonc.delivery.probes.readme import readme
from atonc.machine.base.about import __version__
from atonc.machine.hw.limits import NPU_CACHE_LINE

_HEAD = """/* The probes of this image, written by atonc {version}. Do not edit. */
#include "probes.h"

#include <stddef.h>

const char probes_board[] = "{board}";
const char probes_version[] = "{version}";

"""


class _Bytes:
    """Arrays of bytes, each stored once: what is the beginning of another one shares it."""

    def __init__(self, contents: Iterable[bytes]) -> None:
        self._known: dict[bytes, str] = {}  # the long ones first
        for data in sorted(set(contents), key=lambda data: (-len(data), data)):
            if self._name(data) is None:
                self._known[data] = f"bytes_{len(self._known)}"

    def _name(self, data: bytes) -> str | None:
        return next((name for known, name in self._known.items() if known.startswith(data)), None)

    def name(self, data: bytes) -> str:
        found = self._name(data)
        assert found is not None
        return found

    def text(self) -> str:
        return "".join(
            f"static const uint8_t {name}[{len(data)}] = {{\n{names.lines_of(map(str, data), 32)}}};\n\n"
            for data, name in self._known.items()
        )


def text(built: Sequence[BuiltProbe], board: str) -> str:
    stored = _Bytes(_contents(built))
    parts = [_HEAD.format(version=__version__, board=board), stored.text()]
    parts += [_program(one) + _answers(one, stored) + _constants(one, stored) for one in built]
    rows = "".join(_row(one, stored) for one in built)
    parts.append(f"const probe_t probes[] = {{\n{rows}}};\n")
    parts.append("const uint32_t probes_count = sizeof probes / sizeof probes[0];\n")
    return "".join(parts)


def _contents(built: Sequence[BuiltProbe]) -> Iterable[bytes]:
    for one in built:
        yield one.stimulus
        yield from (answer.data for answer in one.answers)
        yield from (home.buffer.data for home in one.constants if home.pool != FLASH)


def _program(one: BuiltProbe) -> str:
    pairs = [f"{pair:#018x}ULL" for pair in np.array(one.words, "<u4").view("<u8").tolist()]
    return (
        f"static const uint64_t __attribute__((aligned({NPU_CACHE_LINE}))) {one.network.name}_program[{len(pairs)}] = "
        f"{{\n{names.lines_of(pairs, 4)}}};\n"
    )


def _answers(one: BuiltProbe, stored: _Bytes) -> str:
    rows = "".join(f'    {{"{answer.name}", {stored.name(answer.data)}}},\n' for answer in one.answers)
    return f"static const probe_answer_t {one.network.name}_answers[] = {{\n{rows}}};\n"


def _constants(one: BuiltProbe, stored: _Bytes) -> str:
    if not one.constants:
        return ""
    rows = ""
    for home in one.constants:
        data = home.buffer.data
        source = "NULL" if home.pool == FLASH else stored.name(data)
        rows += f"    {{{home.address:#010x}u, {len(data)}u, {zlib.crc32(data):#010x}u, {source}}},\n"
    return f"static const probe_constant_t {one.network.name}_constants[] = {{\n{rows}}};\n"


def _row(one: BuiltProbe, stored: _Bytes) -> str:
    name, constants = one.network.name, f"{one.network.name}_constants" if one.constants else "NULL"
    needs = [
        *(["PROBE_NEEDS_FLASH"] if one.in_flash else []),
        *(["PROBE_NEEDS_HYPERRAM"] if one.uses_hyperram else []),
        *([] if one.emulated else ["PROBE_NOT_EMULATED"]),
        *(["PROBE_NEEDS_KEYS"] if one.needs_keys else []),
        *(["PROBE_MUST_DIFFER"] if one.must_differ else []),
    ]
    places = ", ".join(f"{one.home(buffer).address:#010x}u" for buffer in (INPUT, OUTPUT))
    return (
        f'    {{"{one.probe.name}", {name}_program, {stored.name(one.stimulus)}, {name}_answers, {constants},\n'
        f"     {len(one.stimulus)}u, {len(one.expected)}u, {places}, {len(one.answers)}, {len(one.constants)}, "
        f"{' | '.join(needs) or '0'}}},\n"
    )


# of the runtime that ships with atonc
_PARTS = (("probe", "*"), ("bare_metal", "*"), ("include", "*.h"), ("src", "*.[ch]"), ("wire", "wire_chip.[ch]"))
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
