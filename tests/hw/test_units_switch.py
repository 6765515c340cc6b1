"""The stream switch: links as register words, and which frames the two contexts let through."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from atonc.machine.base.errors import NotModelledError
from atonc.machine.hw import regs
from atonc.machine.hw.stream import Stream
from atonc.machine.hw.units import decompress, switch
from atonc.machine.hw.units.switch import Link
from tests.hw import scalar_models as scalar
from tests.hw.unit_data import EXAMPLES, MORE_EXAMPLES, words_of

sources = st.sampled_from([name for name in regs.SOURCES if not name.startswith("RECBUF")])
ports = st.sampled_from(sorted(regs.SWITCH_PORTS))
counts = st.integers(0, 255)


@st.composite
def links(draw) -> Link:
    """Permanent, "drop n keep m" or "keep n drop m"."""
    destination, port = draw(ports)
    link = Link(draw(sources), destination, port, other_source=draw(st.integers(0, 26)))
    form = draw(st.sampled_from(["permanent", "drop first", "keep first"]))
    if form == "permanent":
        return link
    first = form == "keep first"
    frames = {"frames0": draw(st.integers(1, 9)), "frames1": draw(st.one_of(st.integers(1, 9), st.just(255)))}
    return replace(link, enabled0=first, enabled1=not first, **frames)


@MORE_EXAMPLES
@given(links())
def test_decode_restores_what_encode_wrote(link: Link) -> None:
    assert switch.decode_link(*switch.encode_link(link)) == link


@EXAMPLES
@given(ports, st.integers(0, 0xFFFFFFFF))
def test_words_survive(place: tuple[str, int], word: int) -> None:
    word &= ~0b1100_0000 & ~(1 << 22)  # bits that no field has
    link0, link1 = word >> 1 & 31, word >> 17 & 31
    chosen = link0 if word & 1 else link1
    if not word & 0x10001 or chosen not in regs.SOURCE_NAMES or chosen >= 24:
        return
    link = switch.decode_link(regs.SWITCH_PORTS[place], word)
    assert link is not None and switch.encode_link(link) == (regs.SWITCH_PORTS[place], word)


@MORE_EXAMPLES
@given(links(), st.integers(0, 40))
def test_contexts_equal_the_scalar_model(link: Link, frames: int) -> None:
    expected = scalar.passed_frames(link.enabled0, link.frames0, link.enabled1, link.frames1, frames)
    kept = switch.kept_frames(link, frames)
    assert list(range(frames) if kept is None else kept) == expected
    data = np.arange(frames * 3, dtype=np.int16).reshape(frames, 3)
    assert words_of(switch.route(link, Stream(data))) == [3 * k + n for k in expected for n in range(3)]


def test_repeated_frames_are_routed_by_position() -> None:
    """A stream may store a frame once and repeat it: the gate counts frames on the link."""
    stream = Stream(np.array([[1], [2]], np.int8), np.array([0, 0, 1, 1, 0]))
    link = Link("STRENG0", "ARITH0", 0, enabled0=False, frames0=1, enabled1=True, frames1=1)
    assert words_of(switch.route(link, stream)) == [1, 2]


def test_a_port_that_is_off_is_no_link() -> None:
    assert switch.decode_link(2, 0x0000_0012) is None
    assert switch.decode_link(0, 1) is None and switch.decode_link(500, 1) is None


@pytest.mark.parametrize("number", [27, 28, 31])
def test_sources_that_do_not_exist_raise(number: int) -> None:
    with pytest.raises(NotModelledError, match=f"{number:#x}"):
        switch.decode_link(2, 1 | number << 1)


@pytest.mark.parametrize(
    "changes",
    [
        {"tick_type": 1},
        {"tick_type": 1, "frames0": 2, "frames1": 3},
        {"enabled1": True, "frames0": 2, "frames1": 3},  # two sources in turns: never seen
    ],
)
def test_unknown_modes_raise_with_their_value(changes: dict[str, int]) -> None:
    link = Link("STRENG0", "ARITH0", 0, **changes)
    with pytest.raises(NotModelledError) as raised:
        switch.kept_frames(link, 4)
    assert f"{switch.encode_link(link)[1]:#x}" in str(raised.value) and "ARITH0:0" in str(raised.value)


def test_a_disabled_context_that_lasts_for_ever_lets_nothing_pass() -> None:
    """Counts zero mean context 0 permanently; with only context 1 enabled no frame passes."""
    link = Link("STRENG0", "ARITH0", 0, enabled0=False, enabled1=True)
    try:
        kept = switch.kept_frames(link, 4)
    except NotModelledError:
        return
    assert kept is not None and list(kept) == []


@pytest.mark.parametrize("kind", ["DECUN", "RECBUF"])
def test_units_that_no_network_uses_raise(kind: str) -> None:
    config = decompress.decode(kind, {2: 5})
    with pytest.raises(NotModelledError, match=kind):
        decompress.check(config, f"{kind}0")
