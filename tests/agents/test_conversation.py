"""A conversation with the package's own client: why is a layer on the CPU, what mends it, did it help?"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.agents.client import ROOT, TOLD, Client, agents_folder, document, said, talk
from tests.patience import PATIENCE


async def _conversation(client: Client) -> dict[str, Any]:
    heard: dict[str, Any] = {"progress": []}

    async def progress(done: float, total: float | None, message: str | None) -> None:
        heard["progress"].append((done, total, message))

    tools = (await client.list_tools()).tools
    heard["tools"] = {tool.name: tool for tool in tools}
    heard["skill"] = (await client.read_resource("atonc://skill")).contents[0].text
    asked = {"model": TOLD, "symptom": "a layer is on the CPU"}
    heard["prompt"] = (await client.get_prompt("from-symptom-to-fix", asked)).messages[0].content.text
    analyzed = document(await client.call_tool("analyze", {"model": TOLD}, progress_callback=progress))
    (on_cpu,) = analyzed["cpu_ops"]
    why = document(await client.call_tool("explain", {"model": TOLD, "options": {"layer": on_cpu["node"]}}))
    (decision,) = [one for one in why["layers"][0]["decisions"] if one["rule"] == on_cpu["rule"]]
    option, value = decision["price"]["how"].removeprefix("compiled with --").split(" ")
    mend = {"options": {option: value}}
    before = await client.call_tool("generate", {"model": TOLD, "output": "before"})
    after = await client.call_tool("generate", {"model": TOLD, "output": "after", **mend})
    compared = await client.call_tool("compare", {"a": "before", "b": "after", "document": "compared.json"})
    checked = await client.call_tool("validate", {"model": TOLD, "options": {option: value, "batches": 2}})
    return heard | {"analyzed": analyzed, "on_cpu": on_cpu, "mend": mend, "before": document(before),
                    "after": document(after), "compared": document(compared), "checked": document(checked)}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return agents_folder(tmp_path_factory.mktemp("agent"))


@pytest.fixture(scope="module")
def heard(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = talk(folder, _conversation)
    return found


def test_a_layer_on_the_cpu_is_found_mended_and_compared(heard: dict[str, Any], folder: Path) -> None:
    assert (heard["on_cpu"]["node"], heard["on_cpu"]["rule"]) == ("SOFTMAX_7", "CPU-SOFTMAX")
    assert heard["mend"] == {"options": {"cut-output-tensors": "dense"}}
    assert heard["before"]["cpu_ops"] and not heard["after"]["cpu_ops"]
    assert heard["after"]["cycles"] < heard["before"]["cycles"]
    for side, one in (("a", "before"), ("b", "after")):
        assert heard["compared"][side]["latency_ms"] == heard[one]["latency_ms"]
    assert heard["checked"]["passed"] is True and heard["checked"]["samples"] == 2
    assert json.loads((folder / "compared.json").read_text()) == heard["compared"]
    assert (folder / "before" / "network.c").is_file() and (folder / "after" / "network.c").is_file()


def test_a_result_is_the_document_of_the_command_line(heard: dict[str, Any], folder: Path) -> None:
    command = [sys.executable, "-m", "atonc.doors.cli.cli", "analyze", TOLD, "--json"]
    here = {"PYTHONPATH": str(ROOT)}
    printed = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=True, env=here, timeout=PATIENCE
    )
    ours, theirs = heard["analyzed"], json.loads(printed.stdout)
    assert ours | {"seconds": 0} == theirs | {"seconds": 0}


def test_stages_are_told_as_progress_that_never_falls_back(heard: dict[str, Any]) -> None:
    shares = [share for share, total, _ in heard["progress"] if total == 1.0]
    assert len(shares) > 3 and shares == sorted(set(shares)) and shares[-1] <= 1
    assert "running on the emulator" in {message for *_, message in heard["progress"]}


def test_tools_say_what_they_take_and_change(heard: dict[str, Any]) -> None:
    assert list(heard["tools"]) == [
        "analyze", "explain", "compare", "quantize", "generate", "validate", "board_try"
    ]  # fmt: skip
    options = heard["tools"]["analyze"].input_schema["properties"]["options"]["properties"]
    assert {"prefer", "max-latency", "cut-output-tensors"} <= set(options)
    for tool in heard["tools"].values():  # no option that names a file, a line to a board or a host
        named = tool.input_schema["properties"]["options"]["properties"]
        assert not {"mpool", "valinput", "val-json", "desc", "page", "gdb", "decisions", "evidence", "scheduler",
                    "output", "st-neural-art", "front-end", "mode", "record"} & set(named)  # fmt: skip
    assert "runtime" not in heard["tools"]["validate"].input_schema["properties"]["options"]["properties"]
    writing = {name for name, tool in heard["tools"].items() if not tool.annotations.read_only_hint}
    assert writing == {"quantize", "generate", "board_try"}


def test_the_skill_leads_from_symptoms_to_options_that_exist(heard: dict[str, Any]) -> None:
    assert heard["skill"].startswith("---\nname: stm32n6-model-tuning\ndescription: ")
    assert heard["prompt"].startswith(heard["skill"]) and TOLD in heard["prompt"]
    properties = [tool.input_schema["properties"]["options"]["properties"] for tool in heard["tools"].values()]
    options = {name for found in properties for name in found}
    used = ("cut-output-tensors", "input-data-type", "resident", "prefer", "no-spill", "accuracy", "wide",
            "calibration", "max-latency", "max-ram", "no-cpu")  # fmt: skip
    assert all(f"`{name}`" in heard["skill"] and name in options for name in used)
    assert all(f"`{name}`" in heard["skill"] for name in heard["tools"])


def test_the_earlier_protocol_a_gate_and_a_part_that_is_too_large(folder: Path) -> None:
    async def talking(client: Client) -> list[Any]:
        wanted = {"model": TOLD, "options": {"max-latency": 0.001}}
        return [
            await client.call_tool("analyze", wanted),
            await client.call_tool("explain", {"model": TOLD, "options": {"layer": "nothing"}}),
        ]

    gated, wrong = talk(folder, talking, mode="legacy")
    assert document(gated)["gates"] and "exit code 1" in gated.content[1].text
    assert "--max-latency allows 0.001 ms" in gated.content[1].text
    first, *rest = said(wrong).splitlines()
    assert first == "digits.tflite: no layer is called 'nothing'" and rest[0].startswith("  fix: ")
    assert wrong.structured_content["error"]["what"] == "no layer is called 'nothing'"
