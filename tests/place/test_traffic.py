"""What each step moves, and what it takes wherever its buffers lie."""

from __future__ import annotations

from atonc.compiler.place import board
from atonc.compiler.place.cost import traffic_of
from atonc.compiler.place.lifetimes import lifetimes
from atonc.compiler.plan.types import BufferKind
from tests.place.plans import Steps

DK = board("stm32n6570-dk")


def test_epochs_move_bytes_and_the_processor_none() -> None:
    steps = Steps()
    steps.buffer("x", 500, BufferKind.INPUT)
    steps.buffer("y", 300)
    steps.buffer("z", 200, BufferKind.OUTPUT)
    steps.epoch(["x", steps.buffer("w", 4000, BufferKind.CONSTANT)], ["y"])
    steps.cpu(["y"], ["z"])
    lives = lifetimes(steps.planned)
    ram = [life for life in lives if life.buffer.kind != BufferKind.CONSTANT]
    traffic = traffic_of(steps.plans, steps.buffers, {}, ram, DK)
    numbers = {life.buffer.name: number for number, life in enumerate(ram)}
    assert list(traffic.moves) == [{(numbers["x"], False): 504, (numbers["y"], True): 304}, {}], "whole beats"
    assert traffic.steps == {numbers["x"]: (0,), numbers["y"]: (0,)}
    (flash,) = DK.read_only
    assert list(traffic.floor) == [4000 * DK.byte_cycles(flash), 0.0] and traffic.floor[0] > 4000, "flash is slower"
