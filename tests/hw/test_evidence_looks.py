"""What grades look at beside the registers of a unit: memory behind ports, copies, bus interfaces, neighbours, sets."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from atonc.machine.hw.epoch import Epoch
from atonc.machine.hw.machine import stm32n6
from atonc.machine.hw.safety import CheckedPool, PoolKind, SafetyContext
from atonc.machine.hw.safety.evidence import EpochGrade, Feature, Grade, Strength, grade_epoch, grade_feature
from atonc.machine.hw.safety.evidence.epochs import FETCHES
from atonc.machine.hw.safety.evidence.table import SeenWords, evidence
from tests.hw import safety_epochs as legal
from tests.hw.safety_parts import CPU_RAM1, FLASH, NPU_RAM3, NPU_RAM4, NPU_RAM5, add, build, kernels, reader, writer
from tests.hw.safety_plants import swap

HYPER_RAM = stm32n6().first("hyperram").base


def found(epoch: Epoch | EpochGrade, name: str) -> dict[str, Grade]:
    """Remarkable values of a feature, by value."""
    graded = epoch if isinstance(epoch, EpochGrade) else grade_epoch(epoch)
    return {str(f.graded.feature.value): f.graded.grade for f in graded.forms if f.graded.feature.name == name}


def uncached(address: int) -> Epoch:
    return swap(legal.convolution(), STRENG5=replace(kernels(2 * 8 * 8 * 9, address), cacheable=0))


@pytest.mark.parametrize(
    ("address", "memory", "grade", "programs"),
    [
        (FLASH, "flash", Grade.SEEN, 154),
        (NPU_RAM4, "NPU RAM", Grade.SEEN, 15),
        (CPU_RAM1, "CPU RAM", Grade.SEEN, 2),
        (HYPER_RAM, "hyperRAM", Grade.UNSEEN, 0),
    ],
)
def test_kernels_by_the_memory_that_they_come_from(address: int, memory: str, grade: Grade, programs: int) -> None:
    graded = grade_feature(Feature("STRENG memory", "to CONVACC:1", memory))
    assert (graded.grade, graded.strength.programs) == (grade, programs)
    epoch = legal.convolution() if memory == "flash" else uncached(address)
    assert (memory in found(epoch, "STRENG memory")) == (grade == Grade.UNSEEN)


def test_kernels_in_ram_rest_on_one_owner() -> None:
    assert grade_feature(Feature("STRENG memory", "to CONVACC:1", "NPU RAM")).strength == Strength(15, 15, 1, 0)


def test_buffers_of_the_application_are_judged_by_direction() -> None:
    user = SafetyContext(
        (CheckedPool("input", NPU_RAM3, 4096, PoolKind.USER), CheckedPool("ram", NPU_RAM5, 1 << 16, PoolKind.ON_CHIP))
    )
    assert not found(grade_epoch(legal.pooling(), user), "STRENG memory")
    assert grade_feature(Feature("STRENG memory", "read", "user buffer")).grade == Grade.SEEN


def beside_a_convolution(source: int, target: int, **settings: Any) -> Epoch:
    units = {"STRENG1": reader(source, 512, **settings), "STRENG7": writer(target, 512)}
    return add(legal.convolution(), "STRENG1 > STRENG7", **units)


class TestCopies:
    def test_what_was_seen_beside_a_convolution_works_alone(self) -> None:
        alone = grade_feature(Feature("copy", "alone", "NPU RAM > hyperRAM"))
        assert alone.grade == Grade.WITHIN and alone.strength.programs == 1

    def test_activations_beside_a_convolution(self) -> None:
        assert not found(beside_a_convolution(NPU_RAM4, NPU_RAM4 + 0x1000), "copy")

    @pytest.mark.parametrize("target", [NPU_RAM4, CPU_RAM1])
    def test_weights_fetched_ahead(self, target: int) -> None:
        graded = grade_epoch(beside_a_convolution(FLASH + 0x1000, target, cacheable=1))
        (copy,) = [form.graded for form in graded.forms if form.graded.feature.name == "copy"]
        assert graded.grade == Grade.UNSEEN == copy.grade and copy.feature in FETCHES
        assert copy.strength.programs == 0 and "NPU RAM > NPU RAM" in copy.seen

    def test_from_flash_without_a_convolution(self) -> None:
        engines = {"STRENG0": reader(FLASH, 512, cacheable=1), "STRENG5": writer(NPU_RAM3, 512)}
        assert not found(build(engines, ["STRENG0 > STRENG5"]), "copy")


def numbered(epoch: Epoch, *numbers: int) -> Epoch:
    """The same epoch with other stream engines, in the order of their names."""
    old = sorted(unit for unit in epoch.units if unit.startswith("STRENG"))
    names = {one: f"STRENG{number}" for one, number in zip(old, numbers, strict=True)}
    units = {names.get(unit, unit): config for unit, config in epoch.units.items()}
    ends = [(names.get(k.source, k.source), names.get(k.destination, k.destination)) for k in epoch.links]
    links = [replace(k, source=a, destination=b) for k, (a, b) in zip(epoch.links, ends, strict=True)]
    return replace(epoch, units=units, links=tuple(links))


class TestInterfaces:
    NAME = "engines on each bus interface"

    @pytest.mark.parametrize(("numbers", "spread"), [((0, 5, 6), "2 + 1"), ((9, 8, 0), "2 + 1"), ((4, 3, 5), "2 + 1")])
    def test_three_engines_on_both(self, numbers: tuple[int, ...], spread: str) -> None:
        assert not found(numbered(legal.convolution(), *numbers), self.NAME)
        assert grade_feature(Feature(self.NAME, "", spread)).strength.shipped == 45

    @pytest.mark.parametrize("numbers", [(0, 1, 2), (5, 9, 7)])
    def test_three_engines_on_one(self, numbers: tuple[int, ...]) -> None:
        assert found(numbered(legal.convolution(), *numbers), self.NAME) == {"3 + 0": Grade.UNSEEN}

    def test_two_engines_on_one_were_seen_twice(self) -> None:
        assert not found(numbered(legal.copy(), 2, 4), self.NAME)
        assert grade_feature(Feature(self.NAME, "", "2 + 0")).strength.programs == 2

    def test_four_and_five(self) -> None:
        spread = [f"{n - k} + {k}" for n in (4, 5) for k in range(n // 2 + 1)]
        grades = {text: grade_feature(Feature(self.NAME, "", text)).grade for text in spread}
        assert {text for text, grade in grades.items() if grade == Grade.UNSEEN} == {"4 + 0", "5 + 0"}

    @pytest.mark.parametrize("how", ["over both interfaces", "over one interface"])
    def test_features_and_kernels(self, how: str) -> None:
        graded = grade_feature(Feature("features and kernels of a CONVACC", "3 engines", how))
        assert graded.grade == Grade.SEEN and graded.strength.programs >= 100


def slices(first: int, length: int, start: int, length2: int, step: int = 64) -> Epoch:
    """An epoch with two copies whose writers fill parts of the same pixels."""
    raster = {"raw": 0, "fsize_low": 32, "fsize_high": 32, "pixel_offset_low": step, "line_offset_low": 32 * step}
    engines = {
        "STRENG0": reader(NPU_RAM4, 1024 * length),
        "STRENG1": reader(NPU_RAM4 + 0x2_0000, 1024 * length2),
        "STRENG5": writer(NPU_RAM3 + first, 1, depth=length, **raster),
        "STRENG6": writer(NPU_RAM3 + start, 1, depth=length2, **raster),
    }
    return build(engines, ["STRENG0 > STRENG5", "STRENG1 > STRENG6"])


class TestInterleavedWriters:
    BETWEEN, RUN = "bytes between interleaved writers", "shorter run of interleaved writers"

    def test_as_the_two_programs_have_them(self) -> None:
        """One of them, of ST 4.0.0, in seven epochs."""
        graded = grade_epoch(slices(0, 32, 32, 32))
        assert not any(found(graded, name) for name in ("two writers", self.BETWEEN, self.RUN))
        strength = grade_feature(Feature("two writers", "", "interleaved, no word in common")).strength
        assert strength == (9, 2, 2, 0)

    def test_further_apart_and_in_longer_runs_rest_on_an_argument(self) -> None:
        assert found(slices(0, 24, 32, 24), self.BETWEEN) == {"8": Grade.COMPOSED}
        assert grade_feature(Feature(self.BETWEEN, "interleaved, no word in common", 8)).argument == "S10"
        assert grade_feature(Feature(self.RUN, "", 512)).argument == "S10"

    def test_shorter_runs_than_seen(self) -> None:
        assert found(slices(0, 2, 32, 16), self.RUN) == {"2": Grade.UNSEEN}

    def test_writers_of_two_buffers_are_not_asked(self) -> None:
        assert not found(slices(0, 32, 0x1_0000, 32), self.BETWEEN)


class TestSets:
    NAME = "chains side by side"

    @pytest.fixture(name="larger")
    def _larger(self) -> list[str]:
        seen = evidence()[self.NAME][""]
        assert isinstance(seen, SeenWords)
        return max(seen.seen, key=lambda word: word.count(" || ")).split(" || ")

    def test_part_of_a_larger_set(self) -> None:
        pair = "[f=IN k=IN]>CONVACC>ARITH>OUT || [f=IN k=IN]>CONVACC>ARITH>OUT"
        graded = grade_feature(Feature(self.NAME, "", pair))
        assert graded.grade == Grade.PART and not graded.argument and graded.strength.shipped
        assert graded.seen.endswith(pair) and graded.seen != pair

    def test_each_chain_counts_as_often_as_it_is_there(self, larger: list[str]) -> None:
        most = max(larger, key=larger.count)
        oftener = " || ".join([most] * (len(larger) + 1))
        assert grade_feature(Feature(self.NAME, "", oftener)).grade not in (Grade.SEEN, Grade.ONCE, Grade.PART)

    def test_between_within_and_composed(self) -> None:
        order = [Grade.SEEN, Grade.ONCE, Grade.WITHIN, Grade.PART, Grade.COMPOSED, Grade.UNSEEN]
        assert sorted(Grade, key=lambda grade: grade.rank) == order == list(Grade)


class TestStrength:
    def test_seen_in_one_program(self) -> None:
        once = next(w for w, s in evidence()["chain"][""].seen.items() if s.programs == 1)  # type: ignore[union-attr]
        graded = grade_feature(Feature("chain", "", once))
        assert graded.grade == Grade.ONCE and graded.strength.owners == 1

    def test_a_number_in_a_role_of_one_program(self) -> None:
        graded = grade_feature(Feature("CONVACC W", "3x3/1,2 simd1 F1", 224))
        assert (graded.grade, graded.strength) == (Grade.ONCE, Strength(1, 1, 1, 0))

    def test_in_words(self) -> None:
        assert str(Strength(9, 3, 2, 1)) == "3 programs of 2 owners, 1 shipped by ST"
        assert str(Strength(9, 1, 1, 1)) == "one program, shipped by ST"
        assert str(Strength(9, 1, 1, 0)) == "one program, not of ST"

    def test_an_epoch_is_as_strong_as_its_weakest_form(self) -> None:
        graded = grade_epoch(legal.convolution())
        assert graded.weakest.programs > 1 and graded.weakest.shipped
        assert grade_epoch(slices(0, 32, 32, 32)).weakest.programs <= 1
        assert grade_epoch(uncached(HYPER_RAM)).weakest.programs == 0
