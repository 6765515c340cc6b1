"""Lines of a cache, line by line: none is forgotten, none of somebody else's is thrown away."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from atonc.compiler.emit.c import cpu_functions as caches
from atonc.compiler.emit.c import files
from atonc.compiler.emit.c.cpu_functions import CLEAN, CLEAN_INVALIDATE, INVALIDATE, CacheRange
from atonc.compiler.emit.program import UserBuffer
from atonc.compiler.place.types import Placed
from atonc.compiler.plan.types import Buffer, BufferKind
from tests.emit.generated import digits, network_of


def network(*homes: Placed, users: tuple[UserBuffer, ...] = ()) -> Any:
    placed = {home.buffer.name: home for home in homes}
    of_name = {user.name: user for user in users}
    return SimpleNamespace(
        home=placed.get, user_of=of_name.get, place=hex, c_symbol=lambda user: user.symbol, suffix="net",
        program=SimpleNamespace(placed=placed), memory=SimpleNamespace(resident_bytes=96),
    )  # fmt: skip


def home(name: str, address: int, size: int, copy_of: str = "") -> Placed:
    kind = BufferKind.RESIDENT if copy_of else BufferKind.ACTIVATION
    return Placed(Buffer(name, size, kind), address, "npuRAM3", 0, 0, copy_of=copy_of)


def test_whole_lines_are_named_each_once() -> None:
    """One buffer inside another one, and one that begins where these end."""
    made = network(home("a", 0x100, 0x100), home("b", 0x120, 0x20), home("c", 0x200, 1), home("d", 0x300, 33))
    assert caches._calls(made, CLEAN, ["a", "b", "c", "d"]) == [f"{CLEAN}(0x100, 288U);", f"{CLEAN}(0x300, 64U);"]


def test_ranges_that_hold_others_keep_their_end() -> None:
    merged = caches._merged([CacheRange(0, 128), CacheRange(32, 64), CacheRange(160, 192)])
    assert list(merged) == [CacheRange(0, 128), CacheRange(160, 192)]


@pytest.mark.parametrize(("size", "function"), [(64, INVALIDATE), (65, CLEAN_INVALIDATE)])
def test_what_the_application_keeps_in_the_last_line_stays(size: int, function: str) -> None:
    user = UserBuffer("output", 0, "out", 0xA000_0000, size)
    made = network(home("out", 0xA000_0000, size), users=(user,))
    (call,) = caches._calls(made, INVALIDATE, ["out"])
    assert call == f"{function}((uintptr_t)_user_io_output_0 + 0U, {-(-size // 32) * 32}U);"
    (cleaned,) = caches._calls(made, CLEAN, ["out"])
    assert cleaned.startswith(f"{CLEAN}(")


def test_resident_weights_are_ranges_of_whole_lines() -> None:
    made = network(home("a", 0x100, 33, "w"), home("b", 0x140, 32, "v"), home("c", 0x200, 1, "u"))
    assert files.resident_ranges(made) == [(0x100, 0x160), (0x200, 0x220)]


@pytest.mark.parametrize("resident", [True, False])
def test_weights_that_were_given_up_are_loaded_before_the_next_inference(resident: bool) -> None:
    made = digits(resident="all") if resident else digits()
    text = files.ecblobs_h(network_of(made)).partition("/* Before each inference. */")[2]
    assert ("if (!atonc_resident_ready) {" in text) == resident
    assert ("ATONC_Load_Resident_Default();" in text) == resident
