"""Calls that want what they may not have are refused with a reason, and the server goes on."""

from __future__ import annotations

import asyncio
import io
import json
import os
from pathlib import Path
from typing import Any

import pytest

from atonc.doors.agents.sandbox import FILE, INPUT, OUTPUT_FILE, OUTPUT_FOLDER, Sandbox
from atonc.doors.agents.tools import TOOLS, command_line
from atonc.doors.serve.limits import JobLimits
from atonc.machine.base.errors import InputError
from tests.agents.client import TOLD, Client, MCPError, agents_folder, document, said, talk

server = pytest.importorskip("atonc.doors.agents.server", reason="the package mcp is not installed")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    found = agents_folder(tmp_path)
    os.symlink(tmp_path / "secret.tflite", found / "link.tflite")
    os.symlink(tmp_path, found / "way_out")
    os.symlink(TOLD, found / "inside.tflite")
    os.mkfifo(found / "pipe.tflite")
    (found / "photos").mkdir()
    os.symlink("/etc/hostname", found / "photos" / "a.png")
    return found


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("../secret.tflite", "leads out"), ("/etc/passwd", "leads out"), ("a/../../secret.tflite", "leads out"),
        ("link.tflite", "leads out"), ("way_out/secret.tflite", "leads out"), ("a\0b", "no path that is taken"),
        ("pipe.tflite", "is no file"), (".", "is no file"), ("nothing.tflite", "no such file"), ("", "no path"),
        ("--output=x", "begins like an option"), ("a" * 5000, "no path that is taken"), (7, "no path"),
        (None, "no path"), (["x"], "no path"), ("\x1b[2J", "no path that is taken"), ("way_out/nothing", "leads out"),
    ],
)  # fmt: skip
def test_paths_stay_in_the_folder(folder: Path, path: Any, why: str) -> None:
    sandbox = Sandbox(folder.resolve(), 1 << 20)
    for kind in (FILE, OUTPUT_FILE, OUTPUT_FOLDER):
        if kind == FILE or "out" in why or "path" in why:
            with pytest.raises(InputError, match=why) as refused:
                sandbox.path(path, kind, "model")
            assert refused.value.where.startswith("model") and (refused.value.rule or refused.value.remedy)
    assert sandbox.path(TOLD, FILE, "model") == TOLD
    assert sandbox.path("inside.tflite", FILE, "model") == "inside.tflite"  # a link that stays


def test_folders_files_and_outputs(folder: Path) -> None:
    sandbox = Sandbox(folder.resolve(), 5000)
    for path, kind, why in (
        ("photos", INPUT, "a link, a device or a pipe"), ("photos", OUTPUT_FOLDER, "a link"), (".", INPUT, "a link"),
        (".", OUTPUT_FOLDER, "the folder itself"), (TOLD, OUTPUT_FOLDER, "is no folder to write"),
        ("photos", OUTPUT_FILE, "is no file to write"), (TOLD, FILE, "has 7.5 KiB|has .* KiB"),
        ("pipe.tflite", OUTPUT_FILE, "is no file to write"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=why):
            sandbox.path(path, kind, "output")
    assert sandbox.path("new/deep", OUTPUT_FOLDER, "output") == "new/deep"


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({}, "model is missing"), ({"model": TOLD, "modle": 1}, "no argument 'modle'"),
        ({"model": TOLD, "options": []}, "no object"),
        ({"model": TOLD, "options": {"mpool": "x"}}, "no option 'mpool'"),
        ({"model": TOLD, "options": {"output": "/tmp/x"}}, "no option 'output'"),
        ({"model": TOLD, "options": {"hex": "yes"}}, "not true or false"),
        ({"model": TOLD, "options": {"max-latency": float("nan")}}, None),
        ({"model": TOLD, "options": {"name": "x" * 9999}}, "are more than"),
        ({"model": TOLD, "options": {"board": "../b.toml"}}, "not offered"),
        ({"model": TOLD, "options": {"on": [["cpu", "--output"]]}}, "no list of pairs"),
        ({"model": TOLD, "document": "x.txt"}, "no name of a document"),
        ({"model": TOLD, "document": "../x.json"}, "leads out"), ({"model": TOLD, "output": "way_out/x"}, "leads out"),
    ],
)  # fmt: skip
def test_arguments_are_checked(folder: Path, arguments: dict[str, Any], why: str | None) -> None:
    sandbox = Sandbox(folder.resolve(), 1 << 20)
    if why is None:  # the command line refuses the number itself
        assert "--max-latency=nan" in command_line(TOOLS["generate"], arguments, sandbox)
        return
    with pytest.raises(InputError, match=why):
        command_line(TOOLS["generate"], arguments, sandbox)


def test_a_build_folder_that_leads_out_is_not_looked_into(folder: Path, tmp_path: Path) -> None:
    os.symlink(tmp_path, folder / "st_ai_output")
    with pytest.raises(InputError, match="leads out"):
        command_line(TOOLS["validate"], {"model": TOLD}, Sandbox(folder.resolve(), 1 << 20))


def test_a_long_message_is_passed_over_and_told(tmp_path: Path) -> None:
    rest = "x" * (2 * server.LONGEST_LINE + 5)
    first = f'{{"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": "{rest}"}}\n'
    last = f'{{"params": "{rest}", "id": "a-1"}}\n'
    lines = server.MessageLines(io.BytesIO(f"{first}{last}{rest}\nshort\n".encode()))
    assert [lines.read() for _ in range(5)] == [
        ("{}\n", 7),
        ("{}\n", "a-1"),
        ("{}\n", None),
        ("short\n", None),
        ("", None),
    ]


def test_of_a_large_document_the_largest_parts_are_left_out() -> None:
    whole = {
        "format": 1,
        "layers": ["x" * server.MOST_GIVEN],
        "memory": ["y" * (server.MOST_GIVEN // 2)],
        "latency_ms": 1.5,
    }
    found = server._given(whole, 0, "", "atonc explain m")
    assert found.structured_content == {key: whole[key] for key in ("format", "memory", "latency_ms")}
    assert json.loads(found.content[0].text) == found.structured_content
    assert "left out because of its size: layers (195 KiB)" in found.content[1].text


async def _hostile(client: Client) -> None:
    for arguments in ({"model": "../secret.tflite"}, {"model": "pipe.tflite"}, {"model": TOLD, "options": {"x": 1}}):
        first, *rest = said(await client.call_tool("analyze", arguments)).splitlines()
        assert not first.startswith(" ") and any(line.startswith("  fix: ") for line in rest)
    refused = said(await client.call_tool("generate", {"model": TOLD, "options": {"max-latency": "nan"}}))
    assert refused.startswith("--max-latency: 'nan' is not a number above zero")
    for name, arguments in (("rm", {}), ("analyze", {"model": "x" * (2 * server.LONGEST_LINE)})):
        with pytest.raises(MCPError, match=r"no tool 'rm'|longer than 1.* KiB"):
            await client.call_tool(name, arguments)
    deep: Any = "x"
    for _ in range(100):
        deep = [deep]
    assert "neither text nor a number" in said(
        await client.call_tool("analyze", {"model": TOLD, "options": {"name": deep}})
    )
    with pytest.raises(MCPError, match="no resource"):
        await client.read_resource("file:///etc/passwd")


def test_hostile_calls_end_in_errors_and_the_server_goes_on(folder: Path) -> None:
    async def talking(client: Client) -> Any:
        await _hostile(client)
        many = [
            client.call_tool("explain", {"model": TOLD, "options": {"layer": "SOFTMAX_7", "no-prices": True}})
            for _ in range(2)
        ]
        return await asyncio.gather(*many)

    found = talk(folder, talking, "--jobs", "2")
    assert len({json.dumps(document(one)) for one in found}) == 1  # beside each other, the same
    assert not (folder / "st_ai_output").exists()


ENDLESS = {"model": TOLD, "options": {"batches": 900_000}}


def test_a_call_that_is_cancelled_ends_with_its_process(folder: Path) -> None:
    """Nearly a million samples take hours; the only place for a call is free again at once."""

    async def talking(client: Client) -> Any:
        begun = asyncio.Event()

        async def progress(done: float, total: float | None, message: str | None) -> None:
            begun.set()

        call = asyncio.create_task(client.call_tool("validate", ENDLESS, progress_callback=progress))
        await begun.wait()
        call.cancel()
        return await client.call_tool("explain", {"model": TOLD, "options": {"layer": "SOFTMAX_7", "no-prices": True}})

    assert document(talk(folder, talking, "--jobs", "1"))["document"] == "explain"


def test_time_and_sizes_have_limits(folder: Path) -> None:
    async def talking(client: Client) -> Any:
        return await client.call_tool("validate", ENDLESS)

    assert said(talk(folder, talking, "--time-limit", "1")).startswith("it takes longer than 1 s, which is what a job")
    refused = said(talk(folder, talking, "--max-upload", "1000"))
    assert "at most 1,000 bytes are read" in refused and "--max-upload" in refused
    assert JobLimits().waiting == 500
