from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atonc.compiler.lower.elementwise.tables import fit_table, fits
from atonc.compiler.lower.units.arith import output_bounds
from atonc.compiler.ops.functions import FUNCTIONS
from atonc.machine.hw.stream import finish
from atonc.machine.hw.units import activ

CODES = np.arange(-128, 128)
SMOOTH = ("logistic", "tanh", "hard_swish", "silu", "mish", "softplus", "exp", "sqrt", "square", "abs", "erf")


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(SMOOTH), st.floats(0.003, 0.4), st.integers(-128, 127), st.integers(-128, 127), st.floats(0.5, 2)
)
def test_smooth_functions_are_exact(name: str, scale: float, zero_in: int, zero_out: int, fill: float) -> None:
    with np.errstate(all="ignore"):
        real = np.nan_to_num(FUNCTIONS[name]((CODES - zero_in) * scale))
    step = max(float(np.abs(real).max()), 1e-9) / 127 * fill
    wanted = np.clip(np.floor(real / step + 0.5) + zero_out, -128, 127).astype(np.int8)
    found = fit_table(wanted)
    assert (found.error, found.wrong) == (0, 0)
    assert np.array_equal(found.codes, wanted)


@settings(max_examples=6, deadline=None)
@given(st.lists(st.integers(-128, 127), min_size=256, max_size=256))
def test_any_table_is_fitted_and_its_error_is_told(values: list[int]) -> None:
    wanted = np.array(values, np.int8)
    found = fit_table(wanted)
    activ.check(found.config, "ACTIV0")
    assert np.array_equal(activ.function_table(found.config), found.codes)
    assert found.error == np.abs(found.codes.astype(int) - wanted).max()


def test_other_tables_follow_the_best_with_smaller_coefficients() -> None:
    """The nearest first; what they tell of themselves holds, and none has an A beyond those of public networks."""
    wanted = np.clip(np.rint(1200 / (np.abs(CODES + 90) + 9)), -128, 127).astype(np.int64)
    best, *others = fits(wanted)
    assert best == fit_table(wanted) and others
    assert [table.error for table in others] == sorted(table.error for table in others)
    for table in others:
        assert np.abs(activ.function_table(table.config).astype(int) - wanted).max() == table.error >= best.error
        assert max(abs(row[0]) for rows in table.rows for row in rows) <= 24576


@pytest.mark.parametrize("step", [8, 16, 64])
def test_steps_between_cells_are_exact(step: int) -> None:
    wanted = (np.arange(256) // step * 37 % 251 - 125).astype(np.int8)
    assert fit_table(wanted).wrong == 0


def test_the_same_table_gives_the_same_rows() -> None:
    wanted = np.clip(np.rint(100 * np.sin(CODES / 40)), -128, 127).astype(np.int8)
    first = fit_table(wanted).config
    from atonc.compiler.lower.elementwise import tables

    tables._fit.cache_clear()
    assert fit_table(wanted).config == first


@pytest.mark.parametrize("shift", [0, 1, 5, 15])
def test_bounds_are_where_the_code_changes(shift: int) -> None:
    codes = np.arange(-127, 127)
    low, high = output_bounds(codes, shift)
    for sums, expected in ((low, codes), (high, codes), (low - 1, codes - 1), (high + 1, codes + 1)):
        assert np.array_equal(finish(sums, shift, 1, True, True), expected)
