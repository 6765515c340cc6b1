from __future__ import annotations

import gc
from dataclasses import dataclass

from atonc.machine.hw.memoise import memoise


@dataclass(frozen=True)
class Thing:
    number: int


def test_works_it_out_memoise_and_keeps_no_object_alive() -> None:
    asked: list[int] = []

    @memoise
    def double(thing: Thing) -> int:
        asked.append(thing.number)
        return 2 * thing.number

    one, same = Thing(1), Thing(1)
    assert [double(one), double(one), double(same)] == [2, 2, 2]
    assert asked == [1, 1]  # equal, but not the same
    for number in range(2, 50):  # whatever address they get, it is never an old result
        assert double(Thing(number)) == 2 * number
    del one, same
    gc.collect()
    assert double(Thing(7)) == 14
