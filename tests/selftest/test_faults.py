"""The matrix: every planted fault is called by its name within one run, none is blamed on the network, and a board that
is set up as it should be has no finding. Self-tests with a check taken out do not pass it."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tests.selftest.bench import SELFTEST, Image, Planted, build, codes, run
from tests.selftest.faults import FAULTS, SOUND, Fault

pytest.importorskip("unicorn")
pytestmark = pytest.mark.skipif(shutil.which("arm-none-eabi-gcc") is None, reason="needs arm-none-eabi-gcc")


@pytest.fixture(scope="session")
def image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    return build(tmp_path_factory.mktemp("selftest"))


def said(image: Image, planted: Planted) -> tuple[list[str], list[str]]:
    """Names of the findings, plain and with their details."""
    findings, changed = run(image, planted)
    assert changed == 0, f"the self-test left {changed} registers or words changed"
    return [one.name for one in findings], [f"{one.name}:{one.detail}" for one in findings]


def agrees(image: Image, fault: Fault) -> bool:
    plain, detailed = said(image, fault.planted)
    return len(plain) == len(fault.says) and all(
        wanted in pair for wanted, pair in zip(fault.says, zip(plain, detailed, strict=True), strict=True)
    )


@pytest.mark.parametrize("fault", (*SOUND, *FAULTS), ids=str)
def test_named_by_cause(image: Image, fault: Fault) -> None:
    plain, detailed = said(image, fault.planted)
    shown = [full if ":" in wanted else name for wanted, name, full in zip(fault.says, plain, detailed, strict=False)]
    assert shown == list(fault.says)
    assert len(plain) == len(fault.says), detailed
    assert fault.of_network or not any(name.startswith("NETWORK") for name in plain)


def test_every_code_has_a_fault() -> None:
    planted = {one.partition(":")[0] for fault in FAULTS for one in fault.says}
    assert planted == set(codes().values())
    assert len(FAULTS) >= 25
    assert sum(len({one.partition(":")[0] for one in fault.says}) > 1 for fault in FAULTS) >= 5  # pairs


# what is taken out, what stands there instead, a row that must notice
MUTANTS = (
    ("check_rights(&t);", "", "npu_write_refused"),
    ("    check_weights(t);\n", "", "flash_one_bit"),
    ("check_read_only, check_caches, check_controller", "check_read_only, check_controller", "clean_does_nothing"),
)


@pytest.mark.parametrize(("taken", "instead", "row"), MUTANTS, ids=[row for _, _, row in MUTANTS])
def test_without_a_check_the_matrix_fails(taken: str, instead: str, row: str, image: Image, tmp_path: Path) -> None:
    fault = next(one for one in FAULTS if one.name == row)
    assert agrees(image, fault)
    source = (SELFTEST / "atonc_selftest.c").read_text()
    assert source.count(taken) == 1
    mutant = build(tmp_path, _without_warnings(source.replace(taken, instead)))
    assert not agrees(mutant, fault)
    assert agrees(mutant, SOUND[0])


def _without_warnings(source: str) -> str:
    """A function that nobody calls any more is no error."""
    return f'#pragma GCC diagnostic ignored "-Wunused-function"\n{source}'


def test_findings_have_their_place(image: Image) -> None:
    """Register or address, what is there and what should be."""
    rows = {fault.name: fault for fault in FAULTS}

    def first(name: str) -> tuple[int, int, int]:
        one = run(image, rows[name].planted)[0][0]
        return one.place, one.found, one.wanted

    assert first("axisram3_shutdown") == (0x5202_3100, 1 << 20, 0)
    place, found, wanted = first("npu_clock_off")
    assert (place, found ^ wanted) == (0x5602_8260, 1 << 31)
    assert first("flash_shifted") == (0x7038_0000, 0x7038_0400, 0x7038_0000)
    assert first("npu_ram_slow") == (0x5602_80EC, 450_000_000, 900_000_000)
    place, _, _ = first("flash_one_bit")
    assert place == 0x7038_1000


def test_texts_are_those_of_the_header() -> None:
    header = (SELFTEST / "atonc_selftest.h").read_text()
    numbers = [int(number) for number in re.findall(r"^    X\((\d+),", header, re.MULTILINE)]
    assert numbers == list(range(1, len(numbers) + 1))
