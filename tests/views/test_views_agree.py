"""One truth: every view of a build says the same of it, to the cycle and to the byte."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from atonc.compiler.compile import compile_view
from atonc.compiler.compile.pipeline import Compiled, compile_file
from atonc.compiler.request.options import Options
from tests.views.views import MEMORY, TIME, VIEWS, Build, Figures

ROOT = Path(__file__).parents[2]
CORPUS = Path(os.environ.get("ATONC_CORPUS", ROOT.parent / "shared" / "corpus")) / "models"
EXAMPLES = ROOT / "examples" / "digits"
MODELS = [EXAMPLES / "digits.tflite", EXAMPLES / "digits.onnx"]
MODELS += [file for file in (CORPUS / "kws_ref_model.tflite", CORPUS / "trained_lstm_int8.tflite") if file.is_file()]

CONTROLLER: dict[str, dict[str, Any]] = {"controller": {}, "driver": {"epoch_controller": False}}
WEIGHTS: dict[str, dict[str, Any]] = {"plain": {}, "resident": {"resident": "all"}}
OTHERS: dict[str, dict[str, Any]] = {
    "prefetch": {"schedule_with": ("prefetch",)},
    "own input": {"inputs_allocation": False},
    "encrypted": {"encrypt_weights": True},
    "spill": {},
}
FLAGS = {
    "epoch_controller": ("--no-epoch-controller",),
    "resident": ("--resident",),
    "schedule_with": ("--schedule-with", "prefetch"),
    "inputs_allocation": ("--no-inputs-allocation",),
    "encrypt_weights": ("--encrypt-weights",),
}
MACHINES: dict[str, dict[str, Any]] = {
    "default": {},
    "400 MHz": {"npu_mhz": 400.0, "cpu_mhz": 400.0},
    "slow flash": {"flash_mbps": 100.0},
}
SMALL = sorted(CORPUS.glob("*.*"), key=lambda file: (file.stat().st_size, file.name))[:20]
EVERYTHING = bool(os.environ.get("ATONC_EXPLORE"))  # else each model once: each machine and weights see a sixth of them
ON_MACHINES = [
    (model, machine, weights)
    for (number, model), (place, (machine, weights)) in product(enumerate(SMALL), enumerate(product(MACHINES, WEIGHTS)))
    if EVERYTHING or number % (len(MACHINES) * len(WEIGHTS)) == place
]
CASES = [
    *((model, c, w) for model in MODELS for c in CONTROLLER for w in WEIGHTS),
    *((MODELS[0], "controller", other) for other in OTHERS),
]


def tiny_memories(folder: Path) -> Path:
    """Two KiB on the chip, and RAM outside."""
    pools = [
        _pool("npuRAM3", 0x3420_0000, 2, "ACC_WRITE", 8, 1.25),
        _pool("hyperRAM", 0x9000_0000, 4096, "ACC_WRITE", 2, 5.0),
        _pool("octoFlash", 0x7038_0000, 4096, "ACC_READ", 1, 6.0),
    ]
    file = folder / "tiny.mpool"
    file.write_text(json.dumps({"memory": {"mempools": pools}}))
    return file


def _pool(name: str, base: int, kib: int, rights: str, width: int, ratio: float) -> dict[str, Any]:
    speed = {"rights": rights, "throughput": "HIGH", "latency": "LOW", "byteWidth": width, "freqRatio": ratio}
    place = {"offset": {"value": hex(base), "magnitude": "BYTES"}, "size": {"value": str(kib), "magnitude": "KBYTES"}}
    return {"fname": name, "name": name, "fformat": "FORMAT_RAW", "prop": speed, **place}


def build(model: Path, controller: str, weights: str, folder: Path, clocks: Mapping[str, float] | None = None) -> Build:
    options = {**CONTROLLER[controller], **{**WEIGHTS, **OTHERS}[weights]}
    flags = tuple(word for key in options for word in FLAGS[key])
    for name, value in (clocks or {}).items():
        options[name] = value
        flags = (*flags, f"--{name.replace('_', '-')}", str(value))
    if weights == "spill":
        options["mpool"] = str(tiny_memories(folder))
        flags = (*flags, "--mpool", options["mpool"])
    return Build(model, options, flags, folder / "out")


@pytest.fixture
def compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Views of one case are of one compilation: two of the same options give the same bytes (test_determinism)."""
    known: dict[str, Compiled] = {}

    def once(model: Path, options: Options, watch: Any) -> Compiled:
        key = f"{model} {options}"
        if key not in known:
            known[key] = compile_file(model, options, watch)
        return known[key]

    monkeypatch.setattr(compile_view, "compile_file", once)


@pytest.mark.usefixtures("compiled_once")
@pytest.mark.parametrize(("model", "controller", "weights"), CASES, ids=lambda one: Path(one).name)
def test_every_view_says_the_same(model: Path, controller: str, weights: str, tmp_path: Path) -> None:
    figures = agreed(build(model, controller, weights, tmp_path))
    _is_sensible(figures, weights)


@pytest.mark.usefixtures("compiled_once")
@pytest.mark.skipif(not SMALL, reason="the corpus is not here: set ATONC_CORPUS")
@pytest.mark.parametrize(("model", "machine", "weights"), ON_MACHINES, ids=lambda one: Path(one).name)
def test_corpus_models_on_every_machine(model: Path, machine: str, weights: str, tmp_path: Path) -> None:
    told = {c: agreed(build(model, c, weights, tmp_path / c, MACHINES[machine])) for c in CONTROLLER}
    assert told["controller"]["cycles"] <= told["driver"]["cycles"], "who programs an epoch is priced"


def agreed(one: Build) -> Figures:
    """What all views say."""
    said: dict[str, dict[str, Any]] = {}
    for show in VIEWS:
        for figure, value in show(one).items():
            said.setdefault(figure, {})[show.__name__] = value
    for figure, values in said.items():
        first = values[next(iter(values))]
        others = {view: value for view, value in values.items() if value != first}
        assert not others, (figure, first, others)
    assert all(len(said[figure]) >= 8 for figure in (*MEMORY, *TIME)), "most views tell each"
    return {figure: next(iter(values.values())) for figure, values in said.items()}


def _is_sensible(figures: Figures, weights: str) -> None:
    """Equal, and not by being nothing."""
    parts = [figures[f"{part}_bytes"] for part in ("activations", "resident", "prefetched", "relocatable")]
    assert figures["ram_bytes"] == sum(parts) and figures["weights_bytes"] > 0
    assert figures["lower_bound_bytes"] <= figures["activations_bytes"] > 0
    assert figures["live_bytes"] <= figures["ram_bytes"]
    assert (figures["resident_bytes"] > 0) == (weights == "resident")
    assert (figures["relocatable_bytes"] > 0) == (weights == "own input")
    outside = figures["pools"].get("hyperRAM", 0)
    assert figures["spilled_bytes"] == outside < figures["activations_bytes"]
    assert (outside > 0) == (weights == "spill") and figures["lower_bound_bytes"] != outside
    assert len(set(figures["layer_names"])) == len(figures["layer_names"]) > 0
    assert figures["layers_cycles"] == figures["cycles"]
