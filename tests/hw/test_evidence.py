"""Every field of every unit is judged; what the first look found is found; published forms are seen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest

from atonc.machine.hw.fields import UnitConfig, places
from atonc.machine.hw.safety import all_rules
from atonc.machine.hw.safety.evidence import Feature, Grade, grade_epoch, grade_feature, grade_unit, unit_grade
from atonc.machine.hw.safety.evidence.arguments import ARGUMENTS
from atonc.machine.hw.safety.evidence.epochs import unit_features
from atonc.machine.hw.safety.evidence.table import behind, evidence, programs
from atonc.machine.hw.safety.evidence.trust import Trust
from atonc.machine.hw.safety.evidence.unit_features import any_value
from atonc.machine.hw.units.arith import MULTIPLY, ROWS, ArithConfig
from atonc.machine.hw.units.convacc import ConvaccConfig
from atonc.machine.hw.units.pool import GLOBAL_AVERAGE, PoolConfig
from atonc.machine.hw.units.stream_engine import StrengConfig
from tests.hw import safety_epochs as legal
from tests.hw.safety_parts import NPU_RAM3, NPU_RAM4, NPU_RAM5, affine, convacc, per_channel, reader, writer

RASTER = {"raw": 0, "fsize_low": 16, "fsize_high": 16, "depth": 8, "pixel_offset_low": 32, "line_offset_low": 512}


def pooling(**settings: Any) -> PoolConfig:
    config = legal.pooling().units["POOL0"]
    assert isinstance(config, PoolConfig)
    return replace(config, **settings)


def raster(
    make: Callable[..., StrengConfig], frames: int = 2, address: int = NPU_RAM5, **settings: Any
) -> StrengConfig:
    loop = {"frame_repeat": frames, "frame_offset": 8, "repeat_offset": 2048 * frames} if frames > 1 else {}
    return make(address, 2048, frames, **(RASTER | loop | settings))


def framed(**settings: Any) -> ConvaccConfig:
    """With padding by value, looped sums, filtered kernels: so that all of its fields matter."""
    return convacc(12, 12, 4, 8, (3, 3), frame_left=4, accumulator_filter=3, frames_per_sum=4, sum_last=3, **settings)


BASES: dict[str, list[tuple[UnitConfig, str]]] = {
    "STRENG": [
        (raster(reader, 8, frame_repeat=4, repeat_offset=4096), "to CONVACC:0"),
        (raster(writer, 2), "from ARITH"),
        (writer(NPU_RAM3, 512), "from ARITH"),
        (reader(NPU_RAM3, 512, 4), "to ARITH:0"),
    ],
    "CONVACC": [(convacc(12, 12, 8, 8, (3, 3), kernels_per_round=32, kernel_last=7), ""), (framed(), "")],
    "ARITH": [
        (affine(clip_out=1), ""),
        (per_channel(16, 32, 16, table=bytes(6 * ROWS)), ""),
        (per_channel(16, 32, 16, count3=0, table=bytes(6 * ROWS)), ""),
    ],
    "ACTIV": [(legal.activation().units["ACTIV0"], "")],
    "POOL": [(pooling(), "")],
}


def other_values(config: UnitConfig, name: str) -> list[Any]:
    value = getattr(config, name)
    if isinstance(value, bytes):
        return [b"\x41" + value[1:], b"\xff\x7f" * (len(value) // 2)]
    return [value + 1, value + 2, value + 3, 1 - value, value + 64, 0]


@pytest.mark.parametrize("kind", BASES)
def test_every_field_is_judged_or_excused(kind: str) -> None:
    excused = any_value()[kind]
    config_type = type(BASES[kind][0][0])
    declared = {name for name, _ in places(config_type)} | {f.name for f in fields(config_type) if f.type == "bytes"}
    for name in sorted(declared - excused.keys()):
        assert any(_changes(config, port, name) for config, port in BASES[kind]), f"{kind} {name} is judged by nothing"
    assert excused.keys() <= declared and all(len(why) > 20 for why in excused.values())


def _changes(config: UnitConfig, port: str, name: str) -> bool:
    before = set(unit_features(config, port, "on-chip"))
    for value in other_values(config, name):
        changed = replace(config, **{name: value})
        if set(unit_features(changed, port, "on-chip")) != before:
            return True
    return False


@pytest.mark.parametrize("name", legal.LEGAL)
def test_epochs_as_published_programs_have_them(name: str) -> None:
    found = grade_epoch(legal.LEGAL[name]())
    assert found.grade in (Grade.SEEN, Grade.WITHIN) and not found.forms


def mean(width: int, height: int) -> PoolConfig:
    whole = {"type": GLOBAL_AVERAGE, "window_x": 0, "window_y": 0, "multiplier": 20000, "out_shift": 18, "out_bytes": 2}
    size = {"line_elements": 8 * width, "height": height, "crop_right": 8 * width - 1, "crop_bottom": height - 1}
    return pooling(batch=8, **whole, **size, out_width=width + 1, out_height=height + 1)


def multiply(**settings: Any) -> ArithConfig:
    return affine(operation=MULTIPLY, dual_input=1, combine_bc=0, out_bytes=2, shift_out=0, **settings)


def deep(batch: int, feature_bytes: int, **settings: Any) -> ConvaccConfig:
    return convacc(6, 6, batch, 16, (1, 1), deep=1, kernel_set_enable=3, feature_bytes=feature_bytes, **settings)


# what an independent look at all registers of 20 builds had found: unit, its role, the name of the feature
FIRST_LOOK = {
    "1 MUL with A = B = C = 0": (multiply(a=0), "", "ARITH A B C"),
    "2 GAVG with OUTDIMS 1x1": (replace(mean(7, 7), out_width=1, out_height=1), "", "POOL OUTDIMS - expected"),
    "3 one frame in a loop": (raster(writer, 1, frame_repeat=1), "from ARITH", "STRENG FRAME_RPT"),
    "4 3x3 on a line": (convacc(8, 1, 8, 8, (3, 3)), "", "CONVACC H"),
    "4 3x3 on a column": (convacc(1, 8, 8, 8, (3, 3)), "", "CONVACC W"),
    "4 3x3 with two columns of padding": (convacc(8, 8, 8, 8, (3, 3), pad_left=2), "", "CONVACC pad left"),
    "6 deep with few channels": (deep(40, 1, no_sum=0, no_first_sum=0), "", "CONVACC B"),
    "6 deep and packed with few channels": (deep(24, 3), "", "CONVACC B"),
    "7 words of three bytes at odd addresses": (
        raster(reader, address=NPU_RAM5 + 1, element_bytes=3, depth=2),
        "to CONVACC:0",
        "STRENG address alignment",
    ),
    "8 pixel step": (raster(reader, pixel_offset_low=36864, pixel_offset_high=1), "to STRENG:0", "STRENG pixel step"),
    "8 raster width": (raster(reader, fsize_low=25600), "to STRENG:0", "STRENG raster width"),
    "8 raster depth": (raster(writer, depth=25600), "from STRENG", "STRENG raster depth"),
    "8 POOL 3x3 with eight channels": (pooling(batch=8, line_elements=96, crop_right=95), "", "POOL B"),
    "8 short frame read back": (
        reader(NPU_RAM4, 10, 4, element_bytes=2, frame_offset=0, sync=1, align_right=1, sign_extend=1),
        "to CONVACC:2",
        "STRENG read-back frame elements",
    ),
}


@pytest.mark.parametrize("what", FIRST_LOOK)
def test_what_the_first_look_found(what: str) -> None:
    config, port, name = FIRST_LOOK[what]
    unseen = {g.feature.name for g in grade_unit(config, port).features if g.grade == Grade.UNSEEN}
    assert name in unseen
    assert unit_grade(config, port) == Grade.UNSEEN
    assert unit_grade(config, port, but=tuple(unseen)) != Grade.UNSEEN


@pytest.mark.parametrize(
    ("config", "port"),
    [
        (multiply(a=1, b=1, c=1), ""),
        (mean(7, 7), ""),
        (deep(96, 1, no_sum=0, no_first_sum=0), ""),
        (deep(48, 3), ""),
        (raster(writer), "from ARITH"),
    ],
)
def test_the_published_form_beside_it_is_fine(config: UnitConfig, port: str) -> None:
    assert [str(g) for g in grade_unit(config, port).remarkable] == []


def test_programs_of_unusual_length() -> None:
    assert grade_feature(Feature("words of a blob", "", 266_762)).grade == Grade.UNSEEN
    assert grade_feature(Feature("words of a blob", "", 2)).grade != Grade.UNSEEN  # shorter is no other form


def test_neighbouring_writers_are_looked_at() -> None:
    """Two writers in the words of each other: rare, but in two demos that ST ships."""
    epoch = legal.addition()
    pair = {"STRENG7": raster(writer, address=NPU_RAM3), "STRENG8": raster(writer, address=NPU_RAM3 + 20)}
    view_of = replace(epoch, units={**epoch.units, **pair})
    found = evidence()["two writers"][""]
    assert found.seen["interleaved, words in common"].shipped == 2  # type: ignore[union-attr]
    assert grade_epoch(view_of).forms  # engines without links


class TestArguments:
    def test_few_and_complete(self) -> None:
        assert 0 < len(ARGUMENTS) <= 11
        assert [a.id for a in ARGUMENTS] == [f"S{n}" for n in range(1, len(ARGUMENTS) + 1)]
        for argument in ARGUMENTS:
            assert all(len(text) > 40 for text in (argument.allows, argument.why, argument.seen, argument.disproof))

    @pytest.mark.parametrize(
        ("argument", "feature"),
        [
            ("S2", Feature("CONVACC pads left right top bottom", "3x3/2", "0 1 0 0")),
            ("S3", Feature("CONVACC W", "3x3/1 simd1 F1", 300)),
            ("S3", Feature("POOL H", "max 3x3/1", 40)),
            ("S4", Feature("STRENG lines", "read", "gaps")),
            ("S4", Feature("STRENG line step", "read", 400_000)),
            ("S5", Feature("CONVACC FSUB", "signed", -128)),
            ("S5", Feature("ARITH A of a table", "AFFINE X1", -32_768)),
            ("S6", Feature("ARITH SHIFT RES", "AFFINE dual X2 Y2 O2", 14)),
            ("S7", Feature("reader and writer", "of one chain", "interleaved, no word in common")),
        ],
    )
    def test_composed(self, argument: str, feature: Feature) -> None:
        found = grade_feature(feature)
        assert (found.grade, found.argument) == (Grade.COMPOSED, argument) and found.seen

    @pytest.mark.parametrize(
        "feature",
        [
            Feature("chains side by side", "", "IN>OUT || IN>NOTHING"),
            Feature("CONVACC pads left right top bottom", "3x3/2", "0 2 0 0"),
            Feature("CONVACC W", "3x3/1 simd1 F1", 1),
            Feature("CONVACC W", "3x3/1 simd1 F1", 4726),
            Feature("CONVACC W x B", "several lines simd2 F2", 1025),
            Feature("POOL W x B", "3 lines", 897),
            Feature("STRENG lines", "read", "below its size"),
            Feature("STRENG line step", "write", 600_001),
            Feature("STRENG pixel step", "read", 65_536),
            Feature("CONVACC FSUB", "signed", 128),
            Feature("ARITH SHIFT RES", "AFFINE X2 O1", 36),
            Feature("ARITH SHIFT RES", "MUL dual X1 Y1 O2", 5),
            Feature("reader and writer", "of one chain", "something else"),
            Feature("no such feature", "", 1),
        ],
    )
    def test_nothing_beyond(self, feature: Feature) -> None:
        assert grade_feature(feature).grade == Grade.UNSEEN


@pytest.mark.parametrize("shifts", [{"out_shift": 9}, {"in_shift": 3}, {"in_shift": 4, "out_shift": 40}], ids=str)
def test_shifts_of_a_convolution_are_judged_beside_the_rest(shifts: dict[str, int]) -> None:
    for base, _ in BASES["CONVACC"]:
        config, trust = replace(base, **shifts), Trust()
        assert trust.grade_unit(config).features == tuple(map(trust.grade, unit_features(config)))


def test_numbers_between_are_within() -> None:
    known = evidence()["CONVACC H"]["3x3/1 simd1 F1"]
    between = next(n for n in range(known.values[0], known.values[-1]) if n not in known.values)  # type: ignore[union-attr]
    assert grade_feature(Feature("CONVACC H", "3x3/1 simd1 F1", between)).grade == Grade.WITHIN
    assert grade_feature(Feature("CONVACC H", "3x3/1 simd1 F1", 16)).grade == Grade.SEEN
    assert grade_feature(Feature("CONVACC H", "9x9/1 simd1 F1", 16)).grade == Grade.UNSEEN


def test_the_programs_behind_it() -> None:
    known = programs()
    assert len(known) == 176 and sum(p.epochs for p in known) == 13_986
    assert sum(p.shipped for p in known) == 45 == sum(p.name.startswith("STMicroelectronics") for p in known)
    sentence = next(rule for rule in all_rules() if rule.id == "E01").evidence.report
    assert sentence == behind() == "13,986 epochs in 176 programs of 37 owners; ST ships 45 of these programs"


def test_tables_are_told_apart_by_how_far_their_numbers_reach() -> None:
    """Equal settings are graded once; a table is part of them as far as features look at it."""
    rows = np.ones((ROWS, 3), "<i2")
    first = replace(per_channel(16, 8, 4), table=rows.tobytes())
    rows[1] = (32000, -32000, 5)
    other = replace(first, table=rows.tobytes())
    for config in (first, other, first):
        expected = [grade_feature(feature) for feature in unit_features(config)]
        assert list(grade_unit(config).features) == expected
    assert grade_unit(first) != grade_unit(other)
