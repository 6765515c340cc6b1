"""Passes of the schedule can be left out by name."""

from __future__ import annotations

import pytest

from atonc.errors import InputError
from atonc.options import Options
from atonc.schedule import PASSES


def test_every_pass_can_be_left_out() -> None:
    assert Options(schedule_without=tuple(PASSES)).schedule_without == tuple(PASSES)


def test_a_wrong_name_is_refused_with_the_right_ones() -> None:
    with pytest.raises(InputError) as refused:
        Options(schedule_without=("lane",))
    assert "did you mean lanes?" in str(refused.value) and ", ".join(PASSES) in str(refused.value)
