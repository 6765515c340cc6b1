"""From which step to which a memory holds something."""

from __future__ import annotations

from atonc.compiler.plan.lives import live_bytes, spans


def test_a_memory_lives_from_the_first_to_the_last_step_that_touches_it() -> None:
    assert spans([["a"], ["a", "b"], [], ["b"]]) == {"a": (0, 1), "b": (1, 3)}


def test_the_application_writes_before_the_first_step_and_reads_behind_the_last() -> None:
    touched = [["a"], ["x", "y"], ["b"]]
    assert spans(touched, starts=["x", "unused"], ends=["y"]) == {"a": (0, 0), "x": (0, 1), "y": (1, 2), "b": (2, 2)}


def test_bytes_at_every_step() -> None:
    assert live_bytes([(10, 0, 1), (5, 1, 2)]).tolist() == [10, 15, 5]
    assert live_bytes([(10, 0, 1)], steps=4).tolist() == [10, 10, 0, 0]
    assert live_bytes([]).tolist() == [0]
