"""The data cache of the virtual board: lines, maintenance, eviction."""

from __future__ import annotations

import numpy as np
import pytest

from atonc.machine.emu.board.system import CLEAN, CLEAN_INVALIDATE, INVALIDATE, LINE, DataCache

BASE = 0x3400_0000


def cached() -> tuple[DataCache, np.ndarray, np.ndarray]:
    memory = np.zeros(8 * LINE, np.uint8)
    cache = DataCache()
    return cache, memory, cache.add(BASE, memory)


@pytest.mark.parametrize("alias", [BASE, 0x2400_0000])
def test_clean_moves_one_dirty_line(alias: int) -> None:
    cache, memory, cpu = cached()
    cpu[LINE : 3 * LINE] = 7
    cache.command(CLEAN, alias + LINE + 5)
    assert memory[LINE : 2 * LINE].tolist() == [7] * LINE and not memory[2 * LINE :].any()


def test_clean_leaves_clean_lines_alone() -> None:
    cache, memory, _ = cached()
    memory[3] = 9  # another master
    cache.command(CLEAN, BASE)
    assert memory[3] == 9


def test_dirty_line_overwrites_its_neighbours() -> None:
    cache, memory, cpu = cached()
    memory[3], cpu[4] = 9, 1
    cache.command(CLEAN, BASE)
    assert memory[3] == 0 and memory[4] == 1


def test_invalidate_loses_what_was_not_cleaned() -> None:
    cache, memory, cpu = cached()
    memory[0], cpu[1] = 5, 6
    cache.command(INVALIDATE, BASE)
    assert cpu[:2].tolist() == [5, 0]
    cpu[1] = 6
    cache.command(CLEAN_INVALIDATE, BASE)
    assert cpu[:2].tolist() == [5, 6] and memory[1] == 6


def test_eviction_and_whole_cache() -> None:
    cache, memory, cpu = cached()
    cpu[::LINE] = 3
    memory[1] = 8
    cache.evict()
    assert memory[::LINE].tolist() == [3] * 8 and memory[1] == 0
    memory[40] = 4
    cache.command(0xEF60, 0)
    assert cpu[40] == 4


def test_bytes_of_the_host_leave_their_line_alone() -> None:
    cache, memory, cpu = cached()
    cpu[0], memory[1] = 2, 3
    cache.in_step(BASE + 1, 1)
    assert cpu[:2].tolist() == [2, 3]
    cache.evict()
    assert memory[:2].tolist() == [2, 3]


def test_written_lines_are_dirty_whatever_the_value() -> None:
    """The NPU overwrites a line that the CPU then writes with the bytes that it had before."""
    cache, memory, cpu = cached()
    memory[:LINE] = 9
    cpu[2] = 0
    cache.wrote(BASE + 2, 1)
    cache.command(CLEAN, BASE)
    assert not memory[:LINE].any()
    memory[:LINE] = 9
    cache.command(CLEAN, BASE)
    assert memory[:LINE].all()  # not dirty any more
    cache.wrote(0x2400_0000 + LINE - 2, 4)  # an unaligned store over the end of a line
    cache.command(INVALIDATE, BASE)
    cache.evict()
    assert memory[:LINE].all() and not memory[LINE:].any()
