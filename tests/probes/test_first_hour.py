"""The first hour as its user has it: firmware, log, evidence file, and a network that is compiled with it.

Chips of `planted` answer otherwise than the emulator; each must change what is compiled for it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from atonc.compiler.compile.pipeline import Compiled, compile_graph
from atonc.compiler.ir import Graph
from atonc.compiler.request.options import Options
from atonc.compiler.request.target import target_of
from atonc.delivery.probes import PROBES
from atonc.doors.cli.cli import main
from atonc.machine.base.errors import InputError
from atonc.machine.hw.cycles import doubts
from atonc.machine.hw.machine import stm32n6
from atonc.machine.hw.safety.evidence import Feature, Grade
from atonc.machine.hw.safety.evidence.arguments import ARGUMENTS
from atonc.machine.hw.safety.evidence.board_file import read_board_evidence
from atonc.machine.hw.safety.evidence.trust import Trust
from tests.board.programs import needs_compiler
from tests.probes.networks import LANES, ROWS, TOP, TWO_WRITERS, plainly, shown
from tests.probes.planted import AS_EMULATED, CHIPS, CONSTANTS
from tests.probes.virtual import log_of

pytestmark = [needs_compiler, pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")]

DIGITS = Path(__file__).parent.parent.parent / "examples" / "digits" / "digits.tflite"
PADS, KERNELS = "CONVACC pads left right top bottom", "STRENG memory"


def told(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    capsys.readouterr()
    assert main([*words, "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def saved(log: Iterable[str], folder: Path) -> str:
    """The evidence file of a log."""
    (folder / "uart.log").write_text("\n".join(("boot", *log)) + "\n")
    assert main(["probe", "read", str(folder / "uart.log"), "-o", str(folder / "evidence.json"), "--json"]) == 0
    return str(folder / "evidence.json")


def test_the_whole_way(all_probes: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All probes, on a chip whose controller takes longer for a word."""
    file = saved(log_of(all_probes, CHIPS["controller_word"]), tmp_path)
    outcomes = {one["probe"]: one["follows"] for one in json.loads(capsys.readouterr().out)["outcomes"]}
    assert any("products a cycle, as the cycle model has it" in text for text in outcomes["conv-5x3-products"])
    assert main(["probe", "read", str(tmp_path / "uart.log"), "-o", file]) == 0
    last = capsys.readouterr().out.rpartition("\n\n")[2].splitlines()
    assert [line.split("  ")[0] for line in last] == ["tested", "supported", "constants", "written", "next"]
    found = read_board_evidence(Path(file))
    assert found.supported == {argument.id for argument in ARGUMENTS} and not found.refuted
    assert {name for name, _ in found.constants} == {probe.measures for probe in PROBES if probe.measures}
    for name, value in found.constants:
        assert value == pytest.approx(CHIPS["controller_word"].constant(name), rel=0.03)
    before, after = (told(capsys, "analyze", str(DIGITS), *more) for more in ((), ("--evidence", file)))
    assert after["silicon"]["composed"] < before["silicon"]["composed"]
    words = {one["id"] for one in before["silicon"]["arguments"]} - {one["id"] for one in after["silicon"]["arguments"]}
    assert "S5" in words  # a zero point of -128 was asked for
    assert after["cycles"] > before["cycles"] and after["silicon"]["board"]["measured"]["controller_word"] > 8.3


# --------------------------------------------------------------------------------------------------- chips that differ


class Hour:
    """Evidence files of chips, and networks that are compiled with them."""

    def __init__(self, file: Callable[[str], str]) -> None:
        self.file = file
        self._kept: dict[tuple[object, ...], Compiled] = {}

    def compiled(self, what: str, graph: Graph, **options: Any) -> Compiled:
        key = what, id(graph), *options.items()
        if key not in self._kept:
            asked = Options(verify=False, evidence=self.file(what), **options)
            self._kept[key] = compile_graph(graph, asked)
        return self._kept[key]

    def trust(self, what: str) -> Trust:
        return Trust(board=read_board_evidence(Path(self.file(what))))


@pytest.fixture(scope="session")
def hour(log_by: Callable[[str], tuple[str, ...]], tmp_path_factory: pytest.TempPathFactory) -> Hour:
    return Hour(cache(lambda what: saved(log_by(what), tmp_path_factory.mktemp("hour"))))


def pads(compiled: Compiled) -> set[str]:
    return {str(one.value) for one in shown(compiled) if one.name == PADS}


def test_a_chip_as_emulated_makes_forms_seen(hour: Hour) -> None:
    """A pad on top alone, that nobody has published, and three convolutions side by side."""
    assert pads(plainly(TOP)) == {"0 0 0 0"}
    found = hour.compiled(AS_EMULATED, TOP)
    assert pads(found) == {"0 0 1 0"} and found.cost.cycles < 0.8 * plainly(TOP).cost.cycles
    assert not found.silicon.by_argument and not found.silicon.epochs[Grade.UNSEEN]
    assert "S1" in plainly(ROWS).silicon.by_argument
    assert "S1" not in hour.compiled(AS_EMULATED, ROWS).silicon.by_argument


def test_a_wrong_pad_on_top_stays_refused(hour: Hour) -> None:
    found = hour.compiled("pad on top alone", TOP)
    assert pads(found) == {"0 0 0 0"} and not found.choices.reasons
    assert found.cost.cycles > hour.compiled(AS_EMULATED, TOP).cost.cycles
    below = Feature(PADS, "3x3/1", "0 0 0 1")
    assert hour.trust("pad on top alone").grade(below).grade == Grade.SEEN  # that one works


def test_wrong_rows_in_the_middle_take_their_argument_with_them(hour: Hour) -> None:
    before, found = hour.compiled(AS_EMULATED, ROWS), hour.compiled("pads left and right alone", ROWS)
    assert "S2" in before.silicon.by_argument and "S2" not in found.silicon.by_argument
    assert pads(found) == {"1 1 1 1"} and found.cost.cycles > before.cost.cycles


@pytest.mark.parametrize(("what", "graph"), [("two convolutions hang", LANES), ("three convolutions hang", ROWS)])
def test_convolutions_that_hang_side_by_side_are_set_otherwise(what: str, graph: Graph, hour: Hour) -> None:
    before, found = hour.compiled(AS_EMULATED, graph), hour.compiled(what, graph)
    refuted = {one for one in hour.trust(what).board.refuted if one.name == "chains side by side"}
    assert len(refuted) == 1 and not refuted & shown(found)
    assert hour.trust(what).board.distrusted == {"S1"} and "S1" not in found.silicon.by_argument
    assert found.cost.cycles > before.cost.cycles


def test_a_copy_from_flash_that_hangs_cannot_be_asked_for(hour: Hour) -> None:
    assert hour.compiled(AS_EMULATED, LANES, schedule_with=("prefetch",)).program.epochs
    with pytest.raises(InputError, match="the board refuted copy of beside a convolution = flash > NPU RAM"):
        hour.compiled("copies from flash beside convolutions hang", LANES, schedule_with=("prefetch",))


def kernels(compiled: Compiled) -> set[str]:
    return {str(one.value) for one in shown(compiled) if one.name == KERNELS and one.role == "to CONVACC:1"}


def test_kernels_leave_a_memory_from_which_they_came_wrong(hour: Hour) -> None:
    assert kernels(hour.compiled(AS_EMULATED, LANES, resident="all")) == {"CPU RAM"}
    assert kernels(hour.compiled("kernels in the CPU's RAM", LANES, resident="all")) == {"NPU RAM"}


def test_kernels_stay_in_flash_where_ram_is_wrong(hour: Hour) -> None:
    """Although the control of all convolutions reads them from there: that with kernels in flash passes."""
    found = hour.compiled("kernels in the NPU's RAM", LANES, resident="all")
    assert kernels(found) == {"flash"} and not found.choices.reasons
    assert found.cost.cycles > hour.compiled(AS_EMULATED, LANES, resident="all").cost.cycles


def test_writers_that_disturb_each_other_stay_apart(hour: Hour) -> None:
    before, found = hour.compiled(AS_EMULATED, LANES), hour.compiled("writers 64 bytes apart", LANES)
    assert TWO_WRITERS in shown(before) and TWO_WRITERS not in shown(found)
    assert found.cost.cycles > before.cost.cycles


@pytest.mark.parametrize(
    ("what", "feature", "argument"),
    [
        ("five writers", Feature("interleaved writers of a buffer", "", "5"), "S10"),
        ("two pairs of writers", Feature("interleaved writers of a buffer", "", "2 2"), "S10"),
        ("frames behind a POOL", Feature("STRENG frame after frame", "write raster from POOL", "gaps"), "S4"),
        ("whole features by two", Feature("STRENG reads features", "simd2", "16 bits"), "S9"),
    ],
)
def test_what_an_argument_allowed_falls_with_its_probe(what: str, feature: Feature, argument: str, hour: Hour) -> None:
    good, bad = hour.trust(AS_EMULATED), hour.trust(what)
    assert good.grade(feature).grade == Grade.SEEN and good.allows(good.grade(feature))
    assert bad.grade(feature).grade == Grade.UNSEEN and bad.board.distrusted == {argument}


def test_two_pairs_of_writers_that_fail_are_not_set(hour: Hour) -> None:
    """The pairs rested on S10, and so did runs of more than 128 bytes."""
    pair, long = (
        Feature("interleaved writers of a buffer", "", "2 2"),
        Feature("shorter run of interleaved writers", "", 200),
    )
    trust = hour.trust("two pairs of writers")
    assert not trust.allows(trust.grade(pair)) and not trust.allows(trust.grade(long))


@pytest.mark.parametrize("what", ["kernels that were written", "sums of 32 bits"])
def test_what_is_no_fault_of_a_configuration_refuses_none(what: str, hour: Hour) -> None:
    """Configurations are those of probes that pass: the log says what came, and nothing is refused in silence."""
    board = hour.trust(what).board
    assert not board.refuted and not board.distrusted


def test_a_shift_that_is_cut_is_refused_and_no_other(hour: Hour) -> None:
    shifts = [Feature("ARITH SHIFT RES", "AFFINE dual X2 Y2 O1", shift) for shift in (22, 24)]
    grades = {what: [hour.trust(what).grade(one).grade for one in shifts] for what in (AS_EMULATED, "long shifts")}
    assert grades == {AS_EMULATED: [Grade.SEEN, Grade.SEEN], "long shifts": [Grade.SEEN, Grade.UNSEEN]}


def test_readers_on_one_interface_that_fail_measure_nothing(hour: Hour) -> None:
    good, bad = (dict(hour.trust(what).board.constants) for what in (AS_EMULATED, "readers on one interface"))
    assert good.keys() - bad.keys() == {"interface_beat"}
    assert hour.trust("readers on one interface").board.refuted == {
        Feature("engines on each bus interface", "", "5 + 3")
    }


@pytest.mark.parametrize("constant", CONSTANTS)
def test_a_constant_that_was_measured_is_in_the_machine(constant: str, hour: Hour) -> None:
    """To 3 %: the virtual board's clock goes in steps."""
    machine = target_of(Options(evidence=hour.file(constant))).machine
    assert machine.constant(constant) == pytest.approx(CONSTANTS[constant], rel=0.03)
    assert constant in machine.measured and stm32n6().constant(constant) != machine.constant(constant)


def test_a_slower_controller_is_in_the_price_and_its_doubt_is_gone(hour: Hour) -> None:
    before, found = plainly(LANES), hour.compiled("controller_word", LANES)
    words = sum(found.target.with_words(epoch).words or 0 for epoch in found.program.epochs)
    more = found.target.machine.timing.controller_word - before.target.machine.timing.controller_word
    assert found.cost.cycles - before.cost.cycles == pytest.approx(more * words, abs=5)
    assert doubts.WORDS in dict(before.cost.band.parts) and doubts.WORDS not in dict(found.cost.band.parts)
