"""Damaged calls end in one of our errors, and every call has a description."""

from __future__ import annotations

import copy
import random
from typing import Any

import pytest

from atonc.machine.base.errors import AtoncError
from atonc.machine.emu.bus import AddressSpace
from atonc.machine.emu.cpu import call_cost, describe_call, run_call
from atonc.machine.emu.cpu.families import KERNELS
from tests.kernels.kernel_examples import calls
from tests.kernels.three_ways import BASE, Memories
from tests.outcomes import Outcomes, figure

OURS = sorted(name for name in KERNELS if name.startswith("atonc_"))
JUNK: list[Any] = [
    None, -1, 0, 1, 255, 65536, 1 << 20, (1 << 31) - 1, 1 << 32, 1 << 62, -(1 << 31), 0.0, -2.5, 1e30, float("nan"),
    "text", [], [1], [0, 0, 0, 0], [1 << 31] * 6, [0.5] * 300, {}, {"type": 99}, BASE, BASE + 4000,
]  # fmt: skip


def execute(name: str, args: list[Any], memories: Memories) -> None:
    memory = AddressSpace()
    memory.add("ram", BASE, memories.bytes.size)
    run_call(name, args, memory)


@pytest.mark.parametrize("name", OURS)
def test_damaged_arguments(name: str, outcomes: Outcomes) -> None:
    _, args, memories = calls()[name]
    execute(name, list(args), memories)
    rng = random.Random(name)
    for _ in range(300):
        damaged = copy.deepcopy(list(args))
        spot = rng.randrange(len(damaged))
        value = damaged[spot]
        if isinstance(value, dict) and rng.random() < 0.7:
            value[rng.choice(sorted(value))] = rng.choice(JUNK)
        elif isinstance(value, list) and value and rng.random() < 0.7:
            value[rng.randrange(len(value))] = rng.choice(JUNK)
        else:
            damaged[spot] = rng.choice(JUNK)
        said = "computed"
        try:
            execute(name, damaged, memories)
        except AtoncError as error:
            said = error.what
        cycles, shown = call_cost(name, damaged).cpu_cycles, describe_call(name, damaged)
        assert said and cycles >= 0 and shown
        outcomes.add(said, figure(cycles), shown)


def test_words() -> None:
    assert describe_call("atonc_conv", calls()["atonc_conv"][1]) == "Conv 4x4x4 -> 4x4x4"
    assert describe_call("atonc_softmax_8", calls()["atonc_softmax_8"][1]) == "Softmax 8 128 values"
