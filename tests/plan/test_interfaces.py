"""Streams of an epoch share the two interfaces to the bus."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from atonc.compiler.plan.interfaces import Interfaces, interface_of, spread
from atonc.compiler.plan.streams import Area, contiguous, engine
from atonc.machine.hw.cycles import traffic
from atonc.machine.hw.limits import INTERFACES, MOST_READERS, MOST_WRITERS
from atonc.machine.hw.units.stream_engine import StrengConfig

SHORT, LONG = contiguous(64), contiguous(640)
ALL = [f"STRENG{k}" for engines in INTERFACES for k in engines]


def writer(size: int) -> StrengConfig:
    return contiguous(size, write=True)


def places(**streams: StrengConfig) -> dict[str, int]:
    return {name: interface_of(found) for name, found in spread(streams, {}).items()}


def test_a_copy_uses_both() -> None:
    assert spread({"r": LONG, "w": writer(640)}, {}) == {"r": "STRENG0", "w": "STRENG5"}


def test_each_direction_is_balanced_by_itself() -> None:
    found = places(a=LONG, b=SHORT, c=SHORT, w=writer(64), v=writer(640))
    assert found["a"] != found["b"] == found["c"]
    assert found["w"] != found["v"] == found["b"]  # the long writer where fewer beats are read


def test_beats_count_and_not_bytes() -> None:
    """64 bytes that lie apart keep an interface as busy as 512 in a row."""
    apart = engine(Area(8, 8, 1, 8 * 16, 16))
    assert traffic.beats(apart) == 64
    found = places(a=apart, b=contiguous(256), c=contiguous(256))
    assert found["a"] != found["b"] == found["c"]


def test_kernels_stand_apart_from_their_features() -> None:
    streams = {"f": LONG, "g": contiguous(632), "k": SHORT, "l": SHORT}
    found = spread(streams, {"k": ["f"], "l": ["g"]})
    assert interface_of(found["k"]) == interface_of(found["g"]) != interface_of(found["l"])
    assert interface_of(found["l"]) == interface_of(found["f"])
    both = spread(streams, {"k": ["f", "g"], "l": ["f", "g"]})
    assert {interface_of(both[name]) for name in "kl"} == {0, 1}  # balanced: features come through both


def test_writers_come_last_and_see_what_kernels_read() -> None:
    """Also longer ones: the kernels take the other interface, so that one is the busier."""
    found = spread({"f": contiguous(320), "k": LONG, "w": writer(1280)}, {"k": ["f"]})
    assert interface_of(found["w"]) == interface_of(found["f"]) != interface_of(found["k"])


def test_copies_that_join_later_take_the_quieter_side() -> None:
    taken = {"STRENG0": LONG, "STRENG5": writer(640)}
    joining = Interfaces(taken)
    assert (joining.give(SHORT), joining.give(writer(64))) == ("STRENG6", "STRENG1")


def test_a_full_interface_gives_to_the_other() -> None:
    free = Interfaces({f"STRENG{k}": contiguous(1) for k in INTERFACES[1]})
    assert [free.give(LONG) for _ in range(2)] == ["STRENG0", "STRENG1"]


SIZES = st.integers(1, 5000)


@given(st.lists(SIZES, max_size=MOST_READERS), st.lists(SIZES, min_size=1, max_size=MOST_WRITERS), st.data())
def test_every_epoch_of_two_or_more_uses_both(readers: list[int], writers: list[int], data: st.DataObject) -> None:
    readers = readers[: len(ALL) - len(writers)]
    streams = {f"r{n}": contiguous(size) for n, size in enumerate(readers)}
    features = {}
    if len(readers) > 1:
        features = {"r0": data.draw(st.sets(st.sampled_from([f"r{n}" for n in range(1, len(readers))]), min_size=1))}
    found = spread({**streams, **{f"w{n}": writer(size) for n, size in enumerate(writers)}}, features)
    assert len(set(found.values())) == len(found) and set(found.values()) <= set(ALL)
    if len(found) > 1:
        assert {interface_of(name) for name in found.values()} == {0, 1}
    assert found == spread({**streams, **{f"w{n}": writer(size) for n, size in enumerate(writers)}}, features)
