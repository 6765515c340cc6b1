"""What the chip could do at best stands beside every convolution, and no program is said to beat it."""

from __future__ import annotations

from pathlib import Path

import pytest

from atonc.compiler.compile.analyzing import analyze
from atonc.compiler.request.options import Options
from atonc.insight.explain.ours import network_view
from atonc.insight.explain.types import LayerView
from benchmarks.shared.corpus import corpus_dir

DIGITS = Path(__file__).parent.parent.parent / "examples" / "digits" / "digits.tflite"


def layers(model: Path, **options: object) -> list[LayerView]:
    found = network_view(analyze(model, Options(verify=False, **options)))  # type: ignore[arg-type]
    return [layer for layer in found.layers if layer.limit_cycles]


@pytest.mark.parametrize("resident", ["", "all"])
def test_no_layer_is_below_its_limit(resident: str) -> None:
    found = layers(DIGITS, resident=resident)
    assert found and all(layer.times_limit >= 1 for layer in found)


def test_weights_in_flash_are_a_limit_and_weights_in_ram_are_not() -> None:
    flash, ram = (sum(layer.limit_cycles for layer in layers(DIGITS, resident=where)) for where in ("", "all"))
    assert flash > 5 * ram


def test_layers_that_share_epochs_share_the_limit() -> None:
    """In this network convolutions run beside each other and carry what follows them."""
    model = corpus_dir() / "models" / "coco_2017_person__st_ssd_mobilenet_v1_025_192_int8.tflite"
    if not model.is_file():
        pytest.skip("the corpus is not here")
    found = layers(model)
    assert len(found) > 40 and min(layer.times_limit for layer in found) >= 0.999
