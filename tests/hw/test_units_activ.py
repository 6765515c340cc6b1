"""ACTIV: threshold ReLU and table functions against the scalar model."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from atonc.machine.base.errors import NotModelledError
from atonc.machine.hw import regs
from atonc.machine.hw.units import activ
from atonc.machine.hw.units.activ import ActivConfig
from tests.hw import scalar_models as scalar
from tests.hw.unit_data import EXAMPLES, MORE_EXAMPLES, as_words, data_kinds, numbers

ALWAYS = {"feature_bytes": 1, "feature_out_bytes": 1, "out_bytes": 1, "rounded": 1, "saturated": 1, "round_mode": 1}
FUNCTION = {**ALWAYS, "type": activ.FUNCTION, "normalise": 8, "parameter": 0x7F80, "signed_operand": 1}

codes = st.integers(-128, 127)


def threshold_relu(parameter: int = -3, parameter2: int = -3) -> ActivConfig:
    return ActivConfig(**ALWAYS, type=activ.THRESHOLD_RELU, parameter=parameter, parameter2=parameter2)


@st.composite
def functions(draw) -> ActivConfig:
    rom0 = numbers(draw(data_kinds), activ.ROM0_ROWS, "uint8")
    rom1 = numbers(draw(data_kinds), 3 * activ.ROM1_ROWS, "int16")
    return ActivConfig(
        **FUNCTION,
        index_bits=draw(st.integers(0, 5)),
        out_shift=draw(st.integers(0, 40)),
        shift_b=draw(st.integers(0, 31)),
        shift_c=draw(st.integers(0, 40)),
        rom0=rom0.tobytes(),
        rom1=rom1.astype("<i2").tobytes(),
    )


def _tables(config: ActivConfig) -> tuple[list[int], list[tuple[int, int, int]]]:
    rows = np.frombuffer(config.rom1, "<i2").reshape(-1, 3).tolist()
    return list(config.rom0), [(a, b, c) for a, b, c in rows]


@MORE_EXAMPLES
@given(functions(), data_kinds, st.sampled_from(["int8", "uint8", "int16"]))
def test_functions_equal_the_scalar_model(config: ActivConfig, kind: tuple[str, int], dtype: str) -> None:
    x = numbers(kind, 50, dtype)
    rom0, rom1 = _tables(config)
    assert activ.execute(config, x).tolist() == [scalar.activ(config, word, rom0, rom1) for word in as_words(x)]


@EXAMPLES
@given(functions())
def test_every_code_of_a_function(config: ActivConfig) -> None:
    rom0, rom1 = _tables(config)
    expected = [scalar.activ(config, code & scalar.WORD, rom0, rom1) for code in range(-128, 128)]
    assert activ.function_table(config).tolist() == expected


@MORE_EXAMPLES
@given(st.integers(-32768, 32767), codes, data_kinds)
def test_threshold_relu(parameter: int, parameter2: int, kind: tuple[str, int]) -> None:
    config, x = threshold_relu(parameter, parameter2), numbers(kind, 40, "int8")
    assert activ.execute(config, x).tolist() == [scalar.activ(config, word, [], []) for word in as_words(x)]


@EXAMPLES
@given(functions())
def test_decode_restores_what_encode_wrote(config: ActivConfig) -> None:
    rom0 = np.frombuffer(config.rom0, np.uint8)
    rom1 = np.frombuffer(config.rom1, "<i2").reshape(-1, 3)
    assert activ.decode(activ.encode(config), rom0, rom1) == config


@EXAMPLES
@given(st.integers(-32768, 32767), codes)
def test_decode_restores_a_threshold(parameter: int, parameter2: int) -> None:
    config = threshold_relu(parameter, parameter2)
    assert activ.decode(activ.encode(config)) == config


def test_a_sigmoid_shaped_table() -> None:
    """Two segments per half: lines with other slopes, as a compiler would write them."""
    rom1 = np.zeros((activ.ROM1_ROWS, 3), "<i2")
    rom1[:4] = [(0, 64, -64), (0, 128, 0), (0, 128, 0), (0, 64, 64)]
    rom0 = np.zeros(activ.ROM0_ROWS, np.uint8)
    rom0[:2] = [1 << 6 | 0, 1 << 6 | 2]
    config = ActivConfig(**FUNCTION, index_bits=1, out_shift=8, shift_c=6, rom0=rom0.tobytes(), rom1=rom1.tobytes())
    codes_in = np.array([-128, -65, -64, -1, 0, 1, 63, 64, 127], np.int8)
    # -128..-65: (64x - 4096)/256, -64..63: x/2, 64..127: (64x + 4096)/256; halves away from zero
    assert activ.execute(config, codes_in).tolist() == [-48, -32, -32, -1, 0, 1, 32, 32, 48]


@pytest.mark.parametrize("kind", [activ.RELU, activ.PRELU])
def test_types_that_no_compiler_emits_raise(kind: int) -> None:
    with pytest.raises(NotModelledError, match=f"TYPE = {kind:#x}"):
        activ.execute(replace(threshold_relu(), type=kind), np.zeros(4, np.int8))


@pytest.mark.parametrize(
    ("changes", "shown"),
    [
        ({"feature_bytes": 2}, "FBYTES/OBYTES = 0x12"), ({"out_bytes": 2}, "FBYTES/OBYTES = 0x21"),
        ({"feature_shift": 15}, "FSHIFT = 0xf"), ({"feature_shift": 17}, "FSHIFT = 0x11"),
        ({"parameter": 0x7F00}, "ACTIVPARAM = 0x87f00"), ({"normalise": 7}, "ACTIVPARAM = 0x77f80"),
        ({"index_bits": 6}, "FUNC = 0x3000000"), ({"index_bits": 7}, "FUNC = 0x3800000"),
    ],
)  # fmt: skip
def test_unknown_modes_raise_with_their_value(changes: dict[str, int], shown: str) -> None:
    tables = {"rom0": bytes(activ.ROM0_ROWS), "rom1": bytes(6 * activ.ROM1_ROWS)}
    config = ActivConfig(**{**FUNCTION, "index_bits": 3, **changes}, **tables)
    with pytest.raises(NotModelledError) as raised:
        activ.execute(config, np.zeros(4, np.int8), "ACTIV1")
    assert shown in str(raised.value) and "ACTIV1" in str(raised.value)


@pytest.mark.parametrize("changes", [{"round_mode": 0}, {"round_mode": 2}, {"round_mode": 3}])
def test_rounding_modes_raise_with_their_value(changes: dict[str, int]) -> None:
    tables = {"rom0": bytes(activ.ROM0_ROWS), "rom1": bytes(6 * activ.ROM1_ROWS)}
    with pytest.raises(NotModelledError, match=f"ORNDMODE = {changes['round_mode']:#x}"):
        activ.execute(ActivConfig(**{**FUNCTION, "index_bits": 3, **changes}, **tables), np.zeros(4, np.int8))


def test_the_offset_register_was_never_seen_set() -> None:
    register = regs.registers("ACTIV")["FSUB"]
    config = activ.decode({**activ.encode(threshold_relu()), register.index: 0x55})
    with pytest.raises(NotModelledError, match=r"FSUB\.FSUB = 0x55"):
        activ.execute(config, np.zeros(4, np.int8))
