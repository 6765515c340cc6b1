"""Configurations of units are copied with other values: like the constructor, only quicker."""

from __future__ import annotations

import dataclasses
from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from atonc.machine.hw import fields
from atonc.machine.hw.epoch import Epoch
from atonc.machine.hw.fields import changed
from atonc.machine.hw.units.activ import ActivConfig
from atonc.machine.hw.units.arith import ArithConfig
from atonc.machine.hw.units.convacc import ConvaccConfig
from atonc.machine.hw.units.pool import PoolConfig
from atonc.machine.hw.units.stream_engine import StrengConfig
from atonc.machine.hw.units.switch import Link


def test_changed_is_replace() -> None:
    engine = StrengConfig(to_memory=1, frames=3, unmodelled=(("CTRL.X", 1),))
    other = changed(engine, frames=5, address=64)
    assert other == replace(engine, frames=5, address=64) and hash(other) == hash(replace(engine, frames=5, address=64))
    assert type(other) is StrengConfig and engine.frames == 3
    assert changed(ArithConfig(a=2), table=b"1") == ArithConfig(a=2, table=b"1")


def test_what_follows_from_a_field_changes_with_it() -> None:
    engine = StrengConfig(frames=3, fsize_low=2, fsize_high=1, depth=4, size0=8)
    assert (engine.elements, engine.elements, engine.span()) == (24, 24, engine.span())
    other = changed(engine, frames=5, address=64)
    assert other.elements == 40 and other.span() == replace(engine, frames=5, address=64).span() != engine.span()
    assert engine == StrengConfig(frames=3, fsize_low=2, fsize_high=1, depth=4, size0=8)


@pytest.mark.parametrize("kind", [StrengConfig, ConvaccConfig, ArithConfig, PoolConfig, ActivConfig])
def test_nothing_derived_follows_from_fields_that_stand_alone(kind: Any) -> None:
    """Copies with others of them keep what was worked out."""
    names = [name for name, value in vars(kind).items() if isinstance(value, fields.derived)]
    own = {one.name for one in dataclasses.fields(kind)} & fields.ALONE
    numbers = {one.name: 1 + k % 3 for k, one in enumerate(dataclasses.fields(kind)) if isinstance(one.default, int)}
    config = kind(**numbers)
    for name, field in product(names, own):
        assert getattr(config, name) == getattr(replace(config, **{field: 7}), name), (name, field)
        assert name in vars(changed(config, **{field: 7}))


def test_a_field_that_does_not_exist_is_refused() -> None:
    with pytest.raises(TypeError, match="no field width"):
        changed(StrengConfig(), width=1)


def test_links_of_a_unit_keep_their_order() -> None:
    links = (Link("STRENG0", "CONVACC0", 0), Link("STRENG1", "CONVACC0", 1), Link("STRENG0", "CONVACC1", 0))
    epoch = Epoch(1, {}, links, ())
    assert epoch.destinations("STRENG0") == (links[0], links[2]) and epoch.destinations("CONVACC0") == ()
    assert epoch.sources("CONVACC0") == {0: links[0], 1: links[1]} and epoch.sources("STRENG0") == {}
    assert replace(epoch, links=links[:1]).destinations("STRENG0") == links[:1]


def test_what_no_field_declares_is_kept_and_named() -> None:
    register, (mask, reset) = next(iter(fields._undeclared_bits(StrengConfig).items()))
    assert not fields.decode(StrengConfig, {register: reset}).unmodelled
    lowest = mask & -mask
    assert fields.decode(StrengConfig, {register: reset ^ lowest}).unmodelled


def test_equal_words_mean_equal_configurations_with_their_own_extras() -> None:
    words = {0: 1, 2: 0x3420_0000}
    first, second = fields.decode(StrengConfig, words), fields.decode(StrengConfig, dict(words))
    assert first == second and first.address == 0x3420_0000
    one, other = (fields.decode(ArithConfig, {0: 0}, table=table) for table in (b"a", b"b"))
    assert (one.table, other.table) == (b"a", b"b")
