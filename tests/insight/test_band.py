"""The band around a prediction: what widens it, that measured times lie inside, and that every view shows it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

import atonc
from atonc.delivery.texts import target_text
from atonc.doors.cli.cli import main
from atonc.doors.python.compilation import Compilation
from atonc.doors.serve.worker import summary
from atonc.insight.explain.types import AccuracyReport, Measured, MeasuredBlock, error_band
from atonc.insight.quantizing.types import QuantizedCandidate
from atonc.insight.report import accuracy_text, compare_text, document, exports, quantize_text
from atonc.insight.report.compare_text import comparison_data
from atonc.insight.report.html.network import network_data
from atonc.machine.cost.band import BY_RELEASE, GUESSES, KERNELS, NPU_TIME, PredictionBand, band_of, limits
from atonc.machine.cost.network import cpu_cost
from atonc.machine.emu.cpu.cycles import CallCost
from atonc.machine.hw.cycles import doubts
from atonc.machine.hw.cycles.st_estimate import fast_library
from atonc.machine.hw.machine import stm32n6

ROOT = Path(__file__).parent.parent.parent
DIGITS = ROOT / "examples" / "digits" / "digits.tflite"
RESULT = ROOT / "benchmarks" / "results" / "hw_cycles.json"


@dataclass(frozen=True)
class Step:
    milliseconds: float
    doubts: Mapping[str, float] = field(default_factory=dict)  # cycles, of 1000
    known: bool = True
    cycles: int = 1000


def band(*steps: tuple[bool, Step]) -> PredictionBand:
    return band_of(steps)


# ------------------------------------------------------------------------------------------------------ what widens it


def test_time_that_calibration_covers_is_the_narrowest() -> None:
    plain = band((False, Step(2.0)))
    assert (plain.low, plain.high) == limits()[NPU_TIME][:2] and not plain.parts
    assert plain.around(100) == pytest.approx((97, 103)) and plain.holds(100, 102) and not plain.holds(100, 104)


@pytest.mark.parametrize("topic", [topic for topic in limits() if topic not in (NPU_TIME, KERNELS, GUESSES)])
def test_every_doubt_widens_by_its_share(topic: str) -> None:
    plain, half = band((False, Step(2.0))), band((False, Step(2.0, {topic: 500})))
    low, high, why = limits()[topic]
    assert half.high - plain.high == pytest.approx(high / 2) and half.low - plain.low == pytest.approx(low / 2)
    assert half.parts == ((topic, 0.5),) and f"50 % in {topic}" in str(half) and why


def test_cpu_kernels_by_whether_they_were_measured() -> None:
    steps = (False, Step(8.0)), (True, Step(1.0)), (True, Step(1.0, known=False))
    found = band(*steps)
    assert found.high == pytest.approx(0.8 * 0.03 + 0.1 * 0.15 + 0.1 * limits()[GUESSES].high)
    assert dict(found.parts) == pytest.approx({KERNELS: 0.1, GUESSES: 0.1})


@pytest.mark.parametrize(
    ("npu", "varied", "other", "measured"), [(9.85, 10.92, 1.59, 18.695), (29.04, 9.93, 0.27, 35.721)]
)
def test_kernels_that_newer_releases_compute_faster(npu: float, varied: float, other: float, measured: float) -> None:
    """Softmax of tinyissimoyolo_v8 320 and resize of st_yoloxn 480, both of ST 4.0.0, on a DK of others."""
    steps = (False, Step(npu)), (True, Step(varied, {BY_RELEASE: 1000})), (True, Step(other))
    found = band(*steps)
    assert found.holds(npu + varied + other, measured) and found.high == pytest.approx(band(*_plain(steps)).high)
    assert BY_RELEASE in dict(found.parts)


def _plain(steps: tuple[tuple[bool, Step], ...]) -> tuple[tuple[bool, Step], ...]:
    return tuple((on_cpu, replace(step, doubts={})) for on_cpu, step in steps)


def test_softmax_and_resize_vary_by_release() -> None:
    """Other kernels of the library do not."""
    softmax, copy = CallCost(800, by_release=True), CallCost(800)
    cost = cpu_cost([softmax, copy], stm32n6(), "")
    assert cost.doubts == {BY_RELEASE: pytest.approx(cost.cycles / 2)} and not cpu_cost([copy], stm32n6(), "").doubts
    known = cpu_cost([softmax.with_4(), copy.with_4()], stm32n6(), "")
    assert not known.doubts and known.cycles < cost.cycles and copy.with_4() == copy
    versions = ("atonn-v1.1.1-14-ge619e860", "atonn-v1.1.3-8-g80369096", "STAI-3.0.0-254-g7cc65410")
    assert [fast_library(one) for one in versions] == [False, False, True]


def test_constants_are_those_of_the_machine() -> None:
    machine = stm32n6()
    low, high = machine.ranges["controller_word"]
    word = machine.timing.controller_word
    assert limits()[doubts.WORDS][:2] == pytest.approx((low / word - 1, high / word - 1)) and low < word < high
    for name, (least, most) in machine.ranges.items():
        value = getattr(machine.timing, name, None) or getattr(machine.clocks, name)
        assert least <= value <= most, f"{name} = {value} lies outside its own range"


# ------------------------------------------------------------------------------------------------ measured times inside


@pytest.mark.skipif(not RESULT.is_file(), reason="results of benchmarks are not part of this checkout")
def test_nine_of_ten_measured_times_lie_inside() -> None:
    found = json.loads(RESULT.read_text())
    rows = [row for row in found["networks"] if "ms" in row]
    inside = [row["low_ms"] <= row["measured_ms"] <= row["high_ms"] for row in rows]
    assert len(rows) >= 20 and sum(inside) >= 0.9 * len(rows)
    assert sum(inside) == found["summary"]["networks_inside"]
    assert found["summary"]["epochs_inside"] >= 0.9 * found["summary"]["epochs"] > 0


# ------------------------------------------------------------------------------------------------------- in every view


@pytest.fixture(scope="module")
def digits() -> Compilation:
    return atonc.compile(DIGITS)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("digits")
    assert main(["generate", str(DIGITS), "-o", str(place), "--quiet"]) == 0
    return place


def span(digits: Compilation) -> str:
    return f"{digits.latency_low_ms:.3f} to {digits.latency_high_ms:.3f}"


@pytest.mark.parametrize("verb", ["analyze", "explain"])
def test_verbs_on_models(verb: str, digits: Compilation, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([verb, str(DIGITS)]) == 0
    assert span(digits) in capsys.readouterr().out
    assert main([verb, str(DIGITS), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["latency_low_ms"], document["latency_high_ms"]) == digits.band.around(digits.latency_ms)


@pytest.mark.parametrize("verb", ["run", "explain"])
def test_verbs_on_folders(verb: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([verb, str(folder), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    low, high = document["latency_low_ms"], document["latency_high_ms"]
    assert low < document["latency_ms"] < high
    assert main([verb, str(folder)]) == 0
    assert f"{low:.3f} to {high:.3f}" in capsys.readouterr().out


def test_compare(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", str(folder), str(folder), "--json"]) == 0
    side = json.loads(capsys.readouterr().out)["a"]
    assert side["latency_low_ms"] < side["latency_ms"] < side["latency_high_ms"]
    assert main(["compare", str(folder), str(folder)]) == 0
    text = f"{side['latency_low_ms']:.3f} to {side['latency_high_ms']:.3f}"
    assert capsys.readouterr().out.count(text) == 2


def test_pages(digits: Compilation) -> None:
    from atonc.insight.explain.compare import compare

    low, high = error_band(digits.network).around(digits.latency_ms)
    totals = network_data(digits.network)["totals"]
    assert (totals["low_ms"], totals["high_ms"]) == (low, high)
    side = comparison_data(compare(digits.network, digits.network))["sides"][0]
    assert (side["low_ms"], side["high_ms"]) == (low, high)
    for script in ("insight/report/html/assets/start.js", "insight/report/html/assets/compare.js"):
        assert "low_ms" in (ROOT / "atonc" / script).read_text()


def test_python_notebook_and_netron(digits: Compilation) -> None:
    assert span(digits) in repr(digits) and span(digits) in digits._repr_html_()
    assert digits.band == error_band(digits.network) == digits.view.cost.band
    assert span(digits).encode() in exports.annotated(digits.network)


def test_sweep(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], digits: Compilation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "sweep.toml").write_text(f'models = ["{DIGITS}"]\n')
    assert main(["sweep", str(tmp_path / "sweep.toml"), "-o", str(tmp_path / "out")]) == 0
    out = capsys.readouterr().out
    assert f"{digits.latency_low_ms:.3f}" in out and f"{digits.latency_high_ms:.3f} ms" in out


def test_the_service_keeps_it(digits: Compilation) -> None:
    from atonc.insight.report.compile_text import as_json

    found = summary(as_json(digits.view) | {"gates": []})
    assert (found["latency_low_ms"], found["latency_high_ms"]) == (digits.latency_low_ms, digits.latency_high_ms)
    for script in ("parts.js", "models.js"):  # the page of a build has the tiles of its report
        assert "band(" in (ROOT / "atonc" / "doors" / "serve" / "assets" / script).read_text()


def test_beside_a_measured_time() -> None:
    block = MeasuredBlock(1, 2, 0, 100, 0, 0.5, 0.4, 500_000, 400_000)
    measured = Measured("a board", 800_000_000, 1_000_000_000, 0.5, (block,), (0.39, 0.43))
    assert "predicted 0.400 ms (0.390 to 0.430)" in str(next(target_text.measured_blocks(measured, False)))


def test_quantising_and_accuracy() -> None:
    candidate = QuantizedCandidate("free scales", 40.0, (0.0, 99.0), 0.8, 800_000, span_ms=(0.78, 0.9))
    assert quantize_text.time_text(candidate) == "0.800 ms (0.780 to 0.900)"
    assert candidate.as_dict()["low_ms"] == 0.78 and candidate.as_dict()["high_ms"] == 0.9
    assert quantize_text.time_text(replace(candidate, milliseconds=None)) == "refused"
    report = AccuracyReport("m", "", 1, False, (), (), (), 0.8, latency_span_ms=(0.78, 0.9))
    assert "0.800 ms predicted (0.780 to 0.900)" in document.lines(accuracy_text.document(report))[0]


WORDS = re.compile(r"\bband|_band|span_of|latency_low_ms|span_ms|low_ms")
NOT_PREDICTED = {"load_text.py", "front.py"}  # counted on the virtual board or by a firmware; only compares


def test_no_view_was_forgotten() -> None:
    """Whoever shows a predicted latency shows its band."""
    rooms = ("report", "explorer", "serve", "sweeping")
    files = [path for room in rooms for path in sorted((ROOT / "atonc").glob(f"*/{room}/**/*.py"))]
    shown = [path for path in files if "latency_ms" in path.read_text() and path.name not in NOT_PREDICTED]
    assert len(shown) >= 10
    assert [path.name for path in shown if not WORDS.search(path.read_text())] == []


def test_the_page_of_a_comparison_shows_the_cells_of_its_text(digits: Compilation) -> None:
    from atonc.insight.explain.compare import compare

    found = compare(digits.network, digits.network)
    titles, *figures = comparison_data(found)["figures"]
    shown = "\n".join(document.lines(compare_text.document(found, verbose=True)))
    assert "B / A" in titles and any("energy" in row[0] for row in figures)
    for row in figures:
        assert all(cell in shown for cell in row)
