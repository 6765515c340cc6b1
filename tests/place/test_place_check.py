"""The checker finds every fault that we plant in a good layout."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from atonc.compiler.place import Placed, board, place
from atonc.compiler.place.check import check, require_sound
from atonc.compiler.plan.findings import Finding
from atonc.compiler.plan.types import BufferKind
from atonc.machine.base.errors import ModelError
from tests.place.plans import Steps, chain, random_steps

DK = board("stm32n6570-dk")
Homes = dict[str, Placed]


def findings(steps: Steps, homes: Homes) -> list[Finding]:
    return check(homes, steps.plans, DK, steps.aliases, steps.inputs, steps.outputs)


def good() -> tuple[Steps, Homes]:
    steps = random_steps(5, 12, 30_000)
    layout = place(steps.planned, DK)
    assert findings(steps, dict(layout.placed)) == []
    return steps, dict(layout.placed)


FAULTS: dict[str, tuple[str, Callable[[Homes], Placed]]] = {
    "do not overlap": ("t3", lambda homes: replace(homes["t3"], address=homes["t2"].address)),
    "inside pools": ("t3", lambda homes: replace(homes["t3"], address=0x3440_0000)),
    "written lies in RAM": ("t3", lambda homes: replace(homes["t3"], address=0x7500_0000)),
    "outside the RAM of the chip": ("w3", lambda homes: replace(homes["w3"], address=0x3430_0000)),
    "64 bytes of memory follow": (
        "t3",
        lambda homes: replace(homes["t3"], address=(0x343C_0000 - homes["t3"].buffer.size_bytes) // 32 * 32),
    ),
    "96 bytes of memory follow": (
        "w3",
        lambda homes: replace(homes["w3"], address=(0x7800_0000 - 64 - homes["w3"].buffer.size_bytes) // 16 * 16),
    ),
    "multiples of": ("t3", lambda homes: replace(homes["t3"], address=0x343B_0008)),
    "only while it lives": ("t3", lambda homes: replace(homes["t3"], last=homes["t3"].first)),
    "inside their buffer": (
        "t3",
        lambda homes: replace(homes["t3"], buffer=replace(homes["t3"].buffer, size_bytes=16)),
    ),
    "inputs live from the first step": ("in", lambda homes: replace(homes["in"], first=1)),
    "outputs live to the last step": ("t11", lambda homes: replace(homes["t11"], last=3)),
    "constants are not written": (
        "t3",
        lambda homes: replace(homes["t3"], buffer=replace(homes["t3"].buffer, kind=BufferKind.CONSTANT)),
    ),
}


@pytest.mark.parametrize("rule", FAULTS)
def test_faults_are_found(rule: str) -> None:
    steps, homes = good()
    name, fault = FAULTS[rule]
    homes[name] = fault(homes)
    found = findings(steps, homes)
    assert any(rule in finding.rule for finding in found), found
    with pytest.raises(ModelError):
        require_sound(found)


def test_a_missing_address_is_found() -> None:
    steps, homes = good()
    del homes["t3"]
    assert any(f.rule == "every buffer has an address" and f.seen == "t3" for f in findings(steps, homes))


def test_reading_what_nobody_wrote_is_found() -> None:
    steps = chain(100, 200, 300)
    steps.buffer("ghost", 64)
    steps.epoch(["ghost"], ["t2"])
    layout = place(steps.planned, DK)
    assert [f.rule for f in findings(steps, dict(layout.placed))] == ["a buffer is written before it is read"]


def test_starts_in_between_are_for_the_npu_ram() -> None:
    steps = chain(100, 200, 300)
    steps.buffer("odd", 64)
    steps.epoch(["t1"], ["odd"], offset=8)
    layout = place(steps.planned, DK)
    homes = dict(layout.placed)
    assert findings(steps, homes) == []
    homes["odd"] = replace(homes["odd"], address=0x3410_0000, pool="cpuRAM2")
    assert [f.rule for f in findings(steps, homes)] == ["engines start at multiples of 16 outside the NPU's own RAM"]


def test_sharing_memory_is_no_overlap() -> None:
    steps = chain(100, 200, 300)
    steps.buffer("view", 200)
    steps.aliases["view"] = "t1"
    steps.epoch(["view"], ["t2"])
    layout = place(steps.planned, DK)
    assert layout.placed["view"].address == layout.placed["t1"].address
    assert findings(steps, dict(layout.placed)) == []
    steps.aliases.clear()
    assert any("overlap" in f.rule for f in findings(steps, dict(layout.placed)))


def test_what_is_read_in_a_step_may_not_be_overwritten_in_it() -> None:
    """t1 dies in the step in which t2 begins to live: both are there then."""
    steps = chain(64, 64, 64, 64)
    homes = dict(place(steps.planned, DK).placed)
    assert homes["t1"].last == homes["t2"].first
    homes["t2"] = replace(homes["t2"], address=homes["t1"].address)
    seen = [(found.rule, found.where) for found in findings(steps, homes)]
    assert ("buffers that live together do not overlap", "t1, t2") in seen
