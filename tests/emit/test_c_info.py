"""`c_info.json`: the structure of ST's files, figures that add up, and our own reader finds nothing odd."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from atonc.compiler.compile.compile_view import CompileView
from atonc.compiler.emit import c_info
from atonc.compiler.emit.c.files import files
from atonc.compiler.request.options import Options
from atonc.delivery.generate.generating import analyze, c_network
from atonc.machine.emu.files.c_info import mismatch, read_c_info
from atonc.machine.emu.files.network_c import read_network
from tests.emit.json_structure import differences, structure
from tests.real_networks import CORPUS, usual

DIGITS = Path(__file__).parents[2] / "examples" / "digits" / "digits.tflite"
STRUCTURE = Path(__file__).with_name("c_info_structure.json")
FORMS: dict[str, dict[str, Any]] = {
    "blobs": {},
    "driver": {"epoch_controller": False},
    "user": {"inputs_allocation": False, "outputs_allocation": False},
}
MODELS = ("kws_ref_model.tflite", "yunetn_320_qdq_int8.onnx", "fomo_face_detection.tflite")


@cache
def compiled(form: str = "blobs") -> CompileView:
    return analyze(DIGITS, Options(verify=False, **FORMS[form]))


def document(view: CompileView) -> dict[str, Any]:
    network = c_network(view)
    return json.loads(json.dumps(c_info.document(view, network, files(network))))  # type: ignore[no-any-return]


def stored() -> dict[str, dict[str, dict[str, Any]]]:
    """The structure of all published files by release of the tool."""
    releases = json.loads(STRUCTURE.read_text())
    return {
        release: {
            path: {"always": words.split()[0] == "always", "types": words.split()[1:]} for path, words in rows.items()
        }
        for release, rows in releases.items()
    }


KNOWN = {path for rows in stored().values() for path in rows}


@pytest.mark.parametrize("form", FORMS)
def test_blobs_have_the_names_that_c_code_has(form: str) -> None:
    network = c_network(compiled(form))
    told = [blob["name"] for blob in document(compiled(form))["ec_blobs_info"]]
    written = b"".join(files(network).values()).decode(errors="replace")
    assert all(re.search(rf"\b{name}\b", written) for name in told) and bool(told) == (form != "driver")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("release", sorted(stored()))
def test_same_members_and_types_as_published_files(form: str, release: str) -> None:
    assert differences(document(compiled(form)), stored()[release], KNOWN) == []


def test_the_comparison_sees_what_is_missing_strange_or_of_another_type() -> None:
    model, good = stored()["3.0.0"], document(compiled())
    assert differences({**good, "more": 1}, model, KNOWN) == [".more is unknown"]
    assert ".memory_pools is missing" in differences(
        {k: v for k, v in good.items() if k != "memory_pools"}, model, KNOWN
    )
    good["buffers"][0]["nbits"] = "8"
    del good["graphs"][0]["nodes"][1]["subgraph_nodes"][0]["macc"]
    found = differences(good, model, KNOWN)
    assert any(text.startswith(".buffers[].nbits is") for text in found)
    assert ".graphs[].nodes[].macc is missing" in found


def samples() -> dict[str, list[Any]]:
    """Files of ST's front end by release."""
    found = defaultdict(list)
    for path in sorted((CORPUS / "st").glob("*/*c_info.json")):
        data = json.loads(path.read_bytes())
        release = next(t["version"] for t in data["environment"]["tools"] if t["name"] == "ST.EdgeAI.Core")
        if data.get("memory_footprint", {}).get("kernel_flash") is not None:
            found[release.partition("-")[0]].append(data)
    return found


@pytest.mark.skipif(not (CORPUS / "st").is_dir(), reason="no corpus (set ATONC_CORPUS)")
def test_same_members_and_types_as_the_samples_themselves() -> None:
    releases = samples()
    assert releases
    published = [structure(documents) for documents in releases.values()]
    for model in MODELS:
        made = document(usual(model))
        assert [differences(made, release, KNOWN) for release in published] == [[]] * len(published)


def nodes(data: dict[str, Any]) -> list[dict[str, Any]]:
    """All nodes, whatever they are in."""
    found, rest = [], list(data["graphs"][0]["nodes"])
    while rest:
        node = rest.pop()
        found.append(node)
        rest += node["subgraph_nodes"]
    return found


@pytest.mark.parametrize("form", FORMS)
def test_numbers_are_unique_and_point_at_something(form: str) -> None:
    data = document(compiled(form))
    ids = [node["id"] for node in nodes(data)]
    assert sorted(ids) == list(range(1, len(ids) + 1))
    assert [b["id"] for b in data["buffers"]] == list(range(1, len(data["buffers"]) + 1))
    buffers, pools = {b["id"] for b in data["buffers"]}, {p["id"]: p for p in data["memory_pools"]}
    for node in nodes(data):
        assert {*node["inputs"], *node["outputs"], *node["scratchs"]} <= buffers
    for edge in data["graphs"][0]["edges"]:
        assert {edge["start"]["node_id"], edge["end"]["node_id"]} <= set(ids)
        assert (edge["buffer"] in buffers) == (edge["edge_kind"] == "EDGE_MEMORY")
    for buffer in data["buffers"]:
        assert buffer["offset_start"] + buffer["size_bytes"] <= pools[buffer["mpool_id"]]["size_bytes"]
        assert buffer["id"] in pools[buffer["mpool_id"]]["buffers"]
    assert (
        {r["node_id"] for r in data["power_estimates"]} == {r["node_id"] for r in data["memory_accesses"]} <= set(ids)
    )


def test_figures() -> None:
    view = compiled()
    data = document(view)
    top = data["graphs"][0]["nodes"]
    assert sum(node["macc"] for node in top) == view.macs
    assert data["memory_footprint"]["activations"] == view.compiled.layout.peak_bytes
    estimates = {row["node_id"]: row for row in data["power_estimates"]}
    epochs = {
        node["name"]: node for node in nodes(data) if node["name"].startswith("epoch_") and "HW" in node["mapping"]
    }
    for step, cost in zip(view.compiled.program.steps, view.cost.steps, strict=True):
        if step.epoch is not None:
            row = estimates[epochs[f"epoch_{step.number}"]["id"]]
            assert row["max_cycles"] == cost.st_cycles >= row["compute_cycles"]
            assert row["average_acc_power_mw"] > 0
    flash = {pool["id"] for pool in data["memory_pools"] if pool["rights"] == "ACC_READ"}
    kept = [row for row in data["memory_accesses"] if row["mpool_id"] in flash]
    assert sum(row["reads"] for row in kept) and not any(row["writes"] for row in kept)
    assert [node["sw_functions"] for node in nodes(data) if node["sw_functions"]] == [["atonc_softmax_8"]]


def test_inputs_of_the_application_are_pools_of_their_own() -> None:
    data = document(compiled("user"))
    users = [pool for pool in data["memory_pools"] if pool["user_allocated"]]
    assert [pool["name"] for pool in users] == ["_user_io_input_0", "_user_io_output_0"]
    assert users[0]["buffers"] == data["graphs"][0]["inputs"]
    assert data["memory_footprint"]["io"] == [64, 10]


def test_no_date_and_the_same_twice() -> None:
    one, other = (document(analyze(DIGITS, Options(verify=False))) for _ in range(2))
    assert one == other


@pytest.mark.parametrize("form", FORMS)
def test_our_reader_reads_it_and_finds_the_network_it_belongs_to(form: str, tmp_path: Path) -> None:
    view = compiled(form)
    network = c_network(view)
    for name, content in files(network).items():
        (tmp_path / name).write_bytes(content)
    path = tmp_path / "network_c_info.json"
    path.write_text(json.dumps(document(view)))
    info = read_c_info(path)
    assert mismatch(info, read_network(tmp_path)) is None
    assert [n.epoch for n in info.nodes] == list(range(len(view.compiled.program.steps) + 1))
    assert {n.mapping for n in info.nodes[1:]} == {"SW", "HW" if form == "driver" else "EC"}
    assert sum(n.macc for n in info.nodes) == view.macs
