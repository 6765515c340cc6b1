"""How units may read the features of a layer: bytes as they are, or with a zero point taken off."""

from __future__ import annotations

from atonc.compiler.lower.conv.chains import FeatureMode
from atonc.compiler.select.form import Refusal, without_evidence
from atonc.machine.hw.safety.evidence import Feature, Trust

FSUB = "CONVACC FSUB"
LOWEST = -128  # zero point of what a ReLU leaves


def subtractable(zero: int, trust: Trust) -> bool:
    """Whether units may take this from signed features."""
    return trust.allows(trust.grade(Feature(FSUB, "signed", zero)))


def modes(zero: int, shifted: bool, exactly: bool, trust: Trust) -> list[FeatureMode]:
    """`exactly`: the zero point itself, since units pad with zeros. Without padding a unit may subtract any number: the
    bias makes up for it."""
    deep = [FeatureMode(1, shifted, deep=True, packed_frame=packed) for packed in (True, False)]
    if shifted:
        return [FeatureMode(1, unsigned=True), *deep]
    if zero == 0:
        return [FeatureMode(1), *deep] if exactly else [FeatureMode(1), *deep, FeatureMode(2, offset=1)]
    near = (zero,) if exactly else (zero, zero + 1, zero - 1)
    subtracted = [FeatureMode(2, offset=number) for number in near if subtractable(number, trust)][:1]
    if exactly and not subtracted:
        graded = trust.grade(Feature(FSUB, "signed", zero))
        raise Refusal.of(without_evidence(graded))
    # features of one byte, all as they are: the bias makes up for the zero point
    return subtracted if exactly else [*subtracted, FeatureMode(1), *deep]


def nearest(found: list[FeatureMode], zero: int) -> list[FeatureMode]:
    """Those that leave least of the zero point in the sums."""
    least = min((abs(mode.offset - zero) for mode in found), default=0)
    return [mode for mode in found if abs(mode.offset - zero) == least]
