"""A power recording: integrated between its marks, or where the times of a recording fit; damaged files are refused."""

from __future__ import annotations

import json
import random
from math import isfinite
from pathlib import Path

import pytest

from atonc.delivery.recordings import power
from atonc.delivery.recordings.power import PowerOptions
from atonc.doors.cli import cli
from atonc.machine.base.errors import InputError
from tests.recordings.test_recordings import made, written

IDLE, BUSY = 0.1, 0.3  # watts
STEP = 1e-5
PLAIN = PowerOptions()


def samples(inferences: int = 3, long: int = 100, pause: int = 60) -> list[tuple[float, float, int]]:
    """Seconds, watts and the mark of a meter that samples every 10 us; each inference takes 1 ms, 300 uJ."""
    levels = [*([0] * pause), *(([1] * long + [0] * pause) * inferences)]
    return [(k * STEP, BUSY if level else IDLE, level) for k, level in enumerate(levels)]


def meter(folder: Path, head: str = "time (ms),power (mW),mark", **changes: str) -> Path:
    """`changes`: by the number of a sample, its whole line."""
    lines = [f"{1e3 * t:.6f},{1e3 * w:g},{m}" for t, w, m in samples()]
    for number, line in changes.items():
        lines[int(number.removeprefix("row"))] = line
    path = folder / "meter.csv"
    path.write_text("\n".join([head, *lines]) + "\n")
    return path


def test_marks_say_where_inferences_run(tmp_path: Path) -> None:
    found = power.measure(power.read(meter(tmp_path), PLAIN))
    assert len(found.windows) == 3 and found.uj == pytest.approx(300.0)
    assert found.milliseconds == pytest.approx(1.0) and found.milliwatts == pytest.approx(300.0)
    assert found.within_uj == pytest.approx(3.0)  # one sample of 10 us at 0.3 W; the three are equal


def test_units_of_the_header_and_voltage_of_the_user(tmp_path: Path) -> None:
    path = tmp_path / "meter.csv"
    rows = [f"{1e6 * t:.1f};{1e6 * w / 3.3:.3f};{m}".replace(".", ",") for t, w, m in samples()]
    path.write_text("\n".join(["Timestamp(us);Main current (uA);D0", *rows]))
    found = power.measure(power.read(path, PowerOptions(volts=3.3, efficiency=0.5)))
    assert found.uj == pytest.approx(150.0, rel=1e-4)


def test_files_of_st_script_are_known_by_their_columns(tmp_path: Path) -> None:
    path = tmp_path / "capture.csv"
    names = {0: "nn_buffer copy", 1: "nn_inference"}
    rows = [f"{t:.6f},{w:g},0,1,{names[m]}" for t, w, m in samples()]
    path.write_text("\n".join(["time,VDDCORE,seq_changed,seq_idx,seq_name", *rows]))
    assert power.measure(power.read(path, PLAIN)).uj == pytest.approx(300.0)
    path.write_text(path.read_text().replace("nn_inference", "nn_inference_800MHz", 100))
    with pytest.raises(InputError, match="several kinds"):
        power.read(path, PLAIN)


def test_without_marks_the_times_of_a_recording_say_where(tmp_path: Path) -> None:
    trace = power.read(meter(tmp_path, "time (ms),power (mW),other"), PLAIN)
    found = power.measure(trace, (1.0, 1.01, 0.99))
    assert found.uj == pytest.approx(300.0) and found.found_by == "times of the recording"
    with pytest.raises(InputError, match="3 bursts"):
        power.measure(trace, (1.0, 1.0))
    with pytest.raises(InputError, match="nothing says where"):
        power.measure(trace)


def test_the_spread_of_inferences_is_in_the_interval(tmp_path: Path) -> None:
    louder = {f"row{k}": f"{k * STEP * 1e3:.6f},400,1" for k in range(60, 160)}
    found = power.measure(power.read(meter(tmp_path, **louder), PLAIN))
    assert found.uj == pytest.approx(1000 / 3) and found.within_uj > 60


FAULTS = {
    "no unit": ({"head": "time (ms),power,mark"}, "has no unit"),
    "no number": ({"row70": "0.7,nan,1"}, "has no number at sample 71"),
    "a word": ({"row70": "0.7,much,1"}, "no number at sample 71: 'much'"),
    "time goes backwards": ({"row70": "0.2,300,1"}, "goes backwards at sample 71"),
    "a cell is missing": ({"row70": "0.7,300"}, "has 2 cells"),
    "another unit": ({"head": "time (ms),power (W),mark"}, "look at the unit"),
    "current alone": ({"head": "time (ms),current (mA),mark"}, "--volts"),
    "no such mark": ({"head": "time (ms),power (mW),mark"}, "has no column 'pin'"),
    "no header": ({"head": "x" * 5000}, "has no header"),
    "a byte of zero": ({"row70": "0.7,300\0,1"}, "meter.csv"),
    "an endless cell": ({"row70": "0.7,300," + "1" * 200_000}, "sample 71 is no line"),
    "nothing to integrate": ({"head": "time (ms),noise,mark"}, "no column of power or current"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_damaged_files_are_refused_with_a_sentence(tmp_path: Path, name: str) -> None:
    changes, says = FAULTS[name]
    options = PowerOptions(mark="pin") if name == "no such mark" else PLAIN
    with pytest.raises(InputError) as error:
        power.read(meter(tmp_path, **changes), options)
    assert says in str(error.value) and "meter.csv" in str(error.value)


def test_samples_that_are_missing_inside_an_inference_are_seen(tmp_path: Path) -> None:
    lines = [f"{1e3 * t:.6f},{1e3 * w:g},{m}" for k, (t, w, m) in enumerate(samples()) if not 80 <= k < 100]
    path = tmp_path / "meter.csv"
    path.write_text("\n".join(["time (ms),power (mW),mark", *lines]))
    with pytest.raises(InputError, match="samples are missing"):
        power.measure(power.read(path, PLAIN))


def test_a_probe_the_wrong_way_round_is_not_an_answer(tmp_path: Path) -> None:
    path = tmp_path / "meter.csv"
    rows = [f"{1e3 * t:.6f},{-1e3 * w:g},{m}" for t, w, m in samples()]
    path.write_text("\n".join(["time (ms),power (mW),mark", *rows]))
    with pytest.raises(InputError, match="turn the probe round"):
        power.measure(power.read(path, PLAIN))


def test_an_inference_between_two_samples_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "meter.csv"
    lines = [f"{k},300,{int(k in (5, 6))}" for k in range(12)]
    path.write_text("\n".join(["time (ms),power (mW),mark", *lines]))
    with pytest.raises(InputError, match="sample faster"):
        power.measure(power.read(path, PLAIN))


def test_as_many_samples_as_are_asked_for_do(tmp_path: Path) -> None:
    path = tmp_path / "meter.csv"
    lines = [f"{k},300,{int(5 <= k < 5 + power.LEAST_SAMPLES)}" for k in range(20)]
    path.write_text("\n".join(["time (ms),power (mW),mark", *lines]))
    assert len(power.measure(power.read(path, PLAIN)).windows) == 1


def test_sessions_of_a_monitor_are_told_from_csv(tmp_path: Path) -> None:
    path = tmp_path / "session.stpm"
    path.write_bytes(b"PK\x03\x04" + bytes(40))
    with pytest.raises(InputError, match="unpack it"):
        power.read(path, PLAIN)


def test_a_file_that_is_too_long_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(power, "MAX_ROWS", 100)
    with pytest.raises(InputError, match="more than 100 samples"):
        power.read(meter(tmp_path), PLAIN)


def test_the_verb_shows_measured_beside_estimated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, first = str(meter(tmp_path)), str(Path(__file__).parents[2] / "examples" / "first")
    assert cli.main(["recordings", "power", path, "--build", first]) == 0
    out = capsys.readouterr().out
    assert "300.0 uJ +- 3.0 uJ/inference" in out and "estimated" in out and "not within bounds" in out
    recording = str(written(tmp_path, made()))
    assert cli.main(["recordings", "power", path, "--recording", recording, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["energy_uj"] == pytest.approx(300.0) and told["estimate"] is None and len(told["inferences"]) == 3
    assert cli.main(["recordings", "power", path, "--volts", "-1"]) == 2


def test_whatever_is_in_a_file_it_is_read_or_refused(tmp_path: Path) -> None:
    whole = meter(tmp_path).read_bytes()
    path, refused = tmp_path / "damaged.csv", 0
    for seed in range(300):
        dice, stored = random.Random(seed), bytearray(whole)
        for _ in range(dice.randrange(1, 6)):
            place = dice.randrange(60 if seed % 3 == 0 else len(stored))
            stored[place : place + dice.randrange(3)] = dice.randbytes(dice.randrange(3))
        path.write_bytes(stored)
        try:
            found = power.measure(power.read(path, PLAIN))
        except InputError:
            refused += 1
        else:
            assert isfinite(found.uj) and isfinite(found.within_uj)
    assert refused > 100
