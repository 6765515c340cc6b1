"""Folders: ours keep names and reasons of their layers, the vendor's are named after its nodes."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import asdict, replace
from math import prod
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atonc.compiler.request.options import Options
from atonc.delivery.generate import generating
from atonc.insight.explain import saved, vendor
from atonc.insight.explain.folder import folder_view
from atonc.insight.explain.ours import network_view
from atonc.insight.explain.types import NetworkView, Verified
from atonc.insight.report.html import html_page
from atonc.machine.base.errors import InputError
from atonc.machine.emu.files.types import FunctionCall
from tests.insight.complete import gaps

ROOT = Path(__file__).parent.parent.parent
DIGITS = ROOT / "examples" / "digits" / "digits.tflite"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[NetworkView, Path]:
    folder = tmp_path_factory.mktemp("built") / "out"
    view = generating.analyze(DIGITS, Options(verify=False))
    generating.generate(view, folder)
    return network_view(view), folder


def test_a_folder_of_ours_says_what_the_compiler_said(built: tuple[NetworkView, Path]) -> None:
    compiled, folder = built
    read = folder_view(folder)
    assert read.tool.startswith("atonc")
    assert read.model == "digits.tflite"
    for one, two in zip(compiled.layers, read.layers, strict=True):
        assert (one.name, one.kind, one.nodes, one.on, one.steps) == (two.name, two.kind, two.nodes, two.on, two.steps)
        assert [d.rule.id for d in one.decisions] == [d.rule.id for d in two.decisions]
        assert (one.macs, one.shape) == (two.macs, two.shape)
    assert read.latency_ms == pytest.approx(compiled.latency_ms, rel=0.01)
    assert [step.known for step in read.steps] == [step.known for step in compiled.steps]
    assert {b.layer for b in read.buffers if b.kind == "activation"} <= {layer.name for layer in read.layers}


def test_layers_read_what_others_wrote(built: tuple[NetworkView, Path]) -> None:
    known = {one.name for one in built[0].inputs}
    for layer in built[0].layers:
        assert layer.inputs and set(layer.inputs) <= known, layer.name
        known |= set(layer.outputs)


def test_options_that_differ_are_kept(built: tuple[NetworkView, Path]) -> None:
    asked = {"--prefer": "memory", "--board": "mine.toml"}
    document = json.loads((built[1] / "network_program.json").read_text())
    kept = json.loads(json.dumps(document | saved.rows(replace(built[0], options=asked))))
    assert saved._saved(kept, {step["number"]: step["kind"] for step in document["steps"]}).options == asked


def test_without_our_file_names_come_from_c_info(built: tuple[NetworkView, Path], tmp_path: Path) -> None:
    folder = tmp_path / "out"
    shutil.copytree(built[1], folder)
    (folder / "network_program.json").unlink()
    read = folder_view(folder)
    nodes = [node for layer in read.layers for node in layer.nodes]  # one layer may do the work of two nodes
    assert sorted(nodes) == sorted(layer.nodes[-1] for layer in built[0].layers)
    assert all(layer.decisions for layer in read.layers)
    assert prod(read.layers[-1].shape) == 10 and all(prod(layer.shape) >= 10 for layer in read.layers)


def test_without_weights_the_program_is_explained(built: tuple[NetworkView, Path], tmp_path: Path) -> None:
    folder = tmp_path / "out"
    shutil.copytree(built[1], folder)
    for image in folder.glob("*.raw"):
        image.unlink()
    read = folder_view(folder)
    assert len(read.steps) == len(built[0].steps)
    assert "no initial contents" in read.notes[0]


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_damaged_files_are_ignored(built: tuple[NetworkView, Path], data: st.DataObject) -> None:
    document = json.loads((built[1] / "network_program.json").read_text())
    kinds = {step["number"]: step["kind"] for step in document["steps"]}
    assert saved._saved(document, kinds).layers
    wrong = data.draw(st.one_of(st.none(), st.integers(), st.text(max_size=3), st.lists(st.integers(), max_size=2)))
    row = data.draw(st.sampled_from([document, *document["layers"], *document["steps"]]))
    row[data.draw(st.sampled_from(sorted(row)))] = wrong
    try:
        found = saved._saved(document, kinds)
    except ValueError:
        return
    assert all(isinstance(layer, saved.SavedLayer) for layer in found.layers)


@pytest.mark.parametrize(
    ("place", "names"),
    [
        (("layers", 0), ("name", "op", "nodes", "epochs", "inputs", "outputs", "shape", "macs", "decisions")),
        (("layers", 0, "weights", 0), ("name", "shape", "dtype", "scales")),
        (("edges", "inputs", 0), ("name", "shape", "dtype", "scales")),
        (("verified",), ("samples", "layers", "worst_codes", "outputs", "tensors", "sums")),
        (("buffers", 0), ("name", "pool", "address", "size_bytes", "first_step", "last_step", "reserved_bytes")),
        (("memory",), ("relocatable_bytes", "code_constants_bytes")),
        ((), ("model", "board", "steps", "layers", "buffers", "memory")),
    ],
)
def test_what_every_build_writes_is_not_made_up(
    built: tuple[NetworkView, Path], place: tuple[str | int, ...], names: tuple[str, ...]
) -> None:
    text = (built[1] / "network_program.json").read_text()
    kinds = {step["number"]: step["kind"] for step in json.loads(text)["steps"]}
    for name in names:
        verified = json.loads(json.dumps(asdict(Verified(3, 8, 1.0, (), 12, "sums have room"))))
        row = document = json.loads(text) | {"verified": verified}
        assert saved._saved(document, kinds).verified
        for part in place:
            row = row[part]
        del row[name]
        with pytest.raises(ValueError):
            saved._saved(document, kinds)


PART = {"epoch": 3, "before": 0, "own": 2, "all": 4, "units": ["POOL"]}
SPREAD = {"rows": ["0" * saved.BINS], "lows": [0], "highs": [9], "channels": 1, "saturated": 0, "elements": 9}


@pytest.mark.parametrize(
    ("place", "value", "said"),
    [
        (("steps", 0, "kind"), "cpu", "another build"),
        (("layers", 3, "epochs"), [3, 99], "epochs"),
        (("layers", 3, "parts"), [PART], None),
        (("layers", 3, "parts"), [PART | {"before": 2}], None),
        (("layers", 3, "parts"), [PART | {"before": 3}], "parts"),
        (("layers", 3, "parts"), [PART | {"before": -1}], "parts"),
        (("layers", 3, "parts"), [PART | {"own": -1}], "parts"),
        (("layers", 3, "parts"), [PART | {"before": 0, "own": 0, "all": 0}], "parts"),
        (("layers", 3, "parts"), [PART | {"epoch": 4}], "parts"),
        (("edges", "inner", 1, "spread"), SPREAD, None),
        (("edges", "inner", 1, "spread"), SPREAD | {"rows": ["0" * saved.BINS] * 2}, "spread"),
        (("edges", "inner", 1, "spread"), SPREAD | {"highs": []}, "spread"),
        (("edges", "inner", 1, "spread"), SPREAD | {"rows": ["0" * (saved.BINS - 1)]}, "spread"),
        (("edges", "inner", 1, "spread"), SPREAD | {"rows": ["x" * saved.BINS]}, "spread"),
        (("layers",), {}, "rows"),
        (("layers",), [1], "rows"),
        (("layers", 0, "name"), "x" * (saved._LONG + 1), "<class 'str'>"),
        (("layers", 0, "macs"), 1 << 63, "<class 'int'>"),
        (("layers", 0, "macs"), True, "<class 'int'>"),
        (("layers", 0, "macs"), None, "LayerFacts"),
        (("edges", "inner", 1, "scale"), 1e31, "<class 'float'>"),
        (("edges",), {"inputs": []}, "not as it was written"),
        (("buffers", 0, "kind"), "none of ours", "'none of ours' is not a valid BufferKind"),
    ],
)
def test_what_cannot_be_is_refused(
    built: tuple[NetworkView, Path], place: tuple[str | int, ...], value: object, said: str | None
) -> None:
    document: Any = json.loads((built[1] / "network_program.json").read_text())
    kinds = {step["number"]: step["kind"] for step in document["steps"]}
    row = document
    for part in place[:-1]:
        row = row[part]
    row[place[-1]] = value
    if said is None:
        saved._saved(document, kinds)
        return
    with pytest.raises(ValueError) as refused:
        saved._saved(document, kinds)
    assert str(refused.value) == said


def test_nodes_of_the_vendor() -> None:
    assert vendor.base_names(["Conv2D_7_suboff_0"]) == ("Conv2D_7",)
    assert vendor.base_names(["Conv2D_12_suboff_9", "Conv2D_7", "Conv2D_7_off_bias_6"]) == ("Conv2D_7",)
    assert vendor.base_names(["Resize_Zeros_Crop_Pad_638_pad_kern_917"]) == ("Resize_Zeros_Crop_Pad_638",)
    kinds = {"Conv2D_7": "conv", "CONV_2D_3": "conv", "MaxPool_40": "max_pool", "Identity_inserted_id7": "identity"}
    assert {name: vendor.kind_of(name) for name in kinds} == kinds
    assert vendor.kind_of("epoch 7") == "epoch"
    assert vendor.kind_of("epoch 7", [FunctionCall("LL_ATON_LIB_Concat", ())]) == "concat"


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("ll_sw_forward_softmax_integer", "CPU-SOFTMAX"),
        ("ll_sw_forward_dequantizelinear", "CPU-DEQUANTIZE"),
        ("ll_sw_forward_quantizelinear", "CPU-QUANTIZE"),
        ("ll_sw_forward_conv", "CPU-FLOAT"),
        ("ll_sw_forward_conv_integer", "CPU-LIBRARY"),
        ("LL_ATON_LIB_DMA_Transpose", "MODE-MOVE"),
        ("LL_ATON_LIB_Cast", "CPU-CAST"),
        ("ll_sw_forward_something_new", "CPU-FLOAT"),
    ],
)
def test_functions_of_the_library_have_a_reason(name: str, rule: str) -> None:
    found = vendor.cpu_decisions([FunctionCall(name, ())])
    assert [one.rule.id for one in found] == [rule]
    assert found[0].seen and found[0].limit and found[0].remedy


def test_prime_channels_on_the_processor_are_named() -> None:
    place = {"dim": {"tensor_c": 257}, "stride": {axis: 1028 for axis in "bhwc"}, "mem": {"start_offset": 0x34200000}}
    tensor = {**place, "format": {"is_signed": 1}}
    call = FunctionCall("ll_sw_forward_conv", ({"general": {"input": tensor, "output": tensor}},))
    found = vendor.cpu_decisions([call])
    assert [one.rule.id for one in found] == ["MODE-CHANNELS", "CPU-FLOAT"]
    assert "257 channels" in found[0].seen


def test_a_description_alone_is_enough_to_look_at(built: tuple[NetworkView, Path], tmp_path: Path) -> None:
    folder = tmp_path / "info"
    folder.mkdir()
    shutil.copy(built[1] / "network_c_info.json", folder)
    read = folder_view(folder)
    assert "ST's compiler estimated" in read.notes[0]
    assert len(read.steps) == len(built[0].steps)
    assert {layer.nodes[-1] for layer in read.layers} <= {node for one in built[0].layers for node in one.nodes}
    assert read.memory.activations_bytes == built[0].memory.activations_bytes
    assert gaps(read) == []
    assert html_page(read)
    shutil.copy(folder / "network_c_info.json", folder / "other_c_info.json")
    with pytest.raises(InputError, match="several descriptions"):
        folder_view(folder)


CORPUS = Path(os.environ.get("ATONC_CORPUS", ROOT.parent / "shared" / "corpus")) / "st"


@pytest.mark.parametrize("folder", sorted(CORPUS.glob("*__*")) or [None], ids=lambda f: f.name if f else "none")
def test_descriptions_by_st_are_explained(folder: Path | None) -> None:
    if folder is None:
        pytest.skip("the corpus is not here: set ATONC_CORPUS")
    read = folder_view(folder)
    assert len(read.layers) > 20
    assert gaps(read) == []
