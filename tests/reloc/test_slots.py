"""examples/field_update: two slots for a model, and power that fails at every moment."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

COMPILER = shutil.which("gcc") or shutil.which("clang") or shutil.which("cc")
pytestmark = pytest.mark.skipif(COMPILER is None, reason="no C compiler for the host")
SOURCES = Path(__file__).parents[2] / "examples" / "field_update"
GOOD, ON_TRIAL = 1, 2
TRIES = 3
BYTES = 24
READ = ctypes.CFUNCTYPE(None, ctypes.c_uint32, ctypes.c_void_p)
WRITE = ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_uint32, ctypes.c_void_p)
HOOKS = """
#include "slots.h"
void (*read_hook)(uint32_t, void *);
bool (*write_hook)(uint32_t, const void *);
void slots_read_flash(uint32_t copy, struct slot_record *record) { read_hook(copy, record); }
bool slots_write_flash(uint32_t copy, const struct slot_record *record) { return write_hook(copy, record); }
"""


class Record(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint32) for name in ("magic", "sequence", "slot", "state", "tries", "crc")]


class Flash:
    """Two erase blocks. Power fails before the byte number `fails_at` of all that is ever written; an erase is one
    byte of that count. What was not programmed reads as ones, and the rest of the start does nothing."""

    def __init__(self, fails_at: int | None = None) -> None:
        self.blocks = [bytearray(b"\xff" * BYTES), bytearray(b"\xff" * BYTES)]
        self.written, self.fails_at, self.off = 0, fails_at, False

    def step(self) -> bool:
        self.off = self.off or self.written == self.fails_at
        self.written += not self.off
        return not self.off

    def write(self, copy: int, data: bytes) -> bool:
        if self.step():
            self.blocks[copy][:] = b"\xff" * BYTES
        for k, byte in enumerate(data):
            if self.step():
                self.blocks[copy][k] = byte
        return not self.off

    def power_on(self) -> None:
        if self.off:
            self.off, self.fails_at = False, None


class Slots:
    def __init__(self, library: ctypes.CDLL) -> None:
        self._library, self.flash = library, Flash()
        library.slots_start.restype = Record
        for name in ("slots_begin_trial", "slots_accept", "slots_reject"):
            getattr(library, name).restype = ctypes.c_bool
        self._hooks = READ(self._read), WRITE(self._write)
        for name, hook in zip(("read_hook", "write_hook"), self._hooks, strict=True):
            ctypes.c_void_p.in_dll(library, name).value = ctypes.cast(hook, ctypes.c_void_p).value

    def _read(self, copy: int, place: int) -> None:
        ctypes.memmove(place, bytes(self.flash.blocks[copy]), BYTES)

    def _write(self, copy: int, place: int) -> bool:
        return self.flash.write(copy, ctypes.string_at(place, BYTES))

    def start(self) -> tuple[int, int]:
        self.flash.power_on()
        record = self._library.slots_start()
        return record.slot, record.state

    def begin(self, slot: int) -> bool:
        return bool(self._library.slots_begin_trial(slot))

    def accept(self) -> bool:
        return bool(self._library.slots_accept())

    def reject(self) -> bool:
        return bool(self._library.slots_reject())


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    folder = tmp_path_factory.mktemp("slots")
    (folder / "hooks.c").write_text(HOOKS)
    made = folder / "slots.so"
    words = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic", "-O1", "-shared", "-fPIC", f"-I{SOURCES}"]
    subprocess.run([COMPILER or "", *words, SOURCES / "slots.c", folder / "hooks.c", "-o", made], check=True)
    return ctypes.CDLL(str(made))


def test_a_board_that_was_never_updated(library: ctypes.CDLL) -> None:
    slots = Slots(library)
    assert slots.start() == (0, GOOD)
    assert slots.flash.written == 0, "a start without an update wears nothing out"


def test_an_update_that_works(library: ctypes.CDLL) -> None:
    slots = Slots(library)
    assert slots.begin(1)
    assert slots.start() == (1, ON_TRIAL) and slots.accept()
    assert [slots.start() for _ in range(5)] == [(1, GOOD)] * 5
    assert slots.begin(0) and slots.start() == (0, ON_TRIAL) and slots.accept() and slots.start() == (0, GOOD)


def test_a_model_that_never_works(library: ctypes.CDLL) -> None:
    """It hangs before anybody can say so; a watchdog restarts."""
    slots = Slots(library)
    assert slots.begin(1)
    assert [slots.start() for _ in range(TRIES + 2)] == [(1, ON_TRIAL)] * TRIES + [(0, GOOD)] * 2


def test_a_model_that_is_rejected(library: ctypes.CDLL) -> None:
    slots = Slots(library)
    assert slots.begin(1) and slots.start() == (1, ON_TRIAL) and slots.reject()
    assert slots.start() == (0, GOOD)
    assert slots.reject() and slots.start() == (0, GOOD), "rejecting what is good changes nothing"


def test_a_flash_that_refuses_gives_the_model_that_is_known_to_work(library: ctypes.CDLL) -> None:
    slots = Slots(library)
    assert slots.begin(1)
    slots.flash.fails_at, slots.flash.power_on = slots.flash.written, lambda: None  # type: ignore[method-assign]
    assert [slots.start() for _ in range(5)] == [(0, GOOD)] * 5


def test_the_sequence_number_may_pass_its_end(library: ctypes.CDLL) -> None:
    slots = Slots(library)
    for turn in range(40):
        assert slots.begin(turn % 2) and slots.start() == (turn % 2, ON_TRIAL) and slots.accept()
    _advance(slots, 0xFFFF_FFFE)
    for turn in range(6):
        assert slots.begin(turn % 2) and slots.start() == (turn % 2, ON_TRIAL) and slots.accept()
        assert slots.start() == (turn % 2, GOOD)


def _advance(slots: Slots, sequence: int) -> None:
    """As after so many updates: one whole record with this number, the other block empty."""
    import struct
    import zlib

    words = struct.pack("<5I", 0x544F4C53, sequence, 0, GOOD, 0)
    slots.flash.blocks = [bytearray(words + struct.pack("<I", zlib.crc32(words))), bytearray(b"\xff" * BYTES)]


def works(slots: Slots) -> Iterator[tuple[int, int]]:
    """Slot 1 gets a model that works: what every start gives."""
    slots.begin(1)
    for _ in range(3):
        found = slots.start()
        yield found
        if found[1] == ON_TRIAL:
            slots.accept()


def hangs(slots: Slots) -> Iterator[tuple[int, int]]:
    slots.begin(1)
    for _ in range(TRIES + 3):
        yield slots.start()


@pytest.mark.parametrize("story, ends", [(works, {(1, GOOD), (0, GOOD)}), (hangs, {(0, GOOD)})])
def test_power_that_fails_at_any_byte(
    library: ctypes.CDLL, story: Callable[[Slots], Iterator[tuple[int, int]]], ends: set[tuple[int, int]]
) -> None:
    whole = Slots(library)
    list(story(whole))
    seen = set()
    for moment in range(whole.flash.written + 1):
        slots = Slots(library)
        slots.flash.fails_at = moment
        for slot, state in story(slots):
            # slot 1 is only ever given once its record was complete, or on trial on the way back
            assert (slot, state) in {(0, GOOD), (1, ON_TRIAL), (1, GOOD)}, moment
        for _ in range(TRIES + 1):
            last = slots.start()
        assert last in ends, moment
        assert [slots.start() for _ in range(2)] == [last] * 2, "it has settled"
        seen.add(last)
    assert seen == ends
