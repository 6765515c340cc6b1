"""What the chip could do at best stands beside every layer, in every source, and no program is said to beat it."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict
from pathlib import Path

import pytest

from atonc.compiler.compile.compile_view import analyze
from atonc.compiler.request.options import Options
from atonc.delivery.generate import generating
from atonc.insight.explain.folder import folder_view
from atonc.insight.explain.limits import OUTSIDE, LayerWork, limit_of, network_limit
from atonc.insight.explain.ours import network_view
from atonc.insight.explain.types import NetworkView
from atonc.insight.report import document, explain_text
from atonc.machine.hw.cycles import hardware
from atonc.machine.hw.machine import FLASH, stm32n6
from benchmarks.shared.corpus import corpus_dir
from tests.compiler.golden_graphs import GRAPHS
from tests.insight.views import view

DIGITS = Path(__file__).parent.parent.parent / "examples" / "digits" / "digits.tflite"


def digits(resident: str = "") -> NetworkView:
    return network_view(analyze(DIGITS, Options(verify=False, resident=resident)))


@pytest.mark.parametrize("resident", ["", "all"])
def test_no_layer_is_below_its_bounds(resident: str) -> None:
    found = [layer for layer in digits(resident).layers if layer.practical_cycles]
    assert len(found) == 4
    assert all(layer.times_limit >= 1 and layer.absolute_cycles < layer.practical_cycles for layer in found)


def test_weights_in_flash_are_a_limit_and_weights_in_ram_are_not() -> None:
    flash, ram = digits(), digits("all")
    assert flash.limit and ram.limit and flash.limit.practical_in_ram == pytest.approx(ram.limit.practical, rel=0.02)
    assert flash.limit.absolute > 5 * ram.limit.absolute
    assert [layer.limit.held_by for layer in flash.layers if layer.name == "CONV_2D_4" and layer.limit] == [OUTSIDE]


def test_layers_that_share_epochs_stay_above_what_the_network_cannot_beat() -> None:
    """In this network convolutions run beside each other and carry what follows them."""
    model = corpus_dir() / "models" / "coco_2017_person__st_ssd_mobilenet_v1_025_192_int8.tflite"
    if not model.is_file():
        pytest.skip("the corpus is not here")
    found = network_view(analyze(model, Options(verify=False)))
    assert found.limit and 1 < found.limit.times_practical < found.limit.times_absolute
    owners = Counter(number for layer in found.layers for number in layer.steps)
    below = [layer for layer in found.layers if 0 < layer.times_limit < 1]
    assert below and all(any(owners[number] > 1 for number in layer.steps) for layer in below)


def test_a_folder_says_the_same_at_the_same_clocks_and_older_folders_nothing(tmp_path: Path) -> None:
    made, folder = generating.analyze(DIGITS, Options(verify=False)), tmp_path / "out"
    generating.generate(made, folder)
    ours, read = network_view(made), folder_view(folder)
    assert [layer.limit for layer in ours.layers] == [layer.limit for layer in read.layers]
    slower = folder_view(folder, adjust=lambda machine: machine.with_clocks(npu_mhz=500.0))
    assert read.limit and slower.limit and slower.limit.practical < read.limit.practical  # flash keeps its own speed
    file = folder / "network_program.json"
    root = json.loads(file.read_text())
    for row in root["layers"]:
        row.pop("work", None)
    file.write_text(json.dumps(root))
    (folder / "network_manifest.json").unlink()  # it holds the hash of the file
    older = folder_view(folder)
    assert older.limit is None and not any(layer.limit for layer in older.layers)


def test_units_bus_and_flash_each_can_be_the_limit() -> None:
    machine = stm32n6()
    work = {"macs": 288_000, "lane_cycles": 2_000, "read_bytes": 0, "written_bytes": 0, "program_words": 100}
    base = limit_of(LayerWork(**work, outside_bytes={}), machine, hardware.CONTROLLER)
    assert (base.units, base.absolute, base.practical) == (1_000, 1_000, 2_000 + 950 + 700)
    moved = limit_of(LayerWork(**(work | {"read_bytes": 160_000}), outside_bytes={}), machine, hardware.CONTROLLER)
    assert moved.bus > base.practical and moved.absolute == moved.bus
    flash = limit_of(LayerWork(**work, outside_bytes={FLASH: 4_000}), machine, hardware.CONTROLLER)
    assert flash.outside == flash.absolute == round(4_000 * machine.flash_byte_cycles)
    assert flash.practical - flash.start == flash.outside and flash.practical_in_ram == base.practical


def test_the_network_overlaps_what_layers_wait_for() -> None:
    machine = stm32n6()
    work = {"read_bytes": 0, "written_bytes": 0, "program_words": 0}
    flash = limit_of(LayerWork(288, 1, **work, outside_bytes={FLASH: 4_000}), machine, hardware.CONTROLLER)
    units = limit_of(LayerWork(288_000, 1_000, **work, outside_bytes={}), machine, hardware.CONTROLLER)
    found = network_limit([flash, units], cycles=100_000, cpu_cycles=7)
    assert found is not None and found.absolute == max(flash.outside, 1_001)
    assert found.practical == flash.practical + units.practical + 7
    assert network_limit([], 5, 5) is None


def test_a_pointwise_layer_is_held_by_its_results_and_a_deep_one_by_its_products() -> None:
    shallow = next(layer for layer in view(GRAPHS["pointwise"]()).layers if layer.limit and layer.practical_cycles)
    assert shallow.limit and shallow.limit.work.lane_cycles * 288 > shallow.macs


def test_text_and_json_have_it() -> None:
    network = digits()
    assert network.limit is not None
    lines = document.lines(explain_text.document(network, network.layers, everything=True))
    said = next(line for line in lines if "attainable minimum" in line)
    assert said.startswith(f"{network.limit.times_practical:.2f}x attainable minimum, ")
    assert f"{network.limit.times_absolute:.2f}x theoretical minimum" in said
    data = explain_text.as_json(network, network.layers)
    assert data["limit"] == network.limit.as_dict()
    first = data["layers"][0]
    assert first["times_limit"] == round(first["cycles"] / first["practical_cycles"], 3) and first["limited_by"]
    assert json.dumps(asdict(network.layers[0].limit)) if network.layers[0].limit else False
