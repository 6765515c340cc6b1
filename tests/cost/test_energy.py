"""Energy of an inference: counted work times constants that each have a source and a range."""

from __future__ import annotations

import json
from math import hypot
from pathlib import Path
from statistics import median

import pytest

from atonc.compiler.request.options import Options
from atonc.delivery.generate import generating
from atonc.doors.cli.cli import main
from atonc.insight.explain.folder import folder_view
from atonc.insight.explain.ours import network_view
from atonc.insight.report import parts
from atonc.machine.cost.band import PredictionBand
from atonc.machine.cost.energy import (
    FLASH_DEVICE,
    Activity,
    Between,
    amount,
    energy_of,
    epoch_activity,
    of_inference,
    power_table,
    together,
)
from atonc.machine.hw.cycles import hardware
from atonc.machine.hw.cycles.work import epoch_work
from atonc.machine.hw.machine import stm32n6
from atonc.machine.hw.target import Target
from tests.hw import cycles_epochs as e

ROOT = Path(__file__).parents[2]
DIGITS = ROOT / "examples" / "digits" / "digits.tflite"
LONG = Activity(10.0, 2.0, 1e6, 2e6, 3e6, 4e6)


def test_every_constant_has_a_range_around_it_and_a_source() -> None:
    table = power_table()
    supply = table.efficiency, table.rest_mw, table.unexplained
    for low, likely, high in (*table.milliwatts.values(), *table.picojoules.values(), *supply):
        assert 0 < low <= likely <= high
    lines = (ROOT / "atonc" / "machine" / "cost" / "power.toml").read_text().splitlines()
    lists = [line for line in lines if " = [" in line]
    assert len(lists) == len(table.milliwatts) + len(table.picojoules) + len(supply) + 1
    assert all(line.split("# ")[1][0] in "PFLU" and len(line.split("# ")[1]) > 20 for line in lists)


def test_energy_is_the_sum_of_what_was_counted() -> None:
    found = energy_of(LONG, 1000, 800)
    mw, pj = power_table().milliwatts, power_table().picojoules
    core = 10 * (mw["asleep"].likely + mw["npu_clocked"].likely) + 2 * mw["cpu_awake"].likely
    core += pj["product"].likely + 2 * pj["ram_byte"].likely + 3 * pj["flash_byte"].likely
    core += 4 * pj["hyperram_byte"].likely
    devices = 3 * pj["flash_device_byte"].likely + 4 * pj["hyperram_device_byte"].likely
    assert found.core_uj.likely == pytest.approx(core) and found.uj.likely == pytest.approx(core + devices)
    assert found.uj.low < found.uj.likely < found.uj.high
    assert found.milliwatts == pytest.approx((core + devices) / 10)
    assert found.parts[FLASH_DEVICE].high == pytest.approx(3 * pj["flash_device_byte"].high)


def test_a_step_shared_and_put_together_again_is_the_step() -> None:
    assert together([LONG.share(0.25), LONG.share(0.75)]) == LONG


def test_what_the_time_may_be_off_the_energy_may_be_off() -> None:
    idle = Activity(10.0)
    plain, wide = energy_of(idle, 1000, 800), energy_of(idle, 1000, 800, PredictionBand(-0.5, 1.0, ()))
    for without, late in ((plain.uj, wide.uj), (plain.core_uj, wide.core_uj), (plain.board_uj, wide.board_uj)):
        assert late.likely == without.likely, "no more than the range"
        below, above = without.likely - without.low, without.high - without.likely
        assert late.likely - late.low == pytest.approx(hypot(below, late.likely / 2)), "for a reason of its own"
        assert late.high - late.likely == pytest.approx(hypot(above, late.likely))


def test_a_board_takes_what_its_core_and_memories_take_and_the_rest() -> None:
    table = power_table()
    for npu, cpu in ((1000, 800), (800, 600), (400, 400)):
        found = energy_of(LONG, npu, cpu)
        whole = found.uj.likely / table.efficiency.likely + table.rest_mw.likely * LONG.milliseconds
        assert found.board_uj.likely == pytest.approx(whole) and found.board_mw == pytest.approx(whole / 10)
        assert found.core_uj.likely < found.uj.likely < found.board_uj.low
        assert (found.board_uj.high - found.board_uj.low) / whole < (found.uj.high - found.uj.low) / found.uj.likely
        asleep = energy_of(Activity(1.0), npu, cpu)
        assert asleep.board_mw < found.idle_mw + table.milliwatts["npu_clocked"].likely / table.efficiency.low


def test_measured_boards_are_met_by_networks_that_fixed_nothing() -> None:
    """The constants against the table of a meter, held-out networks apart; which these are their names decide."""
    from benchmarks import energy_board

    found = energy_board.groups()
    test = found["held out, work counted"]
    assert len(test) == 24 and not {one.row["model"] for one in test} & {
        one.row["model"] for one in found["fitted, work counted"]
    }
    assert max(abs(one.board_error) for one in test) < 0.05
    assert sum(energy_board.within(one.ours.uj, one.chip_uj) for one in test) >= 0.9 * len(test)
    assert max(energy_board.half_width(one.ours.uj) for one in test) < 0.16
    for name, value in energy_board.fitted([one for one in energy_board.usable() if not one.held]).items():
        assert value == pytest.approx(power_table().picojoules[name].likely, rel=0.1), name
    for mode, clocks in energy_board.CLOCKS.items():
        idle = [float(one.row[f"{mode}_idle_mw"]) for one in energy_board.measured()]
        assert power_table().idle_mw(*clocks) == pytest.approx(median(idle), abs=4)


def test_lower_clocks_allow_the_lower_voltage() -> None:
    work = Activity(products=1e9)
    full, nominal = energy_of(work, 1000, 800).uj, energy_of(work, 800, 600).uj
    assert nominal.likely / full.likely == pytest.approx((0.81 / 0.89) ** 2)
    assert energy_of(work, 800, 800).uj == full, "one clock that is too fast for it is enough"
    waiting = [energy_of(Activity(1.0), mhz, 600).uj.likely for mhz in (800, 400)]
    assert waiting[1] < waiting[0], "slower clocks draw less"


def _epoch(kernels: int) -> e.Epoch:
    """1x1 convolution of 8 x 8 pixels of 4 channels to 6."""
    features, output = e.again(e.RAM, 256, 1, 1), e.write(e.raw(e.RAM2, 384, size=2))
    return e.convolution(e.conv(8, 8, 4, 6), features, e.raw(kernels, 24), output, words=100)


def test_work_of_an_epoch_by_memory() -> None:
    machine = stm32n6()
    inside, outside = epoch_work(_epoch(e.RAM), machine), epoch_work(_epoch(e.FLASH), machine)
    assert inside.products == outside.products == 64 * 6 * 4
    assert (inside.flash_bytes, outside.flash_bytes) == (0, 24)
    assert inside.ram_bytes - outside.ram_bytes == 24 and inside.ram_bytes >= 256 + 768 + 24
    assert epoch_work(_epoch(e.HYPER), machine).hyperram_bytes == 24


def test_the_processor_is_awake_while_it_programs() -> None:
    epoch, machine = _epoch(e.RAM), stm32n6()
    for who, awake in ((hardware.CONTROLLER, False), (hardware.CPU, True)):
        target = Target(machine, who)
        found = epoch_activity(epoch, target, target.cycles(epoch))
        assert (found.awake_ms > 0) == awake and found.awake_ms < found.milliseconds


def test_amounts_read_well() -> None:
    assert [amount(value) for value in (0.25, 24.94, 8068.1)] == ["0.2 uJ", "24.9 uJ", "8.07 mJ"]
    assert of_inference(Between(860.0, 1275.2, 1490.0)) == "1.28 mJ/inference (0.86 to 1.49)", "one unit in a line"


def test_a_compilation_and_its_folder_say_the_same(tmp_path: Path) -> None:
    assert main(["generate", str(DIGITS), "-o", str(tmp_path / "out"), "-q", "--no-verify"]) == 0
    view = generating.analyze(DIGITS, Options(verify=False))
    ours, folder = view.cost.energy, folder_view(tmp_path / "out").energy
    assert ours.as_dict() == folder.as_dict() == network_view(view).energy.as_dict()
    assert ours.uj.low < ours.uj.likely < ours.uj.high
    (head, *_) = parts.energy_lines(ours)
    assert str(ours) in head and "not measured" in head


def test_folders_that_do_not_tell_have_no_estimate() -> None:
    nothing = energy_of(Activity(), 1000, 800)
    assert not nothing.known and parts.energy_lines(nothing) == [] and parts.energy_row(nothing) is None
    assert parts.energy_data(nothing)["energy"]["source"].startswith("not estimated")


def test_the_gate(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["analyze", str(DIGITS), "-q", "--no-verify", "--max-energy"]
    assert main([*words, "1000"]) == 0
    capsys.readouterr()
    assert main([*words, "1"]) == 1
    assert "--max-energy allows 1 uJ" in capsys.readouterr().err


def test_published_figures_are_what_the_page_says() -> None:
    """Rows that need no fetched file, counted again: whoever changes a constant runs `python -m benchmarks energy`."""
    from benchmarks import energy

    kept = json.loads((ROOT / "benchmarks" / "results" / "energy.json").read_text())["rows"]
    assert all(row["inside"] for row in kept if row["kind"] == energy.MEASURED)
    known = {(row["model"], row["kind"], row["quantity"], row["published"]): row for row in kept}
    again = [*energy.compared(()), *energy.idle_rows()]
    assert len(again) >= 20
    for one in again:
        row = known[one.row["model"], one.row["kind"], one.row["quantity"], one.value]
        if row["how"] == one.how != energy.ON_OURS:  # programs of ours may change
            assert row["ours_likely"] == pytest.approx(one.ours.likely, abs=0.01), one.row["model"]
            assert row["ours_high"] == pytest.approx(one.ours.high, abs=0.01), one.row["model"]
    assert {row["kind"] for row in energy.published()} == {energy.MEASURED, energy.ESTIMATED}
