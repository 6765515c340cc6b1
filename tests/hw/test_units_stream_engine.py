"""STRENG: every addressing mode against the scalar model; what nobody has observed raises."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from atonc.machine.base.errors import InputError, NotModelledError
from atonc.machine.hw import regs
from atonc.machine.hw.cycles import traffic
from atonc.machine.hw.footprint import touched
from atonc.machine.hw.four_bits import FourBits
from atonc.machine.hw.stream import Stream
from atonc.machine.hw.units import stream_engine
from atonc.machine.hw.units.stream_engine import StrengConfig
from tests.hw import scalar_models as scalar
from tests.hw.unit_data import EXAMPLES, MORE_EXAMPLES, data_kinds, flag, numbers, words_of

BASE = 0x3420_0000
MEMORY = 1 << 17
MIDDLE = BASE + MEMORY // 2
SIZES = {1: (8, 0, 0), 2: (8, 8, 0), 3: (8, 8, 8)}


def engine(**changes: int) -> StrengConfig:
    """A raw 8-bit reader of one frame, changed as told."""
    plain = {"raw": 1, "size0": 8, "address": MIDDLE, "fsize_low": 4, "frames": 1, "frame_limit_enabled": 1}
    return StrengConfig(**{**plain, **changes})


@st.composite
def element_sizes(draw, readers: bool) -> dict[str, int]:
    size = draw(st.sampled_from([1, 1, 2, 3]))
    size0, size1, size2 = SIZES[size]
    signs = draw(flag) if readers and size < 3 else 0
    return {"size0": size0, "size1": size1, "size2": size2, "align_right": signs, "sign_extend": signs}


@st.composite
def frame_loops(draw) -> dict[str, int]:
    return {
        "frames": draw(st.integers(1, 7)),
        "frame_offset": draw(st.integers(-200, 200)),
        "frame_repeat": draw(st.integers(0, 5)),
        "repeat_offset": draw(st.integers(-300, 300)),
    }


@st.composite
def readers(draw) -> StrengConfig:
    config = {**draw(element_sizes(readers=True)), **draw(frame_loops()), "frame_limit_enabled": 1}
    config["address"] = MIDDLE + draw(st.integers(-64, 64))
    config["cacheable"], config["sync"], config["sync_source"] = draw(flag), draw(flag), draw(st.integers(0, 9))
    if draw(st.booleans()):
        config |= {"raw": 1, "continuous": draw(flag), "fsize_low": draw(st.integers(1, 40))}
    else:
        line, pixel = draw(st.integers(-400, 400)), draw(st.integers(0, 70))
        config |= {"fsize_high": draw(st.integers(1, 4)), "fsize_low": draw(st.integers(1, 5))}
        config |= {"depth": draw(st.integers(1, 5)), "pixel_offset_low": pixel, "raw_out": draw(flag)}
        config |= {"line_offset_low": line & 0xFFFF, "line_offset_high": line >> 16 & 0xFFFF}
    return StrengConfig(**config)


@st.composite
def writers(draw) -> StrengConfig:
    """Frames, lines, pixels in any nesting order without overlap: raster, planes, or transposed."""
    sizes = draw(element_sizes(readers=False))
    size = sum(1 for key in ("size0", "size1", "size2") if sizes[key])
    if draw(st.integers(0, 3)) == 0:
        raw = {"raw": 1, "continuous": 1, "fsize_low": draw(st.integers(1, 40)), "frames": draw(st.integers(1, 5))}
        return StrengConfig(**sizes, **raw, to_memory=1, frame_limit_enabled=1, address=MIDDLE)
    counts = {"depth": draw(st.integers(1, 4)), "pixel": draw(st.integers(1, 4)), "line": draw(st.integers(1, 4))}
    counts |= {"frame": draw(st.integers(1, 3)), "turn": draw(st.integers(1, 3))}
    steps, reach = {"depth": size}, size * counts["depth"]
    for axis in draw(st.permutations(["pixel", "line", "frame", "turn"])):
        steps[axis] = reach + draw(st.integers(0, 3))
        reach = steps[axis] * counts[axis]
    for axis in ("line", "frame", "turn"):
        if draw(st.integers(0, 4)) == 0:
            steps[axis] = -steps[axis]
    line = steps["line"]
    return StrengConfig(
        **sizes,
        to_memory=1,
        address=MIDDLE,
        fsize_high=counts["line"],
        fsize_low=counts["pixel"],
        depth=counts["depth"],
        pixel_offset_low=steps["pixel"] & 0xFFFF,
        pixel_offset_high=steps["pixel"] >> 16,
        line_offset_low=line & 0xFFFF,
        line_offset_high=line >> 16 & 0xFFFF,
        frames=counts["frame"] * counts["turn"],
        frame_repeat=counts["frame"],
        frame_offset=steps["frame"],
        repeat_offset=steps["turn"],
        frame_limit_enabled=1,
    )


@MORE_EXAMPLES
@given(st.one_of(readers(), writers()))
def test_decode_restores_what_encode_wrote(config: StrengConfig) -> None:
    assert stream_engine.decode(stream_engine.encode(config)) == config


@EXAMPLES
@given(st.lists(st.integers(0, 0xFFFFFFFF), min_size=19, max_size=19))
def test_any_register_values_survive(values: list[int]) -> None:
    config = stream_engine.decode({index: value for index, value in enumerate(values) if index != 1})
    assert stream_engine.decode(stream_engine.encode(config)) == config


@MORE_EXAMPLES
@given(readers(), data_kinds)
def test_read_equals_the_scalar_model(config: StrengConfig, kind: tuple[str, int]) -> None:
    memory = numbers(kind, MEMORY, "uint8")
    stream = stream_engine.read(config, memory, BASE)
    assert words_of(stream) == scalar.engine_read(config, memory.tobytes(), BASE)
    assert (stream.frames, stream.elements) == (config.frames, config.elements)


@MORE_EXAMPLES
@given(writers(), data_kinds, st.sampled_from(["int8", "int16", "int32"]), st.integers(0, 5))
def test_write_equals_the_scalar_model(config: StrengConfig, kind: tuple[str, int], dtype: str, surplus: int) -> None:
    """The producer's elements may be wider than the memory's, its frames other ones, and it may yield too many."""
    values = numbers(kind, config.elements + surplus, dtype)
    memory, expected = np.zeros(MEMORY, np.uint8), bytearray(MEMORY)
    stream_engine.write(config, Stream(values.reshape(1, -1)), memory, BASE)
    scalar.engine_write(config, [int(v) & scalar.WORD for v in values], expected, BASE)
    assert memory.tobytes() == bytes(expected)


@EXAMPLES
@given(readers().filter(lambda config: not config.sign_extend), writers(), data_kinds)
def test_copies_between_engines(reader: StrengConfig, writer: StrengConfig, kind: tuple[str, int]) -> None:
    """A writer takes whole words, also those that were read three bytes at a time."""
    memory = numbers(kind, MEMORY, "uint8")
    stream = stream_engine.read(reader, memory, BASE)
    writer = replace(writer, frames=min(writer.frames, stream.elements // writer.frame_elements))
    if not writer.frames:
        return
    target, expected = np.zeros(MEMORY, np.uint8), bytearray(MEMORY)
    stream_engine.write(writer, stream, target, BASE)
    scalar.engine_write(writer, scalar.engine_read(reader, memory.tobytes(), BASE), expected, BASE)
    assert target.tobytes() == bytes(expected)


@pytest.mark.parametrize("repeat", [0, 2])
def test_the_last_frame_at_an_address_wins(repeat: int) -> None:
    """The accumulator loop through memory writes every frame to the same place."""
    config = engine(to_memory=1, frames=6, frame_offset=0 if repeat == 0 else 8, frame_repeat=repeat)
    memory, expected = np.zeros(MEMORY, np.uint8), bytearray(MEMORY)
    values = np.arange(1, 25, dtype=np.int8)
    stream_engine.write(config, Stream(values.reshape(6, 4)), memory, BASE)
    scalar.engine_write(config, values.tolist(), expected, BASE)
    assert memory.tobytes() == bytes(expected)


def test_later_frames_overwrite_earlier_ones() -> None:
    config = engine(to_memory=1, frames=2, frame_offset=-2)
    memory, expected = np.zeros(MEMORY, np.uint8), bytearray(MEMORY)
    values = np.arange(1, 9, dtype=np.int8)
    stream_engine.write(config, Stream(values.reshape(2, 4)), memory, BASE)
    scalar.engine_write(config, values.tolist(), expected, BASE)
    assert memory.tobytes() == bytes(expected)


def test_offsets_above_16_bits() -> None:
    """Line and pixel steps have upper halves in other registers."""
    memory = numbers(("random", 1), MEMORY, "uint8")
    config = StrengConfig(size0=8, address=BASE, fsize_high=1, fsize_low=2, depth=2, frames=1, frame_limit_enabled=1)
    pixels = replace(config, pixel_offset_high=1, pixel_offset_low=0x10)
    lines = replace(config, fsize_high=2, fsize_low=1, line_offset_high=1, line_offset_low=0x20)
    for wide in (pixels, lines):
        assert words_of(stream_engine.read(wide, memory, BASE)) == scalar.engine_read(wide, memory.tobytes(), BASE)


def test_channels_are_broadcast_by_repeating_a_frame() -> None:
    """A 1x1xC tensor as raw frames of b elements, each FRAME_RPT times: FOFFSET 0, FRPTOFF b."""
    memory = np.arange(MEMORY, dtype=np.uint8)
    config = engine(address=BASE, fsize_low=2, frames=9, frame_repeat=3, frame_offset=0, repeat_offset=2)
    assert words_of(stream_engine.read(config, memory, BASE)) == [0, 1] * 3 + [2, 3] * 3 + [4, 5] * 3


def test_span_covers_exactly_what_is_touched() -> None:
    config = engine(fsize_low=4, frames=6, frame_repeat=2, frame_offset=-8, repeat_offset=20)
    addresses = list(scalar.engine_addresses(config))
    assert config.span() == (min(addresses), max(addresses) + 1)


@pytest.mark.parametrize("address", [BASE - 1, BASE + MEMORY - 3, 0, 0xFFFF_FFFF])
def test_outside_memory_is_refused(address: int) -> None:
    with pytest.raises(InputError, match="outside the memory"):
        stream_engine.read(engine(address=address), np.zeros(MEMORY, np.uint8), BASE)


def _registers(field: str, value: int) -> dict[int, int]:
    register_name, name = field.split(".")
    register = regs.registers("STRENG")[register_name]
    bits = register.field(name)
    words = stream_engine.encode(engine())
    word = words.get(register.index, register.reset)
    words[register.index] = word & ~(bits.mask << bits.lsb) | value << bits.lsb
    return words


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("CTRL.NOINC", 1), ("CTRL.ISTART", 1), ("CTRL.SUBSAMPLE", 1), ("CTRL.DESCR", 1), ("CTRL.NOBLK", 1),
        ("CTRL.ROUND", 1), ("CTRL.BEFORCE", 1), ("CTRL.SERDES", 2), ("STRD.FGAP", 5), ("STRD.BGAP", 6),
        ("POS.POS0", 1), ("POS.POS1", 2), ("POS.POS2", 1), ("POS.WSWAP", 1), ("POS.HSWAP", 1), ("POS.BSWAP", 1),
        ("ENCR_LSB.ID_LSB", 7), ("ENCR_MSB.EN", 1), ("ENCR_MSB.KEY_SEL", 1), ("CID_CACHE.CID", 3),
        ("CID_CACHE.LINESIZE", 1), ("EXTSYNC.EN", 1), ("EXTSYNC.LINES", 9), ("STOPTAG.EN", 1),
        ("DESCRADDR.REG", 0x1234),
    ],
)  # fmt: skip
def test_unknown_settings_raise_with_their_value(field: str, value: int) -> None:
    config = stream_engine.decode(_registers(field, value))
    memory = np.zeros(MEMORY, np.uint8)
    for use in (
        lambda: stream_engine.read(config, memory, BASE, "STRENG3"),
        lambda: stream_engine.write(config, Stream(np.zeros((1, 4), np.int8)), memory, BASE, "STRENG3"),
    ):
        with pytest.raises(NotModelledError) as raised:
            use()
        assert field in str(raised.value) and f"{value:#x}" in str(raised.value) and "STRENG3" in str(raised.value)


@pytest.mark.parametrize("sizes", [(4, 0, 0), (1, 0, 0), (8, 4, 0), (8, 0, 8), (0, 8, 0), (8, 8, 4), (0, 0, 0)])
def test_other_element_sizes_raise(sizes: tuple[int, int, int]) -> None:
    config = engine(size0=sizes[0], size1=sizes[1], size2=sizes[2])
    value = sizes[0] | sizes[1] << 4 | sizes[2] << 8
    with pytest.raises(NotModelledError, match=f"{value:#x}"):
        stream_engine.read(config, np.zeros(MEMORY, np.uint8), BASE)


def test_an_endless_engine_raises() -> None:
    with pytest.raises(NotModelledError, match="FRAMELIMIT"):
        stream_engine.read(engine(frame_limit_enabled=0), np.zeros(MEMORY, np.uint8), BASE)


@pytest.mark.parametrize("changes", [{"sign_extend": 1}, {"align_right": 1}])
def test_sign_extension_was_only_seen_with_alignment(changes: dict[str, int]) -> None:
    with pytest.raises(NotModelledError):
        stream_engine.read(engine(**changes), np.zeros(MEMORY, np.uint8), BASE)


@EXAMPLES
@given(st.integers(1, 70), st.integers(-9, 9), st.booleans(), st.booleans(), st.integers(0, 1 << 32))
def test_four_bits_equal_the_scalar_model(words: int, shift: int, low_first: bool, deep: bool, seed: int) -> None:
    """An odd count ends in the middle of a byte; any byte may be the first. Deep: three values to a word."""
    memory = np.random.default_rng(seed).integers(0, 256, MEMORY).astype(np.uint8)
    config = engine(size0=4, align_right=1, sign_extend=1, fsize_low=words, address=MIDDLE + shift)
    config = replace(config, size1=4, size2=4, align_right=0, sign_extend=0) if deep else config
    wanted, count = [], 3 * words if deep else words
    for k in range(count):
        byte = int(memory[config.address - BASE + k // 2])
        half = byte & 15 if (k % 2 == 0) == low_first else byte >> 4
        wanted.append(half - 16 if half > 7 else half)
    found = stream_engine.read(config, memory, BASE, four_bits=FourBits(low_first, deep))
    assert (found.bytes().view(np.int8) if deep else found.flat()).tolist() == wanted
    assert found.elements == words and (found.word_bytes == 3) == deep
    assert config.span() == (config.address, config.address + -(-count // 2))
    assert touched(config, *config.span()).all() and config.frame_bytes == traffic.total_bytes(config) == -(-count // 2)


@pytest.mark.parametrize(
    "changes",
    [
        {"align_right": 0, "sign_extend": 0},
        {"frames": 2},
        {"raw": 0, "depth": 1, "fsize_high": 1},
        {"size1": 4},
        {"size1": 4, "size2": 4},
        {"size1": 4, "size2": 4, "align_right": 0, "sign_extend": 0},
    ],
)
def test_one_form_of_four_bits_is_modelled(changes: dict[str, int]) -> None:
    config = engine(**{"size0": 4, "align_right": 1, "sign_extend": 1, **changes})
    with pytest.raises(NotModelledError):
        stream_engine.read(config, np.zeros(MEMORY, np.uint8), BASE, four_bits=FourBits())


def test_four_bits_are_never_written() -> None:
    config = engine(size0=4, align_right=1, sign_extend=1, to_memory=1)
    with pytest.raises(NotModelledError):
        stream_engine.write(config, Stream(np.zeros((1, 4), np.int8)), np.zeros(MEMORY, np.uint8), BASE)
