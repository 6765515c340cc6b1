"""Links and chains as data: texts are canonical, evidence is what the study says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atonc.machine.hw import links
from atonc.machine.hw import links as chains
from atonc.machine.hw import links as proven
from atonc.machine.hw.epoch import Epoch
from atonc.machine.hw.links import Level, LinkKind
from atonc.machine.hw.safety import mode_keys
from atonc.machine.hw.safety.evidence.table import programs
from atonc.machine.hw.units.switch import Link
from tests.hw import safety_epochs as legal
from tests.hw.chain_reader import read_chain
from tests.hw.safety_parts import gated, limited

DATA = Path(proven.__file__).parent / "safety" / "data"
LARGEST_FILE = 100_000
LARGEST_SHARE = 1_500  # bytes of the evidence for each program behind it


def only_text(epoch: Epoch) -> str:
    (text,) = chains.texts(epoch).values()
    return text


@pytest.mark.parametrize("text", chains.proven_chains())
def test_every_proven_chain_reads_and_writes_back(text: str) -> None:
    assert only_text(read_chain(text)) == text


@given(st.sampled_from(sorted(chains.proven_chains())), st.randoms(use_true_random=False))
def test_the_text_does_not_depend_on_numbers_and_order(text: str, chance: object) -> None:
    epoch = read_chain(text)
    names: dict[str, str] = {}
    for kind in {config.KIND for config in epoch.units.values()}:
        mine = [name for name, config in epoch.units.items() if kind == config.KIND]
        mixed = list(mine)
        chance.shuffle(mixed)  # type: ignore[attr-defined]
        names |= dict(zip(mine, mixed, strict=True))
    units = [(names[name], config) for name, config in epoch.units.items()]
    wired = [replace(k, source=names[k.source], destination=names[k.destination]) for k in epoch.links]
    chance.shuffle(units)  # type: ignore[attr-defined]
    chance.shuffle(wired)  # type: ignore[attr-defined]
    assert only_text(Epoch(1, dict(units), tuple(wired), ())) == text


def test_texts_of_epochs_built_by_hand() -> None:
    assert only_text(legal.convolution()) == "[f=IN k=IN]>CONVACC>ARITH>ARITH>OUT"
    assert only_text(legal.ring()) == "~[f=IN k=IN a=CONVACC#1]>CONVACC#1>ARITH>ARITH>OUT"
    loop = "~[f=IN k=IN a=IN]>CONVACC#1>ARITH>ARITH>OUT ; CONVACC#1>OUT"
    assert only_text(legal.memory_loop()) == loop


def test_counts_are_those_of_the_study() -> None:
    assert len(proven.networks()) == 114
    assert sum(network.shipped for network in proven.networks()) == 24
    assert len(chains.proven_chains()) == 368
    assert len(chains.proven_topologies()) == 805
    assert sum(found.level == Level.SHIPPED for found in chains.proven_chains().values()) == 156
    assert len(links.proven_links()) == 27
    assert [len(mode_keys.proven_modes(k)) for k in ("CONVACC", "ARITH", "ACTIV", "POOL", "STRENG")] == [
        134,
        26,
        2,
        7,
        101,
    ]


def test_evidence_of_links() -> None:
    assert links.evidence(LinkKind("STRENG", "CONVACC", 1)).level == Level.SHIPPED
    assert links.evidence(LinkKind("POOL", "CONVACC", 0)).level == Level.SEEN
    assert links.evidence(LinkKind("ACTIV", "CONVACC", 0)).level == Level.NEVER
    assert links.proven_links()[LinkKind("STRENG", "CONVACC", 1)].epochs == 5460
    assert str(LinkKind("ARITH", "CONVACC", 2)) == "ARITH -> CONVACC (accumulator)"
    assert str(links.evidence(LinkKind("POOL", "CONVACC", 0))).startswith("seen: 11 times in 6 networks")


def test_evidence_of_multicasts() -> None:
    assert links.multicast_evidence("STRENG", ["CONVACC:1"] * 4).shipped == 22
    assert links.multicast_evidence("ARITH", ["STRENG:0", "ARITH:0"]).level == Level.SHIPPED
    assert links.multicast_evidence("ARITH", ["CONVACC:0"] * 3).level == Level.NEVER


def test_evidence_of_modes() -> None:
    epoch = legal.convolution()
    assert mode_keys.evidence(epoch.units["CONVACC0"]).shipped == 18
    assert mode_keys.evidence(epoch.units["STRENG5"], "to CONVACC:1").level == Level.SHIPPED
    assert mode_keys.evidence(epoch.units["STRENG5"], "to POOL:0").level == Level.NEVER


def test_forms_of_contexts() -> None:
    assert links.context_form(Link("ARITH0", "ARITH1", 0)) == links.PERMANENT
    assert links.context_form(gated("CONVACC0", "ARITH0", 0, 3, 1)) == links.LAST_OF_GROUP
    assert links.context_form(gated("CONVACC0", "ARITH0", 0, 4, 2)) == links.PART_OF_GROUP
    assert links.context_form(limited("ARITH0", "CONVACC0", 5)) == links.FIRST_FRAMES
    assert links.context_form(replace(limited("ARITH0", "CONVACC0", 5), enabled1=True)) is None
    assert set(links.contexts()) == {links.PERMANENT, links.LAST_OF_GROUP, links.PART_OF_GROUP, links.FIRST_FRAMES}


def test_data_files_stay_small() -> None:
    sizes = {path.name: path.stat().st_size for path in DATA.glob("*.json")}
    assert set(sizes) == {"evidence.json", "links.json", "modes.json", "networks.json", "chains.json"}
    assert sizes.pop("evidence.json") < LARGEST_SHARE * len(programs())
    assert max(sizes.values()) < LARGEST_FILE


def test_a_link_to_a_unit_that_does_nothing_joins_no_chains() -> None:
    text = min(chains.proven_chains(), key=len)
    epoch = read_chain(text)
    some = next(iter(epoch.units))
    idle = [Link("ARITH3", some, 0), Link(some, "ARITH3", 0)]
    assert not {"ARITH3"} & set(epoch.units)
    assert chains.split(replace(epoch, links=(*epoch.links, *idle))) == chains.split(epoch)
