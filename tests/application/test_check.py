"""Planted faults of a plan: each is found, and by the rule that it breaks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from atonc.compiler.emit.c.files import files
from atonc.delivery.application import building
from atonc.delivery.application.check import Named, TouchedMemory, check, require_sound, touched_by
from atonc.delivery.application.types import Application, FlashSlot, Reservation
from atonc.delivery.generate.generating import c_network
from atonc.machine.base.disk import write_files
from atonc.machine.base.errors import ModelError
from atonc.machine.base.spans import Span
from atonc.machine.hw.board import find_board
from tests.application.made import plan

BOARD = find_board("stm32n6570-dk")
Planned = tuple[Application, list[FlashSlot], list[TouchedMemory]]


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Planned:
    """What the files of a plan with survivors and weights in RAM say."""
    found, folder = plan("all"), tmp_path_factory.mktemp("files")
    for one in found.networks:
        write_files(folder, files(c_network(building.network_view(found, one))))
    touched = [touched_by(folder, one.name, BOARD) for one in found.networks]
    return found.application, [one.slot for one in found.networks], touched


def test_a_plan_is_sound(sound: Planned) -> None:
    _, _, (first, second) = sound
    assert check(*sound, BOARD) == []
    assert first.residents and second.residents and first.constants and first.inputs and first.outputs
    assert any(what.startswith("STRENG") for what, _ in first.others)
    assert any("epoch" in what and not what.startswith("STRENG") for what, _ in first.others)  # the softmax


def test_files_that_are_missing(sound: Planned) -> None:
    application, slots, (first, _) = sound
    assert [one.where for one in check(application, slots, [first], BOARD)] == ["second"]


# ------------------------------------------------------------------------------------------------------ planted faults


def at(named: Named, start: int) -> Named:
    return named[0], (start, start + named[1][1] - named[1][0])


def moved(
    side: str, onto: Callable[[TouchedMemory, TouchedMemory], Span], who: int = 1
) -> Callable[[Planned], Planned]:
    """The first range of one kind of a network begins where something of another lies."""

    def plant(sound: Planned) -> Planned:
        application, slots, touched = sound
        one, other = touched[who], touched[1 - who]
        ranges = getattr(one, side)
        new = replace(one, **{side: (at(ranges[0], onto(one, other)[0]), *ranges[1:])})
        return application, slots, [new, other] if who == 0 else [other, new]

    return plant


def slots_as(change: Callable[[FlashSlot, FlashSlot], tuple[FlashSlot, ...]]) -> Callable[[Planned], Planned]:
    return lambda sound: (sound[0], list(change(*sound[1])), sound[2])


def reserved(where: Callable[[TouchedMemory], Span]) -> Callable[[Planned], Planned]:
    def plant(sound: Planned) -> Planned:
        start, end = where(sound[2][0])
        return replace(sound[0], reserved=(Reservation("camera", start, end),)), sound[1], sound[2]

    return plant


def engine_at(span: Callable[[TouchedMemory], Span]) -> Callable[[Planned], Planned]:
    """A program of the second network reads or writes something of the first."""

    def plant(sound: Planned) -> Planned:
        application, slots, (first, second) = sound
        strange = "STRENG5 of epoch 2", span(first)
        return application, slots, [first, replace(second, others=(*second.others, strange))]

    return plant


STAYS, SURVIVES = "weights in RAM stay", "must survive"
FAULTS: dict[str, tuple[Callable[[Planned], Planned], str]] = {
    "output on a survivor": (moved("outputs", lambda own, other: other.outputs[0][1]), SURVIVES),
    "buffer on a survivor": (moved("others", lambda own, other: other.outputs[0][1]), SURVIVES),
    "engine on the last byte of a survivor": (
        engine_at(lambda first: (first.outputs[0][1][1] - 1, first.outputs[0][1][1])), SURVIVES,
    ),
    "resident on a survivor": (moved("residents", lambda own, other: other.inputs[0][1]), SURVIVES),
    "survivor in working memory": (moved("inputs", lambda own, other: other.others[0][1]), SURVIVES),
    "input on output that both survive": (
        moved("inputs", lambda own, other: own.outputs[0][1], who=0), "survive the same run are apart",
    ),
    "copy on the copy of another": (moved("residents", lambda own, other: other.residents[0][1]), STAYS),
    "copy on the input of another": (moved("residents", lambda own, other: other.inputs[0][1], who=0), STAYS),
    "copy on own output": (moved("residents", lambda own, other: own.outputs[0][1], who=0), STAYS),
    "output on a copy": (moved("outputs", lambda own, other: other.residents[0][1]), STAYS),
    "engine on a copy": (engine_at(lambda first: first.residents[0][1]), STAYS),
    "constants on constants": (moved("constants", lambda own, other: other.constants[0][1]), "in the slot of their"),
    "engine in a strange slot": (engine_at(lambda first: first.constants[0][1]), "only their own slot"),
    "slots overlap": (slots_as(lambda a, b: (replace(a, end=b.start + 1), b)), "a slot of its own"),
    "slot is missing": (slots_as(lambda a, b: (a,)), "a slot of its own"),
    "slot is too small": (slots_as(lambda a, b: (replace(a, end=a.start + 64), b)), "in the slot of their"),
    "slot in RAM": (slots_as(lambda a, b: (a, FlashSlot("second", 0x3420_0000, 0x3421_0000))), "slots lie in flash"),
    "slot on the application's image": (
        slots_as(lambda a, b: (FlashSlot("first", 0x7020_0000, 0x7040_0000), b)), "other images in flash",
    ),
    "slot behind the flash": (slots_as(lambda a, b: (a, replace(b, end=0x7800_0001))), "slots lie in flash"),
    "input in reserved memory": (reserved(lambda first: first.inputs[0][1]), "what is reserved"),
    "engine in reserved memory": (
        reserved(lambda first: next(span for what, span in first.others if what.startswith("STRENG"))), "reserved",
    ),
    "no memory there": (engine_at(lambda first: (0x3600_0000, 0x3600_0010)), "memories of the board"),
    "past the end of a memory": (engine_at(lambda first: (0x91FF_FFF0, 0x9200_0010)), "memories of the board"),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found(sound: Planned, name: str) -> None:
    plant, rule = FAULTS[name]
    found = check(*plant(sound), BOARD)
    assert any(rule in one.rule for one in found), [one.rule for one in found]
    with pytest.raises(ModelError):
        require_sound(found)


def test_there_are_enough_of_them() -> None:
    assert len(FAULTS) >= 20


def test_nothing_but_files_is_read(tmp_path: Path) -> None:
    """The checker imports nothing of the planner."""
    import atonc.delivery.application.check as module

    text = Path(module.__file__).read_text()
    assert not any(name in text for name in ("planning", "plan_types", "residents import", "application.memory"))
